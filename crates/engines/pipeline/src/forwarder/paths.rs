//! The ways that a worker knows, by number. Packets with different keys share a way if the same entries match them.
//!
//! A way that is stale stays, because keys in the cache name it: each of them finds out, and is looked up again. When many are stale,
//! all are forgotten, with the cache.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use super::path::{Asked, Path};

/// Ways, at least, that are kept before those that are stale are looked for.
const WAYS_MIN: usize = 1 << 16;

#[derive(Default)]
pub(super) struct Paths {
    all: Vec<Path>,
    /// The newest way with a hash.
    newest: HashMap<u64, u32>,
    hasher: RandomState,
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

    /// The hash of a way.
    pub(super) fn hash(&self, asked: &[Asked], metadata: u64) -> u64 {
        self.hasher.hash_one((asked, metadata))
    }

    /// The newest way with this hash that rests on the same entries.
    pub(super) fn find(&mut self, hash: u64, asked: &[Asked]) -> Option<(u32, &mut Path)> {
        let number = *self.newest.get(&hash)?;
        let path = self.all.get_mut(number as usize)?;
        (path.asked == asked).then_some((number, path))
    }

    /// Keeps a way, and returns its number.
    pub(super) fn keep(&mut self, hash: u64, path: Path) -> u32 {
        let number = self.all.len() as u32;
        if !path.is_transient {
            self.newest.insert(hash, number);
        }
        self.all.push(path);
        number
    }

    /// True if there are so many ways that all should be forgotten.
    pub(super) fn is_full(&self) -> bool {
        self.all.len() > WAYS_MIN.max(4 * self.newest.len())
    }

    pub(super) fn clear(&mut self) {
        self.all.clear();
        self.newest.clear();
    }
}
