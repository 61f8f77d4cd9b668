//! `linerate pkt-gen`: netmap's pkt-gen for every kind of port. What packets pass of it, the work of its threads, is in `linerate-pktgen-loop`.
//!
//! ```text
//!   words -> getopt.rs -> letters.rs (ranges.rs interface.rs) -> checks.rs -> options.rs: a checked run, or one error
//!   run.rs      ports.rs opens one port a thread, crew.rs starts the threads (cpus.rs, packet.rs, pace.rs), report.rs prints while they work
//!   format.rs   the lines that scripts parse
//! ```
//! [`usage`] lists what differs from the original.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod format;
pub mod getopt;
pub mod interface;
pub mod options;
pub mod parse;
pub mod ranges;
pub mod run;
mod start_error;
pub mod usage;

mod checks;
mod cpus;
mod crew;
mod letters;
mod pace;
mod packet;
mod ports;
mod report;
