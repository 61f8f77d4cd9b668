//! A fragment: which packet it belongs to, and where in it.

use linerate_wire::ipv6::ExtensionHeaders;
use linerate_wire::{Protocol, ipv4, ipv6};

use crate::FragmentDrop;

/// Bytes of headers in front of the data, at most.
pub const HEADERS_MAX: usize = 256;

/// A fragment of an IP packet.
pub struct Part<'a> {
    /// All bytes that fragments of one packet have in common, apart from those of `rest`.
    pub identity: Identity,
    /// Everything in front of the data, without IPv6's fragment header.
    pub headers: [&'a [u8]; 2],
    /// The data.
    pub data: &'a [u8],
    /// Where the data belong, in bytes.
    pub offset: usize,
    /// There are more behind these.
    pub more: bool,
    /// ECN bits.
    pub ecn: u8,
    /// IPv6: where in the headers the number of what follows stands, and the number.
    pub next_header: Option<(usize, u8)>,
    /// Where the IP header begins in the headers.
    pub network: usize,
}

/// Which packet a fragment is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    in_port: u32,
    tags: [u8; TAGS_MAX],
    src: u128,
    dst: u128,
    identification: u32,
    /// The protocol of IPv4, which is part of it, or none of a byte.
    protocol: u16,
}

/// Bytes of tags, and the EtherType, that count.
const TAGS_MAX: usize = 34;
/// A number that no protocol has: IPv6.
const OF_IPV6: u16 = 0x100;

impl Identity {
    /// Source address.
    pub fn src(&self) -> u128 {
        self.src
    }
}

impl<'a> Part<'a> {
    /// Takes a fragment apart.
    pub fn find(packet: &'a [u8], network: usize, in_port: u32) -> Result<Part<'a>, FragmentDrop> {
        let mut tags = [0; TAGS_MAX];
        let between = packet.get(12..network).unwrap_or(&[]);
        let len = between.len().min(TAGS_MAX);
        tags[..len].copy_from_slice(&between[..len]);
        let identity = Identity { in_port, tags, src: 0, dst: 0, identification: 0, protocol: 0 };
        let part = match packet.get(network).map(|first| first >> 4) {
            Some(4) => of_ipv4(packet, network, identity),
            Some(6) => of_ipv6(packet, network, identity),
            _ => None,
        };
        let part = part.ok_or(FragmentDrop::Malformed)?;
        let headers_len = part.headers[0].len() + part.headers[1].len();
        // All but the last consist of units of 8 bytes.
        let is_odd = part.more && !part.data.len().is_multiple_of(8);
        if is_odd || part.data.is_empty() {
            return Err(FragmentDrop::Malformed);
        }
        let in_ip = headers_len - network + part.offset + part.data.len();
        // IPv6's length does not count its fixed header.
        let limit = if part.next_header.is_some() { 65_535 + ipv6::HEADER_LEN } else { 65_535 };
        if headers_len > HEADERS_MAX || in_ip > limit {
            return Err(FragmentDrop::TooLarge);
        }
        Ok(part)
    }
}

fn of_ipv4(packet: &[u8], network: usize, identity: Identity) -> Option<Part<'_>> {
    let header = packet.get(network..)?;
    let header_len = usize::from(byte(header, 0) & 15) * 4;
    let data = header.get(..usize::from(be16(header, 2)))?.get(header_len..)?;
    let fragment = be16(header, ipv4::field::FRAGMENT.start);
    let identity = Identity {
        src: be32(header, 12).into(),
        dst: be32(header, 16).into(),
        identification: be16(header, 4).into(),
        protocol: byte(header, 9).into(),
        ..identity
    };
    Some(Part {
        identity,
        headers: [packet.get(..network + header_len)?, &[]],
        data,
        offset: usize::from(fragment & 0x1fff) * 8,
        more: fragment & 0x2000 != 0,
        ecn: byte(header, 1) & 3,
        next_header: None,
        network,
    })
}

fn of_ipv6(packet: &[u8], network: usize, identity: Identity) -> Option<Part<'_>> {
    let header = packet.get(network..)?;
    let start = network + ipv6::HEADER_LEN;
    let payload = packet.get(start..)?.get(..usize::from(be16(header, 4)))?;
    // Where the number of the fragment header stands: in the header in front of it.
    let mut number_at = network + ipv6::field::NEXT_HEADER.start;
    for extension in ExtensionHeaders::new(Protocol(byte(header, 6)), payload) {
        let extension = extension.ok()?;
        let Some((offset, more)) = extension.fragment() else {
            number_at = start + extension.offset;
            continue;
        };
        let behind = extension.offset + extension.bytes.len();
        let ipv6 = ipv6::Packet::new_unchecked(header.get(..ipv6::HEADER_LEN)?);
        let identity = Identity {
            src: ipv6.src().to_bits(),
            dst: ipv6.dst().to_bits(),
            identification: be32(extension.bytes, 4),
            protocol: OF_IPV6,
            ..identity
        };
        return Some(Part {
            identity,
            headers: [packet.get(..start)?, payload.get(..extension.offset)?],
            data: payload.get(behind..)?,
            offset: usize::from(offset) * 8,
            more,
            ecn: ipv6.traffic_class() & 3,
            next_header: Some((number_at, extension.bytes[0])),
            network,
        });
    }
    None
}

/// The 16-bit number at `at`; 0 outside of the bytes.
fn be16(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |found| u16::from_be_bytes(*found))
}

/// The 32-bit number at `at`; 0 outside of the bytes.
fn be32(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |found| u32::from_be_bytes(*found))
}

/// The byte at `at`; 0 outside of the bytes.
fn byte(bytes: &[u8], at: usize) -> u8 {
    bytes.get(at).copied().unwrap_or(0)
}
