//! The shortest list of networks that covers a range of IPv4 addresses exactly, for routes.

use std::net::Ipv4Addr;

/// An IPv4 network: its first address and its prefix length in bits.
pub type Network = (Ipv4Addr, u8);

/// The networks that together hold `first` to `last`, both included, and nothing else; none when the range is
/// reversed.
///
/// ```
/// use std::net::Ipv4Addr;
/// let networks = linerate_lab::prefixes::cover(Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 3));
/// assert_eq!(networks, [(Ipv4Addr::new(192, 0, 2, 1), 32), (Ipv4Addr::new(192, 0, 2, 2), 31)]);
/// ```
pub fn cover(first: Ipv4Addr, last: Ipv4Addr) -> Vec<Network> {
    let (mut next, last) = (u64::from(u32::from(first)), u64::from(u32::from(last)));
    let mut networks = Vec::new();
    while next <= last {
        // The largest block that starts here: limited by the alignment of its start and by the end of the range.
        let aligned = if next == 0 { 32 } else { next.trailing_zeros().min(32) };
        let fits = (last - next + 1).ilog2();
        let host_bits = aligned.min(fits);
        networks.push((Ipv4Addr::from(next as u32), (32 - host_bits) as u8));
        next += 1 << host_bits;
    }
    networks
}

/// The smallest network that holds `first` and `last`.
///
/// ```
/// use std::net::Ipv4Addr;
/// let range = (Ipv4Addr::new(192, 0, 2, 101), Ipv4Addr::new(192, 0, 2, 200));
/// assert_eq!(linerate_lab::prefixes::common(range), (Ipv4Addr::new(192, 0, 2, 0), 24));
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
