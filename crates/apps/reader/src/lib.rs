//! `linerate read`: what is in capture files.
//!
//! ```text
//! input.rs    one file, plain or compressed      line.rs    a packet as a line, or as JSON
//! packets.rs  all files, one after the other     flows.rs   the table of flows, as text or JSON
//!             or by time                         output.rs  the packets again, in a new file
//! cut.rs      which packets, by number or time   layers.rs  headers as JSON
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod cut;
pub mod flows;
pub mod input;
pub mod layers;
pub mod line;
pub mod output;
pub mod packets;
