//! `memif:SOCKET` - shared memory with another process: VPP, DPDK, another Linerate. Protocol version 2, both roles.
//!
//! ```text
//! memif:SOCKET[@queue][,id=N][,role=server|client][,rings=N][,queues=N][,slots=N][,buffer=BYTES][,mode=interrupt|poll][,secret=TEXT][,corrupt=close|next]
//! memif:SOCKET,role=client,zerocopy[,...]
//!
//!   server             SOCKET (UNIX, SEQPACKET)              client
//!   listens   <--- handshake: memory, rings, eventfds ---    connects, again and again until it succeeds
//!   both      <=== rings and buffers in that memory ====>    both
//! ```
//! A server owns the socket, of mode 0600, and many ids behind it; a client brings the memory. Either may come first, and go and come
//! again: a port without a peer receives nothing, takes nothing to send, and stays usable. `SOCKET` is a path, or (written `\@NAME`) an
//! abstract name. Only processes of the same user, or of root, are talked to.
//!
//! Each queue pair of an interface is a port; with `@queue` that one alone is opened. Packets are copied once, between a frame of the pool and the shared memory; longer ones go over several
//! buffers. What is in a ring counts as sent.
//!
//! A client with `zerocopy` copies nothing: the frames of its pool (see [`pool`]) are the buffers, and slots are handed over and taken
//! back. The peer can then read and write all frames of that pool at any time. Where a slot's packet lies is in private memory
//! all the same, and no peer is given the memory while another process has it.
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
mod count;
mod handoff;
mod handshake;
#[cfg(any(test, fuzzing))]
pub mod hostile;
#[cfg(test)]
mod hostile_tests;
mod lent;
mod link;
mod listener;
mod message;
mod offer;
mod open;
mod options;
mod pool;
mod port;
mod receive;
mod sides;
mod sys;
mod transmit;
mod zero_copy_rx;
mod zero_copy_tx;

pub use open::open;
pub use pool::{has_own_memory, pool};
pub use port::MemifPort;
