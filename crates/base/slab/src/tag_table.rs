//! A hash table from 64-bit hashes to `u32` values in buckets of one cache line.
#![allow(unsafe_code)]

use crate::{Array, PopulateError, ReserveError, Slab};

/// Values of a bucket.
const WAYS: usize = 8;
/// Values that a bucket has room for on average, when the table is full. 3 % of the values then lie in overflow buckets.
const LOAD: usize = 5;
/// Buckets for each overflow bucket, when the table is full: by the Poisson distribution, 6.8 % of the buckets have more than eight values.
const OVERFLOW: usize = 12;
/// `Bucket::overflow` of a bucket without one.
const LAST: u32 = 0;

/// One cache line. All bytes zero are an empty bucket.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Bucket {
    /// 16 bits of the hash of each value, never 0; 0 where there is no value.
    tags: [u16; WAYS],
    values: [u32; WAYS],
    /// Number of the next bucket of the chain in `TagTable::overflow`, plus 1.
    overflow: u32,
    unused: [u32; 3],
}

const _: () = assert!(size_of::<Bucket>() == 64);

const EMPTY: Bucket = Bucket { tags: [0; WAYS], values: [0; WAYS], overflow: LAST, unused: [0; 3] };

/// Values by hash. Keys are not stored here: a lookup asks its caller which of the values with an equal tag is meant.
///
/// ```text
/// bucket | 8 tags of 16 bits | 8 values of 32 bits | next bucket | unused |     64 bytes; all tags are compared at once
/// ```
/// Full buckets have a chain of overflow buckets behind them. Of a chain, only the last bucket has vacant places. Whoever is to be kept
/// from choosing keys that collide uses a hash with a secret.
///
/// ```
/// let keys = ["a", "b"];
/// let mut table = linerate_slab::TagTable::new(1000).unwrap();
/// assert!(table.insert(0x1234_5678_9abc_def0, 1));
/// assert_eq!(table.find(0x1234_5678_9abc_def0, |value| keys[value as usize] == "b"), Some(1));
/// assert_eq!(table.find(0x1234_5678_9abc_def0, |value| keys[value as usize] == "a"), None);
/// ```
pub struct TagTable {
    buckets: Array<Bucket>,
    overflow: Slab<Bucket>,
    len: usize,
    capacity: usize,
}

impl TagTable {
    /// An empty table for `capacity` values.
    ///
    /// # Errors
    /// The kernel does not reserve so much address space.
    pub fn new(capacity: usize) -> Result<TagTable, ReserveError> {
        let buckets = capacity.div_ceil(LOAD).max(1);
        // SAFETY: a bucket is integers, for which zeroes are valid.
        let buckets = unsafe { Array::zeroed(buckets) }?;
        let overflow = Slab::new(buckets.len() / 2 + 16)?;
        Ok(TagTable { buckets, overflow, len: 0, capacity })
    }

    /// Takes memory for all buckets in advance, as [`Array::populate`], and for as many overflow buckets as a full table needs: the buckets
    /// of a few values already lie everywhere.
    ///
    /// # Errors
    /// There is not so much memory.
    pub fn populate(&mut self) -> Result<(), PopulateError> {
        let buckets = self.buckets.len();
        self.buckets.populate(buckets)?;
        self.overflow.populate(buckets / OVERFLOW + 16)
    }

    /// Number of values.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there is no value.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Asks for the bucket of a hash, which a lookup will read.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        self.buckets.prefetch(self.place(hash));
    }

    /// The first value whose tag is equal, without asking whether it is the one that is meant: good enough to prefetch.
    #[inline]
    pub fn candidate(&self, hash: u64) -> Option<u32> {
        let bucket = &self.buckets[self.place(hash)];
        let hits = bucket.hits(tag(hash));
        (hits != 0).then(|| bucket.values[hits.trailing_zeros() as usize / 2 % WAYS])
    }

    /// The value of this hash that `is` says true of.
    #[inline]
    pub fn find(&self, hash: u64, mut is: impl FnMut(u32) -> bool) -> Option<u32> {
        let tag = tag(hash);
        let mut bucket = &self.buckets[self.place(hash)];
        loop {
            let mut hits = bucket.hits(tag);
            while hits != 0 {
                let value = bucket.values[hits.trailing_zeros() as usize / 2 % WAYS];
                if is(value) {
                    return Some(value);
                }
                hits &= hits - 1;
            }
            if bucket.overflow == LAST {
                return None;
            }
            bucket = &self.overflow[bucket.overflow - 1];
        }
    }

    /// Adds a value. False, and nothing has happened, if the table is full.
    pub fn insert(&mut self, hash: u64, value: u32) -> bool {
        if self.len == self.capacity {
            return false;
        }
        let mut at = Place::Bucket(self.place(hash));
        loop {
            let bucket = self.bucket_mut(at);
            let vacant = bucket.hits(0);
            if vacant != 0 {
                let way = vacant.trailing_zeros() as usize / 2 % WAYS;
                (bucket.tags[way], bucket.values[way]) = (tag(hash), value);
                self.len += 1;
                return true;
            }
            if bucket.overflow == LAST {
                let Some(next) = self.overflow.insert(EMPTY) else { return false };
                self.bucket_mut(at).overflow = next + 1;
                at = Place::Overflow(next);
            } else {
                at = Place::Overflow(bucket.overflow - 1);
            }
        }
    }

    /// Puts `new` in the place of `old`, which has this hash; false if it is not there.
    pub fn replace(&mut self, hash: u64, old: u32, new: u32) -> bool {
        let Some((at, way)) = self.locate(hash, old) else { return false };
        self.bucket_mut(at).values[way] = new;
        true
    }

    /// Takes a value out; false if it is not there.
    pub fn remove(&mut self, hash: u64, value: u32) -> bool {
        let Some((at, way)) = self.locate(hash, value) else { return false };
        let (mut before, mut last) = (at, at);
        while self.bucket(last).overflow != LAST {
            before = last;
            last = Place::Overflow(self.bucket(last).overflow - 1);
        }
        // The hole is filled with a value of the last bucket, so that only that one has vacant places.
        let bucket = self.bucket_mut(last);
        let taken = if last == at { way } else { bucket.taken().trailing_zeros() as usize / 2 % WAYS };
        let moved = (bucket.tags[taken], bucket.values[taken]);
        (bucket.tags[taken], bucket.values[taken]) = (0, 0);
        let emptied = bucket.taken() == 0;
        if last != at {
            let bucket = self.bucket_mut(at);
            (bucket.tags[way], bucket.values[way]) = moved;
        }
        self.len -= 1;
        if emptied {
            self.unlink(hash, before, last);
        }
        true
    }

    /// Frees the last bucket of a chain, which is empty now, unless it is the first one, too.
    fn unlink(&mut self, hash: u64, before: Place, last: Place) {
        let Place::Overflow(index) = last else { return };
        let mut before = before;
        if before == last {
            before = Place::Bucket(self.place(hash));
            while self.bucket(before).overflow != index + 1 {
                before = Place::Overflow(self.bucket(before).overflow - 1);
            }
        }
        self.bucket_mut(before).overflow = LAST;
        self.overflow.remove(index);
    }

    fn locate(&self, hash: u64, value: u32) -> Option<(Place, usize)> {
        let mut at = Place::Bucket(self.place(hash));
        loop {
            let bucket = self.bucket(at);
            let mut hits = bucket.hits(tag(hash));
            while hits != 0 {
                let way = hits.trailing_zeros() as usize / 2 % WAYS;
                if bucket.values[way] == value {
                    return Some((at, way));
                }
                hits &= hits - 1;
            }
            if bucket.overflow == LAST {
                return None;
            }
            at = Place::Overflow(bucket.overflow - 1);
        }
    }

    fn bucket(&self, at: Place) -> &Bucket {
        match at {
            Place::Bucket(index) => &self.buckets[index],
            Place::Overflow(index) => &self.overflow[index],
        }
    }

    fn bucket_mut(&mut self, at: Place) -> &mut Bucket {
        match at {
            Place::Bucket(index) => &mut self.buckets[index],
            Place::Overflow(index) => &mut self.overflow[index],
        }
    }

    /// Number of the first bucket of a hash, by its upper half.
    #[inline]
    fn place(&self, hash: u64) -> u32 {
        (((hash >> 32) * self.buckets.len() as u64) >> 32) as u32
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Bucket(u32),
    Overflow(u32),
}

/// 16 bits of the lower half of a hash; never 0.
#[inline]
fn tag(hash: u64) -> u16 {
    (hash as u16).max(1)
}

impl Bucket {
    /// A bit for each place with this tag: bit 0, 2, 4 and so on.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[inline]
    fn hits(&self, tag: u16) -> u32 {
        use core::arch::x86_64::{_mm_cmpeq_epi16, _mm_load_si128, _mm_movemask_epi8, _mm_set1_epi16};
        // SAFETY: SSE2 is part of x86-64. The load is of the 16 bytes of the tags, which lie at the start of a line.
        let equal = unsafe {
            let tags = _mm_load_si128(self.tags.as_ptr().cast());
            _mm_movemask_epi8(_mm_cmpeq_epi16(tags, _mm_set1_epi16(tag as i16)))
        };
        equal as u32 & 0x5555
    }

    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    fn hits(&self, tag: u16) -> u32 {
        (0..WAYS).fold(0, |hits, way| hits | u32::from(self.tags[way] == tag) << (2 * way))
    }

    /// A bit for each place with a value.
    fn taken(&self) -> u32 {
        !self.hits(0) & 0x5555
    }
}
