//! The ways that a worker knows, by number. Packets with different keys share a way if the same entries match them.
//!
//! A way that is stale stays, because keys in the cache name it: each of them finds out, and is looked up again. When most are stale,
//! all are forgotten, with the cache. Which are is counted on the way: each new one has a few of the others looked at.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use linerate_classify::MISS;
use linerate_mem::prefetch;

use super::path::{Asked, Path};

/// So many ways are kept, even if all of them are stale.
const WAYS_MIN: usize = 1 << 15;
/// For one that is current, so many are kept.
const WAYS_FOR_A_CURRENT_ONE: usize = 4;
/// How many are looked at for each new one: more than one, or the count would never catch up.
const LOOKED_AT: usize = 4;

#[derive(Default)]
pub(super) struct Paths {
    all: Vec<Path>,
    /// The newest way with a hash.
    newest: HashMap<u64, u32>,
    hasher: RandomState,
    /// The newest way with nothing but one entry, by the slot of the entry.
    by_flow: Vec<u32>,
    /// Ways before this one have been looked at.
    looked_at: usize,
    /// Ways that were current, of those.
    current: usize,
    is_full: bool,
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
                    self.by_flow[slot] = number;
                }
                None => _ = self.newest.insert(self.hasher.hash_one((asked, metadata)), number),
            }
        }
        self.all.push(path);
        number
    }

    /// Looks at a few ways, in turn, which is to be done for each that is kept. `is_current` tells whether one is.
    pub(super) fn look_on(&mut self, mut is_current: impl FnMut(&mut Path) -> bool) {
        for _ in 0..LOOKED_AT {
            let Some(path) = self.all.get_mut(self.looked_at) else {
                self.is_full = self.all.len() > WAYS_MIN.max(WAYS_FOR_A_CURRENT_ONE * self.current);
                (self.looked_at, self.current) = (0, 0);
                return;
            };
            self.current += usize::from(is_current(path));
            self.looked_at += 1;
        }
    }

    /// Ways that are held.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// True if there are so many ways that all should be forgotten.
    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    pub(super) fn clear(&mut self) {
        self.all.clear();
        self.newest.clear();
        self.by_flow.fill(MISS);
        (self.looked_at, self.current, self.is_full) = (0, 0, false);
    }
}

/// The slot of the entry, if a way begins without metadata and rests on nothing else.
fn single(asked: &[Asked], metadata: u64) -> Option<u32> {
    match asked {
        [Asked { flow: Some((slot, _)), .. }] if metadata == 0 => Some(*slot),
        _ => None,
    }
}
