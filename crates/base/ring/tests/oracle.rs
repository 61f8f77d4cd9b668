//! The ring beside a queue of the standard library, from any start index: same words, same counts, at every step.
#![cfg(not(loom))]

use std::collections::VecDeque;

use linerate_ring::ring_from;
#[cfg(not(miri))]
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Push(usize),
    Pop(usize),
    PopRuns(usize),
}

/// Words come in runs of 1, 2, 3 and 4 words, over and over; these end one.
fn goes_on(word: u64) -> bool {
    !matches!(word % 10, 0 | 2 | 5 | 9)
}

#[cfg(not(miri))]
fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0usize..70).prop_map(Step::Push),
        (0usize..70).prop_map(Step::Pop),
        (0usize..70).prop_map(Step::PopRuns),
    ]
}

#[cfg(not(miri))]
fn start_index() -> impl Strategy<Value = u32> {
    prop_oneof![any::<u32>(), (0u32..200).prop_map(|n| n.wrapping_sub(100))]
}

#[cfg(not(miri))]
proptest! {
    #[test]
    fn behaves_as_a_bounded_queue(
        capacity in 1usize..100,
        start in start_index(),
        steps in proptest::collection::vec(step(), 0..200),
    ) {
        beside_a_queue(capacity, start, &steps);
    }
}

/// The generators of proptest take minutes in the interpreter; these steps take seconds.
#[cfg(miri)]
#[test]
fn behaves_as_a_bounded_queue() {
    for seed in 0..6usize {
        let count = |at: usize| (at * 7 + seed * 5) % 40;
        let steps = (0..60).map(|at| [Step::Push, Step::Pop, Step::PopRuns][at * (seed + 1) % 3](count(at)));
        beside_a_queue(1 + seed * 10, u32::MAX - 10 * seed as u32, &steps.collect::<Vec<_>>());
    }
}

fn beside_a_queue(capacity: usize, start: u32, steps: &[Step]) {
    let (mut producer, mut consumer) = ring_from(capacity, start);
    let mut oracle: VecDeque<u64> = VecDeque::new();
    let mut next = 0u64;
    for step in steps {
        match *step {
            Step::Push(count) => {
                let words: Vec<u64> = (next..).take(count).collect();
                let pushed = producer.push(&words);
                assert_eq!(pushed, count.min(producer.capacity() - oracle.len()));
                oracle.extend(&words[..pushed]);
                next += pushed as u64;
            }
            Step::Pop(count) => {
                let mut out = vec![0; count];
                let popped = consumer.pop(&mut out);
                let expected: Vec<u64> = oracle.drain(..count.min(oracle.len()).min(popped)).collect();
                assert_eq!(&out[..popped], &expected[..]);
                // A pop may stop at the cached index; a second look must show the rest.
                assert_eq!(consumer.available(), oracle.len());
            }
            Step::PopRuns(count) => {
                let mut out = vec![0; count];
                let popped = consumer.pop_runs(&mut out, goes_on);
                let whole = |words: usize| (0..=words).rev().find(|n| *n == 0 || !goes_on(oracle[n - 1]));
                // At most what fits in whole runs, and something if anything is whole.
                let most = whole(count.min(oracle.len())).unwrap_or(0);
                assert!(popped <= most && (popped > 0 || most == 0), "{popped} of {most}");
                assert_eq!(whole(popped), Some(popped));
                let expected: Vec<u64> = oracle.drain(..popped).collect();
                assert_eq!(&out[..popped], &expected[..]);
            }
        }
    }
}

#[test]
fn words_cross_threads_in_order() {
    let (mut producer, mut consumer) = ring_from(64, u32::MAX - 100);
    let total = if cfg!(miri) { 1_000u64 } else { 200_000 };
    let sender = std::thread::spawn(move || {
        let mut next = 0;
        while next < total {
            let words: Vec<u64> = (next..total.min(next + 17)).collect();
            next += producer.push(&words) as u64;
        }
    });
    let mut expected = 0;
    let mut out = [0; 13];
    while expected < total {
        let count = consumer.pop(&mut out);
        for word in &out[..count] {
            assert_eq!(*word, expected);
            expected += 1;
        }
    }
    sender.join().unwrap();
    assert!(!consumer.peer_alive());
}

#[test]
fn a_dead_consumer_is_seen_and_its_words_come_back() {
    let (mut producer, mut consumer) = ring_from(8, u32::MAX - 2);
    assert_eq!(producer.push(&[1, 2, 3, 4, 5]), 5);
    assert!(producer.reclaim().is_empty(), "the consumer still lives");
    consumer.pop(&mut [0; 2]);
    drop(consumer);
    assert!(!producer.peer_alive());
    assert_eq!(producer.reclaim(), [3, 4, 5]);
    assert_eq!(producer.room(), 8);
}
