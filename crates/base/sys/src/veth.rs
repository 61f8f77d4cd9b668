//! Making, moving and deleting veth pairs by rtnetlink (rtnetlink(7), linux/if_link.h, linux/veth.h).
//!
//! Only what tests and small set-ups need, in one request and without a library: two ends, each in
//! its namespace, with a number of queues, and both brought up. Addresses and routes are others' matter.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use crate::netdev::Netdev;
use crate::netlink::{Body, CREATE, Netlink, link_header};
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
    let peer = Body::default().with_body(VETH_INFO_PEER, end(second, queues));
    let info = Body::default().with(libc::IFLA_INFO_KIND, b"veth").with_body(libc::IFLA_INFO_DATA, peer);
    let request = end(first, queues).with_body(libc::IFLA_LINKINFO, info);
    first.namespace.run(|| send(libc::RTM_NEWLINK, CREATE, &request))?
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
    let request = message(0).with_text(libc::IFLA_IFNAME, name);
    namespace.run(|| send(libc::RTM_DELLINK, 0, &request))?
}

/// Moves interface `name` of `namespace` to the place and name that `to` says, as `ip link set NAME netns ... name ...` does, which
/// sets it down.
///
/// # Errors
/// `ENODEV` when there is none, `EEXIST` when the new name is taken, `EPERM` without CAP_NET_ADMIN in both namespaces.
pub fn move_to(namespace: &NetNs, name: &str, to: VethEnd<'_>) -> io::Result<()> {
    namespace.run(|| {
        let request = place(message(Netdev::open(name)?.index()?), to);
        send(libc::RTM_NEWLINK, 0, &request)
    })?
}

/// linux/veth.h.
const VETH_INFO_PEER: u16 = 1;

/// Sends a request about links in the calling thread's namespace.
fn send(kind: u16, flags: u16, body: &Body) -> io::Result<()> {
    Netlink::open(libc::NETLINK_ROUTE)?.exchange(kind, flags, body).map(drop)
}

fn message(interface: u32) -> Body {
    Body::new(&link_header(interface))
}

fn end(end: VethEnd<'_>, queues: u32) -> Body {
    let body = place(message(0), end).with_u32(libc::IFLA_NUM_TX_QUEUES, queues);
    body.with_u32(libc::IFLA_NUM_RX_QUEUES, queues)
}

fn place(body: Body, end: VethEnd<'_>) -> Body {
    let body = body.with_text(libc::IFLA_IFNAME, end.name);
    body.with(libc::IFLA_NET_NS_FD, &end.namespace.as_fd().as_raw_fd().to_ne_bytes())
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
