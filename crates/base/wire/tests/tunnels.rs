//! GRE and Geneve: bytes by the RFCs, orders that can be, checksums inside of both.

use linerate_wire::{EtherType, LayerKind, Stack, ethernet, geneve, gre, ipv4, ipv6, mpls, tcp, udp, verify_checksums};

fn outer(protocol: impl Into<linerate_wire::Layer>) -> Stack {
    Stack::new().with(ethernet::Header::default()).with(ipv4::Header::default()).with(protocol)
}

#[test]
fn headers_are_those_of_the_rfcs() {
    let plain = outer(gre::Header::default()).with(ipv4::Header::default()).build(80).unwrap();
    assert_eq!((plain.bytes[23], &plain.bytes[34..38]), (47, &[0, 0, 0x08, 0x00][..]));
    let keyed = outer(gre::Header { key: Some(0x0102_0304), ..Default::default() }).with(ethernet::Header::default());
    assert_eq!(keyed.build(80).unwrap().bytes[34..42], [0x20, 0, 0x65, 0x58, 1, 2, 3, 4]);
    let udp = udp::Header { dst_port: geneve::PORT, ..Default::default() };
    let tunnel = geneve::Header { vni: 0x0a_0b0c, ..Default::default() };
    let built = outer(udp).with(tunnel).with(ipv6::Header::default()).with(tcp::Header::default()).build(120).unwrap();
    assert_eq!(built.bytes[42..50], [0, 0, 0x86, 0xdd, 0x0a, 0x0b, 0x0c, 0]);
    assert_eq!(built.bytes[40..42], [0, 0], "no checksum outside of Geneve over IPv4");
    let inner = built.layout.find(LayerKind::Ipv6).unwrap().offset;
    let frame = [&[0; 12][..], &[0x86, 0xdd], &built.bytes[inner..]].concat();
    assert_eq!(verify_checksums(&frame), Ok(()), "the checksum inside is right");
}

#[test]
fn optional_fields_are_passed_over() {
    // Checksum, key and sequence number.
    let bytes = [0xb0, 0, 0x65, 0x58, 9, 9, 9, 9, 0, 0, 0, 7, 8, 8, 8, 8, 1];
    let packet = gre::Packet::new_checked(bytes).unwrap();
    assert_eq!((packet.key(), packet.header_len(), packet.payload()), (Some(7), 16, &[1][..]));
    assert_eq!(packet.protocol(), EtherType::TRANSPARENT_ETHERNET);
    for refused in [&bytes[..3], &bytes[..15], &[0, 1, 0, 0], &[0x40, 0, 0, 0]] {
        assert!(gre::Packet::new_checked(refused).is_err(), "{refused:?}");
    }
    let options = [2, 0, 0x08, 0, 0, 0, 5, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3];
    let packet = geneve::Packet::new_checked(options).unwrap();
    assert_eq!((packet.vni(), packet.payload()), (5, &[3][..]));
    for refused in [&options[..7], &options[..15], &[0x40, 0, 0, 0, 0, 0, 0, 0]] {
        assert!(geneve::Packet::new_checked(refused).is_err(), "{refused:?}");
    }
}

#[test]
fn orders_that_cannot_be_are_refused() {
    let gre = gre::Header::default();
    assert!(outer(gre).build(80).is_err(), "a tunnel carries something");
    assert!(outer(gre).with(udp::Header::default()).build(80).is_err());
    assert!(outer(gre).with(mpls::Header::default()).with(ipv4::Header::default()).build(80).is_ok());
    assert!(outer(geneve::Header::default()).with(ipv4::Header::default()).build(80).is_err(), "Geneve is over UDP");
    let large = geneve::Header { vni: 1 << 24, ..Default::default() };
    assert!(outer(udp::Header::default()).with(large).with(ipv4::Header::default()).build(80).is_err());
}
