//! An impaired pipe under a virtual clock: every packet is somewhere, and each fate is the one that was asked for.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use linerate_impair::{Clock, Impaired, Settings};
use linerate_mem::{Batch, Pool, PoolConfig};
use linerate_port::{Interest, Port, PortError, Readiness, Stats};
use linerate_port_pipe::{PipePort, pair};
use proptest::prelude::*;

/// A clock that goes when it is told to, and when somebody sleeps.
#[derive(Clone, Default)]
struct Virtual(Arc<AtomicU64>);

impl Virtual {
    fn advance(&self, ns: u64) {
        self.0.fetch_add(ns, Ordering::Relaxed);
    }
}

impl Clock for Virtual {
    fn now_ns(&mut self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn sleep_until_ns(&mut self, deadline_ns: u64) {
        self.0.fetch_max(deadline_ns, Ordering::Relaxed);
    }
}

/// A pipe whose one side is impaired, and numbered packets that go through it.
struct Path {
    pool: Pool,
    clock: Virtual,
    impaired: Impaired<Virtual>,
    far: PipePort,
    batch: Batch,
    next: u64,
}

const MS: u64 = 1_000_000;
const RING: usize = 1024;

impl Path {
    fn new(rx: Option<&str>, tx: Option<&str>) -> Path {
        Path::with_frames(rx, tx, PoolConfig { frames: 8192, ..PoolConfig::default() })
    }

    fn with_frames(rx: Option<&str>, tx: Option<&str>, config: PoolConfig) -> Path {
        let settings = |text: Option<&str>| text.map(|text| text.parse::<Settings>().unwrap());
        let pool = Pool::new(config).unwrap();
        let (near, far) = pair("p", &pool, RING);
        let clock = Virtual::default();
        let (rx, tx) = (settings(rx), settings(tx));
        let impaired = Impaired::with_clock(Box::new(near), rx.as_ref(), tx.as_ref(), &pool, clock.clone());
        let batch = Batch::with_times(&pool, 256);
        Path { pool, clock, impaired, far, batch, next: 0 }
    }

    /// Puts `count` packets of `len` bytes, which begin with their number, into the batch.
    fn build(&mut self, count: usize, len: usize) {
        assert_eq!(self.pool.alloc(&mut self.batch, count, len), count);
        for packet in self.batch.iter_mut() {
            packet.fill(0);
            packet[..8].copy_from_slice(&self.next.to_be_bytes());
            self.next += 1;
        }
    }

    fn send(&mut self, count: usize, len: usize) {
        self.build(count, len);
        assert_eq!(self.impaired.transmit(&mut self.batch).unwrap(), count);
    }

    /// Numbers of the packets that have arrived at the far side.
    fn arrived(&mut self) -> Vec<u64> {
        let mut numbers = Vec::new();
        while self.far.receive(&mut self.batch).unwrap() > 0 {
            numbers.extend(self.batch.iter().map(|packet| u64::from_be_bytes(packet[..8].try_into().unwrap())));
            self.pool.free(&mut self.batch);
        }
        numbers
    }

    /// Lets time go in steps until nothing is due any more, and returns each arrival with its time.
    fn drain(&mut self, step_ns: u64) -> Vec<(u64, u64)> {
        let mut arrivals = Vec::new();
        loop {
            let pending = self.impaired.flush().unwrap();
            let now_ns = self.clock.now_ns();
            arrivals.extend(self.arrived().into_iter().map(|number| (number, now_ns)));
            if pending == 0 {
                return arrivals;
            }
            self.clock.advance(step_ns);
        }
    }

    fn finish(self) -> Stats {
        let Path { mut pool, mut impaired, far, batch, .. } = self;
        let stats = impaired.stats().unwrap();
        drop((impaired, far, batch));
        pool.flush();
        assert!(pool.is_whole(), "{} of {} frames are there", pool.available(), pool.region().frames());
        stats
    }
}

#[test]
fn a_delayed_packet_leaves_when_it_is_due_and_not_before() {
    let mut path = Path::new(None, Some("delay 10ms"));
    assert_eq!(path.impaired.next_deadline_ns(), None);
    path.send(3, 60);
    assert_eq!((path.impaired.next_deadline_ns(), path.impaired.flush().unwrap()), (Some(10 * MS), 3));
    path.clock.advance(10 * MS - 1);
    assert_eq!((path.impaired.flush().unwrap(), path.arrived()), (3, vec![]));
    path.clock.advance(1);
    assert_eq!((path.impaired.flush().unwrap(), path.arrived()), (0, vec![0, 1, 2]));
    assert_eq!(path.impaired.next_deadline_ns(), None);
    path.send(2, 60);
    assert_eq!(path.impaired.flush().unwrap(), 2, "held at the end, and back in the pool");
    path.finish();
}

#[test]
fn what_arrives_is_delayed_with_its_timestamp() {
    let mut path = Path::new(Some("delay 5ms"), None);
    path.build(2, 60);
    assert_eq!(path.far.transmit(&mut path.batch).unwrap(), 2);
    path.clock.advance(MS);
    assert_eq!(path.impaired.receive(&mut path.batch).unwrap(), 0);
    assert_eq!(path.impaired.next_deadline_ns(), Some(6 * MS));
    path.clock.advance(5 * MS);
    assert_eq!(path.impaired.receive(&mut path.batch).unwrap(), 2);
    assert_eq!(path.impaired.stats().unwrap().rx_packets, 2);
    path.finish();
}

#[test]
fn a_waiting_thread_wakes_up_for_what_is_due() {
    let mut path = Path::new(Some("delay 5ms"), Some("delay 3ms"));
    assert_eq!(path.impaired.wait(Interest::Receive, 0).unwrap(), Readiness::TimedOut);
    path.send(1, 60);
    assert_eq!(path.impaired.wait(Interest::Transmit, 20 * MS).unwrap(), Readiness::Ready);
    assert_eq!((path.clock.now_ns(), path.arrived()), (3 * MS, vec![0]));
    // The far side sends, and goes: what it sent still comes, when it is due.
    path.build(1, 60);
    assert_eq!(path.far.transmit(&mut path.batch).unwrap(), 1);
    let (other, _) = pair("other", &path.pool, 2);
    drop(std::mem::replace(&mut path.far, other));
    assert_eq!(path.impaired.wait(Interest::Receive, 2 * MS).unwrap(), Readiness::TimedOut);
    assert_eq!(path.clock.now_ns(), 5 * MS);
    assert_eq!(path.impaired.wait(Interest::Receive, 20 * MS).unwrap(), Readiness::Ready);
    assert_eq!(path.clock.now_ns(), 8 * MS);
    assert_eq!(path.impaired.receive(&mut path.batch).unwrap(), 1);
    assert_eq!(path.impaired.wait(Interest::Receive, 20 * MS).unwrap(), Readiness::Closed);
    path.finish();
}

#[test]
fn a_rate_spaces_packets_and_the_queue_is_bounded() {
    // 1,000 bits a packet: one each 100 us.
    let mut path = Path::new(None, Some("rate 10Mbit/s limit 50"));
    path.send(200, 125);
    let stats = path.impaired.stats().unwrap();
    assert_eq!((stats.tx_packets, stats.tx_drops[0].packets), (0, 150));
    assert_eq!(
        (&*stats.tx_drops[0].place, &*stats.tx_drops[0].cause),
        ("impair-tx of pipe:p", "queue full (limit 50)")
    );
    let arrivals = path.drain(10_000);
    let expected: Vec<(u64, u64)> = (0..50).map(|number| (number, (number + 1) * 100_000)).collect();
    assert_eq!(arrivals, expected);
    assert_eq!(path.finish().tx_packets, 50);
}

#[test]
fn jitter_reorders_unless_packets_are_to_keep_their_order() {
    let order = |words: &str| {
        let mut path = Path::new(None, Some(words));
        for _ in 0..500 {
            path.send(1, 60);
            path.clock.advance(100_000);
        }
        let arrivals = path.drain(10_000);
        path.finish();
        assert_eq!(arrivals.len(), 500);
        arrivals.into_iter().map(|(number, _)| number).collect::<Vec<_>>()
    };
    let overtaken = |order: &[u64]| order.windows(2).filter(|pair| pair[1] < pair[0]).count();
    assert!(overtaken(&order("delay 10ms 5ms")) > 100);
    assert_eq!(overtaken(&order("delay 10ms 5ms ordered")), 0);
    // One in ten overtakes those that wait.
    let early = overtaken(&order("delay 10ms reorder 10%"));
    assert!((25..=75).contains(&early), "{early}");
}

#[test]
fn a_copy_follows_its_packet() {
    let mut path = Path::new(None, Some("duplicate 20%"));
    path.send(256, 64);
    let arrived = path.arrived();
    let copies = arrived.windows(2).filter(|pair| pair[0] == pair[1]).count();
    assert!(arrived.is_sorted() && arrived.len() == 256 + copies && (30..=70).contains(&copies), "{copies}");
    let stats = path.finish();
    assert_eq!((stats.tx_packets, stats.tx_duplicated), (arrived.len() as u64, copies as u64));
}

#[test]
fn corruption_changes_one_bit_anywhere() {
    let mut path = Path::new(None, Some("corrupt 20%"));
    let (mut next, mut changed, mut bytes_hit) = (0u64, 0, std::collections::HashSet::new());
    for _ in 0..40 {
        path.send(50, 64);
        while path.far.receive(&mut path.batch).unwrap() > 0 {
            for packet in path.batch.iter() {
                let mut sent = [0; 64];
                sent[..8].copy_from_slice(&next.to_be_bytes());
                let flips: Vec<(usize, u8)> =
                    sent.iter().zip(packet).map(|(a, b)| a ^ b).enumerate().filter(|(_, flip)| *flip != 0).collect();
                assert!(
                    flips.is_empty() || flips.len() == 1 && flips[0].1.is_power_of_two(),
                    "packet {next}: {flips:?}"
                );
                bytes_hit.extend(flips.iter().map(|(at, _)| *at));
                (next, changed) = (next + 1, changed + flips.len());
            }
            path.pool.free(&mut path.batch);
        }
    }
    assert!((340..=460).contains(&changed) && bytes_hit.len() > 55, "{changed}, in {} of 64 bytes", bytes_hit.len());
    let stats = path.finish();
    assert_eq!((stats.tx_packets, stats.tx_corrupted), (2000, changed as u64));
}

#[test]
fn a_copy_without_a_frame_is_a_loss_with_a_cause() {
    let config = PoolConfig { frames: 64, ..PoolConfig::default() };
    let mut path = Path::with_frames(None, Some("duplicate 100%"), config);
    path.build(40, 60);
    path.pool.flush();
    assert_eq!(path.impaired.transmit(&mut path.batch).unwrap(), 40);
    assert_eq!(path.arrived().len(), 64);
    let stats = path.finish();
    assert_eq!((stats.tx_packets, stats.tx_duplicated), (64, 40));
    assert_eq!((&*stats.tx_drops[0].cause, stats.tx_drops[0].packets), ("no free frame for a copy", 16));
}

#[test]
fn a_full_port_is_full_here_and_loses_nothing() {
    let mut path = Path::new(None, Some("corrupt 1%"));
    let mut taken = 0;
    loop {
        if path.batch.is_empty() {
            path.build(100, 60);
        }
        match path.impaired.transmit(&mut path.batch).unwrap() {
            0 => break,
            count => taken += count,
        }
    }
    path.pool.free(&mut path.batch);
    assert!((RING..RING + 256).contains(&taken), "{taken}");
    assert!(path.impaired.next_deadline_ns() > Some(path.clock.now_ns()), "nobody spins for what cannot leave");
    let mut arrived = path.arrived().len();
    path.clock.advance(MS);
    assert_eq!(path.impaired.flush().unwrap(), 0);
    arrived += path.arrived().len();
    assert_eq!(arrived, taken);
    assert_eq!(path.finish().tx_dropped(), 0);
}

#[test]
fn a_packet_that_is_too_long_stays_and_those_before_it_go() {
    // Frames of 512 bytes make 1,000 bytes a packet of several slots; the queue holds one slot.
    let config = PoolConfig { frames: 512, frame_size: 1024 };
    let mut path = Path::with_frames(None, Some("delay 1ms limit 1"), config);
    path.build(1, 60);
    assert!(path.pool.append(&mut path.batch, &[7; 1500], 0));
    assert!(matches!(path.impaired.transmit(&mut path.batch), Err(PortError::FrameTooLong { len: 1500, .. })));
    assert_eq!(path.batch.totals().packets, 1);
    path.pool.free(&mut path.batch);
    assert_eq!(path.drain(100_000), [(0, MS)]);
    path.finish();
}

#[test]
fn packets_of_several_slots_stay_whole() {
    let config = PoolConfig { frames: 4096, frame_size: 1024 };
    let mut path = Path::with_frames(None, Some("delay 1ms 900us duplicate 30% corrupt 30% loss 10%"), config);
    let (mut sent, mut arrived) = (0, 0);
    for round in 0..50u64 {
        for number in 0..10 {
            assert!(path.pool.append(&mut path.batch, &vec![0; 100 + 700 * (number % 4)], 0));
        }
        sent += path.impaired.transmit(&mut path.batch).unwrap() as u64;
        path.clock.advance(100_000 * (round % 3));
        path.impaired.flush().unwrap();
        arrived += packets_of(&mut path);
    }
    path.clock.advance(2 * MS);
    assert_eq!(path.impaired.flush().unwrap(), 0);
    arrived += packets_of(&mut path);
    let stats = path.finish();
    assert_eq!((sent, stats.tx_packets), (500, arrived));
    assert_eq!(sent + stats.tx_duplicated, stats.tx_packets + stats.tx_dropped());
}

fn packets_of(path: &mut Path) -> u64 {
    let mut packets = 0;
    while path.far.receive(&mut path.batch).unwrap() > 0 {
        let mut at = 0;
        while let Some(span) = path.batch.span(at) {
            assert!((span.len - 100).is_multiple_of(700), "{} bytes", span.len);
            let ones: u32 =
                (at..at + span.slots).flat_map(|slot| path.batch.packet(slot)).map(|byte| byte.count_ones()).sum();
            assert!(ones <= 1, "{ones} bits changed");
            (at, packets) = (at + span.slots, packets + 1);
        }
        assert_eq!(at, path.batch.len());
        path.pool.free(&mut path.batch);
    }
    packets
}

/// Which packets arrive, and when, where they come one at a time each 10 us, or in crowds.
fn fates(words: &str, crowd: usize) -> Vec<u64> {
    let mut path = Path::new(None, Some(words));
    let mut arrived = Vec::new();
    while path.next < 2000 {
        path.send(crowd, 60);
        path.clock.advance(10_000 * crowd as u64);
        path.impaired.flush().unwrap();
        arrived.extend(path.arrived());
    }
    arrived.extend(path.drain(1_000).into_iter().map(|(number, _)| number));
    path.finish();
    arrived
}

#[test]
fn the_same_seed_gives_each_packet_the_same_fate() {
    let words = "loss 5% duplicate 5% delay 1ms 500us reorder 3%";
    let once = fates(words, 1);
    assert_eq!(once, fates(words, 1), "same seed, same packets, same times: the same order");
    let sorted = |mut numbers: Vec<u64>| {
        numbers.sort_unstable();
        numbers
    };
    assert_eq!(sorted(once.clone()), sorted(fates(words, 200)), "however packets are batched");
    assert_ne!(sorted(once), sorted(fates(&format!("{words} seed 2"), 1)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn every_packet_is_somewhere(
        loss in 0u32..30, duplicate in 0u32..30, delay_us in 1u64..500, jitter_us in 0u64..500, limit in 20usize..300,
        rate_mbps in 1u64..1000, steps in proptest::collection::vec((0usize..40, 0u64..200_000, any::<bool>()), 1..60),
    ) {
        let words = format!(
            "loss {loss}% delay {delay_us}us {jitter_us}us 20% duplicate {duplicate}% reorder 5% rate {rate_mbps}Mbit/s limit {limit}"
        );
        let mut path = Path::new(Some(&words), Some(&words));
        let (mut sent, mut received, mut offered) = (0, 0, 0);
        for (count, ns, outward) in steps {
            path.build(count, 60);
            if outward {
                sent += path.impaired.transmit(&mut path.batch).unwrap() as u64;
            } else {
                offered += path.far.transmit(&mut path.batch).unwrap() as u64;
            }
            path.pool.free(&mut path.batch);
            path.clock.advance(ns);
            received += path.impaired.receive(&mut path.batch).unwrap() as u64;
            path.pool.free(&mut path.batch);
        }
        let arrived = path.drain(50_000).len() as u64;
        while path.impaired.next_deadline_ns().is_some() || path.impaired.wait(Interest::Receive, 0).unwrap() == Readiness::Ready {
            path.clock.advance(50_000);
            received += path.impaired.receive(&mut path.batch).unwrap() as u64;
            path.pool.free(&mut path.batch);
        }
        let stats = path.finish();
        prop_assert_eq!(stats.rx_packets, received);
        prop_assert_eq!(offered + stats.rx_duplicated, stats.rx_packets + stats.rx_dropped());
        prop_assert_eq!(sent + stats.tx_duplicated, stats.tx_packets + stats.tx_dropped());
        prop_assert!(arrived <= stats.tx_packets);
    }
}
