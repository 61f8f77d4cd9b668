//! A guest that writes its available index, its available ring and its descriptors while the port is in a call: interleavings of its stores with
//! the loads of the call, by the loom model checker (`RUSTFLAGS="--cfg loom" cargo test -p linerate-port-vhost --test loom`). Rings, receiving
//! and transmitting are the port's; the words of the rings are loom's, and the guest's memory is a vector that complains of what lies outside.
#![cfg(loom)]

#[allow(dead_code)]
#[path = "../src/receive.rs"]
mod receive;
#[allow(dead_code)]
#[path = "../src/ring.rs"]
mod ring;
#[allow(dead_code)]
#[path = "../src/transmit.rs"]
mod transmit;
#[allow(dead_code)]
#[path = "../src/virtio.rs"]
mod virtio;

mod hostile_tests {
    pub(crate) fn count_look() {}
}

mod interrupts {
    #[derive(Debug)]
    pub(crate) struct Interrupt;

    impl Interrupt {
        pub(crate) fn raise(&self) {
            unreachable!("nobody waits");
        }
    }
}

mod memory {
    //! One region from address 0 on. The bytes are one vector for all executions: small spans, since a thread of loom has a stack of 32 KiB.

    use std::sync::{Mutex, MutexGuard};

    use crate::sys::Span;

    static BYTES: Mutex<Vec<u8>> = Mutex::new(Vec::new());

    pub(crate) fn bytes() -> MutexGuard<'static, Vec<u8>> {
        BYTES.lock().unwrap()
    }

    pub(crate) struct GuestMemory;

    impl GuestMemory {
        pub(crate) fn find(&self, guest: u64, len: usize) -> Option<Span<'_>> {
            self.find_start(guest, len).filter(|span| span.len() == len)
        }

        pub(crate) fn find_start(&self, guest: u64, len: usize) -> Option<Span<'_>> {
            let there = bytes().len() as u64;
            let len = len.min(there.checked_sub(guest).filter(|left| *left > 0)? as usize);
            Some(Span { start: guest as u32, len: len as u32, memory: std::marker::PhantomData })
        }
    }
}

mod sys {
    //! What the port has of shared memory: see the module of the same name.

    use std::marker::PhantomData;
    use std::sync::Arc;

    use loom::sync::atomic::{AtomicU16, AtomicU64, Ordering};

    use crate::memory::{GuestMemory, bytes};

    pub(crate) const DESCRIPTOR_BYTES: usize = 16;

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Descriptor {
        pub address: u64,
        pub len: u32,
        pub flags: u16,
        pub next: u16,
    }

    impl Descriptor {
        pub(crate) fn from_halves((first, second): (u64, u64)) -> Descriptor {
            Descriptor { address: first, len: second as u32, flags: (second >> 32) as u16, next: (second >> 48) as u16 }
        }

        pub(crate) fn halves(self) -> [u64; 2] {
            [self.address, u64::from(self.len) | u64::from(self.flags) << 32 | u64::from(self.next) << 48]
        }
    }

    #[derive(Debug)]
    pub(crate) struct Words {
        pub(crate) index: AtomicU16,
        pub(crate) used: AtomicU16,
        pub(crate) entries: Vec<AtomicU16>,
        pub(crate) table: Vec<[AtomicU64; 2]>,
    }

    #[derive(Debug)]
    pub(crate) struct SplitRing(pub(crate) Arc<Words>);

    impl SplitRing {
        pub(crate) fn size(&self) -> u16 {
            self.0.entries.len() as u16
        }

        pub(crate) fn available_index(&self) -> u16 {
            self.0.index.load(Ordering::Acquire)
        }

        pub(crate) fn available_entry(&self, index: u16) -> u16 {
            self.0.entries[usize::from(index % self.size())].load(Ordering::Relaxed)
        }

        pub(crate) fn descriptor(&self, number: u16) -> Option<Descriptor> {
            let [first, second] = self.0.table.get(usize::from(number))?;
            Some(Descriptor::from_halves((first.load(Ordering::Relaxed), second.load(Ordering::Relaxed))))
        }

        pub(crate) fn write_used(&self, _index: u16, _number: u16, _bytes: u32) {}

        pub(crate) fn publish(&self, index: u16) {
            self.0.used.store(index, Ordering::Release);
        }

        pub(crate) fn used_event(&self) -> u16 {
            0
        }

        pub(crate) fn available_flags(&self) -> u16 {
            0
        }

        pub(crate) fn set_used_flags(&self, _flags: u16) {}

        pub(crate) fn set_available_event(&self, _index: u16) {}

        pub(crate) fn prefetch(&self, _index: u16, _count: u16) {}

        pub(crate) fn fence() {}
    }

    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Span<'m> {
        pub(crate) start: u32,
        pub(crate) len: u32,
        pub(crate) memory: PhantomData<&'m GuestMemory>,
    }

    impl<'m> Span<'m> {
        pub(crate) const EMPTY: Span<'static> = Span { start: 0, len: 0, memory: PhantomData };

        pub(crate) fn len(&self) -> usize {
            self.len as usize
        }

        pub(crate) fn split(self, count: usize) -> (Span<'m>, Span<'m>) {
            let count = count.min(self.len()) as u32;
            (Span { len: count, ..self }, Span { start: self.start + count, len: self.len - count, ..self })
        }

        pub(crate) fn read(self, into: &mut [u8]) -> usize {
            let len = self.len().min(into.len());
            into[..len].copy_from_slice(&bytes()[self.start as usize..][..len]);
            len
        }

        pub(crate) fn write(self, from: &[u8]) -> usize {
            let len = self.len().min(from.len());
            bytes()[self.start as usize..][..len].copy_from_slice(&from[..len]);
            len
        }

        pub(crate) fn read_u16(self) -> Option<u16> {
            let mut two = [0; 2];
            (self.read(&mut two) == 2).then(|| u16::from_le_bytes(two))
        }

        pub(crate) fn read_u64_pair(self) -> Option<(u64, u64)> {
            let mut all = [0; 16];
            let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
            (self.read(&mut all) == 16).then(|| (word(&all[..8]), word(&all[8..])))
        }

        pub(crate) fn write_12(self, first: u64, rest: u32) {
            if self.len >= 12 {
                self.write(&[&first.to_le_bytes()[..], &rest.to_le_bytes()].concat());
            }
        }

        pub(crate) fn prefetch(self, _len: usize) {}

        pub(crate) fn prefetch_to_write(self, _len: usize) {}
    }
}

use std::sync::{Arc, Mutex};

use linerate_mem::{Batch, Pool, PoolConfig};
use loom::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use loom::sync::atomic::{AtomicU16, AtomicU64};
use memory::GuestMemory;
use receive::{Receiver, Refused};
use ring::{Budget, Ring};
use sys::{Descriptor, SplitRing, Words};
use transmit::{Layout, send};
use virtio::{descriptor, feature};

const ENTRIES: u16 = 2;
/// Bytes of the guest, each of which is 0: a header of zeros is one of a packet that is complete. A frame's are `OURS` before one is received.
const BYTES: usize = 256;
const OURS: u8 = 0xee;
const FRAMES: usize = 8;
const FEATURES: u64 = feature::VERSION_1 | feature::MERGEABLE_BUFFERS;
const GOOD: Descriptor = Descriptor { address: 64, len: 12 + 60, flags: 0, next: 0 };

/// What the guest stores.
#[derive(Clone, Copy)]
enum Write {
    Index(u16),
    Entry(u16, u16),
    /// The second half of a descriptor: length, flags and the next one.
    Table(u16, Descriptor),
}

use Write::{Entry, Index, Table};

const LONG: Descriptor = Descriptor { len: u32::MAX, ..GOOD };
const OUTSIDE: Descriptor = Descriptor { len: 240, ..GOOD };
const SHORT: Descriptor = Descriptor { len: 30, ..GOOD };
const CHAIN: Descriptor = Descriptor { flags: descriptor::NEXT, next: 1, ..GOOD };
const INDIRECT: Descriptor = Descriptor { flags: descriptor::INDIRECT, len: 32, ..GOOD };

const WRITES: [&[Write]; 6] = [
    &[Index(1), Table(0, LONG), Table(0, SHORT)],
    &[Index(2), Table(0, CHAIN), Table(1, OUTSIDE)],
    &[Index(2), Entry(0, 1), Entry(1, 900), Entry(1, 0)],
    &[Index(1), Table(0, CHAIN), Table(1, SHORT), Table(0, GOOD)],
    &[Index(1), Index(u16::MAX), Table(0, INDIRECT), Index(2)],
    &[Index(2), Index(0), Table(1, LONG), Table(0, SHORT)],
];

/// Interleavings in which a side is interrupted three times at most.
fn model(run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(run);
}

fn words(flags: u16) -> Arc<Words> {
    let table = (0..ENTRIES).map(|_| Descriptor { flags, ..GOOD }.halves().map(AtomicU64::new)).collect();
    let entries = (0..ENTRIES).map(AtomicU16::new).collect();
    Arc::new(Words { index: AtomicU16::new(0), used: AtomicU16::new(0), entries, table })
}

fn scribble(words: &Arc<Words>, flags: u16, writes: &'static [Write]) -> loom::thread::JoinHandle<()> {
    let words = Arc::clone(words);
    loom::thread::spawn(move || {
        for write in writes {
            match *write {
                Index(index) => words.index.store(index, Release),
                Entry(at, number) => words.entries[usize::from(at)].store(number, Relaxed),
                Table(at, found) => {
                    let found = Descriptor { flags: found.flags | flags, ..found };
                    words.table[usize::from(at)][1].store(found.halves()[1], Relaxed);
                }
            }
        }
    })
}

/// One pool for all executions, whole in between: memory is no part of the model.
fn pool() -> &'static Mutex<Pool> {
    static POOL: std::sync::OnceLock<Mutex<Pool>> = std::sync::OnceLock::new();
    POOL.get_or_init(|| Mutex::new(Pool::new(PoolConfig { frames: FRAMES, frame_size: 512 }).expect("memory")))
}

fn memory() -> GuestMemory {
    let mut bytes = memory::bytes();
    bytes.clear();
    bytes.resize(BYTES, 0);
    GuestMemory
}

/// Whatever it writes: no more packets than entries come out of a look at its index, their bytes are the guest's, the counts are those of the
/// batch, each entry is used once, and no frame is lost.
#[test]
fn receiving_from_a_guest_that_writes_meanwhile() {
    for writes in WRITES {
        model(move || {
            let mut pool = pool().lock().unwrap();
            let mut batch = Batch::new(&pool, FRAMES);
            // What must not get out.
            pool.alloc(&mut batch, FRAMES, 512);
            batch.iter_mut().for_each(|frame| frame.fill(OURS));
            pool.free(&mut batch);
            let (words, memory) = (words(0), memory());
            let mut ring = Ring::new(SplitRing(Arc::clone(&words)), 0, FEATURES);
            let guest = scribble(&words, 0, writes);
            let (mut packets, mut bytes, mut refused) = (0, 0, 0);
            for _ in 0..2 {
                let mut receiver = Receiver {
                    pool: &mut pool,
                    batch: &mut batch,
                    frame_len_max: 200,
                    header_bytes: 12,
                    packets: 0,
                    bytes: 0,
                    refused: Refused::default(),
                    budget: Budget::new(),
                };
                let _ = receiver.receive(&mut ring, &memory);
                let Refused { too_short, too_long, incomplete } = receiver.refused;
                let of_call = receiver.packets + too_short + too_long + incomplete;
                (packets, bytes) = (packets + receiver.packets, bytes + receiver.bytes);
                refused += too_short + too_long + incomplete;
                ring.finish(None);
                assert!(of_call <= u64::from(ENTRIES));
                // The entries that the guest is told of are those of these packets.
                assert_eq!(u64::from(words.used.load(Acquire)), packets + refused);
            }
            guest.join().unwrap();
            assert_eq!((batch.totals().packets, batch.totals().bytes), (packets, bytes));
            assert!(batch.iter().all(|packet| packet.iter().all(|byte| *byte == 0)), "bytes of others");
            pool.free(&mut batch);
            assert_eq!(pool.available(), FRAMES);
        });
    }
}

/// Whatever it writes: each packet is sent, or counted as one that fits nowhere, or still there; no more entries are used than it made available;
/// nothing is written outside of its memory.
#[test]
fn sending_to_a_guest_that_writes_meanwhile() {
    for writes in WRITES {
        model(move || {
            let mut pool = pool().lock().unwrap();
            let mut batch = Batch::new(&pool, FRAMES);
            let (words, memory) = (words(descriptor::WRITE), memory());
            let mut ring = Ring::new(SplitRing(Arc::clone(&words)), 0, FEATURES);
            let guest = scribble(&words, descriptor::WRITE, writes);
            pool.alloc(&mut batch, 3, 40);
            let (mut done, mut packets) = (0, 0);
            for _ in 0..2 {
                let layout = Layout::new(FEATURES, 200);
                let (sent, _fault) = send(&mut ring, &memory, layout, &batch, done..3, &mut Budget::new());
                ring.finish(None);
                assert_eq!(sent.packets + sent.unfitting + sent.too_short, sent.slots as u64);
                assert_eq!(sent.bytes, 40 * sent.packets);
                (done, packets) = (done + sent.slots, packets + sent.packets);
                assert!(done <= 3);
                // It made two entries available at most; a packet uses one, or two that are short, whether a fault is behind it or not.
                let used = u64::from(words.used.load(Acquire));
                assert!(used <= u64::from(ENTRIES) && (packets..=2 * packets).contains(&used), "{used} {packets}");
            }
            guest.join().unwrap();
            pool.free(&mut batch);
            assert_eq!(pool.available(), FRAMES);
        });
    }
}
