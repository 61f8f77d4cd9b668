//! A tuple as readers see it: the rules with one mask, and the words that this mask has.

use super::buckets::Buckets;
use super::entries::FIRST_WORDS;
use super::filter::Filter;
use super::hash::Hashing;
use crate::key::{FIRST, Key, Mask, WORDS};
use crate::primitive::{AtomicBool, AtomicU32, Ordering};

/// One word under one mask, and the secret that its hash has.
#[derive(Clone, Copy, Default)]
pub(crate) struct Part {
    pub(crate) word: u8,
    pub(crate) mask: u64,
    pub(crate) secret: u64,
}

impl Part {
    /// The atoms of a mask.
    pub(crate) fn all(mask: &Mask, hashing: &Hashing) -> Vec<Part> {
        let used = (0..WORDS as u8).zip(mask.words).filter(|(_, mask)| *mask != 0);
        used.map(|(word, mask)| Part { word, mask, secret: hashing.secret(word, mask) }).collect()
    }

    /// The word of a key under the mask.
    #[inline]
    pub(crate) fn of(&self, key: &Key) -> u64 {
        key.word(self.word as usize) & self.mask
    }
}

/// The rules with one mask.
pub(crate) struct Tuple {
    /// One more than the highest priority of this tuple and of all behind it; 0 if they have no rule.
    limit: AtomicU32,
    /// No rule of a tuple behind it is more important than any of its own, as far as was known when limits changed last. A hint: it says
    /// how many tuples are worth asking at once.
    is_last_word: AtomicBool,
    /// Atoms in use.
    count: u8,
    /// All atoms are of the first line of keys, and the values of entries lie in one line.
    is_plain: bool,
    /// Where the atoms stand in the group.
    slots: [u8; WORDS],
    parts: [Part; WORDS],
    pub(crate) filter: Filter<3>,
    pub(crate) buckets: Buckets,
}

impl Tuple {
    pub(crate) fn new(parts: &[Part], slots: &[u8], filter: Filter<3>, buckets: Buckets) -> Tuple {
        let (mut all_parts, mut all_slots) = ([Part::default(); WORDS], [0; WORDS]);
        all_parts[..parts.len()].copy_from_slice(parts);
        all_slots[..slots.len()].copy_from_slice(slots);
        let (limit, is_last_word, count) = (AtomicU32::new(0), AtomicBool::new(false), parts.len() as u8);
        let is_plain = parts.len() <= FIRST_WORDS && parts.iter().all(|part| (part.word as usize) < FIRST);
        Tuple { limit, is_last_word, count, is_plain, slots: all_slots, parts: all_parts, filter, buckets }
    }

    #[inline]
    pub(crate) fn limit(&self) -> u32 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Changes the limit; by the writer, before a rule that raises it can be reached.
    pub(crate) fn set_limit(&self, limit: u32) {
        if self.limit() != limit {
            self.limit.store(limit, Ordering::Release);
        }
    }

    /// A match here is most likely the best there is.
    #[inline]
    pub(crate) fn is_last_word(&self) -> bool {
        self.is_last_word.load(Ordering::Relaxed)
    }

    /// Changes the hint; by the writer, at any time.
    pub(crate) fn set_last_word(&self, is_last_word: bool) {
        self.is_last_word.store(is_last_word, Ordering::Relaxed);
    }

    /// All atoms are of the first line of keys, and the values of entries lie in one line.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.is_plain
    }

    #[inline]
    pub(crate) fn parts(&self) -> &[Part] {
        &self.parts[..self.count as usize % (WORDS + 1)]
    }

    #[inline]
    pub(crate) fn slots(&self) -> &[u8] {
        &self.slots[..self.count as usize % (WORDS + 1)]
    }
}
