//! The parts of a capture that have no socket, no file, no thread and no clock.
//!
//! ```text
//! buffer.rs   records of packets in a large aligned buffer, ready to be written
//! head.rs     what every file begins with
//! account.rs  received, seen by the ring, dropped, written: it adds up or there is none
//! fill.rs     how full a ring or a queue was, and whether it would have lasted
//! rotate.rs   when a file ends, what the next one is called, which ones go
//! flows.rs    packets by flow, and the loss of signed streams
//! ```
//! How they are put together, and why: `docs/capture.md`.
#![forbid(unsafe_code)]

mod account;
mod buffer;
mod fill;
mod flows;
mod head;
mod rotate;

pub use account::{Account, AccountError, Counted};
pub use buffer::{ALIGNMENT, WriteBuffer};
pub use fill::{FillGauge, FillReport, Projection, holds_ns};
pub use flows::{FLOWS_MAX_DEFAULT, Flow, FlowTable};
pub use head::FileHead;
pub use rotate::{PolicyError, Reason, Rotation, RotationPolicy};
