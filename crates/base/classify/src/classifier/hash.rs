//! Hashes of words and how they are made.
//!
//! A word under a mask is hashed by one multiplication of 64 by 64 bits whose halves are folded (as wyhash does), with a secret for
//! each atom. The hash of a tuple is the sum of its atoms' hashes, so an atom that many tuples share is hashed once a packet.
//! Secrets differ from process to process: nobody outside can choose rules that collide.

use std::hash::{BuildHasher, RandomState};

use crate::fold::{FACTOR, Folding, fold};

/// How a classifier hashes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hashing {
    seed: u64,
    /// Bits that are kept of each atom's hash. Tests cut it down to make collisions.
    kept: u64,
    /// False if filters let everything pass, for tests of what lies behind them.
    pub(crate) filters: bool,
}

impl Hashing {
    /// With a seed of this process. The model checker goes through the same steps again and again, so it has always the same seed.
    pub(crate) fn random() -> Hashing {
        let seed = if cfg!(loom) { 1 } else { RandomState::new().hash_one(FACTOR) };
        Hashing { seed, ..Hashing::known() }
    }

    /// With the same seed in every process.
    pub(crate) fn known() -> Hashing {
        Hashing { seed: 1, kept: u64::MAX, filters: true }
    }

    #[cfg(all(test, not(any(miri, loom))))]
    pub(crate) fn for_tests(kept: u64, filters: bool) -> Hashing {
        Hashing { seed: 1, kept, filters }
    }

    /// For maps of masks and atoms.
    pub(crate) fn maps(&self) -> Folding {
        Folding(self.seed)
    }

    /// The secret of an atom.
    pub(crate) fn secret(&self, word: u8, mask: u64) -> u64 {
        fold(fold(mask ^ self.seed, FACTOR) ^ u64::from(word), self.seed | 1)
    }

    /// The hash of a masked word.
    #[inline]
    pub(crate) fn atom(&self, masked: u64, secret: u64) -> u64 {
        fold(masked ^ secret, FACTOR) & self.kept
    }
}
