//! The software switch as a program: any ports, the learning switch of `linerate-l2` between them, control over a socket.
//!
//! `linerate-worker` moves the packets, and `linerate-control` has the socket and the ports by name. Here is the part of an L2 switch:
//! its configuration, its requests and documents (`service.rs`, `show.rs`), mirrors, the MAC table, `valeS:P` names. What packets
//! pass is in `linerate-switch-loop`: the worker's loop, and [`InlineSwitch`], a switch without a thread of its own.
//!
//! The command line (`linerate switch`) and `valeS:P` names stand on [`start`] and [`vale`]; docs/switch.md says what the switch does with
//! a packet, and describes the socket.
#![forbid(unsafe_code)]

pub mod config;
pub mod document;
mod mirrors;
pub mod request;
mod run;
mod service;
mod settings;
mod show;
mod table;
pub mod vale;

pub use config::Config;
pub use linerate_control::StartError;
pub use linerate_switch_loop::{Clocks, InlinePort, InlineSwitch};
pub use run::{Ended, Options, Running, start};
