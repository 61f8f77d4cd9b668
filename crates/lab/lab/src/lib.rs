//! Topologies, DUTs, trials, ledger, environment record.
//!
//! Each line uses those below it only (`cargo xtask tidy` finds circles):
//!
//! ```text
//! runner                                      experiments: cells, findings, one file a test
//! dut, cleanup                                devices under test, and what killed runs left behind
//! tcp, tester, lanes                          a TCP stack at each end of a path; packets from end to end: trials
//! stalls, fixed_loop                          when cores were away, and how fast they work
//! ledger                                      the account of a trial, and remarks on it
//! places                                      what the counters' differences say: losses by place and cause
//! counters                                    every counter of a path, read at once
//! drops                                       what the kernel says of the packets that it drops
//! topology, environment                       namespaces, links, addresses; the record of a machine
//! placement, switches, hooks, napi            which core works where; switches' own accounts; what the kernel lists
//! netlink, proc_net, sysctl, prefixes, turns, threads, cpu, cache_line
//! ```

pub mod cache_line;
pub mod cleanup;
mod core_clock;
pub mod counters;
pub mod cpu;
pub mod drops;
pub mod dut;
pub mod environment;
mod fixed_loop;
pub mod hooks;
pub mod lanes;
pub mod ledger;
pub mod napi;
pub mod netlink;
pub mod placement;
pub mod places;
pub mod prefixes;
pub mod proc_net;
pub mod runner;
mod stalls;
pub mod switches;
pub mod sysctl;
pub mod tcp;
pub mod tester;
mod threads;
pub mod topology;
pub mod turns;
