//! Where the receive work of an interface runs: in the sender's context, or in a kernel thread of its
//! own ("threaded NAPI", Documentation/networking/napi.rst) that can be pinned to a core.
//!
//! The switch is `/sys/class/net/IF/threaded`. Which thread then serves which NAPI instance comes from
//! the generic netlink family `netdev` (linux/netdev.h, Documentation/netlink/specs/netdev.yaml).

use std::fs;
use std::io;

use linerate_sys::affinity;
use linerate_sys::netlink::{Attributes, Body, DUMP, Netlink};
use linerate_sys::netns::NetNs;

/// One NAPI instance of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Napi {
    /// Its number, unique on the machine.
    pub id: u32,
    /// The kernel thread that serves it, when it is threaded and visible from here.
    pub thread: Option<i32>,
}

/// Turns threaded NAPI of `interface` on or off through a sysfs of its namespace.
///
/// # Errors
/// `EPERM` when a fresh sysfs may not be mounted here or without CAP_NET_ADMIN over the namespace;
/// `EOPNOTSUPP` when the interface has no NAPI; `NotFound` on kernels before 5.12.
pub fn set_threaded(namespace: &NetNs, interface: &str, threaded: bool) -> io::Result<()> {
    let path = format!("/sys/class/net/{interface}/threaded");
    let value = if threaded { "1" } else { "0" };
    let written = namespace.run_with_sysfs(|| fs::write(path, value));
    written.map_err(|error| io::Error::new(error.kind(), format!("no sysfs of the namespace: {error}")))?
}

/// The NAPI instances of an interface, by its index; empty while it is down or has none.
///
/// # Errors
/// `ENOENT` on kernels before 6.8, which do not have the netlink family.
pub fn instances(namespace: &NetNs, interface: u32) -> io::Result<Vec<Napi>> {
    NetdevFamily::open(namespace)?.napi_of(interface)
}

/// Ties every NAPI thread of an interface to `core` and returns the threads.
///
/// # Errors
/// `NotFound` when there is no such thread; `EPERM` without CAP_SYS_NICE on the machine (kernel threads belong
/// to no user namespace), in which case the scheduler goes on placing them.
pub fn pin_threads(namespace: &NetNs, interface: u32, core: usize) -> io::Result<Vec<i32>> {
    let threads: Vec<i32> = instances(namespace, interface)?.iter().filter_map(|napi| napi.thread).collect();
    if threads.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "the interface has no NAPI thread"));
    }
    for thread in &threads {
        affinity::pin_thread(*thread, &[core])?;
    }
    Ok(threads)
}

// Generic netlink (linux/genetlink.h).
const GENL_HEADER_LEN: usize = 4;
const GENL_ID_CTRL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
// linux/netdev.h.
const NETDEV_CMD_NAPI_GET: u8 = 11;
const NETDEV_A_NAPI_IFINDEX: u16 = 1;
const NETDEV_A_NAPI_ID: u16 = 2;
const NETDEV_A_NAPI_PID: u16 = 4;

/// The generic netlink family `netdev` of one namespace, kept open.
#[derive(Debug)]
pub struct NetdevFamily {
    netlink: Netlink,
    id: u16,
}

impl NetdevFamily {
    /// Opens the family in a namespace.
    ///
    /// # Errors
    /// The kernel's word; kernels before 6.4 have no such family.
    pub fn open(namespace: &NetNs) -> io::Result<Self> {
        let mut netlink = Netlink::open_in(namespace, libc::NETLINK_GENERIC)?;
        let request = command(CTRL_CMD_GETFAMILY).with_text(CTRL_ATTR_FAMILY_NAME, "netdev");
        let answers = netlink.exchange(GENL_ID_CTRL, 0, &request)?;
        let id = answers.iter().find_map(|answer| attributes_of(answer).u16(CTRL_ATTR_FAMILY_ID));
        Ok(Self { netlink, id: id.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOENT))? })
    }

    /// The NAPI instances of an interface, with their threads.
    ///
    /// # Errors
    /// The kernel's word.
    pub fn napi_of(&mut self, interface: u32) -> io::Result<Vec<Napi>> {
        let request = command(NETDEV_CMD_NAPI_GET).with_u32(NETDEV_A_NAPI_IFINDEX, interface);
        let answers = self.netlink.exchange(self.id, DUMP, &request)?;
        let napi = |answer: &Vec<u8>| {
            let attributes = attributes_of(answer);
            let thread = attributes.u32(NETDEV_A_NAPI_PID).and_then(|pid| i32::try_from(pid).ok());
            Some(Napi { id: attributes.u32(NETDEV_A_NAPI_ID)?, thread: thread.filter(|pid| *pid > 0) })
        };
        Ok(answers.iter().filter_map(napi).collect())
    }
}

fn command(number: u8) -> Body {
    Body::new(&[number, 1, 0, 0])
}

fn attributes_of(answer: &[u8]) -> Attributes<'_> {
    Attributes::behind(GENL_HEADER_LEN, answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_has_no_napi() {
        let namespace = match NetNs::anonymous() {
            Ok(namespace) => namespace,
            Err(error) => return eprintln!("skipped: no network namespace: {error}"),
        };
        match instances(&namespace, 1) {
            Ok(instances) => assert_eq!(instances, []),
            Err(error) => eprintln!("skipped: no netdev netlink family: {error}"),
        }
        assert!(set_threaded(&namespace, "lo", true).is_err());
    }
}
