//! ICMP for IPv6 (RFC 4443).

use crate::icmp;
pub use crate::icmp::{HEADER_LEN, field};

/// Type: destination unreachable.
pub const UNREACHABLE: u8 = 1;
/// Type: time exceeded.
pub const TIME_EXCEEDED: u8 = 3;
/// Type: echo request.
pub const ECHO_REQUEST: u8 = icmp::ECHO_REQUEST[1];
/// Type: echo reply.
pub const ECHO_REPLY: u8 = icmp::ECHO_REPLY[1];
/// Type: router solicitation (RFC 4861).
pub const ROUTER_SOLICITATION: u8 = 133;
/// Type: router advertisement (RFC 4861).
pub const ROUTER_ADVERTISEMENT: u8 = 134;
/// Type: neighbor solicitation (RFC 4861).
pub const NEIGHBOR_SOLICITATION: u8 = 135;
/// Type: neighbor advertisement (RFC 4861).
pub const NEIGHBOR_ADVERTISEMENT: u8 = 136;

/// A view of an ICMPv6 message.
///
/// ```
/// use linerate_wire::{Sum, icmpv6};
/// let echo = icmpv6::Header { kind: icmpv6::ECHO_REQUEST, identifier: 7, sequence: 1, ..Default::default() };
/// let mut bytes = [0; 12];
/// echo.emit(&mut bytes);
/// let mut packet = icmpv6::Packet::new_checked(&mut bytes).unwrap();
/// let pseudo = Sum::pseudo_ipv6([1; 16].into(), [2; 16].into(), 58, 12);
/// packet.fill_checksum(pseudo);
/// assert!(packet.verify_checksum(pseudo) && packet.is_echo());
/// ```
pub type Packet<T> = icmp::Packet<T, true>;

/// The fields of the header; identifier and sequence stand for the second word of any type.
pub type Header = icmp::Header<true>;
