//! What packets pass of other TCP stacks under the load of `echo.rs`: the kernel's sockets, smoltcp.
//!
//! Each end works in rounds as ours do, both in turn on one core, or each on a core of its own (`pair.rs`).

pub mod linux;
pub mod smoltcp;

use linerate_experiment::EchoOrder;

use super::PairError;
use super::pair::{Cost, Rounds, drive};

/// Which connection sends next, and how many bytes went and came.
#[derive(Debug)]
pub struct Turns {
    connections: usize,
    /// Who sends when a byte came back; `None`: nobody does.
    pub order: Option<EchoOrder>,
    next: usize,
    /// Bytes that were sent.
    pub sent: u64,
    /// Bytes that came back.
    pub echoes: u64,
}

impl Turns {
    /// For so many connections.
    pub fn new(connections: usize) -> Turns {
        Turns { connections, order: None, next: 0, sent: 0, echoes: 0 }
    }

    /// A byte came back on a connection: the one that sends next.
    pub fn answered(&mut self, conn: usize) -> Option<usize> {
        self.echoes += 1;
        match self.order? {
            EchoOrder::Reply => Some(conn),
            EchoOrder::RoundRobin => Some(self.in_turn()),
        }
    }

    /// The next connection in turn.
    pub fn in_turn(&mut self) -> usize {
        let conn = self.next;
        self.next = if conn + 1 >= self.connections { 0 } else { conn + 1 };
        conn
    }
}

/// Segments of an end.
#[derive(Clone, Copy, Debug, Default)]
pub struct Segments {
    /// Sent, those that were sent again included.
    pub sent: u64,
    /// Received.
    pub received: u64,
    /// Sent again.
    pub again: u64,
}

/// An end of a stack.
pub trait End: Rounds {
    /// What it sent and received so far.
    fn segments(&mut self) -> Result<Segments, PairError>;

    /// What went wrong. The end does nothing from then on.
    fn failed(&mut self) -> Option<PairError>;
}

/// The end that opens connections and sends first.
pub trait Client: End {
    /// Who is next, and what went and came.
    fn turns(&mut self) -> &mut Turns;

    /// Sends a byte on a connection, and counts it in [`Turns::sent`] if it was taken.
    fn send(&mut self, conn: usize);

    /// Begins to open connections, up to `count` of those that are not begun.
    fn open(&mut self, count: usize);

    /// Begins to close connections, up to `count` of those that stand.
    fn close(&mut self, count: usize);

    /// Connections that came to stand, and that are closed.
    fn counts(&mut self) -> (usize, usize);

    /// True if something went wrong.
    fn has_failed(&self) -> bool;
}

/// Rounds of both ends, each on its core, until `is_over` says so. Returns what they cost.
///
/// # Errors
/// A signal asked to stop.
pub fn drive_peers(
    client: &mut dyn Client,
    server: &mut dyn End,
    cores: [Option<usize>; 2],
    is_over: &mut (dyn FnMut(&mut dyn Client, u64) -> bool + Send),
) -> Result<Cost, PairError> {
    drive(client, server, cores, &mut |client, now_ns| is_over(client, now_ns))
}
