//! Which output a packet goes to: by its flow, the same for both directions.
//!
//! IP packets go by addresses, protocol and ports (fragments, the first included, without ports, so that all fragments of a
//! packet stay together); others, and IP packets that cannot be parsed, by their two MAC addresses. Through VLAN tags and MPLS
//! labels; of VXLAN the outer packet counts.

use linerate_wire::FlowKey;

/// A hash of the packet's flow, the same for both directions, always and everywhere.
#[inline]
pub fn flow_hash(frame: &[u8]) -> u64 {
    match FlowKey::from_frame(frame) {
        Some(key) => key.hash_symmetric(),
        None => mac_hash(frame),
    }
}

/// The output, of `outputs`, for a hash: by its high bits, without a division.
#[inline]
pub fn output_of(hash: u64, outputs: usize) -> usize {
    ((u128::from(hash) * outputs as u128) >> 64) as usize
}

/// Odd numbers without a pattern: the golden ratio's fraction and a prime of xxHash.
const SPREADS: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xc2b2_ae3d_27d4_eb4f];

#[cold]
fn mac_hash(frame: &[u8]) -> u64 {
    let address = |at: usize| {
        let bytes = frame.get(at..at + 6).unwrap_or(&[]);
        bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
    };
    let (first, second) = (address(0).min(address(6)), address(0).max(address(6)));
    let product = u128::from(first ^ SPREADS[0]) * u128::from(second ^ SPREADS[1]);
    ((product >> 64) as u64 ^ product as u64).wrapping_mul(SPREADS[0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_wire::{Stack, ethernet, icmpv4, ipv4, ipv6, tcp, udp, vlan};
    use proptest::prelude::*;

    /// One frame of a flow; with `back`, of its other direction.
    fn frame(kind: u8, numbers: [u32; 2], ports: [u16; 2], tags: usize, fragment: Option<u16>, back: bool) -> Vec<u8> {
        let mut mac = numbers.map(|number| [2, 0, number.to_be_bytes()[0], 1, number as u8, 7].into());
        let (mut addresses, mut ports) = (numbers, ports);
        if back {
            mac.swap(0, 1);
            addresses.swap(0, 1);
            ports.swap(0, 1);
        }
        let mut stack = Stack::new().with(ethernet::Header { src: mac[0], dst: mac[1], ..Default::default() });
        for _ in 0..tags {
            stack = stack.with(vlan::Header::default());
        }
        let [src_port, dst_port] = ports;
        let v6 = |number: u32| std::net::Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(number));
        stack = match kind % 5 {
            0..=2 => {
                let [src, dst] = addresses.map(std::net::Ipv4Addr::from_bits);
                stack.with(ipv4::Header { src, dst, ..Default::default() })
            }
            _ => {
                let [src, dst] = addresses.map(v6);
                stack.with(ipv6::Header { src, dst, ..Default::default() })
            }
        };
        stack = match kind % 5 {
            0 | 3 => stack.with(udp::Header { src_port, dst_port, ..Default::default() }),
            1 | 4 => stack.with(tcp::Header { src_port, dst_port, ..Default::default() }),
            _ => stack.with(icmpv4::Header::default()),
        };
        let mut bytes = stack.build(110).unwrap().bytes;
        if let Some(offset) = fragment
            && kind % 5 < 3
        {
            let at = 14 + 4 * tags + 6;
            bytes[at..at + 2].copy_from_slice(&(0x2000 | offset & 0x1fff).to_be_bytes());
        }
        bytes
    }

    proptest! {
        #[test]
        fn both_directions_of_any_flow_go_to_the_same_output(
            kind in 0u8..5, numbers: [u32; 2], ports: [u16; 2], tags in 0usize..3,
            fragment in proptest::option::of(0u16..0x2000), outputs in 1usize..300,
        ) {
            let there = flow_hash(&frame(kind, numbers, ports, tags, fragment, false));
            let back = flow_hash(&frame(kind, numbers, ports, tags, fragment, true));
            prop_assert_eq!(there, back);
            prop_assert!(output_of(there, outputs) < outputs);
        }

        #[test]
        fn all_fragments_of_a_packet_stay_together(
            kind in 0u8..3, numbers: [u32; 2], ports: [u16; 2], first in 0u16..0x2000, second in 0u16..0x2000,
        ) {
            let hash = |offset| flow_hash(&frame(kind, numbers, ports, 0, Some(offset), false));
            prop_assert_eq!(hash(first), hash(second));
        }

        #[test]
        fn anything_goes_somewhere_and_what_is_no_ip_goes_by_its_addresses(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..80), rest in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            flow_hash(&bytes);
            if bytes.len() >= 14 {
                bytes[12..14].copy_from_slice(&[0x88, 0xb5]);
                let hash = flow_hash(&bytes);
                let mut other: Vec<u8> = [&bytes[6..12], &bytes[..6], &bytes[12..14]].concat();
                other.extend(rest);
                prop_assert_eq!(hash, flow_hash(&other));
            }
        }
    }

    #[test]
    fn flows_and_addresses_spread_evenly() {
        for outputs in [2, 3, 7, 16] {
            let mut counts = [vec![0u32; outputs], vec![0u32; outputs]];
            let flows = 1000 * outputs as u32;
            for number in 0..flows {
                counts[0]
                    [output_of(flow_hash(&frame(0, [0x0a00_0001, number], [1000, 53], 0, None, false)), outputs)] += 1;
                let mut other = [0u8; 60];
                other[2..6].copy_from_slice(&number.to_be_bytes());
                other[12..14].copy_from_slice(&[0x88, 0xb5]);
                counts[1][output_of(flow_hash(&other), outputs)] += 1;
            }
            for counts in counts {
                assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
            }
        }
    }
}
