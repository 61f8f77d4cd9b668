//! Netlink: requests as bytes, attributes by number, answers up to the acknowledgement (netlink(7)). No event loop: whoever uses it makes a
//! few requests, one after the other.
#![allow(unsafe_code)]

use crate::checked;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::netns::NetNs;

/// Flags of a request that asks for everything.
pub const DUMP: u16 = libc::NLM_F_DUMP as u16;
/// Flags of a request that makes something which must not exist.
pub const CREATE: u16 = (libc::NLM_F_CREATE | libc::NLM_F_EXCL) as u16;
/// Flags of a request that makes something, or replaces it.
pub const REPLACE: u16 = (libc::NLM_F_CREATE | libc::NLM_F_REPLACE) as u16;

/// struct nlmsghdr.
const HEADER_LEN: usize = 16;
/// The largest datagram that the kernel sends for a dump is 32 KiB (NLMSG_GOODSIZE doubled).
const DATAGRAM_LEN_MAX: usize = 65_536;

/// A socket of one netlink protocol. It stays in the namespace in which it was opened, whichever thread uses it.
#[derive(Debug)]
pub struct Netlink {
    socket: OwnedFd,
    sequence: u32,
    datagram: Vec<u8>,
}

impl Netlink {
    /// A socket in the calling thread's namespace. `protocol` is `NETLINK_ROUTE` or another one of linux/netlink.h.
    ///
    /// # Errors
    /// The kernel does not know the protocol.
    pub fn open(protocol: libc::c_int) -> io::Result<Netlink> {
        // SAFETY: socket takes numbers only.
        let fd = checked(unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, protocol) })?;
        // SAFETY: `fd` was just made and belongs to nobody else.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: a sockaddr_nl of zeroes is the kernel's address.
        let mut kernel: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
        kernel.nl_family = libc::AF_NETLINK as libc::sa_family_t;
        let len = size_of_val(&kernel) as libc::socklen_t;
        // SAFETY: the address is valid for reading its length.
        checked(unsafe { libc::connect(socket.as_raw_fd(), (&raw const kernel).cast(), len) })?;
        Ok(Netlink { socket, sequence: 0, datagram: vec![0; DATAGRAM_LEN_MAX] })
    }

    /// A socket in `namespace`.
    ///
    /// # Errors
    /// The namespace cannot be entered, or as [`Netlink::open`].
    pub fn open_in(namespace: &NetNs, protocol: libc::c_int) -> io::Result<Netlink> {
        namespace.run(|| Netlink::open(protocol))?
    }

    /// Sends one message of type `kind` and returns its answers: the body of each, up to the acknowledgement.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn exchange(&mut self, kind: u16, flags: u16, body: &Body) -> io::Result<Vec<Vec<u8>>> {
        self.sequence += 1;
        let acknowledged = if flags & DUMP == DUMP { 0 } else { libc::NLM_F_ACK as u16 };
        let mut request = Vec::with_capacity(HEADER_LEN + body.0.len());
        request.extend(((HEADER_LEN + body.0.len()) as u32).to_ne_bytes());
        request.extend(kind.to_ne_bytes());
        request.extend((libc::NLM_F_REQUEST as u16 | acknowledged | flags).to_ne_bytes());
        request.extend(self.sequence.to_ne_bytes());
        request.extend(0_u32.to_ne_bytes());
        request.extend(&body.0);
        // SAFETY: the buffer is valid for reading its length.
        checked(unsafe { libc::send(self.socket.as_raw_fd(), request.as_ptr().cast(), request.len(), 0) })?;
        let mut answers = Vec::new();
        loop {
            let buffer = &mut self.datagram;
            // SAFETY: the buffer is valid for writing its length.
            let len = unsafe { libc::recv(self.socket.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0) };
            let Ok(len) = usize::try_from(len) else { return Err(io::Error::last_os_error()) };
            if collect(&buffer[..len.min(buffer.len())], self.sequence, &mut answers)? {
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
        // Messages start at multiples of four bytes (NLMSG_ALIGN).
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        if u32_at(message, 8) != Some(sequence) {
            continue;
        }
        match u16_at(message, 4).map(i32::from) {
            Some(libc::NLMSG_DONE) => return Ok(true),
            Some(libc::NLMSG_OVERRUN) => return Err(io::Error::other("the kernel's answer was cut")),
            // An acknowledgement is an error with the number 0; an errno is negative.
            Some(libc::NLMSG_ERROR) => {
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

/// The header of rtnetlink's messages about links (struct ifinfomsg), for the link of an index; 0: a new link, or one of a name.
pub fn link_header(interface: u32) -> [u8; 16] {
    let mut header = [0; 16];
    header[4..8].copy_from_slice(&interface.to_ne_bytes());
    header
}

/// The body of a message, or of an attribute: a header, and attributes behind it.
#[derive(Clone, Debug, Default)]
pub struct Body(Vec<u8>);

impl Body {
    /// A body that begins with a header of the protocol.
    pub fn new(header: &[u8]) -> Body {
        Body(header.to_vec())
    }

    /// Adds an attribute.
    pub fn with(mut self, kind: u16, value: &[u8]) -> Body {
        self.0.extend((4 + value.len() as u16).to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    /// Adds an attribute that holds a number in the byte order of this machine.
    pub fn with_u32(self, kind: u16, value: u32) -> Body {
        self.with(kind, &value.to_ne_bytes())
    }

    /// Adds an attribute that holds a text, which the kernel wants to end with a zero.
    pub fn with_text(self, kind: u16, text: &str) -> Body {
        self.with(kind, &[text.as_bytes(), &[0]].concat())
    }

    /// Adds an attribute that holds others.
    pub fn with_body(self, kind: u16, body: Body) -> Body {
        self.with(kind, &body.0)
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// An area of attributes in an answer.
#[derive(Debug, Clone, Copy)]
pub struct Attributes<'a>(&'a [u8]);

impl<'a> Attributes<'a> {
    /// The attributes behind the first `header` bytes of an answer, or of the value of an attribute.
    pub fn behind(header: usize, bytes: &'a [u8]) -> Attributes<'a> {
        Attributes(bytes.get(header..).unwrap_or_default())
    }

    /// The value of the first attribute of this kind.
    pub fn find(self, wanted: u16) -> Option<&'a [u8]> {
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

    /// The attributes in the first attribute of this kind.
    pub fn nested(self, wanted: u16) -> Option<Attributes<'a>> {
        self.find(wanted).map(Attributes)
    }

    /// A 16-bit number.
    pub fn u16(self, wanted: u16) -> Option<u16> {
        u16_at(self.find(wanted)?, 0)
    }

    /// A 32-bit number.
    pub fn u32(self, wanted: u16) -> Option<u32> {
        u32_at(self.find(wanted)?, 0)
    }

    /// A 32-bit number in network byte order.
    pub fn u32_be(self, wanted: u16) -> Option<u32> {
        self.u32(wanted).map(u32::from_be)
    }

    /// A text up to its first zero.
    pub fn text(self, wanted: u16) -> Option<String> {
        let bytes = self.find(wanted)?;
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
    }
}

/// The 16-bit number at a place of an answer.
pub fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// The 32-bit number at a place of an answer.
pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// The 64-bit number at a place of an answer.
pub fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn attributes_are_found_behind_others_and_cut_ones_are_not() {
        let area = Body::default().with_text(2, "netdev");
        assert_eq!(area.bytes().len(), 12);
        let area = area.with(1 | 0x8000, &29_u16.to_ne_bytes());
        let attributes = |len: usize| Attributes::behind(0, &area.bytes()[..len]);
        assert_eq!(attributes(area.bytes().len()).u16(1), Some(29));
        assert_eq!(attributes(area.bytes().len()).text(2).as_deref(), Some("netdev"));
        assert_eq!(attributes(area.bytes().len()).find(77), None);
        assert_eq!(attributes(14).u16(1), None);
        assert_eq!(Attributes(&[0, 0, 0, 0]).find(1), None);
        assert_eq!(Attributes::behind(5, &[0; 4]).find(1), None);
        let nested = Body::new(&[7; 4]).with_body(3, Body::default().with_u32(1, 5));
        assert_eq!(Attributes::behind(4, nested.bytes()).nested(3).and_then(|inner| inner.u32(1)), Some(5));
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
        for word in [20_u32, libc::NLMSG_ERROR as u32, 7, 0] {
            message.extend(word.to_ne_bytes());
        }
        message.extend((-libc::EPERM).to_ne_bytes());
        let error = collect(&message, 7, &mut Vec::new()).expect_err("an error");
        assert_eq!(error.raw_os_error(), Some(libc::EPERM));
    }

    /// Bytes of which many are lengths that could be, so that what lies behind them is reached.
    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        let word = prop_oneof![
            3 => (0_u32..64).prop_map(u32::to_ne_bytes),
            2 => (0_u16..32, 0_u16..8).prop_map(|(len, kind)| [len.to_ne_bytes(), kind.to_ne_bytes()].concat().try_into().unwrap_or_default()),
            1 => any::<[u8; 4]>(),
        ];
        (proptest::collection::vec(word, 0..60), 0_usize..4)
            .prop_map(|(words, cut)| words.concat()[..(words.len() * 4).saturating_sub(cut)].to_vec())
    }

    proptest! {
        #[test]
        fn any_answer_is_read_or_refused(datagram in bytes(), sequence in 0_u32..4) {
            let mut answers = Vec::new();
            let complete = collect(&datagram, sequence, &mut answers);
            let header_and_body: usize = answers.iter().map(|answer| HEADER_LEN + answer.len()).sum();
            prop_assert!(header_and_body <= datagram.len());
            if let Err(error) = complete {
                prop_assert!(!error.to_string().is_empty());
            }
        }

        #[test]
        fn attributes_lie_where_they_are_found(area in bytes(), header in 0_usize..20, kind in 0_u16..8) {
            let attributes = Attributes::behind(header, &area);
            if let Some(value) = attributes.find(kind) {
                let at = value.as_ptr() as usize - area.as_ptr() as usize;
                prop_assert!(at >= header + 4 && at + value.len() <= area.len());
                prop_assert_eq!(u16_at(&area, at - 4).map(usize::from), Some(4 + value.len()));
                prop_assert_eq!(u16_at(&area, at - 2).map(|found| found & 0x3fff), Some(kind));
            }
            let (_, _, text) = (attributes.u16(kind), attributes.u32_be(kind), attributes.text(kind));
            prop_assert!(text.is_none_or(|text| !text.contains('\0')));
            prop_assert!(attributes.nested(kind).and_then(|inner| inner.find(kind)).is_none_or(|value| value.len() <= area.len()));
        }
    }
}
