//! Where rules lie: one cache line each, two or four for those that compare many words.
//!
//! ```text
//! word 0   id 32 | priority 16            changed in one store when a rule gets another id
//! word 1   next 32: the rule with the same match and the next lower priority; read by the writer only
//! word 2.. the words of the value, one for each atom of the rule's mask, in their order
//! ```
//! A line is written while nobody can reach it, and becomes reachable by a store that releases.

use crate::chunks::Chunks;
use crate::domain::{Domain, Limbo};
use crate::key::WORDS;
use crate::memory::Line;
use crate::primitive::{Arc, Ordering};

/// Words of the first line that stand before the value.
pub(crate) const HEAD: usize = 2;
/// Words of the value in the first line.
pub(crate) const FIRST_WORDS: usize = 8 - HEAD;
/// The end of a chain.
pub(crate) const NONE: u32 = u32::MAX;
/// Sizes: 1, 2 and 4 lines.
const SIZES: usize = 3;

/// The lines of all rules of a classifier, as readers see them.
pub(crate) type Lines = Chunks<Line>;

/// The writer's end.
pub(crate) struct Entries {
    lines: Arc<Lines>,
    /// Free places, by size.
    free: [Vec<u32>; SIZES],
    /// Lines from here on were never used.
    end: u32,
    limbo: Limbo<(u32, u8)>,
}

/// A rule as an entry holds it, but for its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) id: u32,
    pub(crate) priority: u16,
}

impl Head {
    #[inline]
    pub(crate) fn of(word: u64) -> Head {
        Head { id: word as u32, priority: (word >> 32) as u16 }
    }

    fn word(self) -> u64 {
        u64::from(self.priority) << 32 | u64::from(self.id)
    }
}

impl Entries {
    pub(crate) fn new(domain: &Domain) -> Entries {
        Entries { lines: Arc::new(Chunks::new()), free: Default::default(), end: 0, limbo: Limbo::new(domain) }
    }

    pub(crate) fn lines(&self) -> &Arc<Lines> {
        &self.lines
    }

    /// Writes a rule that nobody can reach yet.
    pub(crate) fn insert(&mut self, head: Head, next: u32, value: &[u64]) -> u32 {
        let index = self.alloc(size_of_value(value.len()));
        if let Some(line) = self.lines.get(index) {
            line.0[0].store(head.word(), Ordering::Relaxed);
            line.0[1].store(next.into(), Ordering::Relaxed);
            line.0[HEAD..].iter().zip(value).for_each(|(cell, word)| cell.store(*word, Ordering::Relaxed));
        }
        for (number, words) in (1..).zip(value.get(FIRST_WORDS..).unwrap_or_default().chunks(8)) {
            if let Some(line) = self.lines.get(index + number) {
                line.0.iter().zip(words).for_each(|(cell, word)| cell.store(*word, Ordering::Relaxed));
            }
        }
        index
    }

    /// Gives back a rule with a value of so many words, which nobody can reach any more.
    pub(crate) fn remove(&mut self, index: u32, value_words: usize) {
        self.limbo.put((index, size_of_value(value_words)));
        if self.limbo.len().is_multiple_of(RECLAIM_AT) {
            self.reclaim();
        }
    }

    /// Makes places free that no worker reads any more.
    pub(crate) fn reclaim(&mut self) {
        for (index, size) in self.limbo.due() {
            self.free[size as usize].push(index);
        }
    }

    pub(crate) fn head(&self, index: u32) -> Head {
        Head::of(self.word(index, 0))
    }

    pub(crate) fn set_head(&self, index: u32, head: Head) {
        self.store(index, 0, head.word());
    }

    pub(crate) fn next(&self, index: u32) -> u32 {
        self.word(index, 1) as u32
    }

    pub(crate) fn set_next(&self, index: u32, next: u32) {
        self.store(index, 1, next.into());
    }

    /// Word `at` of the value.
    pub(crate) fn value(&self, index: u32, at: usize) -> u64 {
        self.word(index, at + HEAD)
    }

    /// Bytes of the lines.
    pub(crate) fn bytes(&self) -> usize {
        self.lines.bytes() + self.free.iter().map(|free| free.capacity() * size_of::<u32>()).sum::<usize>()
    }

    fn word(&self, index: u32, at: usize) -> u64 {
        let line = self.lines.get(index + (at / 8) as u32);
        line.map_or(0, |line| line.0[at % 8].load(Ordering::Relaxed))
    }

    fn store(&self, index: u32, at: usize, word: u64) {
        if let Some(line) = self.lines.get(index) {
            line.0[at].store(word, Ordering::Relaxed);
        }
    }

    fn alloc(&mut self, size: u8) -> u32 {
        if self.free[size as usize].is_empty() {
            self.reclaim();
        }
        if let Some(index) = self.free[size as usize].pop() {
            return index;
        }
        // A place of several lines begins at a multiple of its size, so that it lies in one chunk.
        while !self.end.is_multiple_of(1 << size) {
            let size = self.end.trailing_zeros();
            self.free[size as usize].push(self.end);
            self.end += 1 << size;
        }
        let index = self.end;
        self.lines.reserve(index);
        self.end += 1 << size;
        index
    }
}

/// Entries given back before the writer looks which are free.
const RECLAIM_AT: usize = 128;

/// The size, as a power of two, of an entry whose value has so many words.
fn size_of_value(words: usize) -> u8 {
    debug_assert!(words <= WORDS);
    (words + HEAD).div_ceil(8).next_power_of_two().trailing_zeros() as u8
}
