//! Packets in and out: what is refused and why, echoes, errors, fragments, path MTU, routers.

use super::support;

use std::net::SocketAddr;

use linerate_ip::{DropReason, ErrorKind, ErrorOut, Event, Inbound, IpConfig, Original, Redirects};
use linerate_mem::Checksum;
use linerate_wire::{EtherType, Parsed, Protocol, Sum, ethernet, icmpv4, icmpv6, ipv4, ipv6, tcp, udp};
use support::*;

#[test]
fn what_is_not_in_order_is_dropped_by_reason() {
    let mut a = Host::quiet(config(1, NET));
    let good = || frame4(2, 1, header4(), datagram, 60);
    let good6 = || frame6(2, 1, header6(), datagram, 80);
    let from = |src: &str| frame4(2, 1, ipv4::Header { src: v4(src), ..header4() }, datagram, 60);
    let to = |dst: &str| frame4(2, 1, ipv4::Header { dst: v4(dst), ..header4() }, datagram, 60);
    let from6 = |src: &str| frame6(2, 1, ipv6::Header { src: v6(src), ..header6() }, datagram, 80);
    let to6 = |dst: &str| frame6(2, 1, ipv6::Header { dst: v6(dst), ..header6() }, datagram, 80);
    let cases: Vec<(&str, Vec<u8>, DropReason)> = vec![
        ("short", good()[..13].to_vec(), DropReason::Truncated),
        ("cut", good()[..40].to_vec(), DropReason::Truncated),
        ("other MAC", frame4(2, 9, header4(), datagram, 60), DropReason::OtherMac),
        ("own MAC", frame4(1, 1, header4(), datagram, 60), DropReason::SourceMac),
        ("group MAC", changed(good(), |frame| frame[6] |= 1), DropReason::SourceMac),
        ("tag", changed(good(), |frame| frame[12..16].copy_from_slice(&[0x81, 0, 0, 5])), DropReason::Vlan),
        ("EtherType", changed(good(), |frame| frame[12] = 0x99), DropReason::EtherType),
        ("version", changed4(good(), |ip| ip[0] = 0x55), DropReason::Malformed),
        ("IHL", changed4(good(), |ip| ip[0] = 0x44), DropReason::Malformed),
        ("checksum", changed(good(), |frame| frame[24] ^= 1), DropReason::HeaderChecksum),
        ("UDP checksum", changed(good(), |frame| frame[59] ^= 1), DropReason::TransportChecksum),
        ("UDP length", changed(good(), |frame| frame[38..40].copy_from_slice(&[0, 7])), DropReason::Malformed),
        ("UDP too long", changed(good(), |frame| frame[38..40].copy_from_slice(&[0, 99])), DropReason::Truncated),
        ("protocol", changed4(good(), |ip| ip[9] = 200), DropReason::Protocol),
        ("source 0", from("0.0.0.0"), DropReason::SourceAddress),
        ("source group", from("224.0.0.5"), DropReason::SourceAddress),
        ("source broadcast", from("10.0.0.255"), DropReason::SourceAddress),
        ("source loopback", from("127.0.0.1"), DropReason::SourceAddress),
        ("our own source", from("10.0.0.1"), DropReason::SourceAddress),
        ("destination", to("10.0.0.7"), DropReason::OtherAddress),
        ("destination group", to("224.0.0.5"), DropReason::OtherAddress),
        ("unicast in broadcast", changed(good(), |frame| frame[..6].fill(255)), DropReason::LinkBroadcast),
        ("checksum 6", changed(good6(), |frame| frame[79] ^= 1), DropReason::TransportChecksum),
        ("no checksum 6", changed(good6(), |frame| frame[60..62].fill(0)), DropReason::TransportChecksum),
        ("source group 6", from6("ff02::1"), DropReason::SourceAddress),
        ("source loopback 6", from6("::1"), DropReason::SourceAddress),
        ("our own source 6", from6("fd00::1"), DropReason::SourceAddress),
        ("destination 6", to6("fd00::7"), DropReason::OtherAddress),
        ("destination group 6", to6("ff02::5"), DropReason::OtherAddress),
        ("next header 6", changed(good6(), |frame| frame[20] = 200), DropReason::Protocol),
        ("no next header 6", changed(good6(), |frame| frame[20] = 59), DropReason::Protocol),
        ("cut 6", good6()[..70].to_vec(), DropReason::Truncated),
        (
            "TCP for a group",
            frame4(2, 1, ipv4::Header { dst: v4("224.0.0.1"), ..header4() }, segment, 60),
            DropReason::OtherAddress,
        ),
    ];
    for (name, frame, reason) in cases {
        // The fast path leaves the transport's checks, and a second host with our MAC address, to others.
        let is_left = reason == DropReason::TransportChecksum || name.starts_with("UDP") || name == "own MAC";
        assert!(a.ip.fast4(&frame, Checksum::Unknown).is_none() || is_left, "{name}");
        let before = a.ip.counters().dropped_by(reason);
        assert_eq!(a.receive(&frame), Inbound::Dropped(reason), "{name}");
        assert_eq!(a.ip.counters().dropped_by(reason), before + 1, "{name}");
        a.pool.free(&mut a.out);
    }
    assert!(matches!(a.receive(&good()), Inbound::Udp(_)) && matches!(a.receive(&good6()), Inbound::Udp(_)));
    // A datagram over IPv4 may have no checksum (RFC 768), and the flag of a trusted port is believed.
    assert!(matches!(a.receive(&changed(good(), |frame| frame[40..42].fill(0))), Inbound::Udp(_)));
    let wrong = changed(good(), |frame| frame[59] ^= 1);
    let inbound = a.ip.receive(&wrong, Checksum::Verified, 0, &mut a.out, &mut a.pool);
    assert!(matches!(inbound, Inbound::Udp(_)));
}

#[test]
fn datagrams_of_the_fast_path_that_are_not_in_order_are_counted() {
    let mut a = Host::quiet(config(1, NET));
    a.bind("0.0.0.0:7");
    let good = frame4(2, 1, header4(), datagram, 60);
    assert!(a.take(&good).is_some());
    for (count, length) in [[0, 7], [0, 99], [0, 0]].into_iter().enumerate() {
        let wrong = changed(good.clone(), |frame| frame[38..40].copy_from_slice(&length));
        assert!(a.take(&wrong).is_none());
        assert_eq!(a.udp.counters().malformed, count as u64 + 1, "{length:?}");
    }
    assert!(a.take(&changed(good.clone(), |frame| frame[59] ^= 1)).is_none());
    let counters = *a.udp.counters();
    assert_eq!((counters.delivered, counters.malformed), (1, 4), "{counters:?}");
}

#[test]
fn source_routes_and_malformed_options_are_refused() {
    let mut a = Host::quiet(config(1, NET));
    let with = |options: &[u8]| {
        let options = linerate_wire::Options::new(linerate_wire::LayerKind::Ipv4, options).unwrap();
        frame4(2, 1, ipv4::Header { options, ..header4() }, datagram, 80)
    };
    assert!(matches!(a.receive(&with(&[7, 7, 4, 0, 0, 0, 0, 0])), Inbound::Udp(_)), "record route is left unread");
    assert_eq!(a.receive(&with(&[131, 7, 4, 10, 0, 0, 9, 0])), Inbound::Dropped(DropReason::SourceRoute));
    assert_eq!(a.receive(&with(&[1, 1, 137, 7, 4, 10, 0, 0, 9])), Inbound::Dropped(DropReason::SourceRoute));
    for options in [&[7, 1, 0, 0][..], &[7, 0, 0, 0], &[7, 99, 0, 0], &[1, 1, 1, 7]] {
        assert_eq!(a.receive(&with(options)), Inbound::Dropped(DropReason::Option), "{options:?}");
    }
}

fn echo4(src: &str, dst: &str, len: usize) -> Vec<u8> {
    let header = ipv4::Header { src: v4(src), dst: v4(dst), ..Default::default() };
    let echo = icmpv4::Header { identifier: 5, sequence: 6, ..Default::default() };
    frame4(2, 1, header, |stack| stack.with(echo), len)
}

fn echo6(src: &str, dst: &str, len: usize) -> Vec<u8> {
    let header = ipv6::Header { src: v6(src), dst: v6(dst), ..Default::default() };
    let echo = icmpv6::Header { identifier: 5, sequence: 6, ..Default::default() };
    frame6(2, 1, header, |stack| stack.with(echo), len)
}

/// Two hosts that know each other.
fn acquainted(a: IpConfig, b: IpConfig) -> [Host; 2] {
    let (mut a, mut b) = (Host::quiet(a), Host::quiet(b));
    for dst in ["10.0.0.2", "fd00::2"] {
        a.hop(dst).unwrap();
        exchange(&mut a, &mut b);
    }
    [a, b]
}

fn pair() -> [Host; 2] {
    acquainted(config(1, NET), config(2, &["10.0.0.2/24", "fd00::2/64"]))
}

#[test]
fn echoes_are_answered_with_their_data() {
    let [mut a, _] = pair();
    for frame in
        [echo4("10.0.0.2", "10.0.0.1", 100), echo6("fd00::2", "fd00::1", 100), echo6("fd00::2", "ff02::1", 100)]
    {
        assert_eq!(a.receive(&frame), Inbound::Handled);
        let replies = a.sent();
        let (sent, got) = (Parsed::parse(&frame).unwrap(), Parsed::parse(&replies[0]).unwrap());
        let data = |frame: &[u8], parsed: &Parsed| frame[parsed.ip.unwrap().transport.unwrap().offset + 4..].to_vec();
        assert_eq!(data(&frame, &sent), data(&replies[0], &got), "identifier, sequence and data come back");
    }
    // Not to a broadcast (RFC 1122 section 3.2.2.6), and not with a wrong checksum.
    assert_eq!(a.receive(&echo4("10.0.0.2", "10.0.0.255", 100)), Inbound::Dropped(DropReason::Icmp));
    let wrong = changed(echo4("10.0.0.2", "10.0.0.1", 100), |frame| frame[60] ^= 1);
    assert_eq!(a.receive(&wrong), Inbound::Dropped(DropReason::TransportChecksum));
    assert_eq!(a.sent().len(), 0);
}

#[test]
fn long_datagrams_travel_in_fragments_in_any_order() {
    for (to, local) in [("10.0.0.2:7", "0.0.0.0:7"), ("[fd00::2]:7", "[::]:7")] {
        let [mut a, mut b] = pair();
        let server = b.bind(local);
        let client = a.bind(&local.replace(":7", ":9"));
        for len in [1472, 1473, 4000, 65_000] {
            let data: Vec<u8> = (0..len).map(|at| ((at * 7) >> 3) as u8).collect();
            a.send(client, to, &data).unwrap();
            let mut frames: Vec<Vec<u8>> = a.out.iter().map(<[u8]>::to_vec).collect();
            a.pool.free(&mut a.out);
            let mtu_max = frames.iter().map(|frame| frame.len() - 14).max().unwrap();
            assert!(
                mtu_max <= 1500 && (frames.len() == 1) == (len < 1473 && to.starts_with("10")),
                "{} frames",
                frames.len()
            );
            frames.reverse();
            let got: Vec<_> = frames.iter().filter_map(|frame| b.take(frame)).collect();
            assert_eq!(got.len(), 1, "{to} {len}");
            assert_eq!((got[0].0.socket, got[0].1 == data), (server, true));
            assert_eq!(b.ip.fragments().0, 0);
        }
        assert!(a.send(client, to, &vec![0; 65_536]).is_err());
    }
}

#[test]
fn an_echo_in_fragments_is_answered_in_fragments() {
    let [mut a, _] = pair();
    let whole = echo4("10.0.0.2", "10.0.0.1", 4000);
    let data = &whole[34..];
    for (index, piece) in data.chunks(1480).enumerate() {
        let at = index * 1480;
        let header = ipv4::Header {
            total_len: 20 + piece.len() as u16,
            identification: 77,
            more_fragments: at + piece.len() < data.len(),
            fragment_offset: (at / 8) as u16,
            protocol: Protocol::ICMPV4,
            ..header4()
        };
        let mut frame = whole[..34].to_vec();
        header.emit(&mut frame[14..]);
        frame.extend_from_slice(piece);
        assert_eq!(a.receive(&frame), Inbound::Handled);
    }
    assert_eq!(a.sent().len(), 3);
}

#[test]
fn the_first_fragment_of_a_packet_that_is_not_completed_is_told_of() {
    for is_v4 in [true, false] {
        let [mut a, mut b] = pair();
        let client = b.bind(if is_v4 { "0.0.0.0:9" } else { "[::]:9" });
        b.send(client, if is_v4 { "10.0.0.1:7" } else { "[fd00::1]:7" }, &[1; 3000]).unwrap();
        let frames: Vec<Vec<u8>> = b.out.iter().map(<[u8]>::to_vec).collect();
        b.pool.free(&mut b.out);
        assert_eq!(a.receive(&frames[0]), Inbound::Handled);
        let until = a.now_ns + 59 * SECOND;
        a.run_until(until);
        let is_error = |frame: &Vec<u8>| {
            let at = if is_v4 { 34 } else { 54 };
            let ethertype = ethernet::Packet::new_checked(&frame[..]).unwrap().ethertype();
            ethertype != EtherType::ARP && frame.len() > 200 && [[11, 1], [3, 1]].contains(&[frame[at], frame[at + 1]])
        };
        assert_eq!(a.sent().iter().filter(|frame| is_error(frame)).count(), 0);
        a.run_until(until + 2 * SECOND);
        let mut errors: Vec<Vec<u8>> = a.sent();
        // The neighbour may have been forgotten meanwhile, and is asked for.
        exchange(&mut a, &mut b);
        errors.retain(is_error);
        let counters = a.ip.counters();
        assert!(errors.len() == 1 || counters.parked_sent == 1, "{} errors, {counters:?}", errors.len());
        assert_eq!(a.ip.fragments().1.late, 1);
    }
}

#[test]
fn errors_are_sent_about_what_may_be_told_of_only() {
    let [mut a, _] = pair();
    let plain = frame4(2, 1, header4(), datagram, 200);
    let plain6 = frame6(2, 1, header6(), datagram, 200);
    let sent = |a: &mut Host, packet: &[u8]| {
        a.now_ns += SECOND;
        a.ip.send_error(ErrorOut::PortUnreachable, packet, a.now_ns, &mut a.out, &mut a.pool);
        a.sent().len()
    };
    assert_eq!((sent(&mut a, &plain[14..]), sent(&mut a, &plain6[14..])), (1, 1));
    let about = |change: &dyn Fn(&mut ipv4::Header)| {
        let mut header = header4();
        change(&mut header);
        let mut frame = plain.clone();
        header.total_len = 186;
        header.protocol = Protocol::UDP;
        header.emit(&mut frame[14..]);
        frame[14..].to_vec()
    };
    assert_eq!(sent(&mut a, &about(&|_| {})), 1);
    for (name, packet) in [
        ("broadcast", about(&|header| header.dst = v4("10.0.0.255"))),
        ("group", about(&|header| header.dst = v4("224.0.0.1"))),
        ("later fragment", about(&|header| header.fragment_offset = 3)),
        ("no host", about(&|header| header.src = v4("0.0.0.0"))),
        ("group source", about(&|header| header.src = v4("224.0.0.1"))),
    ] {
        assert_eq!(sent(&mut a, &packet), 0, "{name}");
    }
    // No error about an error.
    let unreachable = icmpv4::Header { kind: 3, code: 3, ..Default::default() };
    let error = frame4(2, 1, header4(), |stack| stack.with(unreachable), 100);
    assert_eq!(sent(&mut a, &error[14..]), 0);
    let unreachable = icmpv6::Header { kind: 1, code: 4, ..Default::default() };
    let error = frame6(2, 1, header6(), |stack| stack.with(unreachable), 100);
    assert_eq!(sent(&mut a, &error[14..]), 0);
    let group = frame6(2, 1, ipv6::Header { dst: v6("ff02::1"), ..header6() }, datagram, 200);
    assert_eq!(sent(&mut a, &group[14..]), 0);
    // Many at once are held back.
    for _ in 0..100 {
        a.ip.send_error(ErrorOut::PortUnreachable, &plain[14..], a.now_ns, &mut a.out, &mut a.pool);
    }
    assert!((1..10).contains(&a.sent().len()) && a.ip.counters().errors_limited > 80);
}

/// An error of `from` about `quoted`, an IP packet.
fn error4(kind: u8, code: u8, word: [u16; 2], quoted: &[u8]) -> Vec<u8> {
    let header = icmpv4::Header { kind, code, identifier: word[0], sequence: word[1], ..Default::default() };
    let ip = ipv4::Header { src: v4("10.0.0.254"), ..header4() };
    let mut frame = frame4(2, 1, ip, |stack| stack.with(header), 42 + quoted.len());
    frame[42..].copy_from_slice(quoted);
    icmpv4::Packet::new_checked(&mut frame[34..]).unwrap().fill_checksum();
    frame
}

fn error6(kind: u8, code: u8, word: u32, quoted: &[u8]) -> Vec<u8> {
    let header =
        icmpv6::Header { kind, code, identifier: (word >> 16) as u16, sequence: word as u16, ..Default::default() };
    let ip = ipv6::Header { src: v6("fd00::254"), ..header6() };
    let mut frame = frame6(2, 1, ip, |stack| stack.with(header), 62 + quoted.len());
    frame[62..].copy_from_slice(quoted);
    let pseudo = Sum::pseudo_ipv6(ip.src, ip.dst, 58, (frame.len() - 54) as u32);
    icmpv6::Packet::new_checked(&mut frame[54..]).unwrap().fill_checksum(pseudo);
    frame
}

#[test]
fn errors_are_handed_up_with_the_packet_that_they_quote() {
    let mut a = Host::quiet(config(1, NET));
    let out4 = ipv4::Header { src: v4("10.0.0.1"), dst: v4("192.0.2.9"), ..Default::default() };
    let tcp = tcp::Header { src_port: 4000, dst_port: 80, sequence: 0x1234_5678, ..Default::default() };
    let quoted = &frame4(1, 2, out4, |stack| stack.with(tcp), 1514)[14..42].to_vec();
    let sockets = |local: &str, remote: &str| -> [SocketAddr; 2] { [local.parse().unwrap(), remote.parse().unwrap()] };
    let [local, remote] = sockets("10.0.0.1:4000", "192.0.2.9:80");
    let original = Original { protocol: Protocol::TCP, local, remote, sequence: Some(0x1234_5678) };
    for (kind, code, word, expected) in [
        (3, 1, [0, 0], ErrorKind::Unreachable { code: 1 }),
        (3, 3, [0, 0], ErrorKind::PortUnreachable),
        (3, 2, [0, 0], ErrorKind::PortUnreachable),
        (3, 13, [0, 0], ErrorKind::Prohibited),
        (3, 4, [0, 1400], ErrorKind::PacketTooBig { mtu: 1400 }),
        (3, 4, [0, 0], ErrorKind::PacketTooBig { mtu: 1492 }),
        (11, 0, [0, 0], ErrorKind::TimeExceeded),
        (12, 0, [0, 0], ErrorKind::ParameterProblem),
    ] {
        let Inbound::Error(error) = a.receive(&error4(kind, code, word, quoted)) else { panic!("{kind} {code}") };
        assert_eq!((error.kind, error.from, error.original), (expected, ip("10.0.0.254"), original));
    }
    let dropped = |a: &mut Host, frame: Vec<u8>, reason| assert_eq!(a.receive(&frame), Inbound::Dropped(reason));
    // A packet that we cannot have sent, a later fragment, nothing of the transport, an old source quench.
    let foreign = changed(quoted.clone(), |packet| packet[15] = 9);
    dropped(&mut a, error4(3, 1, [0, 0], &foreign), DropReason::IcmpQuote);
    let later = changed(quoted.clone(), |packet| packet[7] = 1);
    dropped(&mut a, error4(3, 1, [0, 0], &later), DropReason::IcmpQuote);
    dropped(&mut a, error4(3, 1, [0, 0], &quoted[..24]), DropReason::IcmpQuote);
    dropped(&mut a, error4(4, 0, [0, 0], quoted), DropReason::Icmp);

    let out6 = ipv6::Header { src: v6("fd00::1"), dst: v6("2001:db8::9"), ..Default::default() };
    let udp = udp::Header { src_port: 4000, dst_port: 53, ..Default::default() };
    let quoted = &frame6(1, 2, out6, |stack| stack.with(udp), 1514)[14..80].to_vec();
    let [local, remote] = sockets("[fd00::1]:4000", "[2001:db8::9]:53");
    let original = Original { protocol: Protocol::UDP, local, remote, sequence: None };
    for (kind, code, word, expected) in [
        (1, 0, 0, ErrorKind::Unreachable { code: 0 }),
        (1, 1, 0, ErrorKind::Prohibited),
        (1, 4, 0, ErrorKind::PortUnreachable),
        (2, 0, 1400, ErrorKind::PacketTooBig { mtu: 1400 }),
        (3, 0, 0, ErrorKind::TimeExceeded),
        (4, 1, 40, ErrorKind::PortUnreachable),
        (4, 0, 6, ErrorKind::ParameterProblem),
    ] {
        let Inbound::Error(error) = a.receive(&error6(kind, code, word, quoted)) else { panic!("{kind} {code}") };
        assert_eq!((error.kind, error.from, error.original), (expected, ip("fd00::254"), original));
    }
    // No link of IPv6 has a smaller MTU (RFC 8201 section 4).
    dropped(&mut a, error6(2, 0, 1279, quoted), DropReason::Icmp);
    let foreign = changed(quoted.clone(), |packet| packet[23] = 9);
    dropped(&mut a, error6(1, 0, 0, &foreign), DropReason::IcmpQuote);
}

#[test]
fn redirects_are_refused_or_followed_from_the_gateway_only() {
    let gateway = |redirects| IpConfig { gateways: vec![ip("10.0.0.254")], redirects, ..config(1, NET) };
    let out = ipv4::Header { src: v4("10.0.0.1"), dst: v4("192.0.2.9"), ..Default::default() };
    let quoted = frame4(1, 2, out, datagram, 100)[14..42].to_vec();
    let word = |to: &str| [(v4(to).to_bits() >> 16) as u16, v4(to).to_bits() as u16];
    let redirect = error4(5, 1, word("10.0.0.253"), &quoted);
    let mut refusing = Host::quiet(gateway(Redirects::Refuse));
    assert_eq!(refusing.receive(&redirect), Inbound::Dropped(DropReason::Redirect));
    let mut a = Host::quiet(gateway(Redirects::Follow));
    // To a host off the link, to ourselves, and from a host that is not the gateway.
    for to in ["192.0.2.1", "10.0.0.1"] {
        assert_eq!(a.receive(&error4(5, 1, word(to), &quoted)), Inbound::Dropped(DropReason::Redirect), "{to}");
    }
    let other = changed4(redirect.clone(), |packet| packet[15] = 7);
    assert_eq!(a.receive(&other), Inbound::Dropped(DropReason::Redirect));
    assert_eq!(a.receive(&redirect), Inbound::Handled);
    a.hop("192.0.2.9").unwrap();
    let frames = a.sent();
    assert_eq!(frames[0][38..42], [10, 0, 0, 253], "the question is for the new gateway");
}

/// Extension headers in front of a datagram for the host.
fn extended(first: u8, extensions: &[u8]) -> Vec<u8> {
    let plain = frame6(2, 1, header6(), datagram, 80);
    let mut frame = plain[..54].to_vec();
    frame.extend_from_slice(extensions);
    frame.extend_from_slice(&plain[54..]);
    frame[20] = first;
    let len = (frame.len() - 54) as u16;
    frame[18..20].copy_from_slice(&len.to_be_bytes());
    frame
}

#[test]
fn extension_headers_are_walked_and_their_options_obeyed() {
    let [mut a, _] = pair();
    let mut case =
        |name: &str, first: u8, extensions: &[u8], expected: Option<DropReason>, problem: Option<(u8, u32)>| {
            a.now_ns += SECOND;
            let inbound = a.receive(&extended(first, extensions));
            match expected {
                None => assert!(matches!(inbound, Inbound::Udp(_)), "{name}: {inbound:?}"),
                Some(reason) => assert_eq!(inbound, Inbound::Dropped(reason), "{name}"),
            }
            let frames = a.sent();
            let told = frames.first().map(|frame| {
                assert_eq!(frame[54], 4, "{name}: a parameter problem");
                (frame[55], u32::from_be_bytes([frame[58], frame[59], frame[60], frame[61]]))
            });
            assert_eq!(told, problem, "{name}");
        };
    case("padding", 0, &[17, 0, 1, 4, 0, 0, 0, 0], None, None);
    case("destination options", 60, &[17, 0, 0x1e, 4, 0, 0, 0, 0], None, None);
    case("both", 0, &[60, 0, 1, 4, 0, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0, 0], None, None);
    case(
        "hop-by-hop not first",
        60,
        &[0, 0, 1, 4, 0, 0, 0, 0, 17, 0, 1, 4, 0, 0, 0, 0],
        Some(DropReason::Option),
        Some((1, 40)),
    );
    case("drop it", 60, &[17, 0, 0x5e, 4, 0, 0, 0, 0], Some(DropReason::Option), None);
    case("drop it and tell", 60, &[17, 0, 0x9e, 4, 0, 0, 0, 0], Some(DropReason::Option), Some((2, 42)));
    case("drop it and tell unless group", 60, &[17, 0, 0xde, 4, 0, 0, 0, 0], Some(DropReason::Option), Some((2, 42)));
    case("option too long", 60, &[17, 0, 1, 9, 0, 0, 0, 0], Some(DropReason::Option), Some((0, 42)));
    case("routing header, done", 43, &[17, 0, 0, 0, 0, 0, 0, 0], None, None);
    case("routing header", 43, &[17, 0, 0, 1, 0, 0, 0, 0], Some(DropReason::SourceRoute), Some((0, 42)));
    case("atomic fragment", 44, &[17, 0, 0, 0, 0, 0, 0, 9], None, None);
    case("unknown", 99, &[], Some(DropReason::Protocol), Some((1, 6)));
    case("unknown behind", 60, &[99, 0, 1, 4, 0, 0, 0, 0], Some(DropReason::Protocol), Some((1, 40)));
    case("odd fragment", 44, &[17, 0, 0, 1, 0, 0, 0, 9], Some(DropReason::Fragment), Some((0, 4)));
    let many: Vec<u8> = (0..9).flat_map(|at| [if at == 8 { 17 } else { 60 }, 0, 1, 4, 0, 0, 0, 0]).collect();
    case("nine", 60, &many, Some(DropReason::Option), None);
}

fn advertisement(hop_limit: u8, lifetime_s: u16, options: &[u8]) -> Vec<u8> {
    let ip = ipv6::Header { src: v6("fe80::254"), dst: v6("ff02::1"), hop_limit, ..Default::default() };
    let header = icmpv6::Header { kind: 134, identifier: 0x0a00, sequence: lifetime_s, ..Default::default() };
    let mut frame = frame6(254, 1, ip, |stack| stack.with(header), 70 + options.len());
    frame[..6].copy_from_slice(&[0x33, 0x33, 0, 0, 0, 1]);
    frame[62..70].fill(0);
    frame[70..].copy_from_slice(options);
    let pseudo = Sum::pseudo_ipv6(ip.src, ip.dst, 58, (frame.len() - 54) as u32);
    icmpv6::Packet::new_checked(&mut frame[54..]).unwrap().fill_checksum(pseudo);
    frame
}

fn prefix(flags: u8, valid_s: u32, preferred_s: u32) -> Vec<u8> {
    let mut option = vec![3, 4, 64, flags];
    option.extend(valid_s.to_be_bytes());
    option.extend(preferred_s.to_be_bytes());
    option.extend([0; 4]);
    option.extend(v6("2001:db8:5::").octets());
    option
}

#[test]
fn routers_are_followed_and_addresses_made_of_their_prefixes() {
    let mut a = Host::quiet(IpConfig { slaac: true, ..config(1, &["10.0.0.1/24"]) });
    let made = ip("2001:db8:5::ff:fe00:1");
    // From behind a router, without a link-local source, or cut: refused.
    assert_eq!(
        a.receive(&advertisement(254, 1800, &prefix(0xc0, 3600, 1800))),
        Inbound::Dropped(DropReason::NeighbourDiscovery)
    );
    assert_eq!(
        a.receive(&advertisement(255, 1800, &[3, 0, 0, 0, 0, 0, 0, 0])),
        Inbound::Dropped(DropReason::NeighbourDiscovery)
    );
    assert!(!a.ip.is_ours(made));
    let mut options = prefix(0xc0, 20_000, 10_000);
    options.extend([1, 1, 2, 0, 0, 0, 0, 254]);
    options.extend([5, 1, 0, 0, 0, 0, 5, 0x78]);
    options.extend([25, 3, 0, 0, 0, 0, 0, 99]);
    options.extend(v6("2001:db8:5::53").octets());
    assert_eq!(a.receive(&advertisement(255, 1800, &options)), Inbound::Handled);
    assert!(a.ip.is_ours(made));
    assert!(a.events().contains(&Event::NameServer(ip("2001:db8:5::53"))));
    assert_eq!((a.ip.path_mtu(ip("2001:db8::1")), a.ip.path_mtu(ip("10.0.0.2"))), (1400, 1500));
    assert_eq!(a.ip.hop_limit(), 64, "a small one is not believed");
    // The router is a neighbour already, so nothing is asked.
    a.run_until(a.now_ns + 5 * SECOND);
    a.sent();
    let (hop, src) = a.hop("2001:db8:9::1").unwrap();
    assert_eq!((a.ip.header(hop).unwrap().dst(), src, a.sent().len()), (mac(254), made, 0));
    // Nobody can cut the life of an address below two hours (RFC 4862 section 5.5.3 (e)).
    let start = a.now_ns;
    assert_eq!(a.receive(&advertisement(255, 0, &prefix(0xc0, 10, 5))), Inbound::Handled);
    assert!(a.hop("2001:db8:9::1").is_err(), "the router is none any more");
    a.run_until(start + 7100 * SECOND);
    assert!(a.ip.is_ours(made));
    a.run_until(start + 7300 * SECOND);
    assert!(!a.ip.is_ours(made) && a.events().contains(&Event::AddressLost(made)));
}

#[test]
fn the_path_mtu_decides_how_long_datagrams_are() {
    let [mut a, _] = pair();
    let socket = a.bind("0.0.0.0:9");
    a.send(socket, "10.0.0.2:7", &[0; 1472]).unwrap();
    assert_eq!(a.sent().len(), 1);
    assert_eq!(a.ip.packet_too_big(ip("10.0.0.2"), 1000, a.now_ns), 1000);
    a.send(socket, "10.0.0.2:7", &[0; 1472]).unwrap();
    let frames: Vec<usize> = a.out.iter().map(<[u8]>::len).collect();
    assert_eq!(frames.len(), 2);
    assert!(frames.iter().all(|len| *len <= 1014));
    a.pool.free(&mut a.out);
    // The link's MTU is tried again later.
    a.run_until(a.now_ns + 800 * SECOND);
    assert_eq!(a.ip.path_mtu(ip("10.0.0.2")), 1500);
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(48))]

    /// Fragments of any size, in any order, some twice: the datagram arrives once, as it was, and every fragment is accounted for.
    #[test]
    fn fragments_in_any_order_are_the_datagram(
        is_v4: bool, len in 0..20_000_usize, mtu in 1280..1500_u16, order in proptest::collection::vec(0..10_000_u32, 0..40),
    ) {
        let [mut a, mut b] = pair();
        let (to, local) = if is_v4 { ("10.0.0.2:7", "0.0.0.0:7") } else { ("[fd00::2]:7", "[::]:7") };
        b.bind(local);
        let client = a.bind(&local.replace(":7", ":9"));
        a.ip.packet_too_big(to.parse::<SocketAddr>().unwrap().ip(), mtu, a.now_ns);
        let data: Vec<u8> = (0..len).map(|at| (at ^ (at >> 8)) as u8).collect();
        a.send(client, to, &data).unwrap();
        let mut frames: Vec<Vec<u8>> = a.out.iter().map(<[u8]>::to_vec).collect();
        a.pool.free(&mut a.out);
        proptest::prop_assert!(frames.iter().all(|frame| frame.len() <= 14 + usize::from(mtu)));
        let count = frames.len();
        for (at, number) in order.iter().enumerate() {
            let other = *number as usize % frames.len();
            match at % 3 {
                // The last copy of a fragment may come when the datagram is whole; it then begins another one.
                0 if count > 1 && at < 6 => frames.insert(0, frames[other].clone()),
                _ => frames.swap(at % count, other),
            }
        }
        let got: Vec<_> = frames.iter().filter_map(|frame| b.take(frame)).collect();
        proptest::prop_assert!(!got.is_empty());
        proptest::prop_assert!(got.iter().all(|(_, found)| *found == data));
        let (held, given_up) = b.ip.fragments();
        let whole = if count > 1 { got.len() * count } else { 0 };
        let expected = if count > 1 { frames.len() } else { 0 };
        proptest::prop_assert_eq!(whole + held as usize + given_up.repeated as usize, expected);
    }
}
