//! MPLS label stack entries (RFC 3032 section 2.1, traffic class named by RFC 5462).

use crate::view::view;
use crate::{LayerKind, ParseError};

/// Length of one entry in bytes.
pub const HEADER_LEN: usize = 4;
/// Largest label.
pub const MAX_LABEL: u32 = 0xf_ffff;
/// Largest traffic class.
pub const MAX_TC: u8 = 7;

view! {
    /// A view of one label stack entry and what follows.
    ///
    /// ```
    /// use linerate_wire::mpls;
    /// let packet = mpls::Packet::new_checked([0x00, 0x06, 0x41, 0x40]).unwrap();
    /// assert_eq!((packet.label(), packet.tc(), packet.bottom(), packet.ttl()), (100, 0, true, 64));
    /// ```
    Packet {
        /// The whole entry: label (20 bits), traffic class (3), bottom of stack (1), TTL (8).
        ENTRY = 0..4 => u32, entry, set_entry;
        /// Time to live.
        TTL = 3..4 => u8, ttl, set_ttl;
    }
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// A view whose accessors never panic.
    ///
    /// # Errors
    /// `Truncated` if the entry does not fit.
    #[inline]
    pub fn new_checked(buffer: T) -> Result<Self, ParseError> {
        ParseError::check_len(LayerKind::Mpls, HEADER_LEN, buffer.as_ref().len())?;
        Ok(Packet { buffer })
    }

    /// Label, 20 bits.
    #[inline]
    pub fn label(&self) -> u32 {
        self.entry() >> 12
    }

    /// Traffic class, 3 bits.
    #[inline]
    pub fn tc(&self) -> u8 {
        (self.entry() >> 9) as u8 & MAX_TC
    }

    /// Whether this is the last entry of the stack.
    #[inline]
    pub fn bottom(&self) -> bool {
        self.entry() & 0x100 != 0
    }

    /// What follows the entry.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.buffer.as_ref()[HEADER_LEN..]
    }

    /// The fields as values.
    #[inline]
    pub fn header(&self) -> Header {
        Header { label: self.label(), tc: self.tc(), bottom: self.bottom(), ttl: self.ttl() }
    }
}

/// The fields of a label stack entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Label, 20 bits.
    pub label: u32,
    /// Traffic class, 3 bits.
    pub tc: u8,
    /// Whether this is the last entry; [`Stack`](crate::Stack) derives it.
    pub bottom: bool,
    /// Time to live.
    pub ttl: u8,
}

impl Default for Header {
    /// Label 0, bottom of stack, TTL 64.
    fn default() -> Self {
        Header { label: 0, tc: 0, bottom: true, ttl: 64 }
    }
}

impl Header {
    /// Length in bytes of what `emit` writes.
    pub const fn header_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the entry to the start of `bytes`; bits that do not fit a field are dropped.
    ///
    /// # Panics
    /// If `bytes` is shorter than [`Header::header_len`].
    pub fn emit(&self, bytes: &mut [u8]) {
        let class = u32::from(self.tc & MAX_TC) << 9;
        let entry = self.label << 12 | class | u32::from(self.bottom) << 8 | u32::from(self.ttl);
        Packet::new_unchecked(bytes).set_entry(entry);
    }
}
