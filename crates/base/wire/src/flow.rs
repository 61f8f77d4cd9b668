//! [`FlowKey`]: the 5-tuple of a frame, and a hash of it.

use crate::{LayerKind, Parsed, Protocol, Transport};
use crate::{bytes::cut, icmpv4, icmpv6, ipv4, ipv6, tcp, udp};
use std::net::IpAddr;

/// Addresses, protocol and ports of a frame.
///
/// Ports are 0 where there are none: other protocols, and every fragment, the first included, so
/// that all fragments of a packet have one key. ICMP echoes have their identifier in both.
///
/// ```
/// use linerate_wire::{FlowKey, Stack, ethernet, ipv4, udp, vlan};
/// let stack = Stack::new()
///     .with(ethernet::Header::default())
///     .with(vlan::Header::default())
///     .with(ipv4::Header { src: [10, 0, 0, 1].into(), dst: [10, 0, 0, 2].into(), ..Default::default() })
///     .with(udp::Header { src_port: 1000, dst_port: 53, ..Default::default() });
/// let key = FlowKey::from_frame(&stack.build(64).unwrap().bytes).unwrap();
/// assert_eq!(key.to_string(), "10.0.0.1:1000 > 10.0.0.2:53 UDP");
/// assert_eq!(key.hash_symmetric(), key.reversed().hash_symmetric());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowKey {
    /// Source address.
    pub src: IpAddr,
    /// Destination address, of the same family.
    pub dst: IpAddr,
    /// Source port or 0.
    pub src_port: u16,
    /// Destination port or 0.
    pub dst_port: u16,
    /// Protocol.
    pub protocol: Protocol,
}

impl FlowKey {
    /// The key of a frame, through VLAN tags and MPLS labels; of VXLAN, the outer one. `None` if
    /// the frame is not IP or cannot be parsed.
    #[inline]
    pub fn from_frame(frame: &[u8]) -> Option<FlowKey> {
        FlowKey::from_parsed(frame, &Parsed::parse(frame).ok()?)
    }

    /// As [`FlowKey::from_frame`], but of VXLAN on the standard port the key of the innermost frame
    /// that has one.
    pub fn innermost(frame: &[u8]) -> Option<FlowKey> {
        let mut key = None;
        let mut next = Some(frame);
        // Each round looks at a frame inside the one before, so this ends.
        while let Some(frame) = next {
            let Ok(parsed) = Parsed::parse(frame) else {
                break;
            };
            key = FlowKey::from_parsed(frame, &parsed).or(key);
            next = parsed.inner(frame);
        }
        key
    }

    /// The key of a `frame` that is already `parsed`. `None` if it is not IP.
    #[inline]
    pub fn from_parsed(frame: &[u8], parsed: &Parsed) -> Option<FlowKey> {
        let ip = parsed.ip?;
        let packet = cut(frame, ip.offset, ip.end);
        let (src, dst): (IpAddr, IpAddr) = match ip.kind {
            LayerKind::Ipv4 => {
                let packet = ipv4::Packet::new_truncated(packet).ok()?;
                (packet.src().into(), packet.dst().into())
            }
            _ => {
                let packet = ipv6::Packet::new_truncated(packet).ok()?;
                (packet.src().into(), packet.dst().into())
            }
        };
        let (src_port, dst_port) = ip.transport.and_then(|transport| ports(frame, &transport)).unwrap_or((0, 0));
        Some(FlowKey { src, dst, src_port, dst_port, protocol: ip.protocol })
    }

    /// The key of the opposite direction.
    #[must_use]
    pub const fn reversed(self) -> FlowKey {
        FlowKey { src: self.dst, dst: self.src, src_port: self.dst_port, dst_port: self.src_port, ..self }
    }

    /// A hash that is the same in both directions, for dividing flows between ports and cores: two multiplications for
    /// IPv4, four for IPv6. It is the same everywhere and always, so whoever chooses the packets can choose collisions.
    #[inline]
    pub fn hash_symmetric(&self) -> u64 {
        let (src, dst) = (endpoint(self.src, self.src_port), endpoint(self.dst, self.dst_port));
        let family = u64::from(self.src.is_ipv6()) << 8;
        let both = mix(src.min(dst) ^ KEYS[0], src.max(dst) ^ KEYS[1]);
        mix(both ^ KEYS[2], KEYS[3] ^ family ^ u64::from(self.protocol.0))
    }
}

impl std::fmt::Display for FlowKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        use std::net::SocketAddr;
        if (self.src_port, self.dst_port) == (0, 0) {
            return write!(f, "{} > {} {}", self.src, self.dst, self.protocol);
        }
        let (src, dst) = (SocketAddr::new(self.src, self.src_port), SocketAddr::new(self.dst, self.dst_port));
        write!(f, "{src} > {dst} {}", self.protocol)
    }
}

/// Source and destination port of a transport layer, or an echo's identifier as both.
#[inline]
fn ports(frame: &[u8], transport: &Transport) -> Option<(u16, u16)> {
    let bytes = cut(frame, transport.offset, transport.end);
    match transport.kind {
        LayerKind::Udp => {
            let packet = udp::Packet::new_truncated(bytes).ok()?;
            Some((packet.src_port(), packet.dst_port()))
        }
        LayerKind::Tcp => {
            let packet = tcp::Packet::new_checked(bytes).ok()?;
            Some((packet.src_port(), packet.dst_port()))
        }
        LayerKind::Icmpv4 => {
            let packet = icmpv4::Packet::new_checked(bytes).ok()?;
            packet.is_echo().then(|| (packet.identifier(), packet.identifier()))
        }
        _ => {
            let packet = icmpv6::Packet::new_checked(bytes).ok()?;
            packet.is_echo().then(|| (packet.identifier(), packet.identifier()))
        }
    }
}

/// Odd 64-bit constants: the fractional bits of the square roots of 2 (made odd), 3, 5 and 7.
const KEYS: [u64; 4] = [0x6a09_e667_f3bc_c909, 0xbb67_ae85_84ca_a73b, 0x3c6e_f372_fe94_f82b, 0xa54f_f53a_5f1d_36f1];

/// Both halves of a 128-bit product, folded.
#[inline]
const fn mix(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    (product >> 64) as u64 ^ product as u64
}

/// An address and a port in one word: exact for IPv4, mixed for IPv6.
#[inline]
fn endpoint(address: IpAddr, port: u16) -> u64 {
    match address {
        IpAddr::V4(address) => u64::from(address.to_bits()) << 16 | u64::from(port),
        IpAddr::V6(address) => {
            let bits = address.to_bits();
            mix((bits >> 64) as u64 ^ KEYS[2], bits as u64 ^ KEYS[3]).wrapping_add(u64::from(port))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u32) -> FlowKey {
        let (src, dst) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from((0x0a01_0000 + number).to_be_bytes()));
        FlowKey { src, dst, src_port: 1234, dst_port: 1234, protocol: Protocol::UDP }
    }

    #[test]
    fn hashes_stay_what_they_are() {
        assert_eq!(key(1).hash_symmetric(), 0x4990_8ad6_34a4_ec8e);
    }

    /// Flows that a range of addresses or ports makes must spread over low bits and high bits.
    #[test]
    fn neighbouring_flows_spread_over_buckets() {
        let by_address: Vec<_> = (0..6400).map(key).collect();
        let by_port = (0..6400).map(|number| FlowKey { src_port: number, ..key(1) }).collect();
        let v6 = |number: u32| {
            let dst = std::net::Ipv6Addr::from_bits(0xfd00 << 112 | u128::from(number));
            FlowKey { src: std::net::Ipv6Addr::LOCALHOST.into(), dst: dst.into(), ..key(1) }
        };
        for flows in [by_address, by_port, (0..6400).map(v6).collect::<Vec<_>>()] {
            for shift in [0, 29, 58] {
                let mut buckets = [0u32; 64];
                for flow in &flows {
                    buckets[(flow.hash_symmetric() >> shift) as usize % 64] += 1;
                }
                assert!(buckets.iter().all(|count| (50..=150).contains(count)), "{buckets:?}");
            }
        }
    }
}
