//! VLAN tags (IEEE 802.1Q clause 9; 802.1ad has the same format under another EtherType).
//!
//! The view starts behind the EtherType that announces the tag: tag control information, then the
//! EtherType of what follows. So a tag is a layer like any other, and tags chain.

use crate::view::view;
use crate::{EtherType, LayerKind, ParseError};

/// Header length in bytes.
pub const HEADER_LEN: usize = 4;
/// Largest VLAN id that the field holds (4095 itself is reserved).
pub const MAX_VID: u16 = 0xfff;
/// Largest priority.
pub const MAX_PCP: u8 = 7;

view! {
    /// A view of a VLAN tag and what follows.
    ///
    /// ```
    /// use linerate_wire::{EtherType, vlan};
    /// let packet = vlan::Packet::new_checked([0xa0, 0x64, 0x08, 0x00]).unwrap();
    /// assert_eq!((packet.pcp(), packet.dei(), packet.vid()), (5, false, 100));
    /// assert_eq!(packet.ethertype(), EtherType::IPV4);
    /// ```
    Packet {
        /// Tag control information: priority (3 bits), drop eligible (1), VLAN id (12).
        TCI = 0..2 => u16, tci, set_tci;
        /// EtherType of what follows.
        ETHERTYPE = 2..4 => EtherType, ethertype, set_ethertype;
    }
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// A view whose accessors never panic.
    ///
    /// # Errors
    /// `Truncated` if the tag does not fit.
    #[inline]
    pub fn new_checked(buffer: T) -> Result<Self, ParseError> {
        ParseError::check_len(LayerKind::Vlan, HEADER_LEN, buffer.as_ref().len())?;
        Ok(Packet { buffer })
    }

    /// Priority code point, 0 to 7.
    #[inline]
    pub fn pcp(&self) -> u8 {
        (self.tci() >> 13) as u8
    }

    /// Drop eligible indicator.
    #[inline]
    pub fn dei(&self) -> bool {
        self.tci() & 0x1000 != 0
    }

    /// VLAN id, 0 to 4095.
    #[inline]
    pub fn vid(&self) -> u16 {
        self.tci() & MAX_VID
    }

    /// What follows the tag.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.buffer.as_ref()[HEADER_LEN..]
    }

    /// The fields as values.
    #[inline]
    pub fn header(&self) -> Header {
        Header { pcp: self.pcp(), dei: self.dei(), vid: self.vid(), ethertype: self.ethertype() }
    }
}

/// The fields of a VLAN tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Priority code point, 0 to 7.
    pub pcp: u8,
    /// Drop eligible indicator.
    pub dei: bool,
    /// VLAN id, 0 to 4095.
    pub vid: u16,
    /// EtherType of what follows; [`Stack`](crate::Stack) derives it where a layer follows.
    pub ethertype: EtherType,
}

impl Header {
    /// Length in bytes of what `emit` writes.
    pub const fn header_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the tag to the start of `bytes`; bits that do not fit a field are dropped.
    ///
    /// # Panics
    /// If `bytes` is shorter than [`Header::header_len`].
    pub fn emit(&self, bytes: &mut [u8]) {
        let mut packet = Packet::new_unchecked(bytes);
        packet.set_tci(u16::from(self.pcp) << 13 | u16::from(self.dei) << 12 | self.vid & MAX_VID);
        packet.set_ethertype(self.ethertype);
    }
}
