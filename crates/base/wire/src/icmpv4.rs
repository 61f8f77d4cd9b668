//! ICMP for IPv4 (RFC 792).

use crate::bytes::{be16, put16};
use crate::{LayerKind, ParseError, Sum};

/// Header length in bytes.
pub const HEADER_LEN: usize = 8;
/// Type: echo reply.
pub const ECHO_REPLY: u8 = 0;
/// Type: destination unreachable.
pub const UNREACHABLE: u8 = 3;
/// Type: echo request.
pub const ECHO_REQUEST: u8 = 8;
/// Type: time exceeded.
pub const TIME_EXCEEDED: u8 = 11;

/// Where the fields lie in the header.
pub mod field {
    use std::ops::Range;
    /// Type.
    pub const KIND: Range<usize> = 0..1;
    /// Code.
    pub const CODE: Range<usize> = 1..2;
    /// Checksum over header and data; there is no pseudo-header.
    pub const CHECKSUM: Range<usize> = 2..4;
    /// Identifier of an echo; other types use these bytes otherwise.
    pub const IDENTIFIER: Range<usize> = 4..6;
    /// Sequence number of an echo; other types use these bytes otherwise.
    pub const SEQUENCE: Range<usize> = 6..8;
}

/// A view of an ICMP message.
///
/// ```
/// use linerate_wire::icmpv4;
/// let echo = icmpv4::Header { kind: icmpv4::ECHO_REQUEST, identifier: 7, sequence: 1, ..Default::default() };
/// let mut bytes = [0; 12];
/// echo.emit(&mut bytes);
/// let mut packet = icmpv4::Packet::new_checked(&mut bytes).unwrap();
/// packet.fill_checksum();
/// assert!(packet.verify_checksum() && packet.is_echo());
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
        ParseError::check_len(LayerKind::Icmpv4, HEADER_LEN, buffer.as_ref().len())?;
        Ok(Packet { buffer })
    }

    /// The buffer back.
    #[inline]
    pub fn into_inner(self) -> T {
        self.buffer
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
        matches!(self.kind(), ECHO_REQUEST | ECHO_REPLY)
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

    /// Whether the checksum is right.
    #[inline]
    pub fn verify_checksum(&self) -> bool {
        self.sum().is_valid()
    }

    /// The fields as values.
    #[inline]
    pub fn header(&self) -> Header {
        Header {
            kind: self.kind(),
            code: self.code(),
            checksum: self.checksum(),
            identifier: self.identifier(),
            sequence: self.sequence(),
        }
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
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

    /// Computes and sets the checksum.
    pub fn fill_checksum(&mut self) {
        self.set_checksum(0);
        self.set_checksum(self.sum().finish());
    }

    /// The data, for writing.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        &mut self.buffer.as_mut()[HEADER_LEN..]
    }
}

/// The fields of an ICMP header; identifier and sequence stand for the second word of any type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
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

impl Default for Header {
    /// An echo request with identifier and sequence 0.
    fn default() -> Self {
        Header { kind: ECHO_REQUEST, code: 0, checksum: 0, identifier: 0, sequence: 0 }
    }
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
        packet.set_kind(self.kind);
        packet.set_code(self.code);
        packet.set_checksum(self.checksum);
        packet.set_identifier(self.identifier);
        packet.set_sequence(self.sequence);
    }
}
