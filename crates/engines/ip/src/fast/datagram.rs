//! A usual UDP datagram over IPv4 is recognised by a few compares of whole words.

use linerate_mem::Checksum;
use linerate_wire::{Protocol, Sum, ethernet, ipv4, udp};

use super::{FastPath, HEAD_MASK};

/// A UDP datagram over IPv4 whose headers are those of nearly all datagrams: no VLAN tag, no options, no fragment, and nothing behind the
/// datagram in its packet. The datagram is for one of our addresses, and its checksums are right; its source address was not looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UsualDatagram4<'a> {
    headers: &'a [u8; UsualDatagram4::HEADERS_LEN],
    /// Bytes of data.
    pub data_len: u16,
}

impl UsualDatagram4<'_> {
    /// Bytes of the link header, the IP header and the UDP header.
    pub const HEADERS_LEN: usize = ethernet::HEADER_LEN + UsualDatagram4::PACKET_LEN as usize;
    /// Length of the IP packet without data.
    const PACKET_LEN: u16 = (ipv4::HEADER_LEN + udp::HEADER_LEN) as u16;

    /// Source and destination address, as they lie in memory.
    #[inline]
    pub fn addresses(&self) -> u64 {
        self.headers[26..].first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes))
    }

    /// Source and destination port, as they lie in memory.
    #[inline]
    pub fn ports(&self) -> u32 {
        self.headers[34..].first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes))
    }

    #[inline]
    fn word(&self, at: usize) -> u32 {
        self.headers[at..].first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes))
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

    /// Source port.
    #[inline]
    pub fn src_port(&self) -> u16 {
        (self.word(34) >> 16) as u16
    }

    /// Destination port.
    #[inline]
    pub fn dst_port(&self) -> u16 {
        self.word(34) as u16
    }
}

impl FastPath {
    /// The usual datagram of a frame.
    #[inline(always)]
    pub(crate) fn usual_datagram4<'a>(&self, frame: &'a [u8], checksum: Checksum) -> Option<UsualDatagram4<'a>> {
        let headers = frame.first_chunk::<{ UsualDatagram4::HEADERS_LEN }>()?;
        // Words as they lie in memory, which no instruction has to turn round.
        let word = |at: usize| headers[at..].first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
        let half = |at: usize| headers[at..].first_chunk().map_or(0, |bytes| u16::from_be_bytes(*bytes));
        // Destination MAC address and the group bit of the source; EtherType, version and header length; fragment and protocol.
        let differences = (word(0) & HEAD_MASK) ^ self.head
            | (word(12) ^ 0x0800_4500_0000_0000u64.to_be()) & 0xffff_ff00_0000_0000u64.to_be()
            | (word(16) ^ u64::from(Protocol::UDP.0).to_be()) & 0x0000_0000_3fff_00ffu64.to_be();
        // Less than the headers wraps to more than a frame can have.
        let data_len = half(16).wrapping_sub(UsualDatagram4::PACKET_LEN);
        let fits = usize::from(data_len) <= frame.len() - UsualDatagram4::HEADERS_LEN;
        let is_whole = half(38).wrapping_sub(udp::HEADER_LEN as u16) == data_len;
        let datagram = UsualDatagram4 { headers, data_len };
        if (differences != 0) | !fits | !is_whole || !self.is_own4(datagram.dst()) {
            return None;
        }
        (checksum != Checksum::Unknown || checksums_are_right(frame, data_len)).then_some(datagram)
    }

    /// True if the frame is probably one that [`FastPath::usual_datagram4`] takes: its protocol is UDP, and it is no fragment.
    #[inline(always)]
    pub(crate) fn may_be_datagram4(&self, frame: &[u8]) -> bool {
        let Some(headers) = frame.first_chunk::<{ UsualDatagram4::HEADERS_LEN }>() else { return false };
        let word = headers[20..].first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes));
        (word ^ u32::from(Protocol::UDP.0).to_be()) & 0x3fff_00ffu32.to_be() == 0
    }
}

/// True if both checksums of a usual datagram are right; a datagram without one of its own has only that of the IP header.
#[inline(never)]
fn checksums_are_right(frame: &[u8], data_len: u16) -> bool {
    let end = UsualDatagram4::HEADERS_LEN + usize::from(data_len);
    let Some(packet) = frame.get(ethernet::HEADER_LEN..end) else { return false };
    let Some((header, datagram)) = packet.split_first_chunk::<{ ipv4::HEADER_LEN }>() else { return false };
    let has_none = datagram.get(6..8) == Some(&[0, 0]);
    let pseudo = Sum::new().add_slice(&header[12..]).add_u16(Protocol::UDP.0.into()).add_u16(datagram.len() as u16);
    Sum::new().add_slice(header).is_valid() && (has_none || pseudo.add_slice(datagram).is_valid())
}
