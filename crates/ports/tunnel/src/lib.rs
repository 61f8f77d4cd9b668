//! `vxlan:REMOTE` and `gre:REMOTE` - the end of a tunnel to the host with this IPv4 address: Ethernet packets in UDP (RFC 7348), or in GRE
//! (RFC 2784, RFC 2890) with the protocol 0x6558.
//!
//! ```text
//! transmit   batch -> outer header + packet -> writev(2) on a raw IP socket -> the kernel: route, ARP, fragments
//! receive    the kernel: fragments put together, firewall -> raw IP socket -> readv(2) into the pool's frames -> inner packet -> batch
//! ```
//! The kernel of the namespace in which the port is opened routes the outer packets; this process writes and reads their headers. Thus it
//! works where the kernel has no device for the protocol, and the tunnel's key can be another one for each packet.
//!
//! | option | meaning |
//! |---|---|
//! | `key=N` | the VXLAN network identifier (24 bits), or the GRE key (32 bits); others' packets are ignored. Without it: 0, and no key in GRE |
//! | `key=flow` | every key, and each packet begins with its own: see [`linerate_port::TUNNEL_KEY_BYTES`]. For `linerate ofswitch` |
//! | `local=A.B.C.D` | the address of this end; the one that the kernel chooses if it is not given |
//! | `port=N` | the UDP port of VXLAN at both ends, 4789 |
//! | `mtu=BYTES` | longest IP packet inside, 1500; the kernel cuts longer outer packets into fragments |
//!
//! A kernel on the same host hands over TCP segments that it joined for a network card to cut; they are cut here, because nothing says where.
//!
//! Needs CAP_NET_RAW. Network cards must not join received packets of GRE: `ethtool -K eth0 gro off`.

mod encapsulation;
mod open;
mod port;
mod sys;

pub use open::{open_gre, open_vxlan, probe};
pub use port::TunnelPort;
