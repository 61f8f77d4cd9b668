//! `tap:NAME` - a TAP device: an Ethernet interface whose other end is this port and not a cable.
//!
//! ```text
//! transmit   batch -> write(2), one call a packet -> the kernel receives the packet on NAME
//! receive    the kernel sends a packet on NAME -> its queue (1,000 packets) -> read(2) into the pool's frames -> batch
//! ```
//! The device is made in the network namespace of the thread that opens the port, set up, and gone when the port is - also
//! when the process is killed - unless it was there before (`ip tuntap add`), which is taken as it is. What the kernel finds
//! no room for in the device's queue shows among the port's drops.
//!
//! Option: `mtu=BYTES` (68 to 65521; the kernel gives a new device 1,500). Needs CAP_NET_ADMIN.

mod counters;
mod open;
mod port;
mod sys;

pub use open::{open, probe};
pub use port::TapPort;
