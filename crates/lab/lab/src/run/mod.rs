//! The loops that join engines, ports and the clock: one thread sends, one receives. Everything that paces, counts or parses
//! is in `linerate-gen`; what is here reads the clock once a batch, and waits.

mod control;
mod receive;
mod send;

pub use control::{Control, Meter, MeterReading};
pub use receive::{ReceiveEnd, receive};
pub use send::{SendEnd, send};
