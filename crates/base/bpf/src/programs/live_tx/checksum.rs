//! Which checksums a template has, what each covers, and the part of each that never changes.
//!
//! A checksum is the complement of a ones' complement sum (RFC 1071). The sum of all bytes that stay the
//! same is computed here, once; a program adds the fields that vary and folds. Ones' complement sums do
//! not depend on byte order (RFC 1071 section 2 (B)), so both sides use this machine's.

use std::ops::Range;

use super::field::Field;

/// One checksum of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checksum {
    /// Where its two bytes stand.
    pub at: usize,
    /// The bytes that it covers; all ranges but the last have an even length.
    pub covers: Vec<Range<usize>>,
    /// What is added beside them (a pseudo header's length and protocol), as numbers.
    pub addend: u32,
    /// Zero means "none" here and is sent as 0xffff (UDP, RFC 768).
    pub zero_is_none: bool,
}

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const ETHERTYPE_MPLS: u16 = 0x8847;
const ETHERTYPES_VLAN: [u16; 2] = [0x8100, 0x88a8];
const PROTOCOL_ICMP: u8 = 1;
const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;
const PROTOCOL_ICMPV6: u8 = 58;
const PORT_VXLAN: u16 = 4789;

impl Checksum {
    /// The checksums of an Ethernet frame, innermost first: IPv4 header, UDP, TCP, ICMP and ICMPv6, behind VLAN
    /// tags, MPLS labels and VXLAN. A UDP checksum of 0 over IPv4 is left out of use. IPv6 extension
    /// headers and IPv4 fragments are not followed.
    pub fn all_of(frame: &[u8]) -> Vec<Checksum> {
        let mut found = Vec::new();
        ethernet(frame, 0, &mut found);
        found.reverse();
        found
    }

    /// The sum of what does not vary: all that is covered but for `fields` and the checksum itself.
    pub(crate) fn constant_part(&self, frame: &[u8], fields: &[Field]) -> u16 {
        let varies = |position: &usize| {
            (self.at..self.at + 2).contains(position) || fields.iter().any(|field| field.range().contains(position))
        };
        let mut sum = native(self.addend as u16) + native((self.addend >> 16) as u16);
        for range in &self.covers {
            for position in range.clone().filter(|position| !varies(position)) {
                let mut word = [0; 2];
                word[(position - range.start) % 2] = frame.get(position).copied().unwrap_or(0);
                sum += u64::from(u16::from_ne_bytes(word));
            }
        }
        while sum > 0xffff {
            sum = (sum >> 16) + (sum & 0xffff);
        }
        sum as u16
    }

    /// The covered range in which `field` lies; none if it lies outside of all.
    ///
    /// # Errors
    /// The field, if only a part of it is covered or it covers the checksum itself.
    pub(crate) fn range_of(&self, field: &Field) -> Result<Option<&Range<usize>>, ()> {
        let bytes = field.range();
        let touches = |range: &Range<usize>| range.start < bytes.end && bytes.start < range.end;
        if touches(&(self.at..self.at + 2)) {
            return Err(());
        }
        match self.covers.iter().find(|range| touches(range)) {
            None => Ok(None),
            Some(range) if range.start <= bytes.start && bytes.end <= range.end => Ok(Some(range)),
            Some(_) => Err(()),
        }
    }
}

/// A big-endian number as the word that a native load of its bytes gives.
fn native(number: u16) -> u64 {
    u64::from(u16::from_ne_bytes(number.to_be_bytes()))
}

fn ethernet(frame: &[u8], start: usize, found: &mut Vec<Checksum>) {
    let mut at = start + 12;
    let mut kind = word(frame, at);
    while kind.is_some_and(|kind| ETHERTYPES_VLAN.contains(&kind)) {
        at += 4;
        kind = word(frame, at);
    }
    at += 2;
    match kind {
        Some(ETHERTYPE_IPV4) => ipv4(frame, at, found),
        Some(ETHERTYPE_IPV6) => ipv6(frame, at, found),
        Some(ETHERTYPE_MPLS) => mpls(frame, at, found),
        _ => {}
    }
}

/// Labels up to the bottom of the stack (RFC 3032); then the first nibble tells what follows.
fn mpls(frame: &[u8], mut at: usize, found: &mut Vec<Checksum>) {
    while frame.get(at + 2).is_some_and(|byte| byte & 1 == 0) {
        at += 4;
    }
    at += 4;
    match frame.get(at).map(|byte| byte >> 4) {
        Some(4) => ipv4(frame, at, found),
        Some(6) => ipv6(frame, at, found),
        _ => {}
    }
}

fn ipv4(frame: &[u8], at: usize, found: &mut Vec<Checksum>) {
    let (Some(first), Some(total), Some(fragment)) = (frame.get(at), word(frame, at + 2), word(frame, at + 6)) else {
        return;
    };
    let header = at..at + usize::from(first & 0x0f) * 4;
    if header.len() < 20 || header.end > frame.len() {
        return;
    }
    let protocol = frame[at + 9];
    found.push(Checksum { at: at + 10, covers: vec![header.clone()], addend: 0, zero_is_none: false });
    let end = (at + usize::from(total)).min(frame.len());
    if fragment & 0x3fff == 0 && header.end < end {
        let addresses = at + 12..at + 20;
        let pseudo = if protocol == PROTOCOL_ICMP { None } else { Some(addresses) };
        transport(frame, header.end..end, protocol, pseudo, found);
    }
}

fn ipv6(frame: &[u8], at: usize, found: &mut Vec<Checksum>) {
    let (Some(payload), Some(protocol)) = (word(frame, at + 4), frame.get(at + 6)) else {
        return;
    };
    let end = (at + 40 + usize::from(payload)).min(frame.len());
    if at + 40 < end {
        transport(frame, at + 40..end, *protocol, Some(at + 8..at + 40), found);
    }
}

fn transport(frame: &[u8], body: Range<usize>, protocol: u8, pseudo: Option<Range<usize>>, found: &mut Vec<Checksum>) {
    let checksum_offset = match protocol {
        PROTOCOL_ICMP | PROTOCOL_ICMPV6 => 2,
        PROTOCOL_UDP => 6,
        PROTOCOL_TCP => 16,
        _ => return,
    };
    let at = body.start + checksum_offset;
    if at + 2 > body.end {
        return;
    }
    let is_udp = protocol == PROTOCOL_UDP;
    let over_ipv4 = pseudo.as_ref().is_none_or(|addresses| addresses.len() == 8);
    if !(is_udp && over_ipv4 && word(frame, at) == Some(0)) {
        let addend = if pseudo.is_some() { body.len() as u32 + u32::from(protocol) } else { 0 };
        let covers = pseudo.into_iter().chain([body.clone()]).collect();
        found.push(Checksum { at, covers, addend, zero_is_none: is_udp });
    }
    if is_udp && word(frame, body.start + 2) == Some(PORT_VXLAN) {
        ethernet(&frame[..body.end], body.start + 16, found);
    }
}

/// The big-endian 16-bit number at `at`.
fn word(frame: &[u8], at: usize) -> Option<u16> {
    frame.get(at..at + 2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
}
