//! The exact-match cache of one worker: from whole keys to what the caller found for them the slow way.

use std::collections::HashMap;

use crate::key::{BATCH, FIRST, Key, MISS, WORDS};

/// Settings of a cache.
#[derive(Clone, Copy, Debug)]
pub struct CacheConfig {
    /// Keys that the cache holds, at most; it begins small and grows as long as hits pay for it.
    pub entries_max: usize,
    /// A key is kept when it misses for the second time, so that keys that never repeat leave the cache alone. If false, at once.
    pub second_sight: bool,
}

impl Default for CacheConfig {
    fn default() -> CacheConfig {
        CacheConfig { entries_max: 1 << 20, second_sight: true }
    }
}

/// A cache that one thread owns.
pub struct Cache {
    config: CacheConfig,
    entries: HashMap<[u64; WORDS], u32>,
}

impl Cache {
    /// An empty cache.
    pub fn new(config: CacheConfig) -> Cache {
        Cache { config, entries: HashMap::new() }
    }

    /// Looks up those of up to 64 keys whose bit is set in `wanted`, and returns which of them were found. `values` gets what was
    /// inserted for them, and [`MISS`] for those not found; the places of other keys stay as they are.
    ///
    /// # Panics
    /// If there are more than 64 keys, or fewer values than keys.
    pub fn lookup_batch(&mut self, keys: &[Key], wanted: u64, values: &mut [u32]) -> u64 {
        assert!(keys.len() <= BATCH && values.len() >= keys.len());
        let mut found = 0;
        for (lane, key) in keys.iter().enumerate().filter(|(lane, _)| wanted >> lane & 1 == 1) {
            values[lane] = self.entries.get(&words(key)).copied().unwrap_or(MISS);
            found |= u64::from(values[lane] != MISS) << lane;
        }
        found
    }

    /// Keeps `value` for a key that missed, or changes the value of a key that is in the cache. Returns false if the cache
    /// does not keep the key: for now, because it was seen for the first time, or others are worth more.
    /// `value` is any number but [`MISS`].
    pub fn insert(&mut self, key: &Key, value: u32) -> bool {
        let room = self.entries.len() < self.config.entries_max;
        let words = words(key);
        if room || self.entries.contains_key(&words) {
            self.entries.insert(words, value);
        }
        room
    }

    /// Takes a key out; returns its value.
    pub fn remove(&mut self, key: &Key) -> Option<u32> {
        self.entries.remove(&words(key))
    }

    /// Takes all keys out.
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    /// Keys in the cache.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if the cache holds no key.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes that the cache takes now.
    pub fn memory_bytes(&self) -> usize {
        self.entries.capacity() * (WORDS * 8 + 8)
    }
}

fn words(key: &Key) -> [u64; WORDS] {
    let mut words = key.words;
    if !key.is_extended() {
        words[FIRST..].fill(0);
    }
    words
}
