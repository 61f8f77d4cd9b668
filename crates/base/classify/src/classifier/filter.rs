//! Filters (Bloom's, of one word an element): "certainly absent" or "perhaps present", with one load.

use crate::memory::SharedArray;
use crate::primitive::{AtomicU64, Ordering};

/// Elements for each word of 64 bits, at most.
const PER_WORD: usize = 4;

/// A filter that sets `BITS` bits for each element. Clones share the words.
#[derive(Clone)]
pub(crate) struct Filter<const BITS: u32> {
    words: SharedArray<AtomicU64>,
}

impl<const BITS: u32> Filter<BITS> {
    /// An empty filter with room for `elements` and more; one that lets everything pass if it does not `work`.
    pub(crate) fn new(elements: usize, works: bool) -> Filter<BITS> {
        let words = SharedArray::<AtomicU64>::new(elements.div_ceil(PER_WORD).next_power_of_two());
        if !works {
            words.iter().for_each(|word| word.store(u64::MAX, Ordering::Relaxed));
        }
        Filter { words }
    }

    /// Elements for which the filter is large enough.
    pub(crate) fn capacity(&self) -> usize {
        self.words.len() * PER_WORD
    }

    /// Adds an element; true if it was certainly absent before. By one thread.
    pub(crate) fn add(&self, hash: u64) -> bool {
        let (word, bits) = (self.word(hash), bits::<BITS>(hash));
        let old = word.load(Ordering::Relaxed);
        word.store(old | bits, Ordering::Relaxed);
        old & bits != bits
    }

    /// False if the element is certainly absent.
    #[inline]
    pub(crate) fn test(&self, hash: u64) -> bool {
        let word = self.word(hash).load(Ordering::Relaxed);
        let first = word >> (hash & 63);
        let rest = (1..BITS).fold(first, |all, at| all & word >> (hash >> (6 * at) & 63));
        rest & 1 == 1
    }

    /// Where the words lie, and which bits of `hash >> 32` choose one.
    pub(crate) fn place(&self) -> (u64, u64) {
        (self.words.as_ptr().expose_provenance() as u64, self.words.len() as u64 - 1)
    }

    /// Bytes of the words.
    pub(crate) fn bytes(&self) -> usize {
        self.words.bytes()
    }

    #[inline]
    fn word(&self, hash: u64) -> &AtomicU64 {
        &self.words[(hash >> 32) as usize & (self.words.len() - 1)]
    }
}

fn bits<const BITS: u32>(hash: u64) -> u64 {
    (0..BITS).fold(0, |bits, at| bits | 1 << (hash >> (6 * at) & 63))
}

#[cfg(all(test, not(any(loom, miri))))]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_is_present_and_most_of_the_rest_is_not() {
        let filter = Filter::<3>::new(1000, true);
        let hash = |number: u64| {
            number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_mul(0xff51_afd7_ed55_8ccd)
        };
        (0..1000).for_each(|number| _ = filter.add(hash(number)));
        assert!((0..1000).all(|number| filter.test(hash(number)) && !filter.add(hash(number))));
        let wrong = (1000..11_000).filter(|number| filter.test(hash(*number))).count();
        assert!(wrong < 500, "{wrong} of 10,000");
    }
}
