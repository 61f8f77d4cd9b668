//! Checks and codes that several parts of the layer share.

use core::net::{IpAddr, Ipv6Addr, SocketAddr};

use linerate_mem::Checksum;
use linerate_wire::{ParseError, Protocol, Sum, icmpv4, icmpv6, tcp, udp};

use super::ErrorOut;
use crate::counters::DropReason;
use crate::inbound::Original;

/// Type of ICMPv6: a header field is wrong.
pub(super) const PARAMETER_PROBLEM6: u8 = 4;

/// An ICMPv4 error to send.
#[derive(Clone, Copy, Debug)]
pub(super) struct Error4 {
    pub kind: u8,
    pub code: u8,
    pub word: u32,
}

/// The error that a transport asks for.
pub(super) fn error4_of(error: ErrorOut) -> Error4 {
    let code = match error {
        ErrorOut::PortUnreachable => 3,
        ErrorOut::Prohibited => 13,
    };
    Error4 { kind: icmpv4::UNREACHABLE, code, word: 0 }
}

/// An ICMPv6 error to send.
#[derive(Clone, Copy, Debug)]
pub(super) struct Error6 {
    pub kind: u8,
    pub code: u8,
    pub word: u32,
}

/// The fragments of a packet did not come in time.
pub(super) const REASSEMBLY_TIME_EXCEEDED: Error6 = Error6 { kind: icmpv6::TIME_EXCEEDED, code: 1, word: 0 };

/// The error that a transport asks for.
pub(super) fn error6_of(error: ErrorOut) -> Error6 {
    let code = match error {
        ErrorOut::PortUnreachable => 4,
        ErrorOut::Prohibited => 1,
    };
    Error6 { kind: icmpv6::UNREACHABLE, code, word: 0 }
}

/// The reason for which a packet is dropped that cannot be parsed.
pub(super) fn drop_of(error: ParseError) -> DropReason {
    match error {
        ParseError::Truncated { .. } => DropReason::Truncated,
        ParseError::Malformed { .. } => DropReason::Malformed,
    }
}

/// True for addresses that another host can have.
pub(super) fn is_host6(address: Ipv6Addr) -> bool {
    let is_mapped = address.to_ipv4_mapped().is_some();
    !address.is_multicast() && !address.is_unspecified() && !address.is_loopback() && !is_mapped
}

/// Checks length and checksum of a TCP segment. `pseudo` is the sum of the pseudo-header with the segment's length.
pub(super) fn check_tcp(segment: &[u8], pseudo: Sum, checksum: Checksum) -> Result<(), DropReason> {
    if segment.len() < tcp::HEADER_LEN {
        return Err(DropReason::Truncated);
    }
    let is_right = checksum != Checksum::Unknown || pseudo.add_slice(segment).is_valid();
    if is_right { Ok(()) } else { Err(DropReason::TransportChecksum) }
}

/// Checks length and checksum of a UDP datagram, and returns its length. `pseudo` is the sum of the pseudo-header with the length of
/// `payload`; a datagram may be shorter than that.
pub(super) fn check_udp(payload: &[u8], pseudo: Sum, checksum: Checksum, may_lack: bool) -> Result<usize, DropReason> {
    let datagram = udp::Packet::new_checked(payload).map_err(drop_of)?;
    let len = datagram.length();
    let is_right = match datagram.checksum() {
        0 => may_lack,
        _ if checksum != Checksum::Unknown => true,
        _ => pseudo.sub_u16(payload.len() as u16).add_u16(len).add_sum(datagram.sum()).is_valid(),
    };
    if is_right { Ok(usize::from(len)) } else { Err(DropReason::TransportChecksum) }
}

/// Ports and sequence number of a quoted TCP segment or UDP datagram, of which at least 8 bytes are there.
pub(super) fn quoted_transport(protocol: Protocol, local: IpAddr, remote: IpAddr, bytes: &[u8]) -> Option<Original> {
    let [a, b, c, d, sequence @ ..] = bytes.first_chunk::<8>()?;
    if !matches!(protocol, Protocol::TCP | Protocol::UDP) {
        return None;
    }
    let port = |high: &u8, low: &u8| u16::from_be_bytes([*high, *low]);
    let sequence = (protocol == Protocol::TCP).then(|| u32::from_be_bytes(*sequence));
    let (local, remote) = (SocketAddr::new(local, port(a, b)), SocketAddr::new(remote, port(c, d)));
    Some(Original { protocol, local, remote, sequence })
}
