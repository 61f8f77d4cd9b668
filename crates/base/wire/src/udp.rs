//! UDP (RFC 768).

use crate::bytes::cut;
use crate::view::view;
use crate::{LayerKind, ParseError, Sum};

/// Header length in bytes.
pub const HEADER_LEN: usize = 8;

view! {
    /// A view of a UDP datagram.
    ///
    /// ```
    /// use linerate_wire::{Sum, udp};
    /// let mut bytes = [0; 12];
    /// udp::Header { src_port: 1000, dst_port: 53, length: 12, checksum: 0 }.emit(&mut bytes);
    /// let mut packet = udp::Packet::new_checked(&mut bytes).unwrap();
    /// let pseudo = Sum::pseudo_ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 17, 12);
    /// packet.fill_checksum(pseudo);
    /// assert!(packet.verify_checksum(pseudo));
    /// assert_eq!(packet.payload(), [0; 4]);
    /// ```
    Packet {
        /// Source port.
        SRC_PORT = 0..2 => u16, src_port, set_src_port;
        /// Destination port.
        DST_PORT = 2..4 => u16, dst_port, set_dst_port;
        /// Length of header and data in bytes, as the header gives it.
        LENGTH = 4..6 => u16, length, set_length;
        /// Checksum over pseudo-header, header and data; 0 is "none".
        CHECKSUM = 6..8 => u16, checksum, set_checksum;
    }
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// A view whose accessors never panic.
    ///
    /// # Errors
    /// `Truncated` if the header or the length that it gives does not fit, `Malformed` if that
    /// length is below 8.
    #[inline]
    pub fn new_checked(buffer: T) -> Result<Self, ParseError> {
        let packet = Packet::new_truncated(buffer)?;
        let (need, have) = (usize::from(packet.length()), packet.buffer.as_ref().len());
        ParseError::check_len(LayerKind::Udp, need, have)?;
        Ok(packet)
    }

    /// As [`Packet::new_checked`], but the data may be cut short, as in a capture; `payload` is
    /// what is there.
    ///
    /// # Errors
    /// `Truncated` if the header does not fit, `Malformed` if its length field is below 8.
    #[inline]
    pub fn new_truncated(buffer: T) -> Result<Self, ParseError> {
        ParseError::check_len(LayerKind::Udp, HEADER_LEN, buffer.as_ref().len())?;
        let packet = Packet { buffer };
        let length = packet.length();
        ParseError::check_field(usize::from(length) >= HEADER_LEN, LayerKind::Udp, "length", length)?;
        Ok(packet)
    }

    /// The data, as far as the length field and the buffer reach.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        cut(self.buffer.as_ref(), HEADER_LEN, usize::from(self.length()))
    }

    /// The sum of header and data, checksum field included.
    #[inline]
    pub fn sum(&self) -> Sum {
        Sum::new().add_slice(cut(self.buffer.as_ref(), 0, usize::from(self.length())))
    }

    /// Whether the checksum is absent, or right for this pseudo-header. Over IPv6 absence is an
    /// error that the caller judges (RFC 8200 section 8.1, RFC 6935).
    #[inline]
    pub fn verify_checksum(&self, pseudo: Sum) -> bool {
        self.checksum() == 0 || pseudo.add_sum(self.sum()).is_valid()
    }

    /// The fields as values.
    #[inline]
    pub fn header(&self) -> Header {
        Header {
            src_port: self.src_port(),
            dst_port: self.dst_port(),
            length: self.length(),
            checksum: self.checksum(),
        }
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Computes and sets the checksum for this pseudo-header.
    pub fn fill_checksum(&mut self, pseudo: Sum) {
        self.set_checksum(0);
        self.set_checksum(pseudo.add_sum(self.sum()).finish_udp());
    }
}

/// The fields of a UDP header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Length of header and data in bytes; [`Stack`](crate::Stack) derives it.
    pub length: u16,
    /// Checksum, written as it is; [`Stack`](crate::Stack) derives it.
    pub checksum: u16,
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
        packet.set_src_port(self.src_port);
        packet.set_dst_port(self.dst_port);
        packet.set_length(self.length);
        packet.set_checksum(self.checksum);
    }
}
