//! `vhost:SOCKET` - a vhost-user device: the network card of a virtual machine, or of a DPDK program (net_virtio_user), whose
//! cable ends in this port.
//!
//! ```text
//! front-end (QEMU, DPDK)                          back-end (this port)
//!   protocol    <------- UNIX socket ------->      serve.rs, control.rs: a thread of their own; memory and rings are set up
//!   guest memory, rings  === mapped here ===>      memory.rs, ring.rs, sys.rs
//!   driver transmits     ring 1, 3, ... ---->      receive.rs:  one copy into the pool's frames
//!   driver receives  <-- ring 0, 2, ...            transmit.rs: one copy into the guest's buffers
//! ```
//! Options: `role=server|client` (who listens; server), `queues=N` (queue pairs, 1 to 64; 1), `mtu=BYTES` (68 to 65521; 1500),
//! `mode=OCTAL` (rights of the socket; 600).
//!
//! **What is offered** of virtio 1.2: split rings, mergeable receive buffers, indirect descriptors, notifications by index,
//! several queue pairs, use in order, legacy drivers. **Not**: packed rings, checksum and segmentation offloads (packets that
//! are forwarded must be complete; one that is not is dropped and counted), live migration, an IOMMU.
//!
//! **Without a peer** the port stays as it is: packets to it are lost and counted, and the next front-end finds a fresh device.
//! A front-end that connects while another is there is sent away.
//!
//! **The peer is not trusted.** What it writes is read once and checked: numbers of descriptors, their chains, lengths,
//! addresses, indices, flags. A peer that wrote what cannot be loses its connection ([`VhostPort::peers`] says why); the port
//! does not fail. Its memory must be in a memfd, or a file of /dev/shm or huge pages: a page of a file system that another
//! process serves could take for ever to come. A file that is cut short while it is mapped raises SIGBUS, which
//! [`linerate_sys::shared`] survives with zeros in the place of such a region. Descriptors for notifications must be eventfds;
//! they are made non-blocking and never read. A front-end's *process*, not its guest, can undo that with fcntl(2): a port that then hangs
//! in an interrupt is freed by a thread that looks after that, and the connection ends.

// The body of the fuzz target names this crate from outside.
#[cfg(test)]
extern crate self as linerate_port_vhost;

mod control;
mod device;
mod enable;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
#[cfg(test)]
mod hostile_tests;
mod interrupts;
mod memory;
mod open;
mod options;
mod port;
mod receive;
mod ring;
#[cfg(test)]
mod rings_tests;
mod serve;
mod socket;
mod sys;
mod transmit;
mod virtio;

pub use open::open;
pub use port::VhostPort;
pub use serve::Peers;
