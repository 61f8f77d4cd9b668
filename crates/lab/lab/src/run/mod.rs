//! The loops that join engines, ports and the clock: one thread sends (into one port, or several in turn), one receives. Everything that paces, counts or parses
//! is in `linerate-gen`; what is here reads the clock once a batch, and waits.

mod lanes;
mod receive;
mod replay;
mod send;
mod turns;
mod tx_generator;
mod wait;

pub use lanes::{Kept, Lane, send_lanes};
pub use receive::{ReceiveEnd, discard, receive};
pub use replay::{ReplayEnd, replay};
pub use send::{SendEnd, send};
pub use turns::{Arrived, Marks, NOTED_NS, Span, Spans, TurnLog};
pub use tx_generator::send_generated;
