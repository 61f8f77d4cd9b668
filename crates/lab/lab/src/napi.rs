//! Where the receive work of an interface runs: in the sender's context, or in a kernel thread of its
//! own ("threaded NAPI", Documentation/networking/napi.rst) that can be pinned to a core.
//!
//! The switch is `/sys/class/net/IF/threaded`. Which thread then serves which NAPI instance comes from
//! the generic netlink family `netdev` (linux/netdev.h, Documentation/netlink/specs/netdev.yaml).

use std::fs;
use std::io;

use linerate_sys::affinity;
use linerate_sys::netns::NetNs;
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_GENERIC};

use crate::netlink::DATAGRAM_LEN_MAX;

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
    namespace.run_with_sysfs(|| fs::write(path, value))?
}

/// The NAPI instances of an interface, by its index; empty while it is down or has none.
///
/// # Errors
/// `ENOENT` on kernels before 6.8, which do not have the netlink family.
pub fn instances(namespace: &NetNs, interface: u32) -> io::Result<Vec<Napi>> {
    let mut family = NetdevFamily::open(namespace)?;
    family.napi_of(interface)
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

// Generic netlink (linux/genetlink.h, linux/netlink.h).
const NLMSG_HEADER_LEN: usize = 16;
const GENL_HEADER_LEN: usize = 4;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_DUMP: u16 = 0x300;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const GENL_ID_CTRL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
// linux/netdev.h.
const NETDEV_CMD_NAPI_GET: u8 = 11;
const NETDEV_A_NAPI_IFINDEX: u16 = 1;
const NETDEV_A_NAPI_ID: u16 = 2;
const NETDEV_A_NAPI_PID: u16 = 4;

struct NetdevFamily {
    socket: Socket,
    id: u16,
    sequence: u32,
}

impl NetdevFamily {
    fn open(namespace: &NetNs) -> io::Result<Self> {
        let socket = namespace.run(|| -> io::Result<Socket> {
            let mut socket = Socket::new(NETLINK_GENERIC)?;
            socket.bind_auto()?;
            socket.connect(&SocketAddr::new(0, 0))?;
            Ok(socket)
        })??;
        let mut family = Self { socket, id: GENL_ID_CTRL, sequence: 0 };
        let name = attribute(CTRL_ATTR_FAMILY_NAME, b"netdev\0");
        let answers = family.exchange(NLM_F_ACK, CTRL_CMD_GETFAMILY, &name)?;
        let id = answers.iter().find_map(|answer| find_u16(answer, CTRL_ATTR_FAMILY_ID));
        family.id = id.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOENT))?;
        Ok(family)
    }

    fn napi_of(&mut self, interface: u32) -> io::Result<Vec<Napi>> {
        let filter = attribute(NETDEV_A_NAPI_IFINDEX, &interface.to_ne_bytes());
        let answers = self.exchange(NLM_F_DUMP, NETDEV_CMD_NAPI_GET, &filter)?;
        let napi = |answer: &Vec<u8>| {
            let thread = find_u32(answer, NETDEV_A_NAPI_PID).and_then(|pid| i32::try_from(pid).ok());
            Some(Napi { id: find_u32(answer, NETDEV_A_NAPI_ID)?, thread: thread.filter(|pid| *pid > 0) })
        };
        Ok(answers.iter().filter_map(napi).collect())
    }

    /// Sends one command and returns the attribute areas of its answers.
    fn exchange(&mut self, flags: u16, command: u8, attributes: &[u8]) -> io::Result<Vec<Vec<u8>>> {
        self.sequence += 1;
        let len = NLMSG_HEADER_LEN + GENL_HEADER_LEN + attributes.len();
        let mut request = Vec::with_capacity(len);
        request.extend((len as u32).to_ne_bytes());
        request.extend(self.id.to_ne_bytes());
        request.extend((NLM_F_REQUEST | flags).to_ne_bytes());
        request.extend(self.sequence.to_ne_bytes());
        request.extend(0_u32.to_ne_bytes());
        request.extend([command, 1, 0, 0]);
        request.extend(attributes);
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
        let message = rest.get(..len).filter(|_| len >= NLMSG_HEADER_LEN);
        let message = message.ok_or_else(|| io::Error::other("a netlink message is shorter than its header says"))?;
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        if u32_at(message, 8) != Some(sequence) {
            continue;
        }
        match u16_at(message, 4) {
            Some(NLMSG_DONE) => return Ok(true),
            Some(NLMSG_ERROR) => {
                return match u32_at(message, NLMSG_HEADER_LEN).map(|code| code as i32) {
                    Some(0) => Ok(true),
                    code => Err(io::Error::from_raw_os_error(-code.unwrap_or(-libc::EIO))),
                };
            }
            _ => answers.push(message.get(NLMSG_HEADER_LEN + GENL_HEADER_LEN..).unwrap_or_default().to_vec()),
        }
    }
    Ok(false)
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(4 + value.len() + 3);
    bytes.extend((4 + value.len() as u16).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn find(attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    let mut rest = attributes;
    loop {
        let len = usize::from(u16_at(rest, 0)?);
        let value = rest.get(4..len)?;
        if u16_at(rest, 2) == Some(wanted) {
            return Some(value);
        }
        rest = rest.get(len.next_multiple_of(4)..)?;
    }
}

fn find_u16(attributes: &[u8], wanted: u16) -> Option<u16> {
    u16_at(find(attributes, wanted)?, 0)
}

fn find_u32(attributes: &[u8], wanted: u16) -> Option<u32> {
    u32_at(find(attributes, wanted)?, 0)
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
        let mut area = attribute(CTRL_ATTR_FAMILY_NAME, b"netdev\0");
        assert_eq!(area.len(), 12);
        area.extend(attribute(CTRL_ATTR_FAMILY_ID, &29_u16.to_ne_bytes()));
        assert_eq!(find_u16(&area, CTRL_ATTR_FAMILY_ID), Some(29));
        assert_eq!(find(&area, 77), None);
        assert_eq!(find_u16(&area[..14], CTRL_ATTR_FAMILY_ID), None);
        assert_eq!(find(&[0, 0, 0, 0], 1), None);
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
