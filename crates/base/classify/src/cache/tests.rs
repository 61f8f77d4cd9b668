//! The cache beside a map, and what it keeps of traffic that is too much for it.

#[cfg(not(miri))]
use std::collections::HashMap;
use std::hash::BuildHasherDefault;

#[cfg(not(miri))]
use proptest::prelude::*;

use super::*;

fn key(number: u64) -> Key {
    let mut key = Key::ZERO;
    key.words[(number % 7) as usize] = number / 14 + 1;
    if number.is_multiple_of(2) {
        key.words[7] = Key::EXTENDED;
        key.words[15] = number >> 3;
    } else {
        key.words[15] = 99;
    }
    key
}

/// With the same secrets on each run, so that a test does not depend on chance.
fn cache(entries_max: usize, second_sight: bool) -> Cache {
    let secrets = BuildHasherDefault::<std::hash::DefaultHasher>::default();
    Cache::with(CacheConfig { entries_max, second_sight }, &secrets)
}

/// Looks all keys up in batches; those that miss are inserted. Returns how many were found.
fn round(cache: &mut Cache, numbers: impl Iterator<Item = u64>) -> usize {
    let keys: Vec<Key> = numbers.map(key).collect();
    let mut found = 0;
    for keys in keys.chunks(BATCH) {
        let mut values = [0; BATCH];
        let hits = cache.lookup_batch(keys, lanes(keys.len()), &mut values);
        found += hits.count_ones() as usize;
        for (lane, key) in keys.iter().enumerate().filter(|(lane, _)| hits >> lane & 1 == 0) {
            cache.insert(key, lane as u32);
        }
    }
    found
}

#[cfg(not(miri))]
proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// What is found is what was inserted last; the cache may lose keys.
    #[test]
    fn a_key_has_the_value_that_was_given_last(
        steps in prop::collection::vec((0u8..8, 0u64..600, 0u32..100), 1..600),
        entries_max in prop_oneof![Just(8usize), Just(100), Just(100_000)],
    ) {
        let mut cache = cache(entries_max, false);
        let mut model = HashMap::new();
        for (step, number, value) in steps {
            match step {
                0..4 => {
                    if cache.insert(&key(number), value) {
                        model.insert(number, value);
                    }
                }
                4 => {
                    let removed = cache.remove(&key(number));
                    let expected = model.remove(&number);
                    prop_assert!(removed.is_none() || removed == expected);
                }
                5 if value == 0 => {
                    cache.clear();
                    model.clear();
                }
                _ => {
                    let keys: Vec<Key> = (number..number + 64).map(key).collect();
                    let wanted = u64::from(value) << 32 | 0xffff_0000 | u64::from(value);
                    let mut values = [12345; BATCH];
                    let found = cache.lookup_batch(&keys, wanted, &mut values);
                    for (lane, value) in values.into_iter().enumerate() {
                        let expected = model.get(&(number + lane as u64)).copied();
                        match (wanted >> lane & 1, found >> lane & 1) {
                            (0, found) => prop_assert_eq!((found, value), (0, 12345)),
                            (_, 0) => prop_assert_eq!(value, MISS),
                            _ => prop_assert_eq!(Some(value), expected),
                        }
                    }
                }
            }
            prop_assert!(cache.len() <= cache.sets_max * PLACES);
        }
    }
}

#[test]
#[cfg(not(miri))]
fn the_cache_grows_with_keys_that_repeat() {
    let mut cache = cache(1 << 14, true);
    let flows = 10_000;
    let small = cache.memory_bytes();
    (0..12).for_each(|_| _ = round(&mut cache, 0..flows));
    let found = round(&mut cache, 0..flows);
    assert!(found as u64 > flows * 97 / 100, "{found} of {flows}");
    assert!(cache.memory_bytes() > 4 * small);
}

#[test]
#[cfg(not(miri))]
fn keys_that_never_repeat_leave_the_others_alone() {
    let mut cache = cache(1 << 14, true);
    let flows = 2000;
    (0..12).for_each(|_| _ = round(&mut cache, 0..flows));
    let before = cache.memory_bytes();
    for turn in 1..20 {
        round(&mut cache, turn * 10_000..turn * 10_000 + flows);
        let found = round(&mut cache, 0..flows);
        assert!(found as u64 > flows * 97 / 100, "{found} of {flows} in turn {turn}");
    }
    // Forty thousand keys would take ten times as much.
    assert!(cache.memory_bytes() <= before * 2);
}

#[test]
#[cfg(not(miri))]
fn four_times_as_many_keys_as_it_holds_in_a_circle_leave_it_of_use() {
    let mut cache = cache(2048, true);
    let (flows, bound) = (4 * 4096, cache.sets_max * (64 + 16 * 64) + 4096);
    (0..20).for_each(|_| _ = round(&mut cache, 0..flows));
    let found = round(&mut cache, 0..flows);
    assert!(found as u64 > flows / 8, "{found} of {flows}");
    assert!(cache.memory_bytes() <= bound);
}

#[test]
#[cfg(not(miri))]
fn keys_that_are_no_longer_used_make_room() {
    let mut cache = cache(2048, false);
    (0..4).for_each(|_| _ = round(&mut cache, 0..2000));
    (0..40).for_each(|_| _ = round(&mut cache, 10_000..12_000));
    let found = round(&mut cache, 10_000..12_000);
    assert!(found > 1800, "{found} of 2000");
}

#[test]
fn keys_that_were_kept_are_found_while_there_is_room() {
    let mut cache = cache(10_000, false);
    assert_eq!((round(&mut cache, 0..100), round(&mut cache, 0..100), cache.len()), (0, 100, 100));
    assert_eq!((cache.remove(&key(50)), cache.remove(&key(50)), cache.len()), (Some(50), None, 99));
    cache.clear();
    assert!(cache.is_empty() && round(&mut cache, 0..100) == 0);
}
