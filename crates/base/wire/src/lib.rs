//! Header views and builders, checksums, flow keys.
//!
//! # One shape for every protocol
//! Each protocol has a module with the same items, so that learning [`udp`] is learning them all:
//! - `HEADER_LEN`: the length of the fixed header in bytes;
//! - `field`: where each field lies, as byte ranges from the start of the header;
//! - `Packet<T>`: a view of bytes that reads and writes fields in place (`T: AsRef<[u8]>`, setters
//!   where `T: AsMut<[u8]>` too);
//! - `Header`: the fields as plain values, with `parse`, `header_len` and `emit`.
//!
//! # When accessors panic
//! Bytes are hostile. `Packet::new_checked` accepts a buffer only if every header field lies inside
//! it and its lengths agree with each other. After that **no accessor and no setter panics**,
//! whatever the setters write: slices whose bounds come from the packet (`payload`, `options`) are
//! cut at the end of the buffer. `Packet::new_unchecked` skips the check: accessors of a buffer
//! shorter than the fixed header panic (they never read elsewhere). `Header::emit` panics if the
//! buffer is shorter than `header_len()`.
//!
//! # The rest
//! - [`checksum`]: the internet checksum, its incremental update, and [`Sum`], the accumulator
//!   under both;
//! - [`Stack`] builds a frame from headers, [`Layout`] says where everything went and which
//!   checksums cover what;
//! - [`Parsed`] finds the layers of a received frame, [`verify_checksums`] checks them;
//! - [`PartialChecksum`] completes what a kernel left to a network card, [`Segments`] cuts what it
//!   left to be cut, [`Merge`] joins segments for it;
//! - [`FlowKey`] is the 5-tuple of a frame and its hashes; [`flow_entry`] divides flows as a network card does;
//! - [`Summary`] and [`Hexdump`] show a frame to a human.
//!
//! # Not supported
//! IP in IP, IPv6 extension headers when building (they are skipped when parsing), options of Geneve, checksums of GRE,
//! jumbograms (RFC 2675), 802.3 length frames with LLC (they parse as Ethernet with an unknown
//! payload), ARP for other than Ethernet and IPv4.
//!
//! ```
//! use linerate_wire::{Stack, ethernet, ipv4, udp, verify_checksums};
//!
//! let stack = Stack::new()
//!     .with(ethernet::Header::default())
//!     .with(ipv4::Header { src: [198, 18, 0, 1].into(), dst: [198, 18, 0, 2].into(), ..Default::default() })
//!     .with(udp::Header { src_port: 1234, dst_port: 7, ..Default::default() });
//! let built = stack.build(60).unwrap();
//! assert_eq!(built.bytes.len(), 60);
//! assert!(verify_checksums(&built.bytes).is_ok());
//! ```
#![forbid(unsafe_code)]

pub mod arp;
pub mod checksum;
pub mod ethernet;
pub mod geneve;
pub mod gre;
pub mod icmpv4;
pub mod icmpv6;
pub mod ipv4;
pub mod ipv6;
pub mod mpls;
pub mod tcp;
pub mod udp;
pub mod vlan;
pub mod vxlan;

mod builder;
mod bytes;
mod dissect;
mod error;
mod extensions;
mod flow;
mod icmp;
mod kinds;
mod layout;
mod mac;
mod merge;
mod options;
mod partial;
mod pretty;
mod segments;
mod stack;
mod toeplitz;
mod verify;
mod view;

pub use builder::{BuildError, Built};
pub use checksum::Sum;
pub use dissect::{Ip, Parsed, Transport};
pub use error::ParseError;
pub use flow::FlowKey;
pub use kinds::{EtherType, LayerKind, Protocol};
pub use layout::{ChecksumField, ChecksumUpdate, LayerSpan, Layout};
pub use mac::{MacAddress, MacParseError};
pub use merge::Merge;
pub use options::Options;
pub use partial::PartialChecksum;
pub use pretty::{Hexdump, Summary};
pub use segments::Segments;
pub use stack::{Fill, Layer, Stack, UdpChecksum};
pub use toeplitz::{STEERING_ENTRIES, entry, flow_entry, fold4, fold6};
pub use verify::{ChecksumError, verify_checksums};
