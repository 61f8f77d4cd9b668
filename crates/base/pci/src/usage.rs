//! Whether the host needs a network card's interface: addresses and routes, asked of the kernel in the calling thread's namespace.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

use super::{Kernel, PciInterface};
use linerate_sys::netdev::{Netdev, addresses};
use linerate_sys::netlink::{Attributes, Body, DUMP, Netlink, u16_at, u32_at};

/// Bytes of struct rtmsg (linux/rtnetlink.h).
const RTMSG_LEN: usize = 12;
/// Attributes of a route: its interface, and its next hops where there are several.
const RTA_OIF: u16 = 4;
const RTA_MULTIPATH: u16 = 9;
const RTA_DST: u16 = 1;

/// The kernel of this machine.
pub(super) struct ThisKernel;

impl Kernel for ThisKernel {
    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        OpenOptions::new().write(true).open(path)?.write_all(text.as_bytes())
    }

    fn use_of(&self, interface: &PciInterface) -> Option<String> {
        let name = &interface.name;
        let here = Netdev::open(name).and_then(|device| device.index()).ok();
        if here != Some(interface.index) {
            return Some(format!("its interface {name} is in another network namespace"));
        }
        match addresses(name) {
            Ok(list) => {
                if let Some(address) = list.first() {
                    return Some(format!("its interface {name} is up and has address {address}"));
                }
            }
            Err(error) => return Some(format!("the addresses of {name} are not known: {error}")),
        }
        match routes_by(interface.index) {
            Ok(0) => None,
            Ok(_) => Some(format!("its interface {name} is up and has routes")),
            Err(error) => Some(format!("the routes of {name} are not known: {error}")),
        }
    }
}

/// Number of routes by an interface, in all tables; those that the kernel makes for addresses of link scope do not count.
fn routes_by(index: u32) -> io::Result<usize> {
    let mut netlink = Netlink::open(libc::NETLINK_ROUTE)?;
    let all = Body::new(&[0; RTMSG_LEN]);
    let routes = netlink.exchange(libc::RTM_GETROUTE, DUMP, &all)?;
    Ok(routes.iter().filter(|route| goes_by(route, index) && !is_automatic(route)).count())
}

fn goes_by(route: &[u8], index: u32) -> bool {
    let attributes = Attributes::behind(RTMSG_LEN, route);
    if attributes.u32(RTA_OIF) == Some(index) {
        return true;
    }
    // struct rtnexthop: length, flags, weight, interface; attributes behind it.
    let mut rest = attributes.find(RTA_MULTIPATH).unwrap_or_default();
    while let (Some(len), Some(interface)) = (u16_at(rest, 0), u32_at(rest, 4)) {
        if interface == index {
            return true;
        }
        let Some(next) = rest.get(usize::from(len.max(8)).next_multiple_of(4)..) else { break };
        rest = next;
    }
    false
}

/// True for fe80::/10 and ff00::/8, for which every IPv6 interface has routes.
fn is_automatic(route: &[u8]) -> bool {
    let ipv6 = route.first().is_some_and(|family| i32::from(*family) == libc::AF_INET6);
    let to = Attributes::behind(RTMSG_LEN, route).find(RTA_DST).unwrap_or_default();
    ipv6 && matches!(to, [0xfe, 0x80..=0xbf, ..] | [0xff, ..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_sys::netns::NetNs;

    #[test]
    fn an_interface_that_the_host_needs_is_known() {
        let namespace = match NetNs::anonymous() {
            Ok(namespace) => namespace,
            Err(error) => return eprintln!("skipped: no network namespace: {error}"),
        };
        let lo = |index| PciInterface { name: "lo".into(), index, up: true, link: None, uppers: Vec::new() };
        let found = namespace.run(|| {
            let before = ThisKernel.use_of(&lo(1));
            Netdev::open("lo").unwrap().set_up(true).unwrap();
            (
                before,
                ThisKernel.use_of(&lo(1)),
                routes_by(1).unwrap(),
                routes_by(77).unwrap(),
                ThisKernel.use_of(&lo(2)),
            )
        });
        let (before, used, routes, none, other) = found.unwrap();
        assert_eq!((before, none), (None, 0));
        assert!(used.unwrap().contains("lo is up and has address") && routes > 0);
        assert!(other.unwrap().contains("another network namespace"));
    }

    #[test]
    fn routes_of_several_hops_and_of_link_scope_are_told_apart() {
        let mut header = [0; RTMSG_LEN];
        header[0] = libc::AF_INET6 as u8;
        let hop = |index: u32| [&[8, 0, 0, 0][..], &index.to_ne_bytes()].concat();
        let several = Body::new(&header).with(RTA_MULTIPATH, &[hop(3), hop(4)].concat());
        assert!(goes_by(several.bytes(), 4) && goes_by(several.bytes(), 3) && !goes_by(several.bytes(), 8));
        // A hop that claims no length ends.
        let short = Body::new(&header).with(RTA_MULTIPATH, &[0; 8]);
        assert!(!goes_by(short.bytes(), 4));
        let to = |bytes: &[u8]| Body::new(&header).with(RTA_DST, bytes);
        assert!(is_automatic(to(&[0xfe, 0x80, 0, 0]).bytes()) && is_automatic(to(&[0xff, 0]).bytes()));
        assert!(!is_automatic(to(&[0x20, 1]).bytes()) && !is_automatic(Body::new(&header).bytes()));
        assert!(!is_automatic(&[]) && !goes_by(&[], 1));
    }
}
