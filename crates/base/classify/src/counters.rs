//! Packets, bytes and last use of each flow: written by the worker that counts, with plain stores, and read by others.
//!
//! Each worker has a cell of 32 bytes for each flow slot, so no two workers write to one line. A slot that is used again for another
//! flow has another generation; the worker zeroes the cell when it first counts for that.

use crate::chunks::Chunks;
use crate::memory::Cell;
use crate::primitive::{Arc, AtomicU64, Ordering, fence};

#[repr(C, align(32))]
struct Tally {
    packets: AtomicU64,
    bytes: AtomicU64,
    last_used: AtomicU64,
    /// Whose counts these are; 0 while they are zeroed.
    generation: AtomicU64,
}

// SAFETY: atomic integers, for which zeroes are valid, and nothing to drop.
#[allow(unsafe_code)]
unsafe impl Cell for Tally {
    fn vacant() -> Tally {
        let zero = || AtomicU64::new(0);
        Tally { packets: zero(), bytes: zero(), last_used: zero(), generation: zero() }
    }
}

/// What was counted of one flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The largest time that was given with packets, in the caller's unit; 0 if there were none.
    pub last_used: u64,
}

/// The counters of all workers.
pub struct Counters {
    workers: Vec<Arc<Chunks<Tally>>>,
}

impl Counters {
    /// Counters without workers.
    pub fn new() -> Counters {
        Counters { workers: Vec::new() }
    }

    /// An end for one more worker. Its counts stay when it is dropped.
    pub fn worker(&mut self, slots: u32) -> WorkerCounters {
        let cells = Arc::new(Chunks::new());
        self.workers.push(Arc::clone(&cells));
        (0..slots).step_by(64).chain(slots.checked_sub(1)).for_each(|slot| cells.reserve(slot));
        WorkerCounters { cells }
    }

    /// Sees that workers can count for `slot`. To be called before a worker learns of the slot.
    pub fn reserve(&mut self, slot: u32) {
        self.workers.iter().for_each(|cells| cells.reserve(slot));
    }

    /// The counts of one flow, all workers together. Packets and bytes of a worker that counts meanwhile may differ by those that it
    /// counts just then; at rest they agree.
    pub fn read(&self, slot: u32, generation: u32) -> Counts {
        let mut counts = Counts::default();
        for one in self.workers.iter().filter_map(|cells| cells.get(slot)?.read(generation)) {
            counts.packets += one.packets;
            counts.bytes += one.bytes;
            counts.last_used = counts.last_used.max(one.last_used);
        }
        counts
    }

    /// Bytes of the cells.
    pub fn memory_bytes(&self) -> usize {
        self.workers.iter().map(|cells| cells.bytes()).sum()
    }
}

impl Default for Counters {
    fn default() -> Counters {
        Counters::new()
    }
}

impl Tally {
    fn read(&self, generation: u32) -> Option<Counts> {
        let owner = u64::from(generation) + 1;
        if self.generation.load(Ordering::Acquire) != owner {
            return None;
        }
        let counts = Counts {
            packets: self.packets.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            last_used: self.last_used.load(Ordering::Relaxed),
        };
        // The worker may have begun to count for another flow, which it marks before it writes.
        fence(Ordering::Acquire);
        (self.generation.load(Ordering::Relaxed) == owner).then_some(counts)
    }

    #[cold]
    fn begin(&self, owner: u64) {
        self.generation.store(0, Ordering::Relaxed);
        fence(Ordering::Release);
        self.packets.store(0, Ordering::Relaxed);
        self.bytes.store(0, Ordering::Relaxed);
        self.last_used.store(0, Ordering::Relaxed);
        self.generation.store(owner, Ordering::Release);
    }
}

/// The end of one worker, which alone writes its cells.
pub struct WorkerCounters {
    cells: Arc<Chunks<Tally>>,
}

impl WorkerCounters {
    /// Counts packets of a flow. A slot that was not reserved is not counted.
    #[inline]
    pub fn add(&mut self, slot: u32, generation: u32, packets: u64, bytes: u64, now: u64) {
        let Some(cell) = self.cells.get(slot) else { return };
        let owner = u64::from(generation) + 1;
        if cell.generation.load(Ordering::Relaxed) != owner {
            cell.begin(owner);
        }
        let more = |sum: &AtomicU64, by| sum.store(sum.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
        more(&cell.packets, packets);
        more(&cell.bytes, bytes);
        cell.last_used.store(now, Ordering::Relaxed);
    }

    /// Asks for the cell of a slot.
    #[inline]
    pub fn prefetch(&self, slot: u32) {
        self.cells.prefetch(slot);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn counts_are_summed_over_workers_and_begin_anew_with_a_generation() {
        let mut counters = Counters::new();
        let (mut first, mut second) = (counters.worker(100), counters.worker(100));
        first.add(99, 5, 2, 120, 10);
        second.add(99, 5, 1, 60, 7);
        assert_eq!(counters.read(99, 5), Counts { packets: 3, bytes: 180, last_used: 10 });
        assert_eq!((counters.read(99, 6), counters.read(98, 5)), Default::default());
        first.add(99, 6, 1, 64, 11);
        assert_eq!(counters.read(99, 6), Counts { packets: 1, bytes: 64, last_used: 11 });
        assert_eq!(counters.read(99, 5), Counts { packets: 1, bytes: 60, last_used: 7 });
    }

    #[test]
    fn a_slot_is_counted_from_its_reservation_on() {
        let mut counters = Counters::new();
        let mut worker = counters.worker(0);
        worker.add(5000, 1, 1, 60, 1);
        assert_eq!(counters.read(5000, 1), Counts::default());
        counters.reserve(5000);
        worker.add(5000, 1, 1, 60, 1);
        assert_eq!(counters.read(5000, 1).packets, 1);
    }
}
