//! A device that counts what it is sent itself, instead of passing it on: a capture.

use std::fmt;

/// Counts in place of the tester's own end. It is started before the load and ended when the path is at rest.
pub trait Capture: Send + Sync {
    /// Begins to count on so many ports, unless it does already.
    ///
    /// # Errors
    /// Why it cannot, in words.
    fn start(&self, ports: usize) -> Result<(), String>;

    /// Ends it, if nobody has, and says what it counted on one of its `ports`, from 0. A capture that failed counted nothing,
    /// and says so elsewhere.
    fn finish(&self, ports: usize, port: usize) -> Captured;
}

impl fmt::Debug for dyn Capture {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a capture")
    }
}

/// What a capture counted on one port.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Captured {
    /// Packets that it has.
    pub captured: u64,
    /// Packets that found its ring full.
    pub dropped_by_ring: u64,
    /// Packets that the writer of its file dropped.
    pub dropped_by_writer: u64,
    /// The port's interface.
    pub interface: String,
}
