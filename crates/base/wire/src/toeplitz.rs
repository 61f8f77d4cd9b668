//! The Toeplitz hash of receive side scaling under the symmetric key, by which flows are divided among queues and cores.
//!
//! The key repeats `6d:5a` (Woo and Park, "Scalable TCP session monitoring with symmetric receive-side scaling", 2012). Under a key of two
//! bytes that repeat, the hash depends only on the XOR of all 16-bit words of addresses and ports, the fold. The lower 7 bits of the hash
//! choose an entry of a table that names queues or cores in turn, as drivers fill it. Both directions of a flow have the same hash. As with
//! every network card that has this key, the key is known, so a peer may choose flows that all have one entry.

use std::net::IpAddr;

use crate::{FlowKey, Protocol};

/// Entries of the table that names queues or cores.
pub const STEERING_ENTRIES: usize = 128;

/// The entry of the table, of [`STEERING_ENTRIES`], that packets with this fold of their addresses and ports have.
#[inline]
pub fn entry(fold: u16) -> u8 {
    UPPER[usize::from(fold >> 8)] ^ LOWER[usize::from(fold & 0xff)]
}

/// The fold of IPv4 addresses and ports. `ports` are both ports, in any order.
#[inline]
pub fn fold4(one: u32, other: u32, ports: u32) -> u16 {
    let all = one ^ other ^ ports;
    (all >> 16 ^ all) as u16
}

/// The same over IPv6.
#[inline]
pub fn fold6(one: u128, other: u128, ports: u32) -> u16 {
    let all = one ^ other;
    let half = (all >> 64) as u64 ^ all as u64;
    fold4((half >> 32) as u32, half as u32, ports)
}

/// The entry of the table that the flow of a frame has: the same for both directions, and for all fragments of a packet.
///
/// It goes by addresses and ports, for fragments and other protocols by addresses alone, through VLAN tags and MPLS labels
/// ([`FlowKey::from_frame`]). Frames without an IP header go by their two MAC addresses.
#[inline]
pub fn flow_entry(frame: &[u8]) -> u8 {
    if let Some(head) = frame.first_chunk::<38>() {
        let word = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let is_plain = head[12] == 8 && head[13] == 0 && head[14] == 0x45 && word(20) & 0x3fff_0000 == 0;
        if is_plain && (head[23] == Protocol::TCP.0 || head[23] == Protocol::UDP.0) {
            return entry(fold4(word(26), word(30), word(34)));
        }
    }
    entry(fold_of_frame(frame))
}

#[inline(never)]
fn fold_of_frame(frame: &[u8]) -> u16 {
    let Some(key) = FlowKey::from_frame(frame) else { return fold_of_macs(frame) };
    let ports = u32::from(key.src_port) << 16 | u32::from(key.dst_port);
    match (key.src, key.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => fold4(src.to_bits(), dst.to_bits(), ports),
        (IpAddr::V6(src), IpAddr::V6(dst)) => fold6(src.to_bits(), dst.to_bits(), ports),
        _ => 0,
    }
}

fn fold_of_macs(frame: &[u8]) -> u16 {
    let Some(addresses) = frame.first_chunk::<12>() else { return 0 };
    addresses.chunks_exact(2).fold(0, |fold, word| fold ^ u16::from_be_bytes([word[0], word[1]]))
}

/// The key, as far as one window sees it.
const KEY: u32 = 0x6d5a_6d5a;
const UPPER: [u8; 256] = table(0);
const LOWER: [u8; 256] = table(8);

/// Part of the hash that a byte adds whose first bit is bit `from` of the fold, counted from its upper end.
const fn table(from: u32) -> [u8; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut hash, mut bit) = (0, 0);
        while bit < 8 {
            if byte & (0x80 >> bit) != 0 {
                hash ^= KEY.rotate_left(from + bit);
            }
            bit += 1;
        }
        table[byte] = (hash % STEERING_ENTRIES as u32) as u8;
        byte += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Stack, ethernet, ipv4, ipv6, tcp, udp, vlan};

    /// The Toeplitz hash, bit by bit, as the standard of receive side scaling defines it.
    fn toeplitz(input: &[u8]) -> u32 {
        let key: Vec<u8> = [0x6d, 0x5a].repeat(20);
        let bit = |bytes: &[u8], at: usize| bytes[at / 8] >> (7 - at % 8) & 1;
        let mut hash = 0;
        for at in (0..input.len() * 8).filter(|at| bit(input, *at) == 1) {
            hash ^= (0..32).fold(0, |window, next| window << 1 | u32::from(bit(&key, at + next)));
        }
        hash
    }

    #[test]
    fn it_is_the_hash_of_a_nic_with_the_symmetric_key() {
        for seed in 0..200_u32 {
            let [src, dst] = [1, 2].map(|way: u32| (seed * 7 + way).wrapping_mul(0x9e37_79b9));
            let ports = seed.wrapping_mul(0x85eb_ca6b);
            let four = [src.to_be_bytes(), dst.to_be_bytes(), ports.to_be_bytes()].concat();
            assert_eq!(u32::from(entry(fold4(src, dst, ports))), toeplitz(&four) % 128);
            let [src6, dst6] =
                [src, dst].map(|word| u128::from(word).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835));
            let six = [&src6.to_be_bytes()[..], &dst6.to_be_bytes(), &ports.to_be_bytes()].concat();
            assert_eq!(u32::from(entry(fold6(src6, dst6, ports))), toeplitz(&six) % 128);
        }
    }

    /// A frame between two ends; `kind`: bit 0 UDP, bit 1 IPv6, bit 2 tagged.
    fn frame(kind: u32, [src, dst]: [u32; 2], [src_port, dst_port]: [u16; 2]) -> Vec<u8> {
        let mac = |number: u32| [2, 0, number.to_be_bytes()[2], 0, 0, number as u8].into();
        let mut stack = Stack::new().with(ethernet::Header { src: mac(src), dst: mac(dst), ..Default::default() });
        if kind & 4 != 0 {
            stack = stack.with(vlan::Header::default());
        }
        let v6 = |number: u32| std::net::Ipv6Addr::from_bits(0xfd00 << 112 | u128::from(number));
        stack = match kind & 2 {
            0 => stack.with(ipv4::Header { src: src.into(), dst: dst.into(), ..Default::default() }),
            _ => stack.with(ipv6::Header { src: v6(src), dst: v6(dst), ..Default::default() }),
        };
        stack = match kind & 1 {
            0 => stack.with(tcp::Header { src_port, dst_port, ..Default::default() }),
            _ => stack.with(udp::Header { src_port, dst_port, ..Default::default() }),
        };
        stack.build(100).unwrap().bytes
    }

    #[test]
    fn frames_of_both_directions_have_the_entry_of_their_flow() {
        for kind in 0..8 {
            let mut counts = [0; STEERING_ENTRIES];
            for seed in 0..2048_u32 {
                let (ends, ports) = ([0xc612_0001, 0xc612_0102 + seed % 7], [80, 20_000 + seed as u16]);
                let there = flow_entry(&frame(kind, ends, ports));
                assert_eq!(there, flow_entry(&frame(kind, [ends[1], ends[0]], [ports[1], ports[0]])), "{kind}");
                let both = u32::from(ports[0]) << 16 | u32::from(ports[1]);
                let net = 0xfd00 << 112;
                let fold = match kind & 2 {
                    0 => fold4(ends[0], ends[1], both),
                    _ => fold6(net | u128::from(ends[0]), net | u128::from(ends[1]), both),
                };
                assert_eq!(there, entry(fold), "{kind}");
                counts[usize::from(there)] += 1;
            }
            assert!(counts.iter().all(|count| (4..64).contains(count)), "{counts:?}");
        }
    }

    #[test]
    fn fragments_stay_together_and_frames_without_ip_go_by_their_mac_addresses() {
        let mut packet = frame(1, [1, 2], [1000, 53]);
        let entries = [0x2000_u16, 0x2007, 0x0010].map(|fragment| {
            packet[20..22].copy_from_slice(&fragment.to_be_bytes());
            // What would be ports is something else in each of them.
            packet[34..38].copy_from_slice(&u32::from(fragment).wrapping_mul(0x9e37_79b9).to_be_bytes());
            flow_entry(&packet)
        });
        assert_eq!(entries, [entry(fold4(1, 2, 0)); 3]);
        let mut plain = [0_u8; 60];
        plain[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 0x88, 0xb5]);
        let there = flow_entry(&plain);
        plain[5] = 9;
        plain[11] = 1;
        assert_eq!((there, there), (flow_entry(&plain), entry(1 ^ 9)));
        for len in 0..60 {
            flow_entry(&plain[..len]);
            flow_entry(&packet[..len]);
        }
    }
}
