//! `xdp:IF[@queue]` - AF_XDP sockets as ports, by raw system calls: no C library, no compiler at run time.
//!
//! The pool's region is the UMEM, so frames pass between this port and others by handing over slots. A small program
//! (`linerate_bpf::programs::redirect_xsk`) sends what arrives on the interface's queues to the sockets; it is attached
//! through a bpf_link and so is gone when the process is, however it ends.
//!
//! ```text
//!   open.rs      spec -> device: options, errors that say what to do
//!   attach.rs    the program on an interface, shared by the ports of this process
//!   port.rs      the port of one queue: totals, the interface's state
//!   queue.rs     one socket: receive.rs and transmit.rs
//!   rings.rs     the ends of the four rings, with checked indices
//!   key.rs       the card's RSS key, while it is another
//!   umem.rs      the region as UMEM, shares of its frames; placement.rs: where in them packets are received
//!   loans.rs     the frames that the kernel has
//!   sys.rs       system calls, shared memory: all that is unsafe
//!   abi.rs       the kernel's constants
//! ```
//!
//! Each queue is a port of the device, with the program of the interface in common.
//!
//! Options: `native` or `generic` (where the program runs; native first unless said), `zerocopy=yes|no` (zero-copy where the
//! driver has it unless said), `frags` (packets over several frames, up to 9,000 bytes; chosen without being asked for if the
//! MTU makes packets that one frame cannot take), `ring=N` (entries of the fill and receive ring, 8,192; the transmit ring has
//! at most 2,048), `budget=N` (packets that one system call may send), `busy_poll=N` (preferred busy polling: a call that finds
//! nothing takes up to N packets out of the device on its own core; see below), `defer=US` (while the device is open, the
//! interface collects packets for US microseconds before its receive work runs: [`linerate_sys::napi`]), `queues=N` (N queues from `@queue` on), `tx_only` (no
//! program is attached, CAP_NET_RAW is enough), `promisc=no` (do not take packets for other hardware addresses; the mode ends
//! with the device, whatever ends the process), `symmetric` (while the device is open, the card has an RSS key that gives both directions
//! of a flow the same queue; a driver without RSS, such as veth, is refused. After kill -9 the interface keeps both until an `xdp:` port
//! is opened on it again, which puts back what was), `merge=yes|no` (TCP segments with partial checksums that follow each other leave as one packet,
//! by an AF_PACKET socket that `linerate-ports` opens beside this one, where the kernel copies each frame; `linerate tcp` asks for it
//! where the interface has one transmit queue).
//!
//! Partial checksums, which a host leaves to a network card, are completed where a packet's checksum is the bare sum of its
//! pseudo-header ([`linerate_wire::PartialChecksum`]); AF_XDP shows no mark of them. That costs some 50 instructions a packet, and
//! is left out for native programs on hardware, where packets come from a wire. While a native program is attached to a veth, its peer
//! sends no packets longer than the MTU. A generic program gets such packets, and they are lost as longer than a frame: `packet:` cuts them.
//!
//! Busy polling (`SO_PREFER_BUSY_POLL`, Linux 5.11 and later, CAP_NET_ADMIN) has an effect only where the interface defers its interrupts,
//! with `defer`, and on a veth with NAPI (`ethtool -K IF gro on` or a program), which a native program turns on.
//!
//! Another MTU is noticed while the port is open: at once when it made room, else within some hundred calls.

mod abi;
mod attach;
mod fault;
mod key;
mod loans;
#[cfg(test)]
mod loans_tests;
mod open;
mod placement;
mod port;
mod queue;
mod receive;
mod rings;
mod sys;
mod transmit;
mod umem;

pub use open::open;
pub use port::XdpPort;
