//! Hashes of words and how they are made.
//!
//! A word under a mask is hashed by one multiplication of its halves, each combined with a half of the atom's secret (as NH does, Black et al.,
//! "UMAC", 1999), which vectors can do as well as registers. The sum of its atoms' hashes, mixed once more, is the hash of a tuple, so an
//! atom that many tuples share is hashed once a packet.
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
    /// Lookups ask eight tuples at a time, by vectors.
    vectors: bool,
}

impl Hashing {
    /// With a seed of this process. The model checker goes through the same steps again and again, so it has always the same seed.
    pub(crate) fn random() -> Hashing {
        let seed = if cfg!(loom) { 1 } else { RandomState::new().hash_one(FACTOR) };
        Hashing { seed, ..Hashing::known() }
    }

    /// With the same seed in every process.
    pub(crate) fn known() -> Hashing {
        Hashing { seed: 1, kept: u64::MAX, filters: true, vectors: has_vectors() }
    }

    #[cfg(all(test, not(any(miri, loom))))]
    pub(crate) fn for_tests(kept: u64, filters: bool, vectors: bool) -> Hashing {
        Hashing { seed: 1, kept, filters, vectors: vectors && has_vectors() }
    }

    #[cfg(all(test, not(loom)))]
    pub(crate) fn without_vectors(self) -> Hashing {
        Hashing { vectors: false, ..self }
    }

    /// For maps of masks and atoms.
    pub(crate) fn maps(&self) -> Folding {
        Folding(self.seed)
    }

    /// The secret of an atom. Both halves are odd, so that a word of which one half is zero still counts.
    pub(crate) fn secret(&self, word: u8, mask: u64) -> u64 {
        fold(fold(mask ^ self.seed, FACTOR) ^ u64::from(word), self.seed | 1) | 0x1_0000_0001
    }

    /// What a masked word adds to the hash of a tuple.
    #[inline]
    pub(crate) fn atom(&self, masked: u64, secret: u64) -> u64 {
        let mixed = masked ^ secret;
        (mixed & 0xffff_ffff) * (mixed >> 32)
    }

    /// The hash of a tuple, or of one atom, given the sum.
    #[inline]
    pub(crate) fn finish(&self, sum: u64) -> u64 {
        let folded = (sum ^ sum >> 32) & 0xffff_ffff;
        (folded * Hashing::FACTOR) & self.kept ^ sum & self.kept
    }

    /// What [`Hashing::finish`] multiplies by: the golden ratio's part of 32 bits.
    pub(crate) const FACTOR: u64 = 0x9e37_79b1;

    /// Bits that are kept of hashes.
    #[inline]
    pub(crate) fn kept(&self) -> u64 {
        self.kept
    }

    /// True if lookups ask eight tuples at a time, which this processor can.
    #[inline]
    pub(crate) fn vectors(&self) -> bool {
        self.vectors
    }
}

#[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
fn has_vectors() -> bool {
    is_x86_feature_detected!("avx2")
}

#[cfg(not(all(target_arch = "x86_64", not(any(miri, loom)))))]
fn has_vectors() -> bool {
    false
}
