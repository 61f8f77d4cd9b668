//! IPv6 (RFC 8200): the fixed header, and a walk over extension headers.

pub use crate::extensions::{ExtensionHeader, ExtensionHeaders, UpperLayer};

use crate::bytes::{be32, cut, put32};
use crate::view::view;
use crate::{LayerKind, ParseError, Protocol, Sum};
use std::net::Ipv6Addr;

/// Length of the fixed header in bytes.
pub const HEADER_LEN: usize = 40;
/// Largest flow label.
pub const MAX_FLOW_LABEL: u32 = 0xf_ffff;

view! {
    /// A view of an IPv6 packet. A payload length of 0 means none: jumbograms (RFC 2675) are not
    /// supported.
    ///
    /// ```
    /// use linerate_wire::{Protocol, ipv6};
    /// let header = ipv6::Header { next_header: Protocol::UDP, payload_len: 8, ..Default::default() };
    /// let mut bytes = [0; 48];
    /// header.emit(&mut bytes);
    /// assert_eq!(ipv6::Header::parse(&bytes), Ok(header));
    /// ```
    Packet {
        /// Version (4 bits), traffic class (8), flow label (20).
        VERSION_CLASS_FLOW = 0..4;
        /// Length of what follows the fixed header in bytes, as the header gives it.
        PAYLOAD_LEN = 4..6 => u16, payload_len, set_payload_len;
        /// Kind of what follows the fixed header.
        NEXT_HEADER = 6..7 => Protocol, next_header, set_next_header;
        /// Hop limit.
        HOP_LIMIT = 7..8 => u8, hop_limit, set_hop_limit;
        /// Source address.
        SRC = 8..24 => Ipv6Addr, src, set_src;
        /// Destination address.
        DST = 24..40 => Ipv6Addr, dst, set_dst;
    }
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// A view whose accessors never panic.
    ///
    /// # Errors
    /// `Truncated` if the header or the payload length does not fit, `Malformed` if the version is
    /// not 6.
    #[inline]
    pub fn new_checked(buffer: T) -> Result<Self, ParseError> {
        let packet = Packet::new_truncated(buffer)?;
        let (need, have) = (packet.total_len(), packet.buffer.as_ref().len());
        ParseError::check_len(LayerKind::Ipv6, need, have)?;
        Ok(packet)
    }

    /// As [`Packet::new_checked`], but the data may be cut short, as in a capture; `payload` is
    /// what is there.
    ///
    /// # Errors
    /// As [`Packet::new_checked`], but for the payload length's fit.
    #[inline]
    pub fn new_truncated(buffer: T) -> Result<Self, ParseError> {
        ParseError::check_len(LayerKind::Ipv6, HEADER_LEN, buffer.as_ref().len())?;
        let packet = Packet { buffer };
        let version = packet.version();
        ParseError::check_field(version == 6, LayerKind::Ipv6, "version", version)?;
        Ok(packet)
    }

    /// Version.
    #[inline]
    pub fn version(&self) -> u8 {
        self.buffer.as_ref()[0] >> 4
    }

    /// Traffic class: DSCP and ECN.
    #[inline]
    pub fn traffic_class(&self) -> u8 {
        (be32(self.buffer.as_ref(), field::VERSION_CLASS_FLOW) >> 20) as u8
    }

    /// Flow label, 20 bits.
    #[inline]
    pub fn flow_label(&self) -> u32 {
        be32(self.buffer.as_ref(), field::VERSION_CLASS_FLOW) & MAX_FLOW_LABEL
    }

    /// Length of the fixed header and what follows, in bytes.
    #[inline]
    pub fn total_len(&self) -> usize {
        HEADER_LEN + usize::from(self.payload_len())
    }

    /// What follows the fixed header, as far as the payload length and the buffer reach.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        cut(self.buffer.as_ref(), HEADER_LEN, self.total_len())
    }

    /// The pseudo-header for an upper-layer packet of `len` bytes.
    #[inline]
    pub fn pseudo_sum(&self, protocol: Protocol, len: u32) -> Sum {
        Sum::pseudo_ipv6(self.src(), self.dst(), protocol.0, len)
    }

    /// The extension headers, in their order.
    #[inline]
    pub fn extension_headers(&self) -> ExtensionHeaders<'_> {
        ExtensionHeaders::new(self.next_header(), self.payload())
    }

    /// Skips the extension headers.
    ///
    /// # Errors
    /// `Truncated` if one does not fit.
    #[inline]
    pub fn upper_layer(&self) -> Result<UpperLayer, ParseError> {
        UpperLayer::find(self.extension_headers())
    }

    /// The fields as values.
    pub fn header(&self) -> Header {
        Header {
            traffic_class: self.traffic_class(),
            flow_label: self.flow_label(),
            payload_len: self.payload_len(),
            next_header: self.next_header(),
            hop_limit: self.hop_limit(),
            src: self.src(),
            dst: self.dst(),
        }
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Sets the traffic class.
    #[inline]
    pub fn set_traffic_class(&mut self, traffic_class: u8) {
        let word = be32(self.buffer.as_ref(), field::VERSION_CLASS_FLOW) & 0xf00f_ffff;
        put32(self.buffer.as_mut(), field::VERSION_CLASS_FLOW, word | u32::from(traffic_class) << 20);
    }
}

/// The fields of the fixed IPv6 header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Traffic class: DSCP and ECN.
    pub traffic_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Length of what follows in bytes; [`Stack`](crate::Stack) derives it.
    pub payload_len: u16,
    /// Kind of what follows; [`Stack`](crate::Stack) derives it where a layer follows.
    pub next_header: Protocol,
    /// Hop limit.
    pub hop_limit: u8,
    /// Source address.
    pub src: Ipv6Addr,
    /// Destination address.
    pub dst: Ipv6Addr,
}

impl Default for Header {
    /// No next header, hop limit 64, everything else zero.
    fn default() -> Self {
        Header {
            traffic_class: 0,
            flow_label: 0,
            payload_len: 0,
            next_header: Protocol::NO_NEXT_HEADER,
            hop_limit: 64,
            src: Ipv6Addr::UNSPECIFIED,
            dst: Ipv6Addr::UNSPECIFIED,
        }
    }
}

impl Header {
    /// Length in bytes of what `emit` writes.
    pub const fn header_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the header to the start of `bytes`; bits that do not fit a field are dropped.
    ///
    /// # Panics
    /// If `bytes` is shorter than [`Header::header_len`].
    pub fn emit(&self, bytes: &mut [u8]) {
        let class = u32::from(self.traffic_class) << 20;
        put32(bytes, field::VERSION_CLASS_FLOW, 6 << 28 | class | self.flow_label & MAX_FLOW_LABEL);
        let mut packet = Packet::new_unchecked(bytes);
        packet.set_payload_len(self.payload_len);
        packet.set_next_header(self.next_header);
        packet.set_hop_limit(self.hop_limit);
        packet.set_src(self.src);
        packet.set_dst(self.dst);
    }
}
