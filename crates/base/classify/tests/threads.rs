//! A writer and two workers at full speed: what workers read is never half written, never stale after a quiet version, and freed in the end.
#![cfg(not(any(loom, miri)))]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use linerate_classify::{Classifier, Domain, Key, MISS, Mask, Rule, Scratch, Slab, lanes};

const WORKERS: usize = 2;
const ROUNDS: u64 = 20_000;
/// Rules that come and go.
const RULES: u64 = 200;

/// A value whose parts belong together.
struct Flow {
    number: u64,
    check: u64,
    dropped: Arc<AtomicU64>,
}

impl Flow {
    fn new(number: u64, dropped: &Arc<AtomicU64>) -> Flow {
        Flow { number, check: !number, dropped: Arc::clone(dropped) }
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.check = 0;
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

/// Rule `number` compares more or fewer words, so that there are several masks.
fn rule(number: u64, id: u32) -> Rule {
    let (mut value, mut mask) = (Key::ZERO, Mask::NONE);
    value.words[0] = number;
    mask.words[0] = u64::MAX;
    (1..1 + number as usize % 9).for_each(|word| mask.words[word] = 0xff);
    Rule { value, mask, priority: (number % 7) as u16 + 1, id }
}

#[test]
fn rules_and_values_change_under_workers() {
    let domain = Domain::new(WORKERS);
    let mut classifier = Classifier::new(&domain);
    let mut slab = Slab::new(&domain, 100_000);
    let dropped = Arc::new(AtomicU64::new(0));
    // A rule that is always there, under those that come and go.
    let bottom = slab.insert(Flow::new(u64::MAX, &dropped)).ok().unwrap();
    classifier.insert(&Rule { value: Key::ZERO, mask: Mask::NONE, priority: 0, id: bottom });
    let (end, barrier) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let workers: Vec<_> = (0..WORKERS)
        .map(|_| {
            let (mut worker, reader, flows) = (domain.worker().unwrap(), classifier.reader(), slab.reader());
            let (end, barrier) = (Arc::clone(&end), Arc::clone(&barrier));
            std::thread::spawn(move || {
                let (mut scratch, mut looked_up) = (Scratch::default(), 0u64);
                while !end.load(Ordering::Acquire) {
                    // Nothing of this rule or those before may be found any more, since a barrier was answered.
                    let gone = barrier.load(Ordering::Acquire);
                    let guard = worker.enter();
                    let numbers: [u64; 64] = std::array::from_fn(|at| (looked_up + at as u64 * 37) % RULES);
                    let keys = numbers.map(|number| rule(number, 0).value);
                    let mut hits = [MISS; 64];
                    reader.lookup_batch(&guard, &keys, lanes(64), &mut hits, &mut scratch);
                    for (number, hit) in numbers.into_iter().zip(hits) {
                        assert_ne!(hit, MISS, "the rule at the bottom matches everything");
                        let Some(flow) = flows.view(&guard).get(hit) else { continue };
                        assert_eq!(flow.check, !flow.number, "a value is read whole");
                        let is_stale = flow.number != u64::MAX && flow.number < gone;
                        assert!(!is_stale, "flow {} after the barrier of {gone}", flow.number);
                        let is_right = flow.number == u64::MAX || flow.number % RULES == number;
                        assert!(is_right, "flow {} for key {number}", flow.number);
                    }
                    looked_up += 64;
                    if looked_up.is_multiple_of(64 * 50) {
                        worker.park();
                        std::thread::yield_now();
                    }
                }
                looked_up
            })
        })
        .collect();
    let mut present: std::collections::VecDeque<(Rule, u64)> = Default::default();
    let mut inserted = 1;
    for number in 0..ROUNDS {
        let id = slab.insert(Flow::new(number, &dropped)).ok().expect("there is room for all that wait");
        let new = rule(number % RULES, id);
        classifier.insert(&new);
        inserted += 1;
        present.push_back((new, number));
        if present.len() as u64 >= RULES / 2 {
            let (old, _) = present.pop_front().unwrap();
            assert!(classifier.remove(&old) && slab.remove(old.id));
        }
        if number % 64 == 0 {
            let version = domain.advance();
            while !domain.quiesced(version) {
                std::thread::yield_now();
            }
            barrier.store(present.front().map_or(0, |(_, number)| *number), Ordering::Release);
        }
    }
    end.store(true, Ordering::Release);
    assert!(workers.into_iter().all(|worker| worker.join().unwrap() > 0));
    for (old, _) in present {
        assert!(classifier.remove(&old) && slab.remove(old.id));
    }
    classifier.reclaim();
    slab.reclaim();
    assert_eq!((dropped.load(Ordering::Relaxed), slab.len(), classifier.len()), (inserted - 1, 1, 1));
}
