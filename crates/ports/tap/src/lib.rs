//! `tap:NAME` - a TAP device: an Ethernet interface whose other end is this port and not a cable.
//!
//! ```text
//! transmit   batch -> write(2), one call a packet -> the kernel receives the packet on NAME
//! receive    the kernel sends a packet on NAME -> its queue (1,000 packets) -> read(2) into the pool's frames -> batch
//! ```
//! The device is made in the network namespace of the thread that opens the port, set up, and gone when the port is - also
//! when the process is killed - unless it was there before (`ip tuntap add`), which is taken as it is. What the kernel finds
//! no room for in the device's queue shows among the port's drops. It may be renamed, or moved to another network namespace
//! (`ip link set NAME netns BOX`, which sets it down: `ip -n BOX link set NAME up`), and the port stays with it; a port whose device
//! is down says so and goes on once it is up.
//!
//! Each packet has a note in front (`struct virtio_net_hdr`), so that neither side does what nobody needs: the kernel hands over partial
//! checksums, and up to 64 KiB of TCP data in one packet, which this port cuts into the segments that it stands for; TCP segments of one
//! connection that follow each other in a batch, with partial checksums, are written as one packet. The kernel's half shows, and is turned off, by
//! `ethtool -k NAME` (tx-checksumming, tcp-segmentation-offload).
//!
//! Options: `mtu=BYTES` (68 to 65521; the kernel gives a new device 1,500); `no_offload`: checksums are complete and packets fit the MTU, both
//! ways. Needs CAP_NET_ADMIN.

mod device;
mod open;
mod port;
mod sys;

pub use open::{open, probe};
pub use port::TapPort;
