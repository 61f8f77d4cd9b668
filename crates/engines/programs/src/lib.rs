//! Programs over the TCP stack (`linerate-tcp`), without clock and sockets: servers and a stateful load generator.
//!
//! ```text
//! network.rs    Program and Network: what a program is, and what it may ask for
//! over_stack.rs the same over the stack, and names that are looked up
//! either.rs     one of two programs, chosen when it starts
//! reports.rs    what a program tells of itself
//! serve/        echo, discard, chargen, HTTP
//! load/         the load generator: schedules, requests, its account
//! http/         HTTP/1.1 messages
//! ```
//! `linerate-endpoints` runs them over a port under control; the lab runs them between a device under test and itself.
#![forbid(unsafe_code)]

mod either;
pub mod http;
pub mod load;
#[cfg(test)]
mod loopback;
mod network;
mod over_stack;
mod reports;
pub mod serve;
mod table;
#[cfg(test)]
mod testing;
mod tls;

pub use either::Either;
pub use network::{Network, Program, Remote};
pub use over_stack::OverStack;
pub use reports::Reports;
pub use table::Table;
pub use tls::TlsDocument;
