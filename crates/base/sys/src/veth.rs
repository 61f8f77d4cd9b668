//! Making, moving and deleting veth pairs by rtnetlink (rtnetlink(7), linux/if_link.h, linux/veth.h).
//!
//! Only what tests and small set-ups need, in one request and without a library: two ends, each in
//! its namespace, with a number of queues, and both brought up. Addresses and routes are others' matter.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use crate::netdev::Netdev;
use crate::netns::NetNs;

/// One end of a pair.
#[derive(Clone, Copy, Debug)]
pub struct VethEnd<'a> {
    /// Interface name.
    pub name: &'a str,
    /// Where it is to be.
    pub namespace: &'a NetNs,
}

/// Makes a pair whose ends have `queues` transmit and receive queues each. Both are down.
///
/// # Errors
/// `EEXIST` when a name is taken, `EPERM` without CAP_NET_ADMIN in both namespaces.
pub fn create(first: VethEnd<'_>, second: VethEnd<'_>, queues: u32) -> io::Result<()> {
    let mut request = Message::new(libc::RTM_NEWLINK, libc::NLM_F_CREATE | libc::NLM_F_EXCL);
    request.end(first, queues);
    request.nested(libc::IFLA_LINKINFO, |request| {
        request.attribute(libc::IFLA_INFO_KIND, b"veth");
        request.nested(libc::IFLA_INFO_DATA, |request| {
            request.nested(VETH_INFO_PEER, |request| {
                request.bytes.extend([0; INTERFACE_HEADER_LEN]);
                request.end(second, queues);
            });
        });
    });
    first.namespace.run(|| request.send())?
}

/// Sets both ends up and waits until both carry packets, see [`Netdev::wait_until_running`].
///
/// # Errors
/// `EPERM` without CAP_NET_ADMIN; `TimedOut` when an end does not carry packets after ten seconds.
pub fn bring_up(one: &Netdev, other: &Netdev) -> io::Result<()> {
    one.set_up(true)?;
    other.set_up(true)?;
    for end in [one, other] {
        if !end.wait_until_running(Duration::from_secs(10))? {
            return Err(io::Error::new(io::ErrorKind::TimedOut, format!("{} gets no carrier", end.name())));
        }
    }
    Ok(())
}

/// Deletes interface `name` of `namespace` (and, for a veth, its other end).
///
/// # Errors
/// `ENODEV` when there is none, `EPERM` without CAP_NET_ADMIN.
pub fn delete(namespace: &NetNs, name: &str) -> io::Result<()> {
    let mut request = Message::new(libc::RTM_DELLINK, 0);
    request.attribute(libc::IFLA_IFNAME, &terminated(name));
    namespace.run(|| request.send())?
}

/// Moves interface `name` of `namespace` to the place and name that `to` says, as `ip link set NAME netns ... name ...` does, which
/// sets it down.
///
/// # Errors
/// `ENODEV` when there is none, `EEXIST` when the new name is taken, `EPERM` without CAP_NET_ADMIN in both namespaces.
pub fn move_to(namespace: &NetNs, name: &str, to: VethEnd<'_>) -> io::Result<()> {
    namespace.run(|| {
        let mut request = Message::new(libc::RTM_NEWLINK, 0);
        let index_at = HEADER_LEN + 4;
        request.bytes[index_at..index_at + 4].copy_from_slice(&Netdev::open(name)?.index()?.to_ne_bytes());
        request.place(to);
        request.send()
    })?
}

const VETH_INFO_PEER: u16 = 1;
/// struct nlmsghdr.
const HEADER_LEN: usize = 16;
/// struct ifinfomsg.
const INTERFACE_HEADER_LEN: usize = 16;

struct Message {
    bytes: Vec<u8>,
}

impl Message {
    fn new(kind: u16, flags: libc::c_int) -> Self {
        let flags = (flags | libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16;
        let mut bytes = vec![0; HEADER_LEN + INTERFACE_HEADER_LEN];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        Self { bytes }
    }

    fn end(&mut self, end: VethEnd<'_>, queues: u32) {
        self.place(end);
        self.attribute(libc::IFLA_NUM_TX_QUEUES, &queues.to_ne_bytes());
        self.attribute(libc::IFLA_NUM_RX_QUEUES, &queues.to_ne_bytes());
    }

    fn place(&mut self, end: VethEnd<'_>) {
        self.attribute(libc::IFLA_IFNAME, &terminated(end.name));
        self.attribute(libc::IFLA_NET_NS_FD, &end.namespace.as_fd().as_raw_fd().to_ne_bytes());
    }

    fn attribute(&mut self, kind: u16, value: &[u8]) {
        self.nested(kind, |message| message.bytes.extend(value));
    }

    fn nested(&mut self, kind: u16, content: impl FnOnce(&mut Self)) {
        let start = self.bytes.len();
        self.bytes.extend([0, 0]);
        self.bytes.extend(kind.to_ne_bytes());
        content(self);
        let len = (self.bytes.len() - start) as u16;
        self.bytes[start..start + 2].copy_from_slice(&len.to_ne_bytes());
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    /// Sends the request in the calling thread's namespace and reads the kernel's answer.
    fn send(&self) -> io::Result<()> {
        let mut bytes = self.bytes.clone();
        let len = (bytes.len() as u32).to_ne_bytes();
        bytes[..4].copy_from_slice(&len);
        // SAFETY: socket takes constants only.
        let fd = unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_ROUTE) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `fd` was just made and belongs to nobody else.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: the buffer is valid for reading its length.
        let sent = unsafe { libc::send(socket.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), 0) };
        if sent < 0 {
            return Err(io::Error::last_os_error());
        }
        let mut answer = [0; 4096];
        // SAFETY: the buffer is valid for writing its length.
        let len = unsafe { libc::recv(socket.as_raw_fd(), answer.as_mut_ptr().cast(), answer.len(), 0) };
        let answer = answer.get(..usize::try_from(len).unwrap_or(0)).unwrap_or(&[]);
        read_answer(answer)
    }
}

/// An acknowledgement is an NLMSG_ERROR message with error 0; an errno is negative.
fn read_answer(answer: &[u8]) -> io::Result<()> {
    let (Some([a, b]), Some([c, d, e, f])) = (answer.get(4..6), answer.get(HEADER_LEN..HEADER_LEN + 4)) else {
        return Err(io::Error::other("the kernel's answer to a netlink request is too short"));
    };
    let kind = i32::from(u16::from_ne_bytes([*a, *b]));
    match (kind, i32::from_ne_bytes([*c, *d, *e, *f])) {
        (libc::NLMSG_ERROR, 0) => Ok(()),
        (libc::NLMSG_ERROR, errno) => Err(io::Error::from_raw_os_error(errno.saturating_neg())),
        _ => Err(io::Error::other(format!("unexpected netlink answer of type {kind}"))),
    }
}

fn terminated(name: &str) -> Vec<u8> {
    [name.as_bytes(), &[0]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netdev::Presence;

    #[test]
    fn a_pair_spans_two_namespaces_and_goes_as_one() {
        let (Ok(left), Ok(right)) = (NetNs::anonymous(), NetNs::anonymous()) else {
            return eprintln!("skipped: no network namespaces");
        };
        let end = |name, namespace| VethEnd { name, namespace };
        create(end("left0", &left), end("right0", &right), 3).unwrap();
        let error = create(end("left0", &left), end("right1", &right), 1).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EEXIST));
        let one = left.run(|| Netdev::open("left0")).unwrap().unwrap();
        let other = right.run(|| Netdev::open("right0")).unwrap().unwrap();
        assert_eq!(one.driver_info().unwrap().unwrap().driver, "veth");
        assert_eq!(other.channels().unwrap().unwrap().rx, (3, 3));
        assert!(!one.wait_until_running(Duration::from_millis(5)).unwrap(), "it is down");
        bring_up(&one, &other).unwrap();
        assert!(one.is_running().unwrap() && other.is_running().unwrap());
        assert_eq!(one.link().unwrap(), Some(true));
        let index = one.index().unwrap();
        assert_eq!(one.presence(index), Presence::Up);
        assert_eq!(one.presence(index + 1), Presence::Gone);
        one.set_up(false).unwrap();
        assert_eq!(one.presence(index), Presence::Down);
        move_to(&right, "right0", end("moved0", &left)).unwrap();
        assert!(left.run(|| Netdev::open("moved0")).unwrap().is_ok() && other.index().is_err());
        move_to(&left, "moved0", end("right0", &right)).unwrap();
        delete(&right, "right0").unwrap();
        assert_eq!(one.presence(index), Presence::Gone);
        assert!(one.index().is_err() && other.index().is_err());
        assert_eq!(delete(&right, "right0").unwrap_err().raw_os_error(), Some(libc::ENODEV));
    }
}
