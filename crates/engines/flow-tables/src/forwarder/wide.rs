//! A few ways that a worker took of late, each with the bits of the key by which the tables decided on it: far fewer than all that entries
//! compare, where the first masks have a match. Packets that have the same bits take the same way, and neither the cache nor the tables are
//! asked about them: flows of one network that follow one another, also flows that never come again.
//!
//! A way that is current is right for all keys with these bits, because an entry that was added since makes it stale (`resolve.rs`,
//! `is_current`), as one that was removed does if the way rests on it; and no other change makes a better match for any of them.
//!
//! Where few packets are so alike, this is tried in one pass of [`TURNS`] only.

use linerate_classify::{Key, MISS, Mask, WORDS};

/// Ways that are known.
const KNOWN: usize = 4;
/// Of passes while few packets are alike, one in so many tries.
const TURNS: u32 = 16;
/// Packets between two decisions.
const TRIED: u64 = 1 << 12;
/// Packets of a pass, at least, that are worth a try.
const PACKETS_MIN: u32 = 8;

/// The ways.
#[derive(Default)]
pub(super) struct Wide {
    known: [Known; KNOWN],
    /// The one that answered last, which is tried first.
    last: usize,
    /// The one that makes room next.
    next: usize,
    is_resting: bool,
    passes: u32,
    tried: u64,
    answered: u64,
}

struct Known {
    value: Key,
    mask: Mask,
    /// [`MISS`] if there is none.
    way: u32,
}

impl Default for Known {
    fn default() -> Known {
        Known { value: Key::ZERO, mask: Mask::NONE, way: MISS }
    }
}

impl Known {
    /// True if the key has the value's bits. The mask has [`Key::EXTENDED`], so either both have a second line or none has.
    #[inline]
    fn has(&self, key: &Key) -> bool {
        let differ = |at: usize| (key.words[at] ^ self.value.words[at]) & self.mask.words[at];
        let any = |from: usize| (from..from + WORDS / 2).fold(0, |all, at| all | differ(at)) != 0;
        !(any(0) || key.is_extended() && any(WORDS / 2))
    }
}

impl Wide {
    /// True if a pass with so many different keys is to try.
    #[inline]
    pub(super) fn is_turn(&mut self, keys: u32) -> bool {
        if keys < PACKETS_MIN {
            return false;
        }
        self.passes = self.passes.wrapping_add(1);
        !self.is_resting || self.passes.is_multiple_of(TURNS)
    }

    /// Forgets the ways that are not current.
    #[inline]
    pub(super) fn check(&mut self, mut is_current: impl FnMut(u32) -> bool) {
        for known in &mut self.known {
            if known.way != MISS && !is_current(known.way) {
                known.way = MISS;
            }
        }
    }

    /// The way of a key; [`MISS`] if none is known.
    #[inline]
    pub(super) fn find(&mut self, key: &Key) -> u32 {
        let last = &self.known[self.last % KNOWN];
        if last.has(key) && last.way != MISS {
            return last.way;
        }
        self.find_other(key)
    }

    #[inline]
    fn find_other(&mut self, key: &Key) -> u32 {
        for (at, known) in self.known.iter().enumerate() {
            if known.way != MISS && known.has(key) {
                self.last = at;
                return known.way;
            }
        }
        MISS
    }

    /// Notes the way of a key, and the bits by which it is decided.
    pub(super) fn learn(&mut self, key: &Key, mask: Mask, way: u32) {
        self.known[self.next] = Known { value: *key, mask, way };
        self.last = self.next;
        self.next = (self.next + 1) % KNOWN;
    }

    /// Forgets all ways.
    pub(super) fn clear(&mut self) {
        self.known = Default::default();
    }

    /// Notes how many keys of a pass were answered.
    #[inline]
    pub(super) fn note(&mut self, tried: u32, answered: u32) {
        self.tried += u64::from(tried);
        self.answered += u64::from(answered);
        if self.tried >= TRIED {
            self.is_resting = self.answered * 2 < self.tried;
            (self.tried, self.answered) = (0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(word: u64, last: u64) -> Key {
        let mut key = Key::ZERO;
        (key.words[2], key.words[15]) = (word, last);
        key
    }

    fn mask(word: u64) -> Mask {
        let mut mask = Mask::NONE;
        (mask.words[2], mask.words[7], mask.words[15]) = (word, Key::EXTENDED, 1);
        mask
    }

    #[test]
    fn keys_with_the_bits_of_a_way_take_it_until_it_is_stale_or_makes_room() {
        let mut wide = Wide::default();
        assert_eq!(wide.find(&Key::ZERO), MISS);
        wide.learn(&key(0x1234, 0), mask(0xff00), 7);
        wide.learn(&key(0x1334, 0), mask(0xffff), 8);
        let find = |wide: &mut Wide, word| wide.find(&key(word, 1));
        assert_eq!([0x1200, 0x1334, 0x12ff, 0x1335].map(|word| find(&mut wide, word)), [7, 8, 7, MISS]);
        wide.check(|way| way != 7);
        assert_eq!([0x1200, 0x1334].map(|word| find(&mut wide, word)), [MISS, 8]);
        (0..KNOWN as u32).for_each(|way| wide.learn(&key(u64::from(way) << 8, 0), mask(0xff00), way));
        assert_eq!([0x1334, 0x0000, 0x0301].map(|word| find(&mut wide, word)), [MISS, 0, 3]);
        wide.clear();
        assert_eq!(find(&mut wide, 0), MISS);
    }

    #[test]
    fn a_second_line_counts_where_it_is_in_use() {
        let mut wide = Wide::default();
        wide.learn(&key(1, 0), mask(1), 7);
        let extended = |last| {
            let mut key = key(1, last);
            key.words[7] = Key::EXTENDED;
            key
        };
        assert_eq!([key(1, 0), key(1, 1), extended(0)].map(|key| wide.find(&key)), [7, 7, MISS]);
        wide.learn(&extended(1), mask(1), 8);
        assert_eq!([key(1, 1), extended(0), extended(1)].map(|key| wide.find(&key)), [7, MISS, 8]);
    }

    #[test]
    fn it_tries_seldom_where_few_packets_are_alike() {
        let mut wide = Wide::default();
        let turns = |wide: &mut Wide| (0..160).filter(|_| wide.is_turn(64)).count();
        assert!(!wide.is_turn(PACKETS_MIN - 1));
        wide.note(TRIED as u32, TRIED as u32 / 2);
        assert_eq!(turns(&mut wide), 160);
        wide.note(TRIED as u32, TRIED as u32 / 2 - 1);
        assert_eq!(turns(&mut wide), 10);
        wide.note(TRIED as u32, TRIED as u32);
        assert_eq!(turns(&mut wide), 160);
    }
}
