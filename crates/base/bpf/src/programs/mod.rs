//! The programs that Linerate runs, one file each.
//!
//! [`live_tx`] transmits and [`count_rx`] receives without a packet ever leaving the kernel; they meet in the
//! [`signature`]. [`redirect_xsk`] serves AF_XDP sockets, [`drop_count`] is the cheapest sink and [`forward`] the
//! cheapest forwarder. [`drop_reasons`] sees the packets that the kernel drops, and why, [`xdp_errors`] the frames that XDP
//! programs could not send on, [`neighbours`] the packets that wait for the address of a next hop; [`core_watch`] sees who takes a core away from a thread.

pub mod core_watch;
pub mod count_rx;
mod device_key;
pub mod drop_count;
pub mod drop_reasons;
pub mod forward;
pub mod histogram;
pub mod live_tx;
pub mod neighbours;
pub mod redirect_xsk;
pub mod signature;
pub mod xdp_errors;
