//! Every packet of every stream: right fields, right checksums, right signature - checked by parsing it anew.

use std::net::{Ipv4Addr, Ipv6Addr};

use linerate_gen::{Advance, Rule, Signature, Sizes, Stream, StreamSpec, Values};
use linerate_wire::{Stack, UdpChecksum, ethernet, icmpv4, ipv4, ipv6, mpls, tcp, udp, verify_checksums, vlan, vxlan};
use proptest::prelude::*;

fn udp4() -> Stack {
    let addresses = ipv4::Header {
        src: Ipv4Addr::new(192, 0, 2, 1),
        dst: Ipv4Addr::new(192, 0, 2, 101),
        ttl: 64,
        ..ipv4::Header::default()
    };
    Stack::new().with(ethernet::Header::default()).with(addresses).with(udp::Header::default())
}

fn rule(field: &str, first: u64, count: u64, advance: Advance) -> Rule {
    Rule { field: field.into(), values: Values::Range { first, step: 1, count }, advance }
}

fn packets(spec: &StreamSpec, count: usize) -> Vec<Vec<u8>> {
    let mut stream = Stream::new(&spec.plan().unwrap());
    let make = |number: usize| {
        let (image, len) = stream.next_image();
        let mut packet = vec![0xaa; len];
        stream.write(image, &mut packet, 1000 + number as u64);
        packet
    };
    (0..count).map(make).collect()
}

#[test]
fn ten_thousand_flows_are_an_odometer_of_sources_and_destinations() {
    let mut spec = StreamSpec::fixed(udp4(), 60, Some(9));
    spec.rules = vec![
        rule("ipv4.source", 0xc000_0201, 100, Advance::EachPacket),
        rule("ipv4.destination", 0xc000_0265, 100, Advance::WhenPreviousWraps),
    ];
    let mut seen = std::collections::HashSet::new();
    for (number, packet) in packets(&spec, 10_000).iter().enumerate() {
        verify_checksums(packet).unwrap();
        assert_eq!(packet[26..34], [192, 0, 2, 1 + (number % 100) as u8, 192, 0, 2, 101 + (number / 100) as u8]);
        let signature = Signature::read(packet).unwrap();
        let expected = Signature { stream: 9, sequence: number as u64, time_ns: 1000 + number as u64 };
        assert_eq!(signature, expected);
        seen.insert(packet[26..34].to_vec());
    }
    assert_eq!(seen.len(), 10_000);
}

/// The checksum of an echo reply that is all zero is 0xffff, the only one whose sum is 0.
#[test]
fn echo_replies_are_right_from_the_first_on() {
    let reply = icmpv4::Header { kind: 0, ..icmpv4::Header::default() };
    let stack = Stack::new().with(ethernet::Header::default()).with(ipv4::Header::default()).with(reply);
    let mut spec = StreamSpec::fixed(stack, 60, None);
    spec.rules = vec![rule("icmp.sequence", 0, 3, Advance::EachPacket)];
    let packets = packets(&spec, 6);
    packets.iter().for_each(|packet| verify_checksums(packet).unwrap());
    assert_eq!(
        [0, 1, 3].map(|number: usize| packets[number][36..38].to_vec()),
        [[0xff, 0xff], [0xff, 0xfe], [0xff, 0xff]]
    );
}

#[test]
fn three_wheels_carry_in_order() {
    let mut spec = StreamSpec::fixed(udp4(), 60, None);
    spec.rules = vec![
        rule("udp.source", 10, 2, Advance::EachPacket),
        rule("ipv4.source", 5, 3, Advance::WhenPreviousWraps),
        rule("udp.destination", 7, 2, Advance::WhenPreviousWraps),
        rule("ipv4.ttl", 60, 200, Advance::EachPacket),
    ];
    for (number, packet) in packets(&spec, 40).iter().enumerate() {
        verify_checksums(packet).unwrap();
        let ports = [packet[35], packet[29], packet[37], packet[22]];
        let expected = [10 + number % 2, 5 + number / 2 % 3, 7 + number / 6 % 2, 60 + number];
        assert_eq!(ports, expected.map(|value| value as u8), "packet {number}");
    }
}

#[test]
fn lists_randoms_and_parts_of_words() {
    let tag = vlan::Header { pcp: 5, vid: 1, ..vlan::Header::default() };
    let stack = Stack { layers: [udp4().layers, vec![]].concat(), ..Stack::new() };
    let mut layers = stack.layers;
    layers.insert(1, tag.into());
    layers.insert(2, mpls::Header { label: 1, tc: 3, bottom: true, ttl: 9 }.into());
    let mut spec = StreamSpec::fixed(Stack { layers, ..Stack::new() }, 80, Some(1));
    spec.rules = vec![
        Rule { field: "vlan.id".into(), values: Values::List(vec![7, 4095, 9]), advance: Advance::EachPacket },
        Rule {
            field: "mpls.label".into(),
            values: Values::Random { first: 100, step: 2, count: 50, seed: 3 },
            advance: Advance::EachPacket,
        },
    ];
    for (number, packet) in packets(&spec, 30).iter().enumerate() {
        let tci = u16::from_be_bytes([packet[14], packet[15]]);
        assert_eq!((tci >> 13, tci & 0xfff), (5, [7, 4095, 9][number % 3]));
        let entry = u32::from_be_bytes(packet[18..22].try_into().unwrap());
        assert!((100..200).contains(&(entry >> 12)) && (entry >> 12) % 2 == 0);
        assert_eq!(entry & 0xfff, 3 << 9 | 1 << 8 | 9);
        verify_checksums(packet).unwrap();
    }
}

#[test]
fn what_cannot_be_is_refused_with_the_numbers() {
    let refuse = |spec: &StreamSpec| spec.plan().unwrap_err().to_string();
    assert!(refuse(&StreamSpec::fixed(udp4(), 57, Some(1))).contains("at least 58"));
    assert!(StreamSpec::fixed(udp4(), 58, Some(1)).plan().is_ok());
    let with = |rule: Rule| StreamSpec { rules: vec![rule], ..StreamSpec::fixed(udp4(), 60, Some(1)) };
    assert!(refuse(&with(rule("ipv4.colour", 0, 1, Advance::EachPacket))).contains("it has source, destination"));
    assert!(refuse(&with(rule("ipv6.source", 0, 1, Advance::EachPacket))).contains("no such layer"));
    assert!(refuse(&with(rule("udp.source", 70_000, 1, Advance::EachPacket))).contains("at most 65535"));
    assert!(refuse(&with(rule("24+2", 0, 1, Advance::EachPacket))).contains("kept right"));
    assert!(refuse(&with(rule("50+4", 0, 1, Advance::EachPacket))).contains("signature"));
}

fn any_stack() -> impl Strategy<Value = Stack> {
    let v4 = any::<[u8; 8]>().prop_map(|a| ipv4::Header {
        src: Ipv4Addr::new(a[0], a[1], a[2], a[3]),
        dst: Ipv4Addr::new(a[4], a[5], a[6], a[7]),
        ttl: 9,
        ..ipv4::Header::default()
    });
    let v6 = any::<(u128, u128)>().prop_map(|(src, dst)| ipv6::Header {
        src: Ipv6Addr::from(src),
        dst: Ipv6Addr::from(dst),
        ..ipv6::Header::default()
    });
    let network =
        prop_oneof![v4.prop_map(|header| Stack::new().with(header)), v6.prop_map(|header| Stack::new().with(header))];
    (network, 0usize..3, 0usize..3, any::<bool>()).prop_map(|(network, transport, tags, checksum)| {
        let mut stack = Stack::new().with(ethernet::Header::default());
        for _ in 0..tags {
            stack = stack.with(vlan::Header::default());
        }
        let v6 = matches!(network.layers[0], linerate_wire::Layer::Ipv6(_));
        stack.layers.extend(network.layers);
        match (transport, v6) {
            (0, _) => stack = stack.with(tcp::Header::default()),
            (1, false) => stack = stack.with(icmpv4::Header::default()),
            _ => stack = stack.with(udp::Header::default()),
        }
        if checksum || v6 { stack } else { stack.udp_checksum(UdpChecksum::Absent) }
    })
}

proptest! {
    #[test]
    fn checksums_are_right_whatever_varies(
        stack in any_stack(),
        tunnel in prop_oneof![Just(0u8), Just(4), Just(6)],
        lens in proptest::collection::vec(0usize..120, 1..4),
        fields in proptest::collection::vec((0usize..9, any::<u64>(), 1u64..5, any::<bool>()), 0..6),
        signed in any::<bool>(),
    ) {
        let stack = match tunnel {
            0 => stack,
            outer => {
                let base = Stack::new().with(ethernet::Header::default());
                let base = if outer == 4 { base.with(ipv4::Header::default()) } else { base.with(ipv6::Header::default()) };
                let mut whole = base.with(udp::Header::default()).with(vxlan::Header { vni: 7 });
                whole.layers.extend(stack.layers.clone());
                whole.udp_checksum = if outer == 4 { stack.udp_checksum } else { UdpChecksum::Computed };
                whole
            }
        };
        let names = ["ethernet.source", "vlan.id", "ipv4.source", "ipv4.destination", "ipv6.source", "udp.source", "tcp.sequence",
            "ipv4#2.source", "udp#2.destination"];
        let headers = stack.headers_len();
        let lens: Vec<usize> = lens.iter().map(|extra| headers + 16 + extra).collect();
        let mut spec = StreamSpec {
            sizes: Sizes::Pattern((0..lens.len()).collect()),
            lens, rules: Vec::new(), signature: signed.then_some(3), stack,
        };
        for (name, value, count, each) in fields {
            let bits = match names[name] { "vlan.id" => 12, name if name.starts_with("udp") => 16, "ethernet.source" => 48, "ipv6.source" => 64, _ => 32 };
            let rule = Rule {
                field: names[name].into(),
                values: Values::Range { first: value >> (64 - bits), step: 0x0101, count },
                advance: if each { Advance::EachPacket } else { Advance::WhenPreviousWraps },
            };
            spec.rules.push(rule);
            if spec.plan().is_err() || spec.rules[..spec.rules.len() - 1].iter().any(|earlier| earlier.field == names[name]) {
                spec.rules.pop();
            }
        }
        for packet in packets(&spec, 30) {
            prop_assert!(verify_checksums(&packet).is_ok(), "{:?} {:02x?}", spec.rules, packet);
            prop_assert_eq!(Signature::read(&packet).is_some(), signed);
        }
    }
}
