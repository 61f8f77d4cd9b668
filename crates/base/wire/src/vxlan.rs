//! VXLAN (RFC 7348 section 5).

use crate::bytes::{be32, put32};
use crate::view::view;
use crate::{LayerKind, ParseError};

/// Header length in bytes.
pub const HEADER_LEN: usize = 8;
/// The UDP destination port that IANA assigned.
pub const PORT: u16 = 4789;
/// Largest network identifier.
pub const MAX_VNI: u32 = 0xff_ffff;

const FLAG_VNI: u8 = 0x08;

view! {
    /// A view of a VXLAN header and the inner Ethernet frame.
    ///
    /// ```
    /// use linerate_wire::vxlan;
    /// let mut bytes = [0; 22];
    /// vxlan::Header { vni: 0x123456 }.emit(&mut bytes);
    /// let packet = vxlan::Packet::new_checked(bytes).unwrap();
    /// assert_eq!(packet.vni(), 0x123456);
    /// assert_eq!(packet.payload().len(), 14);
    /// ```
    Packet {
        /// Flags; 0x08 says that the identifier is valid.
        FLAGS = 0..1;
        /// Network identifier, three bytes.
        VNI = 4..7;
        /// Network identifier and the reserved byte behind it.
        VNI_WORD = 4..8;
    }
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// A view whose accessors never panic. Reserved bits are ignored, as the RFC asks.
    ///
    /// # Errors
    /// `Truncated` if the header does not fit, `Malformed` if its identifier is not flagged as
    /// valid.
    pub fn new_checked(buffer: T) -> Result<Self, ParseError> {
        let bytes = buffer.as_ref();
        ParseError::check_len(LayerKind::Vxlan, HEADER_LEN, bytes.len())?;
        let flags = bytes[field::FLAGS.start];
        ParseError::check_field(flags & FLAG_VNI != 0, LayerKind::Vxlan, "flags", flags)?;
        Ok(Packet { buffer })
    }

    /// Network identifier, 24 bits.
    #[inline]
    pub fn vni(&self) -> u32 {
        be32(self.buffer.as_ref(), field::VNI_WORD) >> 8
    }

    /// The inner Ethernet frame.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.buffer.as_ref()[HEADER_LEN..]
    }

    /// The fields as values.
    #[inline]
    pub fn header(&self) -> Header {
        Header { vni: self.vni() }
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Sets the network identifier; bits above the low 24 are dropped, the reserved byte becomes 0.
    #[inline]
    pub fn set_vni(&mut self, vni: u32) {
        put32(self.buffer.as_mut(), field::VNI_WORD, vni << 8);
    }
}

/// The fields of a VXLAN header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Network identifier, 24 bits.
    pub vni: u32,
}

impl Header {
    /// Length in bytes of what `emit` writes.
    pub const fn header_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the header to the start of `bytes`; bits of the identifier above the low 24 are
    /// dropped.
    ///
    /// # Panics
    /// If `bytes` is shorter than [`Header::header_len`].
    pub fn emit(&self, bytes: &mut [u8]) {
        put32(bytes, 0..4, u32::from(FLAG_VNI) << 24);
        Packet::new_unchecked(bytes).set_vni(self.vni);
    }
}
