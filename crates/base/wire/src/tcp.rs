//! TCP (RFC 9293 section 3.1).

use crate::bytes::cut;
use crate::view::{field_value, view};
use crate::{LayerKind, Options, ParseError, Sum};
use std::fmt;
use std::ops::BitOr;

/// Header length without options, in bytes.
pub const HEADER_LEN: usize = 20;

/// TCP flags, a set of bits.
///
/// ```
/// use linerate_wire::tcp::Flags;
/// let flags = Flags::SYN | Flags::ACK;
/// assert!(flags.contains(Flags::SYN) && !flags.contains(Flags::FIN));
/// assert_eq!(flags.to_string(), "SYN,ACK");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    /// No more data from the sender.
    pub const FIN: Flags = Flags(0x01);
    /// Synchronize sequence numbers.
    pub const SYN: Flags = Flags(0x02);
    /// Reset the connection.
    pub const RST: Flags = Flags(0x04);
    /// Push.
    pub const PSH: Flags = Flags(0x08);
    /// The acknowledgment number is valid.
    pub const ACK: Flags = Flags(0x10);
    /// The urgent pointer is valid.
    pub const URG: Flags = Flags(0x20);
    /// ECN echo (RFC 3168).
    pub const ECE: Flags = Flags(0x40);
    /// Congestion window reduced (RFC 3168).
    pub const CWR: Flags = Flags(0x80);

    const NAMES: [&'static str; 8] = ["FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR"];

    /// Whether all flags of `other` are set.
    #[inline]
    pub const fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
}

field_value! {
    Flags: |[bits]: [u8; 1]| Flags(bits), |flags: Flags| [flags.0];
}

impl BitOr for Flags {
    type Output = Flags;

    fn bitor(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

impl fmt::Display for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set = (0..8).filter(|bit| self.0 >> bit & 1 != 0).map(|bit| Flags::NAMES[bit]);
        f.write_str(&set.collect::<Vec<_>>().join(","))
    }
}

view! {
    /// A view of a TCP segment.
    ///
    /// ```
    /// use linerate_wire::tcp;
    /// let header = tcp::Header { src_port: 1024, dst_port: 80, flags: tcp::Flags::SYN, ..Default::default() };
    /// let mut bytes = [0; 20];
    /// header.emit(&mut bytes);
    /// assert_eq!(tcp::Header::parse(&bytes), Ok(header));
    /// ```
    Packet {
        /// Source port.
        SRC_PORT = 0..2 => u16, src_port, set_src_port;
        /// Destination port.
        DST_PORT = 2..4 => u16, dst_port, set_dst_port;
        /// Sequence number.
        SEQUENCE = 4..8 => u32, sequence, set_sequence;
        /// Acknowledgment number.
        ACKNOWLEDGMENT = 8..12 => u32, acknowledgment, set_acknowledgment;
        /// Header length (4 bits) and reserved bits.
        DATA_OFFSET = 12..13;
        /// Flags.
        FLAGS = 13..14 => Flags, flags, set_flags;
        /// Window, unscaled.
        WINDOW = 14..16 => u16, window, set_window;
        /// Checksum over pseudo-header, header and data.
        CHECKSUM = 16..18 => u16, checksum, set_checksum;
        /// Urgent pointer.
        URGENT = 18..20 => u16, urgent, set_urgent;
    }
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// A view whose accessors never panic.
    ///
    /// # Errors
    /// `Truncated` if the header with its options does not fit, `Malformed` if its length field is
    /// below 20.
    #[inline]
    pub fn new_checked(buffer: T) -> Result<Self, ParseError> {
        let have = buffer.as_ref().len();
        ParseError::check_len(LayerKind::Tcp, HEADER_LEN, have)?;
        let packet = Packet { buffer };
        let header_len = packet.header_len();
        ParseError::check_field(header_len >= HEADER_LEN, LayerKind::Tcp, "header length", header_len as u32)?;
        ParseError::check_len(LayerKind::Tcp, header_len, have)?;
        Ok(packet)
    }

    /// Header length with options, in bytes.
    #[inline]
    pub fn header_len(&self) -> usize {
        usize::from(self.buffer.as_ref()[field::DATA_OFFSET.start] >> 4) * 4
    }

    /// Option bytes.
    #[inline]
    pub fn options(&self) -> &[u8] {
        cut(self.buffer.as_ref(), HEADER_LEN, self.header_len())
    }

    /// The data: the rest of the buffer.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        cut(self.buffer.as_ref(), self.header_len(), usize::MAX)
    }

    /// The sum of header and data, checksum field included.
    #[inline]
    pub fn sum(&self) -> Sum {
        Sum::new().add_slice(self.buffer.as_ref())
    }

    /// Whether the checksum is right for this pseudo-header.
    #[inline]
    pub fn verify_checksum(&self, pseudo: Sum) -> bool {
        pseudo.add_sum(self.sum()).is_valid()
    }

    /// The fields as values.
    pub fn header(&self) -> Header {
        Header {
            src_port: self.src_port(),
            dst_port: self.dst_port(),
            sequence: self.sequence(),
            acknowledgment: self.acknowledgment(),
            flags: self.flags(),
            window: self.window(),
            checksum: self.checksum(),
            urgent: self.urgent(),
            options: Options::from_header(self.options()),
        }
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Computes and sets the checksum for this pseudo-header.
    pub fn fill_checksum(&mut self, pseudo: Sum) {
        self.set_checksum(0);
        self.set_checksum(pseudo.add_sum(self.sum()).finish());
    }
}

/// The fields of a TCP header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Sequence number.
    pub sequence: u32,
    /// Acknowledgment number.
    pub acknowledgment: u32,
    /// Flags.
    pub flags: Flags,
    /// Window, unscaled.
    pub window: u16,
    /// Checksum, written as it is; [`Stack`](crate::Stack) derives it.
    pub checksum: u16,
    /// Urgent pointer.
    pub urgent: u16,
    /// Options.
    pub options: Options,
}

impl Header {
    /// Length in bytes of what `emit` writes.
    pub const fn header_len(&self) -> usize {
        HEADER_LEN + self.options.len()
    }

    /// Writes the header to the start of `bytes`.
    ///
    /// # Panics
    /// If `bytes` is shorter than [`Header::header_len`].
    pub fn emit(&self, bytes: &mut [u8]) {
        let header_len = self.header_len();
        bytes[field::DATA_OFFSET.start] = (header_len << 2) as u8;
        bytes[HEADER_LEN..header_len].copy_from_slice(self.options.as_slice());
        let mut packet = Packet::new_unchecked(bytes);
        packet.set_src_port(self.src_port);
        packet.set_dst_port(self.dst_port);
        packet.set_sequence(self.sequence);
        packet.set_acknowledgment(self.acknowledgment);
        packet.set_flags(self.flags);
        packet.set_window(self.window);
        packet.set_checksum(self.checksum);
        packet.set_urgent(self.urgent);
    }
}
