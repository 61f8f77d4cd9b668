//! The sending loop of a trial: several ports in turn on one thread, with notes of when it was away. Everything that paces, counts or
//! parses is in `linerate-gen`; loops of one port are in `linerate-worker`.

mod lanes;
mod turns;

pub use lanes::{Kept, Lane, send_lanes};
pub use turns::{Arrived, Marks, NOTED_NS, Span, Spans, TurnLog};
