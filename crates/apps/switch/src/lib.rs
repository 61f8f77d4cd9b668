//! The memory switch as a program: any ports, the learning switch of `linerate-l2` between them, control over a socket.
//!
//! ```text
//!   worker thread    every port in turn, in batches, through the engine; sleeps when nothing comes     hub.rs worker.rs idle.rs
//!        ^  | jobs between two batches; broken ports
//!        |  v
//!   control thread   clients of the socket, one line a request; opens ports and opens them again       server/ keeper.rs
//! ```
//! Read `worker.rs` first, then `hub.rs`. The command line (`linerate switch`) and `valeS:P` names stand on [`start`] and
//! [`vale`]; docs/switch.md says what the switch does with a packet, and describes the socket.
#![forbid(unsafe_code)]

mod bell;
pub mod client;
pub mod config;
pub mod document;
mod hub;
mod idle;
mod keeper;
mod opening;
pub mod place;
pub mod protocol;
mod run;
mod server;
mod settings;
mod showing;
pub mod vale;
mod words;
mod worker;

pub use config::Config;
pub use run::{Ended, Options, Running, StartError, start};
pub use words::{Word, span_ns};
