//! The classifier beside a list of rules that is searched from end to end.

#[cfg(not(miri))]
use proptest::prelude::*;

use super::hash::Hashing;
use super::{Classifier, ClassifierReader, Overlap, Scratch};
use crate::domain::{Domain, Worker};
#[cfg(not(miri))]
use crate::key::WORDS;
use crate::key::{BATCH, Key, MISS, Mask, Rule, lanes};

#[cfg(not(miri))]
/// Words in use: of both lines, with few values, so that rules overlap.
const USED: [usize; 6] = [0, 1, 5, 7, 8, 15];
#[cfg(not(miri))]
const MASKS: [u64; 5] = [0, 0, 1, 2, 3];

#[derive(Clone, Debug)]
enum Change {
    Insert(Box<Rule>),
    /// By place in the list.
    Remove(usize),
    #[cfg_attr(miri, expect(dead_code, reason = "only property tests replace"))]
    Replace(usize),
    #[cfg_attr(miri, expect(dead_code, reason = "only property tests clear"))]
    Clear,
}

#[cfg(not(miri))]
fn key() -> impl Strategy<Value = Key> {
    (prop::array::uniform6(0u64..4), any::<bool>()).prop_map(|(values, is_extended)| {
        let mut key = Key::ZERO;
        USED.iter().zip(values).for_each(|(at, value)| key.words[*at] = value);
        key.words[7] |= if is_extended { Key::EXTENDED } else { 0 };
        key
    })
}

#[cfg(not(miri))]
fn mask() -> impl Strategy<Value = Mask> {
    prop::array::uniform6(0..MASKS.len()).prop_map(|choice| {
        let mut mask = Mask::NONE;
        USED.iter().zip(choice).for_each(|(at, choice)| mask.words[*at] = MASKS[choice]);
        mask
    })
}

#[cfg(not(miri))]
/// All words in use, for entries of several lines.
fn wide_mask() -> impl Strategy<Value = Mask> {
    (0..WORDS, 0..2u64).prop_map(|(without, value)| {
        let mut mask = Mask { words: [3; WORDS] };
        mask.words[without] = value;
        mask
    })
}

#[cfg(not(miri))]
fn rule() -> impl Strategy<Value = Rule> {
    (key(), prop_oneof![9 => mask(), 1 => wide_mask()], 0u16..6).prop_map(|(value, mask, priority)| Rule {
        value,
        mask,
        priority,
        id: 0,
    })
}

#[cfg(not(miri))]
fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        120 => rule().prop_map(|rule| Change::Insert(Box::new(rule))),
        60 => any::<usize>().prop_map(Change::Remove),
        20 => any::<usize>().prop_map(Change::Replace),
        1 => Just(Change::Clear),
    ]
}

/// The priority of the best rule for a key, and the ids that a lookup may answer.
fn expected(rules: &[Rule], key: &Key) -> Vec<u32> {
    let matching = rules.iter().filter(|rule| rule.matches(key));
    let best = matching.clone().map(|rule| rule.priority).max();
    matching.filter(|rule| Some(rule.priority) == best).map(|rule| rule.id).collect()
}

struct Beside {
    worker: Worker,
    reader: ClassifierReader,
    classifier: Classifier,
    scratch: Scratch,
    rules: Vec<Rule>,
    last_id: u32,
}

impl Beside {
    fn new(hashing: Hashing) -> Beside {
        let domain = Domain::new(1);
        let worker = domain.worker().unwrap();
        let classifier = Classifier::with(&domain, hashing);
        let (reader, scratch) = (classifier.reader(), Scratch::default());
        Beside { worker, reader, classifier, scratch, rules: Vec::new(), last_id: 0 }
    }

    fn change(&mut self, change: &Change) {
        match change {
            Change::Insert(rule) => {
                self.last_id += 1;
                let rule = Rule { id: self.last_id, ..**rule };
                self.classifier.insert(&rule);
                self.rules.push(rule);
            }
            Change::Remove(place) if !self.rules.is_empty() => {
                let rule = self.rules.swap_remove(place % self.rules.len());
                assert!(self.classifier.remove(&rule));
                assert!(!self.classifier.remove(&rule));
            }
            Change::Replace(place) if !self.rules.is_empty() => {
                let place = place % self.rules.len();
                self.last_id += 1;
                assert!(self.classifier.replace(&self.rules[place], self.last_id));
                self.rules[place].id = self.last_id;
            }
            Change::Clear => {
                self.classifier.clear();
                self.rules.clear();
                assert_eq!(self.classifier.masks().len(), 0);
            }
            Change::Remove(_) | Change::Replace(_) => {}
        }
        assert_eq!(self.classifier.len(), self.rules.len());
    }

    fn look_up(&mut self, keys: &[Key]) {
        for (number, keys) in keys.chunks(BATCH).enumerate() {
            let wanted = if number == 0 { lanes(keys.len()) } else { 0x5555_5555_5555_5555 };
            let mut hits = [12345; BATCH];
            self.reader.lookup_batch(&self.worker.enter(), keys, wanted, &mut hits, &mut self.scratch);
            for (lane, key) in keys.iter().enumerate() {
                let expected = expected(&self.rules, key);
                let is_wanted = wanted >> lane & 1 == 1;
                let is_right = match hits[lane] {
                    12345 => !is_wanted,
                    MISS => expected.is_empty(),
                    id => expected.contains(&id),
                };
                assert!(is_right, "{key:?}: {} of {expected:?}", hits[lane]);
            }
        }
    }

    /// Keys that have the bits which decide about one of them get its answer. `noise` changes others.
    #[cfg(not(miri))]
    fn look_up_wide(&mut self, keys: &[Key], noise: &[u64]) {
        for (number, key) in keys.iter().enumerate() {
            let (id, mask) = self.reader.lookup_wide(&self.worker.enter(), key, &mut self.scratch);
            let others = keys.iter().copied().chain(noise.iter().map(|noise| {
                let words = (0..WORDS).map(|at| key.words[at] ^ noise.rotate_left(at as u32 * 7) & !mask.words[at]);
                Key { words: std::array::from_fn(|at| words.clone().nth(at).unwrap_or_default()) }
            }));
            let has_bits = |other: &Key| (0..WORDS).all(|at| (other.word(at) ^ key.word(at)) & mask.words[at] == 0);
            for other in others.filter(has_bits) {
                let expected = expected(&self.rules, &other);
                let is_right = if id == MISS { expected.is_empty() } else { expected.contains(&id) };
                assert!(is_right, "key {number} has {id} by {mask:x?}, but {other:x?} has {expected:?}");
            }
        }
    }

    #[cfg(not(miri))]
    fn ask(&self, rule: &Rule) {
        let same = self.rules.iter().filter(|one| one.priority == rule.priority && one.same_match(rule));
        let same: Vec<u32> = same.map(|one| one.id).collect();
        match self.classifier.find(rule) {
            Some(found) => assert!(same.contains(&found)),
            None => assert!(same.is_empty()),
        }
        let overlapping = |one: &Rule| one.priority == rule.priority && one.id != rule.id && one.overlaps(rule);
        match self.classifier.overlap(rule, usize::MAX) {
            Overlap::With(id) => assert!(self.rules.iter().any(|one| one.id == id && overlapping(one))),
            Overlap::None => assert!(!self.rules.iter().any(overlapping)),
            Overlap::Unknown => panic!("any number of comparisons is allowed"),
        }
    }
}

#[cfg(not(miri))]
fn compare(hashing: Hashing, changes: &[Change], keys: &[Key], asked: &[Rule]) {
    let mut beside = Beside::new(hashing);
    for (number, change) in changes.iter().enumerate() {
        beside.change(change);
        if number % 16 == 0 {
            beside.look_up(keys);
        }
    }
    beside.look_up(keys);
    beside.look_up_wide(keys, &[1, 2, 3, u64::MAX, 0x0123_4567_89ab_cdef]);
    asked.iter().for_each(|rule| beside.ask(rule));
    while !beside.rules.is_empty() {
        beside.change(&Change::Remove(beside.rules.len() / 2));
        if beside.rules.len() % 16 == 9 {
            beside.look_up(keys);
        }
    }
    beside.look_up(keys);
    assert_eq!(beside.classifier.masks().len(), 0);
}

#[cfg(not(miri))]
proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn lookups_answer_as_a_list_does(
        changes in prop::collection::vec(change(), 1..400),
        keys in prop::collection::vec(key(), 100),
        asked in prop::collection::vec(rule(), 20),
        kept in prop_oneof![Just(u64::MAX), Just(7 << 48 | 1 << 32 | 3), Just(1), Just(0)],
        filters in any::<bool>(),
        vectors in any::<bool>(),
    ) {
        compare(Hashing::for_tests(kept, filters, vectors), &changes, &keys, &asked);
    }
}

/// Numbers without a pattern, the same on each run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % below
    }
}

/// Many masks and values, so that tables, filters and groups grow and shrink; `priority` of the mask's number and a number. With vectors, if
/// the processor has them, and without.
fn many(masks: u64, count: u64, priority: impl Fn(u64, u64) -> u16) {
    // Where there are none, as in the interpreter, the first would be the second.
    if Hashing::random().vectors() {
        many_with(Hashing::random(), masks, count, &priority);
    }
    many_with(Hashing::random().without_vectors(), masks, count, &priority);
}

fn many_with(hashing: Hashing, masks: u64, count: u64, priority: impl Fn(u64, u64) -> u16) {
    let mut numbers = Numbers(7);
    let mut beside = Beside::new(hashing);
    let mut rules = Vec::new();
    for number in 0..count {
        let of_mask = numbers.next(masks);
        let mut mask = Mask::NONE;
        (mask.words[0], mask.words[3]) = (of_mask << 32 | 0xff, u64::MAX << (of_mask % 12));
        let mut value = Key::ZERO;
        value.words.iter_mut().take(4).for_each(|word| *word = numbers.next(1 << 40));
        rules.push(Rule { value, mask, priority: priority(of_mask, number), id: 0 });
    }
    for rule in &rules {
        beside.change(&Change::Insert(Box::new(*rule)));
    }
    let mut keys: Vec<Key> =
        (0..if cfg!(miri) { 8 } else { 200 }).map(|_| rules[numbers.next(count) as usize].value).collect();
    keys.iter_mut().step_by(5).for_each(|key| key.words[3] ^= 1 << 13);
    beside.look_up(&keys);
    for round in 0..4 {
        for _ in 0..count / 4 {
            beside.change(&Change::Remove(numbers.next(1 << 30) as usize));
        }
        if round < 3 {
            beside.look_up(&keys);
            #[cfg(not(miri))]
            beside.look_up_wide(&keys[..20], &[u64::MAX, 0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210]);
        }
    }
    let left = beside.rules.len();
    (0..left).for_each(|_| beside.change(&Change::Remove(0)));
    beside.look_up(&keys);
}

#[cfg(not(miri))]
#[test]
fn many_masks_make_several_groups() {
    many(150, 3000, |_, number| (number % 1000) as u16);
}

#[cfg(not(miri))]
#[test]
fn tables_grow_and_shrink_in_either_order_of_priorities() {
    many(20, 6000, |mask, _| mask as u16);
    many(20, 6000, |_, number| number as u16);
    many(20, 6000, |_, number| (6000 - number) as u16);
    many(1, 3000, |_, number| (number * 7919) as u16);
}

#[test]
fn few_rules_come_and_go() {
    many(5, 24, |_, number| number as u16);
}

#[cfg(not(miri))]
#[test]
fn what_a_comparison_costs_is_bounded() {
    let mut beside = Beside::new(Hashing::random());
    let (mut value, mut mask) = (Key::ZERO, Mask::NONE);
    mask.words[2] = u64::MAX;
    for number in 0..100 {
        value.words[2] = number;
        beside.change(&Change::Insert(Box::new(Rule { value, mask, priority: 5, id: 0 })));
    }
    let all = Rule { value, mask: Mask::NONE, priority: 5, id: 0 };
    assert!(matches!(beside.classifier.overlap(&all, 10), Overlap::With(_)), "the first one overlaps");
    let mut other = Mask::NONE;
    (other.words[2], other.words[3]) = (1 << 40, 1);
    value.words[2] = 1 << 40;
    let apart = Rule { value, mask: other, priority: 5, id: 0 };
    assert_eq!(beside.classifier.overlap(&apart, 99), Overlap::Unknown);
    assert_eq!(beside.classifier.overlap(&apart, 100), Overlap::None);
    assert_eq!(beside.classifier.overlap(&Rule { priority: 6, ..all }, 0), Overlap::None);
}
