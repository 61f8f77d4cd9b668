//! `dpdk:DEVARGS` - DPDK's poll mode drivers: network cards that the kernel gave away, and DPDK's virtual devices (docs/dpdk.md).
//!
//! ```text
//! frame of the pool <-> mbuf      mbuf N describes frame N for good (a pinned external buffer), so nothing is copied
//! free mbufs                      are free frames: the mempool's operations take them from the pool (shim/memory.c)
//! batch -> slots' words -> mbufs -> rte_eth_tx_burst     one call of the shim a batch (shim/queue.c)
//! ```
//!
//! The crate is empty without its feature `libdpdk`, because it needs that library to be built.
#![cfg(feature = "libdpdk")]

mod device;
mod eal;
mod memory;
mod offload;
mod open;
mod port;
mod sys;

pub use open::open;
pub use port::DpdkPort;

/// The version of libdpdk that the crate was built with, for example "DPDK 22.11.11".
pub fn version() -> String {
    sys::version()
}
