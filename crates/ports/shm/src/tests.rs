//! A peer that writes whatever it likes: the port says `PeerCorrupt`, and no frame is in two slots.

use std::collections::HashSet;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use linerate_mem::{Batch, Pool, PoolConfig};
use linerate_port::{Interest, Port, PortError};
use linerate_wire::{FlowKey, Parsed, verify_checksums};
use proptest::prelude::*;

use crate::layout::{RingPlace, Rings, attached};
use crate::link::Link;
use crate::port::ShmPort;
use crate::sys::Words;

const FRAMES: usize = 256;
const RING: usize = 16;

/// A port on side 0, and the memory that side 1 can write.
struct Prey {
    pool: Pool,
    port: ShmPort,
    words: Arc<Words>,
    rings: Rings,
    batch: Batch,
}

impl Prey {
    fn new() -> Prey {
        let config = PoolConfig { frames: FRAMES, frame_size: 2048 };
        let pool = crate::pool_inside(config, RING).unwrap();
        let link = pool.region().companion().unwrap().downcast_ref::<Arc<Link>>().unwrap().clone();
        let (words, rings) = (Arc::clone(&link.words), link.shape.rings());
        words.index(attached(1)).store(1, Ordering::SeqCst);
        let port = ShmPort::new("shm:prey", &pool, link, 0, 0, true).unwrap();
        let batch = Batch::new(&pool, 64);
        Prey { pool, port, words, rings, batch }
    }

    /// Sends `count` packets; returns the words that the peer sees.
    fn send(&mut self, count: usize) -> Vec<u64> {
        let from = self.words.index(self.rings.packets[0].tail).load(Ordering::Relaxed);
        let mut batch = Batch::new(&self.pool, count);
        self.pool.alloc(&mut batch, count, 60);
        assert_eq!(self.port.transmit(&mut batch).unwrap(), count);
        let cells = self.words.cells(self.rings.packets[0].words, RING);
        (from..from + count as u32).map(|at| cells[at as usize % RING].load(Ordering::Relaxed)).collect()
    }

    /// The peer puts these words into a ring of its.
    fn put(&self, place: RingPlace, words: &[u64]) {
        let tail = self.words.index(place.tail).load(Ordering::Relaxed);
        let cells = self.words.cells(place.words, place.capacity as usize);
        for (offset, word) in words.iter().enumerate() {
            cells[(tail as usize + offset) % cells.len()].store(*word, Ordering::Relaxed);
        }
        self.words.index(place.tail).store(tail.wrapping_add(words.len() as u32), Ordering::Release);
    }

    /// Calls everything until something fails, or everything was called a few times.
    fn use_port(&mut self) -> Result<(), PortError> {
        for _ in 0..4 {
            self.port.receive(&mut self.batch)?;
            let mut out = Batch::new(&self.pool, 4);
            self.pool.alloc(&mut out, 4, 60);
            self.port.transmit(&mut out)?;
            self.port.flush()?;
            self.port.wait(Interest::Receive, 0)?;
            self.port.wait(Interest::Transmit, 0)?;
        }
        Ok(())
    }

    /// Nothing that is here is here twice.
    fn check_frames(&mut self) {
        let mut all = Batch::new(&self.pool, 2 * FRAMES);
        self.pool.alloc(&mut all, 2 * FRAMES, 60);
        let in_pool = all.len();
        let mut frames = HashSet::new();
        let held = self.batch.iter().chain(all.iter()).map(|packet| packet.as_ptr() as usize / 2048);
        assert!(held.into_iter().all(|frame| frames.insert(frame)), "a frame is in two slots");
        assert!(in_pool + self.batch.len() <= FRAMES);
        self.pool.free(&mut all);
    }

    fn expect_corrupt(mut self, what: &str) {
        let error = self.use_port().expect_err("it is noticed").to_string();
        assert!(error.contains("the peer wrote") && error.contains(what), "{error}");
        // It stays so, and its totals can still be read.
        assert!(matches!(self.port.receive(&mut self.batch), Err(PortError::PeerCorrupt { .. })));
        assert!(matches!(self.port.wait(Interest::Receive, 0), Err(PortError::PeerCorrupt { .. })));
        self.port.stats().unwrap();
        self.check_frames();
    }
}

fn word(frame: u64, offset: u64, len: u64) -> u64 {
    frame << 32 | offset << 16 | len
}

#[test]
fn frames_come_back_once_and_only_if_they_had_gone() {
    let mut prey = Prey::new();
    let words = prey.send(3);
    prey.put(prey.rings.packets[1], &words);
    assert_eq!(prey.port.receive(&mut prey.batch).unwrap(), 3);
    prey.put(prey.rings.packets[1], &words[..1]);
    prey.expect_corrupt("which it does not have");

    let mut prey = Prey::new();
    let words = prey.send(1);
    prey.put(prey.rings.packets[1], &[words[0], words[0]]);
    assert!(matches!(prey.port.receive(&mut prey.batch), Err(PortError::PeerCorrupt { .. })));
    assert_eq!(prey.batch.len(), 1, "the first one was right");
    prey.expect_corrupt("which it does not have");

    let mut prey = Prey::new();
    let words = prey.send(2);
    prey.put(prey.rings.free[1], &[words[0], words[1], words[0]]);
    prey.expect_corrupt("which it does not have");
}

#[test]
fn what_lies_outside_is_refused() {
    for (bad, what) in [
        (word(FRAMES as u64, 0, 60), "does not have"),
        (word(0x00ff_ffff, 0, 60), "does not have"),
        (word(5, 0, 60), "does not have"),
        (word(5, 2048, 1), "not inside its frame"),
        (word(5, 0, 2049), "not inside its frame"),
        (word(5, 0xffff, 0xffff), "not inside its frame"),
        (word(5, 0, 60) | 1 << 57, "not inside its frame"),
        (u64::MAX, "a packet without an end"),
        (word(5, 0, 60) | 1 << 56, "a packet without an end"),
    ] {
        let prey = Prey::new();
        prey.put(prey.rings.packets[1], &[bad]);
        prey.expect_corrupt(what);
    }
    let prey = Prey::new();
    prey.put(prey.rings.free[1], &[word(FRAMES as u64, 0, 0)]);
    prey.expect_corrupt("does not have");
}

#[test]
fn indices_that_cannot_be_are_refused() {
    type Place = fn(&Rings) -> usize;
    let places: [(Place, u32, &str); 6] = [
        (|rings| rings.packets[1].tail, RING as u32 + 1, "a tail index"),
        (|rings| rings.packets[1].tail, u32::MAX, "a tail index"),
        (|rings| rings.free[1].tail, FRAMES as u32 + 1, "a tail index"),
        (|rings| rings.free[1].tail, 1 << 31, "a tail index"),
        (|rings| rings.packets[0].head, 1000, "a head index"),
        (|rings| rings.packets[0].head, u32::MAX, "a head index"),
    ];
    for (place, value, what) in places {
        let mut prey = Prey::new();
        prey.send(3);
        prey.words.index(place(&prey.rings)).store(value, Ordering::Release);
        prey.expect_corrupt(what);
    }
}

/// Bytes that say what follows and how long it is: EtherTypes, tags, header lengths, total lengths, protocols, data offsets.
const DECISIVE: [usize; 10] = [12, 14, 16, 17, 18, 20, 23, 39, 46, 54];

/// Frames that are here can still be written by the other process. Whatever it makes of a packet while it is read, what is read stays
/// inside the packet, and nothing panics.
#[test]
fn a_packet_that_changes_while_it_is_parsed() {
    let mut prey = Prey::new();
    let packets: Vec<Vec<u8>> = [
        "00000000000200000000000181000064080045000040000040004011f96f0a0000010a000002003510f0002c0000",
        "0000000000020000000000010800460000400000400040060000c0a80001c0a80002010101010050c35000000001000000025010ffff00000000",
        "00000000000200000000000186dd60000000004000400000000000000000000000000000000120010db80000000000000000000000021100000000000000123412b500380000",
        "000000000002000000000001080045000072000040004011f96f0a0000010a0000021234 12b5005e0000080000000000640002000000000300000000000408004500003000004000400600000a0000010a0000020050c3500000000100000002a010ffff0000000001010101",
    ]
    .map(|text| {
        let text = text.replace(' ', "");
        (0..text.len() / 2).map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap()).collect()
    })
    .into();
    let words = prey.send(packets.len());
    prey.put(prey.rings.packets[1], &words);
    assert_eq!(prey.port.receive(&mut prey.batch).unwrap(), packets.len());
    for (index, packet) in packets.iter().enumerate() {
        prey.batch.set_len(index, 140);
        prey.batch.packet_mut(index)[..packet.len()].copy_from_slice(packet);
        assert!(Parsed::parse(prey.batch.packet(index)).is_ok(), "packet {index}");
    }
    let memory = std::fs::File::options().read(true).write(true).open("/proc/self/mem").unwrap();
    let places: Vec<u64> = prey.batch.iter().map(|packet| packet.as_ptr() as u64).collect();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0_usize.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let packet = &packets[round % packets.len()];
                let at = DECISIVE[round / packets.len() % DECISIVE.len()];
                let Some(&before) = packet.get(at) else { continue };
                // By a system call, as another process would: this one has the packet.
                let write = |byte: u8| memory.write_all_at(&[byte], places[round % packets.len()] + at as u64).unwrap();
                write([0, 0xff, 0x0f, 0x45, before ^ 1 << (round % 8)][round % 5]);
                write(before);
            }
        });
        let _stop = StopAtEnd(&stop);
        let mut seen = 0;
        for _ in 0..30_000 {
            for packet in prey.batch.iter() {
                seen += usize::from(Parsed::parse(packet).is_ok());
                seen += usize::from(FlowKey::from_frame(packet).is_some());
                seen += usize::from(FlowKey::innermost(packet).is_some());
                seen += usize::from(verify_checksums(packet).is_ok());
            }
        }
        assert!(seen > 0);
    });
}

/// A peer that rewrites indices and words while the port is in its calls, between packets that are right: the port goes on or says
/// `PeerCorrupt`, no frame is in two slots, and what it counts is what it handed out.
#[test]
fn a_peer_that_writes_meanwhile() {
    let (mut corrupt, mut received) = (0, 0);
    while corrupt < 100 || received < 1_000 {
        let mut prey = Prey::new();
        let (words, rings, stop) = (Arc::clone(&prey.words), prey.rings, AtomicBool::new(false));
        // Frames that the peer has, and so may hand back: once each.
        let seen = prey.send(RING - 4);
        std::thread::scope(|scope| {
            let stop = &stop;
            scope.spawn(move || {
                let back = rings.packets[1];
                let cells = words.cells(back.words, RING);
                for round in 0_usize.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let at = round % seen.len();
                    cells[at].store(seen[at], Ordering::Relaxed);
                    // In the first rounds as the rules say; then wrong for a moment, and right again.
                    words.index(back.tail).store((round + 1).min(seen.len()) as u32, Ordering::Release);
                    if round < 3 {
                        continue;
                    }
                    let bad = [seen[at] | 1 << 56, u64::MAX, word(7, 9, 4000), seen[(at + 1) % seen.len()]];
                    cells[at].store(bad[round % bad.len()], Ordering::Relaxed);
                    let index = [rings.free[1].tail, rings.packets[0].head, back.tail][round % 3];
                    let before = words.index(index).load(Ordering::Relaxed);
                    words.index(index).store([u32::MAX, before.wrapping_add(1), 0][round % 3], Ordering::Release);
                    words.index(index).store(before, Ordering::Release);
                    cells[at].store(seen[at], Ordering::Relaxed);
                }
            });
            let _stop = StopAtEnd(stop);
            let end = (0..50).find_map(|_| prey.use_port().err());
            corrupt += usize::from(end.is_some());
            assert!(end.is_none_or(|error| matches!(error, PortError::PeerCorrupt { .. })));
        });
        let handed_out = prey.batch.totals();
        let stats = prey.port.stats().unwrap();
        assert_eq!((stats.rx_packets, stats.rx_bytes), (handed_out.packets, handed_out.bytes));
        received += handed_out.packets;
        prey.check_frames();
    }
}

struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

proptest! {
    /// Any words, any indices, in between what an honest peer does: no panic, and no frame twice.
    #[test]
    fn whatever_is_written_no_frame_is_in_two_slots(
        steps in proptest::collection::vec((0usize..5, 0usize..2, any::<u32>(), proptest::collection::vec(any::<u64>(), 0..6)), 1..12),
    ) {
        let mut prey = Prey::new();
        let mut seen = Vec::new();
        for (what, ring, number, words) in steps {
            let place = [prey.rings.packets[1], prey.rings.free[1]][ring];
            match what {
                0 if prey.port.check_is_whole() => seen.extend(prey.send(1 + number as usize % 3)),
                1 => prey.put(place, &words),
                2 if !seen.is_empty() => {
                    let words: Vec<u64> = words.iter().map(|pick| seen[*pick as usize % seen.len()]).collect();
                    prey.put(place, &words);
                }
                3 => prey.words.index([place.tail, prey.rings.packets[0].head][ring]).store(number, Ordering::Release),
                _ => {}
            }
            let _ = prey.use_port();
            prey.check_frames();
            let room = prey.batch.room();
            if room < 16 {
                prey.pool.free(&mut prey.batch);
            }
        }
    }
}
