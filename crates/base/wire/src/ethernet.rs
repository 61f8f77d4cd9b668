//! Ethernet II (IEEE 802.3 clause 3), without preamble and FCS.

use crate::bytes::{array, be16, put16};
use crate::{EtherType, LayerKind, MacAddress, ParseError};

/// Header length in bytes.
pub const HEADER_LEN: usize = 14;

/// Where the fields lie in the header.
pub mod field {
    use std::ops::Range;
    /// Destination address.
    pub const DST: Range<usize> = 0..6;
    /// Source address.
    pub const SRC: Range<usize> = 6..12;
    /// EtherType, or the length of an 802.3 frame.
    pub const ETHERTYPE: Range<usize> = 12..14;
}

/// A view of an Ethernet frame.
///
/// ```
/// use linerate_wire::{EtherType, MacAddress, ethernet};
/// let mut packet = ethernet::Packet::new_checked([0u8; 60]).unwrap();
/// packet.set_dst(MacAddress::BROADCAST);
/// packet.set_ethertype(EtherType::ARP);
/// assert_eq!(packet.dst(), MacAddress::BROADCAST);
/// assert_eq!(packet.payload().len(), 46);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Packet<T> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// A view without checks: accessors panic if the buffer is shorter than [`HEADER_LEN`].
    #[inline]
    pub const fn new_unchecked(buffer: T) -> Self {
        Packet { buffer }
    }

    /// A view whose accessors never panic.
    ///
    /// # Errors
    /// `Truncated` if the header does not fit.
    #[inline]
    pub fn new_checked(buffer: T) -> Result<Self, ParseError> {
        ParseError::check_len(LayerKind::Ethernet, HEADER_LEN, buffer.as_ref().len())?;
        Ok(Packet { buffer })
    }

    /// Destination address.
    #[inline]
    pub fn dst(&self) -> MacAddress {
        MacAddress(array(self.buffer.as_ref(), field::DST))
    }

    /// Source address.
    #[inline]
    pub fn src(&self) -> MacAddress {
        MacAddress(array(self.buffer.as_ref(), field::SRC))
    }

    /// EtherType.
    #[inline]
    pub fn ethertype(&self) -> EtherType {
        EtherType(be16(self.buffer.as_ref(), field::ETHERTYPE))
    }

    /// What follows the header.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.buffer.as_ref()[HEADER_LEN..]
    }

    /// The fields as values.
    #[inline]
    pub fn header(&self) -> Header {
        Header { dst: self.dst(), src: self.src(), ethertype: self.ethertype() }
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Sets the destination address.
    #[inline]
    pub fn set_dst(&mut self, dst: MacAddress) {
        self.buffer.as_mut()[field::DST].copy_from_slice(&dst.0);
    }

    /// Sets the source address.
    #[inline]
    pub fn set_src(&mut self, src: MacAddress) {
        self.buffer.as_mut()[field::SRC].copy_from_slice(&src.0);
    }

    /// Sets the EtherType.
    #[inline]
    pub fn set_ethertype(&mut self, ethertype: EtherType) {
        put16(self.buffer.as_mut(), field::ETHERTYPE, ethertype.0);
    }
}

/// The fields of an Ethernet header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Destination address.
    pub dst: MacAddress,
    /// Source address.
    pub src: MacAddress,
    /// EtherType of what follows; [`Stack`](crate::Stack) derives it where a layer follows.
    pub ethertype: EtherType,
}

impl Header {
    /// Reads the header at the start of `bytes`.
    ///
    /// # Errors
    /// As [`Packet::new_checked`].
    pub fn parse(bytes: &[u8]) -> Result<Header, ParseError> {
        Packet::new_checked(bytes).map(|packet| packet.header())
    }

    /// Length in bytes of what `emit` writes.
    pub const fn header_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the header to the start of `bytes`.
    ///
    /// # Panics
    /// If `bytes` is shorter than [`Header::header_len`].
    pub fn emit(&self, bytes: &mut [u8]) {
        let mut packet = Packet::new_unchecked(bytes);
        packet.set_dst(self.dst);
        packet.set_src(self.src);
        packet.set_ethertype(self.ethertype);
    }
}
