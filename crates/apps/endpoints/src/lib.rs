//! Programs over the TCP stack (`linerate-programs`) over a port, and sockets.
//!
//! ```text
//! run.rs        a program over a port: stack, worker, control socket      stack.rs: the stack's configuration
//! host.rs       a port with sockets: streams and listeners for threads and for tasks of tokio and its like
//! service.rs    its requests (request.rs) and documents (document.rs, made by show.rs)     capture.rs: frames into a file
//! tls.rs        keys and certificates, who is trusted
//! deferral.rs   how long the interface of a closed loop collects packets
//! ```
//! TLS itself, sockets and the workers' loops are in `linerate-endpoints-loop`. The command line (`linerate tcp`) stands on this crate; docs/tcp.md says what the programs do.
#![forbid(unsafe_code)]

mod capture;
mod deferral;
pub mod document;
mod host;
mod names;
mod ready;
pub mod request;
mod run;
mod service;
mod show;
mod stack;
pub mod tls;

pub use deferral::AdaptiveDeferral;
pub use linerate_control::StartError;
pub use linerate_endpoints_loop::connections;
pub use run::{Ended, Options, PROGRAM, Running, start, start_load, start_server, start_shards};
pub use stack::{NetworkConfig, StackOptions};

/// Sockets over the stack for other threads and for async tasks: [`Host`](sockets::Host), and the streams and listeners that it gives.
pub mod sockets {
    pub use linerate_endpoints_loop::sockets::{Sockets, SocketsDocument, TcpListener, TcpStream};

    pub use crate::host::Host;
}
