//! A bounded single-producer single-consumer ring of 64-bit words.
//!
//! A word is what a slot packs into, so this one ring carries slots between threads. Cells are relaxed atomics that the
//! release/acquire pair on the indices orders; on the machines that matter a relaxed 64-bit load or store is a plain one, so
//! the ring needs no `unsafe`. Indices wrap at 2^32 and may start anywhere (tests start them just below the wrap).
//!
//! ```text
//!   cells   [ . . . w w w w w . . . . ]      capacity: a power of two
//!                   ^head     ^tail          head: written by the consumer only; tail: written by the producer only
//! ```
//!
//! Each end keeps a cached copy of the other end's index and rereads the shared one only when the cached one says that the
//! ring is full (or empty), so a batch costs one cache line of index traffic, not one a word.
//!
//! ```
//! let (mut producer, mut consumer) = linerate_ring::ring(8);
//! assert_eq!(producer.push(&[1, 2, 3]), 3);
//! let mut out = [0; 8];
//! assert_eq!(consumer.pop(&mut out), 3);
//! assert_eq!(out[..3], [1, 2, 3]);
//! ```
#![forbid(unsafe_code)]

mod primitive;

use primitive::{Arc, AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Makes a ring of at least `capacity` words (rounded up to a power of two, at most 2^31).
pub fn ring(capacity: usize) -> (Producer, Consumer) {
    ring_from(capacity, 0)
}

/// As [`ring`], with both indices starting at `start`, so that a test can put the wrap where it wants it.
pub fn ring_from(capacity: usize, start: u32) -> (Producer, Consumer) {
    let capacity = capacity.clamp(1, 1 << 31).next_power_of_two();
    let shared = Arc::new(Shared {
        cells: (0..capacity).map(|_| AtomicU64::new(0)).collect(),
        head: Line(AtomicU32::new(start)),
        tail: Line(AtomicU32::new(start)),
        producer_alive: AtomicBool::new(true),
        consumer_alive: AtomicBool::new(true),
    });
    let producer = Producer { shared: Arc::clone(&shared), tail: start, head_seen: start };
    (producer, Consumer { shared, head: start, tail_seen: start })
}

/// One cache line pair: neighbouring lines are fetched together on current x86 parts.
#[repr(align(128))]
struct Line<T>(T);

struct Shared {
    cells: Box<[AtomicU64]>,
    head: Line<AtomicU32>,
    tail: Line<AtomicU32>,
    producer_alive: AtomicBool,
    consumer_alive: AtomicBool,
}

impl Shared {
    #[inline]
    fn cell(&self, index: u32) -> &AtomicU64 {
        // The mask keeps the index inside the slice, which the compiler sees: no panic path.
        &self.cells[index as usize & (self.cells.len() - 1)]
    }

    /// `count` cells from `index` on, if they lie in a row.
    #[inline]
    fn straight(&self, index: u32, count: usize) -> Option<&[AtomicU64]> {
        self.cells.get(index as usize & (self.cells.len() - 1)..)?.get(..count)
    }

    /// `count` cells from `index` on: those up to the end of the array, then those from its start.
    fn wrapped(&self, index: u32, count: usize) -> (&[AtomicU64], &[AtomicU64]) {
        let (before, behind) = self.cells.split_at(index as usize & (self.cells.len() - 1));
        let first = count.min(behind.len());
        (&behind[..first], &before[..(count - first).min(before.len())])
    }
}

/// Words that are copied between two looks at how many are left: the compiler unrolls no loop over atomics by itself.
const UNROLLED: usize = 16;

/// Puts words into as many cells.
#[inline]
fn store(cells: &[AtomicU64], words: &[u64]) {
    let (cells, last_cells) = cells.as_chunks::<UNROLLED>();
    let (words, last_words) = words.as_chunks::<UNROLLED>();
    for (cells, words) in cells.iter().zip(words) {
        cells.iter().zip(words).for_each(|(cell, word)| cell.store(*word, Ordering::Relaxed));
    }
    last_cells.iter().zip(last_words).for_each(|(cell, word)| cell.store(*word, Ordering::Relaxed));
}

/// Takes words out of as many cells.
#[inline]
fn load(cells: &[AtomicU64], words: &mut [u64]) {
    let (cells, last_cells) = cells.as_chunks::<UNROLLED>();
    let (words, last_words) = words.as_chunks_mut::<UNROLLED>();
    for (cells, words) in cells.iter().zip(words) {
        cells.iter().zip(words).for_each(|(cell, word)| *word = cell.load(Ordering::Relaxed));
    }
    last_cells.iter().zip(last_words).for_each(|(cell, word)| *word = cell.load(Ordering::Relaxed));
}

/// The end that puts words in.
pub struct Producer {
    shared: Arc<Shared>,
    tail: u32,
    head_seen: u32,
}

impl Producer {
    /// Words that the ring can hold.
    pub fn capacity(&self) -> usize {
        self.shared.cells.len()
    }

    /// Words that can be pushed now; looks at the consumer's index.
    pub fn room(&mut self) -> usize {
        self.head_seen = self.shared.head.0.load(Ordering::Acquire);
        self.capacity() - self.tail.wrapping_sub(self.head_seen) as usize
    }

    /// Puts in as many of `words` as fit, in order, and returns how many.
    #[inline]
    pub fn push(&mut self, words: &[u64]) -> usize {
        let mut room = self.capacity() - self.tail.wrapping_sub(self.head_seen) as usize;
        if room < words.len() {
            room = self.room();
        }
        let count = room.min(words.len());
        let words = &words[..count];
        match self.shared.straight(self.tail, count) {
            Some(cells) => store(cells, words),
            None => self.push_wrapped(words),
        }
        if count > 0 {
            self.tail = self.tail.wrapping_add(count as u32);
            self.shared.tail.0.store(self.tail, Ordering::Release);
        }
        count
    }

    /// Stores words of which some come to lie before others.
    #[cold]
    fn push_wrapped(&self, words: &[u64]) {
        let (behind, before) = self.shared.wrapped(self.tail, words.len());
        let (first, second) = words.split_at(behind.len());
        store(behind, first);
        store(before, second);
    }

    /// False once the consumer has been dropped: what is pushed from now on is never taken out by it.
    pub fn peer_alive(&self) -> bool {
        self.shared.consumer_alive.load(Ordering::Acquire)
    }

    /// Takes back every word that nobody consumed. Empty as long as the consumer lives, which may be taking them.
    pub fn reclaim(&mut self) -> Vec<u64> {
        if self.peer_alive() {
            return Vec::new();
        }
        let head = self.shared.head.0.load(Ordering::Acquire);
        let count = self.tail.wrapping_sub(head);
        let words = (0..count).map(|n| self.shared.cell(head.wrapping_add(n)).load(Ordering::Relaxed)).collect();
        self.tail = head;
        self.head_seen = head;
        self.shared.tail.0.store(head, Ordering::Release);
        words
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.shared.producer_alive.store(false, Ordering::Release);
    }
}

/// The end that takes words out.
pub struct Consumer {
    shared: Arc<Shared>,
    head: u32,
    tail_seen: u32,
}

impl Consumer {
    /// Words that the ring can hold.
    pub fn capacity(&self) -> usize {
        self.shared.cells.len()
    }

    /// Words that can be popped now; looks at the producer's index.
    pub fn available(&mut self) -> usize {
        self.tail_seen = self.shared.tail.0.load(Ordering::Acquire);
        self.tail_seen.wrapping_sub(self.head) as usize
    }

    /// Takes out up to `out.len()` words, oldest first, and returns how many.
    #[inline]
    pub fn pop(&mut self, out: &mut [u64]) -> usize {
        self.pop_runs(out, |_| false)
    }

    /// As [`Consumer::pop`], without cutting a run of words: `goes_on` says of a word that the next one belongs to it. A run
    /// for which `out` has no room, or that is not complete in the ring, stays there.
    #[inline]
    pub fn pop_runs(&mut self, out: &mut [u64], goes_on: impl Fn(u64) -> bool) -> usize {
        let mut count = self.whole_runs(out.len(), &goes_on);
        if count == 0 {
            // Both lines that the producer has written come at the same time: the one of the next word is not needed only if there is none.
            let _ = self.shared.cell(self.head).load(Ordering::Relaxed);
            self.available();
            count = self.whole_runs(out.len(), &goes_on);
        }
        let out = &mut out[..count];
        match self.shared.straight(self.head, count) {
            Some(cells) => load(cells, out),
            None => self.pop_wrapped(out),
        }
        if count > 0 {
            self.head = self.head.wrapping_add(count as u32);
            self.shared.head.0.store(self.head, Ordering::Release);
        }
        count
    }

    /// Loads words of which some lie before others.
    #[cold]
    fn pop_wrapped(&self, out: &mut [u64]) {
        let (behind, before) = self.shared.wrapped(self.head, out.len());
        let (first, second) = out.split_at_mut(behind.len());
        load(behind, first);
        load(before, second);
    }

    /// Words, at most `most`, that are known to be in the ring and that end where a run ends.
    #[inline]
    fn whole_runs(&self, most: usize, goes_on: &impl Fn(u64) -> bool) -> usize {
        let mut count = (self.tail_seen.wrapping_sub(self.head) as usize).min(most);
        while count > 0 && goes_on(self.shared.cell(self.head.wrapping_add(count as u32 - 1)).load(Ordering::Relaxed)) {
            count -= 1;
        }
        count
    }

    /// False once the producer has been dropped: what is in the ring now is all that will come.
    pub fn peer_alive(&self) -> bool {
        self.shared.producer_alive.load(Ordering::Acquire)
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        self.shared.consumer_alive.store(false, Ordering::Release);
    }
}
