//! Files made byte by byte, and what is read from them.

mod make;

use linerate_pcapng::{CaptureError, CaptureReader};
use make::{BOTH, Order, block, enhanced, interface, obsolete, packet, pcap_header, pcap_record, section, simple};

/// Time, true length, link type and bytes of each packet, and the error at the end.
type Read = (Vec<(u64, u32, u16, Vec<u8>)>, Option<CaptureError>);

fn read(file: &[u8]) -> Read {
    let mut packets = Vec::new();
    let mut reader = CaptureReader::new(file).unwrap();
    loop {
        match reader.next() {
            Ok(Some(head)) => {
                packets.push((head.time_ns, head.original_len, head.link_type, reader.packet().to_vec()));
            }
            Ok(None) => return (packets, None),
            Err(error) => return (packets, Some(error)),
        }
    }
}

fn read_all(file: &[u8]) -> Vec<(u64, u32, u16, Vec<u8>)> {
    let (packets, error) = read(file);
    assert!(error.is_none(), "{error:?}");
    packets
}

fn join(parts: &[Vec<u8>]) -> Vec<u8> {
    parts.concat()
}

#[test]
fn pcap_in_both_orders_and_both_units() {
    for order in BOTH {
        for (magic, unit_ns) in [(0xa1b2_c3d4, 1000), (0xa1b2_3c4d, 1)] {
            let file = join(&[
                pcap_header(order, magic, 1),
                pcap_record(order, 1_700_000_000, 999_999, &packet(1, 60), 60),
                pcap_record(order, 4_000_000_000, 0, &packet(2, 61), 1514),
                pcap_record(order, 0, 1, &[], 0),
            ]);
            let expected = [
                (1_700_000_000_000_000_000 + 999_999 * unit_ns, 60, 1, packet(1, 60)),
                (4_000_000_000_000_000_000, 1514, 1, packet(2, 61)),
                (unit_ns, 0, 1, vec![]),
            ];
            assert_eq!(read_all(&file), expected, "{order:?} {magic:x}");
        }
    }
}

#[test]
fn pcap_with_a_frame_check_sequence() {
    // Four bytes of FCS (two units of two), said by bit 26.
    let link = 2 << 28 | 1 << 26 | 1;
    let file = join(&[
        pcap_header(Order::Big, 0xa1b2_3c4d, link),
        pcap_record(Order::Big, 0, 0, &packet(1, 64), 64),
        pcap_record(Order::Big, 0, 0, &packet(2, 62), 64),
        pcap_record(Order::Big, 0, 0, &packet(3, 40), 64),
    ]);
    let lens: Vec<(u32, usize)> = read_all(&file).iter().map(|read| (read.1, read.3.len())).collect();
    assert_eq!(lens, [(60, 60), (60, 60), (60, 40)]);
}

#[test]
fn pcapng_with_several_sections_interfaces_and_kinds_of_blocks() {
    let mut file = Vec::new();
    for order in BOTH {
        file.extend(join(&[
            section(order),
            interface(order, 1, 0, &[]),
            interface(order, 1, 80, &[(2, b"eth1"), (9, &[9]), (14, &order.u64(10))]),
            interface(order, 101, 0, &[(9, &[0x80 | 10])]),
            enhanced(order, 0, 5, &packet(1, 60), 60),
            block(order, 5, &[1; 40]),
            block(order, 0x8000_0001, &[]),
            enhanced(order, 1, 6, &packet(2, 61), 1000),
            enhanced(order, 2, 2048, &packet(3, 20), 20),
            obsolete(order, 1, 7, &packet(4, 62)),
            simple(order, &packet(5, 63), 63),
        ]));
    }
    let one = [
        (5_000, 60, 1, packet(1, 60)),
        (10_000_000_006, 1000, 1, packet(2, 61)),
        (2_000_000_000, 20, 101, packet(3, 20)),
        (10_000_000_007, 62, 1, packet(4, 62)),
        (0, 63, 1, packet(5, 63)),
    ];
    assert_eq!(read_all(&file), [one.clone(), one].concat());
}

#[test]
fn a_simple_packet_is_as_long_as_the_snaplen_allows() {
    let order = Order::Little;
    let file = join(&[section(order), interface(order, 1, 50, &[]), simple(order, &packet(1, 50), 1514)]);
    assert_eq!(read_all(&file), [(0, 1514, 1, packet(1, 50))]);
}

#[test]
fn pcapng_with_a_frame_check_sequence() {
    let order = Order::Big;
    let file = join(&[
        section(order),
        interface(order, 1, 0, &[(13, &[32])]),
        enhanced(order, 0, 0, &packet(1, 64), 64),
        enhanced(order, 0, 0, &packet(1, 64), 1518),
    ]);
    let read = read_all(&file);
    assert_eq!((read[0].1, read[0].3.len(), read[1].1, read[1].3.len()), (60, 60, 1514, 64));
}

#[test]
fn what_is_cut_off_is_named_with_its_place_and_what_came_before_is_read() {
    for order in BOTH {
        let head = join(&[pcap_header(order, 0xa1b2_3c4d, 1), pcap_record(order, 0, 0, &packet(1, 60), 60)]);
        let file = join(&[head.clone(), pcap_record(order, 0, 0, &packet(2, 100), 100)]);
        for len in head.len() + 1..file.len() {
            let (packets, error) = read(&file[..len]);
            let text = error.unwrap().to_string();
            assert_eq!(packets.len(), 1);
            assert!(text.contains("begins at byte 100:"), "{text}");
            assert!(text.contains(&format!("{} of its", len - 100)), "{text}");
        }
        let head = join(&[section(order), interface(order, 1, 0, &[]), enhanced(order, 0, 0, &packet(1, 60), 60)]);
        for last in [enhanced(order, 0, 0, &packet(2, 100), 100), block(order, 77, &[1; 60])] {
            let file = join(&[head.clone(), last]);
            for len in head.len() + 1..file.len() {
                let (packets, error) = read(&file[..len]);
                let text = error.unwrap().to_string();
                assert_eq!(packets.len(), 1);
                assert!(text.contains(&format!("begins at byte {}: {} of", head.len(), len - head.len())), "{text}");
            }
        }
    }
}

/// The error that reading `file` ends with.
fn complaint(file: &[u8]) -> String {
    match CaptureReader::new(file) {
        Err(error) => error.to_string(),
        Ok(_) => read(file).1.map(|error| error.to_string()).unwrap_or_default(),
    }
}

#[test]
fn values_that_cannot_be_are_errors() {
    for order in BOTH {
        let pcap = pcap_header(order, 0xa1b2_3c4d, 1);
        for len in [262_145u32, 1 << 31, u32::MAX] {
            let record = [order.u32(0), order.u32(0), order.u32(len), order.u32(60)].concat();
            let text = complaint(&join(&[pcap.clone(), record]));
            assert!(text.contains("byte 24") && text.contains(&format!("a packet of {len} bytes")), "{text}");
        }
        let start = join(&[section(order), interface(order, 1, 0, &[])]);
        // Lengths of blocks: too short, odd, four gigabytes.
        for len in [0u32, 8, 13, 61, u32::MAX - 3, u32::MAX] {
            let mut bad = block(order, 6, &[0; 60]);
            bad[4..8].copy_from_slice(&order.u32(len));
            let text = complaint(&join(&[start.clone(), bad]));
            assert!(text.contains(&format!("{len} bytes")), "{len}: {text}");
        }
        let mut differing = enhanced(order, 0, 0, &packet(1, 60), 60);
        let end = differing.len() - 4;
        differing[end..].copy_from_slice(&order.u32(96));
        let with = |part: Vec<u8>| complaint(&join(&[start.clone(), part]));
        assert!(with(differing).contains("in front and 96 behind"));
        assert!(with(enhanced(order, 1, 0, &packet(1, 60), 60)).contains("interface 1, of 1"));
        assert!(
            with(block(order, 6, &[0; 8])).contains("16 bytes") || with(block(order, 6, &[0; 8])).contains("20 bytes")
        );
        let mut long = enhanced(order, 0, 0, &packet(1, 60), 60);
        long[20..24].copy_from_slice(&order.u32(61));
        assert!(with(long).contains("61 bytes in a block with room for 60"));
        assert!(with(simple(order, &packet(1, 60), 61)).contains("61 bytes in a block"));
        let mut options = interface(order, 1, 0, &[(9, &[9])]);
        options[18..20].copy_from_slice(&order.u16(60_000));
        assert!(with(options).contains("longer than the block"));
        let mut version = section(order);
        version[12..14].copy_from_slice(&order.u16(2));
        assert!(complaint(&version).contains("version 2.0"));
        let mut mark = section(order);
        mark[8] = 7;
        assert!(complaint(&mark).contains("byte order"));
        // A packet before any interface.
        assert!(complaint(&join(&[section(order), simple(order, &packet(1, 60), 60)])).contains("of 0 interfaces"));
    }
}

#[test]
fn other_files_are_named() {
    for (file, words) in [
        (&b""[..], "empty"),
        (b"ab", "too short"),
        (b"\x1f\x8b\x08\x00", "gunzip"),
        (b"\x28\xb5\x2f\xfd", "unzstd"),
        (b"\x34\xcd\xb2\xa1aaaaaaaaaaaaaaaaaaaa", "editcap"),
        (b"#!/bin/sh\n", "neither pcap nor pcapng"),
        (b"\xd4\xc3\xb2\xa1\x02\x00\x04", "file header"),
        (b"\xd4\xc3\xb2\xa1\x01\x00\x00\x00aaaaaaaaaaaaaaaa", "version 1.0"),
    ] {
        let text = complaint(file);
        assert!(text.contains(words), "{file:?}: {text}");
    }
}

#[test]
fn a_section_may_hold_only_so_many_interfaces() {
    let order = Order::Little;
    let mut file = section(order);
    for _ in 0..65_537 {
        file.extend(interface(order, 1, 0, &[]));
    }
    assert!(complaint(&file).contains("more than 65536 interfaces"));
}
