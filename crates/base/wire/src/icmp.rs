//! What ICMP for IPv4 and for IPv6 share: the header, and a view of a message. They differ in their types, and in what the checksum covers.

use crate::bytes::{be16, put16};
use crate::{LayerKind, ParseError, Sum};

/// Header length in bytes.
pub const HEADER_LEN: usize = 8;
/// Type of an echo request over IPv4 and IPv6.
pub(crate) const ECHO_REQUEST: [u8; 2] = [8, 128];
/// Type of an echo reply over IPv4 and IPv6.
pub(crate) const ECHO_REPLY: [u8; 2] = [0, 129];

/// Where the fields lie in the header.
pub mod field {
    use std::ops::Range;
    /// Type.
    pub const KIND: Range<usize> = 0..1;
    /// Code.
    pub const CODE: Range<usize> = 1..2;
    /// Checksum over header and data; for IPv6, over the pseudo-header, too.
    pub const CHECKSUM: Range<usize> = 2..4;
    /// Identifier of an echo; other types use these bytes otherwise.
    pub const IDENTIFIER: Range<usize> = 4..6;
    /// Sequence number of an echo; other types use these bytes otherwise.
    pub const SEQUENCE: Range<usize> = 6..8;
}

/// A view of an ICMP message, for IPv6 if `V6`.
#[derive(Clone, Copy, Debug)]
pub struct Packet<T, const V6: bool> {
    buffer: T,
}

impl<T: AsRef<[u8]>, const V6: bool> Packet<T, V6> {
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
        let layer = if V6 { LayerKind::Icmpv6 } else { LayerKind::Icmpv4 };
        ParseError::check_len(layer, HEADER_LEN, buffer.as_ref().len())?;
        Ok(Packet { buffer })
    }

    /// Type.
    #[inline]
    pub fn kind(&self) -> u8 {
        self.buffer.as_ref()[field::KIND.start]
    }

    /// Code.
    #[inline]
    pub fn code(&self) -> u8 {
        self.buffer.as_ref()[field::CODE.start]
    }

    /// Checksum.
    #[inline]
    pub fn checksum(&self) -> u16 {
        be16(self.buffer.as_ref(), field::CHECKSUM)
    }

    /// Identifier of an echo; for other types, their bytes there.
    #[inline]
    pub fn identifier(&self) -> u16 {
        be16(self.buffer.as_ref(), field::IDENTIFIER)
    }

    /// Sequence number of an echo; for other types, their bytes there.
    #[inline]
    pub fn sequence(&self) -> u16 {
        be16(self.buffer.as_ref(), field::SEQUENCE)
    }

    /// Whether this is an echo request or reply.
    #[inline]
    pub fn is_echo(&self) -> bool {
        [ECHO_REQUEST[V6 as usize], ECHO_REPLY[V6 as usize]].contains(&self.kind())
    }

    /// The data: the rest of the buffer.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.buffer.as_ref()[HEADER_LEN..]
    }

    /// The sum of header and data, checksum field included.
    #[inline]
    pub fn sum(&self) -> Sum {
        Sum::new().add_slice(self.buffer.as_ref())
    }

    /// The fields as values.
    #[inline]
    pub fn header(&self) -> Header<V6> {
        Header {
            kind: self.kind(),
            code: self.code(),
            checksum: self.checksum(),
            identifier: self.identifier(),
            sequence: self.sequence(),
        }
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>, const V6: bool> Packet<T, V6> {
    /// Sets the type.
    #[inline]
    pub fn set_kind(&mut self, kind: u8) {
        self.buffer.as_mut()[field::KIND.start] = kind;
    }

    /// Sets the code.
    #[inline]
    pub fn set_code(&mut self, code: u8) {
        self.buffer.as_mut()[field::CODE.start] = code;
    }

    /// Sets the checksum field.
    #[inline]
    pub fn set_checksum(&mut self, checksum: u16) {
        put16(self.buffer.as_mut(), field::CHECKSUM, checksum);
    }

    /// Sets the identifier of an echo.
    #[inline]
    pub fn set_identifier(&mut self, identifier: u16) {
        put16(self.buffer.as_mut(), field::IDENTIFIER, identifier);
    }

    /// Sets the sequence number of an echo.
    #[inline]
    pub fn set_sequence(&mut self, sequence: u16) {
        put16(self.buffer.as_mut(), field::SEQUENCE, sequence);
    }
}

impl<T: AsRef<[u8]>> Packet<T, false> {
    /// Whether the checksum is right.
    #[inline]
    pub fn verify_checksum(&self) -> bool {
        self.sum().is_valid()
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T, false> {
    /// Computes and sets the checksum.
    pub fn fill_checksum(&mut self) {
        self.set_checksum(0);
        self.set_checksum(self.sum().finish());
    }
}

impl<T: AsRef<[u8]>> Packet<T, true> {
    /// Whether the checksum is right for this pseudo-header.
    #[inline]
    pub fn verify_checksum(&self, pseudo: Sum) -> bool {
        pseudo.add_sum(self.sum()).is_valid()
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T, true> {
    /// Computes and sets the checksum for this pseudo-header.
    pub fn fill_checksum(&mut self, pseudo: Sum) {
        self.set_checksum(0);
        self.set_checksum(pseudo.add_sum(self.sum()).finish());
    }
}

/// The fields of an ICMP header; identifier and sequence stand for the second word of any type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<const V6: bool> {
    /// Type.
    pub kind: u8,
    /// Code.
    pub code: u8,
    /// Checksum, written as it is; [`Stack`](crate::Stack) derives it.
    pub checksum: u16,
    /// Identifier of an echo.
    pub identifier: u16,
    /// Sequence number of an echo.
    pub sequence: u16,
}

impl<const V6: bool> Default for Header<V6> {
    /// An echo request with identifier and sequence 0.
    fn default() -> Self {
        Header { kind: ECHO_REQUEST[V6 as usize], code: 0, checksum: 0, identifier: 0, sequence: 0 }
    }
}

impl<const V6: bool> Header<V6> {
    /// Reads the header at the start of `bytes`.
    ///
    /// # Errors
    /// As [`Packet::new_checked`].
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        Packet::<_, V6>::new_checked(bytes).map(|packet| packet.header())
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
        let mut packet = Packet::<_, V6>::new_unchecked(bytes);
        packet.set_kind(self.kind);
        packet.set_code(self.code);
        packet.set_checksum(self.checksum);
        packet.set_identifier(self.identifier);
        packet.set_sequence(self.sequence);
    }
}
