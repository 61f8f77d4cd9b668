//! Replay from one port to another under a made-up clock: order, times, ends, and frames that all come back.

use linerate_gen::{Arrival, CatchUp, Replay, ReplayNext, ReplayPlan, ReplayReport, Speed};
use linerate_mem::{Batch, Pool, PoolConfig};
use linerate_port::{Caps, Interest, Port, PortError, Readiness, Stats};
use proptest::prelude::*;

/// A source that hands out packets with timestamps, a few at a time.
struct Source {
    pool: Pool,
    caps: Caps,
    packets: std::collections::VecDeque<(u64, Vec<u8>)>,
}

impl Port for Source {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn receive(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        let mut count = 0;
        while count < 7
            && let Some((timestamp_ns, packet)) = self.packets.front()
            && self.pool.append(batch, packet, *timestamp_ns)
        {
            self.packets.pop_front();
            count += 1;
        }
        Ok(count)
    }

    fn transmit(&mut self, _batch: &mut Batch) -> Result<usize, PortError> {
        Ok(0)
    }

    fn wait(&mut self, _interest: Interest, _timeout_ns: u64) -> Result<Readiness, PortError> {
        Ok(Readiness::Closed)
    }

    fn stats(&mut self) -> Result<Stats, PortError> {
        Ok(Stats::default())
    }
}

/// A sink that keeps what it gets, and takes at most `room` packets a call.
struct Sink {
    pool: Pool,
    caps: Caps,
    room: usize,
    got: Vec<Vec<u8>>,
}

impl Port for Sink {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn receive(&mut self, _batch: &mut Batch) -> Result<usize, PortError> {
        Ok(0)
    }

    fn transmit(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        let mut taken = 0;
        while taken < self.room
            && let Some(span) = batch.span(0)
        {
            assert!(span.len <= self.caps.frame_len_max, "too long for the port");
            self.got.push((0..span.slots).flat_map(|slot| batch.packet(slot).to_vec()).collect());
            self.pool.free_front(batch, span.slots);
            taken += 1;
        }
        Ok(taken)
    }

    fn wait(&mut self, _interest: Interest, _timeout_ns: u64) -> Result<Readiness, PortError> {
        Ok(Readiness::Ready)
    }

    fn stats(&mut self) -> Result<Stats, PortError> {
        Ok(Stats::default())
    }
}

struct Outcome {
    report: ReplayReport,
    got: Vec<Vec<u8>>,
    /// Time at which each packet had left.
    left_ns: Vec<u64>,
}

const START_NS: u64 = 5_000_000;

/// Replays these packets with a clock that steps by `step_ns`.
fn replay(plan: ReplayPlan, packets: &[(u64, Vec<u8>)], shared: bool, room: usize, step_ns: u64) -> Outcome {
    let config = PoolConfig { frames: 512, ..PoolConfig::default() };
    let source_pool = Pool::new(config).unwrap();
    let port_pool = if shared { source_pool.clone() } else { Pool::new(config).unwrap() };
    let mut source =
        Source { pool: source_pool.clone(), caps: Caps::default(), packets: packets.iter().cloned().collect() };
    let caps = Caps { frame_len_max: 1514, ..Caps::default() };
    let mut sink = Sink { pool: port_pool.clone(), caps, room, got: Vec::new() };
    let mut engine = Replay::new(plan, &source_pool, &port_pool, START_NS);
    let (mut now_ns, mut left_ns) = (START_NS, Vec::new());
    loop {
        let next = engine.poll(now_ns, &mut source, &mut sink).unwrap();
        left_ns.resize(sink.got.len(), now_ns);
        match next {
            ReplayNext::At(at_ns) if at_ns > now_ns => now_ns += step_ns,
            ReplayNext::At(_) => {}
            ReplayNext::SourceEmpty => engine.source_ended(),
            ReplayNext::PortFull | ReplayNext::NoFrames => now_ns += step_ns,
            ReplayNext::Done => break,
        }
    }
    let report = engine.finish(now_ns, Some(&mut source));
    let got = std::mem::take(&mut sink.got);
    drop((source, sink));
    let pools = [source_pool, port_pool];
    if shared {
        let [first, second] = pools;
        drop(second);
        assert!(first.is_whole(), "frames are missing");
    } else {
        assert!(pools.iter().all(Pool::is_whole), "frames are missing");
    }
    Outcome { report, got, left_ns }
}

fn plan(speed: Speed) -> ReplayPlan {
    ReplayPlan { speed, packets: None, duration_ns: None, catch_up: CatchUp::Smooth, batch: 16 }
}

fn numbered(count: usize, gap_ns: u64) -> Vec<(u64, Vec<u8>)> {
    (0..count).map(|number| (1_000_000_000 + number as u64 * gap_ns, vec![number as u8; 60 + number % 5])).collect()
}

#[test]
fn recorded_times_are_kept_and_scaled() {
    let packets = numbered(50, 100_000);
    for (factor, gap_ns) in [(1.0, 100_000), (2.0, 50_000), (0.5, 200_000)] {
        let outcome = replay(plan(Speed::Recorded(factor)), &packets, true, 9, 1_000);
        assert_eq!(outcome.got, packets.iter().map(|(_, packet)| packet.clone()).collect::<Vec<_>>());
        let expected: Vec<u64> = (0..50).map(|number| START_NS + number * gap_ns).collect();
        assert_eq!(outcome.left_ns, expected);
        let account = &outcome.report.account;
        assert_eq!((account.intended, account.sent, account.unsent()), (50, 50, 0));
        assert_eq!((account.lateness.max_ns(), account.gap_error.max_ns()), (Some(0), Some(0)));
    }
}

#[test]
fn a_rate_wins_over_recorded_times() {
    let speed = Speed::Rate { rate_pps: 1_000_000.0, arrival: Arrival::Constant };
    let outcome = replay(plan(speed), &numbered(30, 1), true, 64, 1_000);
    let expected: Vec<u64> = (0..30).map(|number| START_NS + number * 1_000).collect();
    assert!(outcome.left_ns.iter().zip(&expected).all(|(left, due)| (*due..due + 2_000).contains(left)));
    assert_eq!(outcome.report.account.intended, 30, "no more than there are");
}

#[test]
fn full_speed_needs_no_time() {
    let outcome = replay(plan(Speed::Full), &numbered(100, 1_000_000_000), true, 64, 1_000);
    assert_eq!((outcome.got.len(), outcome.left_ns.last().copied()), (100, Some(START_NS)));
}

#[test]
fn what_was_due_and_not_sent_is_unsent() {
    let packets = numbered(100, 100_000);
    let short = ReplayPlan { duration_ns: Some(4_950_000), ..plan(Speed::Recorded(1.0)) };
    let outcome = replay(short, &packets, true, 64, 1_000);
    assert_eq!((outcome.report.account.intended, outcome.got.len()), (50, 50));
    let counted = ReplayPlan { packets: Some(20), ..plan(Speed::Recorded(1.0)) };
    let outcome = replay(counted, &packets, true, 64, 1_000);
    assert_eq!((outcome.report.account.intended, outcome.got.len()), (20, 20));
}

/// A port that takes nothing: everything that was due by the end is asked for all the same, also what was never read.
#[test]
fn a_stuck_port_does_not_hide_what_was_due() {
    let packets = numbered(100, 100_000);
    let pool = Pool::new(PoolConfig { frames: 512, ..PoolConfig::default() }).unwrap();
    let mut source = Source { pool: pool.clone(), caps: Caps::default(), packets: packets.into_iter().collect() };
    let mut sink =
        Sink { pool: pool.clone(), caps: Caps { frame_len_max: 1514, ..Caps::default() }, room: 0, got: Vec::new() };
    let mut engine = Replay::new(plan(Speed::Recorded(1.0)), &pool, &pool, START_NS);
    for now_ns in (START_NS..START_NS + 1_000_000).step_by(1_000) {
        engine.poll(now_ns, &mut source, &mut sink).unwrap();
    }
    let report = engine.finish(START_NS + 6_250_000, Some(&mut source));
    assert_eq!((report.account.intended, report.account.sent), (63, 0));
    drop((source, sink));
    assert!(pool.is_whole());
}

#[test]
fn packets_that_the_port_cannot_take_are_counted() {
    let mut packets = numbered(10, 1_000);
    packets[3].1 = vec![3; 4_000];
    packets[9].1 = vec![9; 1_515];
    for shared in [true, false] {
        let outcome = replay(plan(Speed::Full), &packets, shared, 64, 1_000);
        let account = &outcome.report.account;
        assert_eq!((account.intended, account.sent, account.unsent(), outcome.report.too_long), (10, 8, 2, 2));
    }
}

proptest! {
    #[test]
    fn every_packet_once_in_order(
        lens in proptest::collection::vec(14usize..1514, 0..80), timestamps in proptest::collection::vec(0u64..50_000, 80),
        shared in any::<bool>(), room in 1usize..20, batch in 1usize..40, kind in 0..3,
    ) {
        let packets: Vec<(u64, Vec<u8>)> =
            lens.iter().enumerate().map(|(number, len)| (1 + timestamps[number], vec![number as u8; *len])).collect();
        let speed = match kind {
            0 => Speed::Full,
            1 => Speed::Recorded(3.0),
            _ => Speed::Rate { rate_pps: 1e6, arrival: Arrival::Burst { packets: 4 } },
        };
        let outcome = replay(ReplayPlan { batch, ..plan(speed) }, &packets, shared, room, 10_000);
        let expected: Vec<Vec<u8>> = packets.iter().map(|(_, packet)| packet.clone()).collect();
        prop_assert_eq!(&outcome.got, &expected);
        let account = &outcome.report.account;
        prop_assert_eq!((account.intended, account.sent), (expected.len() as u64, expected.len() as u64));
        prop_assert_eq!(account.bytes, expected.iter().map(|packet| packet.len() as u64).sum::<u64>());
    }
}
