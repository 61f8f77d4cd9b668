//! The exact-match cache of one worker: from whole keys to what the caller found for them the slow way.
//!
//! ```text
//! set        8 tags of 16 bits | 8 values of 32 bits | a bit for each that was used      one cache line
//! first      the first line of a key, by set and place                                   one cache line
//! second     its second line, where that is in use
//! seen       a byte for each of many keys that missed: those seen for the first time are not kept
//! ```
//!
//! Whole keys are compared, so nothing that only has the same hash is ever found. The address space for the largest number of sets is reserved
//! at the start, and memory is taken as the cache grows: set by set (linear hashing, Litwin 1980), so that no packet waits for it.

mod sets;
#[cfg(all(test, not(loom)))]
mod tests;

use std::hash::{BuildHasher, RandomState};

use linerate_mem::prefetch;

use crate::fold::fold;
use crate::key::{BATCH, FIRST, Key, MISS, WORDS, lanes};
use crate::memory::Array;
use sets::{PLACES, Sets};

/// Settings of a cache.
#[derive(Clone, Copy, Debug)]
pub struct CacheConfig {
    /// Keys that the cache is to hold. It begins small and grows as long as keys that repeat find no room, up to 1.6 to 3.2 times as
    /// many places, each of 72 bytes, or of 136 where keys have a second line.
    pub entries_max: usize,
    /// A key is kept when it misses for the second time, so that keys that never repeat leave the cache alone. If false, at once.
    pub second_sight: bool,
}

impl Default for CacheConfig {
    fn default() -> CacheConfig {
        CacheConfig { entries_max: 1 << 20, second_sight: true }
    }
}

/// Sets of a cache that has grown little.
const SETS_MIN: usize = 64;
/// Sets by which the cache grows when a key finds no room.
const SETS_MORE: usize = 2;
/// Of the keys that find no room in a cache of full size whose keys are all in use, one in so many is kept.
const KEPT_OF: u32 = 16;

/// A cache that one thread owns.
pub struct Cache {
    sets: Sets,
    sets_max: usize,
    /// Fingerprints of keys that missed; empty if keys are kept at once.
    seen: Array<u8>,
    second_sight: bool,
    secrets: [u64; WORDS],
    /// The set whose keys are marked as not used next.
    hand: usize,
    /// Decides which key makes room.
    refused: u32,
    /// Numbers without a pattern.
    misses: u64,
    /// Of the keys that were looked up last, by lane.
    hashes: [u64; BATCH],
}

/// A key on its way through the cache.
#[derive(Clone, Copy, Default)]
struct Probe {
    hash: u64,
    set: u32,
    tagged: u8,
}

/// Of a linear congruential generator (Knuth's MMIX).
const MULTIPLIER: u64 = 6_364_136_223_846_793_005;

impl Cache {
    /// An empty cache.
    pub fn new(config: CacheConfig) -> Cache {
        Cache::with(config, &RandomState::new())
    }

    fn with(config: CacheConfig, secrets: &impl BuildHasher) -> Cache {
        let entries_max = config.entries_max.clamp(PLACES, 1 << 28);
        // A load of 0.4 to 0.8, where few sets are full.
        let sets_max = (entries_max / 5).next_power_of_two();
        let seen = if config.second_sight { 2 * entries_max.next_power_of_two() } else { 1 };
        Cache {
            sets: Sets::new(SETS_MIN.min(sets_max), sets_max),
            sets_max,
            seen: Array::new(seen),
            second_sight: config.second_sight,
            secrets: std::array::from_fn(|at| secrets.hash_one(at)),
            hand: 0,
            refused: 0,
            misses: 0,
            hashes: [0; BATCH],
        }
    }

    /// Looks up those of up to 64 keys whose bit is set in `wanted`, and returns which of them were found. `values` gets what was
    /// inserted for them, and [`MISS`] for those not found; the places of other keys stay as they are.
    ///
    /// # Panics
    /// If there are more than 64 keys, or fewer values than keys.
    #[inline]
    pub fn lookup_batch(&mut self, keys: &[Key], wanted: u64, values: &mut [u32]) -> u64 {
        assert!(keys.len() <= BATCH && values.len() >= keys.len());
        if wanted == lanes(keys.len()) {
            self.lookup::<true>(keys, wanted, values)
        } else {
            self.lookup::<false>(keys, wanted, values)
        }
    }

    /// `ALL`: all keys are wanted.
    #[inline]
    fn lookup<const ALL: bool>(&mut self, keys: &[Key], wanted: u64, values: &mut [u32]) -> u64 {
        let mut probes = [Probe::default(); BATCH];
        let is_wanted = |lane: usize| ALL || wanted >> (lane % BATCH) & 1 == 1;
        for (lane, (key, probe)) in keys.iter().zip(&mut probes).enumerate() {
            if is_wanted(lane) {
                probe.hash = self.hash(key);
                probe.set = self.sets.of(probe.hash) as u32;
                self.sets.prefetch(probe.set as usize);
            }
        }
        for (lane, (key, probe)) in keys.iter().zip(&mut probes).enumerate() {
            if is_wanted(lane) {
                probe.tagged = self.sets.tagged(probe.set as usize, probe.hash);
                self.sets.prefetch_key(probe.set as usize, probe.tagged.trailing_zeros() as usize, key.is_extended());
            }
        }
        let mut missed = 0;
        for (lane, ((key, probe), value)) in keys.iter().zip(&probes).zip(values.iter_mut()).enumerate() {
            if is_wanted(lane) {
                *value = match self.sets.find(probe.set as usize, probe.tagged, key) {
                    Some(place) => self.sets.use_value(probe.set as usize, place),
                    None => {
                        missed |= 1 << lane;
                        self.hashes[lane] = probe.hash;
                        prefetch(&self.seen, self.sight(probe.hash).0);
                        MISS
                    }
                };
            }
        }
        // The hand comes round once in eight lookups for each place: keys that are not used for so long make room.
        self.hand = if self.hand + 1 < self.sets.len() { self.hand + 1 } else { 0 };
        self.sets.forget_use(self.hand);
        wanted & lanes(keys.len()) & !missed
    }

    /// As [`Cache::insert`] for the key that was in this lane of the last lookup and was not found there, for less.
    #[inline]
    pub fn insert_missed(&mut self, lane: usize, key: &Key, value: u32) -> bool {
        let hash = self.hashes[lane % BATCH];
        debug_assert_eq!(hash, self.hash(key));
        // Most keys of traffic that the cache cannot hold end here.
        if self.second_sight && !self.see(hash) {
            return false;
        }
        self.keep(hash, key, value)
    }

    /// Keeps `value` for a key that missed, or changes the value of a key that is in the cache. Returns false if the cache
    /// does not keep the key: for now, because it was seen for the first time, or others are worth more.
    /// `value` is any number but [`MISS`].
    pub fn insert(&mut self, key: &Key, value: u32) -> bool {
        debug_assert_ne!(value, MISS);
        let hash = self.hash(key);
        let set = self.sets.of(hash);
        if let Some(place) = self.sets.find(set, self.sets.tagged(set, hash), key) {
            self.sets.set_value(set, place, value);
            return true;
        }
        if self.second_sight && !self.see(hash) {
            return false;
        }
        self.put(hash, key, value)
    }

    /// Keeps a key that may have come into the cache meanwhile.
    fn keep(&mut self, hash: u64, key: &Key, value: u32) -> bool {
        let set = self.sets.of(hash);
        if let Some(place) = self.sets.find(set, self.sets.tagged(set, hash), key) {
            self.sets.set_value(set, place, value);
            return true;
        }
        self.put(hash, key, value)
    }

    /// Keeps a key that is not in the cache.
    fn put(&mut self, hash: u64, key: &Key, value: u32) -> bool {
        let room = |sets: &Sets| sets.free(sets.of(hash)).or_else(|| sets.unused(sets.of(hash)));
        if room(&self.sets).is_none() {
            for _ in 0..SETS_MORE.min(self.sets_max - self.sets.len()) {
                self.split();
            }
        }
        let set = self.sets.of(hash);
        let Some(place) = room(&self.sets).or_else(|| self.replaceable()) else { return false };
        self.sets.put(set, place, hash, key, value);
        true
    }

    /// Takes a key out; returns its value.
    pub fn remove(&mut self, key: &Key) -> Option<u32> {
        let hash = self.hash(key);
        let set = self.sets.of(hash);
        let place = self.sets.find(set, self.sets.tagged(set, hash), key)?;
        let value = self.sets.use_value(set, place);
        self.sets.take(set, place);
        Some(value)
    }

    /// Takes all keys out.
    pub fn clear(&mut self) {
        self.sets.clear();
        self.seen.fill(0);
    }

    /// Keys in the cache.
    pub fn len(&self) -> usize {
        self.sets.keys()
    }

    /// True if the cache holds no key.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that the cache has taken, about: huge pages may round them up.
    pub fn memory_bytes(&self) -> usize {
        self.sets.bytes() + self.seen.len()
    }

    /// One set more: the keys of another one are spread over both.
    fn split(&mut self) {
        let (from, to) = self.sets.add();
        for place in 0..PLACES {
            if let Some(key) = self.sets.key(from, place) {
                let hash = self.hash(&key);
                if self.sets.of(hash) == to {
                    self.sets.move_to(from, place, to);
                }
            }
        }
    }

    /// True if the key was seen before, or another one that looks the same. Each second key is not remembered in the place of
    /// another one, because keys that take turns would never be seen otherwise.
    fn see(&mut self, hash: u64) -> bool {
        let (at, fingerprint) = self.sight(hash);
        self.misses = self.misses.wrapping_mul(MULTIPLIER).wrapping_add(1);
        let seen = &mut self.seen[at];
        let is_known = *seen == fingerprint;
        if *seen == 0 || self.misses >> 63 == 0 {
            *seen = fingerprint;
        }
        is_known
    }

    #[inline]
    fn sight(&self, hash: u64) -> (usize, u8) {
        ((hash >> 8) as usize & (self.seen.len() - 1), ((hash >> 40) as u8).max(1))
    }

    /// The place of a key that is in use and goes nevertheless, if it is time.
    fn replaceable(&mut self) -> Option<usize> {
        self.refused = self.refused.wrapping_add(1);
        self.refused.is_multiple_of(KEPT_OF).then_some((self.refused / KEPT_OF) as usize % PLACES)
    }

    /// Of the words in pairs, as `wyhash` does.
    #[inline(always)]
    fn hash(&self, key: &Key) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = key.words;
        let secrets = &self.secrets;
        // What tells flows apart lies in the first five words. The next two are the same in most keys, so they go with others.
        let first = fold(a ^ secrets[0], b ^ secrets[1])
            .wrapping_add(fold(c ^ secrets[2], d ^ secrets[3]))
            .wrapping_add(fold(e ^ g.rotate_left(32) ^ secrets[4], h ^ f ^ secrets[5]));
        if key.is_extended() { first.wrapping_add(self.hash_second(key)) } else { first }
    }

    #[inline]
    fn hash_second(&self, key: &Key) -> u64 {
        let pair = |at: usize| fold(key.words[at] ^ self.secrets[at], key.words[at + 1] ^ self.secrets[at + 1]);
        pair(FIRST).wrapping_add(pair(FIRST + 2)).wrapping_add(pair(FIRST + 4)).wrapping_add(pair(FIRST + 6))
    }
}
