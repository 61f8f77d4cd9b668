//! Counters that one worker writes with plain stores and the control thread reads.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::drops::DropReason;

/// A counter with one writer.
#[derive(Debug, Default)]
pub(crate) struct Tally(AtomicU64);

impl Tally {
    #[inline]
    pub(crate) fn add(&self, count: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
    }

    /// Notes a number that is no sum.
    #[inline]
    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Packets and bytes.
#[derive(Debug, Default)]
pub(crate) struct Pair {
    pub(crate) packets: Tally,
    pub(crate) bytes: Tally,
}

impl Pair {
    #[inline]
    pub(crate) fn add(&self, packets: u64, bytes: u64) {
        self.packets.add(packets);
        self.bytes.add(bytes);
    }
}

/// A value for each worker, each in cache lines of its own.
#[derive(Debug)]
pub(crate) struct PerWorker<T>(Box<[Line<T>]>);

#[derive(Debug, Default)]
#[repr(align(128))]
struct Line<T>(T);

impl<T: Default> PerWorker<T> {
    pub(crate) fn new(workers: usize) -> PerWorker<T> {
        PerWorker((0..workers.max(1)).map(|_| Line::default()).collect())
    }
}

impl<T> PerWorker<T> {
    /// That of one worker; a worker whose number is too high gets that of the last.
    #[inline]
    pub(crate) fn of(&self, worker: usize) -> &T {
        &self.0[worker.min(self.0.len() - 1)].0
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|line| &line.0)
    }

    /// The sum of a number over all workers.
    pub(crate) fn sum(&self, of: fn(&T) -> &Tally) -> u64 {
        let mut sum = 0u64;
        for line in &self.0 {
            sum = sum.wrapping_add(of(&line.0).read());
        }
        sum
    }
}

impl PerWorker<Pair> {
    /// Packets and bytes of all workers.
    pub(crate) fn total(&self) -> (u64, u64) {
        (self.sum(|pair| &pair.packets), self.sum(|pair| &pair.bytes))
    }
}

/// What one worker counts of a port.
#[derive(Debug, Default)]
pub(crate) struct PortTally {
    pub(crate) received: Pair,
    pub(crate) sent: Pair,
    pub(crate) rx_dropped: Tally,
    pub(crate) tx_dropped: Tally,
}

/// What one worker counts of a table.
#[derive(Debug, Default)]
pub(crate) struct TableTally {
    pub(crate) lookups: Tally,
    pub(crate) matches: Tally,
}

/// What one worker counts of all packets.
#[derive(Debug, Default)]
pub(crate) struct Account {
    pub(crate) received: Pair,
    pub(crate) packet_outs: Pair,
    pub(crate) copies: Tally,
    pub(crate) queued: Tally,
    pub(crate) sent: Tally,
    pub(crate) handed_over: Tally,
    pub(crate) taken_over: Tally,
    pub(crate) to_controller: Tally,
    pub(crate) joined_fragments: Tally,
    pub(crate) held_fragments: Tally,
    pub(crate) cache_hits: Tally,
    pub(crate) cache_misses: Tally,
    pub(crate) cache_entries: Tally,
    pub(crate) ways: Tally,
    pub(crate) drops: Drops,
}

/// What one worker did with packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerTotals {
    /// Packets that arrived by its ports.
    pub received: u64,
    /// Packets that its ports took.
    pub sent: u64,
    /// Packets that went to the workers of their ports.
    pub handed_over: u64,
    /// Packets that came from other workers.
    pub taken_over: u64,
}

impl Account {
    pub(crate) fn worker_totals(&self) -> WorkerTotals {
        WorkerTotals {
            received: self.received.packets.read(),
            sent: self.sent.read(),
            handed_over: self.handed_over.read(),
            taken_over: self.taken_over.read(),
        }
    }
}

/// Packets by the reason why they were dropped.
#[derive(Debug)]
pub(crate) struct Drops([Tally; DropReason::COUNT]);

impl Default for Drops {
    fn default() -> Drops {
        Drops(std::array::from_fn(|_| Tally::default()))
    }
}

impl Drops {
    #[inline]
    pub(crate) fn add(&self, reason: DropReason, packets: u64) {
        self.0[reason as usize].add(packets);
    }

    pub(crate) fn read(&self, reason: DropReason) -> u64 {
        self.0[reason as usize].read()
    }
}
