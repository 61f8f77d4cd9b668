//! Nothing panics on any bytes, and no accessor panics after `new_checked`, whatever setters wrote.

use super::common;

use linerate_wire::*;
use proptest::prelude::*;

/// Reads all that the crate reads of received frames.
fn read_frame(frame: &[u8]) {
    let _ = verify_checksums(frame);
    let _ = (Summary(frame).to_string(), Hexdump(frame).to_string());
    if let Some(key) = FlowKey::from_frame(frame) {
        assert_eq!(key.hash_symmetric(), key.reversed().hash_symmetric());
        let _ = key.to_string();
    }
    let _ = FlowKey::innermost(frame);
    let Ok(parsed) = Parsed::parse(frame) else {
        return;
    };
    assert!(parsed.l3_offset <= frame.len());
    if let Some(ip) = parsed.ip {
        assert!(ip.offset <= ip.payload_offset && ip.end <= frame.len(), "{ip:?}");
        if let Some(transport) = ip.transport {
            assert!(ip.payload_offset == transport.offset, "{transport:?}");
            assert!(transport.offset < transport.payload_offset, "{transport:?}");
            assert!(transport.payload_offset <= transport.end && transport.end <= ip.end, "{transport:?}");
        }
    }
    let _ = parsed.inner(frame);
}

/// Takes a view of the bytes if it can, reads, writes what it is told, and reads again.
macro_rules! exercise {
    ($bytes:expr, $module:ident, $constructor:ident, |$packet:ident| $read:block, $write:block) => {
        if let Ok(mut $packet) = $module::Packet::$constructor($bytes.to_vec()) {
            let header = $packet.header();
            $read
            $write
            $read
            let _ = $packet.payload().len();
            // What parses can be written again; a second reading sees the same.
            let mut again = $bytes.to_vec();
            header.emit(&mut again);
            assert_eq!($module::Packet::new_truncated_or_checked(&again), header);
        }
    };
}

/// One name for the laxest constructor of each protocol.
trait Lax<'a, H> {
    fn new_truncated_or_checked(bytes: &'a [u8]) -> H;
}

macro_rules! lax {
    ($($module:ident $constructor:ident),*) => {
        $(impl<'a> Lax<'a, $module::Header> for $module::Packet<&'a [u8]> {
            fn new_truncated_or_checked(bytes: &'a [u8]) -> $module::Header {
                $module::Packet::$constructor(bytes).expect("what was emitted parses").header()
            }
        })*
    };
}

lax!(ethernet new_checked, vlan new_checked, mpls new_checked, arp new_checked, ipv4 new_truncated,
    ipv6 new_truncated, udp new_truncated, tcp new_checked, icmpv4 new_checked, icmpv6 new_checked,
    vxlan new_checked);

fn exercise_link(bytes: &[u8], value: u32) {
    exercise!(
        bytes,
        ethernet,
        new_checked,
        |p| {
            let _ = (p.dst(), p.src(), p.payload().len());
        },
        {
            p.set_dst(MacAddress::from_u64(value.into()));
            p.set_ethertype(EtherType(value as u16));
        }
    );
    exercise!(
        bytes,
        vlan,
        new_checked,
        |p| {
            let _ = (p.pcp(), p.dei(), p.vid());
        },
        {
            let tci = value as u16;
            p.set_tci(tci);
            assert_eq!((p.vid(), p.pcp(), p.dei()), (tci & 0xfff, (tci >> 13) as u8, tci & 0x1000 != 0));
        }
    );
    exercise!(
        bytes,
        mpls,
        new_checked,
        |p| {
            let _ = (p.label(), p.tc(), p.bottom(), p.ttl());
        },
        {
            p.set_entry(value);
            assert_eq!((p.label(), p.tc(), p.ttl()), (value >> 12, (value >> 9) as u8 & 7, value as u8));
        }
    );
    exercise!(
        bytes,
        arp,
        new_checked,
        |p| {
            let _ = (p.operation(), p.target_mac());
        },
        {
            p.set_operation(value as u16);
        }
    );
    exercise!(
        bytes,
        vxlan,
        new_checked,
        |p| {
            let _ = p.vni();
        },
        {
            p.set_vni(value);
            assert_eq!(p.vni(), value & 0xff_ffff);
        }
    );
}

fn exercise_ip(bytes: &[u8], value: u32) {
    let (half, byte) = (value as u16, value as u8);
    exercise!(
        bytes,
        ipv4,
        new_truncated,
        |p| {
            let _ = (p.options().len(), p.payload().len(), p.verify_checksum(), p.pseudo_sum(half));
        },
        {
            p.set_total_len(half);
            p.set_identification(half);
            p.set_fragment(value & 1 != 0, value & 2 != 0, half);
            assert_eq!((p.dont_fragment(), p.more_fragments()), (value & 1 != 0, value & 2 != 0));
            assert_eq!(p.fragment_offset(), half & 0x1fff);
            p.set_protocol(Protocol(byte));
            p.set_tos(byte);
            p.set_ttl(byte);
            p.set_src(value.into());
            p.set_dst(value.into());
            p.fill_checksum();
            assert!(p.verify_checksum());
        }
    );
    exercise!(
        bytes,
        ipv6,
        new_truncated,
        |p| {
            let _ = (p.payload().len(), p.upper_layer(), p.src(), p.dst());
        },
        {
            p.set_payload_len(half);
            p.set_traffic_class(byte);
            p.set_next_header(Protocol(byte));
            assert_eq!((p.version(), p.traffic_class()), (6, byte));
        }
    );
}

fn exercise_transport(bytes: &[u8], value: u32) {
    let (half, byte, pseudo) = (value as u16, value as u8, Sum::new().add_u16(1));
    exercise!(
        bytes,
        udp,
        new_truncated,
        |p| {
            let _ = (p.payload().len(), p.verify_checksum(pseudo));
        },
        {
            p.set_length(half);
            p.set_src_port(half);
            p.set_dst_port(half);
            p.set_length(8);
            p.fill_checksum(pseudo);
            assert!(p.verify_checksum(pseudo) && p.checksum() != 0);
        }
    );
    exercise!(
        bytes,
        tcp,
        new_checked,
        |p| {
            let _ = (p.options().len(), p.payload().len(), p.flags().to_string());
        },
        {
            p.set_sequence(value);
            p.set_acknowledgment(value);
            p.set_flags(tcp::Flags(byte));
            p.set_window(half);
            p.set_urgent(half);
            p.fill_checksum(pseudo);
            assert!(p.verify_checksum(pseudo));
        }
    );
    exercise!(
        bytes,
        icmpv4,
        new_checked,
        |p| {
            let _ = (p.is_echo(), p.payload().len());
        },
        {
            p.set_kind(8);
            p.set_code(byte);
            p.set_identifier(half);
            p.set_sequence(half);
            p.fill_checksum();
            assert!(p.verify_checksum());
        }
    );
    exercise!(
        bytes,
        icmpv6,
        new_checked,
        |p| {
            let _ = (p.is_echo(), p.payload().len());
        },
        {
            p.set_kind(byte);
            p.fill_checksum(pseudo);
            assert!(p.verify_checksum(pseudo));
        }
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn arbitrary_bytes(bytes in prop::collection::vec(any::<u8>(), 0..120), value in any::<u32>()) {
        read_frame(&bytes);
        exercise_link(&bytes, value);
        exercise_ip(&bytes, value);
        exercise_transport(&bytes, value);
    }

    #[test]
    fn headers_of_the_right_version(mut bytes in prop::collection::vec(any::<u8>(), 20..120), value in any::<u32>()) {
        let low = bytes[0] & 0xf;
        for version in [0x40, 0x60] {
            bytes[0] = version | low;
            exercise_ip(&bytes, value);
        }
        // A length field that is not hopeless.
        (bytes[4], bytes[5]) = (0, value as u8);
        exercise_transport(&bytes, value);
        (bytes[12], bytes[0]) = (0x50 | bytes[12], 0x08);
        exercise_transport(&bytes, value);
        exercise_link(&bytes, value);
    }

    #[test]
    fn damaged_frames(
        (stack, frame_len) in common::stack_and_len(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<prop::sample::Index>(),
        is_cut in any::<bool>(),
    ) {
        let mut bytes = stack.build(frame_len).unwrap().bytes;
        let headers_len = stack.headers_len();
        for (at, value) in damage {
            bytes[at.index(headers_len)] = value;
        }
        if is_cut {
            bytes.truncate(cut.index(headers_len + 20));
        }
        read_frame(&bytes);
    }

    #[test]
    fn extension_headers(
        kinds in prop::collection::vec(prop::sample::select(vec![0u8, 43, 44, 51, 60, 17, 6, 59]), 1..8),
        body in prop::collection::vec(0u8..4, 0..200),
    ) {
        let next_header = Protocol(kinds[0]);
        let header = ipv6::Header { next_header, ..Default::default() };
        let stack = Stack::new().with(ethernet::Header::default()).with(header).fill(Fill::Repeat(body.clone()));
        let mut frame = stack.build(54 + body.len()).unwrap().bytes;
        for (index, kind) in kinds.iter().enumerate() {
            if let Some(byte) = frame.get_mut(54 + index * 8) {
                *byte = *kind;
            }
        }
        read_frame(&frame);
    }
}

#[test]
fn truncated_says_how_much_is_missing() {
    let stack =
        Stack::new().with(ethernet::Header::default()).with(ipv4::Header::default()).with(udp::Header::default());
    let bytes = stack.build(100).unwrap().bytes;
    let error = ipv4::Packet::new_checked(&bytes[14..50]).unwrap_err();
    assert_eq!(error, ParseError::Truncated { layer: LayerKind::Ipv4, need: 86, have: 36 });
    let parsed = Parsed::parse(&bytes[..50]).unwrap();
    assert!(parsed.ip.unwrap().is_truncated);
    let error = verify_checksums(&bytes[..50]).unwrap_err();
    assert_eq!(error, ChecksumError::Truncated { kind: LayerKind::Udp });
}

#[test]
fn fragments_share_a_key_without_ports() {
    let fragment = |more_fragments, fragment_offset| {
        let ip = ipv4::Header { more_fragments, fragment_offset, ..Default::default() };
        let stack = Stack::new().with(ethernet::Header::default()).with(ip);
        stack.with(udp::Header { src_port: 5, ..Default::default() }).build(60).unwrap().bytes
    };
    let first = FlowKey::from_frame(&fragment(true, 0)).unwrap();
    assert_eq!(first.src_port, 0);
    assert_eq!(Some(first), FlowKey::from_frame(&fragment(false, 10)));
}

#[test]
fn extension_headers_are_passed() {
    // Hop-by-hop, then an atomic fragment header (RFC 6946), then UDP.
    let header = ipv6::Header { next_header: Protocol::HOP_BY_HOP, ..Default::default() };
    let stack = Stack::new().with(ethernet::Header::default()).with(header);
    let mut frame = stack.build(54 + 8 + 8 + 12).unwrap().bytes;
    frame[54] = 44;
    (frame[62], frame[65]) = (17, 0x06); // with reserved bits set
    let pseudo = Sum::pseudo_ipv6(header.src, header.dst, 17, 12);
    udp::Header { src_port: 1, dst_port: 2, length: 12, checksum: 0 }.emit(&mut frame[70..]);
    udp::Packet::new_unchecked(&mut frame[70..]).fill_checksum(pseudo);
    let ip = Parsed::parse(&frame).unwrap().ip.unwrap();
    assert_eq!((ip.payload_offset, ip.protocol, ip.is_fragment), (70, Protocol::UDP, false));
    assert_eq!(verify_checksums(&frame), Ok(()));
    frame[81] ^= 1;
    assert!(verify_checksums(&frame).is_err());
    // Now a true first fragment: no transport.
    frame[65] = 1;
    let ip = Parsed::parse(&frame).unwrap().ip.unwrap();
    assert!(ip.is_fragment && ip.transport.is_none());
}

#[test]
fn a_checksum_behind_an_open_source_route_is_not_judged() {
    // A routing header with a segment left: the pseudo-header has another destination.
    let header = ipv6::Header { next_header: Protocol::ROUTING, ..Default::default() };
    let stack = Stack::new().with(ethernet::Header::default()).with(header);
    let mut frame = stack.build(54 + 8 + 8).unwrap().bytes;
    frame[54] = 17;
    udp::Header { src_port: 1, dst_port: 2, length: 8, checksum: 0x1234 }.emit(&mut frame[62..]);
    assert!(verify_checksums(&frame).is_err());
    frame[57] = 1;
    assert!(Parsed::parse(&frame).unwrap().ip.unwrap().is_routed);
    assert_eq!(verify_checksums(&frame), Ok(()));
}
