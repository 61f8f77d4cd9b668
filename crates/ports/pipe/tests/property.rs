//! Any sequence of calls beside a queue of the standard library, and both directions at full speed on two threads, with ring
//! indices that wrap anywhere.

use std::collections::VecDeque;

use linerate_mem::{Batch, Pool, PoolConfig};
use linerate_port::{Interest, Port, Readiness};
use linerate_port_pipe::{PipePort, pair_from};
use proptest::prelude::*;

const RING: usize = 16;

fn pool(frames: usize) -> Pool {
    Pool::new(PoolConfig { frames, frame_size: 512 }).unwrap()
}

#[derive(Clone, Debug)]
enum Step {
    /// Builds packets of these numbers of slots and offers them, beside what was left.
    Send(Vec<usize>),
    /// Receives into a batch with room for so many slots.
    Receive(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        proptest::collection::vec(prop_oneof![4 => Just(1usize), 1 => 2usize..6], 0..12).prop_map(Step::Send),
        (1usize..24).prop_map(Step::Receive),
    ]
}

fn start_index() -> impl Strategy<Value = u32> {
    prop_oneof![any::<u32>(), (0u32..40).prop_map(|n| n.wrapping_sub(20))]
}

/// Appends packet `number` in `slots` slots; each slot carries the number and its place.
fn append(pool: &mut Pool, batch: &mut Batch, number: u32, slots: usize) -> bool {
    if batch.room() < slots || pool.available() < slots {
        return false;
    }
    let first = batch.len();
    pool.alloc(batch, slots, 20);
    for part in 0..slots {
        let bytes = batch.packet_mut(first + part);
        bytes[..4].copy_from_slice(&number.to_be_bytes());
        bytes[4] = part as u8;
        batch.set_more(first + part, part + 1 < slots);
    }
    true
}

/// Numbers and slot counts of the packets in a batch; panics when one is split or mixed up.
fn read(batch: &Batch) -> Vec<(u32, usize)> {
    let mut packets = Vec::new();
    let mut part = 0;
    for index in 0..batch.len() {
        let bytes = batch.packet(index);
        assert_eq!(bytes[4] as usize, part, "parts follow each other");
        part += 1;
        if !batch.more(index) {
            packets.push((u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]), part));
            part = 0;
        }
    }
    assert_eq!(part, 0, "the last packet is whole");
    packets
}

proptest! {
    #[test]
    fn behaves_as_a_bounded_queue_of_packets(
        start in start_index(),
        steps in proptest::collection::vec(step(), 0..80),
    ) {
        let mut pool = pool(256);
        let (mut a, mut b) = pair_from("oracle", &pool, RING, start);
        let mut oracle: VecDeque<(u32, usize)> = VecDeque::new();
        let mut waiting: VecDeque<(u32, usize)> = VecDeque::new();
        let mut out = Batch::new(&pool, 64);
        let mut next = 0;
        for step in steps {
            match step {
                Step::Send(sizes) => {
                    for slots in sizes {
                        if append(&mut pool, &mut out, next, slots) {
                            waiting.push_back((next, slots));
                            next += 1;
                        }
                    }
                    let took = a.transmit(&mut out).unwrap();
                    oracle.extend(waiting.drain(..took));
                    let held: usize = oracle.iter().map(|(_, slots)| slots).sum();
                    prop_assert!(held <= RING);
                    prop_assert_eq!(read(&out), Vec::from(waiting.clone()));
                    if let Some((_, slots)) = waiting.front() {
                        prop_assert!(held + slots > RING, "the next packet of {slots} would have fitted beside {held}");
                        prop_assert_eq!(a.wait(Interest::Transmit, 0).unwrap(), Readiness::TimedOut);
                    }
                }
                Step::Receive(room) => {
                    let mut into = Batch::new(&pool, room);
                    let count = b.receive(&mut into).unwrap();
                    let expected: Vec<(u32, usize)> = oracle.drain(..count).collect();
                    prop_assert_eq!(read(&into), expected);
                    if count == 0 && let Some((_, slots)) = oracle.front() {
                        prop_assert!(*slots > room, "a packet of {slots} slots had room in {room}");
                    }
                    pool.free(&mut into);
                }
            }
        }
        let sent = a.stats().unwrap().tx_packets;
        prop_assert_eq!(sent, b.stats().unwrap().rx_packets + oracle.len() as u64);
        drop((a, b, out));
        prop_assert!(pool.is_whole());
    }
}

/// Sends and receives `count` packets, each thread both; returns what it received.
fn exchange(mut port: PipePort, mut pool: Pool, count: u32) -> u32 {
    let mut out = Batch::new(&pool, 24);
    let mut into = Batch::new(&pool, 24);
    let (mut next, mut sent, mut expected) = (0, 0, 0);
    while sent < count || expected < count {
        while next < count && append(&mut pool, &mut out, next, 1 + next as usize % 3) {
            next += 1;
        }
        let took = port.transmit(&mut out).unwrap();
        sent += took as u32;
        let came = port.receive(&mut into).unwrap();
        for (number, slots) in read(&into) {
            assert_eq!((number, slots), (expected, 1 + expected as usize % 3));
            expected += 1;
        }
        pool.free(&mut into);
        if took + came == 0 {
            std::thread::yield_now();
        }
    }
    expected
}

#[test]
fn both_directions_between_threads_from_any_start() {
    let pool = pool(512);
    for start in [0, u32::MAX - 3000, u32::MAX - RING as u32, u32::MAX] {
        let (a, b) = pair_from("threads", &pool, RING, start);
        let other = std::thread::spawn({
            let pool = pool.clone();
            move || exchange(b, pool, 5_000)
        });
        assert_eq!(exchange(a, pool.clone(), 5_000), 5_000);
        assert_eq!(other.join().unwrap(), 5_000);
        assert!(pool.is_whole(), "start {start}");
    }
}

#[test]
fn a_side_that_goes_away_at_any_moment_leaves_the_pool_whole() {
    let pool = pool(512);
    for round in 0..100u32 {
        let (mut a, mut b) = pair_from("leaving", &pool, RING, u32::MAX - round);
        let mut sending = pool.clone();
        let sender = std::thread::spawn(move || {
            let mut out = Batch::new(&sending, 24);
            let mut taken = 0;
            for number in 0..40 {
                append(&mut sending, &mut out, number, 1 + number as usize % 4);
                taken += a.transmit(&mut out).unwrap() as u64;
            }
            let stats = a.stats().unwrap();
            assert_eq!(stats.tx_packets + stats.tx_dropped(), taken);
        });
        let mut into = Batch::new(&pool, 8);
        for _ in 0..round % 7 {
            b.receive(&mut into).unwrap();
            read(&into);
            into = Batch::new(&pool, 8);
        }
        drop((b, into));
        sender.join().unwrap();
        assert!(pool.is_whole(), "round {round}");
    }
}
