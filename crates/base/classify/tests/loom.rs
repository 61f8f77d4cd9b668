//! Interleavings of a writer and a worker, by the loom model checker:
//! `RUSTFLAGS="--cfg loom" cargo test -p linerate-classify --test loom --profile loom`.
#![cfg(loom)]
#![allow(unsafe_code)]

use linerate_classify::{Classifier, Counters, Domain, Key, MISS, Mask, Rule, Scratch, Slab};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};

/// Up to three times a thread is interrupted where it could have gone on. All interleavings would take hours.
fn check(interruptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(interruptions);
    builder.check(model);
}

/// A value of which loom knows when it is read and when it is dropped.
struct Value(UnsafeCell<u32>);

impl Value {
    fn new(number: u32) -> Value {
        let value = Value(UnsafeCell::new(0));
        // SAFETY: nobody else has the value yet. Loom fails if a reader does not see this.
        value.0.with_mut(|value| unsafe { *value = number });
        value
    }

    fn read(&self) -> u32 {
        // SAFETY: the value is only written when it is dropped, and loom fails if that is at the same time.
        self.0.with(|value| unsafe { *value })
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        // SAFETY: as above.
        self.0.with_mut(|value| unsafe { *value = u32::MAX });
    }
}

// SAFETY: loom checks that reads and the one write are in order.
unsafe impl Sync for Value {}

#[test]
fn a_value_is_dropped_when_no_worker_holds_it() {
    check(3, || {
        let domain = Domain::new(1);
        let mut slab = Slab::new(&domain, 1);
        let index = slab.insert(Value::new(1)).ok().unwrap();
        let (reader, mut worker) = (slab.reader(), domain.worker().unwrap());
        let thread = loom::thread::spawn(move || {
            for _ in 0..2 {
                let guard = worker.enter();
                if let Some(value) = reader.view(&guard).get(index) {
                    let first = value.read();
                    loom::thread::yield_now();
                    assert_eq!(value.read(), first);
                    assert!(first == 1 || first == 2);
                }
            }
            worker.park();
        });
        slab.remove(index);
        // The slab has room for one: the new value takes the place of the old one when that was dropped.
        let _ = slab.insert(Value::new(2));
        thread.join().unwrap();
        slab.reclaim();
    });
}

#[test]
fn a_worker_that_comes_back_sees_what_was_changed_while_it_was_parked() {
    check(4, || {
        let domain = Domain::new(1);
        let mut worker = domain.worker().unwrap();
        let (changed, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let seen = (Arc::clone(&changed), Arc::clone(&answered));
        let thread = loom::thread::spawn(move || {
            for _ in 0..2 {
                let was_answered = seen.1.load(Ordering::Relaxed);
                let guard = worker.enter();
                let is_changed = seen.0.load(Ordering::Relaxed);
                assert!(is_changed || !was_answered, "a batch after the answer does not see the change");
                let _ = guard.version();
                worker.park();
            }
        });
        changed.store(true, Ordering::Relaxed);
        let version = domain.advance();
        if domain.quiesced(version) {
            answered.store(true, Ordering::Relaxed);
        }
        thread.join().unwrap();
        assert!(domain.quiesced(version));
    });
}

fn rule(value: u64, priority: u16, id: u32) -> Rule {
    let (mut key, mut mask) = (Key::ZERO, Mask::NONE);
    (key.words[0], mask.words[0]) = (value, u64::MAX);
    Rule { value: key, mask, priority, id }
}

fn all(id: u32) -> Rule {
    Rule { value: Key::ZERO, mask: Mask::NONE, priority: 0, id }
}

/// One lookup of the key with this first word.
fn lookups(classifier: &Classifier, domain: &Domain, times: usize, value: u64) -> loom::thread::JoinHandle<Vec<u32>> {
    let (reader, mut worker) = (classifier.reader(), domain.worker().unwrap());
    loom::thread::spawn(move || {
        let (keys, mut scratch) = ([rule(value, 0, 0).value], Scratch::default());
        let mut found = Vec::new();
        for _ in 0..times {
            let mut hits = [0];
            reader.lookup_batch(&worker.enter(), &keys, 1, &mut hits, &mut scratch);
            found.push(hits[0]);
        }
        found
    })
}

#[test]
fn a_rule_is_found_whole_or_not_at_all() {
    check(2, || {
        let domain = Domain::new(1);
        let mut classifier = Classifier::new(&domain);
        classifier.insert(&rule(7, 1, 1));
        classifier.insert(&rule(8, 1, 2));
        let thread = lookups(&classifier, &domain, 2, 9);
        classifier.remove(&rule(8, 1, 2));
        classifier.insert(&rule(9, 1, 3));
        let found = thread.join().unwrap();
        assert!(found.iter().all(|id| [MISS, 3].contains(id)) && found != [3, MISS], "{found:?}");
    });
}

#[test]
fn one_of_two_rules_is_found_at_all_times() {
    check(2, || {
        let domain = Domain::new(1);
        let mut classifier = Classifier::new(&domain);
        classifier.insert(&all(1));
        let thread = lookups(&classifier, &domain, 2, 7);
        classifier.insert(&rule(7, 5, 2));
        classifier.replace(&rule(7, 5, 2), 3);
        classifier.insert(&rule(7, 6, 4));
        classifier.remove(&rule(7, 5, 3));
        let found = thread.join().unwrap();
        assert!(found.iter().all(|id| (1..=4).contains(id)), "{found:?}");
        assert!(found[0] <= found[1], "{found:?}: an older rule after a newer one");
    });
}

#[test]
fn what_a_removed_rule_had_is_used_again_when_no_worker_reads_it() {
    check(2, || {
        let domain = Domain::new(1);
        let mut classifier = Classifier::new(&domain);
        classifier.insert(&rule(1, 1, 1));
        classifier.insert(&rule(2, 1, 2));
        let thread = lookups(&classifier, &domain, 2, 1);
        classifier.remove(&rule(1, 1, 1));
        classifier.reclaim();
        // It may take the place of the first one, in the bucket and in memory.
        classifier.insert(&rule(3, 1, 3));
        let found = thread.join().unwrap();
        assert!(found.iter().all(|id| [MISS, 1].contains(id)) && found != [MISS, 1], "{found:?}");
    });
}

#[test]
fn counts_of_another_flow_are_never_read() {
    check(3, || {
        let mut counters = Counters::new();
        let mut worker = counters.worker(1);
        worker.add(0, 1, 10, 600, 5);
        let thread = loom::thread::spawn(move || {
            worker.add(0, 2, 1, 60, 6);
            worker.add(0, 2, 1, 60, 7);
        });
        let (old, new) = (counters.read(0, 1), counters.read(0, 2));
        assert!(old.packets == 10 && old.bytes == 600 || old.packets == 0, "{old:?}");
        assert!(new.packets <= 2 && new.bytes <= 120, "{new:?}");
        thread.join().unwrap();
        assert_eq!((counters.read(0, 2).packets, counters.read(0, 2).bytes), (2, 120));
    });
}
