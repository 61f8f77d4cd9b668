//! Programs over the TCP stack (`linerate-tcp`): servers, a client, a stateful load generator.
//!
//! ```text
//! network.rs    Program and Network: what a program is, and what it may ask for
//! serve/        echo, discard, chargen, HTTP
//! load/         the load generator: schedules, requests, its account
//! http/         HTTP/1.1 messages
//! sockets/      streams and listeners for threads and for tasks of tokio and its like
//! run.rs        a program over a port: stack, worker, control socket      stack.rs: the stack's configuration
//! service.rs    its requests (request.rs) and documents (document.rs, made by show.rs)
//! ```
//! The command line (`linerate tcp`) stands on this crate; docs/tcp.md says what the programs do.
#![forbid(unsafe_code)]

pub mod document;
pub mod http;
pub mod load;
#[cfg(test)]
mod loopback;
pub mod network;
mod ready;
mod reports;
pub mod request;
mod run;
pub mod serve;
mod service;
mod show;
pub mod sockets;
mod stack;
mod table;
#[cfg(test)]
mod testing;

pub use linerate_control::StartError;
pub use reports::Reports;
pub use run::{Ended, Options, PROGRAM, Running, start};
pub use stack::{NetworkConfig, StackOptions};
