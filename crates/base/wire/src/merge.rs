//! [`Merge`]: joins TCP segments of one connection that follow each other to one packet, which a kernel or a network card cuts again.
//!
//! A kernel takes up to 64 KiB of TCP data in one packet, with a note of how it is to be cut (`struct virtio_net_hdr`,
//! linux/virtio_net.h), and works on it once: most of what a segment costs on its way through a kernel is paid by packet. The result
//! is what `tcp_gso_segment` of Linux cuts, and [`crate::Segments`] here, into the segments that went in: same data, flags, options
//! and windows. Only the identification of IPv4, which counts nothing without fragments (RFC 6864), may differ.

use crate::bytes::{be16, be32};
use crate::{EtherType, Protocol, ethernet, ipv4, ipv6, tcp};

/// Most bytes of headers: Ethernet, IPv6 and TCP with options.
const HEADERS_MAX: usize = ethernet::HEADER_LEN + ipv6::HEADER_LEN + 60;
/// Most bytes of a merged packet: lengths of IP are 16 bits.
const LEN_MAX: usize = 65_535;

/// Segments on their way of being joined. Their data stay with the caller.
///
/// ```
/// use linerate_wire::{Merge, Stack, ethernet, ipv4, tcp};
/// let segment = |sequence: u32, len: usize| {
///     let stack = Stack::new().with(ethernet::Header::default());
///     let stack = stack.with(ipv4::Header { dont_fragment: true, ..Default::default() });
///     let header = tcp::Header { sequence, flags: tcp::Flags::ACK, ..Default::default() };
///     stack.with(header).build(54 + len).unwrap().bytes
/// };
/// let mut merge = Merge::begin(&segment(7, 1000)).unwrap();
/// assert!(merge.append(&segment(1007, 1000)) && merge.append(&segment(2007, 500)));
/// assert!(!merge.append(&segment(2507, 500)), "a short segment is the last one");
/// assert_eq!((merge.segments(), merge.size(), merge.finish().len()), (3, 1000, 54));
/// ```
#[derive(Clone, Debug)]
pub struct Merge {
    /// Those of the first segment; lengths, checksums and flags are written at the end.
    headers: [u8; HEADERS_MAX],
    headers_len: usize,
    is_ipv6: bool,
    /// Bytes of data in each segment but the last.
    size: usize,
    data_len: usize,
    segments: usize,
    /// Flags that only the last segment may have.
    last_flags: u8,
    /// The last segment is in.
    is_over: bool,
}

impl Merge {
    /// Begins with the Ethernet frame of a TCP segment over IPv4 (which must not be fragmented, and has no options) or IPv6 (without
    /// extension headers), without tags, that carries data and has no flags but ACK, PSH and FIN. `None` for any other frame. The
    /// segment's checksum is not looked at, because the merged packet's is partial ([`crate::PartialChecksum`]).
    #[inline]
    pub fn begin(frame: &[u8]) -> Option<Merge> {
        let (is_ipv6, transport_at) = transport(frame)?;
        let header = frame.get(transport_at..transport_at + tcp::HEADER_LEN)?;
        let headers_len = transport_at + usize::from(header[12] >> 4) * 4;
        let flags = header[13];
        if headers_len < transport_at + tcp::HEADER_LEN || headers_len >= frame.len() || flags & !LAST_ONLY != ACK {
            return None;
        }
        let mut headers = [0; HEADERS_MAX];
        headers[..headers_len].copy_from_slice(&frame[..headers_len]);
        let (size, last_flags) = (frame.len() - headers_len, flags & LAST_ONLY);
        let is_over = last_flags != 0;
        Some(Merge { headers, headers_len, is_ipv6, size, data_len: size, segments: 1, last_flags, is_over })
    }

    /// Appends the segment that follows; false, and nothing has happened, if the frame is not that segment, or if there is no room.
    #[inline]
    pub fn append(&mut self, frame: &[u8]) -> bool {
        if !self.follows(frame) {
            return false;
        }
        let len = frame.len() - self.headers_len;
        self.last_flags = frame[self.transport_at() + 13] & LAST_ONLY;
        self.is_over = self.last_flags != 0 || len < self.size;
        self.data_len += len;
        self.segments += 1;
        true
    }

    #[inline]
    fn follows(&self, frame: &[u8]) -> bool {
        let (at, end) = (self.transport_at(), self.headers_len);
        let has_room = frame.len() > end && frame.len() <= end + self.size && self.data_len + frame.len() <= LEN_MAX;
        if self.is_over || !has_room || transport(frame) != Some((self.is_ipv6, at)) {
            return false;
        }
        let same = |from: usize, to: usize| frame[from..to] == self.headers[from..to];
        // Lengths, identification and checksum of IP differ; the length was checked.
        let same_ip =
            if self.is_ipv6 { same(0, 18) && same(20, at) } else { same(0, 16) && same(20, 24) && same(26, at) };
        let expected = be32(&self.headers, at + 4..at + 8).wrapping_add(self.data_len as u32);
        same_ip
            && same(at, at + 4)
            && be32(frame, at + 4..at + 8) == expected
            && same(at + 8, at + 13)
            && frame[at + 13] & !LAST_ONLY == ACK
            && same(at + 14, at + 16)
            && same(at + 18, end)
    }

    /// Segments that are in.
    #[inline]
    pub fn segments(&self) -> usize {
        self.segments
    }

    /// Bytes of data in each segment but the last.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Bytes of the headers, in each segment and in the merged packet.
    pub fn headers_len(&self) -> usize {
        self.headers_len
    }

    /// Bytes of data in all segments.
    pub fn data_len(&self) -> usize {
        self.data_len
    }

    /// Where the TCP header begins.
    #[inline]
    pub fn transport_at(&self) -> usize {
        ethernet::HEADER_LEN + if self.is_ipv6 { ipv6::HEADER_LEN } else { ipv4::HEADER_LEN }
    }

    /// True if the segments are over IPv6.
    pub fn is_ipv6(&self) -> bool {
        self.is_ipv6
    }

    /// Writes the headers of the merged packet, which stand in front of the data of all segments. The TCP checksum is partial.
    pub fn finish(&mut self) -> &[u8] {
        let at = self.transport_at();
        let transport_len = self.headers_len - at + self.data_len;
        let (network, header) =
            self.headers[ethernet::HEADER_LEN..self.headers_len].split_at_mut(at - ethernet::HEADER_LEN);
        let pseudo = if self.is_ipv6 {
            let mut ip = ipv6::Packet::new_unchecked(network);
            ip.set_payload_len(transport_len as u16);
            ip.pseudo_sum(Protocol::TCP, transport_len as u32)
        } else {
            let mut ip = ipv4::Packet::new_unchecked(network);
            ip.set_total_len((ipv4::HEADER_LEN + transport_len) as u16);
            ip.fill_checksum();
            ip.pseudo_sum(transport_len as u16)
        };
        header[13] |= self.last_flags;
        tcp::Packet::new_unchecked(header).set_checksum(pseudo.fold());
        &self.headers[..self.headers_len]
    }
}

const ACK: u8 = tcp::Flags::ACK.0;
/// A kernel clears these in all segments but the last.
const LAST_ONLY: u8 = tcp::Flags::PSH.0 | tcp::Flags::FIN.0;

/// Whether TCP is over IPv6, and where it begins, in a plain frame that ends where IP says.
#[inline]
fn transport(frame: &[u8]) -> Option<(bool, usize)> {
    const IPV4_AT: usize = ethernet::HEADER_LEN + ipv4::HEADER_LEN;
    const IPV6_AT: usize = ethernet::HEADER_LEN + ipv6::HEADER_LEN;
    /// Don't fragment, no other flag, and no offset.
    const WHOLE: u16 = 0x4000;
    let rest = frame.len().checked_sub(ethernet::HEADER_LEN)?;
    let ip: &[u8; ipv4::HEADER_LEN] = frame.get(ethernet::HEADER_LEN..)?.first_chunk()?;
    match EtherType(be16(frame, 12..14)) {
        EtherType::IPV4 => {
            let is_plain = ip[0] == 0x45 && be16(ip, 6..8) == WHOLE && ip[9] == Protocol::TCP.0;
            (is_plain && usize::from(be16(ip, 2..4)) == rest).then_some((false, IPV4_AT))
        }
        EtherType::IPV6 => {
            let is_plain = ip[0] >> 4 == 6 && ip[6] == Protocol::TCP.0;
            (is_plain && usize::from(be16(ip, 4..6)) + ipv6::HEADER_LEN == rest).then_some((true, IPV6_AT))
        }
        _ => None,
    }
}
