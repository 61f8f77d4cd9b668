//! `xdplive:IF` - transmit by BPF_PROG_RUN with live XDP frames: the kernel makes the frames itself, a program writes them,
//! and they go to the interface's `ndo_xdp_xmit` without a socket buffer (the technique of xdp-trafficgen).
//!
//! Two ways to send:
//! - [`linerate_port::TxGenerator`]: a stream reduced to a template and field rules becomes a program of its own, which
//!   makes millions of packets in one system call. This is what the backend is for. See `stream.rs`.
//! - [`linerate_port::Port::transmit`]: packets of any contents are copied into a map and sent from there by a program that
//!   copies them once more, one system call for up to 256 packets. Right, but no faster than a socket. See `copy.rs`.
//!
//! **The far side** must be able to take XDP frames. A veth is when its *other* end runs NAPI: `ethtool -K PEER gro on`, or an
//! XDP program attached to it. Otherwise the port says so with the first packets.
//!
//! **Accounts.** What a program handed on is counted by the program; what the interface took or refused is read from the
//! driver's own counters (veth: `tx_queue_N_xdp_xmit`, `..._errors`) after each run; the rest was refused by the kernel before
//! it reached the interface. These counters belong to the interface: with two senders of live frames on one interface at the
//! same time, refusals are told to both. See `account.rs`.
//!
//! The MTU is read again before each call's packets: what has become too long for it is an error, not a lost packet.
//!
//! Option: `batch=N` (frames between flushes, 1 to 256; 64).
#![forbid(unsafe_code)]

mod account;
mod copy;
mod open;
mod port;
mod stream;

pub use open::open;
pub use port::XdpLivePort;
