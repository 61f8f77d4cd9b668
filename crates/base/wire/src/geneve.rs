//! Geneve (RFC 8926 section 3); options are passed over when parsing, and never written.

use crate::bytes::{be32, put16, put32};
use crate::view::view;
use crate::{EtherType, LayerKind, ParseError};

/// Length of the fixed header in bytes, without options.
pub const HEADER_LEN: usize = 8;
/// The UDP destination port that IANA assigned.
pub const PORT: u16 = 6081;
/// Largest network identifier.
pub const MAX_VNI: u32 = 0xff_ffff;

view! {
    /// A view of a Geneve header and what it carries.
    ///
    /// ```
    /// use linerate_wire::{EtherType, geneve};
    /// let header = geneve::Header { vni: 0x123456, protocol: EtherType::TRANSPARENT_ETHERNET };
    /// let mut bytes = [0; 22];
    /// header.emit(&mut bytes);
    /// let packet = geneve::Packet::new_checked(bytes).unwrap();
    /// assert_eq!((packet.header(), packet.payload().len()), (header, 14));
    /// ```
    Packet {
        /// Version, two bits, and length of the options in units of 4 bytes.
        LENGTH = 0..1;
        /// What follows: an EtherType.
        PROTOCOL = 2..4 => EtherType, protocol, set_protocol;
        /// Network identifier and the reserved byte behind it.
        VNI_WORD = 4..8;
    }
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// A view whose accessors never panic.
    ///
    /// # Errors
    /// `Truncated` if the header or its options do not fit, `Malformed` if the version is not 0.
    pub fn new_checked(buffer: T) -> Result<Self, ParseError> {
        let have = buffer.as_ref().len();
        ParseError::check_len(LayerKind::Geneve, HEADER_LEN, have)?;
        let packet = Packet { buffer };
        let version = packet.buffer.as_ref()[field::LENGTH.start] >> 6;
        ParseError::check_field(version == 0, LayerKind::Geneve, "version", version)?;
        ParseError::check_len(LayerKind::Geneve, packet.header_len(), have)?;
        Ok(packet)
    }

    /// Length of the header with its options, in bytes.
    #[inline]
    pub fn header_len(&self) -> usize {
        HEADER_LEN + 4 * usize::from(self.buffer.as_ref()[field::LENGTH.start] & 0x3f)
    }

    /// Network identifier, 24 bits.
    #[inline]
    pub fn vni(&self) -> u32 {
        be32(self.buffer.as_ref(), field::VNI_WORD) >> 8
    }

    /// What it carries.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        let bytes = self.buffer.as_ref();
        &bytes[self.header_len().min(bytes.len())..]
    }

    /// The fields as values.
    pub fn header(&self) -> Header {
        Header { vni: self.vni(), protocol: self.protocol() }
    }
}

/// The fields of a Geneve header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Network identifier, 24 bits.
    pub vni: u32,
    /// What follows; [`EtherType::TRANSPARENT_ETHERNET`] for a whole frame.
    pub protocol: EtherType,
}

impl Header {
    /// Length in bytes of what `emit` writes.
    pub const fn header_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the header, without options, to the start of `bytes`; bits of the identifier above the low 24 are dropped.
    ///
    /// # Panics
    /// If `bytes` is shorter than [`Header::header_len`].
    pub fn emit(&self, bytes: &mut [u8]) {
        put16(bytes, 0..2, 0);
        put16(bytes, field::PROTOCOL, self.protocol.0);
        put32(bytes, field::VNI_WORD, self.vni << 8);
    }
}
