//! What an experiment stands on: namespaces and links, devices under test, and the record of the machine.
//!
//! Each line uses those below it only (`cargo xtask tidy` finds circles):
//!
//! ```text
//! cleanup                                     what killed runs left behind
//! dut                                         devices under test
//! topology, environment                       namespaces, links, addresses; the record of a machine
//! placement, switches, napi                   which core works where; switches' own accounts
//! netlink, proc_net, sysctl, prefixes, threads, cpu
//! ```

pub mod cleanup;
pub mod cpu;
pub mod dut;
pub mod environment;
pub mod napi;
pub mod netlink;
pub mod placement;
pub mod prefixes;
pub mod proc_net;
pub mod switches;
pub mod sysctl;
pub mod threads;
pub mod topology;
