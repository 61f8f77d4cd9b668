//! `memif:SOCKET` - shared memory with another process: VPP, DPDK, another Linerate. Protocol version 2, both roles.
//!
//! ```text
//! memif:SOCKET[@queue][,id=N][,role=server|client][,rings=N][,slots=N][,buffer=BYTES][,mode=interrupt|poll][,secret=TEXT][,corrupt=close|next]
//!
//!   server             SOCKET (UNIX, SEQPACKET)              client
//!   listens   <--- handshake: memory, rings, eventfds ---    connects, again and again until it succeeds
//!   both      <=== rings and buffers in that memory ====>    both
//! ```
//! A server owns the socket, of mode 0600, and many ids behind it; a client brings the memory. Either may come first, and go and come
//! again: a port without a peer receives nothing, takes nothing to send, and stays usable. `SOCKET` is a path, or (written `\@NAME`) an
//! abstract name. Only processes of the same user, or of root, are talked to.
//!
//! A port serves all queue pairs of its interface (and sends on the first), or with `@queue` one of them; ports of several threads then
//! share one interface. Packets are copied once, between a frame of the pool and the shared memory; longer ones go over several
//! buffers. What is in a ring counts as sent.
//!
//! **What a peer can do.** It can write anything, at any time, into the memory that it shares, and cut the file short. Every index,
//! length, offset and flag is read once and checked; what was cut off reads as zeros (see [`linerate_sys::shared`]). A peer that breaks the
//! protocol loses its connection, and the port says [`linerate_port::PortError::PeerCorrupt`]: for good, or with `corrupt=next` once, and the port waits
//! for the next peer. No peer sees another's memory.
//!
//! Source: the protocol as libmemif and DPDK's net_memif speak it (`memif.h`); there is no other document of it.

// The body of the fuzz target names this crate from outside.
#[cfg(test)]
extern crate self as linerate_port_memif;

mod control;
mod handshake;
#[cfg(any(test, fuzzing))]
pub mod hostile;
#[cfg(test)]
mod hostile_tests;
mod link;
mod listener;
mod message;
mod open;
mod options;
mod port;
mod receive;
mod seat;
mod sys;
mod transmit;

pub use open::open;
pub use port::MemifPort;
