//! Sets of eight keys, as many as are needed now.

use linerate_mem::prefetch;

use crate::key::{FIRST, Key, WORDS};
use crate::memory::{Array, Cell};
use crate::tags::{equal_tags, tag};

/// Keys of a set.
pub(super) const PLACES: usize = 8;

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Set {
    /// 16 bits each; 0: the place is free.
    tags: [u64; 2],
    values: [u32; PLACES],
    /// A bit for each place that was used of late.
    used: u8,
}

/// One line of a key.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Words([u64; FIRST]);

impl Words {
    /// True if these are the words. All are compared, which takes fewer steps than to stop at the first that differs.
    #[inline(always)]
    fn is(&self, words: &[u64; FIRST]) -> bool {
        (0..FIRST).fold(0, |differ, at| differ | (self.0[at] ^ words[at])) == 0
    }
}

const FREE: Set = Set { tags: [0; 2], values: [0; PLACES], used: 0 };

// SAFETY: integers, for which zeroes are valid.
#[allow(unsafe_code)]
unsafe impl Cell for Set {
    fn vacant() -> Set {
        FREE
    }
}

// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Cell for Words {
    fn vacant() -> Words {
        Words([0; FIRST])
    }
}

/// Sets in use are the first ones. Places are numbers below [`PLACES`].
pub(super) struct Sets {
    sets: Array<Set>,
    first: Array<Words>,
    second: Array<Words>,
    /// Sets in use, at least 2 to the power of `level` and less than twice as many.
    count: usize,
    low: usize,
    has_second: bool,
    keys: usize,
}

impl Sets {
    /// `count` sets, which may become up to `count_max`, both powers of two.
    pub(super) fn new(count: usize, count_max: usize) -> Sets {
        let (first, second) = (Array::new(count_max * PLACES), Array::new(count_max * PLACES));
        Sets { sets: Array::new(count_max), first, second, count, low: count - 1, has_second: false, keys: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn keys(&self) -> usize {
        self.keys
    }

    /// The set of a hash. A set that was split has half the hashes, and the one that came of it the others.
    #[inline]
    pub(super) fn of(&self, hash: u64) -> usize {
        let set = hash as usize & (2 * self.low + 1);
        if set < self.count { set } else { set & self.low }
    }

    #[inline]
    pub(super) fn prefetch(&self, set: usize) {
        prefetch(&self.sets, set);
    }

    /// Asks for the key at a place; nothing happens if there is no such place.
    #[inline]
    pub(super) fn prefetch_key(&self, set: usize, place: usize, is_extended: bool) {
        if place < PLACES {
            prefetch(&self.first, set * PLACES + place);
            if is_extended {
                prefetch(&self.second, set * PLACES + place);
            }
        }
    }

    /// A bit for each place whose tag is that of the hash.
    #[inline]
    pub(super) fn tagged(&self, set: usize, hash: u64) -> u8 {
        equal_tags(self.sets[set].tags, tag(hash)) as u8
    }

    /// The place of a key among those that have its tag.
    #[inline(always)]
    pub(super) fn find(&self, set: usize, tagged: u8, key: &Key) -> Option<usize> {
        let (first, second) = (key.words.first_chunk()?, key.words.last_chunk()?);
        let mut tagged = tagged;
        while tagged != 0 {
            let place = tagged.trailing_zeros() as usize;
            tagged &= tagged - 1;
            let at = set * PLACES + place;
            let is_same = self.first[at].is(first) && (!key.is_extended() || self.second[at].is(second));
            if is_same {
                return Some(place);
            }
        }
        None
    }

    /// The value at a place, which is marked as used.
    #[inline]
    pub(super) fn use_value(&mut self, set: usize, place: usize) -> u32 {
        let set = &mut self.sets[set];
        if set.used >> place & 1 == 0 {
            set.used |= 1 << place;
        }
        set.values[place % PLACES]
    }

    pub(super) fn set_value(&mut self, set: usize, place: usize, value: u32) {
        self.sets[set].values[place] = value;
    }

    /// Marks all keys of a set as not used.
    #[inline]
    pub(super) fn forget_use(&mut self, set: usize) {
        self.sets[set].used = 0;
    }

    /// A free place.
    pub(super) fn free(&self, set: usize) -> Option<usize> {
        first_place(equal_tags(self.sets[set].tags, 0))
    }

    /// The place of a key that was not used of late.
    pub(super) fn unused(&self, set: usize) -> Option<usize> {
        let set = &self.sets[set];
        first_place(!equal_tags(set.tags, 0) & !u32::from(set.used) & 0xff)
    }

    /// Puts a key into a place, whatever was there.
    pub(super) fn put(&mut self, set: usize, place: usize, hash: u64, key: &Key, value: u32) {
        let at = set * PLACES + place;
        self.first[at].0.copy_from_slice(&key.words[..FIRST]);
        if key.is_extended() {
            self.second[at].0.copy_from_slice(&key.words[FIRST..]);
            self.has_second = true;
        }
        let set = &mut self.sets[set];
        self.keys += usize::from(set.tag(place) == 0);
        set.set_tag(place, tag(hash));
        set.values[place] = value;
        set.used |= 1 << place;
    }

    /// Makes a place free.
    pub(super) fn take(&mut self, set: usize, place: usize) {
        self.keys -= usize::from(self.sets[set].tag(place) != 0);
        self.sets[set].set_tag(place, 0);
        self.sets[set].used &= !(1 << place);
    }

    /// The key at a place.
    pub(super) fn key(&self, set: usize, place: usize) -> Option<Key> {
        let at = set * PLACES + place;
        let mut key = Key { words: [0; WORDS] };
        key.words[..FIRST].copy_from_slice(&self.first[at].0);
        if key.is_extended() {
            key.words[FIRST..].copy_from_slice(&self.second[at].0);
        }
        (self.sets[set].tag(place) != 0).then_some(key)
    }

    /// One set more: returns the set that is split, and the new one.
    pub(super) fn add(&mut self) -> (usize, usize) {
        let new = self.count;
        self.count += 1;
        let from = new & self.low;
        if self.count > 2 * self.low + 1 {
            self.low = 2 * self.low + 1;
        }
        (from, new)
    }

    /// Moves a key to the same place of another set.
    pub(super) fn move_to(&mut self, from: usize, place: usize, to: usize) {
        let (old, new) = (from * PLACES + place, to * PLACES + place);
        self.first[new] = self.first[old];
        if self.has_second {
            self.second[new] = self.second[old];
        }
        let source = self.sets[from];
        let set = &mut self.sets[to];
        set.set_tag(place, source.tag(place));
        set.values[place] = source.values[place];
        set.used = set.used & !(1 << place) | source.used & 1 << place;
        self.sets[from].set_tag(place, 0);
        self.sets[from].used &= !(1 << place);
    }

    pub(super) fn clear(&mut self) {
        self.sets[..self.count].fill(FREE);
        self.keys = 0;
    }

    /// Bytes of the sets in use.
    pub(super) fn bytes(&self) -> usize {
        let lines = PLACES * (1 + usize::from(self.has_second));
        self.count * (size_of::<Set>() + lines * size_of::<Words>())
    }
}

impl Set {
    fn tag(&self, place: usize) -> u16 {
        (self.tags[place / 4 % 2] >> (place % 4 * 16)) as u16
    }

    fn set_tag(&mut self, place: usize, tag: u16) {
        let word = &mut self.tags[place / 4 % 2];
        let shift = place % 4 * 16;
        *word = *word & !(0xffff << shift) | u64::from(tag) << shift;
    }
}

fn first_place(places: u32) -> Option<usize> {
    (places != 0).then(|| places.trailing_zeros() as usize)
}
