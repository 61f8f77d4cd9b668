//! The ways that a worker knows, by number. Packets with different keys share a way if the same entries match them.
//!
//! A way that is stale stays, because keys in the cache name it: each of them finds out, and is looked up again. When many are stale,
//! all are forgotten, with the cache.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use linerate_classify::MISS;
use linerate_mem::prefetch;

use super::path::{Asked, Path};

/// Ways, at least, that are kept before those that are stale are looked for.
const WAYS_MIN: usize = 1 << 16;

#[derive(Default)]
pub(super) struct Paths {
    all: Vec<Path>,
    /// The newest way with a hash.
    newest: HashMap<u64, u32>,
    hasher: RandomState,
    /// The newest way with nothing but one entry, by the slot of the entry.
    by_flow: Vec<u32>,
    /// Entries that have such a way.
    known: usize,
}

impl Paths {
    #[inline]
    pub(super) fn get(&self, number: u32) -> Option<&Path> {
        self.all.get(number as usize)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut Path> {
        self.all.get_mut(number as usize)
    }

    /// Asks for the line of a way that will be looked at.
    #[inline]
    pub(super) fn prefetch(&self, number: u32) {
        prefetch(&self.all, number as usize);
    }

    /// Asks for the line that says which way rests on one entry alone.
    #[inline]
    pub(super) fn prefetch_number(&self, slot: u32) {
        prefetch(&self.by_flow, slot as usize);
    }

    /// The newest way that rests on the entry in this slot and on nothing else, for packets without metadata at first; [`MISS`] if none is
    /// known. If it is current, it rests on the entry that is in the slot now: a slot gets another entry only after a version has begun in
    /// which the old one is gone.
    #[inline]
    pub(super) fn of_flow(&self, slot: u32) -> u32 {
        self.by_flow.get(slot as usize).copied().unwrap_or(MISS)
    }

    /// The newest way that rests on these answers, for packets whose metadata was this at first.
    #[inline]
    pub(super) fn find(&self, asked: &[Asked], metadata: u64) -> Option<u32> {
        let number = match single(asked, metadata) {
            Some(slot) => self.by_flow.get(slot as usize).copied().filter(|number| *number != MISS)?,
            None => *self.newest.get(&self.hasher.hash_one((asked, metadata)))?,
        };
        self.all.get(number as usize)?.rests_on(asked).then_some(number)
    }

    /// Keeps a way, and returns its number.
    pub(super) fn keep(&mut self, asked: &[Asked], metadata: u64, path: Path) -> u32 {
        let number = self.all.len() as u32;
        if !path.is_transient {
            match single(asked, metadata) {
                Some(slot) => {
                    let slot = slot as usize;
                    if self.by_flow.len() <= slot {
                        self.by_flow.resize((slot + 1).next_power_of_two(), MISS);
                    }
                    self.known += usize::from(self.by_flow[slot] == MISS);
                    self.by_flow[slot] = number;
                }
                None => _ = self.newest.insert(self.hasher.hash_one((asked, metadata)), number),
            }
        }
        self.all.push(path);
        number
    }

    /// True if there are so many ways that all should be forgotten.
    pub(super) fn is_full(&self) -> bool {
        self.all.len() > WAYS_MIN.max(4 * (self.newest.len() + self.known))
    }

    pub(super) fn clear(&mut self) {
        self.all.clear();
        self.newest.clear();
        self.by_flow.fill(MISS);
        self.known = 0;
    }
}

/// The slot of the entry, if a way begins without metadata and rests on nothing else.
fn single(asked: &[Asked], metadata: u64) -> Option<u32> {
    match asked {
        [Asked { flow: Some((slot, _)), .. }] if metadata == 0 => Some(*slot),
        _ => None,
    }
}
