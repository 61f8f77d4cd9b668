//! Ethernet II (IEEE 802.3 clause 3), without preamble and FCS.

use crate::view::view;
use crate::{EtherType, LayerKind, MacAddress, ParseError};

/// Header length in bytes.
pub const HEADER_LEN: usize = 14;

view! {
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
    Packet {
        /// Destination address.
        DST = 0..6 => MacAddress, dst, set_dst;
        /// Source address.
        SRC = 6..12 => MacAddress, src, set_src;
        /// EtherType, or the length of an 802.3 frame.
        ETHERTYPE = 12..14 => EtherType, ethertype, set_ethertype;
    }
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// A view whose accessors never panic.
    ///
    /// # Errors
    /// `Truncated` if the header does not fit.
    #[inline]
    pub fn new_checked(buffer: T) -> Result<Self, ParseError> {
        ParseError::check_len(LayerKind::Ethernet, HEADER_LEN, buffer.as_ref().len())?;
        Ok(Packet { buffer })
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

/// Source and destination address change places. A frame that is shorter than its header stays as it is.
///
/// Two loads and two stores of 8 bytes, which overlap in the EtherType: field by field it is four of each, and a loop over packets waits for
/// its stores.
///
/// ```
/// let mut frame = *b"destinsourceTY and the rest";
/// linerate_wire::ethernet::swap_addresses(&mut frame);
/// assert_eq!(&frame, b"sourcedestinTY and the rest");
/// ```
#[inline]
pub fn swap_addresses(frame: &mut [u8]) {
    const ETHERTYPE: u64 = 0xffff << 48;
    let Some(header) = frame.first_chunk_mut::<HEADER_LEN>() else { return };
    let [low, high] = [0, 6].map(|at| {
        let mut word = [0; 8];
        word.copy_from_slice(&header[at..at + 8]);
        u64::from_le_bytes(word)
    });
    header[..8].copy_from_slice(&high.to_le_bytes());
    header[6..].copy_from_slice(&(low & !ETHERTYPE | high & ETHERTYPE).to_le_bytes());
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
