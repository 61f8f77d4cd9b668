//! Which checksums cover which field, and what a stack refuses.

use linerate_wire::*;

fn over(ip: impl Into<Layer>, transport: impl Into<Layer>) -> Stack {
    Stack::new().with(ethernet::Header::default()).with(ip).with(transport)
}

/// The kinds and weights of the updates that a field needs.
fn updates(layout: &Layout, field: std::ops::Range<usize>) -> Vec<(LayerKind, i32)> {
    let updates = layout.checksums_covering(field.start, field.len());
    assert!(updates.iter().all(|update| update.bytes == field), "{updates:?}");
    let kind = |update: &ChecksumUpdate| layout.checksums[update.checksum].kind;
    updates.iter().map(|update| (kind(update), update.weight)).collect()
}

#[test]
fn ipv4_addresses_are_covered_twice_and_ttl_once() {
    let layout = over(ipv4::Header::default(), udp::Header::default()).build(60).unwrap().layout;
    let (ip, udp) = (layout.layers[1], layout.layers[2]);
    let both = [(LayerKind::Ipv4, 1), (LayerKind::Udp, 1)];
    assert_eq!(updates(&layout, ip.field(ipv4::field::SRC)), both);
    assert_eq!(updates(&layout, ip.field(ipv4::field::DST)), both);
    assert_eq!(updates(&layout, ip.field(ipv4::field::TOTAL_LEN)), both);
    assert_eq!(updates(&layout, ip.field(ipv4::field::TTL)), [(LayerKind::Ipv4, 1)]);
    assert_eq!(updates(&layout, udp.field(udp::field::SRC_PORT)), [(LayerKind::Udp, 1)]);
    assert_eq!(updates(&layout, layout.payload.clone()), [(LayerKind::Udp, 1)]);
    assert_eq!(updates(&layout, 0..6), []);
}

#[test]
fn ipv6_addresses_are_covered_by_the_transport_only() {
    let layout = over(ipv6::Header::default(), tcp::Header::default()).build(80).unwrap().layout;
    let ip = layout.layers[1];
    assert_eq!(updates(&layout, ip.field(ipv6::field::DST)), [(LayerKind::Tcp, 1)]);
    assert_eq!(updates(&layout, ip.field(ipv6::field::HOP_LIMIT)), []);
    assert_eq!(updates(&layout, ip.field(ipv6::field::VERSION_CLASS_FLOW)), []);
}

#[test]
fn an_absent_udp_checksum_needs_no_update() {
    let stack =
        over(ipv4::Header::default(), udp::Header::default()).udp_checksum(UdpChecksum::Absent).fill(Fill::Increment);
    let Built { mut bytes, layout } = stack.build(60).unwrap();
    assert_eq!(updates(&layout, 34..36), []);
    assert!(!layout.checksums[1].present);
    layout.patch(&mut bytes, 26, &[1, 2, 3, 4]);
    assert_eq!(bytes[40..42], [0, 0]);
    assert_eq!(verify_checksums(&bytes), Ok(()));
}

#[test]
fn icmp_over_ipv4_has_no_pseudo_header() {
    let layout = over(ipv4::Header::default(), icmpv4::Header::default()).build(60).unwrap().layout;
    let ip = layout.layers[1];
    assert_eq!(updates(&layout, ip.field(ipv4::field::SRC)), [(LayerKind::Ipv4, 1)]);
}

/// The sum of an echo reply that is all zero is 0 and not 0xffff, which an update takes for the same.
#[test]
fn a_message_of_icmp_may_become_all_zero_and_something_again() {
    let build = |kind| over(ipv4::Header::default(), icmpv4::Header { kind, ..Default::default() }).build(60).unwrap();
    let (Built { mut bytes, layout }, reply) = (build(1), build(0).bytes);
    let kind = layout.layers[2].offset;
    let before = bytes.clone();
    layout.patch(&mut bytes, kind, &[0]);
    assert_eq!(bytes, reply);
    assert_eq!((verify_checksums(&bytes), &bytes[36..38]), (Ok(()), &[0xff, 0xff][..]));
    layout.patch(&mut bytes, kind, &[1]);
    assert_eq!(bytes, before);
}

/// A checksum of 0 is completed if all of the message is zero, and only then.
#[test]
fn only_a_message_of_icmp_that_is_all_zero_is_completed() {
    for len in [0, 7, 8, 9, 64] {
        for other in (0..len).map(Some).chain([None]) {
            let mut bytes = vec![0; len];
            other.into_iter().for_each(|at| bytes[at] = 1);
            let mut expected = bytes.clone();
            if other.is_none() && len >= 8 {
                expected[2..4].fill(0xff);
            }
            icmpv4::Packet::new_unchecked(&mut bytes).complete_zero();
            assert_eq!(bytes, expected, "{len} {other:?}");
        }
    }
}

fn vxlan_over(ip: impl Into<Layer>) -> Stack {
    over(ip, udp::Header { dst_port: vxlan::PORT, ..Default::default() })
        .with(vxlan::Header { vni: 1 })
        .with(ethernet::Header::default())
        .with(ipv4::Header::default())
        .with(udp::Header::default())
}

#[test]
fn vxlan_over_ipv4_has_no_outer_udp_checksum() {
    let Built { bytes, layout } = vxlan_over(ipv4::Header::default()).build(110).unwrap();
    assert_eq!(bytes[40..42], [0, 0]);
    let inner = layout.find_innermost(LayerKind::Ipv4).unwrap().field(ipv4::field::SRC);
    assert_eq!(updates(&layout, inner), [(LayerKind::Ipv4, 1), (LayerKind::Udp, 1)]);
}

#[test]
fn vxlan_over_ipv6_counts_inner_checksums_as_data() {
    let Built { bytes, layout } = vxlan_over(ipv6::Header::default()).build(130).unwrap();
    assert_ne!(bytes[60..62], [0, 0]);
    // The address itself counts once, both inner checksums take it out again: once below nothing.
    let inner = layout.find_innermost(LayerKind::Ipv4).unwrap().field(ipv4::field::SRC);
    let expected = [(LayerKind::Udp, -1), (LayerKind::Ipv4, 1), (LayerKind::Udp, 1)];
    assert_eq!(updates(&layout, inner), expected);
    // The payload counts once, the inner UDP checksum takes it out: only that one is left.
    assert_eq!(updates(&layout, layout.payload.clone()), [(LayerKind::Udp, 1)]);
    // A checksum set by hand is data of the outer one only.
    let checksum = layout.find_innermost(LayerKind::Udp).unwrap().field(udp::field::CHECKSUM);
    let updates = layout.checksums_covering(checksum.start, 2);
    assert_eq!(updates.iter().map(|update| update.offset).collect::<Vec<_>>(), [60]);
}

#[test]
fn a_partly_covered_field_is_split() {
    let layout = over(ipv4::Header::default(), udp::Header::default()).build(60).unwrap().layout;
    // The last two bytes of the MAC header and the first two of IPv4.
    let updates = layout.checksums_covering(12, 4);
    assert_eq!((updates.len(), updates[0].bytes.clone()), (1, 14..16));
    assert_eq!(layout.checksums_covering(59, usize::MAX).len(), 1);
    assert_eq!(layout.checksums_covering(60, 4), []);
    assert_eq!(layout.checksums_covering(usize::MAX, usize::MAX), []);
}

#[test]
fn fields_that_do_not_fit_are_refused() {
    let refused = |layer: Layer, text: &str| {
        let error = Stack::new().with(ethernet::Header::default()).with(layer).build(100).unwrap_err();
        assert_eq!(error.to_string(), text);
    };
    let vlan = vlan::Header { vid: 4096, ..Default::default() };
    refused(vlan.into(), "VLAN: VLAN id 4096 is above 4095");
    let vlan = vlan::Header { pcp: 8, ..Default::default() };
    refused(vlan.into(), "VLAN: priority 8 is above 7");
    let mpls = mpls::Header { label: 1 << 20, ..Default::default() };
    refused(mpls.into(), "MPLS: label 1048576 is above 1048575");
    let ipv6 = ipv6::Header { flow_label: 1 << 20, ..Default::default() };
    refused(ipv6.into(), "IPv6: flow label 1048576 is above 1048575");
    let ipv4 = ipv4::Header { fragment_offset: 8192, ..Default::default() };
    refused(ipv4.into(), "IPv4: fragment offset 8192 is above 8191");
}

#[test]
fn order_is_checked() {
    let error = |stack: Stack| stack.build(1000).unwrap_err().to_string();
    let ethernet = || Stack::new().with(ethernet::Header::default());
    assert_eq!(error(Stack::new()), "a frame needs at least an Ethernet layer");
    let bare = Stack::new().with(ipv4::Header::default());
    assert_eq!(error(bare), "a frame starts with Ethernet, not with IPv4");
    assert_eq!(error(ethernet().with(udp::Header::default())), "UDP cannot follow Ethernet");
    let mixed = ethernet().with(ipv4::Header::default()).with(icmpv6::Header::default());
    assert_eq!(error(mixed), "ICMPv6 cannot follow IPv4");
    let open = over(ipv4::Header::default(), udp::Header::default()).with(vxlan::Header { vni: 1 });
    assert_eq!(error(open), "VXLAN cannot be the last layer");
}

#[test]
fn lengths_beyond_their_fields_are_refused() {
    let stack = over(ipv4::Header::default(), udp::Header::default());
    assert!(stack.build(14 + 65535).is_ok());
    let error = stack.build(14 + 65536).unwrap_err();
    assert_eq!(error, BuildError::TooLong { layer: LayerKind::Ipv4, len: 65536, max: 65535 });
    let stack = over(ipv6::Header::default(), tcp::Header::default());
    let built = stack.build(54 + 65535).unwrap();
    assert_eq!(verify_checksums(&built.bytes), Ok(()));
    assert!(stack.build(54 + 65536).is_err());
}

#[test]
fn udp_over_ipv6_must_have_a_checksum() {
    let stack = over(ipv6::Header::default(), udp::Header::default());
    assert_eq!(stack.clone().udp_checksum(UdpChecksum::Absent).build(100), Err(BuildError::ChecksumRequired));
    let mut bytes = stack.build(62).unwrap().bytes;
    bytes[60..62].fill(0);
    assert_eq!(verify_checksums(&bytes), Err(ChecksumError::Missing { offset: 60 }));
}

#[test]
fn a_failed_build_leaves_the_buffer_alone() {
    let mut frame = [0xaa; 41];
    let stack = over(ipv4::Header::default(), udp::Header::default());
    assert!(stack.build_into(&mut frame).is_err());
    assert_eq!(frame, [0xaa; 41]);
}

#[test]
fn a_wrong_inner_checksum_is_named_with_its_place() {
    let Built { mut bytes, layout } = vxlan_over(ipv4::Header::default()).build(110).unwrap();
    let inner = layout.find_innermost(LayerKind::Ipv4).unwrap();
    bytes[inner.offset + 8] ^= 1;
    let error = verify_checksums(&bytes).unwrap_err();
    let place = inner.offset + ipv4::field::CHECKSUM.start;
    assert!(matches!(error, ChecksumError::Wrong { kind: LayerKind::Ipv4, offset, .. } if offset == place), "{error}");
}
