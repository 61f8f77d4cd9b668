//! What is under test: a stack with its program, seen from the wire, from the program, and in time.

use core::net::IpAddr;

use crate::script::{Call, EndReason, SoftError};

/// Addresses and ports of a flow, from the side of the stack under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoints {
    /// The stack's address.
    pub local: IpAddr,
    /// The stack's port; 0 before the stack has chosen one.
    pub local_port: u16,
    /// The address that the runner plays.
    pub remote: IpAddr,
    /// Its port.
    pub remote_port: u16,
}

/// What the program was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The connection stands.
    Connected,
    /// Bytes, in order.
    Received(Vec<u8>),
    /// The next so many bytes are urgent.
    Urgent(u32),
    /// The peer sends no more.
    PeerClosed,
    /// There is room again.
    Sendable,
    /// Something is wrong that does not end the connection.
    SoftError(SoftError),
    /// The connection is over.
    Closed(EndReason),
}

/// A stack and its program. Frames are Ethernet frames without FCS; times are nanoseconds of the subject's own clock.
pub trait Subject {
    /// The time.
    fn time_ns(&self) -> u64;

    /// Lets time pass up to `until_ns`, but not beyond the moment at which a frame leaves; returns that frame. Called with the present
    /// time it lets no time pass, and returns what has left already.
    fn next_frame(&mut self, until_ns: u64) -> Option<Vec<u8>>;

    /// Frames arrive together.
    fn deliver(&mut self, frames: &[Vec<u8>]);

    /// The program calls, about the flow with these endpoints.
    ///
    /// # Errors
    /// What the stack says, or that this subject cannot do it.
    fn call(&mut self, endpoints: &Endpoints, call: &Call) -> Result<(), String>;

    /// Takes the oldest thing that the program was told about the flow.
    fn event(&mut self, endpoints: &Endpoints) -> Option<Event>;

    /// A value of the connection or of the stack, as text: numbers without a unit.
    ///
    /// # Errors
    /// There is no such value.
    fn value(&mut self, endpoints: &Endpoints, name: &str) -> Result<String, String>;

    /// How late a frame may be seen, in nanoseconds: 0 under a virtual clock.
    fn lateness_ns(&self) -> u64 {
        0
    }

    /// Ends the subject; what it still held must have come back.
    ///
    /// # Errors
    /// What leaked.
    fn finish(&mut self) -> Result<(), String>;
}
