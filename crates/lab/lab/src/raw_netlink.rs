//! Netlink for families that the typed crate does not know: messages as bytes, attributes by number (netlink(7)).

use std::io;

use linerate_sys::netns::NetNs;
use netlink_sys::{Socket, SocketAddr};

use crate::netlink::DATAGRAM_LEN_MAX;

/// Asks for everything (NLM_F_DUMP).
pub(crate) const DUMP: u16 = 0x300;

const HEADER_LEN: usize = 16;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;

/// A socket of one netlink protocol in one namespace.
#[derive(Debug)]
pub(crate) struct RawNetlink {
    socket: Socket,
    sequence: u32,
}

impl RawNetlink {
    pub(crate) fn open_in(namespace: &NetNs, protocol: isize) -> io::Result<Self> {
        let socket = namespace.run(|| -> io::Result<Socket> {
            let mut socket = Socket::new(protocol)?;
            socket.bind_auto()?;
            socket.connect(&SocketAddr::new(0, 0))?;
            Ok(socket)
        })??;
        Ok(Self { socket, sequence: 0 })
    }

    /// Sends one message of type `kind` and returns the bodies of its answers.
    pub(crate) fn exchange(&mut self, kind: u16, flags: u16, body: &[u8]) -> io::Result<Vec<Vec<u8>>> {
        self.sequence += 1;
        let acknowledged = if flags & DUMP == DUMP { 0 } else { NLM_F_ACK };
        let mut request = Vec::with_capacity(HEADER_LEN + body.len());
        request.extend(((HEADER_LEN + body.len()) as u32).to_ne_bytes());
        request.extend(kind.to_ne_bytes());
        request.extend((NLM_F_REQUEST | acknowledged | flags).to_ne_bytes());
        request.extend(self.sequence.to_ne_bytes());
        request.extend(0_u32.to_ne_bytes());
        request.extend(body);
        self.socket.send(&request, 0)?;
        let mut answers = Vec::new();
        let mut datagram = Vec::with_capacity(DATAGRAM_LEN_MAX);
        loop {
            datagram.clear();
            self.socket.recv(&mut datagram, 0)?;
            if collect(&datagram, self.sequence, &mut answers)? {
                return Ok(answers);
            }
        }
    }
}

/// Sorts one datagram's messages into `answers`; true when the exchange is complete.
fn collect(datagram: &[u8], sequence: u32, answers: &mut Vec<Vec<u8>>) -> io::Result<bool> {
    let mut rest = datagram;
    while let Some(len) = u32_at(rest, 0).map(|len| len as usize) {
        let message = rest.get(..len).filter(|_| len >= HEADER_LEN);
        let message = message.ok_or_else(|| io::Error::other("a netlink message is shorter than its header says"))?;
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        if u32_at(message, 8) != Some(sequence) {
            continue;
        }
        match u16_at(message, 4) {
            Some(NLMSG_DONE) => return Ok(true),
            Some(NLMSG_ERROR) => {
                return match u32_at(message, HEADER_LEN).map(|code| code as i32) {
                    Some(0) => Ok(true),
                    code => Err(io::Error::from_raw_os_error(code.unwrap_or(-libc::EIO).saturating_neg())),
                };
            }
            _ => answers.push(message[HEADER_LEN..].to_vec()),
        }
    }
    Ok(false)
}

/// One attribute, padded.
pub(crate) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(4 + value.len() + 3);
    bytes.extend((4 + value.len() as u16).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// An area of attributes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attributes<'a>(pub(crate) &'a [u8]);

impl<'a> Attributes<'a> {
    /// The value of the first attribute of this kind.
    pub(crate) fn find(self, wanted: u16) -> Option<&'a [u8]> {
        let mut rest = self.0;
        loop {
            let len = usize::from(u16_at(rest, 0)?);
            let value = rest.get(4..len)?;
            // The two upper bits of a kind are flags (NLA_F_NESTED, NLA_F_NET_BYTEORDER).
            if u16_at(rest, 2).map(|kind| kind & 0x3fff) == Some(wanted) {
                return Some(value);
            }
            rest = rest.get(len.next_multiple_of(4)..)?;
        }
    }

    pub(crate) fn u16(self, wanted: u16) -> Option<u16> {
        u16_at(self.find(wanted)?, 0)
    }

    pub(crate) fn u32(self, wanted: u16) -> Option<u32> {
        u32_at(self.find(wanted)?, 0)
    }

    pub(crate) fn u32_be(self, wanted: u16) -> Option<u32> {
        self.u32(wanted).map(u32::from_be)
    }

    pub(crate) fn text(self, wanted: u16) -> Option<String> {
        let bytes = self.find(wanted)?;
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_found_behind_others_and_cut_ones_are_not() {
        let mut area = attribute(2, b"netdev\0");
        assert_eq!(area.len(), 12);
        area.extend(attribute(1 | 0x8000, &29_u16.to_ne_bytes()));
        assert_eq!(Attributes(&area).u16(1), Some(29));
        assert_eq!(Attributes(&area).text(2).as_deref(), Some("netdev"));
        assert_eq!(Attributes(&area).find(77), None);
        assert_eq!(Attributes(&area[..14]).u16(1), None);
        assert_eq!(Attributes(&[0, 0, 0, 0]).find(1), None);
    }

    #[test]
    fn a_message_that_lies_about_its_length_is_an_error() {
        let mut answers = Vec::new();
        let mut message = [0_u8; 20];
        message[..4].copy_from_slice(&400_u32.to_ne_bytes());
        assert!(collect(&message, 0, &mut answers).is_err());
        message[..4].copy_from_slice(&4_u32.to_ne_bytes());
        assert!(collect(&message, 0, &mut answers).is_err());
        assert!(!collect(&[], 0, &mut answers).expect("nothing is no error"));
    }

    #[test]
    fn an_error_message_becomes_its_errno() {
        let mut message = Vec::new();
        for word in [20_u32, u32::from(NLMSG_ERROR), 7, 0] {
            message.extend(word.to_ne_bytes());
        }
        message.extend((-libc::EPERM).to_ne_bytes());
        let error = collect(&message, 7, &mut Vec::new()).expect_err("an error");
        assert_eq!(error.raw_os_error(), Some(libc::EPERM));
    }
}
