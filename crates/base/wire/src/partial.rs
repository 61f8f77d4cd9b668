//! [`PartialChecksum`]: a UDP or TCP checksum that its sender left to be completed.
//!
//! A kernel leaves the checksum of a packet that it sends to the network card, if the interface claims that the card computes
//! checksums (`CHECKSUM_PARTIAL`, Documentation/networking/checksum-offloads.rst of Linux). The field then holds the folded sum
//! of the pseudo-header, and the checksum is the complement of the sum from the transport header to the end, field included.
//! Between namespaces (veth) no card ever does so: the mark stays beside the packet, and whoever takes only its bytes has to
//! complete them before they go to somebody who checks.
//!
//! # Without the mark
//! [`PartialChecksum::find`] takes a packet for partial if its field equals the sum of its pseudo-header. One in 65,536 complete
//! packets has a checksum of that value by chance. Completing it writes the same value again: with the pseudo-header's sum P
//! and the sum D of the rest, its checksum is `!(P + D)`; the field holds P, so the complement of `field + D` is `!(P + D)` too.
//! A packet that was damaged on its way, and whose field has that value by chance, becomes valid: one in 65,536 damaged ones, as
//! many as the checksum itself lets pass.

use crate::bytes::{array, be16};
use crate::{EtherType, Protocol, Sum, vlan, vxlan};
use crate::{ethernet, ipv6, tcp, udp};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Where a partial checksum lies, and what it covers. Bytes from the start of the frame.
///
/// ```
/// use linerate_wire::{PartialChecksum, Stack, ethernet, ipv4, udp, verify_checksums};
/// let stack = Stack::new()
///     .with(ethernet::Header::default())
///     .with(ipv4::Header { src: [192, 0, 2, 1].into(), dst: [192, 0, 2, 2].into(), ..Default::default() })
///     .with(udp::Header::default());
/// let mut frame = stack.build(60).unwrap().bytes;
/// let pseudo = linerate_wire::ipv4::Packet::new_checked(&frame[14..]).unwrap().pseudo_sum(26);
/// frame[40..42].copy_from_slice(&pseudo.fold().to_be_bytes());
/// assert!(verify_checksums(&frame).is_err());
/// assert!(PartialChecksum::find(&frame).unwrap().complete(&mut frame));
/// assert!(verify_checksums(&frame).is_ok());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartialChecksum {
    /// Where the covered bytes start: the UDP or TCP header.
    pub start: usize,
    /// Where the checksum's two bytes are.
    pub field: usize,
    /// Where the covered bytes end.
    pub end: usize,
}

impl PartialChecksum {
    /// Finds the UDP or TCP checksum of a frame that holds the bare sum of its pseudo-header: over IPv4 and IPv6, behind VLAN
    /// tags, and inside VXLAN on the standard port. `frame` may end behind the headers.
    #[inline]
    pub fn find(frame: &[u8]) -> Option<PartialChecksum> {
        // This is asked of each packet, and most are complete ones of two kinds.
        let is_complete = match frame.get(12..14)? {
            [0x08, 0x00] => is_complete_over_ipv4(frame),
            [0x86, 0xdd] => is_complete_over_ipv6(frame),
            _ => false,
        };
        if is_complete { None } else { in_ethernet(frame, 0, false) }
    }

    /// Computes the checksum and writes it; false, and nothing has happened, if it does not lie inside `packet`.
    pub fn complete(self, packet: &mut [u8]) -> bool {
        match self.checksum([&*packet]) {
            Some(checksum) => {
                packet[self.field..self.field + 2].copy_from_slice(&checksum.to_be_bytes());
                true
            }
            None => false,
        }
    }

    /// The checksum of a packet that lies in several pieces, never 0x0000; `None` if the packet ends too early.
    pub fn checksum<'a>(self, pieces: impl IntoIterator<Item = &'a [u8]>) -> Option<u16> {
        let (mut sum, mut at) = (Sum::new(), 0);
        for piece in pieces {
            let (from, to) = (self.start.max(at), self.end.min(at + piece.len()));
            if from < to {
                sum = sum.add_slice_at(from - self.start, &piece[from - at..to - at]);
            }
            at += piece.len();
        }
        let inside = self.start <= self.field && self.field + 2 <= self.end && self.end <= at;
        inside.then(|| sum.finish_udp())
    }
}

/// True if the frame is UDP or TCP over IPv4 without options or tags, and there is nothing to find in it.
#[inline]
fn is_complete_over_ipv4(frame: &[u8]) -> bool {
    let Some(header) = frame.first_chunk::<54>() else { return false };
    let (0x45, Some(field)) = (header[14], field_of(header[23])) else { return false };
    // Sums are the same in each order of bytes (RFC 1071 section 2(B)), so addresses are added as they are.
    let len = u16::from_be_bytes([header[16], header[17]]).wrapping_sub(20);
    let pseudo = halves(header, 26) + rest_of_pseudo(header[23], len);
    differs(header, 34, field, pseudo)
}

/// As [`is_complete_over_ipv4`], for IPv6 without extension headers.
#[inline]
fn is_complete_over_ipv6(frame: &[u8]) -> bool {
    let Some(header) = frame.first_chunk::<74>() else { return false };
    let Some(field) = field_of(header[20]) else { return false };
    let len = u16::from_be_bytes([header[18], header[19]]);
    let addresses = halves(header, 22) + halves(header, 30) + halves(header, 38) + halves(header, 46);
    differs(header, 54, field, addresses + rest_of_pseudo(header[20], len))
}

#[inline]
fn field_of(protocol: u8) -> Option<usize> {
    match Protocol(protocol) {
        Protocol::TCP => Some(tcp::field::CHECKSUM.start),
        Protocol::UDP => Some(udp::field::CHECKSUM.start),
        _ => None,
    }
}

/// The two halves of eight bytes, added.
#[inline]
fn halves<const LEN: usize>(header: &[u8; LEN], at: usize) -> u64 {
    let word = u64::from_ne_bytes(array(header, at..at + 8));
    (word & 0xffff_ffff) + (word >> 32)
}

#[inline]
fn rest_of_pseudo(protocol: u8, len: u16) -> u64 {
    u64::from(u16::from(protocol).to_be()) + u64::from(len.to_be())
}

/// True if the checksum is for sure not the sum of the pseudo-header, and what is carried is no tunnel.
#[inline]
fn differs<const LEN: usize>(header: &[u8; LEN], start: usize, field: usize, pseudo: u64) -> bool {
    let at = start + field;
    let is_tunnel = field == udp::field::CHECKSUM.start && be16(header, start + 2..start + 4) == vxlan::PORT;
    let found = u16::from_ne_bytes([header[at], header[at + 1]]);
    // To fold a sum is to divide it by 65,535, but for the two faces of zero.
    !(pseudo + u64::from(!found)).is_multiple_of(0xffff) && !is_tunnel
}

/// Looks into the Ethernet frame at `at`, whose tags are skipped. `in_tunnel`: it is inside VXLAN; a second one is not looked into.
#[cold]
fn in_ethernet(frame: &[u8], at: usize, in_tunnel: bool) -> Option<PartialChecksum> {
    let mut ip_at = at + ethernet::HEADER_LEN;
    loop {
        let ethertype = EtherType(word(frame, ip_at - 2)?);
        match ethertype {
            EtherType::IPV4 => return in_ipv4(frame, ip_at, in_tunnel),
            EtherType::IPV6 => return in_ipv6(frame, ip_at, in_tunnel),
            _ if ethertype.is_vlan() => ip_at += vlan::HEADER_LEN,
            _ => return None,
        }
    }
}

fn in_ipv4(frame: &[u8], at: usize, in_tunnel: bool) -> Option<PartialChecksum> {
    let header: &[u8; 20] = frame.get(at..)?.first_chunk()?;
    let protocol = Protocol(header[9]);
    let is_fragment = be16(header, 6..8) & 0x3fff != 0;
    if !matches!(protocol, Protocol::TCP | Protocol::UDP) || is_fragment {
        return None;
    }
    let header_len = usize::from(header[0] & 15) * 4;
    let len = usize::from(be16(header, 2..4)).checked_sub(header_len)?;
    let [.., a, b, c, d, e, f, g, h] = *header;
    let (src, dst) = (Ipv4Addr::new(a, b, c, d), Ipv4Addr::new(e, f, g, h));
    let pseudo = Sum::pseudo_ipv4(src, dst, protocol.0, len as u16);
    in_transport(frame, Transport { start: at + header_len, len, protocol, pseudo, in_tunnel })
}

fn in_ipv6(frame: &[u8], at: usize, in_tunnel: bool) -> Option<PartialChecksum> {
    let header: &[u8; ipv6::HEADER_LEN] = frame.get(at..)?.first_chunk()?;
    let protocol = Protocol(header[6]);
    if !matches!(protocol, Protocol::TCP | Protocol::UDP) {
        return behind_extensions(frame, at, in_tunnel);
    }
    let len = usize::from(be16(header, 4..6));
    let packet = ipv6::Packet::new_unchecked(header);
    let (src, dst): (Ipv6Addr, Ipv6Addr) = (packet.src(), packet.dst());
    let pseudo = Sum::pseudo_ipv6(src, dst, protocol.0, len as u32);
    in_transport(frame, Transport { start: at + ipv6::HEADER_LEN, len, protocol, pseudo, in_tunnel })
}

fn behind_extensions(frame: &[u8], at: usize, in_tunnel: bool) -> Option<PartialChecksum> {
    let packet = ipv6::Packet::new_truncated(frame.get(at..)?).ok()?;
    let upper = packet.upper_layer().ok()?;
    if !matches!(upper.protocol, Protocol::TCP | Protocol::UDP) || upper.is_fragment || upper.is_routed {
        return None;
    }
    let len = usize::from(packet.payload_len()).checked_sub(upper.offset)?;
    let pseudo = packet.pseudo_sum(upper.protocol, len as u32);
    let start = at + ipv6::HEADER_LEN + upper.offset;
    in_transport(frame, Transport { start, len, protocol: upper.protocol, pseudo, in_tunnel })
}

/// A UDP or TCP header and its data.
struct Transport {
    start: usize,
    len: usize,
    protocol: Protocol,
    pseudo: Sum,
    in_tunnel: bool,
}

fn in_transport(frame: &[u8], transport: Transport) -> Option<PartialChecksum> {
    let Transport { start, len, protocol, pseudo, in_tunnel } = transport;
    let in_header = if protocol == Protocol::TCP { tcp::field::CHECKSUM } else { udp::field::CHECKSUM };
    let field = start + in_header.start;
    if word(frame, field)? == pseudo.fold() {
        return Some(PartialChecksum { start, field, end: start + len });
    }
    if protocol == Protocol::UDP && !in_tunnel && word(frame, start + udp::field::DST_PORT.start)? == vxlan::PORT {
        return in_ethernet(frame, start + udp::HEADER_LEN + vxlan::HEADER_LEN, true);
    }
    None
}

fn word(frame: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*frame.get(at..)?.first_chunk()?))
}
