//! IPv4 (RFC 791 section 3.1; traffic class byte as of RFC 2474 and RFC 3168).

use crate::bytes::{be16, cut, put16};
use crate::view::view;
use crate::{LayerKind, Options, ParseError, Protocol, Sum};
use std::net::Ipv4Addr;

/// Header length without options, in bytes.
pub const HEADER_LEN: usize = 20;
/// Largest fragment offset, in units of 8 bytes.
pub const MAX_FRAGMENT_OFFSET: u16 = 0x1fff;

const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;

view! {
    /// A view of an IPv4 packet.
    ///
    /// ```
    /// use linerate_wire::{Protocol, ipv4};
    /// let header = ipv4::Header { protocol: Protocol::UDP, total_len: 28, ..Default::default() };
    /// let mut bytes = [0; 28];
    /// header.emit(&mut bytes);
    /// let packet = ipv4::Packet::new_checked(&bytes).unwrap();
    /// assert!(packet.verify_checksum());
    /// assert_eq!(packet.payload().len(), 8);
    /// assert_eq!(ipv4::Header::parse(&bytes), Ok(header));
    /// ```
    Packet {
        /// DSCP (6 bits) and ECN (2).
        TOS = 1..2 => u8, tos, set_tos;
        /// Length of header and data in bytes, as the header gives it.
        TOTAL_LEN = 2..4 => u16, total_len, set_total_len;
        /// Identification.
        IDENTIFICATION = 4..6 => u16, identification, set_identification;
        /// Flags (3 bits) and fragment offset (13).
        FRAGMENT = 6..8;
        /// Time to live.
        TTL = 8..9 => u8, ttl, set_ttl;
        /// Protocol of the data.
        PROTOCOL = 9..10 => Protocol, protocol, set_protocol;
        /// Header checksum.
        CHECKSUM = 10..12 => u16, checksum, set_checksum;
        /// Source address.
        SRC = 12..16 => Ipv4Addr, src, set_src;
        /// Destination address.
        DST = 16..20 => Ipv4Addr, dst, set_dst;
    }
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// A view whose accessors never panic.
    ///
    /// # Errors
    /// `Truncated` if the header or the total length does not fit, `Malformed` if the version is
    /// not 4, the header length below 20 or the total length below the header length.
    #[inline]
    pub fn new_checked(buffer: T) -> Result<Self, ParseError> {
        let packet = Packet::new_truncated(buffer)?;
        let (need, have) = (usize::from(packet.total_len()), packet.buffer.as_ref().len());
        ParseError::check_len(LayerKind::Ipv4, need, have)?;
        Ok(packet)
    }

    /// As [`Packet::new_checked`], but the data may be cut short, as in a capture; `payload` is
    /// what is there.
    ///
    /// # Errors
    /// As [`Packet::new_checked`], but for the total length's fit.
    #[inline]
    pub fn new_truncated(buffer: T) -> Result<Self, ParseError> {
        let have = buffer.as_ref().len();
        ParseError::check_len(LayerKind::Ipv4, HEADER_LEN, have)?;
        let packet = Packet { buffer };
        let (version, header_len, total_len) = (packet.version(), packet.header_len(), packet.total_len());
        ParseError::check_field(version == 4, LayerKind::Ipv4, "version", version)?;
        ParseError::check_field(header_len >= HEADER_LEN, LayerKind::Ipv4, "header length", header_len as u32)?;
        ParseError::check_len(LayerKind::Ipv4, header_len, have)?;
        ParseError::check_field(usize::from(total_len) >= header_len, LayerKind::Ipv4, "total length", total_len)?;
        Ok(packet)
    }

    /// Version.
    #[inline]
    pub fn version(&self) -> u8 {
        self.buffer.as_ref()[0] >> 4
    }

    /// Header length with options, in bytes.
    #[inline]
    pub fn header_len(&self) -> usize {
        usize::from(self.buffer.as_ref()[0] & 0xf) * 4
    }

    /// Don't-fragment flag.
    #[inline]
    pub fn dont_fragment(&self) -> bool {
        be16(self.buffer.as_ref(), field::FRAGMENT) & DONT_FRAGMENT != 0
    }

    /// More-fragments flag.
    #[inline]
    pub fn more_fragments(&self) -> bool {
        be16(self.buffer.as_ref(), field::FRAGMENT) & MORE_FRAGMENTS != 0
    }

    /// Fragment offset in units of 8 bytes.
    #[inline]
    pub fn fragment_offset(&self) -> u16 {
        be16(self.buffer.as_ref(), field::FRAGMENT) & MAX_FRAGMENT_OFFSET
    }

    /// Whether this is a fragment, the first included.
    #[inline]
    pub fn is_fragment(&self) -> bool {
        be16(self.buffer.as_ref(), field::FRAGMENT) & (MORE_FRAGMENTS | MAX_FRAGMENT_OFFSET) != 0
    }

    /// Option bytes.
    #[inline]
    pub fn options(&self) -> &[u8] {
        cut(self.buffer.as_ref(), HEADER_LEN, self.header_len())
    }

    /// The data, as far as the total length and the buffer reach.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        cut(self.buffer.as_ref(), self.header_len(), usize::from(self.total_len()))
    }

    /// The sum of the header, checksum field included.
    #[inline]
    pub fn sum(&self) -> Sum {
        Sum::new().add_slice(cut(self.buffer.as_ref(), 0, self.header_len()))
    }

    /// Whether the header checksum is right.
    #[inline]
    pub fn verify_checksum(&self) -> bool {
        self.sum().is_valid()
    }

    /// The pseudo-header for an upper-layer packet of `len` bytes.
    #[inline]
    pub fn pseudo_sum(&self, len: u16) -> Sum {
        Sum::pseudo_ipv4(self.src(), self.dst(), self.protocol().0, len)
    }

    /// The fields as values.
    pub fn header(&self) -> Header {
        Header {
            tos: self.tos(),
            total_len: self.total_len(),
            identification: self.identification(),
            dont_fragment: self.dont_fragment(),
            more_fragments: self.more_fragments(),
            fragment_offset: self.fragment_offset(),
            ttl: self.ttl(),
            protocol: self.protocol(),
            src: self.src(),
            dst: self.dst(),
            options: Options::from_header(self.options()),
        }
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Sets flags and fragment offset (units of 8 bytes); bits of the offset above the low 13 are
    /// dropped.
    #[inline]
    pub fn set_fragment(&mut self, dont_fragment: bool, more_fragments: bool, offset: u16) {
        let flags = u16::from(dont_fragment) << 14 | u16::from(more_fragments) << 13;
        put16(self.buffer.as_mut(), field::FRAGMENT, flags | offset & MAX_FRAGMENT_OFFSET);
    }

    /// Computes and sets the header checksum.
    pub fn fill_checksum(&mut self) {
        self.set_checksum(0);
        self.set_checksum(self.sum().finish());
    }
}

/// The fields of an IPv4 header; `emit` computes the checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// DSCP and ECN.
    pub tos: u8,
    /// Length of header and data in bytes; [`Stack`](crate::Stack) derives it.
    pub total_len: u16,
    /// Identification.
    pub identification: u16,
    /// Don't-fragment flag.
    pub dont_fragment: bool,
    /// More-fragments flag.
    pub more_fragments: bool,
    /// Fragment offset in units of 8 bytes, 13 bits.
    pub fragment_offset: u16,
    /// Time to live.
    pub ttl: u8,
    /// Protocol of the data; [`Stack`](crate::Stack) derives it where a layer follows.
    pub protocol: Protocol,
    /// Source address.
    pub src: Ipv4Addr,
    /// Destination address.
    pub dst: Ipv4Addr,
    /// Options.
    pub options: Options,
}

impl Default for Header {
    /// TTL 64, everything else zero.
    fn default() -> Self {
        Header {
            tos: 0,
            total_len: HEADER_LEN as u16,
            identification: 0,
            dont_fragment: false,
            more_fragments: false,
            fragment_offset: 0,
            ttl: 64,
            protocol: Protocol(0),
            src: Ipv4Addr::UNSPECIFIED,
            dst: Ipv4Addr::UNSPECIFIED,
            options: Options::NONE,
        }
    }
}

impl Header {
    /// Length in bytes of what `emit` writes.
    pub const fn header_len(&self) -> usize {
        HEADER_LEN + self.options.len()
    }

    /// Writes the header to the start of `bytes`, with its checksum; bits that do not fit a field
    /// are dropped.
    ///
    /// # Panics
    /// If `bytes` is shorter than [`Header::header_len`].
    pub fn emit(&self, bytes: &mut [u8]) {
        let header_len = self.header_len();
        bytes[0] = 0x40 | (header_len / 4) as u8;
        bytes[HEADER_LEN..header_len].copy_from_slice(self.options.as_slice());
        let mut packet = Packet::new_unchecked(bytes);
        packet.set_tos(self.tos);
        packet.set_total_len(self.total_len);
        packet.set_identification(self.identification);
        packet.set_fragment(self.dont_fragment, self.more_fragments, self.fragment_offset);
        packet.set_ttl(self.ttl);
        packet.set_protocol(self.protocol);
        packet.set_src(self.src);
        packet.set_dst(self.dst);
        packet.fill_checksum();
    }
}
