//! One file for each subcommand: its arguments, and the call that does the work.

pub mod bench;
mod bench_capture;
pub mod bridge;
pub mod capture;
pub mod compare;
pub mod completions;
mod ctl;
pub mod doctor;
pub mod lab;
pub mod lb;
pub mod ofswitch;
mod ofswitch_ctl;
pub mod pkt_gen;
pub mod ports;
mod ports_pci;
pub mod read;
pub mod receive;
pub mod report;
pub mod send;
mod status;
pub mod switch;
mod switch_ctl;
pub mod tcp;
mod tcp_connect;
mod tcp_ctl;
mod tcp_load;
mod tcp_serve;
