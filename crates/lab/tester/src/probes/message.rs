//! The packets of probes: Sync messages of PTP version 2 (IEEE 1588-2008 section 13.6), because many cards timestamp no other packets, over
//! Ethernet (annex F) or UDP (annexes D and E).

use std::net::IpAddr;

use linerate_testbed::topology::FrameAddresses;
use linerate_wire::{BuildError, EtherType, Fill, MacAddress, Protocol, Stack, ethernet, ipv4, ipv6, udp};

/// EtherTypes.
const PTP: u16 = 0x88f7;
const IPV4: u16 = EtherType::IPV4.0;
const IPV6: u16 = EtherType::IPV6.0;
/// Event messages of PTP.
const UDP_PORT: u16 = 319;
const UDP: u8 = Protocol::UDP.0;
/// Shortest Ethernet frame, without FCS.
const FRAME_LEN_MIN: usize = 60;
const MESSAGE_LEN: usize = 44;
const ETHERNET_LEN: usize = 14;
/// Where the identity of the sender is in a message, and the number.
const IDENTITY: std::ops::Range<usize> = 20..28;
const SEQUENCE: std::ops::Range<usize> = 30..32;
/// Of no PTP network: one of the domains that users define (IEEE 1588-2008 table 2).
const DOMAIN: u8 = 127;

/// Between which addresses of IP a probe goes.
pub(super) type Addresses = (IpAddr, IpAddr);

/// The probes of one direction.
#[derive(Debug, Clone)]
pub(super) struct Message {
    link: FrameAddresses,
    /// Over UDP between these; `None`: over Ethernet.
    over_udp: Option<Addresses>,
    /// Tells these probes from PTP messages of others.
    identity: [u8; 8],
}

impl Message {
    pub(super) fn new(link: FrameAddresses, over_udp: Option<Addresses>, identity: [u8; 8]) -> Message {
        Message { link, over_udp, identity }
    }

    /// A frame with this number.
    pub(super) fn frame(&self, sequence: u16) -> Result<Vec<u8>, BuildError> {
        let header = ethernet::Header {
            src: MacAddress::from(self.link.source),
            dst: MacAddress::from(self.link.destination),
            ethertype: EtherType(PTP),
        };
        let message = self.message(sequence);
        let Some(addresses) = self.over_udp else {
            let mut frame = vec![0; FRAME_LEN_MIN];
            header.emit(&mut frame);
            frame[ETHERNET_LEN..ETHERNET_LEN + MESSAGE_LEN].copy_from_slice(&message);
            return Ok(frame);
        };
        let stack = Stack::new().with(header);
        let stack = match addresses {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                stack.with(ipv4::Header { src, dst, ttl: 64, ..ipv4::Header::default() })
            }
            (source, destination) => {
                let [src, dst] = [source, destination].map(|address| match address {
                    IpAddr::V4(address) => address.to_ipv6_mapped(),
                    IpAddr::V6(address) => address,
                });
                stack.with(ipv6::Header { src, dst, hop_limit: 64, ..ipv6::Header::default() })
            }
        };
        let stack = stack.with(udp::Header { src_port: UDP_PORT, dst_port: UDP_PORT, ..udp::Header::default() });
        let len = stack.headers_len() + MESSAGE_LEN;
        Ok(stack.fill(Fill::Repeat(message.to_vec())).build(len)?.bytes)
    }

    fn message(&self, sequence: u16) -> [u8; MESSAGE_LEN] {
        let mut message = [0; MESSAGE_LEN];
        // Message type 0, Sync; version 2; the length; a domain; two-step: the time of sending is not in the message.
        message[1..8].copy_from_slice(&[2, 0, MESSAGE_LEN as u8, DOMAIN, 0, 2, 0]);
        message[IDENTITY].copy_from_slice(&self.identity);
        message[SEQUENCE].copy_from_slice(&sequence.to_be_bytes());
        // No interval to the next one is told.
        message[33] = 0x7f;
        message
    }

    /// The number of a frame that arrived; `None` if it is none of these probes.
    pub(super) fn sequence_of(&self, frame: &[u8]) -> Option<u16> {
        let ether_type = u16::from_be_bytes(frame.get(12..14)?.try_into().ok()?);
        let packet = &frame[ETHERNET_LEN..];
        let message = match ether_type {
            PTP => packet,
            IPV4 => packet.get(usize::from(packet.first()? & 15) * 4 + udp::HEADER_LEN..)?,
            IPV6 => packet.get(ipv6::HEADER_LEN + udp::HEADER_LEN..)?,
            _ => return None,
        };
        let is_ours = message.get(..2)? == [0, 2] && message.get(IDENTITY)? == self.identity;
        is_ours.then(|| message.get(SEQUENCE)?.try_into().ok().map(u16::from_be_bytes))?
    }

    /// The EtherType of its frames.
    pub(super) fn ether_type(&self) -> u16 {
        match self.over_udp {
            None => PTP,
            Some((IpAddr::V4(_), _)) => IPV4,
            Some((IpAddr::V6(_), _)) => IPV6,
        }
    }

    /// Lets through what may be one of these, among all frames of the EtherType: a load is of the same one.
    pub(super) fn filter(&self) -> Vec<(u16, u8, u8, u32)> {
        // linux/bpf_common.h: load a byte, load half a word, load half a word behind the header, jump if equal, jump if a bit is set, four
        // times the low half byte into X, return.
        const BYTE: u16 = 0x30;
        const HALF: u16 = 0x28;
        const HALF_BEHIND: u16 = 0x48;
        const EQUAL: u16 = 0x15;
        const ANY_BIT: u16 = 0x45;
        const HEADER: u16 = 0xb1;
        const RETURN: u16 = 0x06;
        let ends = [(RETURN, 0, 0, u32::from(u16::MAX)), (RETURN, 0, 0, 0)];
        let port = (EQUAL, 0, 1, u32::from(UDP_PORT));
        match self.ether_type() {
            IPV4 => {
                let no_fragment = [(HALF, 0, 0, 20), (ANY_BIT, 4, 0, 0x1fff)];
                let start = [(BYTE, 0, 0, 23), (EQUAL, 0, 6, UDP.into())];
                [&start[..], &no_fragment, &[(HEADER, 0, 0, 14), (HALF_BEHIND, 0, 0, 16), port], &ends].concat()
            }
            IPV6 => [&[(BYTE, 0, 0, 20), (EQUAL, 0, 3, UDP.into()), (HALF, 0, 0, 56), port][..], &ends].concat(),
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: FrameAddresses = FrameAddresses { source: [2, 0, 0, 0, 0, 1], destination: [2, 0, 0, 0, 0, 2] };

    fn messages() -> [Message; 3] {
        let [v4, v6] = [("192.0.2.1", "192.0.2.101"), ("2001:db8::1", "2001:db8::2")]
            .map(|(one, other)| Some((one.parse().unwrap(), other.parse().unwrap())));
        [None, v4, v6].map(|over_udp| Message::new(LINK, over_udp, *b"identity"))
    }

    #[test]
    fn a_frame_has_its_number_and_others_have_none() {
        for message in messages() {
            let frame = message.frame(0xa1b2).unwrap();
            assert!(frame.len() >= FRAME_LEN_MIN);
            assert_eq!(message.sequence_of(&frame), Some(0xa1b2));
            // Of somebody else; of PTP, but no Sync message; cut short anywhere.
            let other = Message { identity: *b"somebody", ..message.clone() };
            assert_eq!(other.sequence_of(&frame), None);
            for len in 0..frame.len() {
                let _ = message.sequence_of(&frame[..len]);
            }
            assert_eq!(message.sequence_of(&frame[..40]), None);
            let at = frame.windows(8).position(|part| part == b"identity").unwrap() - IDENTITY.start;
            assert_eq!(frame[at..at + 5], [0, 2, 0, 44, 127], "{frame:02x?}");
            let mut follow_up = frame.clone();
            follow_up[at] = 8;
            assert_eq!(message.sequence_of(&follow_up), None);
        }
    }
}
