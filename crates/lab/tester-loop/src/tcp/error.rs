//! What can go wrong between two stacks.

use std::io;

use linerate_port::{OpenError, PortError};
use linerate_tcp::StackError;

/// Why two stacks cannot talk.
#[derive(Debug, thiserror::Error)]
pub enum PairError {
    /// A port could not be opened.
    #[error("{0}")]
    Port(#[from] OpenError),
    /// A port broke.
    #[error("{0}")]
    Broken(#[from] PortError),
    /// Packet memory could not be had.
    #[error("{0}")]
    Memory(#[from] linerate_mem::MapError),
    /// A stack could not be made.
    #[error("a TCP stack: {0}")]
    Stack(#[from] StackError),
    /// The system refused something.
    #[error("{0}")]
    System(#[from] io::Error),
    /// Nobody came to the other end of shared memory.
    #[error("nobody came to the other end of shared memory; the process there has to serve its sockets")]
    Lonely,
    /// The device passes nothing on, or its path ends in ports of the host.
    #[error("TCP needs a device that carries packets between two ends of the lab's own making")]
    NoEnds,
    /// The server cannot be reached.
    #[error("no connection could be made through the device before the load began; does it carry IPv4 and ARP?")]
    Unreachable,
    /// A peer of the test is not installed.
    #[error("{0}")]
    Missing(String),
    /// A program could not begin.
    #[error("{0}")]
    Program(String),
    /// Nothing came back.
    #[error("{0} of {1} connections came to stand; the others were lost, or took too long")]
    Short(usize, usize),
    /// The counters of the path cannot be read.
    #[error("the path's counters: {0}")]
    Counters(#[from] linerate_ledger::counters::CountersError),
    /// The counts contradict each other.
    #[error("{0}")]
    Account(#[from] linerate_report::AccountError),
    /// A signal asked to stop.
    #[error("stopped by a signal")]
    Stopped,
}
