//! The mixing step of hashes, and a hasher made of it for the writer's maps.

use std::hash::{BuildHasher, Hasher};

/// An odd number without structure, as in wyhash.
pub(crate) const FACTOR: u64 = 0xa076_1d64_78bd_642f;

/// The halves of the product of two words, one over the other (as in wyhash).
#[inline]
pub(crate) fn fold(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    product as u64 ^ (product >> 64) as u64
}

/// Makes hashers with one secret, which nobody outside knows.
#[derive(Clone, Copy)]
pub(crate) struct Folding(pub(crate) u64);

impl BuildHasher for Folding {
    type Hasher = Folded;

    fn build_hasher(&self) -> Folded {
        Folded(self.0)
    }
}

/// A hash of words, which takes one multiplication for each.
pub(crate) struct Folded(u64);

impl Hasher for Folded {
    fn write(&mut self, bytes: &[u8]) {
        for bytes in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = fold(self.0 ^ word, FACTOR);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
