//! Packets that are recognised by compares of many bytes at once, and headers that are written so: both agree with the general way.

use super::support;

use linerate_ip::{Inbound, Output, Usual4, UsualSyn4};
use linerate_mem::Checksum;
use linerate_wire::{Protocol, Sum, ipv4, tcp, udp};
use support::*;

#[test]
fn plain_packets_take_the_fast_path_and_the_general_one_agrees() {
    let mut a = Host::quiet(config(1, NET));
    for (frame, is_tcp) in [
        (frame4(2, 1, header4(), segment, 60), true),
        (frame4(2, 1, header4(), datagram, 60), false),
        (frame6(2, 1, header6(), segment, 80), true),
        (frame6(2, 1, header6(), datagram, 80), false),
    ] {
        let inbound = a.receive(&frame);
        let (packet, found_tcp) = match &inbound {
            Inbound::Tcp(packet) => (packet, true),
            Inbound::Udp(packet) => (packet, false),
            other => panic!("{other:?}"),
        };
        assert_eq!(found_tcp, is_tcp);
        let payload = a.ip.payload(packet, &frame).to_vec();
        if packet.src.is_ipv4() {
            let fast = a.ip.fast4(&frame, Checksum::Unknown).unwrap();
            assert_eq!(fast.payload(&frame), payload);
            assert!(fast.checksum_is_right(&frame));
        } else {
            let fast = a.ip.fast6(&frame).unwrap();
            assert_eq!(fast.payload(&frame), payload);
            assert!(fast.checksum_is_right(&frame));
        }
        // Any bit that changes a header is noticed by both.
        for byte in 0..54 {
            let wrong = changed(frame.clone(), |frame| frame[byte] ^= 0x40);
            let fast = a.ip.fast4(&wrong, Checksum::Unknown).is_some() || a.ip.fast6(&wrong).is_some();
            let general = matches!(a.receive(&wrong), Inbound::Tcp(_) | Inbound::Udp(_));
            assert!(!general || fast || wrong[14] >> 4 == 4, "byte {byte}");
            if fast && !general {
                // Only a checksum of the transport may be left to whoever takes the fast path.
                assert!(byte >= 14, "byte {byte}");
            }
        }
    }
}

/// Writes the checksum of the TCP segment of `frame`, over IPv4 without options.
fn seal(frame: &mut [u8]) {
    frame[50..52].fill(0);
    let pseudo = Sum::new().add_slice(&frame[26..34]).add_u16(6).add_u16((frame.len() - 34) as u16);
    let sum = pseudo.add_slice(&frame[34..]).finish();
    frame[50..52].copy_from_slice(&sum.to_be_bytes());
}

/// A segment whose only option is the timestamps is recognised by its first bytes; a frame that differs in any bit is only if it is plain, and
/// says the same then.
#[test]
fn usual_segments_are_recognised_and_changed_ones_only_if_they_are_plain() {
    let a = Host::quiet(config(1, NET));
    let mut frame = frame4(2, 1, header4(), segment, 70);
    frame[54..].copy_from_slice(&[1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2, b'd', b'a', b't', b'a']);
    // The header is longer by the options, which its checksum covers.
    frame[46] = 0x80;
    seal(&mut frame);
    for checksum in [Checksum::Unknown, Checksum::Verified] {
        assert_eq!(a.ip.usual4(&frame, checksum), Some(4));
    }
    let segment = Usual4::of(&frame, 4).unwrap();
    assert_eq!((segment.src(), segment.dst()), (v4("10.0.0.2").to_bits(), v4("10.0.0.1").to_bits()));
    assert_eq!((segment.ports(), segment.timestamps(), segment.data), (999 << 16 | 80, (1, 2), &b"data"[..]));
    let mut recognised = 0;
    for bit in 0..8 * frame.len() {
        let mut other = frame.clone();
        other[bit / 8] ^= 1 << (bit % 8);
        // Nothing but the source's MAC address is covered neither by a checksum nor by a compare.
        let is_covered = !(6 * 8..12 * 8).contains(&bit);
        assert_eq!(a.ip.usual4(&other, Checksum::Unknown).is_none(), is_covered || bit == 6 * 8, "bit {bit}");
        let Some(len) = a.ip.usual4(&other, Checksum::Verified) else { continue };
        recognised += 1;
        if let Some(fast) = a.ip.fast4(&other, Checksum::Verified) {
            let usual = Usual4::of(&other, len).unwrap();
            assert_eq!((fast.src, fast.dst, fast.end), (usual.src(), usual.dst(), 66 + len), "bit {bit}");
            assert_eq!((fast.protocol, fast.offset), (Protocol::TCP, 34), "bit {bit}");
        } else {
            assert!((26 * 8..30 * 8).contains(&bit), "bit {bit}: only source addresses are left to be looked at");
        }
    }
    assert!(recognised > 200, "{recognised}");
    for len in 0..frame.len() {
        assert_eq!(a.ip.usual4(&frame[..len], Checksum::Verified), None);
    }
}

/// A SYN with the usual options is recognised by compares of many bytes at once; a frame that differs in any bit is only if it is plain, is still a SYN
/// with these options, and says the same.
#[test]
fn usual_syn_segments_are_recognised_and_changed_ones_only_if_they_are_plain() {
    let a = Host::quiet(config(1, NET));
    let mut frame = frame4(2, 1, header4(), segment, 74);
    frame[46..48].copy_from_slice(&[0xa0, 0x02]);
    frame[54..].copy_from_slice(&[2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 1, 3, 3, 7]);
    seal(&mut frame);
    for checksum in [Checksum::Unknown, Checksum::Verified] {
        assert!(a.ip.is_usual_syn4(&frame, checksum) && a.ip.usual4(&frame, checksum).is_none());
    }
    let syn = UsualSyn4::of(&frame).unwrap();
    assert_eq!((syn.src, syn.dst), (v4("10.0.0.2").to_bits(), v4("10.0.0.1").to_bits()));
    assert_eq!((syn.ports, syn.timestamps, syn.flags), (999 << 16 | 80, (1, 2), 2));
    assert_eq!(syn.options[..], frame[54..]);
    let (mut recognised, mut with_ack) = (0, 0);
    for bit in 0..8 * frame.len() {
        let mut other = frame.clone();
        other[bit / 8] ^= 1 << (bit % 8);
        let is_covered = !(6 * 8..12 * 8).contains(&bit);
        assert_eq!(!a.ip.is_usual_syn4(&other, Checksum::Unknown), is_covered || bit == 6 * 8, "bit {bit}");
        if !a.ip.is_usual_syn4(&other, Checksum::Verified) {
            continue;
        }
        recognised += 1;
        let syn = UsualSyn4::of(&other).unwrap();
        let fast = a.ip.fast4(&other, Checksum::Verified).expect("it is plain");
        assert_eq!((fast.src, fast.dst, fast.offset, fast.end), (syn.src, syn.dst, 34, 74), "bit {bit}");
        assert_eq!((fast.protocol, fast.tos & 3), (Protocol::TCP, syn.ecn), "bit {bit}");
        let header = tcp::Packet::new_checked(fast.payload(&other)).unwrap().header();
        let ends = (header.src_port, header.dst_port, header.sequence, header.acknowledgment, header.window);
        assert_eq!(ends, ((syn.ports >> 16) as u16, syn.ports as u16, syn.seq, syn.ack, syn.window), "bit {bit}");
        assert!([0x02, 0x12].contains(&syn.flags) && other[46] >> 4 == 10, "bit {bit}");
        with_ack += u32::from(syn.flags == 0x12);
        // Nothing of the options changes but MSS, timestamps and shift.
        let kept = [54, 55, 58, 59, 60, 61, 70, 71, 72];
        assert!(kept.iter().all(|at| other[*at] == frame[*at]), "bit {bit}");
    }
    assert!(recognised > 200 && with_ack == 1, "{recognised} {with_ack}");
    for len in 0..frame.len() {
        assert!(!a.ip.is_usual_syn4(&frame[..len], Checksum::Verified));
    }
}

/// A usual datagram is recognised by compares of many bytes at once, and comes to the same as by the ways of all others: for every bit that
/// differs, for every length, with checksums that are right or were verified, and for sockets of every kind.
#[test]
fn usual_datagrams_come_to_the_same_as_by_the_other_ways() {
    let mut frame = frame4(2, 1, header4(), datagram, 61);
    // The port that sockets here are bound to.
    frame[34..38].copy_from_slice(&[0, 9, 0, 7]);
    for kind in ["all", "one", "connected", "of many", "none"] {
        let mut a = Host::quiet(config(1, NET));
        match kind {
            "all" => _ = a.bind("0.0.0.0:7"),
            "one" => _ = a.bind("10.0.0.1:7"),
            "connected" => _ = a.connect("10.0.0.1:7", "10.0.0.2:9"),
            "of many" => {
                a.bind("[::]:7");
                a.bind("0.0.0.0:7");
                a.connect("10.0.0.1:7", "10.0.0.2:9");
            }
            _ => _ = a.bind("0.0.0.0:8"),
        }
        let mut taken = 0;
        let mut both = |frame: &[u8], checksum: Checksum| {
            let before = *a.udp.counters();
            let usual = a.udp.receive_usual4(&a.ip, frame, checksum);
            let counters = *a.udp.counters();
            assert_eq!(counters.delivered, before.delivered + u64::from(usual.is_some()));
            assert_eq!((counters.malformed, counters.no_port), (before.malformed, before.no_port));
            let Some(fast) = a.ip.fast4(frame, checksum) else {
                // Nobody but a connected socket may leave the source address unread, which is then its own.
                assert_eq!(usual, None, "{kind} {checksum:?} {frame:x?}");
                return;
            };
            let other = a.udp.receive4(&fast, frame, checksum);
            // Bytes behind the datagram in its packet are left to the other way.
            let has_more = (frame[16], u16::from(frame[17])) != (frame[38], u16::from(frame[39]) + 20);
            assert!(
                usual == other || usual.is_none() && has_more,
                "{kind} {checksum:?} {usual:?} {other:?} {frame:x?}"
            );
            taken += usize::from(usual.is_some());
        };
        let sealed = |mut frame: Vec<u8>| {
            if frame.len() >= 42 {
                frame[24..26].fill(0);
                let sum = Sum::new().add_slice(&frame[14..34]).finish();
                frame[24..26].copy_from_slice(&sum.to_be_bytes());
                frame[40..42].fill(0);
                let pseudo = Sum::new().add_slice(&frame[26..34]).add_u16(17).add_u16((frame.len() - 34) as u16);
                let sum = pseudo.add_slice(&frame[34..]).finish_udp();
                frame[40..42].copy_from_slice(&sum.to_be_bytes());
            }
            frame
        };
        for checksum in [Checksum::Unknown, Checksum::Verified, Checksum::Partial] {
            both(&sealed(frame.clone()), checksum);
            for bit in 0..8 * frame.len() {
                let changed = |mut frame: Vec<u8>| {
                    frame[bit / 8] ^= 1 << (bit % 8);
                    frame
                };
                both(&changed(sealed(frame.clone())), checksum);
                both(&sealed(changed(frame.clone())), checksum);
            }
            for len in 0..frame.len() {
                both(&frame[..len], checksum);
            }
            // No checksum, and bytes behind the packet.
            let mut bare = sealed(frame.clone());
            bare[40..42].fill(0);
            both(&bare, checksum);
            both(&[&bare[..], &[0; 5]].concat(), checksum);
        }
        assert_eq!(taken > 500, kind != "none", "{kind}: {taken}");
    }
}

/// What a socket sends is what the builder of packets makes of the same header and data, for every length; a partial checksum is the sum of the
/// pseudo-header.
#[test]
fn datagrams_that_are_sent_have_the_headers_that_others_would_write() {
    let [mut a, mut b] = [Host::quiet(config(1, NET)), Host::quiet(config(2, &["10.0.0.2/24"]))];
    let (bound, connected) = (a.bind("0.0.0.0:65535"), a.connect("10.0.0.1:999", "10.0.0.2:7"));
    a.send(bound, "10.0.0.2:7", b"who is it?").unwrap();
    exchange(&mut a, &mut b);
    for (socket, port) in [(bound, 65_535), (connected, 999)] {
        for len in (0..300).chain([1471, 1472]) {
            let data: Vec<u8> = (0..len).map(|at| (at * 7 + len) as u8).collect();
            for trusted in [false, true] {
                let mut out = Output { now_ns: a.now_ns, batch: &mut a.out, pool: &mut a.pool };
                let to = (socket == bound).then(|| "10.0.0.2:7".parse().unwrap());
                // An answer leaves from the address that its question came to.
                let from = (socket == bound).then(|| ip("10.0.0.1"));
                a.udp.send(socket, from, to, &data, trusted, &mut a.ip, &mut out).unwrap();
                if len == 0 && !trusted {
                    // The first one prepares the headers.
                    a.sent();
                    let mut out = Output { now_ns: a.now_ns, batch: &mut a.out, pool: &mut a.pool };
                    a.udp.send(socket, from, to, &data, trusted, &mut a.ip, &mut out).unwrap();
                }
                assert_eq!(a.out.len(), 1, "{port} {len} {trusted}");
                let known = if trusted { Checksum::Partial } else { Checksum::Unknown };
                assert_eq!((a.out.len(), a.out.checksum(0)), (1, known));
                let frame = a.out.packet(0).to_vec();
                a.pool.free(&mut a.out);
                let header = ipv4::Header {
                    dont_fragment: true,
                    src: v4("10.0.0.1"),
                    dst: v4("10.0.0.2"),
                    ..Default::default()
                };
                let udp = udp::Header { src_port: port, dst_port: 7, ..Default::default() };
                let mut expected = frame4(1, 2, header, |stack| stack.with(udp), 42 + len);
                expected[42..].copy_from_slice(&data);
                let pseudo = Sum::new().add_slice(&expected[26..34]).add_u16(17).add_u16(8 + len as u16);
                expected[40..42].fill(0);
                let sum = if trusted { pseudo.fold() } else { pseudo.add_slice(&expected[34..]).finish_udp() };
                expected[40..42].copy_from_slice(&sum.to_be_bytes());
                assert_eq!(frame, expected, "{len} {trusted}");
            }
        }
    }
    assert_eq!(a.udp.counters().sent, 1 + 2 * (2 * 302 + 1));
}
