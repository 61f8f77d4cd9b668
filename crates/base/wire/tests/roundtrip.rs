//! What is built parses back, verifies, and stays right when fields are patched in place.

use super::common;

use common::{recompute, stack, stack_and_len};
use linerate_wire::*;
use proptest::prelude::*;
use std::net::IpAddr;

/// The header at a span, read from the frame, with its transport checksum cleared.
fn read_layer(span: &LayerSpan, tpid: Option<EtherType>, frame: &[u8]) -> Layer {
    let bytes = &frame[span.offset..];
    match span.kind {
        LayerKind::Ethernet => ethernet::Header::parse(bytes).unwrap().into(),
        LayerKind::Vlan => Layer::Vlan { tpid: tpid.unwrap(), header: vlan::Header::parse(bytes).unwrap() },
        LayerKind::Mpls => mpls::Header::parse(bytes).unwrap().into(),
        LayerKind::Arp => arp::Header::parse(bytes).unwrap().into(),
        LayerKind::Ipv4 => ipv4::Header::parse(bytes).unwrap().into(),
        LayerKind::Ipv6 => ipv6::Header::parse(bytes).unwrap().into(),
        LayerKind::Udp => udp::Header { checksum: 0, ..udp::Header::parse(bytes).unwrap() }.into(),
        LayerKind::Tcp => tcp::Header { checksum: 0, ..tcp::Header::parse(bytes).unwrap() }.into(),
        LayerKind::Icmpv4 => icmpv4::Header { checksum: 0, ..icmpv4::Header::parse(bytes).unwrap() }.into(),
        LayerKind::Icmpv6 => icmpv6::Header { checksum: 0, ..icmpv6::Header::parse(bytes).unwrap() }.into(),
        LayerKind::Vxlan => vxlan::Header::parse(bytes).unwrap().into(),
        LayerKind::Geneve => geneve::Header::parse(bytes).unwrap().into(),
        LayerKind::Gre => gre::Header::parse(bytes).unwrap().into(),
    }
}

/// The key that the layers up to the first transport layer give.
fn expected_key(layers: &[Layer]) -> Option<FlowKey> {
    let at = layers.iter().position(|layer| matches!(layer, Layer::Ipv4(_) | Layer::Ipv6(_)))?;
    let (src, dst, protocol, is_fragment): (IpAddr, IpAddr, _, _) = match &layers[at] {
        Layer::Ipv4(ip) => {
            let is_fragment = ip.more_fragments || ip.fragment_offset != 0;
            (ip.src.into(), ip.dst.into(), ip.protocol, is_fragment)
        }
        Layer::Ipv6(ip) => (ip.src.into(), ip.dst.into(), ip.next_header, false),
        _ => return None,
    };
    let (src_port, dst_port) = match layers.get(at + 1) {
        _ if is_fragment => (0, 0),
        Some(Layer::Udp(udp)) => (udp.src_port, udp.dst_port),
        Some(Layer::Tcp(tcp)) => (tcp.src_port, tcp.dst_port),
        Some(Layer::Icmpv4(icmp)) if matches!(icmp.kind, 0 | 8) => (icmp.identifier, icmp.identifier),
        Some(Layer::Icmpv6(icmp)) if matches!(icmp.kind, 128 | 129) => (icmp.identifier, icmp.identifier),
        _ => (0, 0),
    };
    Some(FlowKey { src, dst, src_port, dst_port, protocol })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn built_fields_parse_back((stack, frame_len) in stack_and_len()) {
        let Built { bytes, layout } = stack.build(frame_len).unwrap();
        let layers = stack.resolve(frame_len).unwrap();
        prop_assert_eq!(bytes.len(), frame_len);
        prop_assert_eq!(layers.len(), layout.layers.len());
        let mut tpid = None;
        for (layer, span) in layers.iter().zip(&layout.layers) {
            let read = read_layer(span, tpid, &bytes);
            tpid = match &read {
                Layer::Ethernet(header) => Some(header.ethertype),
                Layer::Vlan { header, .. } => Some(header.ethertype),
                _ => None,
            };
            prop_assert_eq!(&read, layer);
        }
        let mut payload = vec![0; layout.payload.len()];
        stack.fill.write(&mut payload);
        prop_assert_eq!(&bytes[layout.payload.clone()], &payload[..]);
        prop_assert_eq!(layout.payload.end, frame_len);
    }

    #[test]
    fn built_checksums_are_right((stack, frame_len) in stack_and_len()) {
        let Built { bytes, layout } = stack.build(frame_len).unwrap();
        prop_assert_eq!(verify_checksums(&bytes), Ok(()));
        let mut again = bytes.clone();
        recompute(&layout, &mut again);
        prop_assert_eq!(bytes, again);
    }

    #[test]
    fn dissection_finds_what_was_built((stack, frame_len) in stack_and_len()) {
        let Built { bytes, layout } = stack.build(frame_len).unwrap();
        let parsed = Parsed::parse(&bytes).unwrap();
        let layers = stack.resolve(frame_len).unwrap();
        prop_assert_eq!(FlowKey::from_frame(&bytes), expected_key(&layers));
        let is_ip = |span: &&LayerSpan| matches!(span.kind, LayerKind::Ipv4 | LayerKind::Ipv6);
        // Only the outermost frame: VXLAN, if there is any, ends it.
        let outer = layout.layers.iter().position(|span| span.kind == LayerKind::Vxlan);
        let spans = &layout.layers[..outer.unwrap_or(layout.layers.len())];
        let count = |kind| spans.iter().filter(|span| span.kind == kind).count();
        prop_assert_eq!(parsed.vlan_tags, count(LayerKind::Vlan));
        prop_assert_eq!(parsed.mpls_labels, count(LayerKind::Mpls));
        let span = spans.iter().find(is_ip);
        prop_assert_eq!(parsed.ip.map(|ip| (ip.kind, ip.offset)), span.map(|span| (span.kind, span.offset)));
        if let Some(transport) = parsed.ip.and_then(|ip| ip.transport) {
            let span = spans.last().unwrap();
            prop_assert_eq!((transport.kind, transport.offset), (span.kind, span.offset));
            prop_assert_eq!((transport.payload_offset, transport.end), (span.range().end, frame_len));
        }
        if let Some(vxlan) = outer {
            let inner = parsed.inner(&bytes).unwrap();
            prop_assert_eq!(inner, &bytes[layout.layers[vxlan].range().end..]);
            let expected = layers.rsplit(|layer| layer.kind() == LayerKind::Vxlan).find_map(expected_key);
            prop_assert_eq!(FlowKey::innermost(&bytes), expected);
        }
    }

    #[test]
    fn patching_is_rebuilding(
        (stack, frame_len) in stack_and_len(),
        patches in prop::collection::vec((any::<prop::sample::Index>(), common::bytes(1..12), any::<bool>()), 1..6),
    ) {
        let Built { mut bytes, layout } = stack.build(frame_len).unwrap();
        for (at, new, odd) in patches {
            let new = &new[..new.len() - usize::from(odd)];
            let new = &new[..new.len().min(frame_len)];
            let at = at.index(frame_len - new.len() + 1);
            let patched = at..at + new.len();
            // A patch of a checksum field is meant to make it wrong; nothing to compare then.
            if layout.checksums.iter().any(|field| field.offset < patched.end && patched.start < field.offset + 2) {
                continue;
            }
            let mut expected = bytes.clone();
            expected[patched].copy_from_slice(new);
            recompute(&layout, &mut expected);
            layout.patch(&mut bytes, at, new);
            prop_assert_eq!(&bytes, &expected);
        }
    }

    #[test]
    fn a_flipped_bit_is_noticed((stack, frame_len) in stack_and_len(), bit in any::<prop::sample::Index>()) {
        let Built { mut bytes, layout } = stack.build(frame_len).unwrap();
        // In the payload, where no structure breaks; UDP without checksum and fragments cannot notice.
        let is_fragment = |layer: &Layer| match layer {
            Layer::Ipv4(ip) => ip.more_fragments || ip.fragment_offset != 0,
            _ => false,
        };
        prop_assume!(!layout.payload.is_empty() && !stack.layers.iter().any(is_fragment));
        let covered = layout.checksums_covering(layout.payload.start, 1);
        prop_assume!(!covered.is_empty());
        let at = layout.payload.start + bit.index(layout.payload.len());
        bytes[at] ^= 1;
        let noticed = matches!(verify_checksums(&bytes), Err(ChecksumError::Wrong { .. }));
        prop_assert!(noticed);
    }

    #[test]
    fn too_short_is_an_error_with_numbers(stack in stack(), short in any::<prop::sample::Index>()) {
        let needed = stack.headers_len();
        let frame_len = short.index(needed);
        match stack.build(frame_len) {
            Err(BuildError::TooShort { frame_len: asked, headers_len, layers }) => {
                prop_assert_eq!((asked, headers_len), (frame_len, needed));
                prop_assert_eq!(layers.iter().map(|(_, len)| len).sum::<usize>(), needed);
            }
            other => prop_assert!(false, "{other:?}"),
        }
        prop_assert!(stack.build(needed).is_ok());
    }
}
