//! Partial checksums and merged packets: what is completed and cut is what its sender would have sent.

use linerate_wire::*;
use proptest::prelude::*;

/// How the packets of these tests are wrapped.
const KINDS: usize = 8;

fn stack(kind: usize, is_tcp: bool) -> Stack {
    let v4 = ipv4::Header { src: [192, 0, 2, 1].into(), dst: [198, 51, 100, 7].into(), ..Default::default() };
    let v6 = ipv6::Header {
        src: "2001:db8::1".parse().unwrap(),
        dst: "2001:db8:77::2".parse().unwrap(),
        ..Default::default()
    };
    let tag = vlan::Header { pcp: 0, dei: false, vid: 5, ethertype: EtherType(0) };
    let link = || Stack::new().with(ethernet::Header::default());
    let tunnel = |udp: udp::Header| link().with(v4).with(udp).with(vxlan::Header { vni: 3 });
    let outer = udp::Header { src_port: 555, dst_port: 4789, ..Default::default() };
    let wrapped = match kind {
        0 => link().with(v4),
        1 => link().with(v6),
        2 => link().with(tag).with(v4),
        3 => link().with(tag).with(v6),
        4 => link().with(Layer::qinq(tag)).with(tag).with(v4),
        5 => tunnel(outer).with(ethernet::Header::default()).with(v4),
        6 => tunnel(outer).with(ethernet::Header::default()).with(v6),
        _ => tunnel(outer).with(ethernet::Header::default()).with(tag).with(v4),
    };
    match is_tcp {
        true => wrapped.with(tcp::Header {
            src_port: 1,
            dst_port: 2,
            sequence: u32::MAX - 1000,
            flags: tcp::Flags::ACK | tcp::Flags::PSH | tcp::Flags::CWR,
            ..Default::default()
        }),
        false => wrapped.with(udp::Header { src_port: 1, dst_port: 2, ..Default::default() }),
    }
}

/// A frame with `data` behind its headers, and the length of these.
fn frame(kind: usize, is_tcp: bool, data: &[u8]) -> (Vec<u8>, usize) {
    let stack = stack(kind, is_tcp);
    let headers_len = stack.headers_len();
    let mut bytes = stack.build(headers_len + data.len()).unwrap().bytes;
    bytes[headers_len..].copy_from_slice(data);
    fill_checksums(&mut bytes, 0);
    (bytes, headers_len)
}

/// Sets the transport checksums, the innermost first, whatever they are.
fn fill_checksums(frame: &mut [u8], base: usize) {
    let (parsed, ip, transport) = places(&frame[base..]);
    if let Some(inner) = parsed.inner(&frame[base..]) {
        let at = frame.len() - inner.len();
        fill_checksums(frame, at);
    }
    let pseudo = pseudo(&frame[base..], &ip, &transport);
    let bytes = &mut frame[base + transport.offset..];
    match transport.kind {
        LayerKind::Tcp => tcp::Packet::new_unchecked(bytes).fill_checksum(pseudo),
        _ => udp::Packet::new_unchecked(bytes).fill_checksum(pseudo),
    }
}

fn places(frame: &[u8]) -> (Parsed, Ip, Transport) {
    let parsed = Parsed::parse(frame).unwrap();
    let ip = parsed.ip.unwrap();
    (parsed, ip, ip.transport.unwrap())
}

fn pseudo(frame: &[u8], ip: &Ip, transport: &Transport) -> Sum {
    let len = transport.end - transport.offset;
    match ip.kind {
        LayerKind::Ipv4 => ipv4::Packet::new_unchecked(&frame[ip.offset..]).pseudo_sum(len as u16),
        _ => ipv6::Packet::new_unchecked(&frame[ip.offset..]).pseudo_sum(ip.protocol, len as u32),
    }
}

/// Puts the bare sum of the pseudo-header into the innermost checksum, as a kernel does.
fn make_partial(frame: &mut [u8]) {
    let (parsed, ip, transport) = places(frame);
    if let Some(inner) = parsed.inner(frame) {
        let at = frame.len() - inner.len();
        return make_partial(&mut frame[at..]);
    }
    let sum = pseudo(frame, &ip, &transport).fold();
    let field = if transport.kind == LayerKind::Tcp { tcp::field::CHECKSUM } else { udp::field::CHECKSUM };
    frame[transport.offset..][field].copy_from_slice(&sum.to_be_bytes());
}

proptest! {
    #[test]
    fn what_was_partial_becomes_what_it_would_have_been(
        kind in 0..KINDS, is_tcp: bool, data in prop::collection::vec(any::<u8>(), 2..300), padding in 0..9usize, cut in 1..60usize,
    ) {
        let (whole, _) = frame(kind, is_tcp, &data);
        prop_assert_eq!(verify_checksums(&whole), Ok(()));
        let mut partial = whole.clone();
        make_partial(&mut partial);
        prop_assert!(verify_checksums(&partial).is_err());
        partial.resize(whole.len() + padding, 0xaa);
        let found = PartialChecksum::find(&partial).expect("partial");
        // In pieces, of which the first has the headers.
        let checksum = found.checksum(partial.chunks(cut)).expect("inside");
        prop_assert_eq!(&whole[found.field..found.field + 2], &checksum.to_be_bytes());
        prop_assert!(found.complete(&mut partial));
        prop_assert_eq!(&partial[..whole.len()], &whole[..]);
        let too_short = whole.len() - 1;
        prop_assert!(!found.complete(&mut partial[..too_short]));
    }

    /// The checksum of a packet may be the sum of its pseudo-header by chance: completing it changes nothing.
    #[test]
    fn a_complete_packet_that_looks_partial_stays_as_it_is(
        kind in 0..KINDS, is_tcp: bool, mut data in prop::collection::vec(any::<u8>(), 2..100),
    ) {
        let field_of = |frame: &[u8]| {
            let mut marked = frame.to_vec();
            make_partial(&mut marked);
            PartialChecksum::find(&marked).expect("partial")
        };
        // The first two bytes of data are chosen so that the checksum comes out as the pseudo-header's sum.
        data[..2].fill(0);
        let (mut whole, headers_len) = frame(kind, is_tcp, &data);
        let at = field_of(&whole);
        let mut wanted = whole.clone();
        make_partial(&mut wanted);
        let wanted = u16::from_be_bytes(wanted[at.field..at.field + 2].try_into().unwrap());
        let have = u16::from_be_bytes(whole[at.field..at.field + 2].try_into().unwrap());
        let missing = Sum::new().add_u16(!wanted).sub_u16(!have).fold();
        whole[headers_len..headers_len + 2].copy_from_slice(&missing.to_be_bytes());
        fill_checksums(&mut whole, 0);
        prop_assert_eq!(verify_checksums(&whole), Ok(()));
        let mut completed = whole.clone();
        let found = PartialChecksum::find(&completed);
        prop_assert_eq!(found, Some(at));
        prop_assert!(at.complete(&mut completed));
        prop_assert_eq!(completed, whole);
    }

    #[test]
    fn segments_are_packets_that_carry_the_same(
        kind in 0..KINDS, is_tcp: bool, data in prop::collection::vec(any::<u8>(), 1..4000), size in 1..1500usize,
        partial: bool,
    ) {
        let (mut merged, headers_len) = frame(kind, is_tcp, &data);
        if partial {
            make_partial(&mut merged);
        }
        let whole = merged.clone();
        let mut segments = Segments::new(&merged, size, None).expect("can be cut");
        let mut carried = Vec::new();
        let mut count = 0u16;
        while let Some(range) = segments.next(&mut merged) {
            let packet = &merged[range];
            prop_assert_eq!(verify_checksums(packet), Ok(()));
            let is_last = carried.len() + size >= data.len();
            prop_assert_eq!(packet.len() - headers_len, if is_last { data.len() - carried.len() } else { size });
            check_headers(packet, &whole, carried.len() as u32, is_last, count)?;
            carried.extend_from_slice(&packet[headers_len..]);
            count += 1;
        }
        prop_assert_eq!(carried, data);
        prop_assert_eq!(segments.next(&mut merged), None);
    }

    #[test]
    fn whatever_the_bytes_nothing_breaks(mut bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 0..KINDS, at in 0..120usize, size in 0..90usize) {
        let (mut frame, _) = frame(kind, true, &bytes);
        make_partial(&mut frame);
        let at = at.min(frame.len());
        frame[at..].iter_mut().zip(&bytes).take(4).for_each(|(to, from)| *to = *from);
        for bytes in [&mut frame, &mut bytes] {
            if let Some(found) = PartialChecksum::find(bytes) {
                found.complete(bytes);
            }
            for cut in [Segments::new(bytes, size, None), Segments::new(bytes, size, Some(at)), Segments::fitting(bytes, size)] {
                let Some(mut segments) = cut else { continue };
                while segments.next(bytes).is_some() {}
            }
        }
    }
}

fn check_headers(packet: &[u8], whole: &[u8], before: u32, is_last: bool, count: u16) -> Result<(), TestCaseError> {
    let innermost = |frame: &[u8]| {
        let (parsed, ..) = places(frame);
        parsed.inner(frame).map_or(frame.to_vec(), <[u8]>::to_vec)
    };
    let (packet, whole) = (innermost(packet), innermost(whole));
    let ((_, ip, transport), (_, ip_whole, _)) = (places(&packet), places(&whole));
    prop_assert_eq!(ip.end, packet.len());
    if ip.kind == LayerKind::Ipv4 {
        let id = |frame: &[u8], ip: &Ip| ipv4::Packet::new_unchecked(&frame[ip.offset..]).identification();
        prop_assert_eq!(id(&packet, &ip), id(&whole, &ip_whole).wrapping_add(count));
    }
    if transport.kind == LayerKind::Tcp {
        let header = |frame: &[u8]| tcp::Packet::new_unchecked(&frame[transport.offset..]).header();
        let (own, all) = (header(&packet), header(&whole));
        prop_assert_eq!(own.sequence, all.sequence.wrapping_add(before));
        prop_assert_eq!(own.flags.contains(tcp::Flags::PSH), is_last);
        prop_assert_eq!(own.flags.contains(tcp::Flags::CWR), before == 0);
        prop_assert!(own.flags.contains(tcp::Flags::ACK) && own.acknowledgment == all.acknowledgment);
    }
    Ok(())
}

#[test]
fn what_cannot_be_cut_is_refused() {
    let (tcp, headers_len) = frame(0, true, &[7; 3000]);
    let (udp, _) = frame(1, false, &[7; 3000]);
    let transport_at = headers_len - 20;
    assert!(Segments::new(&tcp, 1000, Some(transport_at)).is_some());
    assert!(Segments::new(&tcp, 1000, Some(transport_at + 4)).is_none());
    assert!(Segments::new(&tcp[..2000], 1000, None).is_none());
    assert!(Segments::new(&tcp, 0, None).is_none());
    let mut fragment = tcp.clone();
    fragment[20] |= 0x20;
    assert!(Segments::new(&fragment, 1000, None).is_none());
    assert!(Segments::fitting(&udp, 1514).is_none() && Segments::fitting(&tcp, headers_len).is_none());
    let mut merged = tcp;
    let mut segments = Segments::fitting(&merged, 1514).unwrap();
    assert_eq!(segments.next(&mut merged).map(|range| range.len()), Some(1514));
}

#[test]
fn accurate_ecn_keeps_its_counter() {
    let (mut merged, _) = frame(0, true, &[1; 100]);
    let mut segments = Segments::new(&merged, 60, None).unwrap().with_accurate_ecn();
    while let Some(range) = segments.next(&mut merged) {
        let (_, _, transport) = places(&merged[range.clone()]);
        let header = tcp::Packet::new_unchecked(&merged[range][transport.offset..]).header();
        assert!(header.flags.contains(tcp::Flags::CWR));
    }
}

#[test]
fn what_is_complete_or_something_else_is_not_partial() {
    for kind in 0..KINDS {
        for is_tcp in [true, false] {
            let (whole, _) = frame(kind, is_tcp, b"some data");
            assert_eq!(PartialChecksum::find(&whole), None, "{kind} {is_tcp}");
        }
    }
    let (mut fragment, _) = frame(0, false, b"some data");
    make_partial(&mut fragment);
    fragment[20] |= 0x20;
    assert_eq!(PartialChecksum::find(&fragment), None);
    assert_eq!(PartialChecksum::find(&[]), None);
    let arp = [&[0xff; 12][..], &[0x08, 0x06], &[0; 46]].concat();
    assert_eq!(PartialChecksum::find(&arp), None);
}

/// A TCP segment, with timestamps, of a stream that begins at `base`.
fn segment_at(v6: bool, number: u16, at: u32, len: usize, flags: tcp::Flags) -> Vec<u8> {
    let stack = Stack::new().with(ethernet::Header::default());
    let stack = match v6 {
        true => stack.with(ipv6::Header { traffic_class: 2, ..Default::default() }),
        false => stack.with(ipv4::Header { dont_fragment: true, identification: number, ..Default::default() }),
    };
    let timestamps = [1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8];
    let sequence = 0xffff_ff00_u32.wrapping_add(at);
    let header = tcp::Header {
        sequence,
        acknowledgment: 9,
        flags,
        window: 77,
        options: Options::new(LayerKind::Tcp, &timestamps).unwrap(),
        ..Default::default()
    };
    let headers = 14 + if v6 { 40 } else { 20 } + 32;
    let mut bytes = stack.with(header).build(headers + len).unwrap().bytes;
    for (place, byte) in bytes[headers..].iter_mut().zip(at..) {
        *place = byte as u8;
    }
    bytes
}

#[test]
fn merged_segments_are_cut_into_what_they_were() {
    const PUSHED: tcp::Flags = tcp::Flags(tcp::Flags::ACK.0 | tcp::Flags::PSH.0);
    const LAST: tcp::Flags = tcp::Flags(PUSHED.0 | tcp::Flags::FIN.0);
    for v6 in [false, true] {
        for (count, last_len, last_flags) in [(2, 1448, tcp::Flags::ACK), (44, 1, LAST), (3, 1447, PUSHED)] {
            let len_of = |number| if number + 1 == count { last_len } else { 1448 };
            let flags_of = |number| if number + 1 == count { last_flags } else { tcp::Flags::ACK };
            let segments: Vec<Vec<u8>> = (0..count)
                .map(|number| segment_at(v6, number as u16, number * 1448, len_of(number), flags_of(number)))
                .collect();
            let mut merge = Merge::begin(&segments[0]).unwrap();
            assert!(segments[1..].iter().all(|segment| merge.append(segment)));
            assert_eq!((merge.segments(), merge.size(), merge.is_ipv6()), (count as usize, 1448, v6));
            let (at, data_len) = (merge.headers_len(), merge.data_len());
            let mut whole = merge.finish().to_vec();
            segments.iter().for_each(|segment| whole.extend_from_slice(&segment[at..]));
            assert_eq!(whole.len(), at + data_len);
            let partial = PartialChecksum::find(&whole).unwrap();
            assert_eq!((partial.start, partial.end), (merge.transport_at(), whole.len()));
            let mut cut = Segments::new(&whole, merge.size(), Some(merge.transport_at())).unwrap();
            for segment in &segments {
                let range = cut.next(&mut whole).unwrap();
                let mut found = whole[range].to_vec();
                // The checksums of the segments that went in were not looked at: the program had none yet.
                let (from, to) = (merge.transport_at() + 16, merge.transport_at() + 18);
                assert!(v6 || verify_checksums(&found).is_ok());
                found[from..to].copy_from_slice(&segment[from..to]);
                assert_eq!(found, *segment);
            }
            assert!(cut.next(&mut whole).is_none());
        }
    }
}

#[test]
fn what_does_not_follow_is_not_merged() {
    for v6 in [false, true] {
        let first = segment_at(v6, 0, 0, 1000, tcp::Flags::ACK);
        let next = segment_at(v6, 1, 1000, 1000, tcp::Flags::ACK);
        let merge = Merge::begin(&first).unwrap();
        assert!(merge.clone().append(&next));
        // Each byte of the headers counts, but identification and checksums.
        let free = if v6 { vec![70, 71] } else { vec![18, 19, 24, 25, 50, 51] };
        for at in 0..merge.headers_len() {
            let mut other = next.clone();
            other[at] ^= 0x40;
            assert_eq!(merge.clone().append(&other), free.contains(&at), "byte {at}, IPv6: {v6}");
        }
        // A gap, a repetition, longer than the first, padding, nothing, a short one in the middle, too much for IP.
        for (at, len) in [(1001, 1000), (0, 1000), (1000, 1001), (1000, 0)] {
            assert!(!merge.clone().append(&segment_at(v6, 1, at, len, tcp::Flags::ACK)));
        }
        assert!(!merge.clone().append(&[&next[..], &[0]].concat()));
        assert!(!merge.clone().append(&[]));
        let mut short = merge.clone();
        assert!(short.append(&segment_at(v6, 1, 1000, 999, tcp::Flags::ACK)));
        assert!(!short.append(&segment_at(v6, 2, 1999, 999, tcp::Flags::ACK)));
        let mut long = merge;
        let taken = (1..100).take_while(|number| long.append(&segment_at(v6, 0, number * 1000, 1000, tcp::Flags::ACK)));
        assert_eq!(taken.count(), 64);
        // No data, other flags, cut short anywhere.
        assert!(Merge::begin(&segment_at(v6, 0, 0, 0, tcp::Flags::ACK)).is_none());
        for flags in [tcp::Flags::SYN, tcp::Flags::RST, tcp::Flags::URG, tcp::Flags::ECE, tcp::Flags::CWR] {
            assert!(Merge::begin(&segment_at(v6, 0, 0, 10, tcp::Flags(flags.0 | tcp::Flags::ACK.0))).is_none());
        }
        assert!(Merge::begin(&segment_at(v6, 0, 0, 10, tcp::Flags(0))).is_none());
        for len in 0..first.len() {
            assert!(Merge::begin(&first[..len]).is_none());
        }
    }
    let mut fragment = segment_at(false, 0, 0, 1000, tcp::Flags::ACK);
    fragment[20] = 0x20;
    assert!(Merge::begin(&fragment).is_none());
    let mut may_be_cut = segment_at(false, 0, 0, 1000, tcp::Flags::ACK);
    may_be_cut[20] = 0;
    assert!(Merge::begin(&may_be_cut).is_none());
}
