//! From sizes and a flow pattern of an experiment to the packets of one direction.
//!
//! Packets are UDP over IPv4, over IPv6, or over each in turn: then two streams with one run of numbers. A mix of sizes is one stream whose lengths follow each other in a fixed order with the asked weights,
//! spread evenly, so a trial has one run of sequence numbers. Lengths and flows turn independently: where the number of flows and the
//! length of that order have a common divisor, a flow in odometer order sees only some of the sizes.

use linerate_experiment::{Addresses6, FlowOrder, FlowSpec, IpVersion, SizeSpec};
use linerate_gen::{Advance, PlanError, Rule, Sizes, StreamPlan, StreamSpec, Values};
use linerate_wire::{MacAddress, Stack, ethernet, ipv4, ipv6, udp};

use linerate_testbed::topology::{FrameAddresses, Topology};

/// The direction of packets on a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the first end to the second: sources to destinations.
    Forward,
    /// From the second end to the first: the same flows mirrored, destinations to sources, so that a stateful device sees replies.
    Backward,
}

/// Bytes of the frame check sequence, which is part of a size on the wire and of no buffer.
pub const FCS_LEN: u32 = 4;
/// The UDP port of destinations, and the first one of sources.
const UDP_PORT: u16 = 1234;
/// Longest order of a mix of sizes.
const ORDER_MAX: u64 = 10_000;

/// A locally administered address that no interface of the lab has.
const NOBODY: [u8; 6] = [0x02, 0x4c, 0x52, 0xff, 0xff, 0xff];

/// The addresses of frames on a path of the lab's making.
pub(super) fn addresses(topology: &Topology, way: Direction) -> FrameAddresses {
    match way {
        Direction::Forward => topology.forward(),
        Direction::Backward => topology.backward(),
    }
}

/// From nobody to nobody: on a link inside this process nobody looks.
pub(super) fn nobody() -> FrameAddresses {
    FrameAddresses { source: NOBODY, destination: NOBODY }
}

/// One size, by its bytes on the wire.
pub fn fixed_size(size_wire: u32) -> SizeSpec {
    SizeSpec { label: size_wire.to_string(), parts: vec![(size_wire, 1)] }
}

/// Mean bytes of a frame on the wire.
pub fn mean_size(size: &SizeSpec) -> f64 {
    let weights: f64 = size.parts.iter().map(|(_, weight)| f64::from(*weight)).sum();
    size.parts.iter().map(|(bytes, weight)| f64::from(*bytes) * f64::from(*weight)).sum::<f64>() / weights
}

/// The packets of one direction, a stream for each version of IP; `id` is theirs in the signature.
///
/// # Errors
/// A size too short for headers and signature (62 bytes on the wire, with IPv6 82), no size, weights whose order would be longer than 10,000, or
/// flows beyond the end of the addresses or ports.
pub fn plan(
    size: &SizeSpec,
    flows: &FlowSpec,
    way: Direction,
    link: FrameAddresses,
    id: u16,
) -> Result<Vec<StreamPlan>, PlanError> {
    let order = order(size)?;
    let lens: Vec<usize> = size.parts.iter().map(|(bytes, _)| bytes.saturating_sub(FCS_LEN) as usize).collect();
    let sizes = if size.parts.len() == 1 { Sizes::One } else { Sizes::Pattern(order) };
    let ethernet = ethernet::Header {
        src: MacAddress::from(link.source),
        dst: MacAddress::from(link.destination),
        ..ethernet::Header::default()
    };
    let stream = |version: &IpVersion| {
        let stack = Stack::new().with(ethernet);
        let stack = match (version, flows.ip.addresses6()) {
            (IpVersion::V6, Some(Addresses6 { source, destination })) => {
                let (src, dst) = turned(way, source, destination);
                stack.with(ipv6::Header { src, dst, hop_limit: 64, ..ipv6::Header::default() })
            }
            _ => {
                let (src, dst) = turned(way, flows.source, flows.destination);
                stack.with(ipv4::Header { src, dst, ttl: 64, ..ipv4::Header::default() })
            }
        };
        let stack = stack.with(udp::Header { src_port: UDP_PORT, dst_port: UDP_PORT, ..udp::Header::default() });
        let rules = rules(flows, way, *version)?;
        StreamSpec { stack, lens: lens.clone(), sizes: sizes.clone(), rules, signature: Some(id) }.plan()
    };
    flows.ip.versions().iter().map(stream).collect()
}

/// From and to.
pub(super) fn turned<T>(way: Direction, source: T, destination: T) -> (T, T) {
    match way {
        Direction::Forward => (source, destination),
        Direction::Backward => (destination, source),
    }
}

/// The varying fields: UDP port fastest, then sources, then destinations; or each at random. Addresses of IPv6 vary in their low 64 bits.
fn rules(flows: &FlowSpec, way: Direction, version: IpVersion) -> Result<Vec<Rule>, PlanError> {
    let low = |address: std::net::Ipv6Addr| (address.to_bits() as u64, u64::MAX);
    let of_ipv4 = |address: std::net::Ipv4Addr| (u64::from(address.to_bits()), u64::from(u32::MAX));
    let (layer, sources, destinations) = match (version, flows.ip.addresses6()) {
        (IpVersion::V6, Some(first)) => ("ipv6", low(first.source), low(first.destination)),
        _ => ("ipv4", of_ipv4(flows.source), of_ipv4(flows.destination)),
    };
    let (source, destination) = turned(way, format!("{layer}.source"), format!("{layer}.destination"));
    let port = turned(way, "udp.source", "udp.destination").0;
    let wheels = [
        (port, u64::from(UDP_PORT), u64::from(u16::MAX), flows.ports),
        (source.as_str(), sources.0, sources.1, flows.sources),
        (destination.as_str(), destinations.0, destinations.1, flows.destinations),
    ];
    let mut rules: Vec<Rule> = Vec::new();
    for (number, (field, first, last, count)) in wheels.into_iter().enumerate() {
        if count.saturating_sub(1) > last - first {
            let problem =
                format!("{count} values from {first} on; there are {} left", (last - first).saturating_add(1));
            return Err(PlanError::Field { name: field.into(), problem });
        }
        if count < 2 {
            continue;
        }
        let (values, advance) = match flows.order {
            FlowOrder::Odometer if rules.is_empty() => (Values::Range { first, step: 1, count }, Advance::EachPacket),
            FlowOrder::Odometer => (Values::Range { first, step: 1, count }, Advance::WhenPreviousWraps),
            FlowOrder::Random(seed) => {
                // Each wheel its own sequence.
                let seed = seed.wrapping_add(number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                (Values::Random { first, step: 1, count, seed }, Advance::EachPacket)
            }
        };
        rules.push(Rule { field: field.into(), values, advance });
    }
    Ok(rules)
}

/// Indices of the sizes in an order in which each has its weight and is spread evenly (smooth weighted round robin).
fn order(size: &SizeSpec) -> Result<Vec<usize>, PlanError> {
    let divisor = size.parts.iter().map(|(_, weight)| *weight).fold(0, greatest_common_divisor).max(1);
    let weights: Vec<i64> = size.parts.iter().map(|(_, weight)| i64::from(weight / divisor)).collect();
    let total: i64 = weights.iter().sum();
    if total == 0 || total as u64 > ORDER_MAX {
        return Err(PlanError::Lens(format!("{}: weights that add up to 1 to {ORDER_MAX} are possible", size.label)));
    }
    let mut credit = vec![0; weights.len()];
    let mut next = || {
        credit.iter_mut().zip(&weights).for_each(|(credit, weight)| *credit += weight);
        let (best, most) = credit.iter_mut().enumerate().rev().max_by_key(|(_, credit)| **credit)?;
        *most -= total;
        Some(best)
    };
    Ok((0..total).filter_map(|_| next()).collect())
}

fn greatest_common_divisor(one: u32, other: u32) -> u32 {
    if other == 0 { one } else { greatest_common_divisor(other, one % other) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::net::Ipv4Addr;

    use linerate_experiment::FlowIp;
    use linerate_gen::Stream;

    use super::*;

    fn flows(sources: u64, destinations: u64, ports: u64, order: FlowOrder) -> FlowSpec {
        FlowSpec {
            source: Ipv4Addr::new(192, 0, 2, 1),
            sources,
            destination: Ipv4Addr::new(192, 0, 2, 101),
            destinations,
            ports,
            order,
            ip: FlowIp::V4,
        }
    }

    fn packets(size: &SizeSpec, flows: &FlowSpec, way: Direction, count: usize) -> Vec<Vec<u8>> {
        let mut stream = Stream::new(&plan(size, flows, way, nobody(), 3).expect("a plan")[0]);
        let packet = |_| {
            let (image, len) = stream.next_image();
            let mut packet = vec![0; len];
            stream.write(image, &mut packet, 7);
            packet
        };
        (0..count).map(packet).collect()
    }

    /// Source address, destination address, source port, destination port; the last bytes only.
    fn flow(packet: &[u8]) -> [u8; 4] {
        [packet[29], packet[33], packet[35], packet[37]]
    }

    #[test]
    fn an_imix_has_its_weights_and_is_spread() {
        let imix = SizeSpec { label: "IMIX".into(), parts: vec![(64, 28), (570, 16), (1518, 4)] };
        let mut counts = BTreeMap::new();
        let lens: Vec<usize> =
            packets(&imix, &flows(1, 1, 1, FlowOrder::Odometer), Direction::Forward, 24).iter().map(Vec::len).collect();
        lens.iter().for_each(|len| *counts.entry(*len).or_insert(0) += 1);
        assert_eq!(counts, BTreeMap::from([(60, 14), (566, 8), (1514, 2)]));
        assert!((mean_size(&imix) - 353.83).abs() < 0.01);
        assert!(lens.windows(4).all(|four| four.iter().any(|len| *len != 60)), "{lens:?}");
    }

    #[test]
    fn an_odometer_takes_each_flow_once_a_round_ports_first() {
        let spec = flows(3, 2, 4, FlowOrder::Odometer);
        let all: Vec<[u8; 4]> =
            packets(&fixed_size(64), &spec, Direction::Forward, 48).iter().map(|p| flow(p)).collect();
        assert_eq!(all[..2], [[1, 101, 210, 210], [1, 101, 211, 210]]);
        assert_eq!((all[4], all[12]), ([2, 101, 210, 210], [1, 102, 210, 210]));
        let round: std::collections::BTreeSet<_> = all[..24].iter().collect();
        assert_eq!(round.len(), 24);
        assert_eq!(all[..24], all[24..]);
    }

    #[test]
    fn the_way_back_is_the_mirror() {
        let spec = flows(3, 2, 4, FlowOrder::Odometer);
        let [forth, back] =
            [Direction::Forward, Direction::Backward].map(|way| packets(&fixed_size(64), &spec, way, 24));
        for (forth, back) in forth.iter().zip(&back) {
            let [source, destination, source_port, destination_port] = flow(forth);
            assert_eq!(flow(back), [destination, source, destination_port, source_port]);
        }
    }

    #[test]
    fn random_flows_come_from_the_seed_and_stay_in_range() {
        let spec = flows(5, 1, 3, FlowOrder::Random(9));
        let all: Vec<[u8; 4]> =
            packets(&fixed_size(64), &spec, Direction::Forward, 400).iter().map(|p| flow(p)).collect();
        let again: Vec<[u8; 4]> =
            packets(&fixed_size(64), &spec, Direction::Forward, 400).iter().map(|p| flow(p)).collect();
        assert_eq!(all, again);
        let distinct: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), 15, "all flows, and no other: {distinct:?}");
    }

    #[test]
    fn packets_of_ipv6_have_its_addresses_and_a_checksum_that_is_right() {
        let first = Addresses6 {
            source: "2001:db8:0:1::1".parse().unwrap(),
            destination: "2001:db8:0:2::101".parse().unwrap(),
        };
        let spec = FlowSpec { ip: FlowIp::V6(first), ..flows(3, 2, 2, FlowOrder::Odometer) };
        for (way, source) in [(Direction::Forward, 22), (Direction::Backward, 38)] {
            let all = packets(&fixed_size(82), &spec, way, 12);
            let distinct: std::collections::BTreeSet<_> = all.iter().map(|packet| packet[22..58].to_vec()).collect();
            assert_eq!(distinct.len(), 12, "each flow once");
            for packet in all {
                assert_eq!(
                    (packet.len(), &packet[12..15], &packet[source..source + 8]),
                    (78, &[0x86, 0xdd, 0x60][..], &first.source.octets()[..8])
                );
                let ip = ipv6::Packet::new_checked(&packet[14..]).expect("IPv6");
                assert!(ip.hop_limit() == 64 && packet[60..62] != [0, 0]);
                // RFC 8200 section 8.1: the sum over pseudo-header, header and payload is all ones.
                let words = packet[22..].chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
                let sum: u32 = words.sum::<u32>() + u32::from(ip.payload_len()) + 17;
                assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
            }
        }
        assert!(plan(&fixed_size(81), &spec, Direction::Forward, nobody(), 0).is_err());
        let both = FlowSpec { ip: FlowIp::Dual(first), ..spec };
        assert_eq!(plan(&fixed_size(82), &both, Direction::Forward, nobody(), 0).expect("a plan").len(), 2);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let one = flows(1, 1, 1, FlowOrder::Odometer);
        for size in [fixed_size(61), fixed_size(0), SizeSpec { label: String::new(), parts: vec![] }] {
            assert!(plan(&size, &one, Direction::Forward, nobody(), 0).is_err(), "{size:?}");
        }
        let weights = SizeSpec { label: "x".into(), parts: vec![(64, 1), (128, u32::MAX)] };
        assert!(plan(&weights, &one, Direction::Forward, nobody(), 0).is_err());
        let ports = flows(1, 1, 65_000, FlowOrder::Odometer);
        assert!(plan(&fixed_size(64), &ports, Direction::Forward, nobody(), 0).is_err());
    }
}
