//! What a driver can make one call look at is bounded, whatever it writes into rings of the largest size, and a driver that writes
//! while the port reads gets wrong packets and nothing else.

use std::cell::Cell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};

use linerate_mem::{Batch, Pool, PoolConfig};

use crate::memory::{GuestMemory, RegionAt};
use crate::receive::{Receiver, Refused};
use crate::ring::{Budget, Corrupt, LOOKS_MAX, Ring, SG_ENTRIES_MAX};
use crate::sys::SplitRing;
use crate::transmit::{Layout, Sent, send};
use crate::virtio::{RING_SIZE_MAX, descriptor, feature};

thread_local!(static LOOKS: Cell<usize> = const { Cell::new(0) });

/// Counts a descriptor that the calling thread reads.
pub(crate) fn count_look() {
    LOOKS.set(LOOKS.get() + 1);
}

const ENTRIES: u16 = RING_SIZE_MAX as u16;
const TABLE: u64 = 0;
const AVAILABLE: u64 = 0x8_0000;
const USED: u64 = 0xa_0000;
/// Descriptors of indirect tables, and the bytes that they point to.
const INDIRECT_TABLE: u64 = 0x10_0000;
const DATA: u64 = 0x18_0000;
const MEMORY_BYTES: u64 = 0x20_0000;
const FEATURES: u64 = feature::MERGEABLE_BUFFERS | feature::INDIRECT | feature::VERSION_1;
/// Packets of a call.
const BATCH: usize = 256;
/// Descriptors that a call may look at: one for each packet, its budget, and those of the packet that spends it.
const CALL_MAX: usize = BATCH + LOOKS_MAX + 3 * SG_ENTRIES_MAX;

/// A ring of the largest size, all of whose entries are available, and the memory that it lies in.
struct Guest {
    file: File,
    memory: GuestMemory,
    pool: Pool,
    batch: Batch,
}

impl Guest {
    /// `heads` says which descriptor each entry names.
    fn new(heads: impl Fn(u16) -> u16) -> Guest {
        let file = tempfile::tempfile_in("/dev/shm").unwrap();
        file.set_len(MEMORY_BYTES).unwrap();
        let at = RegionAt { guest: 0, user: 0, bytes: MEMORY_BYTES, file_offset: 0 };
        let memory = GuestMemory::map([(at, file.try_clone().unwrap())]).unwrap();
        let mut available = ENTRIES.to_le_bytes().to_vec();
        available.splice(0..0, [0, 0]);
        (0..ENTRIES).for_each(|entry| available.extend(heads(entry).to_le_bytes()));
        file.write_all_at(&available, AVAILABLE).unwrap();
        let pool = Pool::new(PoolConfig { frames: 1024, ..PoolConfig::default() }).unwrap();
        let batch = Batch::new(&pool, BATCH);
        Guest { file, memory, pool, batch }
    }

    /// Writes descriptors into a table from `first` on.
    fn describe(&self, table: u64, first: u64, all: impl IntoIterator<Item = (u64, u32, u16, u16)>) {
        let mut bytes = Vec::new();
        for (address, len, flags, next) in all {
            bytes.extend(address.to_le_bytes());
            bytes.extend(len.to_le_bytes());
            bytes.extend(flags.to_le_bytes());
            bytes.extend(next.to_le_bytes());
        }
        self.file.write_all_at(&bytes, table + 16 * first).unwrap();
    }

    fn ring(&self) -> Ring {
        let lens = SplitRing::part_bytes(ENTRIES);
        let parts = [(TABLE, lens[0]), (AVAILABLE, lens[1]), (USED, lens[2])];
        let split = SplitRing::new(ENTRIES, parts.map(|(at, len)| self.memory.place(at, len).unwrap())).unwrap();
        Ring::new(split, 0, FEATURES)
    }

    /// One call; what was refused, and the descriptors that it looked at.
    fn receive(&mut self, ring: &mut Ring) -> (Result<Refused, Corrupt>, usize) {
        let mut receiver = Receiver {
            pool: &mut self.pool,
            batch: &mut self.batch,
            frame_len_max: 1518,
            header_bytes: 12,
            packets: 0,
            bytes: 0,
            refused: Refused::default(),
            budget: Budget::new(),
        };
        LOOKS.set(0);
        let result = receiver.receive(ring, &self.memory);
        (result.map(|()| receiver.refused), LOOKS.get())
    }

    /// One call for a batch of packets of `len` bytes; what was sent, and the descriptors that it looked at.
    fn transmit(&mut self, ring: &mut Ring, len: usize) -> (Result<Sent, Corrupt>, usize) {
        self.pool.free(&mut self.batch);
        assert_eq!(self.pool.alloc(&mut self.batch, BATCH, len), BATCH);
        LOOKS.set(0);
        let layout = Layout::new(FEATURES, 1518);
        let (sent, result) = send(ring, &self.memory, layout, &self.batch, 0..BATCH, &mut Budget::new());
        (result.map(|()| sent), LOOKS.get())
    }

    /// Calls until the ring is empty, none of which may look at too much; what was refused in all, and the calls.
    fn receive_all(&mut self) -> (u64, usize) {
        let (mut ring, mut refused, mut calls) = (self.ring(), 0, 0);
        while ring.next() != ENTRIES {
            let (result, looks) = self.receive(&mut ring);
            let Refused { too_short, too_long, incomplete } = result.unwrap();
            assert!(looks <= CALL_MAX, "{looks} descriptors in one call");
            refused += too_short + too_long + incomplete;
            calls += 1;
        }
        assert!(self.pool.available() + self.batch.len() == 1024);
        (refused, calls)
    }
}

/// Every entry names descriptor 0, which is a table of `count` descriptors of `len` bytes.
fn tables(count: u16, len: u32, flags: u16) -> Guest {
    let guest = Guest::new(|_| 0);
    let bytes = 16 * u32::from(count);
    guest.describe(TABLE, 0, [(INDIRECT_TABLE, bytes, descriptor::INDIRECT, 0)]);
    let next = |number| if number + 1 < count { descriptor::NEXT } else { 0 };
    guest.describe(INDIRECT_TABLE, 0, (0..count).map(|number| (DATA, len, flags | next(number), number + 1)));
    guest
}

#[test]
fn an_empty_buffer_is_corrupt() {
    let empty = || Corrupt("a buffer without a byte".into());
    for count in [1, 200] {
        let mut guest = tables(count, 0, 0);
        let mut ring = guest.ring();
        assert_eq!(guest.receive(&mut ring).0.unwrap_err(), empty());
        let mut guest = tables(count, 0, descriptor::WRITE);
        let mut ring = guest.ring();
        assert_eq!(guest.transmit(&mut ring, 60).0.unwrap_err(), empty());
    }
    // Also one that is no part of a chain.
    for flags in [0, descriptor::WRITE] {
        let mut guest = Guest::new(|_| 0);
        guest.describe(TABLE, 0, [(DATA, 0, flags, 0)]);
        let mut ring = guest.ring();
        let error = if flags == 0 { guest.receive(&mut ring).0.err() } else { guest.transmit(&mut ring, 60).0.err() };
        assert_eq!(error, Some(empty()));
    }
}

#[test]
fn packets_that_are_refused_do_not_keep_a_call() {
    // Too short, in one buffer and in 25; too long, in 256.
    for (count, len, calls_min) in [(1, 20, 50), (25, 1, 1000), (256, 7, 10_000)] {
        let (refused, calls) = tables(count, len, 0).receive_all();
        assert_eq!(refused, u64::from(ENTRIES));
        assert!(calls >= calls_min, "{calls} calls");
    }
    // Plain ones that ask for a checksum: each call looks ahead at those behind the first.
    let mut guest = Guest::new(|_| 0);
    guest.describe(TABLE, 0, [(DATA, 72, 0, 0)]);
    guest.file.write_all_at(&[1], DATA).unwrap();
    assert_eq!(guest.receive_all().0, u64::from(ENTRIES));
}

#[test]
fn packets_of_many_buffers_do_not_keep_a_call() {
    let mut guest = tables(250, 1, 0);
    let mut ring = guest.ring();
    let mut received = 0;
    while ring.next() != ENTRIES {
        let (result, looks) = guest.receive(&mut ring);
        result.unwrap();
        assert!(looks <= CALL_MAX, "{looks} descriptors in one call");
        received += guest.batch.len();
        guest.pool.free(&mut guest.batch);
    }
    assert_eq!(received, usize::from(ENTRIES));
}

#[test]
fn buffers_that_hold_nearly_nothing_do_not_keep_a_call() {
    // Chains of 256 bytes; single bytes; and 32 that look plain before one finds out that they are too short.
    for (guest, unfitting) in [
        (tables(256, 1, descriptor::WRITE), true),
        (tables(20, 1, descriptor::WRITE), true),
        (tables(1, 30, descriptor::WRITE), false),
        (
            {
                let guest = Guest::new(|entry| entry);
                guest.describe(TABLE, 0, (0..ENTRIES).map(|_| (DATA, 1, descriptor::WRITE, 0)));
                guest
            },
            true,
        ),
    ] {
        let mut guest = guest;
        let (mut ring, mut done) = (guest.ring(), 0);
        for _ in 0..200 {
            if ring.next() > ENTRIES / 2 {
                ring = guest.ring();
            }
            let (result, looks) = guest.transmit(&mut ring, 1000);
            let sent = result.unwrap();
            assert!(looks <= CALL_MAX, "{looks} descriptors in one call");
            assert!(sent.slots > 0 && sent.unfitting == if unfitting { sent.slots as u64 } else { 0 }, "{sent:?}");
            done += sent.slots;
        }
        assert!(done >= 200);
    }
}

/// The guest has the packets in front of a descriptor that cannot be: they are sent, and not to be sent again to the next guest.
#[test]
fn what_was_sent_before_a_fault_is_told() {
    let mut guest = Guest::new(|entry| entry % 8);
    let good = |number: u64| (DATA + 0x1000 * number, 2000, descriptor::WRITE, 0);
    guest.describe(TABLE, 0, (0..3).map(good).chain([(MEMORY_BYTES, 2000, descriptor::WRITE, 0)]));
    guest.pool.free(&mut guest.batch);
    assert_eq!(guest.pool.alloc(&mut guest.batch, 8, 100), 8);
    let (mut ring, layout) = (guest.ring(), Layout::new(FEATURES, 1518));
    let (sent, result) = send(&mut ring, &guest.memory, layout, &guest.batch, 0..8, &mut Budget::new());
    assert!(result.is_err(), "an address outside of the memory");
    assert_eq!((sent.slots, sent.packets, sent.bytes, ring.next()), (3, 3, 300, 3));
}

/// A guest that rewrites its descriptors, its available ring and the headers of its packets while the port reads them.
#[test]
fn a_guest_that_writes_meanwhile() {
    let mut guest = Guest::new(|entry| entry % 8);
    let good: Vec<_> = (0..8).map(|number| (DATA + 0x1000 * number, 12 + 100, 0, 0)).collect();
    guest.describe(TABLE, 0, good.iter().copied());
    let file = guest.file.try_clone().unwrap();
    let stop = AtomicBool::new(false);
    // Chains, tables, lengths that reach out of the memory, flags of headers, numbers of descriptors that there are not.
    let others = [
        (DATA, 60, descriptor::NEXT, 1),
        (INDIRECT_TABLE, 64, descriptor::INDIRECT, 0),
        (DATA, u32::MAX, 0, 0),
        (MEMORY_BYTES - 20, 40, 0, 0),
        (DATA, 5000, 0, 0),
        (DATA, 0, 0, 0),
    ];
    let bytes = |(address, len, flags, next): (u64, u32, u16, u16)| {
        [&address.to_le_bytes()[..], &len.to_le_bytes(), &flags.to_le_bytes(), &next.to_le_bytes()].concat()
    };
    let (mut corrupt, mut packets) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0_usize.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let (number, good) = (round % 8, good[round % 8]);
                file.write_all_at(&bytes(others[round % others.len()]), 16 * number as u64).unwrap();
                file.write_all_at(&[(round % 3 == 0).into(), (round % 5 == 0).into()], good.0).unwrap();
                file.write_all_at(&u16::MAX.to_le_bytes(), AVAILABLE + 4 + 2 * (round as u64 % 64)).unwrap();
                file.write_all_at(&bytes(good), 16 * number as u64).unwrap();
                file.write_all_at(&[0, 0], good.0).unwrap();
                file.write_all_at(&(number as u16).to_le_bytes(), AVAILABLE + 4 + 2 * (round as u64 % 64)).unwrap();
            }
        });
        let _stop = StopAtEnd(&stop);
        while corrupt < 200 || packets < 20_000 {
            let mut ring = guest.ring();
            let (result, looks) = guest.receive(&mut ring);
            assert!(looks <= CALL_MAX);
            corrupt += usize::from(result.is_err());
            packets += guest.batch.len();
            assert!(guest.batch.iter().all(|packet| (14..=1518).contains(&packet.len())));
            guest.pool.free(&mut guest.batch);
        }
    });
    assert!(!guest.memory.is_broken() && guest.pool.available() == 1024);
}

/// Ends the writer, also where the test fails.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
