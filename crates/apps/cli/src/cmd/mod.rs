//! One file for each subcommand: its arguments, and the call that does the work.

#[cfg(target_os = "linux")]
pub mod bench;
#[cfg(target_os = "linux")]
mod bench_capture;
pub mod bridge;
#[cfg(target_os = "linux")]
pub mod capture;
#[cfg(target_os = "linux")]
pub mod compare;
pub mod completions;
#[cfg(target_os = "linux")]
mod ctl;
#[cfg(target_os = "linux")]
pub mod doctor;
#[cfg(target_os = "linux")]
pub mod lab;
pub mod lb;
#[cfg(target_os = "linux")]
pub mod ofswitch;
#[cfg(target_os = "linux")]
mod ofswitch_ctl;
pub mod pkt_gen;
#[cfg(target_os = "linux")]
pub mod ports;
#[cfg(target_os = "linux")]
mod ports_pci;
pub mod read;
pub mod receive;
#[cfg(target_os = "linux")]
pub mod report;
pub mod send;
mod status;
#[cfg(target_os = "linux")]
pub mod switch;
#[cfg(target_os = "linux")]
mod switch_ctl;
#[cfg(target_os = "linux")]
pub mod tcp;
#[cfg(target_os = "linux")]
mod tcp_connect;
#[cfg(target_os = "linux")]
mod tcp_ctl;
#[cfg(target_os = "linux")]
mod tcp_load;
#[cfg(target_os = "linux")]
mod tcp_serve;
