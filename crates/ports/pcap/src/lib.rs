//! `pcap:IF` - libpcap as a port: what `tcpdump` and scripts for it see, by the same library, which is loaded when the first
//! such port is opened and need not be there otherwise.
//!
//! ```text
//! receive    interface -> libpcap's ring (TPACKET_V3 on Linux) -> copied into the pool's frames -> batch
//! transmit   batch -> pcap_inject, one call a packet -> qdisc -> driver
//! ```
//! `packet:IF` does the same with less copying and in larger batches; this port is for comparison, and for what only a
//! libpcap brings along. Only what arrives is received, not what this machine sends. Timestamps are libpcap's, in nanoseconds,
//! turned into the clock of `linerate_sys::clock`.
//!
//! Partial checksums, which a host leaves to a network card, are completed where a packet's checksum is the bare sum of its
//! pseudo-header; TCP packets longer than the MTU, which a host left to be cut, are cut to it. libpcap shows neither the mark of the
//! one nor the size for the other; UDP packets that are several in one stay long.
//!
//! Options: `buffer=BYTES` (65536 to 1073741824, default 16777216), `timeout=MS` (how long libpcap may gather packets before
//! it hands them over, 1 to 1000, default 8), `promisc=no` (do not take packets for other hardware addresses), `filter=EXPRESSION` (tcpdump's language; run in the kernel where
//! libpcap can; a comma in it needs a backslash).
//!
//! [`compile`] uses libpcap's compiler of capture filters alone.

mod device;
mod filter;
mod open;
mod port;
mod receive;
mod sys;

pub use filter::{FilterError, compile, compile_for};
pub use open::{open, probe};
pub use port::PcapPort;
