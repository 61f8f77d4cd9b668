//! `linerate pkt-gen`: netmap's pkt-gen for every kind of port.
//!
//! [`options`] turns words into a checked run, [`format`] makes the lines that scripts parse, [`usage`] lists what differs from
//! the original. Those are pure; the rest of the folder moves packets.

pub mod format;
pub mod getopt;
pub mod interface;
pub mod log;
pub mod options;
pub mod ranges;
pub mod usage;

mod checks;
