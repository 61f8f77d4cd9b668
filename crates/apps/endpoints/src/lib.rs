//! Programs over the TCP stack (`linerate-programs`) over a port, and sockets.
//!
//! ```text
//! sockets/      streams and listeners for threads and for tasks of tokio and its like        tls/   TLS under any program
//! run.rs        a program over a port: stack, worker, control socket      stack.rs: the stack's configuration
//! service.rs    its requests (request.rs) and documents (document.rs, made by show.rs)
//! ```
//! The command line (`linerate tcp`) stands on this crate; docs/tcp.md says what the programs do.
#![forbid(unsafe_code)]

pub mod document;
mod names;
mod ready;
pub mod request;
mod run;
mod service;
mod show;
pub mod sockets;
mod stack;
pub mod tls;

pub use linerate_control::StartError;
pub use run::{Ended, Options, PROGRAM, Running, start, start_load, start_server, start_shards};
pub use stack::{NetworkConfig, StackOptions};
