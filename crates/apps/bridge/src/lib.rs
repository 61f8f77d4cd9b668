//! `linerate bridge` and `linerate lb`: they move packets between ports until they are stopped. What packets pass of them, their datapaths and the
//! worker's loop, is in `linerate-bridge-loop`.
//!
//! ```text
//! bridge/      packets of one port to another, both ways
//! lb/          packets of one port over several, by flow
//! frame.rs     flags, start, progress, end
//! crew.rs      their workers, each on its thread
//! account.rs   parts of their documents: a run, what was sent by a port, drops; as JSON and for people
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod account;
pub mod bridge;
mod crew;
pub mod frame;
pub mod lb;
