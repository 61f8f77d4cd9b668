//! A peer that writes indices and descriptors while this side is in a call: every interleaving of its stores with the loads of the call, by
//! the loom model checker (`RUSTFLAGS="--cfg loom" cargo test -p linerate-port-memif --test loom`). Both sides of a ring are those of the
//! port; the ring's words are loom's, and the packets' memory is a vector that complains of what lies outside.
#![cfg(loom)]

#[allow(dead_code)]
#[path = "../src/sys/descriptor.rs"]
mod descriptor;
#[allow(dead_code)]
#[path = "../src/link.rs"]
mod link;
#[allow(dead_code)]
#[path = "../src/receive.rs"]
mod receive;
#[allow(dead_code)]
#[path = "../src/transmit.rs"]
mod transmit;

mod sys {
    //! What the port has of the system, for one process: see the modules of the same names.

    use std::sync::{Arc, Mutex};

    pub(crate) use crate::descriptor::{Descriptor, NEXT, NO_INTERRUPT};
    use loom::sync::atomic::{AtomicU16, AtomicU64, Ordering};

    pub(crate) struct Doorbell;
    pub(crate) struct RingWatch;

    impl RingWatch {
        pub(crate) const fn new() -> RingWatch {
            RingWatch
        }
    }

    impl Doorbell {
        pub(crate) fn ring_peer(&self, _watch: &RingWatch) {
            unreachable!("nobody sleeps");
        }
    }

    pub(crate) struct Words {
        flags: AtomicU16,
        head: AtomicU16,
        tail: AtomicU16,
        cells: Vec<[AtomicU64; 2]>,
    }

    pub(crate) struct Ring(pub(crate) Arc<Words>);

    impl Ring {
        pub(crate) fn of(slots: u16, descriptor: Descriptor) -> Ring {
            let cell = |_| [descriptor.first_word(), descriptor.second_word()].map(AtomicU64::new);
            let [flags, head, tail] = [0; 3].map(AtomicU16::new);
            Ring(Arc::new(Words { flags, head, tail, cells: (0..slots).map(cell).collect() }))
        }

        pub(crate) fn another(&self) -> Ring {
            Ring(Arc::clone(&self.0))
        }

        pub(crate) fn slots(&self) -> u16 {
            self.0.cells.len() as u16
        }

        pub(crate) fn slot(&self, index: u16) -> u16 {
            index & (self.slots() - 1)
        }

        pub(crate) fn flags(&self) -> &AtomicU16 {
            &self.0.flags
        }

        pub(crate) fn head(&self) -> &AtomicU16 {
            &self.0.head
        }

        pub(crate) fn tail(&self) -> &AtomicU16 {
            &self.0.tail
        }

        fn cell(&self, index: u16) -> &[AtomicU64; 2] {
            &self.0.cells[usize::from(self.slot(index))]
        }

        pub(crate) fn read(&self, index: u16) -> Descriptor {
            let [first, second] = self.cell(index);
            Descriptor::of_words(first.load(Ordering::Relaxed), second.load(Ordering::Relaxed))
        }

        pub(crate) fn write(&self, index: u16, descriptor: Descriptor) {
            self.write_filled(index, descriptor);
            self.cell(index)[1].store(descriptor.second_word(), Ordering::Relaxed);
        }

        pub(crate) fn write_filled(&self, index: u16, descriptor: Descriptor) {
            self.cell(index)[0].store(descriptor.first_word(), Ordering::Relaxed);
        }
    }

    /// One region.
    pub(crate) struct Regions(pub(crate) Mutex<Vec<u8>>);

    impl Regions {
        pub(crate) fn span(&self, region: u16, offset: u32, length: u32) -> Option<Span<'_>> {
            let bytes = self.0.lock().unwrap().len() as u64;
            let fits = region == 0 && u64::from(offset) + u64::from(length) <= bytes;
            fits.then_some(Span { memory: Some(&self.0), start: offset as usize, length: length as usize })
        }

        pub(crate) fn is_lost(&self) -> bool {
            false
        }
    }

    #[derive(Clone, Copy)]
    pub(crate) struct Span<'a> {
        memory: Option<&'a Mutex<Vec<u8>>>,
        start: usize,
        length: usize,
    }

    impl Span<'_> {
        pub(crate) const NONE: Span<'static> = Span { memory: None, start: 0, length: 0 };

        pub(crate) fn len(&self) -> usize {
            self.length
        }

        fn with(&self, at: usize, len: usize, each: impl FnOnce(&mut [u8])) -> bool {
            let fits = at <= self.length && len <= self.length - at;
            if let (true, Some(memory)) = (fits, self.memory) {
                each(&mut memory.lock().unwrap()[self.start + at..][..len]);
            }
            fits
        }

        pub(crate) fn read(&self, at: usize, to: &mut [u8]) -> bool {
            self.with(at, to.len(), |bytes| to.copy_from_slice(bytes))
        }

        pub(crate) fn write(&self, at: usize, from: &[u8]) -> bool {
            self.with(at, from.len(), |bytes| bytes.copy_from_slice(from))
        }

        pub(crate) fn prefetch(&self) {}
    }
}

use std::sync::{Arc, Mutex};

use linerate_mem::{Batch, Pool, PoolConfig};
use link::{Buffers, Own, RingEnd};
use loom::sync::atomic::Ordering::{Acquire, Release};
use receive::{ReceiveSide, Received, Store};
use sys::{Descriptor, NEXT, Regions, Ring};
use transmit::{Sent, TransmitSide};

const SLOTS: u16 = 2;
/// Bytes of the region, each of which is `THEIRS`; of those of a frame each is `OURS` before a packet is received.
const BYTES: usize = 256;
const THEIRS: u8 = 7;
const OURS: u8 = 0xee;
const FRAMES: usize = 8;
const GOOD: Descriptor = Descriptor { flags: 0, region: 0, length: 60, offset: 64 };

/// What the peer stores.
#[derive(Clone, Copy)]
enum Write {
    Index(u16),
    Slot(u16, Descriptor),
}

use Write::{Index, Slot};

const LONG: Descriptor = Descriptor { length: u32::MAX, ..GOOD };
const EMPTY: Descriptor = Descriptor { length: 0, ..GOOD };
const MORE: Descriptor = Descriptor { flags: NEXT, ..GOOD };
const ELSEWHERE: Descriptor = Descriptor { region: 3, ..GOOD };
const SHORT: Descriptor = Descriptor { length: 20, ..GOOD };

const WRITES: [&[Write]; 6] = [
    &[Index(1), Slot(0, LONG), Slot(0, SHORT)],
    &[Index(2), Slot(0, MORE), Slot(1, ELSEWHERE)],
    &[Slot(0, MORE), Index(2), Slot(1, EMPTY), Slot(0, SHORT)],
    &[Slot(0, MORE), Slot(1, MORE), Index(2), Slot(1, GOOD)],
    &[Index(2), Index(1), Index(3)],
    &[Index(1), Slot(0, EMPTY), Index(u16::MAX), Index(2)],
];

/// The side of the peer that writes: the client moves the head, the server the tail.
fn scribble(ring: &Ring, is_client: bool, writes: &'static [Write]) -> loom::thread::JoinHandle<()> {
    let ring = ring.another();
    loom::thread::spawn(move || {
        for write in writes {
            match *write {
                Index(index) if is_client => ring.head().store(index, Release),
                Index(index) => ring.tail().store(index, Release),
                Slot(slot, descriptor) => ring.write_filled(slot, descriptor),
            }
        }
    })
}

/// Every interleaving in which a side is interrupted three times at most. (All of them, which passed too, take minutes.)
fn model(run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(run);
}

/// One pool for all executions, whole in between: memory is no part of the model.
fn pool() -> &'static Mutex<Pool> {
    static POOL: std::sync::OnceLock<Mutex<Pool>> = std::sync::OnceLock::new();
    POOL.get_or_init(|| Mutex::new(Pool::new(PoolConfig { frames: FRAMES, frame_size: 512 }).expect("memory")))
}

fn buffers(is_own: bool) -> Buffers {
    let regions = Arc::new(Regions(Mutex::new(vec![THEIRS; BYTES])));
    match is_own {
        true => Buffers::Own(Own { regions, first: 0, stride: 64, bytes: 64 }),
        false => Buffers::Peers(regions),
    }
}

/// Whatever it writes: no more packets than the ring has slots come out of a look at its index, their bytes are of the region or zeros, the
/// counts are those of the batch, the peer gets back what was read, and no frame is lost.
#[test]
fn receiving_from_a_peer_that_writes_meanwhile() {
    for (is_own, writes) in [false, true].into_iter().flat_map(|is_own| WRITES.map(|writes| (is_own, writes))) {
        model(move || {
            let mut pool = pool().lock().unwrap();
            let mut batch = Batch::new(&pool, FRAMES);
            // What must not get out.
            pool.alloc(&mut batch, FRAMES, 512);
            batch.iter_mut().for_each(|frame| frame.fill(OURS));
            pool.free(&mut batch);
            let ring = Ring::of(SLOTS, GOOD);
            let memory = ring.another();
            let mut side = ReceiveSide::new(RingEnd { ring, buffers: buffers(is_own), bell: None }, false);
            let peer = scribble(&memory, !is_own, writes);
            let mut totals = Received::default();
            for _ in 0..2 {
                let before = totals;
                let result = side.receive(&mut batch, &mut Store { pool: &mut pool, totals: &mut totals });
                let new = totals.packets - before.packets;
                assert_eq!(result.unwrap_or(0) as u64, new);
                assert!(new + totals.unfit - before.unfit + totals.empty - before.empty <= u64::from(SLOTS));
                let read = match is_own {
                    true => memory.head().load(Acquire).wrapping_sub(SLOTS),
                    false => memory.tail().load(Acquire),
                };
                assert!(u64::from(read) >= totals.packets + totals.unfit + totals.empty && read <= 2 * SLOTS);
            }
            peer.join().unwrap();
            assert_eq!((batch.totals().packets, batch.totals().bytes), (totals.packets, totals.bytes));
            assert!(batch.iter().all(|packet| packet.iter().all(|byte| [THEIRS, 0].contains(byte))), "bytes of others");
            pool.free(&mut batch);
            assert_eq!(pool.available(), FRAMES);
        });
    }
}

/// Whatever it writes: each packet is sent, thrown away and counted, or still in the batch; no more are sent than the ring has slots; the peer is told of
/// as many as were filled; nothing is written outside of the region.
#[test]
fn sending_to_a_peer_that_writes_meanwhile() {
    for (is_own, writes) in [false, true].into_iter().flat_map(|is_own| WRITES.map(|writes| (is_own, writes))) {
        model(move || {
            let mut pool = pool().lock().unwrap();
            let mut batch = Batch::new(&pool, FRAMES);
            let ring = Ring::of(SLOTS, GOOD);
            let memory = ring.another();
            let mut side = TransmitSide::new(RingEnd { ring, buffers: buffers(is_own), bell: None });
            let peer = scribble(&memory, !is_own, writes);
            pool.alloc(&mut batch, 3, 40);
            let mut totals = Sent::default();
            for _ in 0..2 {
                let (taken, _stop) = side.transmit(&mut batch, &mut pool, &mut totals);
                let gone = totals.packets + totals.unfit + totals.empty;
                assert!(taken as u64 <= gone && gone + batch.totals().packets == 3);
                let told = if is_own { memory.head() } else { memory.tail() };
                let told = told.load(Acquire);
                assert!(u64::from(told) >= totals.packets && told <= 2 * SLOTS, "{told} {totals:?}");
            }
            peer.join().unwrap();
            assert_eq!(totals.bytes, 40 * totals.packets);
            // An index that cannot be gives no room.
            let given = writes.iter().map(|write| if let Index(index @ ..=3) = write { *index } else { 0 }).max();
            assert!(totals.packets <= u64::from(given.unwrap_or(0) + if is_own { SLOTS } else { 0 }));
            pool.free(&mut batch);
            assert_eq!(pool.available(), FRAMES);
        });
    }
}
