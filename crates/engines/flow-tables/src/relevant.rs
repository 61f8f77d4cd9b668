//! The bits of keys that some entry compares. Packets whose keys differ in other bits only take the same way, so the cache of a worker knows
//! keys by these bits alone: ten thousand flows that no entry tells apart take one place (as megaflows of Open vSwitch do, but with
//! one mask for all tables).
//!
//! The control thread adds bits before it adds the entry that compares them, and takes bits away after a version has begun without the last entry
//! that compares them. A worker reads the bits before it enters a version, and looks once more after it asked the tables. So:
//!
//! - a key is kept under bits of which the entries that the worker met compare no others;
//! - a key is found under bits of which the entries in force compare no others, and what was kept for it rests on entries that are
//!   checked (`resolve.rs`, `is_current`). Bits that no entry in force compares do not change its way.

use std::sync::atomic::{AtomicU64, Ordering};

use linerate_classify::{Key, Mask, WORDS};

use crate::facts::BEYOND_ENTRIES;

/// What the control thread publishes.
pub(crate) struct RelevantBits {
    /// Another number for each change.
    number: AtomicU64,
    words: [AtomicU64; WORDS],
}

/// What a worker knows of them.
#[derive(Clone, Debug)]
pub(crate) struct Relevant {
    number: u64,
    mask: Mask,
}

impl RelevantBits {
    /// Those of a switch without entries.
    pub(crate) fn new() -> RelevantBits {
        RelevantBits { number: AtomicU64::new(0), words: BEYOND_ENTRIES.words.map(AtomicU64::new) }
    }

    /// Adds the bits of an entry, before a worker can meet it. By the control thread.
    pub(crate) fn add(&self, mask: &Mask) {
        self.set(std::array::from_fn(|at| self.word(at) | mask.words[at]));
    }

    /// Leaves the bits of these masks alone, after a version began in which no entry compares another one. By the control thread.
    pub(crate) fn set_to_union(&self, masks: impl Iterator<Item = Mask>) {
        let union = masks.fold(BEYOND_ENTRIES.words, |all, mask| std::array::from_fn(|at| all[at] | mask.words[at]));
        self.set(union);
    }

    fn set(&self, words: [u64; WORDS]) {
        if (0..WORDS).all(|at| self.word(at) == words[at]) {
            return;
        }
        self.words.iter().zip(words).for_each(|(word, value)| word.store(value, Ordering::Release));
        self.number.store(self.number.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    fn word(&self, at: usize) -> u64 {
        self.words[at].load(Ordering::Acquire)
    }
}

impl Relevant {
    /// All bits are relevant: right under any entries.
    pub(crate) const ALL: Relevant = Relevant { number: u64::MAX, mask: Mask { words: [u64::MAX; WORDS] } };

    /// Those of now.
    pub(crate) fn of(bits: &RelevantBits) -> Relevant {
        let number = bits.number.load(Ordering::Acquire);
        Relevant { number, mask: Mask { words: std::array::from_fn(|at| bits.word(at)) } }
    }

    /// False if the bits have changed since they were read.
    #[inline]
    pub(crate) fn is_current(&self, bits: &RelevantBits) -> bool {
        bits.number.load(Ordering::Acquire) == self.number
    }

    /// True of [`Relevant::ALL`].
    pub(crate) fn is_all(&self) -> bool {
        self.number == Relevant::ALL.number
    }

    /// True if a mask has all relevant bits.
    pub(crate) fn is_within(&self, mask: &Mask) -> bool {
        self.mask.words.iter().zip(&mask.words).all(|(relevant, word)| relevant & !word == 0)
    }

    /// Leaves the relevant bits of a key.
    #[inline]
    pub(crate) fn apply(&self, key: &mut Key) {
        let used = if key.is_extended() { WORDS } else { WORDS / 2 };
        key.words.iter_mut().zip(&self.mask.words).take(used).for_each(|(word, mask)| *word &= mask);
    }

    /// True if two keys differ in relevant bits. Those of flows do so in addresses or ports, which are compared first.
    #[inline]
    pub(crate) fn differ(&self, one: &Key, other: &Key) -> bool {
        let bits = |at: usize| one.words[at] ^ other.words[at];
        if bits(2) | bits(3) == 0 && one == other {
            return false;
        }
        let relevant = |at: usize| bits(at) & self.mask.words[at];
        let any = |from: usize| (from..from + WORDS / 2).fold(0, |all, at| all | relevant(at)) != 0;
        // If the first lines are equal, both keys have a second one, or none.
        relevant(2) | relevant(3) != 0 || any(0) || one.is_extended() && any(WORDS / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(words: &[(usize, u64)]) -> Key {
        let mut key = Key::ZERO;
        words.iter().for_each(|(at, word)| key.words[*at] = *word);
        key
    }

    fn mask(at: usize, bits: u64) -> Mask {
        let mut mask = Mask::NONE;
        mask.words[at] = bits;
        mask
    }

    #[test]
    fn keys_differ_in_bits_that_entries_compare_and_in_no_others() {
        let bits = RelevantBits::new();
        let before = Relevant::of(&bits);
        let (one, other) = (key(&[(2, 5), (0, 1)]), key(&[(2, 7), (0, 1)]));
        assert!(!before.differ(&one, &other) && Relevant::ALL.differ(&one, &other));
        bits.add(&mask(2, 4));
        assert!(!before.is_current(&bits));
        assert!(!Relevant::of(&bits).differ(&one, &other));
        bits.add(&mask(2, 2));
        let after = Relevant::of(&bits);
        assert!(after.differ(&one, &other) && !after.differ(&one, &key(&[(2, 4), (0, 9)])));
        let mut masked = one;
        after.apply(&mut masked);
        assert_eq!(masked, key(&[(2, 4)]));
        bits.set_to_union([mask(2, 4)].into_iter());
        assert!(!after.is_current(&bits) && !Relevant::of(&bits).differ(&one, &other));
        let last = Relevant::of(&bits);
        bits.add(&mask(2, 4));
        assert!(last.is_current(&bits), "no bit is new");
    }

    #[test]
    fn a_second_line_counts_where_it_is_in_use() {
        let bits = RelevantBits::new();
        bits.add(&mask(9, 1));
        let relevant = Relevant::of(&bits);
        let (one, other) = (key(&[(7, Key::EXTENDED), (9, 1)]), key(&[(7, Key::EXTENDED), (9, 2)]));
        assert!(relevant.differ(&one, &other));
        assert!(relevant.differ(&one, &key(&[(9, 1)])), "one has a second line, the other one none");
        assert!(!relevant.differ(&key(&[(9, 1)]), &key(&[(9, 2)])), "neither has one");
        let mut masked = key(&[(7, Key::EXTENDED), (9, 3), (10, 3)]);
        relevant.apply(&mut masked);
        assert_eq!(masked, key(&[(7, Key::EXTENDED), (9, 1)]));
    }
}
