//! Topologies, DUTs, trials, ledger, environment record.

pub mod cache_line;
pub mod cleanup;
pub mod counters;
pub mod cpu;
pub mod drops;
pub mod dut;
pub mod environment;
mod fixed_loop;
pub mod hooks;
pub mod ledger;
pub mod napi;
pub mod netlink;
pub mod placement;
pub mod places;
pub mod prefixes;
pub mod proc_net;
pub mod run;
pub mod runner;
mod stalls;
pub mod sysctl;
pub mod tcp;
pub mod tester;
pub mod topology;
