//! What bytes pass of the programs over the TCP stack: TLS, sockets, and the worker's loop for each program. It is a crate of its own because it
//! is compiled to run fast; the rest of `linerate-endpoints`, which no byte passes, is compiled quickly (`profile.release.package` in
//! the workspace's Cargo.toml).
//!
//! ```text
//! capture.rs    what queues write into the file of `--capture`     connections.rs: the document of all connections
//! sockets/      streams and listeners for threads and for tasks of tokio and its like        tls/   TLS under any program
//! ```
#![forbid(unsafe_code)]

pub mod capture;
pub mod connections;
pub mod sockets;
pub mod tls;

use linerate_programs::OverStack;
use linerate_programs::load::Client;
use linerate_programs::serve::AnyServer;
use linerate_tcp::Sharded;
use linerate_worker::{Control, End, Worker};

use crate::sockets::Sockets;
use crate::tls::MaybeTls;

/// A worker with a shard of the stack, and the program `P` over it.
pub type TcpWorker<P> = Worker<Sharded<OverStack<P>>>;

/// [`Worker::run`] for servers.
pub fn run_server(worker: &mut TcpWorker<MaybeTls<AnyServer>>, control: &Control) -> End {
    worker.run(control)
}

/// [`Worker::run`] for the load generator.
pub fn run_load(worker: &mut TcpWorker<MaybeTls<Client>>, control: &Control) -> End {
    worker.run(control)
}

/// [`Worker::run`] for sockets.
pub fn run_sockets(worker: &mut TcpWorker<Sockets>, control: &Control) -> End {
    worker.run(control)
}
