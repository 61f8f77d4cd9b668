//! Own addresses: which they are, and whether they may be used.

use std::collections::HashMap;

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::config::in_prefix;

/// Whether an address may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressState {
    /// Duplicate detection is under way: the address is neither used nor answered for.
    Tentative,
    /// It is used.
    Ready,
    /// Its preferred lifetime is over: connections that stand go on, new ones take another address if there is one (RFC 4862 section 5.5.4).
    Deprecated,
    /// Somebody else has it.
    Duplicate,
}

/// Where an address comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The configuration.
    Static,
    /// Made of the MAC address.
    LinkLocal,
    /// Made of a prefix that a router advertised.
    Slaac,
    /// A lease.
    Dhcp,
}

/// One of our addresses.
#[derive(Clone, Copy, Debug)]
pub struct Own {
    /// The address.
    pub address: IpAddr,
    /// Bits of its prefix.
    pub prefix_len: u8,
    /// Whether it may be used.
    pub state: AddressState,
    /// Where it comes from.
    pub origin: Origin,
    /// When it is deprecated, in nanoseconds; `u64::MAX`: never.
    pub preferred_until_ns: u64,
    /// When it is taken away, in nanoseconds; `u64::MAX`: never.
    pub valid_until_ns: u64,
    /// Probes that duplicate detection has sent.
    pub probes: u8,
    /// When the next step of duplicate detection is due, or of the announcements behind it; `u64::MAX` if none.
    pub step_ns: u64,
    /// When the address was last defended (RFC 5227 section 2.4).
    pub defended_ns: u64,
}

/// Addresses that follow each other, as numbers: from, and how many behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run<T> {
    /// The first.
    pub first: T,
    /// The last, less the first.
    pub behind: T,
}

/// All of our addresses.
#[derive(Debug, Default)]
pub struct Addresses {
    list: Vec<Own>,
    index: HashMap<IpAddr, u32>,
    /// Addresses in use, as runs, in their order.
    pub in_use4: Vec<Run<u32>>,
    /// As `in_use4`.
    pub in_use6: Vec<Run<u128>>,
    /// Broadcast addresses of our prefixes, in their order.
    pub broadcast4: Vec<u32>,
    /// Low 24 bits of our IPv6 addresses, tentative ones included: their solicited-node groups.
    solicited: Vec<u32>,
}

impl Addresses {
    /// Our addresses, in the order in which they were added.
    pub fn list(&self) -> &[Own] {
        &self.list
    }

    /// The address at `index` of the list, to change. [`Addresses::changed`] must follow a change of the state.
    pub fn at_mut(&mut self, index: usize) -> Option<&mut Own> {
        self.list.get_mut(index)
    }

    /// The entry of an address.
    pub fn find(&self, address: IpAddr) -> Option<&Own> {
        self.index.get(&address).and_then(|index| self.list.get(*index as usize))
    }

    /// Index in the list of an address.
    pub fn position(&self, address: IpAddr) -> Option<usize> {
        self.index.get(&address).map(|index| *index as usize)
    }

    /// Adds an address. False if it is there.
    pub fn add(&mut self, own: Own) -> bool {
        if self.index.contains_key(&own.address) {
            return false;
        }
        self.index.insert(own.address, self.list.len() as u32);
        self.list.push(own);
        true
    }

    /// Takes the address at `index` out of the list; the last one takes its place.
    pub fn remove(&mut self, index: usize) {
        let own = self.list.swap_remove(index);
        self.index.remove(&own.address);
        if let Some(moved) = self.list.get(index) {
            self.index.insert(moved.address, index as u32);
        }
        self.changed();
    }

    /// Makes the tables of lookups anew, after states changed.
    pub fn changed(&mut self) {
        let in_use = || self.list.iter().filter(|own| is_in_use(own.state));
        let four = in_use().filter_map(|own| v4(own.address).map(Ipv4Addr::to_bits));
        self.in_use4 = runs(four.collect(), 1, |first, last| last - first);
        let six = in_use().filter_map(|own| v6(own.address).map(Ipv6Addr::to_bits));
        self.in_use6 = runs(six.collect(), 1, |first, last| last - first);
        let prefixes = in_use().filter_map(|own| Some((v4(own.address)?.to_bits(), own.prefix_len)));
        self.broadcast4 = prefixes.filter(|(_, len)| *len < 31).map(|(bits, len)| bits | u32::MAX >> len).collect();
        let known = self.list.iter().filter(|own| own.state != AddressState::Duplicate);
        self.solicited = known.filter_map(|own| v6(own.address).map(|six| six.to_bits() as u32 & 0xff_ffff)).collect();
        for list in [&mut self.broadcast4, &mut self.solicited] {
            list.sort_unstable();
            list.dedup();
        }
    }

    /// True if `address` is ours and in use.
    #[inline]
    pub fn is_ours4(&self, address: u32) -> bool {
        contains4(&self.in_use4, address)
    }

    /// True if `address` is ours and in use.
    #[inline]
    pub fn is_ours6(&self, address: u128) -> bool {
        contains6(&self.in_use6, address)
    }

    /// True if `address` is ours and in use.
    pub fn is_ours(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => self.is_ours4(address.to_bits()),
            IpAddr::V6(address) => self.is_ours6(address.to_bits()),
        }
    }

    /// True for 255.255.255.255 and the broadcast addresses of our prefixes.
    #[inline]
    pub fn is_broadcast4(&self, address: u32) -> bool {
        address == u32::MAX || self.broadcast4.contains(&address)
    }

    /// True for the groups that a host is in: all nodes, and the solicited-node groups of its addresses.
    pub fn is_our_group6(&self, group: Ipv6Addr) -> bool {
        let bits = group.to_bits();
        let solicited = bits >> 24 == SOLICITED_NODE.to_bits() >> 24;
        group == ALL_NODES || solicited && self.solicited.binary_search(&(bits as u32 & 0xff_ffff)).is_ok()
    }

    /// Addresses of ours from which `dst` can be reached.
    pub fn sources(&self, dst: IpAddr) -> impl Iterator<Item = IpAddr> + '_ {
        let is_usable = move |own: &&Own| {
            let may_reach = scope_order(own.address) >= scope_order(dst);
            own.state == AddressState::Ready && own.address.is_ipv4() == dst.is_ipv4() && may_reach
        };
        self.list.iter().filter(is_usable).map(|own| own.address)
    }

    /// The address of ours to send to `dst` from: one in use, rather one that is not deprecated, of the same scope, and with the
    /// longest prefix in common (RFC 6724 section 5, rules 1, 2, 3 and 8).
    pub fn source_for(&self, dst: IpAddr) -> Option<IpAddr> {
        let usable = self.list.iter().filter(|own| is_in_use(own.state) && own.address.is_ipv4() == dst.is_ipv4());
        let rank = |own: &Own| {
            let in_net = in_prefix(dst, own.address, own.prefix_len);
            let scope = scope(own.address) == scope(dst);
            let wide_enough = scope_order(own.address) >= scope_order(dst);
            (wide_enough, scope, own.state == AddressState::Ready, in_net, common_bits(own.address, dst))
        };
        // The first of equals wins.
        usable.rev().max_by_key(|own| rank(own)).map(|own| own.address)
    }
}

fn is_in_use(state: AddressState) -> bool {
    matches!(state, AddressState::Ready | AddressState::Deprecated)
}

/// All nodes of the link, ff02::1.
pub const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// All routers of the link, ff02::2.
pub const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
const SOLICITED_NODE: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 0);

/// The solicited-node group of an address (RFC 4291 section 2.7.1).
pub fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    Ipv6Addr::from_bits(SOLICITED_NODE.to_bits() | address.to_bits() & 0xff_ffff)
}

/// True if one of the runs has `address`.
#[inline]
pub fn contains4(runs: &[Run<u32>], address: u32) -> bool {
    match runs {
        [run] => address.wrapping_sub(run.first) <= run.behind,
        runs => {
            let at = runs.partition_point(|run| run.first <= address);
            at > 0 && address - runs[at - 1].first <= runs[at - 1].behind
        }
    }
}

/// True if one of the runs has `address`.
#[inline]
pub fn contains6(runs: &[Run<u128>], address: u128) -> bool {
    let at = runs.partition_point(|run| run.first <= address);
    at > 0 && address - runs[at - 1].first <= runs[at - 1].behind
}

/// Numbers as runs. `next` is 1, and `distance` subtracts.
fn runs<T>(mut numbers: Vec<T>, next: T, distance: impl Fn(T, T) -> T) -> Vec<Run<T>>
where
    T: Copy + Ord + core::ops::Add<Output = T>,
{
    numbers.sort_unstable();
    let mut runs: Vec<Run<T>> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            // The number is greater than all before it, so none of these overflows.
            Some(run) if distance(run.first, number) == run.behind + next => run.behind = run.behind + next,
            _ => runs.push(Run { first: number, behind: distance(number, number) }),
        }
    }
    runs
}

fn v4(address: IpAddr) -> Option<Ipv4Addr> {
    if let IpAddr::V4(address) = address { Some(address) } else { None }
}

fn v6(address: IpAddr) -> Option<Ipv6Addr> {
    if let IpAddr::V6(address) = address { Some(address) } else { None }
}

/// True for addresses of one link (RFC 4007); IPv4's are all global here.
fn scope(address: IpAddr) -> bool {
    scope_order(address) == 0
}

/// Scopes in their order: link, everything else.
fn scope_order(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 1,
        IpAddr::V6(six) if six.is_multicast() => u8::from(six.octets()[1] & 0xf > 2),
        IpAddr::V6(six) => u8::from(!six.is_unicast_link_local()),
    }
}

fn common_bits(one: IpAddr, other: IpAddr) -> u32 {
    match (one, other) {
        (IpAddr::V4(one), IpAddr::V4(other)) => (one.to_bits() ^ other.to_bits()).leading_zeros(),
        (IpAddr::V6(one), IpAddr::V6(other)) => (one.to_bits() ^ other.to_bits()).leading_zeros().min(64),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub fn own(text: &str, prefix_len: u8, state: AddressState) -> Own {
        Own {
            address: text.parse().unwrap(),
            prefix_len,
            state,
            origin: Origin::Static,
            preferred_until_ns: u64::MAX,
            valid_until_ns: u64::MAX,
            probes: 0,
            step_ns: u64::MAX,
            defended_ns: 0,
        }
    }

    #[test]
    fn neighbouring_addresses_are_one_run() {
        let mut addresses = Addresses::default();
        for last in (1..=95).rev() {
            assert!(addresses.add(own(&format!("198.18.1.{last}"), 24, AddressState::Ready)));
        }
        addresses.add(own("10.0.0.1", 8, AddressState::Ready));
        addresses.add(own("198.18.1.97", 24, AddressState::Tentative));
        assert!(!addresses.add(own("10.0.0.1", 8, AddressState::Ready)));
        addresses.changed();
        assert_eq!(addresses.in_use4.len(), 2);
        let is_ours = |text: &str| addresses.is_ours(text.parse().unwrap());
        assert!(is_ours("198.18.1.1") && is_ours("198.18.1.95") && is_ours("10.0.0.1"));
        for other in ["198.18.1.0", "198.18.1.96", "198.18.1.97", "10.0.0.0", "10.0.0.2", "0.0.0.0", "255.255.255.255"]
        {
            assert!(!is_ours(other), "{other}");
        }
        assert!(addresses.is_broadcast4(u32::from_be_bytes([198, 18, 1, 255])));
        assert!(addresses.is_broadcast4(u32::from_be_bytes([10, 255, 255, 255])));
        assert!(!addresses.is_broadcast4(u32::from_be_bytes([198, 18, 2, 255])));
        let at = addresses.position("198.18.1.50".parse().unwrap()).unwrap();
        addresses.remove(at);
        assert!(
            !addresses.is_ours("198.18.1.50".parse().unwrap()) && addresses.is_ours("198.18.1.51".parse().unwrap())
        );
        assert_eq!(
            addresses.find("198.18.1.1".parse().unwrap()).unwrap().address,
            "198.18.1.1".parse::<IpAddr>().unwrap()
        );
    }

    #[test]
    fn the_source_is_chosen_by_scope_and_prefix() {
        let mut addresses = Addresses::default();
        addresses.add(own("fe80::1", 64, AddressState::Ready));
        addresses.add(own("2001:db8:1::1", 64, AddressState::Ready));
        addresses.add(own("2001:db8:2::1", 64, AddressState::Ready));
        addresses.add(own("2001:db8:2::2", 64, AddressState::Deprecated));
        addresses.add(own("10.0.0.1", 24, AddressState::Ready));
        addresses.add(own("10.0.1.1", 24, AddressState::Tentative));
        addresses.changed();
        for (dst, src) in [
            ("fe80::2", "fe80::1"),
            ("ff02::1", "fe80::1"),
            ("2001:db8:2::9", "2001:db8:2::1"),
            ("2001:db8:1::9", "2001:db8:1::1"),
            ("2001:db9::1", "2001:db8:1::1"),
            ("10.0.1.5", "10.0.0.1"),
        ] {
            assert_eq!(addresses.source_for(dst.parse().unwrap()), Some(src.parse().unwrap()), "{dst}");
        }
        let all: Ipv6Addr = "ff02::1:ff00:2".parse().unwrap();
        assert!(addresses.is_our_group6(all) && addresses.is_our_group6(ALL_NODES));
        assert!(!addresses.is_our_group6("ff02::1:ff00:3".parse().unwrap()) && !addresses.is_our_group6(ALL_ROUTERS));
    }
}
