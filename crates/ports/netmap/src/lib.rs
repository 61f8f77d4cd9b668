//! `netmap:PORT` - ports of netmap's kernel module: interfaces, the kernel's VALE switches, pipes and monitors.
//!
//! ```text
//! receive    the driver, a switch or a pipe -> buffers of the ring -> frames of the pool -> batch      one sync, or poll, for many packets
//! transmit   batch -> buffers of the ring -> NIOCTXSYNC
//! ```
//! netmap takes an interface away from the host's stack as long as a port is open. Names are those of netmap's own library (`name.rs`):
//! `netmap:eth1`, `eth1-2` (one ring pair), `eth1^` (the host's side), `eth1*` (both), `vale0:a` (a port of the kernel's switch; `vale0:a`
//! without `netmap:` is one of Linerate's own), `eth1{1` and `eth1}1` (two ends of a pipe), `eth1/r` `/t` `/z` (monitors), `/x` (alone).
//!
//! Options, which netmap writes behind `@conf:`: `slots`, `tx-slots`, `rx-slots`, `rings`, `tx-rings`, `rx-rings`, `host-rings`,
//! `host-tx-rings`, `host-rx-rings` for a port that is made by being opened; `mem=N`, the memory area; `queues=N`, the ring pairs that
//! are opened; `promisc`; `zerocopy`, with which the pool is made of buffers of the area ([`pool`]), and packets change hands without a copy.
//!
//! ```text
//! name.rs   the grammar of names        sys.rs    requests, syncs, the mapping     ring.rs      head and tail
//! open.rs   from a spec to a device     abi.rs    what the kernel's header says    receive.rs, transmit.rs, port.rs
//! pool.rs   the pool with `zerocopy`    exchange.rs   buffers change places           repeat.rs    one packet over and over
//!                                                                                   count.rs     packets that nobody reads
//! ```

mod abi;
mod count;
mod exchange;
#[cfg(test)]
mod exchange_tests;
mod fault;
mod name;
mod open;
mod pool;
mod port;
mod receive;
mod repeat;
mod ring;
#[cfg(test)]
mod ring_tests;
mod sys;
mod transmit;

pub use open::{open, probe};
pub use pool::{has_own_memory, pool};
pub use port::NetmapPort;
