//! Keys and matches of packets that are written down by hand.

use linerate_classify::{Key, Rule};
use linerate_openflow::{Field, Match};
use linerate_pipeline::packet::{Headers, PipelineFields, compile_match, fields_of};
use linerate_wire::{Stack, ethernet, ipv4, tcp, vlan};

fn tcp_packet(tag: Option<u16>) -> Vec<u8> {
    let mut stack =
        Stack::new().with(ethernet::Header { dst: [0x22; 6].into(), src: [0x12; 6].into(), ..Default::default() });
    if let Some(vid) = tag {
        stack = stack.with(vlan::Header { vid, pcp: 5, ..Default::default() });
    }
    let addresses =
        ipv4::Header { src: [192, 0, 2, 1].into(), dst: [192, 0, 2, 2].into(), tos: 0xb9, ..Default::default() };
    stack
        .with(addresses)
        .with(tcp::Header { src_port: 1000, dst_port: 80, ..Default::default() })
        .build(64)
        .unwrap()
        .bytes
}

fn key(packet: &[u8]) -> Key {
    let fields = PipelineFields { in_port: 3, in_phy_port: 3, metadata: 7, tunnel_id: 9 };
    Headers::parse(packet).key(packet, &fields)
}

fn matches(wanted: &Match, packet: &[u8]) -> bool {
    let (value, mask) = compile_match(wanted);
    Rule { value, mask, priority: 0, id: 0 }.matches(&key(packet))
}

#[test]
fn a_packet_has_the_fields_of_its_headers_and_no_others() {
    let found: Vec<_> =
        fields_of(&key(&tcp_packet(Some(100)))).iter().map(|found| (found.field, found.value)).collect();
    let wanted = [
        (Field::InPort, 3),
        (Field::InPhyPort, 3),
        (Field::Metadata, 7),
        (Field::EthDst, 0x2222_2222_2222),
        (Field::EthSrc, 0x1212_1212_1212),
        (Field::EthType, 0x800),
        (Field::VlanVid, 0x1064),
        (Field::VlanPcp, 5),
        (Field::IpDscp, 46),
        (Field::IpEcn, 1),
        (Field::IpProto, 6),
        (Field::Ipv4Src, 0xc000_0201),
        (Field::Ipv4Dst, 0xc000_0202),
        (Field::TcpSrc, 1000),
        (Field::TcpDst, 80),
        (Field::TunnelId, 9),
    ];
    assert_eq!(found, wanted);
}

#[test]
fn vlan_ids_match_none_any_one_and_under_masks() {
    let (untagged, tagged, zero) = (tcp_packet(None), tcp_packet(Some(100)), tcp_packet(Some(0)));
    let none = Match::default().with(Field::VlanVid, 0);
    let any = Match::default().with_masked(Field::VlanVid, 0x1000, 0x1000);
    let one = Match::default().with(Field::VlanVid, 0x1064);
    let some_bits = Match::default().with_masked(Field::VlanVid, 0x60, 0xf0);
    let priority = Match::default().with(Field::VlanPcp, 5);
    let by = |wanted: &Match| [&untagged, &tagged, &zero].map(|packet| matches(wanted, packet));
    assert_eq!(by(&none), [true, false, false]);
    assert_eq!(by(&any), [false, true, true]);
    assert_eq!(by(&one), [false, true, false]);
    assert_eq!(by(&some_bits), [false, true, false]);
    assert_eq!(by(&priority), [false, true, true]);
    assert_eq!(by(&Match::default().with(Field::VlanPcp, 0)), [false; 3], "an absent priority is not 0");
    assert_eq!(by(&Match::default().with_masked(Field::VlanVid, 0, 0)), [true; 3], "an empty mask compares nothing");
}

#[test]
fn a_truncated_header_has_no_fields() {
    let packet = tcp_packet(None);
    let wanted = Match::default().with(Field::EthType, 0x800).with(Field::TcpDst, 80);
    assert!(matches(&wanted, &packet));
    assert!(!matches(&wanted, &packet[..53]), "TCP's header is cut");
    let zero = Match::default().with(Field::EthType, 0x800).with_masked(Field::Ipv4Src, 0, 0x8000_0000);
    assert!(!matches(&zero, &packet[..33]), "IP's header is cut, and an absent address is not 0.0.0.0");
    assert!(matches(&Match::default().with(Field::EthType, 0x800), &packet[..14]));
    assert!(Headers::parse(&packet[..13]).is_runt() && Headers::parse(&packet[..53]).is_truncated());
    assert!(!Headers::parse(&packet).is_truncated());
}
