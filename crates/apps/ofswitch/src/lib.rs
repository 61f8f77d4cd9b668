//! The OpenFlow switch as a program: any ports, the pipeline of `linerate-pipeline` between them, controllers over TCP and TLS.
//!
//! `linerate-worker` moves the packets, and `linerate-control` has the control socket and the ports by name. The control thread also has the
//! connections to controllers (`channel/`, and `linerate-ofswitch-loop` for their messages), whose sessions are those of `linerate-openflow`.
//! The command line (`linerate ofswitch`) stands on [`start`]; docs/ofswitch.md says what the switch does, and describes the socket.
#![forbid(unsafe_code)]

mod apply;
mod channel;
pub mod config;
pub mod document;
pub mod request;
mod run;
mod service;
mod settings;
mod show;
mod state;
mod steering;
pub mod target;
pub mod tls;
mod trace;

pub use config::Config;
pub use linerate_control::StartError;
pub use run::{Ended, Options, Running, start};
