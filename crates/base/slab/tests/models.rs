//! The table and the wheel beside simple models of themselves.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use linerate_slab::{Array, Fifo, Slab, TagTable, Wheel};
use proptest::prelude::*;

/// A hash with few distinct values, so that tags and buckets collide.
fn hash(key: u32, spread: u32) -> u64 {
    let mixed = u64::from(key % spread).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 29
}

proptest! {
    #[test]
    fn a_table_finds_what_was_inserted_and_nothing_else(
        steps in proptest::collection::vec((0u32..60, 0u8..4), 1..400),
        spread in 1u32..60,
    ) {
        let mut table = TagTable::new(40).unwrap();
        let mut model: HashMap<u32, u32> = HashMap::new();
        for (number, (key, what)) in steps.into_iter().enumerate() {
            // The value says its key.
            let (hash, value) = (hash(key, spread), key << 16 | number as u32 & 0xffff);
            match (what, model.get(&key).copied()) {
                (0 | 1, None) => {
                    prop_assert_eq!(table.insert(hash, value), model.len() < 40);
                    if model.len() < 40 {
                        model.insert(key, value);
                    }
                }
                (2, Some(old)) => {
                    prop_assert!(table.replace(hash, old, value));
                    model.insert(key, value);
                }
                (3, Some(old)) => {
                    prop_assert!(table.remove(hash, old) && !table.remove(hash, old));
                    model.remove(&key);
                }
                _ => {}
            }
            prop_assert_eq!(table.len(), model.len());
            for key in 0..60 {
                let found = table.find(self::hash(key, spread), |value| value >> 16 == key);
                prop_assert_eq!(found, model.get(&key).copied());
            }
        }
    }

    #[test]
    fn a_wheel_gives_every_entry_out_once_and_not_too_late(
        start in prop_oneof![Just(0u32), Just(u32::MAX - 300), any::<u32>()],
        steps in proptest::collection::vec((0u32..5, 0u32..1 << 18), 1..60),
    ) {
        let mut wheel = Wheel::new(100, start).unwrap();
        let (mut now, mut filed) = (0u64, BTreeMap::new());
        let at = |ahead: u64| start.wrapping_add(ahead as u32);
        for (id, (what, ahead)) in steps.into_iter().enumerate() {
            let id = id as u32;
            if what < 3 {
                let tick = now + u64::from(ahead >> (6 * what));
                prop_assert_eq!(wheel.add(id, at(tick)), Some(at(tick.max(now + 1))));
                filed.insert(id, tick.max(now + 1));
            } else {
                let first = wheel.next_tick().map(|tick| u64::from(tick.wrapping_sub(start)));
                if let Some(earliest) = filed.values().min() {
                    prop_assert!(first.is_some_and(|first| first <= *earliest), "{first:?} {earliest}");
                }
                now += u64::from(ahead);
                while let Some(expired) = wheel.pop(at(now)) {
                    let tick = filed.remove(&expired.id).expect("every entry comes out once");
                    prop_assert!(expired.covers(at(tick)), "{expired:?} {tick}");
                    if tick > now {
                        // A coarse slot came out at its first tick, so the owner files the id again.
                        wheel.add(expired.id, at(tick));
                        filed.insert(expired.id, tick);
                    }
                }
                prop_assert!(filed.values().all(|tick| *tick > now), "{filed:?} at {now}");
            }
            prop_assert_eq!(wheel.len(), filed.len());
        }
    }

    #[test]
    fn a_slab_never_gives_a_place_out_twice(steps in proptest::collection::vec(any::<u16>(), 1..200)) {
        let mut slab = Slab::new(16).unwrap();
        let mut model: BTreeMap<u32, u16> = BTreeMap::new();
        for step in steps {
            if step & 3 != 0 {
                let index = slab.insert(step);
                prop_assert_eq!(index.is_some(), model.len() < 16);
                if let Some(index) = index {
                    prop_assert!(model.insert(index, step).is_none());
                }
            } else if let Some((index, value)) = model.pop_first() {
                prop_assert_eq!(slab.remove(index), value);
            }
            prop_assert_eq!(slab.len(), model.len());
            prop_assert!(model.iter().all(|(index, value)| slab[*index] == *value));
        }
    }

    #[test]
    fn a_queue_keeps_the_order(steps in proptest::collection::vec(any::<u8>(), 1..300)) {
        let mut fifo = Fifo::new(7).unwrap();
        let mut model = std::collections::VecDeque::new();
        for step in steps {
            if step & 1 == 0 {
                let fits = model.len() < 7;
                prop_assert_eq!(fifo.push(step), fits);
                if fits {
                    model.push_back(step);
                }
            } else {
                prop_assert_eq!(fifo.pop(), model.pop_front());
            }
            prop_assert_eq!((fifo.front(), fifo.len()), (model.front(), model.len()));
            prop_assert_eq!(fifo.nth(3), model.get(3));
        }
    }
}

#[test]
fn a_table_holds_its_capacity_at_once() {
    let capacity = 100_000u32;
    let mut table = TagTable::new(capacity as usize).unwrap();
    let hash = |key: u32| {
        let mixed = (u64::from(key) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93)
    };
    assert!((0..capacity).all(|key| table.insert(hash(key), key)));
    assert!(!table.insert(hash(capacity), capacity));
    assert!((0..capacity).all(|key| table.find(hash(key), |value| value == key) == Some(key)));
    assert!((0..capacity).all(|key| table.remove(hash(key), key)) && table.is_empty());
}

#[test]
fn an_array_is_large_without_taking_memory() {
    let mut array: Array<[u64; 16]> = Array::new(50_000_000).unwrap();
    let indexes: BTreeSet<_> = (0..100).map(|at| array.push([at; 16]).unwrap()).collect();
    assert_eq!((indexes.len(), array.capacity(), array[99][15]), (100, 50_000_000, 99));
    assert_eq!((array.pop(), array.get(99)), (Some([99; 16]), None));
    assert_eq!(&raw const array[0] as usize % 128, 0);
    assert!(Array::<[u64; 16]>::new(1 << 40).is_err());
}
