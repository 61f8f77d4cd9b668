//! Packets made from options, parsed anew.

use std::collections::HashSet;

use linerate_gen::Stream;
use linerate_wire::{FlowKey, Parsed, verify_checksums};

use super::super::parse::{Request, parse};
use super::*;

fn options(line: &str) -> Options {
    let words: Vec<String> = line.split_whitespace().map(str::to_string).collect();
    match parse(&words) {
        Ok(Request::Run(options)) => *options,
        other => panic!("{line}: {other:?}"),
    }
}

fn packets(line: &str, count: usize) -> Vec<Vec<u8>> {
    let plan = stream(&options(line), MacAddress([2, 0, 0, 0, 0, 9]), 0).expect(line);
    let mut stream = Stream::new(&plan);
    let make = |_| {
        let (image, len) = stream.next_image();
        let mut packet = vec![0; len];
        stream.write(image, &mut packet, 0);
        verify_checksums(&packet).expect(line);
        packet
    };
    (0..count).map(make).collect()
}

/// Source port, last byte of the source, destination port, last byte of the destination.
fn wheels(packet: &[u8]) -> [u16; 4] {
    let word = |at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
    [word(34), u16::from(packet[29]), word(36), u16::from(packet[33])]
}

#[test]
fn a_plain_packet_is_the_originals() {
    let packet = &packets("-i x -f tx -D 02:00:00:00:00:01", 1)[0];
    assert_eq!(packet.len(), 60);
    assert_eq!(packet[..14], [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 8, 0]);
    // Version and length, low delay, 46 bytes, no identification, don't fragment, 64 hops, UDP.
    assert_eq!(packet[14..24], [0x45, 0x10, 0, 46, 0, 0, 0x40, 0, 64, 17]);
    assert_eq!(packet[26..34], [10, 0, 0, 1, 10, 1, 0, 1]);
    assert_eq!(packet[34..40], [0x04, 0xd2, 0x04, 0xd2, 0, 26]);
}

#[test]
fn ranges_turn_as_an_odometer() {
    let line = "-i x -f tx -s 10.0.0.1:10-10.0.0.3:11 -d 10.1.0.5:7-10.1.0.6:8";
    for (number, packet) in packets(line, 60).iter().enumerate() {
        let number = number as u16;
        let expected = [10 + number % 2, 1 + number / 2 % 3, 7 + number / 6 % 2, 5 + number / 12 % 2];
        assert_eq!(wheels(packet), expected, "packet {number}");
    }
}

#[test]
fn the_published_flow_patterns_are_that_many_flows() {
    let flows = |line: &str| {
        let keys = packets(&format!("-i x -f tx -l 124 {line}"), 10_000);
        keys.iter().filter_map(|packet| FlowKey::from_frame(packet)).collect::<HashSet<_>>().len()
    };
    assert_eq!(flows("-s 192.0.2.1 -d 192.0.2.101"), 1);
    assert_eq!(flows("-s 192.0.2.1-192.0.2.100 -d 192.0.2.101"), 100);
    assert_eq!(flows("-s 192.0.2.1 -d 192.0.2.101-192.0.2.200"), 100);
    assert_eq!(flows("-s 192.0.2.1-192.0.2.100 -d 192.0.2.101-192.0.2.200"), 10_000);
}

#[test]
fn random_sides_differ_in_every_packet_while_the_other_turns() {
    let made = packets("-i x -f tx -z -d 10.1.0.1:5-10.1.0.3:5", 300);
    let sources: HashSet<[u8; 4]> = made.iter().filter_map(|packet| packet[26..30].try_into().ok()).collect();
    let ports: HashSet<[u8; 2]> = made.iter().filter_map(|packet| packet[34..36].try_into().ok()).collect();
    assert!(sources.len() > 295 && ports.len() > 290, "{} {}", sources.len(), ports.len());
    for (number, packet) in made.iter().enumerate() {
        assert_eq!(usize::from(packet[33]), 1 + number % 3);
    }
    let both = packets("-i x -f tx -zZ", 300);
    assert!(both.iter().collect::<HashSet<_>>().len() == 300);
}

#[test]
fn ipv6_varies_in_the_word_of_its_group() {
    let made =
        packets("-i x -f tx -6 -s 3@[2001:2::1]:9-[2001:2:0:4::1]:9 -d [2001:2:0:1::fffe]-[2001:2:0:1::ffff]", 20);
    for (number, packet) in made.iter().enumerate() {
        let parsed = Parsed::parse(packet).expect("IPv6");
        assert!(parsed.ip.is_some());
        assert_eq!(packet[28..30], (number as u16 % 5).to_be_bytes(), "packet {number}");
        assert_eq!(packet[52..54], (0xfffe + number as u16 / 5 % 2).to_be_bytes(), "packet {number}");
    }
    assert_eq!(packets("-i x -f tx -6 -Z", 100).iter().collect::<HashSet<_>>().len(), 100);
}

#[test]
fn sizes_are_random_between_both_and_checksums_stay_right() {
    let lens: Vec<usize> = packets("-i x -f tx -l 100 -l 60", 2000).iter().map(Vec::len).collect();
    assert_eq!((lens.iter().min(), lens.iter().max()), (Some(&60), Some(&99)));
    assert_eq!(lens.iter().collect::<HashSet<_>>().len(), 40);
    assert_eq!(packets("-i x -f tx -l 100 -l 100", 3)[2].len(), 100);
    // A range of sizes that would need hundreds of megabytes of templates is thinned out.
    let wide = stream(&options("-i x -f tx -l 30000 -l 60"), MacAddress::ZERO, 0).expect("wide");
    let bytes: usize = wide.images.iter().map(|image| image.bytes.len()).sum();
    assert!(wide.images.len() > 400 && bytes <= IMAGES_BYTES_MAX + 30_000);
}

#[test]
fn numbered_packets_carry_their_number() {
    for (line, at) in [("-i x -f txseq", 42), ("-i x -f txseq -6 -l 80", 62)] {
        for (number, packet) in packets(line, 300).iter().enumerate() {
            assert_eq!(packet[at..at + 4], (number as u32).to_be_bytes(), "{line}");
        }
    }
    let ranged = packets("-i x -f txseq -s 10.0.0.1-10.0.0.2", 4);
    assert_eq!(
        ranged.iter().map(|packet| (packet[45], packet[29])).collect::<Vec<_>>(),
        [(0, 1), (1, 2), (2, 1), (3, 2)]
    );
}

#[test]
fn timestamped_packets_end_in_a_signature() {
    let made = packets("-i x -f tx -o 16", 3);
    assert_eq!(linerate_gen::Signature::read(&made[2]).map(|signature| signature.sequence), Some(2));
}
