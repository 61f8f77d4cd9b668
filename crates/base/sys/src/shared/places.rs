//! Where the shared mappings of this process lie: changed by whoever makes or drops one, read by the handler of SIGBUS in any thread,
//! at any moment, without a lock.
//!
//! A place is reused. A reader that took the start of one mapping and the end of the next would find a range that never was, and put
//! zeros over memory of others. So each place has a version, odd while it changes, and a range counts only if the version was even and
//! the same before and after it was read (a sequence lock). Whoever reads does not wait for an even one: the mapping in which a thread
//! faults is in use, so its place does not change, and a place that changes is another's.

use std::ops::Range;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering, fence};
use std::sync::{Mutex, PoisonError};

/// Nothing is wrong with the mapping.
const SOUND: u8 = 0;
/// A thread is putting zeros in its place.
const REPLACING: u8 = 1;
/// Zeros are in its place.
const LOST: u8 = 2;
/// The kernel refused to put zeros in its place.
const FAILED: u8 = 3;

/// A table of `N` places.
pub(super) struct Places<const N: usize> {
    places: [Place; N],
    /// Places from here on were never used.
    used: AtomicUsize,
    /// Held by who changes the table; the handler only reads.
    changing: Mutex<()>,
}

struct Place {
    version: AtomicUsize,
    start: AtomicUsize,
    /// 0 in a free place.
    end: AtomicUsize,
    state: AtomicU8,
}

/// A mapping that was found.
pub(super) struct Found<'a> {
    place: &'a Place,
    /// Its addresses.
    pub range: Range<usize>,
}

/// Who replaces a mapping.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// The caller, who says with [`Found::settle`] how it went.
    Mine,
    /// Another thread, or it is done.
    Others,
    /// It was tried in vain.
    Failed,
}

impl<const N: usize> Places<N> {
    pub(super) const fn new() -> Places<N> {
        Places { places: [const { Place::new() }; N], used: AtomicUsize::new(0), changing: Mutex::new(()) }
    }

    /// Enters a mapping; its place, unless the table is full.
    pub(super) fn occupy(&self, start: usize, bytes: usize) -> Option<usize> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let index = self.places.iter().position(|place| place.end.load(Ordering::Relaxed) == 0)?;
        self.places[index].state.store(SOUND, Ordering::Relaxed);
        self.places[index].change(start..start + bytes);
        self.used.fetch_max(index + 1, Ordering::Release);
        Some(index)
    }

    /// Takes a mapping out, before it is unmapped.
    pub(super) fn vacate(&self, index: usize) {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        self.places[index].change(0..0);
    }

    /// True once zeros are, or are being put, in the place of the mapping.
    #[inline]
    pub(super) fn is_lost(&self, index: usize) -> bool {
        self.places[index].state.load(Ordering::Relaxed) != SOUND
    }

    /// The mapping that `address` lies in, for a thread that has just faulted there. It is the one whose user the thread is: that one
    /// was entered before its user got it and stays until it is dropped, and no other range in the table overlaps it, as a mapping
    /// leaves the table before its addresses are free.
    pub(super) fn find(&self, address: usize) -> Option<Found<'_>> {
        let used = self.used.load(Ordering::Acquire);
        self.places[..used].iter().find_map(|place| {
            let range = place.range()?;
            range.contains(&address).then_some(Found { place, range })
        })
    }
}

impl Place {
    const fn new() -> Place {
        let (start, end) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Place { version: AtomicUsize::new(0), start, end, state: AtomicU8::new(SOUND) }
    }

    /// Writes the range; one caller at a time.
    fn change(&self, range: Range<usize>) {
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version.wrapping_add(1), Ordering::Relaxed);
        // A reader that sees part of the range sees that the version is odd, or another one, at its second look.
        fence(Ordering::Release);
        self.start.store(range.start, Ordering::Relaxed);
        self.end.store(range.end, Ordering::Relaxed);
        self.version.store(version.wrapping_add(2), Ordering::Release);
    }

    /// The range as a whole; `None` if it is being changed.
    fn range(&self) -> Option<Range<usize>> {
        let version = self.version.load(Ordering::Acquire);
        let range = self.start.load(Ordering::Relaxed)..self.end.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        let same = self.version.load(Ordering::Relaxed) == version;
        (same && version.is_multiple_of(2)).then_some(range)
    }
}

impl Found<'_> {
    /// Says who replaces the mapping. Only one thread may: another would put zeros over what the first wrote after its fault.
    pub(super) fn claim(&self) -> Claim {
        match self.place.state.compare_exchange(SOUND, REPLACING, Ordering::Acquire, Ordering::Acquire) {
            Ok(_) => Claim::Mine,
            Err(FAILED) => Claim::Failed,
            Err(_) => Claim::Others,
        }
    }

    /// Says how the claimed replacing went.
    pub(super) fn settle(&self, replaced: bool) {
        self.place.state.store(if replaced { LOST } else { FAILED }, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn a_mapping_is_found_until_it_goes() {
        let places = Places::<2>::new();
        assert!(places.find(100).is_none());
        let (one, two) = (places.occupy(100, 50).unwrap(), places.occupy(150, 50).unwrap());
        assert!(places.occupy(300, 1).is_none());
        assert_eq!(places.find(149).unwrap().range, 100..150);
        assert_eq!(places.find(150).unwrap().range, 150..200);
        assert!(places.find(99).is_none() && places.find(200).is_none());
        assert_eq!(places.find(100).unwrap().claim(), Claim::Mine);
        assert_eq!(places.find(100).unwrap().claim(), Claim::Others);
        assert!(places.is_lost(one) && !places.is_lost(two));
        places.find(100).unwrap().settle(false);
        assert_eq!(places.find(100).unwrap().claim(), Claim::Failed);
        places.vacate(one);
        assert!(places.find(100).is_none());
        // The place is used again, and starts sound.
        assert_eq!(places.occupy(300, 1), Some(one));
        assert!(!places.is_lost(one));
    }

    /// Mappings come and go in one place, left and right of an address that none of them has.
    #[test]
    fn a_range_that_never_was_is_never_found() {
        let rounds = if cfg!(miri) { 300 } else { 300_000 };
        let (places, stop) = (Places::<2>::new(), AtomicBool::new(false));
        let kept = places.occupy(5000, 10).unwrap();
        std::thread::scope(|scope| {
            let readers = [0; 2].map(|_| {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        // A start of 1000 with an end of 4000 would contain it.
                        assert!(places.find(2500).is_none(), "between two mappings");
                        if let Some(found) = places.find(1500) {
                            assert_eq!(found.range, 1000..2000);
                        }
                        // One that stays is found at any time.
                        assert_eq!(places.find(5005).unwrap().range, 5000..5010);
                    }
                })
            });
            for _ in 0..rounds {
                if readers.iter().any(std::thread::ScopedJoinHandle::is_finished) {
                    break;
                }
                for start in [1000, 3000] {
                    let place = places.occupy(start, 1000).unwrap();
                    places.vacate(place);
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
        places.vacate(kept);
    }
}
