//! One file for each subcommand: its arguments, and the call that does the work.

pub mod bench;
pub mod doctor;
pub mod pkt_gen;
pub mod ports;
pub mod receive;
pub mod send;
