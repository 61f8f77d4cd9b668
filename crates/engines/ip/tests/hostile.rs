//! The bodies of the fuzz targets `ip_frames` and `ip_names`, on mutations that are the same on every run.

#[path = "../../../../fuzz/bodies/ip_frames.rs"]
mod ip_frames;
#[path = "../../../../fuzz/bodies/ip_names.rs"]
mod ip_names;
#[path = "../../../../fuzz/bodies/mutate.rs"]
mod mutate;
use super::support;

use linerate_wire::{MacAddress, Stack, arp, ethernet, icmpv4, icmpv6, ipv4, ipv6, tcp, udp};
use support::*;

fn record(step: u8, frame: &[u8]) -> Vec<u8> {
    let mut record = vec![0x80 | step];
    record.extend((frame.len() as u16).to_be_bytes());
    record.extend_from_slice(frame);
    record
}

fn to4() -> ipv4::Header {
    ipv4::Header { src: v4("10.0.0.9"), dst: v4("10.0.0.1"), ..Default::default() }
}

fn to6() -> ipv6::Header {
    ipv6::Header { src: v6("fd00::9"), dst: v6("fd00::1"), hop_limit: 255, ..Default::default() }
}

/// An ICMPv6 message with a body, for the host or for a group.
fn icmp6(kind: u8, dst: &str, src: &str, body: &[u8]) -> Vec<u8> {
    let header = icmpv6::Header { kind, ..Default::default() };
    let ip = ipv6::Header { src: v6(src), dst: v6(dst), ..to6() };
    let mut frame = frame6(9, 1, ip, |stack| stack.with(header), 62 + body.len());
    frame[62..].copy_from_slice(body);
    frame
}

fn icmp4(kind: u8, code: u8, body: &[u8]) -> Vec<u8> {
    let header = icmpv4::Header { kind, code, ..Default::default() };
    let mut frame = frame4(9, 1, to4(), |stack| stack.with(header), 42 + body.len());
    frame[42..].copy_from_slice(body);
    frame
}

/// Packets that are recognised by compares of many bytes at once: segments and a SYN with the usual options, and a datagram that fills its packet.
fn usual() -> [Vec<u8>; 4] {
    let segment = |flags, data_offset, rest: &[u8]| {
        let header = tcp::Header { src_port: 999, dst_port: 80, flags: tcp::Flags(flags), ..Default::default() };
        let mut frame = frame4(9, 1, to4(), |stack| stack.with(header), 54 + rest.len());
        frame[54..].copy_from_slice(rest);
        frame[46] = data_offset;
        frame
    };
    let timestamps = [8, 10, 0, 0, 0, 1, 0, 0, 0, 2];
    let syn = [&[2, 4, 5, 0xb4, 4, 2][..], &timestamps, &[1, 3, 3, 7]].concat();
    let datagram = |src_port, dst_port| udp::Header { src_port, dst_port, ..Default::default() };
    [
        segment(0x18, 0x80, &[&[1, 1][..], &timestamps, b"data"].concat()),
        segment(0x02, 0xa0, &syn),
        frame4(9, 1, to4(), |stack| stack.with(datagram(999, 7)), 64),
        // A lease that is renewed comes so, and is not for sockets.
        frame4(9, 1, to4(), |stack| stack.with(datagram(67, 68)), 64),
    ]
}

fn frames() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let request =
        arp::Header { sender_mac: mac(9), sender_ip: v4("10.0.0.9"), target_ip: v4("10.0.0.1"), ..Default::default() };
    for header in [
        request,
        arp::Header { operation: arp::REPLY, target_mac: mac(1), ..request },
        arp::Header { sender_ip: v4("10.0.0.1"), ..request },
        arp::Header { sender_ip: v4("0.0.0.0"), ..request },
    ] {
        let ethernet = ethernet::Header { src: mac(9), dst: MacAddress::BROADCAST, ..Default::default() };
        all.push(Stack::new().with(ethernet).with(header).build(60).unwrap().bytes);
    }
    let datagram =
        |port| move |stack: Stack| stack.with(udp::Header { src_port: 999, dst_port: port, ..Default::default() });
    let segment = |stack: Stack| stack.with(tcp::Header { src_port: 999, dst_port: 80, ..Default::default() });
    for port in [7, 8, 68] {
        all.push(frame4(9, 1, to4(), datagram(port), 60));
        all.push(frame6(9, 1, to6(), datagram(port), 80));
    }
    all.push(frame4(9, 1, to4(), segment, 60));
    all.push(frame6(9, 1, to6(), segment, 80));
    all.extend(usual());
    // Errors about what we may have sent.
    let out4 = ipv4::Header { src: v4("10.0.0.1"), dst: v4("10.0.0.9"), ..Default::default() };
    let quoted4 = frame4(1, 9, out4, datagram(9), 100)[14..].to_vec();
    let out6 = ipv6::Header { src: v6("fd00::1"), dst: v6("fd00::9"), ..Default::default() };
    let quoted6 = frame6(1, 9, out6, segment, 120)[14..].to_vec();
    all.extend([(3, 3), (3, 4), (5, 1), (8, 0), (11, 1)].map(|(kind, code)| icmp4(kind, code, &quoted4)));
    all.extend([1, 2, 3, 4, 128].map(|kind| icmp6(kind, "fd00::1", "fd00::9", &quoted6)));
    // Neighbour discovery.
    let target = v6("fd00::1").octets();
    let option = |kind| [&[kind, 1][..], &mac(9).0].concat();
    all.push(icmp6(135, "ff02::1:ff00:1", "fd00::9", &[&target[..], &option(1)].concat()));
    all.push(icmp6(135, "ff02::1:ff00:1", "::", &target));
    all.push(icmp6(136, "fd00::1", "fd00::9", &[&v6("fd00::9").octets()[..], &option(2)].concat()));
    let mut prefix = vec![3, 4, 64, 0xc0, 0, 0, 80, 0, 0, 0, 40, 0, 0, 0, 0, 0];
    prefix.extend(v6("2001:db8::").octets());
    let advertised = [&[0; 8][..], &option(1), &[5, 1, 0, 0, 0, 0, 5, 0x78], &prefix].concat();
    all.push(icmp6(134, "ff02::1", "fe80::9", &advertised));
    let redirect = [&v6("fe80::7").octets()[..], &v6("2001:db9::1").octets(), &option(2)].concat();
    all.push(icmp6(137, "fd00::1", "fe80::9", &redirect));
    all.push(icmp6(130, "ff02::1", "fe80::9", &[0; 20]));
    // Fragments, the second one first.
    let whole = icmp4(8, 0, &[7; 64]);
    for (offset, more, piece) in [(4, false, &whole[34 + 32..]), (0, true, &whole[34..34 + 32])] {
        let total_len = 20 + piece.len() as u16;
        let protocol = linerate_wire::Protocol::ICMPV4;
        let header = ipv4::Header { total_len, fragment_offset: offset, more_fragments: more, protocol, ..to4() };
        let mut frame = whole[..34].to_vec();
        header.emit(&mut frame[14..]);
        frame.extend_from_slice(piece);
        all.push(frame);
    }
    let whole = icmp6(128, "fd00::1", "fd00::9", &[7; 64]);
    for (field, piece) in [([0, 32], &whole[54 + 32..]), ([0, 1], &whole[54..54 + 32])] {
        let mut frame = whole[..54].to_vec();
        frame[20] = 44;
        frame[18..20].copy_from_slice(&(8 + piece.len() as u16).to_be_bytes());
        frame.extend([58, 0, field[0], field[1], 0, 0, 0, 5]);
        frame.extend_from_slice(piece);
        all.push(frame);
    }
    all
}

/// Sessions of all kinds of frames: alone, and all one after the other in each configuration.
fn sessions() -> Vec<Vec<u8>> {
    let frames = frames();
    let mut seeds: Vec<Vec<u8>> = Vec::new();
    for choice in [0, 7, 10, 15, 32, 64, 97] {
        let mut seed = vec![choice];
        frames.iter().for_each(|frame| seed.extend(record(3, frame)));
        seeds.push(seed);
    }
    for pair in frames.chunks(2) {
        let mut seed = vec![6];
        // Duplicate detection takes a moment; then the frames come twice.
        seed.extend(record(100, &[]));
        pair.iter().chain(pair).for_each(|frame| seed.extend(record(1, frame)));
        seeds.push(seed);
    }
    seeds
}

#[test]
fn no_frame_breaks_the_layer() {
    let seeds = sessions();
    mutate::check_seeds("ip_frames", &seeds);
    mutate::each(&seeds, 3_000, ip_frames::run);
}

/// A name and an answer.
fn answers() -> Vec<Vec<u8>> {
    let encoded = [3, b'w', b'e', b'b', 1, b'a', 0];
    let head = |kind: u8, flags: [u8; 2], records: u8| {
        let mut bytes = vec![0, 0, flags[0], flags[1], 0, 1, 0, records, 0, 0, 0, 0];
        bytes.extend(encoded);
        bytes.extend([0, kind, 0, 1]);
        bytes
    };
    let four = [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 7];
    let mut six = vec![0xc0, 12, 0, 28, 0, 1, 0, 0, 0, 60, 0, 16];
    six.extend(v6("2001:db8::7").octets());
    let alias = [0xc0, 12, 0, 5, 0, 1, 0, 0, 0, 60, 0, 3, 1, b'b', 0];
    let other = [1, b'b', 0, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 192, 0, 2, 8];
    let answers = [
        [head(1, [0x81, 0x80], 1), four.to_vec()].concat(),
        [head(28, [0x81, 0x80], 1), six].concat(),
        [head(1, [0x81, 0x80], 2), alias.to_vec(), other.to_vec()].concat(),
        head(1, [0x81, 0x83], 0),
        head(28, [0x83, 0x80], 0),
    ];
    answers.into_iter().map(|answer| [&[5][..], b"web.a", &answer].concat()).collect()
}

#[test]
fn no_answer_breaks_the_resolver() {
    let seeds = answers();
    mutate::check_seeds("ip_names", &seeds);
    mutate::each(&seeds, 3_000, ip_names::run);
}
