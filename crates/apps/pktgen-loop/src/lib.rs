//! What packets pass of `linerate pkt-gen`: the work of each of its threads. It is a crate of its own because it is compiled to run fast; the
//! rest of `linerate-pktgen`, which no packet passes, is compiled quickly (`profile.release.package` in the workspace's Cargo.toml).
//!
//! ```text
//! worker.rs    what a thread is given, what it gives back, the worker's loop      counts.rs   packets, bytes, port calls
//! transmit.rs  -f tx, txseq        replay.rs   -P, -r
//! receive.rs   -f rx, rxseq: count.rs (where the port counts), arrivals.rs, quota.rs, sequence.rs
//! ping.rs      -f ping: round_trip.rs             pong.rs   -f pong
//! fragment.rs  -F, -M              dump.rs   -X              log.rs   where lines go
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod counts;
pub mod dump;
pub mod fragment;
pub mod log;
pub mod ping;
pub mod pong;
pub mod quota;
pub mod receive;
pub mod replay;
pub mod sequence;
pub mod transmit;
pub mod worker;

mod arrivals;
mod count;
mod round_trip;
