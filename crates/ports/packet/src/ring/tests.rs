//! The walker against rings written by hand: what a kernel writes, and what no kernel would.

use proptest::prelude::*;

use super::*;

const SHAPE: RingShape = RingShape { block_bytes: 4096, blocks: 2, retire_ms: 1, prompt: false };
/// Where the frame starts after its packet header, as in a real ring: header, sockaddr_ll, padding.
const MAC_AT: usize = 82;
const FIRST: usize = BLOCK_HEADER_BYTES;

/// A packet for the ring; `tag` as the kernel would have taken it out.
struct Frame<'a> {
    bytes: &'a [u8],
    tag: Option<[u8; 4]>,
    /// Bytes of the packet before it was cut to fit.
    whole_len: usize,
}

fn frame(bytes: &[u8]) -> Frame<'_> {
    Frame { bytes, tag: None, whole_len: bytes.len() }
}

fn put(mapping: &mut Mapping, at: usize, words: &[u32]) {
    for (index, word) in words.iter().enumerate() {
        mapping.write(at + 4 * index, &word.to_ne_bytes());
    }
}

/// Writes frames into block `block` and hands it over.
fn fill(mapping: &mut Mapping, block: usize, frames: &[Frame<'_>]) {
    let start = block * SHAPE.block_bytes;
    let mut offset = FIRST;
    for (index, frame) in frames.iter().enumerate() {
        let next = (MAC_AT + frame.bytes.len()).next_multiple_of(8);
        let last = index + 1 == frames.len();
        let (status, tci, tpid) = match frame.tag {
            Some([a, b, c, d]) => (
                libc::TP_STATUS_VLAN_VALID | libc::TP_STATUS_VLAN_TPID_VALID,
                u32::from(u16::from_be_bytes([c, d])),
                u32::from(u16::from_be_bytes([a, b])),
            ),
            None => (0, 0, 0),
        };
        let (stored, whole) = (frame.bytes.len() as u32, frame.whole_len as u32);
        let header = [if last { 0 } else { next as u32 }, 1, index as u32, stored, whole, status, MAC_AT as u32];
        put(mapping, start + offset, &header);
        put(mapping, start + offset + 32, &[tci, tpid]);
        mapping.write(start + offset + MAC_AT, frame.bytes);
        offset += next;
    }
    put(mapping, start + STATUS_AT, &[libc::TP_STATUS_USER, frames.len() as u32, FIRST as u32]);
}

fn ring() -> (Mapping, BlockRing) {
    // Both see the same bytes, as a kernel and its reader do.
    let (writing, reading) = Mapping::pair(SHAPE.block_bytes * SHAPE.blocks);
    (writing, BlockRing::new(reading, SHAPE))
}

/// Takes out up to `count` packets.
fn read(ring: &mut BlockRing, count: usize) -> Vec<Vec<u8>> {
    let mut packets = vec![];
    while packets.len() < count
        && let Some(packet) = ring.front().unwrap()
    {
        let mut bytes = vec![0; packet.len()];
        ring.copy(&packet, 0, &mut bytes);
        packets.push(bytes);
        ring.advance(&packet);
    }
    packets
}

#[test]
fn packets_come_in_order_and_blocks_go_back_when_read() {
    let (mut mapping, mut ring) = ring();
    assert!(!ring.ready());
    for round in 0..5u8 {
        let block = usize::from(round) % 2;
        fill(&mut mapping, block, &[frame(&[round; 60]), frame(&[round + 100; 61]), frame(&[round + 200; 14])]);
        assert!(ring.ready());
        assert_eq!(read(&mut ring, 2), [vec![round; 60], vec![round + 100; 61]]);
        let status_at = block * SHAPE.block_bytes + STATUS_AT;
        assert_eq!(mapping.load_acquire(status_at), Some(libc::TP_STATUS_USER));
        assert_eq!(read(&mut ring, 2), [vec![round + 200; 14]]);
        assert_eq!(mapping.load_acquire(status_at), Some(libc::TP_STATUS_KERNEL));
        assert!(!ring.ready());
    }
}

#[test]
fn blocks_of_one_packet_are_read_one_by_one() {
    let shape = RingShape { block_bytes: 2048, blocks: 4, retire_ms: 0, prompt: true };
    let (mut mapping, reading) = Mapping::pair(shape.block_bytes * shape.blocks);
    let mut ring = BlockRing::new(reading, shape);
    for number in 0..10u8 {
        assert!(!ring.ready());
        let start = usize::from(number) % 4 * shape.block_bytes;
        // struct tpacket2_hdr: status, len, snaplen, mac and net, seconds, nanoseconds, tci and tpid.
        let status = libc::TP_STATUS_USER | libc::TP_STATUS_VLAN_VALID | libc::TP_STATUS_VLAN_TPID_VALID;
        let [low, high] = 0x8100_u16.to_ne_bytes();
        let words = [60 + u32::from(number % 2), 60, MAC_AT as u32, 1, u32::from(number)];
        put(&mut mapping, start + 4, &words);
        mapping.write(start + 24, &[5, 0, low, high]);
        mapping.write(start + MAC_AT, &[number; 60]);
        put(&mut mapping, start, &[status]);
        assert!(ring.ready());
        let found = ring.front().unwrap().unwrap();
        assert_eq!((found.len(), found.time_ns), (64, 1_000_000_000 + u64::from(number)));
        assert_eq!(found.truncated, number % 2 == 1);
        let mut bytes = [0; 64];
        ring.copy(&found, 0, &mut bytes);
        assert_eq!(
            (&bytes[..12], &bytes[12..16], &bytes[16..]),
            (&[number; 12][..], &[0x81, 0, 0, 5][..], &[number; 48][..])
        );
        ring.advance(&found);
        assert_eq!(mapping.load_acquire(start), Some(libc::TP_STATUS_KERNEL));
    }
    // A length that leads out of the block.
    put(&mut mapping, 2 * 2048, &[libc::TP_STATUS_USER, 60, 2048, MAC_AT as u32]);
    assert!(ring.front().is_err());
}

#[test]
fn a_walk_shows_what_single_steps_take_out() {
    for packets_max in [1, 2, 3, 4, 100] {
        let (mut mapping, mut ring) = ring();
        let frames: Vec<Vec<u8>> = (0..5u8).map(|number| vec![number; 20 + 30 * usize::from(number)]).collect();
        fill(&mut mapping, 0, &frames[..3].iter().map(|bytes| frame(bytes)).collect::<Vec<_>>());
        fill(&mut mapping, 1, &frames[3..].iter().map(|bytes| frame(bytes)).collect::<Vec<_>>());
        assert_eq!(ring.filled_blocks(), 2);
        let mut shown = Vec::new();
        loop {
            let before = shown.len();
            let walked = ring.walk(packets_max, |ring, found| {
                let mut bytes = vec![0; found.len()];
                ring.copy(found, 0, &mut bytes);
                shown.push(bytes);
            });
            assert_eq!(walked, Ok(shown.len() - before));
            assert!(shown.len() - before <= packets_max);
            // The block goes back with its last packet, not before.
            let kept = mapping.load_acquire(STATUS_AT) == Some(libc::TP_STATUS_USER);
            assert_eq!(kept, shown.len() < 3);
            if shown.len() == before {
                break;
            }
        }
        assert_eq!((shown, ring.filled_blocks()), (frames, 0));
    }
}

#[test]
fn an_empty_block_is_passed_over() {
    let (mut mapping, mut ring) = ring();
    fill(&mut mapping, 0, &[]);
    fill(&mut mapping, 1, &[frame(&[7; 60])]);
    assert_eq!(read(&mut ring, 8), [vec![7; 60]]);
    fill(&mut mapping, 0, &[]);
    fill(&mut mapping, 1, &[]);
    assert_eq!(read(&mut ring, 8), [[0; 0]; 0]);
    assert!(!ring.ready());
}

#[test]
fn a_tag_is_put_back_wherever_the_copy_is_cut() {
    let (mut mapping, mut ring) = ring();
    let tag = [0x88, 0xa8, 0xe0, 0x05];
    let bytes: Vec<u8> = (0..60).collect();
    let wire = [&bytes[..12], &tag, &bytes[12..]].concat();
    fill(&mut mapping, 0, &[Frame { tag: Some(tag), ..frame(&bytes) }]);
    let found = ring.front().unwrap().unwrap();
    assert_eq!((found.len(), found.time_ns), (64, 1_000_000_000));
    for cut in 0..=64 {
        let mut copy = vec![0xee; 64];
        let (first, second) = copy.split_at_mut(cut);
        ring.copy(&found, 0, first);
        ring.copy(&found, cut, second);
        assert_eq!(copy, wire, "cut at {cut}");
    }
}

#[test]
fn a_cut_packet_is_known() {
    let (mut mapping, mut ring) = ring();
    fill(&mut mapping, 0, &[Frame { whole_len: 9000, ..frame(&[1; 60]) }, frame(&[2; 60])]);
    let first = ring.front().unwrap().unwrap();
    ring.advance(&first);
    assert!(first.truncated && !ring.front().unwrap().unwrap().truncated);
}

#[test]
fn what_cannot_be_is_refused_for_good() {
    let first_packet = FIRST;
    let second_packet = FIRST + (MAC_AT + 60).next_multiple_of(8);
    // Place of a number, and the value that it cannot have.
    let lies = [
        (PACKETS_AT, 4096),
        (PACKETS_AT, u32::MAX),
        (PACKETS_AT, 3),
        (FIRST_AT, 0),
        (FIRST_AT, 47),
        (FIRST_AT, 49),
        (FIRST_AT, 4090),
        (FIRST_AT, u32::MAX),
        (first_packet, 4096),
        (first_packet, u32::MAX),
        (first_packet, 145),
        (first_packet + 12, 4096),
        (first_packet + 12, u32::MAX),
        (second_packet + 12, 4000),
        (second_packet + 24, 0xffff),
    ];
    for (place, lie) in lies {
        let (mut mapping, mut ring) = ring();
        fill(&mut mapping, 0, &[frame(&[1; 60]), frame(&[2; 60])]);
        // What lies behind the packets is no header either.
        mapping.write(second_packet + 144, &[0xff; 64]);
        put(&mut mapping, place, &[lie]);
        let mut read = 0;
        while let Ok(Some(packet)) = ring.front() {
            ring.advance(&packet);
            read += 1;
        }
        assert!(read < 3 && ring.front().is_err(), "{lie} at {place}");
        let mut walked = 0;
        assert!(ring.walk(10, |_, _| walked += 1).is_err() && walked == 0, "{lie} at {place}");
        let (mut mapping, mut ring) = self::ring();
        fill(&mut mapping, 0, &[frame(&[1; 60]), frame(&[2; 60])]);
        mapping.write(second_packet + 144, &[0xff; 64]);
        put(&mut mapping, place, &[lie]);
        assert!(ring.walk(10, |_, _| walked += 1).is_err() && walked < 3, "{lie} at {place}, walked");
        fill(&mut mapping, 0, &[frame(&[1; 60])]);
        assert!(ring.front().is_err(), "{lie} at {place} is forgotten");
    }
}

proptest! {
    #[test]
    fn no_contents_lead_outside(
        noise in proptest::collection::vec((0usize..8192 - 8, any::<[u8; 4]>()), 0..200),
        frames in 0usize..20,
    ) {
        let (mut mapping, mut ring) = ring();
        for block in 0..2 {
            let frames: Vec<Frame<'_>> = (0..frames).map(|_| frame(&[3; 60])).collect();
            fill(&mut mapping, block, &frames);
        }
        for (at, bytes) in noise {
            mapping.write(at, &bytes);
        }
        let mut read = 0;
        while let Ok(Some(packet)) = ring.front() {
            prop_assert!(packet.len() <= SHAPE.block_bytes + TAG_BYTES);
            let mut bytes = vec![0; packet.len()];
            ring.copy(&packet, 0, &mut bytes);
            ring.advance(&packet);
            read += 1;
            prop_assert!(read <= 2 * SHAPE.block_bytes / PACKET_HEADER_BYTES);
        }
    }
}
