//! Topologies, DUTs, trials, ledger, environment record.

pub mod cleanup;
pub mod cpu;
pub mod napi;
pub mod netlink;
pub mod placement;
pub mod prefixes;
pub mod run;
pub mod sysctl;
pub mod topology;
