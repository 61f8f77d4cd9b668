//! What the property tests share: arbitrary stacks, and checksums computed the slow and obvious way.
#![allow(dead_code)]

use linerate_wire::*;
use proptest::prelude::*;
use std::ops::Range;

/// An EtherType for local experiments (IEEE 802), which nothing parses.
pub const UNKNOWN_ETHERTYPE: EtherType = EtherType(0x88b5);
/// An IP protocol for experiments (RFC 3692), which nothing parses.
pub const UNKNOWN_PROTOCOL: Protocol = Protocol(253);

/// Numbers with the corner cases of ones'-complement arithmetic made likely.
pub fn word() -> impl Strategy<Value = u16> {
    prop_oneof![Just(0), Just(1), Just(0x7fff), Just(0x8000), Just(0xfffe), Just(0xffff), any::<u16>()]
}

/// Bytes made of [`word`]s.
pub fn bytes(words: Range<usize>) -> impl Strategy<Value = Vec<u8>> {
    let words = prop::collection::vec(word(), words);
    words.prop_map(|words| words.into_iter().flat_map(u16::to_be_bytes).collect())
}

/// Any stack that builds, up to VXLAN in VXLAN.
pub fn stack() -> impl Strategy<Value = Stack> {
    let plain = || plain_layers().boxed();
    let nested = |inner: BoxedStrategy<Vec<Layer>>| {
        (tunnel_layers(), inner).prop_map(|(outer, inner)| [outer, inner].concat()).boxed()
    };
    let layers = prop_oneof![4 => plain(), 3 => nested(plain()), 1 => nested(nested(plain()))];
    (layers, fill()).prop_map(|(layers, fill)| Stack { layers, fill, ..Stack::new() })
}

/// A stack and a frame length that it can have.
pub fn stack_and_len() -> impl Strategy<Value = (Stack, usize)> {
    (stack(), prop_oneof![Just(0usize), 0..70usize, 0..1500usize])
        .prop_map(|(stack, extra)| (stack.clone(), stack.headers_len() + extra))
}

fn fill() -> impl Strategy<Value = Fill> {
    prop_oneof![
        Just(Fill::Zero),
        any::<u8>().prop_map(Fill::Byte),
        Just(Fill::Increment),
        bytes(0..20).prop_map(Fill::Repeat),
        any::<u64>().prop_map(Fill::Random)
    ]
}

fn link_layers() -> impl Strategy<Value = Vec<Layer>> {
    let ethernet = (any::<[u8; 6]>(), any::<[u8; 6]>()).prop_map(|(dst, src)| {
        ethernet::Header { dst: dst.into(), src: src.into(), ethertype: UNKNOWN_ETHERTYPE }.into()
    });
    (ethernet, prop::collection::vec(vlan(), 0..3)).prop_map(|(ethernet, tags)| [vec![ethernet], tags].concat())
}

fn vlan() -> impl Strategy<Value = Layer> {
    (any::<bool>(), 0..8u8, any::<bool>(), 0..4096u16).prop_map(|(service, pcp, dei, vid)| {
        let header = vlan::Header { pcp, dei, vid, ethertype: UNKNOWN_ETHERTYPE };
        if service { Layer::qinq(header) } else { header.into() }
    })
}

fn mpls() -> impl Strategy<Value = Layer> {
    (0..=mpls::MAX_LABEL, 0..8u8, any::<u8>())
        .prop_map(|(label, tc, ttl)| mpls::Header { label, tc, ttl, bottom: false }.into())
}

fn arp() -> impl Strategy<Value = Layer> {
    (any::<u16>(), any::<[[u8; 6]; 2]>(), any::<[[u8; 4]; 2]>()).prop_map(|(operation, macs, ips)| {
        let (sender_mac, target_mac) = (macs[0].into(), macs[1].into());
        let (sender_ip, target_ip) = (ips[0].into(), ips[1].into());
        arp::Header { operation, sender_mac, sender_ip, target_mac, target_ip }.into()
    })
}

fn options(kind: LayerKind) -> impl Strategy<Value = Options> {
    let some = prop::collection::vec(any::<u8>(), 0..=40);
    prop_oneof![Just(vec![]), some].prop_map(move |bytes| Options::new(kind, &bytes).unwrap())
}

fn ipv4() -> impl Strategy<Value = Layer> {
    let fragment = prop_oneof![7 => Just((false, 0)), 1 => (any::<bool>(), 0..0x2000u16)];
    let fields = (any::<u8>(), word(), any::<bool>(), fragment, any::<u8>());
    (fields, any::<[u8; 4]>(), any::<[u8; 4]>(), options(LayerKind::Ipv4)).prop_map(
        |((tos, identification, dont_fragment, fragment, ttl), src, dst, options)| {
            let (more_fragments, fragment_offset) = fragment;
            let (src, dst) = (src.into(), dst.into());
            let (total_len, protocol) = (0, UNKNOWN_PROTOCOL);
            let fragment = (dont_fragment, more_fragments, fragment_offset);
            let (dont_fragment, more_fragments, fragment_offset) = fragment;
            ipv4::Header {
                tos,
                total_len,
                identification,
                dont_fragment,
                more_fragments,
                fragment_offset,
                ttl,
                protocol,
                src,
                dst,
                options,
            }
            .into()
        },
    )
}

fn ipv6() -> impl Strategy<Value = Layer> {
    let fields = (any::<u8>(), 0..=ipv6::MAX_FLOW_LABEL, any::<u8>());
    (fields, any::<[u8; 16]>(), any::<[u8; 16]>()).prop_map(|(fields, src, dst)| {
        let (traffic_class, flow_label, hop_limit) = fields;
        let (src, dst, next_header) = (src.into(), dst.into(), UNKNOWN_PROTOCOL);
        let payload_len = 0;
        ipv6::Header { traffic_class, flow_label, payload_len, next_header, hop_limit, src, dst }.into()
    })
}

fn udp() -> impl Strategy<Value = Layer> {
    (word(), word()).prop_map(|(src_port, dst_port)| udp::Header { src_port, dst_port, ..Default::default() }.into())
}

fn tcp() -> impl Strategy<Value = Layer> {
    let fields = (word(), word(), any::<u32>(), any::<u32>(), any::<u8>(), word(), word());
    (fields, options(LayerKind::Tcp)).prop_map(|(fields, options)| {
        let (src_port, dst_port, sequence, acknowledgment, flags, window, urgent) = fields;
        let (flags, checksum) = (tcp::Flags(flags), 0);
        tcp::Header { src_port, dst_port, sequence, acknowledgment, flags, window, checksum, urgent, options }.into()
    })
}

fn icmp(v6: bool) -> impl Strategy<Value = Layer> {
    // Type 0 is left out: an echo reply of zeros is the one message whose checksum has two faces.
    (1..=255u8, any::<u8>(), word(), word()).prop_map(move |(kind, code, identifier, sequence)| {
        let checksum = 0;
        match v6 {
            false => icmpv4::Header { kind, code, checksum, identifier, sequence }.into(),
            true => icmpv6::Header { kind, code, checksum, identifier, sequence }.into(),
        }
    })
}

fn ip_layers(transport: bool) -> impl Strategy<Value = Vec<Layer>> {
    let over = |ip: BoxedStrategy<Layer>, icmp: BoxedStrategy<Layer>| {
        let upper = prop_oneof![udp().boxed(), tcp().boxed(), icmp];
        (ip, prop::option::weighted(0.9, upper))
            .prop_map(move |(ip, upper)| [ip].into_iter().chain(upper.filter(|_| transport)).collect())
    };
    let ip = prop_oneof![over(ipv4().boxed(), icmp(false).boxed()), over(ipv6().boxed(), icmp(true).boxed())];
    (prop::collection::vec(mpls(), 0..3), ip).prop_map(|(labels, ip)| [labels, ip].concat())
}

fn plain_layers() -> impl Strategy<Value = Vec<Layer>> {
    let network = prop_oneof![
        1 => Just(vec![]),
        1 => arp().prop_map(|arp| vec![arp]),
        8 => ip_layers(true)
    ];
    (link_layers(), network).prop_map(|(link, network)| [link, network].concat())
}

fn tunnel_layers() -> impl Strategy<Value = Vec<Layer>> {
    (link_layers(), ip_layers(false), word(), 0..=vxlan::MAX_VNI).prop_map(|(link, ip, src_port, vni)| {
        let udp = udp::Header { src_port, dst_port: vxlan::PORT, ..Default::default() };
        let mut layers = [link, ip, vec![udp.into(), vxlan::Header { vni }.into()]].concat();
        // A tunnel whose outer packet is a fragment hides what is inside.
        for layer in &mut layers {
            if let Layer::Ipv4(header) = layer {
                (header.more_fragments, header.fragment_offset) = (false, 0);
            }
        }
        layers
    })
}

/// The ones'-complement sum of big-endian words, one by one, modulo nothing until the end.
pub fn naive_sum(bytes: &[u8]) -> u128 {
    let word = |pair: &[u8]| u128::from(pair[0]) << 8 | u128::from(*pair.get(1).unwrap_or(&0));
    bytes.chunks(2).map(word).sum()
}

/// The checksum of a [`naive_sum`].
pub fn naive_finish(mut sum: u128) -> u16 {
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    !(sum as u16)
}

/// Computes every checksum that is present anew, innermost first, from the bytes of the frame and
/// the places of the layers alone.
pub fn recompute(layout: &Layout, frame: &mut [u8]) {
    for (index, span) in layout.layers.iter().enumerate().rev() {
        let field = match span.kind {
            LayerKind::Ipv4 => 10,
            LayerKind::Udp => 6,
            LayerKind::Tcp => 16,
            LayerKind::Icmpv4 | LayerKind::Icmpv6 => 2,
            _ => continue,
        };
        let field = span.offset + field;
        if !layout.checksums.iter().find(|checksum| checksum.offset == field).unwrap().present {
            continue;
        }
        frame[field..field + 2].fill(0);
        let sum = match span.kind {
            LayerKind::Ipv4 => naive_sum(&frame[span.range()]),
            LayerKind::Icmpv4 => naive_sum(&frame[span.offset..]),
            kind => pseudo(kind, &layout.layers[index - 1], frame) + naive_sum(&frame[span.offset..]),
        };
        let mut checksum = naive_finish(sum);
        if span.kind == LayerKind::Udp && checksum == 0 {
            checksum = 0xffff;
        }
        frame[field..field + 2].copy_from_slice(&checksum.to_be_bytes());
    }
}

/// The pseudo-header, with the length as the IP header's length field gives it.
fn pseudo(kind: LayerKind, ip: &LayerSpan, frame: &[u8]) -> u128 {
    let protocol = match kind {
        LayerKind::Udp => 17,
        LayerKind::Tcp => 6,
        _ => 58,
    };
    let header = &frame[ip.offset..];
    if ip.kind == LayerKind::Ipv4 {
        let minus_header_len = 0xffff - ip.len as u128;
        naive_sum(&header[12..20]) + protocol + naive_sum(&header[2..4]) + minus_header_len
    } else {
        naive_sum(&header[8..40]) + protocol + naive_sum(&header[4..6])
    }
}
