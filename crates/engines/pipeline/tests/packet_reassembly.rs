//! Reassembly of fragments, under a clock that the test sets.

use super::packets;

use linerate_pipeline::packet::{Fragment, Headers, cut_into_fragments};
use linerate_reassembly::{FragmentDrop, Reassembler, Reassembly, ReassemblyLimits};
use packets::make::{self, Random};

/// An IP packet without fragmentation, and the same in fragments of at most `max` data bytes.
fn fragmented(random: &mut Random, max: usize) -> (Vec<u8>, Vec<Vec<u8>>) {
    let mut ethernet = random.bytes(12);
    for _ in 0..random.below(3) {
        ethernet.extend([0x81, 0, 0, random.below(4) as u8]);
    }
    let len = 1 + random.below(5000) as usize;
    let data = random.bytes(len);
    let identification = random.bytes(4);
    if random.below(2) == 0 {
        ethernet.extend([8, 0]);
        let options_len = random.one_of(&[0, 0, 8, 40]);
        let options = random.bytes(options_len);
        let addresses = random.bytes(8);
        let ttl = random.next() as u8;
        let packet = |data: &[u8], fragment: u16| {
            let mut header = vec![0x45 + (options.len() / 4) as u8, 0];
            header.extend(((20 + options.len() + data.len()) as u16).to_be_bytes());
            header.extend(&identification[..2]);
            header.extend(fragment.to_be_bytes());
            header.extend([ttl, 99, 0, 0]);
            header.extend(&addresses);
            header.extend(&options);
            let checksum = !make::sum(&header);
            header[10..12].copy_from_slice(&checksum.to_be_bytes());
            [&ethernet, &header, data].concat()
        };
        let pieces = pieces(&data, max, |at, piece, more| packet(piece, (at / 8) as u16 | u16::from(more) << 13));
        return (packet(&data, 0), pieces);
    }
    ethernet.extend([0x86, 0xdd]);
    let addresses = random.bytes(32);
    // Some packets have destination options in front of the fragment header, and some behind.
    let front = if random.below(2) == 0 { vec![44, 0, 1, 4, 0, 0, 0, 0] } else { Vec::new() };
    let packet = |between: &[u8], front: &[u8], data: &[u8]| {
        let mut header = vec![0x60, 0, 0, 0];
        header.extend(((front.len() + between.len() + data.len()) as u16).to_be_bytes());
        let first = if !front.is_empty() {
            60
        } else if between.is_empty() {
            99
        } else {
            44
        };
        header.extend([first, 64]);
        header.extend(&addresses);
        [&ethernet, &header, front, between, data].concat()
    };
    let pieces = pieces(&data, max, |at, piece, more| {
        let mut between = vec![99, 0];
        between.extend((at as u16 | u16::from(more)).to_be_bytes());
        between.extend(&identification);
        packet(&between, &front, piece)
    });
    let mut whole_front = front.clone();
    if let Some(next) = whole_front.first_mut() {
        *next = 99;
    }
    (packet(&[], &whole_front, &data), pieces)
}

fn pieces(data: &[u8], max: usize, make: impl Fn(usize, &[u8], bool) -> Vec<u8>) -> Vec<Vec<u8>> {
    let step = max / 8 * 8;
    let places = (0..data.len()).step_by(step);
    places.map(|at| make(at, &data[at..data.len().min(at + step)], at + step < data.len())).collect()
}

fn shuffle<T>(random: &mut Random, items: &mut [T]) {
    for at in (1..items.len()).rev() {
        items.swap(at, random.below(at as u64 + 1) as usize);
    }
}

fn add<'a>(reassembler: &'a mut Reassembler, packet: &[u8], now_ns: u64) -> Reassembly<'a> {
    let headers = Headers::parse(packet);
    assert_ne!(headers.fragment(), Fragment::Whole);
    reassembler.add(packet, headers.network_offset(), 1, now_ns)
}

#[test]
fn packets_come_out_as_they_were_in_whatever_order_their_fragments_come() {
    let mut reassembler = Reassembler::new(ReassemblyLimits { packets: 8, timeout_ns: 1000 });
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let mut waiting = Vec::new();
        let mut wholes = Vec::new();
        for _ in 0..4 {
            let (whole, mut pieces) = fragmented(&mut random, 400);
            if pieces.len() > 1 {
                // Some come twice, but not the one that makes the packet whole.
                let again = pieces[random.below(pieces.len() as u64) as usize].clone();
                shuffle(&mut random, &mut pieces);
                if pieces.last() != Some(&again) {
                    pieces.insert(0, again);
                }
                waiting.push(pieces);
                wholes.push(whole);
            }
        }
        let mut out = Vec::new();
        while !waiting.is_empty() {
            let at = random.below(waiting.len() as u64) as usize;
            let piece = waiting[at].remove(0);
            if waiting[at].is_empty() {
                waiting.remove(at);
            }
            match add(&mut reassembler, &piece, seed) {
                Reassembly::Held => {}
                Reassembly::Whole { packet, .. } => out.push(packet.to_vec()),
                Reassembly::Refused(why) => panic!("seed {seed}: {why:?}"),
            }
        }
        out.sort();
        wholes.sort();
        assert!(out == wholes, "seed {seed}");
        assert_eq!((reassembler.held(), reassembler.next_deadline_ns()), (0, u64::MAX));
    }
    let given_up = reassembler.given_up();
    assert!(given_up.repeated > 300 && given_up.late == 0 && given_up.refused == 0 && given_up.displaced == 0);
}

#[test]
fn an_overlap_gives_the_packet_up_and_refuses_its_other_fragments() {
    let mut random = Random::new(1);
    let mut tried = 0;
    for seed in 0..200 {
        let mut reassembler = Reassembler::new(ReassemblyLimits { packets: 2, timeout_ns: 1000 });
        let (_, pieces) = fragmented(&mut Random::new(seed), 400);
        let (_, longer) = fragmented(&mut Random::new(seed), 600);
        if pieces.len() < 4 {
            continue;
        }
        tried += 1;
        let mut changed = pieces[1].clone();
        *changed.last_mut().unwrap() ^= 1;
        // The same place with other data, or data that reach over two fragments.
        let hostile = if random.below(2) == 0 { changed } else { longer[1].clone() };
        assert_eq!(add(&mut reassembler, &pieces[0], 0), Reassembly::Held);
        assert_eq!(add(&mut reassembler, &pieces[1], 0), Reassembly::Held);
        assert_eq!(add(&mut reassembler, &hostile, 0), Reassembly::Refused(FragmentDrop::Overlap));
        assert_eq!((reassembler.held(), reassembler.given_up().refused), (0, 2));
        for piece in &pieces[2..] {
            assert_eq!(add(&mut reassembler, piece, 1), Reassembly::Refused(FragmentDrop::Overlap));
        }
        // It is forgotten after its time.
        assert_eq!(add(&mut reassembler, &pieces[0], 1000), Reassembly::Held);
    }
    assert!(tried > 50);
}

#[test]
fn late_packets_are_given_up_and_the_oldest_makes_room() {
    let mut reassembler = Reassembler::new(ReassemblyLimits { packets: 2, timeout_ns: 100 });
    let some = |seed| {
        let all = (seed..).map(|seed| fragmented(&mut Random::new(seed), 2400).1);
        all.into_iter().find(|pieces| pieces.len() > 1).unwrap()
    };
    let (first, second, third) = (some(100), some(200), some(300));
    assert_eq!(add(&mut reassembler, &first[0], 0), Reassembly::Held);
    assert_eq!(add(&mut reassembler, &second[0], 50), Reassembly::Held);
    assert_eq!((reassembler.held(), reassembler.next_deadline_ns()), (2, 100));
    assert_eq!(add(&mut reassembler, &third[0], 60), Reassembly::Held);
    assert_eq!((reassembler.held(), reassembler.given_up().displaced), (2, 1), "the first made room");
    reassembler.expire(149);
    assert_eq!((reassembler.held(), reassembler.given_up().late), (2, 0));
    reassembler.expire(150);
    assert_eq!((reassembler.held(), reassembler.given_up().late, reassembler.next_deadline_ns()), (1, 1, 160));
}

#[test]
fn fragments_of_another_port_or_vlan_are_of_another_packet() {
    let mut reassembler = Reassembler::new(ReassemblyLimits { packets: 4, timeout_ns: 100 });
    let (_, pieces) =
        (0..).map(|seed| fragmented(&mut Random::new(seed), 2400)).find(|(_, all)| all.len() == 2).unwrap();
    let network = |packet: &[u8]| Headers::parse(packet).network_offset();
    assert_eq!(reassembler.add(&pieces[0], network(&pieces[0]), 1, 0), Reassembly::Held);
    assert_eq!(reassembler.add(&pieces[1], network(&pieces[1]), 2, 0), Reassembly::Held);
    let mut tagged = pieces[1].clone();
    tagged.splice(12..12, [0x81, 0, 0, 9]);
    assert_eq!(reassembler.add(&tagged, network(&tagged), 1, 0), Reassembly::Held);
    assert_eq!(reassembler.held(), 3);
    assert!(matches!(reassembler.add(&pieces[1], network(&pieces[1]), 1, 0), Reassembly::Whole { fragments: 2, .. }));
}

/// Random fragments of a few identities: nothing panics, and the account adds up.
#[test]
fn every_fragment_is_accounted_for() {
    let mut reassembler = Reassembler::new(ReassemblyLimits { packets: 3, timeout_ns: 40 });
    let mut random = Random::new(9);
    let (mut added, mut refused, mut whole, mut wholes) = (0, 0, 0, 0);
    let mut now_ns = 0;
    for _ in 0..60_000 {
        now_ns += random.one_of(&[0, 1, 1, 1, 1, 30]);
        let mut packet = vec![0; 12];
        packet.extend([8, 0, 0x45, random.one_of(&[0, 0, 1, 3]), 0, 0, 0, random.below(6) as u8]);
        let more = random.one_of(&[0u16, 0x2000]);
        packet.extend((random.one_of(&[0, 0, 1, 2, 3, 8190]) | more).to_be_bytes());
        packet.extend([64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        packet.extend(vec![7; random.one_of(&[8, 8, 8, 16, 5, 0])]);
        let len = packet.len() as u16 - 14 + u16::from(random.below(50) == 0);
        packet[16..18].copy_from_slice(&len.to_be_bytes());
        if Headers::parse(&packet).fragment() == Fragment::Whole {
            continue;
        }
        added += 1;
        match add(&mut reassembler, &packet, now_ns) {
            Reassembly::Held => {}
            Reassembly::Refused(_) => refused += 1,
            Reassembly::Whole { packet, fragments } => {
                assert_eq!(make::sum(&packet[14..34]), 0xffff);
                assert_eq!(Headers::parse(packet).fragment(), Fragment::Whole);
                whole += fragments;
                wholes += 1;
            }
        }
        let given_up = reassembler.given_up();
        let others = given_up.refused + given_up.late + given_up.displaced + given_up.repeated;
        assert_eq!(added, reassembler.held() + refused + others + whole);
    }
    let given_up = reassembler.given_up();
    let all = [wholes, refused, given_up.refused, given_up.late, given_up.displaced, given_up.repeated];
    assert!(all.iter().all(|count| *count > 50), "{all:?}");
}

#[test]
fn packets_that_are_cut_become_whole_again() {
    let mut random = Random::new(77);
    for round in 0..2000 {
        let (whole, _) = fragmented(&mut random, 1480);
        let headers = Headers::parse(&whole);
        let len_max = 150 + random.below(1500) as usize;
        let (mut pieces, mut made) = (Vec::new(), Vec::new());
        assert!(cut_into_fragments(&whole, &headers, len_max, round, &mut made, |piece| pieces.push(piece.to_vec())));
        assert!(pieces.iter().all(|piece| piece.len() <= len_max) && !pieces.is_empty());
        let mut reassembler = Reassembler::new(ReassemblyLimits::default());
        shuffle(&mut random, &mut pieces);
        for (number, piece) in pieces.iter().enumerate() {
            let headers = Headers::parse(piece);
            // A packet of IPv4 that fits is itself.
            if headers.fragment() == Fragment::Whole {
                assert_eq!((pieces.len(), piece == &whole || piece.len() == whole.len() + 8), (1, true));
                break;
            }
            match reassembler.add(piece, headers.network_offset(), 1, 0) {
                Reassembly::Whole { packet, fragments } => {
                    assert_eq!((packet, fragments as usize), (&whole[..], pieces.len()));
                    assert_eq!(number + 1, pieces.len());
                }
                Reassembly::Held => assert!(number + 1 < pieces.len()),
                Reassembly::Refused(why) => panic!("{why:?}"),
            }
        }
    }
}

/// Packets that nobody may cut, and ports that take too little.
#[test]
fn some_packets_are_not_cut() {
    let mut random = Random::new(78);
    let mut packet = loop {
        let (whole, _) = fragmented(&mut random, 1480);
        if whole.len() > 500 && whole[12..14] == [8, 0] {
            break whole;
        }
    };
    let cut = |packet: &[u8], len_max: usize| {
        cut_into_fragments(packet, &Headers::parse(packet), len_max, 1, &mut Vec::new(), |_| ())
    };
    assert!(cut(&packet, 200));
    assert!(!cut(&packet, 40) && !cut(&packet, 0));
    assert!(!cut(&packet[..100], 60), "it is not all there");
    packet[20] |= 0x40;
    assert!(!cut(&packet, 200), "don't fragment");
    assert!(!cut(&[0; 60], 40));
}
