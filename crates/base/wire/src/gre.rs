//! GRE (RFC 2784) with a key (RFC 2890); checksums and sequence numbers are passed over when parsing, and never written.

use crate::bytes::{be16, be32, put16, put32};
use crate::view::view;
use crate::{EtherType, LayerKind, ParseError};

/// Length of the fixed header in bytes; a checksum, a key and a sequence number have 4 more each.
pub const HEADER_LEN: usize = 4;

const FLAG_CHECKSUM: u16 = 0x8000;
const FLAG_ROUTING: u16 = 0x4000;
const FLAG_KEY: u16 = 0x2000;
const FLAG_SEQUENCE: u16 = 0x1000;
const VERSION: u16 = 0x0007;

view! {
    /// A view of a GRE header and what it carries.
    ///
    /// ```
    /// use linerate_wire::{EtherType, gre};
    /// let header = gre::Header { key: Some(7), protocol: EtherType::IPV4 };
    /// let mut bytes = [0; 28];
    /// header.emit(&mut bytes);
    /// let packet = gre::Packet::new_checked(bytes).unwrap();
    /// assert_eq!((packet.key(), packet.protocol(), packet.payload().len()), (Some(7), EtherType::IPV4, 20));
    /// ```
    Packet {
        /// Flags and version.
        FLAGS = 0..2;
        /// What follows: an EtherType.
        PROTOCOL = 2..4 => EtherType, protocol, set_protocol;
        /// The key, of a header without a checksum.
        KEY = 4..8;
    }
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// A view whose accessors never panic.
    ///
    /// # Errors
    /// `Truncated` if the header does not fit, `Malformed` if it has another version (PPTP has 1) or source routes.
    pub fn new_checked(buffer: T) -> Result<Self, ParseError> {
        let have = buffer.as_ref().len();
        ParseError::check_len(LayerKind::Gre, HEADER_LEN, have)?;
        let packet = Packet { buffer };
        let flags = packet.flags();
        ParseError::check_field(flags & (VERSION | FLAG_ROUTING) == 0, LayerKind::Gre, "flags", flags)?;
        ParseError::check_len(LayerKind::Gre, packet.header_len(), have)?;
        Ok(packet)
    }

    fn flags(&self) -> u16 {
        be16(self.buffer.as_ref(), field::FLAGS)
    }

    /// Length of the header with what its flags announce, in bytes.
    pub fn header_len(&self) -> usize {
        let optional = [FLAG_CHECKSUM, FLAG_KEY, FLAG_SEQUENCE];
        HEADER_LEN + 4 * optional.iter().filter(|flag| self.flags() & **flag != 0).count()
    }

    /// The key, if there is one.
    pub fn key(&self) -> Option<u32> {
        let start = if self.flags() & FLAG_CHECKSUM == 0 { HEADER_LEN } else { HEADER_LEN + 4 };
        let bytes = self.buffer.as_ref();
        (self.flags() & FLAG_KEY != 0 && bytes.len() >= start + 4).then(|| be32(bytes, start..start + 4))
    }

    /// What it carries.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        let bytes = self.buffer.as_ref();
        &bytes[self.header_len().min(bytes.len())..]
    }

    /// The fields as values.
    pub fn header(&self) -> Header {
        Header { key: self.key(), protocol: self.protocol() }
    }
}

/// The fields of a GRE header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The key, if there is one.
    pub key: Option<u32>,
    /// What follows; [`EtherType::TRANSPARENT_ETHERNET`] for a whole frame.
    pub protocol: EtherType,
}

impl Header {
    /// Length in bytes of what `emit` writes.
    pub const fn header_len(&self) -> usize {
        if self.key.is_some() { HEADER_LEN + 4 } else { HEADER_LEN }
    }

    /// Writes the header to the start of `bytes`.
    ///
    /// # Panics
    /// If `bytes` is shorter than [`Header::header_len`].
    pub fn emit(&self, bytes: &mut [u8]) {
        put16(bytes, field::FLAGS, if self.key.is_some() { FLAG_KEY } else { 0 });
        put16(bytes, field::PROTOCOL, self.protocol.0);
        if let Some(key) = self.key {
            put32(bytes, field::KEY, key);
        }
    }
}
