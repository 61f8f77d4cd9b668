//! A hash table from a tuple's hash to entries, in buckets of one cache line that readers search while the writer changes them.
//!
//! ```text
//! word 0, 1   8 tags of 16 bits; 0: the place is free
//! word 2 - 5  8 entries of 32 bits
//! word 6      how many entries belong here or before and lie behind, because this bucket was full
//! ```
//! An entry lies in its bucket or, where that is full, in one behind it, and never moves while the table lives, so that a reader
//! cannot miss it. The writer stores the entry first and then its tag, both releasing; a reader loads both acquiring.

use linerate_mem::prefetch;

use crate::memory::{Line, SharedArray};
use crate::primitive::{AtomicU64, Ordering};
use crate::tags::{equal_tags, tag};

/// Places of a bucket.
pub(crate) const PLACES: usize = 8;
/// Word of the count of entries behind.
const BEHIND: usize = 6;

/// Clones share the buckets.
#[derive(Clone)]
pub(crate) struct Buckets {
    lines: SharedArray<Line>,
}

/// One entry's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    bucket: usize,
    place: usize,
}

impl Buckets {
    /// An empty table with room for `entries`.
    pub(crate) fn new(entries: usize) -> Buckets {
        // A load of 0.65 at most.
        Buckets { lines: SharedArray::new((entries * 20).div_ceil(13 * PLACES).next_power_of_two()) }
    }

    /// Entries that the table takes before it should grow.
    pub(crate) fn capacity(&self) -> usize {
        self.lines.len() * PLACES * 13 / 20
    }

    /// The bucket of a hash.
    #[inline]
    pub(crate) fn home(&self, hash: u64) -> usize {
        hash as usize & (self.lines.len() - 1)
    }

    /// Asks for the line of a bucket.
    #[inline]
    pub(crate) fn prefetch(&self, bucket: usize) {
        prefetch(&self.lines, bucket);
    }

    /// The bucket behind `bucket`, if entries that belong here lie behind.
    #[inline]
    pub(crate) fn behind(&self, bucket: usize) -> Option<usize> {
        let behind = self.line(bucket)[BEHIND].load(Ordering::Relaxed) != 0;
        behind.then(|| self.following(bucket))
    }

    /// A bit for each place of a bucket whose tag is that of the hash.
    #[inline]
    pub(crate) fn tagged(&self, bucket: usize, hash: u64) -> u32 {
        let line = self.line(bucket);
        let tags = [line[0].load(Ordering::Acquire), line[1].load(Ordering::Acquire)];
        equal_tags(tags, tag(hash))
    }

    /// The entry at a place.
    #[inline]
    pub(crate) fn entry(&self, bucket: usize, place: u32) -> u32 {
        let place = place as usize % PLACES;
        (self.line(bucket)[2 + place / 2].load(Ordering::Acquire) >> (place % 2 * 32)) as u32
    }

    /// The first entry with the hash's tag that `is_wanted`, and where it lies.
    #[inline]
    pub(crate) fn find(&self, hash: u64, mut is_wanted: impl FnMut(u32) -> bool) -> Option<(Place, u32)> {
        let mut bucket = self.home(hash);
        // Bounded also if counts change meanwhile.
        for _ in 0..self.lines.len() {
            let mut tagged = self.tagged(bucket, hash);
            while tagged != 0 {
                let place = tagged.trailing_zeros();
                tagged &= tagged - 1;
                let entry = self.entry(bucket, place);
                if is_wanted(entry) {
                    return Some((Place { bucket, place: place as usize }, entry));
                }
            }
            bucket = self.behind(bucket)?;
        }
        None
    }

    /// Puts in an entry. There must be room.
    pub(crate) fn insert(&self, hash: u64, entry: u32) {
        let mut bucket = self.home(hash);
        for _ in 0..self.lines.len() {
            let tags = [0, 1].map(|word| self.line(bucket)[word].load(Ordering::Relaxed));
            let free = equal_tags(tags, 0);
            if free != 0 {
                let place = Place { bucket, place: free.trailing_zeros() as usize };
                self.replace(place, entry);
                return self.set_tag(place, tag(hash));
            }
            self.count(bucket, 1);
            bucket = self.following(bucket);
        }
        debug_assert!(false, "a table is made larger before it is full");
    }

    /// Puts another entry in the place of one, in one step.
    pub(crate) fn replace(&self, place: Place, entry: u32) {
        let word = &self.line(place.bucket)[2 + place.place / 2];
        let shift = place.place % 2 * 32;
        let kept = word.load(Ordering::Relaxed) & !(u64::from(u32::MAX) << shift);
        word.store(kept | u64::from(entry) << shift, Ordering::Release);
    }

    /// Takes the entry of a hash out of its place.
    pub(crate) fn remove(&self, hash: u64, place: Place) {
        self.set_tag(place, 0);
        let mut bucket = self.home(hash);
        while bucket != place.bucket {
            self.count(bucket, u64::MAX);
            bucket = self.following(bucket);
        }
    }

    /// All entries.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        (0..self.lines.len()).flat_map(move |bucket| {
            let tags = [0, 1].map(|word| self.line(bucket)[word].load(Ordering::Relaxed));
            let free = equal_tags(tags, 0);
            (0..PLACES as u32).filter(move |place| free >> place & 1 == 0).map(move |place| self.entry(bucket, place))
        })
    }

    /// Bytes of the buckets.
    pub(crate) fn bytes(&self) -> usize {
        self.lines.bytes()
    }

    #[inline]
    fn line(&self, bucket: usize) -> &[AtomicU64; 8] {
        &self.lines[bucket & (self.lines.len() - 1)].0
    }

    #[inline]
    fn following(&self, bucket: usize) -> usize {
        (bucket + 1) & (self.lines.len() - 1)
    }

    fn count(&self, bucket: usize, more: u64) {
        let behind = &self.line(bucket)[BEHIND];
        behind.store(behind.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
    }

    fn set_tag(&self, place: Place, tag: u16) {
        let word = &self.line(place.bucket)[place.place / 4];
        let shift = place.place % 4 * 16;
        let kept = word.load(Ordering::Relaxed) & !(0xffff << shift);
        word.store(kept | u64::from(tag) << shift, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn entries_of_one_bucket_go_behind_it_and_are_found_there_until_they_are_removed() {
        let table = Buckets::new(40);
        assert!(table.capacity() >= 40);
        let hash = |entry: u64| entry << 48 | 3;
        (1..=30).for_each(|entry| table.insert(hash(entry), entry as u32));
        let find = |entry: u64| table.find(hash(entry), |found| found == entry as u32).map(|(place, _)| place);
        assert!((1..=30).all(|entry| find(entry).is_some()) && find(31).is_none());
        for entry in (1..=30).filter(|entry| entry % 3 != 0) {
            table.remove(hash(entry), find(entry).unwrap());
        }
        assert_eq!(table.iter().collect::<std::collections::BTreeSet<_>>().len(), 10);
        assert!((1..=30).all(|entry| find(entry).is_some() == (entry % 3 == 0)));
        table.replace(find(3).unwrap(), 77);
        assert_eq!(table.find(hash(3), |_| true).unwrap().1, 77);
        table.remove(hash(3), table.find(hash(3), |_| true).unwrap().0);
        (2..=10).for_each(|third| table.remove(hash(third * 3), find(third * 3).unwrap()));
        assert!((0..table.lines.len()).all(|bucket| table.behind(bucket).is_none()), "nothing lies behind any more");
    }
}
