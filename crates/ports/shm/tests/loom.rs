//! A peer that writes into the rings while this side is in a call: every interleaving of its stores with the loads of the call, by the loom
//! model checker (`RUSTFLAGS="--cfg loom" cargo test -p linerate-port-shm --test loom`). The ends of the rings are those of the port, over
//! words of loom's instead of words in shared memory.
#![cfg(loom)]

#[allow(dead_code)]
#[path = "../src/layout.rs"]
mod layout;
#[allow(dead_code)]
#[path = "../src/ring.rs"]
mod ring;

mod sys {
    //! The words in front of the frames, as loom's atomics.

    use loom::sync::atomic::AtomicU32;
    pub use loom::sync::atomic::AtomicU64;

    use super::{CAPACITY, PLACE};

    pub struct Words {
        tail: AtomicU32,
        head: AtomicU32,
        cells: Vec<AtomicU64>,
    }

    impl Words {
        /// An empty ring whose indices stand at `start`.
        pub fn new(start: u32) -> Words {
            let cells = (0..CAPACITY).map(|_| AtomicU64::new(0)).collect();
            Words { tail: AtomicU32::new(start), head: AtomicU32::new(start), cells }
        }

        pub fn index(&self, place: usize) -> &AtomicU32 {
            if place == PLACE.tail { &self.tail } else { &self.head }
        }

        pub fn cells(&self, place: usize, count: usize) -> &[AtomicU64] {
            assert_eq!(place, PLACE.words);
            &self.cells[..count]
        }
    }
}

use std::sync::Arc;

use layout::{RingPlace, goes_on};
use loom::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use ring::{Consumer, Corrupt, Producer};
use sys::Words;

const CAPACITY: u32 = 2;
const PLACE: RingPlace = RingPlace { tail: 0, head: 128, words: 256, capacity: CAPACITY };
/// Indices wrap in the course of each model.
const START: u32 = u32::MAX;
/// A word of a packet that goes on in the next.
const MORE: u64 = 1 << 56;

fn words() -> Arc<Words> {
    Arc::new(Words::new(START))
}

/// Two ends that keep the rules, one of them slow or fast as may be.
#[test]
fn between_honest_ends_no_word_is_lost_torn_or_doubled() {
    loom::model(|| {
        let words = words();
        let (mut producer, mut consumer) = (Producer::new(&words, PLACE, START), Consumer::new(&words, PLACE, START));
        let sender = loom::thread::spawn(move || {
            let mut next = 1;
            for _ in 0..3 {
                producer.room(1).expect("an honest consumer");
                next += producer.put(&[next]) as u64;
            }
            next
        });
        let mut seen = Vec::new();
        let mut take = |consumer: &mut Consumer| {
            let mut out = [0; 2];
            consumer.look().expect("an honest producer");
            let count = consumer.take(&mut out, goes_on).expect("whole packets");
            seen.extend_from_slice(&out[..count]);
        };
        take(&mut consumer);
        take(&mut consumer);
        let next = sender.join().unwrap();
        take(&mut consumer);
        take(&mut consumer);
        assert_eq!(seen, (1..next).collect::<Vec<_>>());
    });
}

/// What a hostile producer stores, one after the other.
#[derive(Clone, Copy)]
enum Store {
    Tail(u32),
    Word(usize, u64),
    Head(u32),
}

fn scribble(words: &Arc<Words>, stores: &'static [Store]) -> loom::thread::JoinHandle<()> {
    let words = Arc::clone(words);
    loom::thread::spawn(move || {
        for store in stores {
            match *store {
                Store::Tail(more) => words.index(PLACE.tail).store(START.wrapping_add(more), Release),
                Store::Head(more) => words.index(PLACE.head).store(START.wrapping_add(more), Release),
                Store::Word(at, word) => words.cells(PLACE.words, CAPACITY as usize)[at].store(word, Relaxed),
            }
        }
    })
}

/// The producer rewrites words and its index while they are taken: forwards, back, and to where no index can be.
#[test]
fn a_producer_that_writes_meanwhile_gives_no_more_than_the_ring_holds() {
    use Store::{Tail, Word};
    const STORES: [&[Store]; 4] = [
        &[Word(1, 7), Tail(1), Word(1, MORE), Tail(2), Word(0, MORE | 9)],
        &[Tail(2), Word(1, 5), Word(0, 6), Tail(3)],
        &[Tail(2), Tail(1), Word(1, MORE), Tail(0)],
        &[Tail(1), Tail(1 << 31), Tail(2), Tail(u32::MAX)],
    ];
    for stores in STORES {
        loom::model(move || {
            let words = words();
            let mut consumer = Consumer::new(&words, PLACE, START);
            let peer = scribble(&words, stores);
            let (mut taken, mut there) = (0, 0);
            for _ in 0..2 {
                // As many as the last look showed and nobody took are there in any case.
                let mut looked = |consumer: &mut Consumer| -> Result<(), Corrupt> {
                    let found = consumer.look()?;
                    assert!((there..=CAPACITY as usize).contains(&found), "{found} of {there}");
                    there = found;
                    Ok(())
                };
                let mut out = [u64::MAX; 4];
                // What it knows already it does not look for again.
                let _ = looked(&mut consumer);
                let found = looked(&mut consumer).and_then(|()| consumer.take(&mut out, goes_on));
                if let Ok(count) = found {
                    taken += count as u32;
                    there -= count;
                    assert!(count <= CAPACITY as usize);
                    // Each is one that was there at some time, and a run ends with a packet's end.
                    let known = |word: &u64| [0, 5, 6, 7, 9 | MORE, MORE].contains(word);
                    assert!(
                        out[..count].iter().all(known)
                            && out[count..].iter().all(|word| *word == u64::MAX || known(word))
                    );
                    assert!(count == 0 || !goes_on(out[count - 1]));
                }
                // The peer is told of those that were taken, and of no others, whatever went wrong.
                assert_eq!(words.index(PLACE.head).load(Acquire), START.wrapping_add(taken));
            }
            peer.join().unwrap();
        });
    }
}

/// The consumer rewrites its index while words are put in: no more go in than the ring holds beyond an index that it showed.
#[test]
fn a_consumer_that_writes_meanwhile_takes_no_more_than_was_put_in() {
    use Store::{Head, Word};
    const STORES: [&[Store]; 3] =
        [&[Head(1), Head(2), Head(3)], &[Head(3), Head(1), Word(0, 99)], &[Head(1), Head(0), Head(1 << 31), Head(2)]];
    for stores in STORES {
        loom::model(move || {
            let words = words();
            let mut producer = Producer::new(&words, PLACE, START);
            let peer = scribble(&words, stores);
            let (mut put, mut is_corrupt) = (0, false);
            for word in 1..=3 {
                match producer.room(1) {
                    Ok(room) => {
                        assert!((0..=CAPACITY as usize).contains(&room));
                        let count = producer.put(&[word]);
                        assert!(count <= room && count <= 1);
                        put += count as u32;
                    }
                    Err(corrupt) => {
                        is_corrupt = true;
                        assert_eq!(corrupt.what, "a head index");
                    }
                }
                assert_eq!(words.index(PLACE.tail).load(Acquire), START.wrapping_add(put));
            }
            // What it can have at most: the ring, and as many as it said that it took, of those that there were.
            assert!(put <= CAPACITY + 3 && (is_corrupt || put >= 2));
            assert!(producer.left().len() <= CAPACITY as usize);
            peer.join().unwrap();
        });
    }
}
