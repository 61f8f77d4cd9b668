//! ARP for IPv4 over Ethernet (RFC 826).

use crate::bytes::{be16, put16};
use crate::view::view;
use crate::{EtherType, LayerKind, MacAddress, ParseError};
use std::net::Ipv4Addr;

/// Length in bytes; ARP has no payload.
pub const HEADER_LEN: usize = 28;
/// Operation: who has the target address?
pub const REQUEST: u16 = 1;
/// Operation: the sender has it.
pub const REPLY: u16 = 2;

const HARDWARE_ETHERNET: u16 = 1;
const ADDRESS_LENGTHS: u16 = 0x0604;

view! {
    /// A view of an ARP packet.
    ///
    /// ```
    /// use linerate_wire::arp;
    /// let request = arp::Header { operation: arp::REQUEST, target_ip: [192, 0, 2, 1].into(), ..Default::default() };
    /// let mut bytes = [0; arp::HEADER_LEN];
    /// request.emit(&mut bytes);
    /// assert_eq!(arp::Packet::new_checked(bytes).unwrap().target_ip(), request.target_ip);
    /// ```
    Packet {
        /// Hardware type, 1.
        HARDWARE_TYPE = 0..2;
        /// Protocol type, 0x0800.
        PROTOCOL_TYPE = 2..4;
        /// Lengths of a hardware (6) and a protocol address (4), one byte each.
        ADDRESS_LENGTHS = 4..6;
        /// Operation: 1 is a request, 2 a reply.
        OPERATION = 6..8 => u16, operation, set_operation;
        /// Sender's MAC address.
        SENDER_MAC = 8..14 => MacAddress, sender_mac, set_sender_mac;
        /// Sender's IPv4 address.
        SENDER_IP = 14..18 => Ipv4Addr, sender_ip, set_sender_ip;
        /// Target's MAC address.
        TARGET_MAC = 18..24 => MacAddress, target_mac, set_target_mac;
        /// Target's IPv4 address.
        TARGET_IP = 24..28 => Ipv4Addr, target_ip, set_target_ip;
    }
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// A view whose accessors never panic.
    ///
    /// # Errors
    /// `Truncated` if the packet does not fit, `Malformed` if it is not about IPv4 over Ethernet.
    pub fn new_checked(buffer: T) -> Result<Self, ParseError> {
        let bytes = buffer.as_ref();
        ParseError::check_len(LayerKind::Arp, HEADER_LEN, bytes.len())?;
        let expect = |field, name, expected| {
            let value = be16(bytes, field);
            ParseError::check_field(value == expected, LayerKind::Arp, name, value)
        };
        expect(field::HARDWARE_TYPE, "hardware type", HARDWARE_ETHERNET)?;
        expect(field::PROTOCOL_TYPE, "protocol type", EtherType::IPV4.0)?;
        expect(field::ADDRESS_LENGTHS, "address lengths", ADDRESS_LENGTHS)?;
        Ok(Packet { buffer })
    }

    /// What follows: padding of the frame.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.buffer.as_ref()[HEADER_LEN..]
    }

    /// The fields as values.
    pub fn header(&self) -> Header {
        Header {
            operation: self.operation(),
            sender_mac: self.sender_mac(),
            sender_ip: self.sender_ip(),
            target_mac: self.target_mac(),
            target_ip: self.target_ip(),
        }
    }
}

/// The fields of an ARP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Operation: [`REQUEST`], [`REPLY`] or another number.
    pub operation: u16,
    /// Sender's MAC address.
    pub sender_mac: MacAddress,
    /// Sender's IPv4 address.
    pub sender_ip: Ipv4Addr,
    /// Target's MAC address, zero in a request.
    pub target_mac: MacAddress,
    /// Target's IPv4 address.
    pub target_ip: Ipv4Addr,
}

impl Default for Header {
    /// A request with unset addresses.
    fn default() -> Self {
        Header {
            operation: REQUEST,
            sender_mac: MacAddress::ZERO,
            sender_ip: Ipv4Addr::UNSPECIFIED,
            target_mac: MacAddress::ZERO,
            target_ip: Ipv4Addr::UNSPECIFIED,
        }
    }
}

impl Header {
    /// Length in bytes of what `emit` writes.
    pub const fn header_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the packet to the start of `bytes`.
    ///
    /// # Panics
    /// If `bytes` is shorter than [`Header::header_len`].
    pub fn emit(&self, bytes: &mut [u8]) {
        put16(bytes, field::HARDWARE_TYPE, HARDWARE_ETHERNET);
        put16(bytes, field::PROTOCOL_TYPE, EtherType::IPV4.0);
        put16(bytes, field::ADDRESS_LENGTHS, ADDRESS_LENGTHS);
        let mut packet = Packet::new_unchecked(bytes);
        packet.set_operation(self.operation);
        packet.set_sender_mac(self.sender_mac);
        packet.set_sender_ip(self.sender_ip);
        packet.set_target_mac(self.target_mac);
        packet.set_target_ip(self.target_ip);
    }
}
