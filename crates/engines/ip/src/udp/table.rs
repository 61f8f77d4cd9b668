//! Which socket a datagram is for.

use std::collections::HashMap;

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{BindError, UdpId};
use crate::fast::UsualDatagram4;
use crate::random::Random;
use crate::shard::Shard;

/// Ports that are chosen for sockets without one (RFC 6056 section 3.2 wants them from a wide range).
const EPHEMERAL: core::ops::RangeInclusive<u16> = 32_768..=60_999;

/// Both ends of a socket. Addresses of IPv4 are mapped into IPv6; `remote_port` is 0 for a socket that is not connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Ends {
    pub local: u128,
    pub local_port: u16,
    pub remote: u128,
    pub remote_port: u16,
}

/// Number of port numbers.
const PORTS: usize = 1 << 16;
const ANY_V4: u128 = 0xffff << 32;
const ANY_V6: u128 = 0;

/// An address as a number, that of IPv4 mapped into IPv6.
#[inline]
pub(super) fn mapped(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(four) => ANY_V4 | u128::from(four.to_bits()),
        IpAddr::V6(six) => six.to_bits(),
    }
}

/// The address of a number that [`mapped`] made.
pub(super) fn bits(number: u128) -> IpAddr {
    if is_v4(number) { Ipv4Addr::from_bits(number as u32).into() } else { Ipv6Addr::from_bits(number).into() }
}

#[inline]
fn is_v4(number: u128) -> bool {
    number >> 32 == 0xffff
}

/// The unspecified address of the family of `number`.
#[inline]
pub(super) fn any_of(number: u128) -> u128 {
    if is_v4(number) { ANY_V4 } else { ANY_V6 }
}

impl Ends {
    /// True if a socket with these ends takes a datagram with `of`, whose port is the socket's.
    #[inline]
    fn takes(&self, of: &Ends) -> bool {
        let local = self.local == of.local || self.local == any_of(of.local);
        let remote = self.remote_port == 0 || self.remote_port == of.remote_port && self.remote == of.remote;
        local && remote
    }
}

impl Ends {
    /// True if datagrams between the two belong to the shard.
    fn are_of(&self, shard: Shard) -> bool {
        shard.owns((bits(self.local), self.local_port), (bits(self.remote), self.remote_port))
    }
}

/// Which usual datagrams over IPv4 a socket takes: two compares of words as they lie in the frame, source before destination.
#[derive(Clone, Copy)]
struct Usual {
    addresses: u64,
    addresses_mask: u64,
    ports: u32,
    ports_mask: u32,
}

impl Usual {
    fn of(ends: &Ends) -> Usual {
        if !is_v4(ends.local) {
            // No datagram has an unspecified destination.
            return Usual { addresses: 0, addresses_mask: u64::MAX, ports: 0, ports_mask: 0 };
        }
        let is_connected = ends.remote_port != 0;
        let mask = |is_compared: bool| if is_compared { u64::from(u32::MAX) } else { 0 };
        let is_any = ends.local == ANY_V4;
        Usual {
            addresses: ((ends.remote as u32 as u64 & mask(is_connected)) << 32 | u64::from(ends.local as u32)).to_be(),
            addresses_mask: (mask(is_connected) << 32 | mask(!is_any)).to_be(),
            ports: (u32::from(ends.remote_port) << 16 | u32::from(ends.local_port)).to_be(),
            ports_mask: (mask(is_connected) as u32 & 0xffff_0000 | 0xffff).to_be(),
        }
    }

    #[inline]
    fn takes(&self, datagram: &UsualDatagram4<'_>) -> bool {
        let addresses = (datagram.addresses() ^ self.addresses) & self.addresses_mask;
        let ports = (datagram.ports() ^ self.ports) & self.ports_mask;
        addresses | u64::from(ports) == 0
    }
}

struct Socket {
    usual: Usual,
    ends: Ends,
    generation: u32,
    is_open: bool,
}

/// Sockets at a port: how many, and the numbers of all of them added by XOR, which is the number of the one that is alone.
#[derive(Clone, Copy, Default)]
struct Port {
    count: u32,
    only: u32,
}

/// All sockets.
pub(super) struct Table {
    sockets: Vec<Socket>,
    free: Vec<u32>,
    capacity: usize,
    ports: Box<[Port; PORTS]>,
    index: HashMap<Ends, u32>,
    random: Random,
    shard: Shard,
}

impl Table {
    pub fn new(capacity: usize, secret: [u8; 16], shard: Shard) -> Table {
        Table {
            sockets: Vec::with_capacity(capacity.min(1 << 16)),
            free: Vec::new(),
            capacity: capacity.min(u32::MAX as usize),
            ports: vec![Port::default(); PORTS].try_into().unwrap_or_else(|_| Box::new([Port::default(); PORTS])),
            index: HashMap::with_capacity(capacity.min(1 << 16)),
            random: Random::new(secret, "udp"),
            shard,
        }
    }

    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// The socket for a datagram with `ends`: one connected to its sender, then one of its address, then one of all addresses.
    #[inline]
    pub fn find(&self, ends: &Ends) -> Option<UdpId> {
        let port = &self.ports[usize::from(ends.local_port)];
        let index = match port.count {
            0 => return None,
            1 if self.sockets.get(port.only as usize)?.ends.takes(ends) => port.only,
            1 => return None,
            _ => self.find_of_many(ends)?,
        };
        Some(self.id(index))
    }

    /// The socket for a usual datagram, and whether it is connected.
    #[inline(always)]
    pub fn find_usual4(&self, datagram: &UsualDatagram4<'_>) -> Option<(UdpId, bool)> {
        let port = &self.ports[usize::from(datagram.dst_port())];
        if port.count != 1 {
            return self.find_usual_of_many(datagram, port.count);
        }
        let socket = self.sockets.get(port.only as usize)?;
        let id = UdpId { index: port.only, generation: socket.generation };
        socket.usual.takes(datagram).then_some((id, socket.ends.remote_port != 0))
    }

    #[inline(never)]
    fn find_usual_of_many(&self, datagram: &UsualDatagram4<'_>, count: u32) -> Option<(UdpId, bool)> {
        if count == 0 {
            return None;
        }
        let ends = Ends {
            local: mapped(IpAddr::V4(datagram.dst().into())),
            local_port: datagram.dst_port(),
            remote: mapped(IpAddr::V4(datagram.src().into())),
            remote_port: datagram.src_port(),
        };
        let index = self.find_of_many(&ends)?;
        Some((self.id(index), self.sockets[index as usize].ends.remote_port != 0))
    }

    fn find_of_many(&self, ends: &Ends) -> Option<u32> {
        let bound = Ends { remote: 0, remote_port: 0, ..*ends };
        let any = Ends { local: any_of(ends.local), ..bound };
        [ends, &bound, &any].into_iter().find_map(|ends| self.index.get(ends)).copied()
    }

    /// Adds a socket; port 0 becomes one that is free.
    pub fn add(&mut self, ends: Ends) -> Result<UdpId, BindError> {
        if self.index.len() >= self.capacity {
            return Err(BindError::TooMany);
        }
        let ends = if ends.local_port == 0 { self.with_free_port(ends)? } else { ends };
        if self.index.contains_key(&ends) {
            return Err(BindError::InUse);
        }
        let index = self.free.pop().unwrap_or_else(|| {
            self.sockets.push(Socket { usual: Usual::of(&ends), ends, generation: 0, is_open: false });
            self.sockets.len() as u32 - 1
        });
        let socket = &mut self.sockets[index as usize];
        (socket.usual, socket.ends, socket.is_open) = (Usual::of(&ends), ends, true);
        self.index.insert(ends, index);
        let port = &mut self.ports[usize::from(ends.local_port)];
        (port.count, port.only) = (port.count + 1, port.only ^ index);
        Ok(self.id(index))
    }

    /// The first free port behind one that depends on the addresses and a secret (RFC 6056 section 3.3.3).
    fn with_free_port(&mut self, ends: Ends) -> Result<Ends, BindError> {
        let (low, count) = (*EPHEMERAL.start(), u32::from(EPHEMERAL.end() - EPHEMERAL.start()) + 1);
        let start = self.random.next() as u32;
        let ports = (0..count).map(|step| low + (start.wrapping_add(step) % count) as u16);
        let mut all = ports.map(|local_port| Ends { local_port, ..ends });
        // A socket that is not connected wants a port for itself, so that answers to others do not reach it.
        let is_free = |ends: &Ends| match ends.remote_port {
            0 => self.ports[usize::from(ends.local_port)].count == 0,
            // Answers are to reach this shard.
            _ => !self.index.contains_key(ends) && ends.are_of(self.shard),
        };
        all.find(is_free).ok_or(BindError::NoPort)
    }

    pub fn remove(&mut self, id: UdpId) -> bool {
        let Some(ends) = self.ends(id).copied() else { return false };
        self.index.remove(&ends);
        let port = &mut self.ports[usize::from(ends.local_port)];
        (port.count, port.only) = (port.count - 1, port.only ^ id.index);
        let socket = &mut self.sockets[id.index as usize];
        (socket.is_open, socket.generation) = (false, socket.generation.wrapping_add(1));
        self.free.push(id.index);
        true
    }

    /// Both ends of an open socket.
    #[inline]
    pub fn ends(&self, id: UdpId) -> Option<&Ends> {
        let socket = self.sockets.get(id.index as usize)?;
        (socket.is_open && socket.generation == id.generation).then_some(&socket.ends)
    }

    #[inline]
    fn id(&self, index: u32) -> UdpId {
        UdpId { index, generation: self.sockets[index as usize].generation }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(local: &str, local_port: u16, remote: &str, remote_port: u16) -> Ends {
        let number = |text: &str| mapped(text.parse().unwrap());
        let remote = if remote_port == 0 { 0 } else { number(remote) };
        Ends { local: number(local), local_port, remote, remote_port }
    }

    fn of(local: &str, local_port: u16, remote: &str, remote_port: u16) -> Ends {
        let number = |text: &str| mapped(text.parse().unwrap());
        Ends { local: number(local), local_port, remote: number(remote), remote_port }
    }

    #[test]
    fn the_most_exact_socket_takes_a_datagram() {
        let mut table = Table::new(8, [1; 16], Shard::default());
        let any = table.add(ends("0.0.0.0", 53, "", 0)).unwrap();
        let datagram = of("10.0.0.1", 53, "10.0.0.9", 999);
        assert_eq!(table.find(&datagram), Some(any));
        assert_eq!(table.find(&of("fd00::1", 53, "fd00::9", 999)), None, "another family");
        let one = table.add(ends("10.0.0.1", 53, "", 0)).unwrap();
        assert_eq!(table.find(&datagram), Some(one));
        let connected = table.add(ends("10.0.0.1", 53, "10.0.0.9", 999)).unwrap();
        assert_eq!(table.find(&datagram), Some(connected));
        assert_eq!(table.find(&of("10.0.0.1", 53, "10.0.0.9", 998)), Some(one));
        assert_eq!(table.find(&of("10.0.0.2", 53, "10.0.0.9", 998)), Some(any));
        assert_eq!(table.add(ends("10.0.0.1", 53, "", 0)), Err(BindError::InUse));
        assert!(table.remove(one) && !table.remove(one));
        assert_eq!(table.find(&of("10.0.0.1", 53, "10.0.0.9", 998)), Some(any));
        assert!(table.remove(any));
        assert_eq!(table.find(&datagram), Some(connected), "the one that is left is found without the hash");
        assert_eq!(table.find(&of("10.0.0.1", 53, "10.0.0.9", 998)), None);
        let again = table.add(ends("10.0.0.1", 54, "", 0)).unwrap();
        assert_eq!(table.ends(one), None, "{again:?} has the place of {one:?}");
    }

    #[test]
    fn ports_are_chosen_until_there_are_none() {
        let mut table = Table::new(100_000, [1; 16], Shard::default());
        let count = usize::from(EPHEMERAL.end() - EPHEMERAL.start()) + 1;
        for _ in 0..count {
            table.add(ends("10.0.0.1", 0, "10.0.0.9", 7)).unwrap();
        }
        assert_eq!(table.add(ends("10.0.0.1", 0, "10.0.0.9", 7)), Err(BindError::NoPort));
        assert!(table.add(ends("10.0.0.1", 0, "10.0.0.9", 8)).is_ok());
        assert!(table.add(ends("10.0.0.2", 0, "10.0.0.9", 7)).is_ok());
        assert_eq!(table.add(ends("10.0.0.3", 0, "", 0)), Err(BindError::NoPort), "each port has a socket");
        assert_eq!(Table::new(0, [1; 16], Shard::default()).add(ends("10.0.0.1", 1, "", 0)), Err(BindError::TooMany));
    }
}
