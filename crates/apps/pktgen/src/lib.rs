//! `linerate pkt-gen`: netmap's pkt-gen for every kind of port.
//!
//! ```text
//!   words -> getopt.rs -> letters.rs (ranges.rs interface.rs) -> checks.rs -> options.rs: a checked run, or one error
//!   run.rs      ports.rs opens one port a thread, crew.rs starts the threads (cpus.rs), report.rs prints while they work
//!   threads     transmit.rs (packet.rs) | replay.rs | receive.rs, count.rs (arrivals.rs, quota.rs, sequence.rs) | ping.rs (round_trip.rs) | pong.rs
//!   format.rs   the lines that scripts parse; log.rs writes them
//! ```
//! [`usage`] lists what differs from the original.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod format;
pub mod getopt;
pub mod interface;
pub mod log;
pub mod options;
pub mod parse;
pub mod ranges;
pub mod run;
mod start_error;
pub mod usage;

mod arrivals;
mod checks;
mod count;
mod cpus;
mod crew;
mod dump;
mod fragment;
mod letters;
mod pace;
mod packet;
mod ping;
mod pong;
mod ports;
mod quota;
mod receive;
mod replay;
mod report;
mod round_trip;
mod sequence;
mod transmit;
mod worker;
