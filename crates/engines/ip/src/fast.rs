//! The fast path in: a plain TCP segment or UDP datagram for one of our addresses is recognised by a few compares. Everything else takes
//! the general path, which says why it is not plain.

mod datagram;
mod syn;

use linerate_mem::Checksum;
use linerate_wire::{EtherType, Protocol, Sum, ethernet, vlan};

use crate::address::{Addresses, Run, contains4, contains6};
use crate::dhcp;
use crate::link::Link;
pub(crate) use datagram::UsualDatagram4;
pub use syn::UsualSyn4;

/// A plain TCP segment or UDP datagram over IPv4, without options or fragments, for one of our addresses, and not for the DHCP client. The
/// checksum of the IP header is right, that of the transport was not looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fast4 {
    /// Source address.
    pub src: u32,
    /// Destination address, one of ours.
    pub dst: u32,
    /// Where the transport header begins in the frame.
    pub offset: u16,
    /// Where the data end in the frame.
    pub end: u16,
    /// [`Protocol::TCP`] or [`Protocol::UDP`].
    pub protocol: Protocol,
    /// DSCP and ECN.
    pub tos: u8,
    /// Time to live.
    pub ttl: u8,
}

/// A plain TCP segment or UDP datagram over IPv6, without extension headers, for one of our addresses. The checksum of the transport was
/// not looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fast6 {
    /// Source address.
    pub src: u128,
    /// Destination address, one of ours.
    pub dst: u128,
    /// Where the transport header begins in the frame.
    pub offset: u16,
    /// Where the data end in the frame.
    pub end: u16,
    /// [`Protocol::TCP`] or [`Protocol::UDP`].
    pub protocol: Protocol,
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// Hop limit.
    pub hop_limit: u8,
}

/// A TCP segment over IPv4 whose headers are those of nearly all segments: no VLAN tag, no options of IP, no fragment, and for the only
/// option of TCP the timestamps, placed as RFC 7323 appendix A has them. The segment is for one of our addresses, and its checksums are
/// right; its source address was not looked at.
#[derive(Clone, Copy, Debug)]
pub struct Usual4<'a> {
    headers: &'a [u8; Usual4::HEADERS_LEN],
    /// The data of the segment.
    pub data: &'a [u8],
}

impl<'a> Usual4<'a> {
    /// Bytes of the link header, the IP header and the TCP header.
    pub const HEADERS_LEN: usize = 66;
    /// Length of the IP packet without data.
    const PACKET_LEN: u16 = 52;

    /// The segment of a frame that [`crate::Ip::usual4`] recognised, with as many bytes of data as it said.
    #[inline]
    pub fn of(frame: &'a [u8], data_len: u16) -> Option<Usual4<'a>> {
        let (headers, rest) = frame.split_first_chunk()?;
        Some(Usual4 { headers, data: rest.get(..usize::from(data_len))? })
    }

    #[inline]
    fn word(&self, at: usize) -> u32 {
        let bytes = self.headers;
        u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
    }

    /// Source address.
    #[inline]
    pub fn src(&self) -> u32 {
        self.word(26)
    }

    /// Destination address, one of ours.
    #[inline]
    pub fn dst(&self) -> u32 {
        self.word(30)
    }

    /// Source address in the upper half, destination address, one of ours, in the lower.
    #[inline]
    pub fn addresses(&self) -> u64 {
        self.headers[26..].first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
    }

    /// Source port in the upper half, destination port in the lower.
    #[inline]
    pub fn ports(&self) -> u32 {
        self.word(34)
    }

    /// Sequence number.
    #[inline]
    pub fn seq(&self) -> u32 {
        self.word(38)
    }

    /// Acknowledgment number.
    #[inline]
    pub fn ack(&self) -> u32 {
        self.word(42)
    }

    /// Flags of the TCP header, as bits.
    #[inline]
    pub fn flags(&self) -> u8 {
        self.headers[47]
    }

    /// Window, not scaled.
    #[inline]
    pub fn window(&self) -> u16 {
        self.word(46) as u16
    }

    /// Urgent pointer.
    #[inline]
    pub fn urgent(&self) -> u16 {
        self.word(50) as u16
    }

    /// ECN bits of the IP header.
    #[inline]
    pub fn ecn(&self) -> u8 {
        self.headers[15] & 3
    }

    /// TSval and TSecr.
    #[inline]
    pub fn timestamps(&self) -> (u32, u32) {
        (self.word(58), self.word(62))
    }
}

impl Fast4 {
    /// Header and data of the transport.
    #[inline]
    pub fn payload<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        frame.get(usize::from(self.offset)..usize::from(self.end)).unwrap_or_default()
    }

    /// The sum of the pseudo-header.
    #[inline]
    pub fn pseudo_sum(&self) -> Sum {
        Sum::new().add_u32(self.src).add_u32(self.dst).add_u16(self.protocol.0.into()).add_u16(self.end - self.offset)
    }

    /// True if the checksum of the transport is right; a UDP datagram without one must be told apart before.
    #[inline]
    pub fn checksum_is_right(&self, frame: &[u8]) -> bool {
        self.pseudo_sum().add_slice(self.payload(frame)).is_valid()
    }
}

impl Fast6 {
    /// Header and data of the transport.
    #[inline]
    pub fn payload<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        frame.get(usize::from(self.offset)..usize::from(self.end)).unwrap_or_default()
    }

    /// The sum of the pseudo-header.
    #[inline]
    pub fn pseudo_sum(&self) -> Sum {
        let len = self.end - self.offset;
        Sum::new().add_u128(self.src).add_u128(self.dst).add_u16(self.protocol.0.into()).add_u16(len)
    }

    /// True if the checksum of the transport is right.
    #[inline]
    pub fn checksum_is_right(&self, frame: &[u8]) -> bool {
        self.pseudo_sum().add_slice(self.payload(frame)).is_valid()
    }
}

/// Of the first eight bytes of a frame, as they lie in memory: destination MAC address, and the group bit of the source.
const HEAD_MASK: u64 = 0xffff_ffff_ffff_0100u64.to_be();

/// All that the fast path compares with.
#[derive(Debug)]
pub struct FastPath {
    /// Own MAC address.
    mac: u64,
    /// The first eight bytes of a frame for it, as they lie in memory; the last two are zero. All ones, which no frame has in those that
    /// [`HEAD_MASK`] leaves, if no segment is usual: in a VLAN, or without an address.
    head: u64,
    /// The first run of `in_use4`.
    first4: Run<u32>,
    vlan: Option<u16>,
    in_use4: Vec<Run<u32>>,
    in_use6: Vec<Run<u128>>,
    /// The first broadcast address; 0 if there is none.
    first_broadcast4: u32,
    /// The others.
    broadcast4: Vec<u32>,
    /// A DHCP client is here: what is for it takes the general path.
    has_dhcp: bool,
}

impl FastPath {
    /// For the addresses as they are now, beside a DHCP client if `has_dhcp`.
    pub fn new(link: Link, addresses: &Addresses, has_dhcp: bool) -> FastPath {
        let has_usual = link.vlan.is_none() && !addresses.in_use4.is_empty();
        FastPath {
            mac: link.mac.to_u64(),
            head: if has_usual { (link.mac.to_u64() << 16).to_be() } else { u64::MAX },
            first4: addresses.in_use4.first().copied().unwrap_or(Run { first: 0, behind: 0 }),
            vlan: link.vlan,
            in_use4: addresses.in_use4.clone(),
            in_use6: addresses.in_use6.clone(),
            first_broadcast4: addresses.broadcast4.first().copied().unwrap_or(0),
            broadcast4: addresses.broadcast4.get(1..).unwrap_or(&[]).to_vec(),
            has_dhcp,
        }
    }

    /// The frame behind its link header, if it is for our MAC address and of our VLAN, with what its EtherType says.
    #[inline]
    fn network<'a>(&self, frame: &'a [u8]) -> Option<(u16, &'a [u8], usize)> {
        let head = frame.first_chunk::<14>()?;
        let [a, b, c, d, e, f, g, ..] = *head;
        // The group bit of the source must be clear; its first byte stands beside the destination.
        if (u64::from_be_bytes([0, 0, a, b, c, d, e, f]) != self.mac) | (g & 1 != 0) {
            return None;
        }
        let kind = u16::from_be_bytes([head[12], head[13]]);
        match self.vlan {
            None => Some((kind, &frame[ethernet::HEADER_LEN..], ethernet::HEADER_LEN)),
            Some(vid) => {
                let tag = frame.get(14..18)?;
                let is_ours = kind == EtherType::VLAN.0 && u16::from_be_bytes([tag[0], tag[1]]) & vlan::MAX_VID == vid;
                is_ours.then(|| (u16::from_be_bytes([tag[2], tag[3]]), &frame[18..], 18))
            }
        }
    }

    /// See [`crate::Ip::usual4`].
    #[inline(always)]
    pub fn usual4(&self, frame: &[u8], checksum: Checksum) -> Option<u16> {
        let head = frame.first_chunk::<{ Usual4::HEADERS_LEN }>()?;
        // Words as they lie in memory, which no instruction has to turn round.
        let word = |at: usize| head[at..].first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
        let half = |at: usize| head[at..].first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes));
        let segment = Usual4 { headers: head, data: &[] };
        // Destination MAC address and the group bit of the source; EtherType, version and header length; fragment and protocol; header
        // length and options of TCP.
        let differences = (word(0) & HEAD_MASK) ^ self.head
            | (word(12) ^ 0x0800_4500_0000_0000u64.to_be()) & 0xffff_ff00_0000_0000u64.to_be()
            | (word(16) ^ 0x0000_0000_0000_0006u64.to_be()) & 0x0000_0000_3fff_00ffu64.to_be()
            | u64::from((half(46) ^ 0x8000_0000u32.to_be()) & 0xf000_0000u32.to_be())
            | u64::from(half(54) ^ 0x0101_080au32.to_be());
        // Less than the headers wraps to more than a frame can have.
        let data_len = u16::from_be_bytes([head[16], head[17]]).wrapping_sub(Usual4::PACKET_LEN);
        let fits = usize::from(data_len) <= frame.len() - Usual4::HEADERS_LEN;
        if (differences != 0) | !fits || !self.is_own4(segment.dst()) {
            return None;
        }
        (checksum != Checksum::Unknown || checksums_are_right(frame, data_len)).then_some(data_len)
    }

    /// True for one of our addresses; there is one at least.
    #[inline(always)]
    fn is_own4(&self, address: u32) -> bool {
        address.wrapping_sub(self.first4.first) <= self.first4.behind || contains4(&self.in_use4, address)
    }

    /// See [`crate::Ip::fast4`].
    #[inline]
    pub fn fast4(&self, frame: &[u8], checksum: Checksum) -> Option<Fast4> {
        let (kind, packet, offset) = self.network(frame)?;
        let header = packet.first_chunk::<20>()?;
        // Version 4, no options, no fragment.
        let fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff;
        if (kind != EtherType::IPV4.0) | (header[0] != 0x45) | (fragment != 0) {
            return None;
        }
        let word = |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let (src, dst) = (word(12), word(16));
        let protocol = Protocol(header[9]);
        let len = usize::from(u16::from_be_bytes([header[2], header[3]]));
        let data_min = match protocol {
            Protocol::TCP => 40,
            // A server sends a lease that is renewed to the address itself (RFC 2131 section 4.1).
            Protocol::UDP if self.has_dhcp && dhcp::is_for_client(&packet[20..]) => return None,
            Protocol::UDP => 28,
            _ => return None,
        };
        if (len < data_min) | (len > packet.len()) | (frame.len() > usize::from(u16::MAX)) {
            return None;
        }
        if !contains4(&self.in_use4, dst) || !self.may_send4(src) {
            return None;
        }
        if checksum == Checksum::Unknown {
            let sum = Sum::new().add_slice(header);
            if !sum.is_valid() {
                return None;
            }
        }
        // The frame is no longer than 65,535 bytes.
        let (start, end) = ((offset + 20) as u16, (offset + len) as u16);
        Some(Fast4 { src, dst, offset: start, end, protocol, tos: header[1], ttl: header[8] })
    }

    /// See [`crate::Ip::may_send4`].
    #[inline(always)]
    pub fn may_send4(&self, src: u32) -> bool {
        let first = src >> 24;
        (first.wrapping_sub(1) < 223) & (first != 127)
            && !contains4(&self.in_use4, src)
            && src != self.first_broadcast4
            && (self.broadcast4.is_empty() || !self.broadcast4.contains(&src))
    }

    /// See [`crate::Ip::fast6`].
    #[inline]
    pub fn fast6(&self, frame: &[u8]) -> Option<Fast6> {
        let (kind, packet, offset) = self.network(frame)?;
        let header = packet.first_chunk::<40>()?;
        if (kind != EtherType::IPV6.0) | (header[0] >> 4 != 6) {
            return None;
        }
        let address = |at: usize| header[at..].first_chunk::<16>().map(|bytes| u128::from_be_bytes(*bytes));
        let (src, dst) = (address(8)?, address(24)?);
        let protocol = Protocol(header[6]);
        let len = usize::from(u16::from_be_bytes([header[4], header[5]]));
        let data_min = match protocol {
            Protocol::TCP => 20,
            Protocol::UDP => 8,
            _ => return None,
        };
        if (len < data_min) | (len + 40 > packet.len()) | (frame.len() > usize::from(u16::MAX)) {
            return None;
        }
        // Neither unspecified, nor loopback, nor a group, nor mapped IPv4, nor our own.
        let may_send = src >> 32 != 0 && src >> 120 != 0xff && src >> 32 != 0xffff;
        if !may_send || !contains6(&self.in_use6, dst) || contains6(&self.in_use6, src) {
            return None;
        }
        let traffic_class = header[0] << 4 | header[1] >> 4;
        let (start, end) = ((offset + 40) as u16, (offset + 40 + len) as u16);
        Some(Fast6 { src, dst, offset: start, end, protocol, traffic_class, hop_limit: header[7] })
    }
}

/// True if both checksums of a usual segment are right.
#[inline(never)]
fn checksums_are_right(frame: &[u8], data_len: u16) -> bool {
    let end = Usual4::HEADERS_LEN + usize::from(data_len);
    let Some(packet) = frame.get(ethernet::HEADER_LEN..end) else { return false };
    let Some((header, payload)) = packet.split_first_chunk::<20>() else { return false };
    let len = payload.len() as u16;
    let pseudo = Sum::new().add_slice(&header[12..]).add_u16(Protocol::TCP.0.into()).add_u16(len);
    Sum::new().add_slice(header).is_valid() && pseudo.add_slice(payload).is_valid()
}
