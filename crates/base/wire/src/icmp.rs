//! What ICMP for IPv4 and for IPv6 share: the header, and a view of a message. They differ in their types, and in what the checksum covers.

use crate::view::view;
use crate::{LayerKind, ParseError, Sum};

/// Header length in bytes.
pub const HEADER_LEN: usize = 8;
/// Type of an echo request over IPv4 and IPv6.
pub(crate) const ECHO_REQUEST: [u8; 2] = [8, 128];
/// Type of an echo reply over IPv4 and IPv6.
pub(crate) const ECHO_REPLY: [u8; 2] = [0, 129];

view! {
    /// A view of an ICMP message, for IPv6 if `V6`.
    Packet [V6] {
        /// Type.
        KIND = 0..1 => u8, kind, set_kind;
        /// Code.
        CODE = 1..2 => u8, code, set_code;
        /// Checksum over header and data; for IPv6, over the pseudo-header, too.
        CHECKSUM = 2..4 => u16, checksum, set_checksum;
        /// Identifier of an echo; other types use these bytes otherwise.
        IDENTIFIER = 4..6 => u16, identifier, set_identifier;
        /// Sequence number of an echo; other types use these bytes otherwise.
        SEQUENCE = 6..8 => u16, sequence, set_sequence;
    }
}

impl<T: AsRef<[u8]>, const V6: bool> Packet<T, V6> {
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

    /// Makes 0xffff of a checksum of 0x0000 if all of the message is zero, as it may be after an update, which cannot tell that from data with a
    /// sum of 0xffff (module `checksum`). A checksum outside of this one counts both alike. A message that is shorter than its header stays.
    pub fn complete_zero(&mut self) {
        let bytes = self.buffer.as_mut();
        if bytes.len() >= HEADER_LEN && bytes.iter().all(|byte| *byte == 0) {
            self.set_checksum(0xffff);
        }
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
