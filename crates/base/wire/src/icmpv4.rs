//! ICMP for IPv4 (RFC 792).

use crate::icmp;
pub use crate::icmp::{HEADER_LEN, field};

/// Type: echo reply.
pub const ECHO_REPLY: u8 = icmp::ECHO_REPLY[0];
/// Type: destination unreachable.
pub const UNREACHABLE: u8 = 3;
/// Type: echo request.
pub const ECHO_REQUEST: u8 = icmp::ECHO_REQUEST[0];
/// Type: time exceeded.
pub const TIME_EXCEEDED: u8 = 11;

/// A view of an ICMP message.
///
/// ```
/// use linerate_wire::icmpv4;
/// let echo = icmpv4::Header { kind: icmpv4::ECHO_REQUEST, identifier: 7, sequence: 1, ..Default::default() };
/// let mut bytes = [0; 12];
/// echo.emit(&mut bytes);
/// let mut packet = icmpv4::Packet::new_checked(&mut bytes).unwrap();
/// packet.fill_checksum();
/// assert!(packet.verify_checksum() && packet.is_echo());
/// ```
pub type Packet<T> = icmp::Packet<T, false>;

/// The fields of the header; identifier and sequence stand for the second word of any type.
pub type Header = icmp::Header<false>;
