//! The shortest list of networks that covers a range of addresses exactly, for routes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An IPv4 network: its first address and its prefix length in bits.
pub type Network = (Ipv4Addr, u8);

/// The networks that together hold `first` to `last`, both included, and nothing else; none when the range is
/// reversed.
///
/// ```
/// use std::net::Ipv4Addr;
/// let networks = linerate_testbed::prefixes::cover(Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 3));
/// assert_eq!(networks, [(Ipv4Addr::new(192, 0, 2, 1), 32), (Ipv4Addr::new(192, 0, 2, 2), 31)]);
/// ```
pub fn cover(first: Ipv4Addr, last: Ipv4Addr) -> Vec<Network> {
    let blocks = blocks(u32::from(first).into(), u32::from(last).into(), 32);
    blocks.map(|(first, prefix_len)| (Ipv4Addr::from(first as u32), prefix_len)).collect()
}

/// As [`cover`], of either version of IP.
pub fn cover_range(range: Range) -> Vec<(IpAddr, u8)> {
    match range {
        Range::V4(first, last) => cover(first, last).into_iter().map(|(network, len)| (network.into(), len)).collect(),
        Range::V6(first, last) => {
            blocks(first.into(), last.into(), 128).map(|(first, len)| (Ipv6Addr::from(first).into(), len)).collect()
        }
    }
}

/// The largest aligned blocks that hold the numbers `first` to `last` of so many bits, in order, each with its prefix length.
fn blocks(first: u128, last: u128, bits: u32) -> impl Iterator<Item = (u128, u8)> {
    let mut next = (first <= last).then_some(first);
    std::iter::from_fn(move || {
        let start = next?;
        // The largest block that starts here: limited by the alignment of its start and by the end of the range.
        let aligned = start.trailing_zeros().min(bits);
        let fits = (last - start).checked_add(1).map_or(u128::BITS, u128::ilog2);
        let host_bits = aligned.min(fits);
        let size = 1_u128.checked_shl(host_bits);
        next = size.and_then(|size| start.checked_add(size)).filter(|next| *next <= last);
        Some((start, (bits - host_bits) as u8))
    })
}

/// First and last address of some flows, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Range {
    /// Of IPv4.
    V4(Ipv4Addr, Ipv4Addr),
    /// Of IPv6.
    V6(Ipv6Addr, Ipv6Addr),
}

impl Range {
    /// The smallest network that holds both.
    ///
    /// ```
    /// use linerate_testbed::prefixes::Range;
    /// let range = Range::V6("2001:db8:0:1::1".parse()?, "2001:db8:0:1::64".parse()?);
    /// assert_eq!(range.common(), ("2001:db8:0:1::".parse()?, 121));
    /// # Ok::<(), std::net::AddrParseError>(())
    /// ```
    pub fn common(self) -> (IpAddr, u8) {
        match self {
            Self::V4(first, last) => {
                let (network, len) = common((first, last));
                (network.into(), len)
            }
            Self::V6(first, last) => {
                let prefix_len = (first.to_bits() ^ last.to_bits()).leading_zeros();
                let mask = u128::MAX.checked_shl(128 - prefix_len).unwrap_or(0);
                (Ipv6Addr::from(first.to_bits() & mask).into(), prefix_len as u8)
            }
        }
    }
}

/// The smallest network that holds `first` and `last`.
///
/// ```
/// use std::net::Ipv4Addr;
/// let range = (Ipv4Addr::new(192, 0, 2, 101), Ipv4Addr::new(192, 0, 2, 200));
/// assert_eq!(linerate_testbed::prefixes::common(range), (Ipv4Addr::new(192, 0, 2, 0), 24));
/// ```
pub fn common((first, last): (Ipv4Addr, Ipv4Addr)) -> Network {
    let prefix_len = (u32::from(first) ^ u32::from(last)).leading_zeros();
    let mask = u32::MAX.checked_shl(32 - prefix_len).unwrap_or(0);
    (Ipv4Addr::from(u32::from(first) & mask), prefix_len as u8)
}

/// How many addresses a range has.
pub fn count((first, last): (Ipv4Addr, Ipv4Addr)) -> u64 {
    (u64::from(u32::from(last)) + 1).saturating_sub(u32::from(first).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(networks: &[Network]) -> Vec<u32> {
        let of = |&(first, prefix_len): &Network| {
            let first = u32::from(first);
            (0..1_u32 << (32 - prefix_len)).map(move |offset| first + offset)
        };
        networks.iter().flat_map(of).collect()
    }

    #[test]
    fn every_address_is_covered_once_and_no_other() {
        for (first, last) in [(1, 100), (101, 200), (0, 255), (7, 7), (128, 255), (1, 254)] {
            let at = |host: u8| Ipv4Addr::new(192, 0, 2, host);
            let networks = cover(at(first), at(last));
            let expected: Vec<u32> = (first..=last).map(|host| u32::from(at(host))).collect();
            assert_eq!(addresses(&networks), expected, "{first}-{last}: {networks:?}");
        }
    }

    #[test]
    fn the_ends_of_the_address_space_are_reached() {
        let all = cover(Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST);
        assert_eq!(all, [(Ipv4Addr::UNSPECIFIED, 0)]);
        assert_eq!(cover(Ipv4Addr::BROADCAST, Ipv4Addr::BROADCAST), [(Ipv4Addr::BROADCAST, 32)]);
        assert_eq!(cover(Ipv4Addr::BROADCAST, Ipv4Addr::UNSPECIFIED), []);
    }

    #[test]
    fn ranges_of_ipv6_are_covered_the_same_way() {
        let at = |host: u128| Ipv6Addr::from(0x2001_0db8_u128 << 96 | host);
        for (first, last) in [(1, 100), (101, 200), (0, 255), (7, 7)] {
            let of_ipv6 = cover_range(Range::V6(at(first), at(last)));
            let address = |host: u128| Ipv4Addr::from(host as u32);
            let of_ipv4 = cover_range(Range::V4(address(first), address(last)));
            let lens =
                |networks: &[(IpAddr, u8)], bits: u8| networks.iter().map(|(_, len)| bits - len).collect::<Vec<_>>();
            assert_eq!(lens(&of_ipv6, 128), lens(&of_ipv4, 32));
            assert_eq!(of_ipv6[0].0, IpAddr::from(at(first)));
        }
        let all = cover_range(Range::V6(Ipv6Addr::UNSPECIFIED, Ipv6Addr::from(u128::MAX)));
        assert_eq!(all, [(Ipv6Addr::UNSPECIFIED.into(), 0)]);
        assert_eq!(cover_range(Range::V6(at(2), at(1))), []);
        assert_eq!(Range::V6(at(7), at(7)).common(), (at(7).into(), 128));
    }

    #[test]
    fn the_common_network_of_a_range_reaches_from_one_address_to_all() {
        let at = |host: u8| Ipv4Addr::new(192, 0, 2, host);
        assert_eq!(common((at(7), at(7))), (at(7), 32));
        assert_eq!(common((at(1), at(100))), (at(0), 25));
        assert_eq!(common((Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST)), (Ipv4Addr::UNSPECIFIED, 0));
        assert_eq!((count((at(1), at(100))), count((at(2), at(1)))), (100, 0));
        assert_eq!(count((Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST)), 1 << 32);
    }

    #[test]
    fn the_flows_of_the_default_topology_need_few_routes() {
        let at = |host: u8| Ipv4Addr::new(192, 0, 2, host);
        assert_eq!(cover(at(1), at(100)).len(), 9);
        assert_eq!(cover(at(101), at(200)).len(), 7);
    }
}
