//! Recorded times as a schedule.
//!
//! Within a pass over a capture, a packet is due as long after the first one as it was recorded, divided by the factor. Time
//! that runs backwards (packets of several queues merged) is taken to stand still. Time that falls back to the start of the
//! pass, or before it, is a new pass: it begins one mean gap after the last packet of the old one.
//!
//! Late packets go at once, or ([`CatchUp::Smooth`]) follow each other with their recorded gaps shortened by [`CATCH_UP`], after at
//! most [`CREDIT_NS`] of them at once.

use crate::pace::{CATCH_UP, CatchUp, Schedule};

/// Recorded time whose packets may go out at once when they are late.
const CREDIT_NS: f64 = 100_000.0;

/// The due times of packets, in their order.
pub(super) struct RecordedTimes {
    factor: f64,
    start_ns: u64,
    end_ns: u64,
    packets_max: u64,
    taken: u64,
    pass: Option<Pass>,
    /// Due time of the last packet taken, after `start_ns`.
    last_due: f64,
    /// Earliest departure of the next packet, after `start_ns`.
    release: f64,
    /// Late packets wait for their release.
    spread: bool,
}

/// A pass over the capture.
#[derive(Clone, Copy)]
struct Pass {
    /// When its first packet is due, after the start.
    base: f64,
    first_timestamp_ns: u64,
    /// Latest timestamp so far, and the one of the packet before.
    high_timestamp_ns: u64,
    last_timestamp_ns: u64,
    packets: u64,
}

impl RecordedTimes {
    pub(super) fn new(schedule: &Schedule, factor: f64, start_ns: u64) -> RecordedTimes {
        RecordedTimes {
            factor: if factor > 0.0 { factor } else { 1.0 },
            start_ns,
            end_ns: schedule.duration_ns.map_or(u64::MAX, |duration| start_ns.saturating_add(duration)),
            packets_max: schedule.packets.unwrap_or(u64::MAX),
            taken: 0,
            pass: None,
            last_due: 0.0,
            release: 0.0,
            spread: schedule.catch_up == CatchUp::Smooth,
        }
    }

    /// Takes packets with these timestamps as long as they are due at `now_ns`, at most `count`, and says their due times.
    pub(super) fn take(
        &mut self,
        now_ns: u64,
        count: usize,
        timestamps: impl Iterator<Item = u64>,
        due: &mut dyn FnMut(u64),
    ) {
        let now = now_ns.saturating_sub(self.start_ns) as f64;
        if now_ns < self.start_ns {
            return;
        }
        self.release = self.release.max(now - CREDIT_NS);
        for timestamp_ns in timestamps.take(count) {
            let (due_after, pass) = self.place(timestamp_ns);
            let due_ns = self.absolute(due_after);
            // In whole nanoseconds, as `next_due_ns` says it.
            let waits = self.spread && self.absolute(self.release) > now_ns;
            if due_ns > now_ns || waits || due_ns >= self.end_ns || self.taken >= self.packets_max {
                break;
            }
            self.release += (due_after - self.last_due).max(0.0) / CATCH_UP;
            (self.pass, self.last_due) = (Some(pass), due_after);
            self.taken += 1;
            due(due_ns);
        }
    }

    /// When the packet with this timestamp is due; `None` when it never will be.
    pub(super) fn next_due_ns(&self, timestamp_ns: Option<u64>) -> Option<u64> {
        let (due_after, _) = self.place(timestamp_ns?);
        let due_ns = self.absolute(if self.spread { due_after.max(self.release) } else { due_after });
        (self.taken < self.packets_max && self.absolute(due_after) < self.end_ns).then_some(due_ns)
    }

    /// True when the number of packets is reached.
    pub(super) fn is_over(&self) -> bool {
        self.taken >= self.packets_max
    }

    /// From now on packets are only counted, up to `now_ns`.
    pub(super) fn close(&mut self, now_ns: u64) {
        self.spread = false;
        self.end_ns = self.end_ns.min(now_ns.saturating_add(1));
    }

    /// Packets taken so far.
    pub(super) fn taken(&self) -> u64 {
        self.taken
    }

    fn absolute(&self, after: f64) -> u64 {
        self.start_ns.saturating_add(after as u64)
    }

    /// When a packet with this timestamp is due, and the pass as it then is.
    fn place(&self, timestamp_ns: u64) -> (f64, Pass) {
        let begin = |base: f64| Pass {
            base,
            first_timestamp_ns: timestamp_ns,
            high_timestamp_ns: timestamp_ns,
            last_timestamp_ns: timestamp_ns,
            packets: 1,
        };
        let Some(pass) = self.pass else { return (0.0, begin(0.0)) };
        if timestamp_ns < pass.last_timestamp_ns && timestamp_ns <= pass.first_timestamp_ns {
            let span = (pass.high_timestamp_ns - pass.first_timestamp_ns) as f64 / self.factor;
            let base = self.last_due + span / (pass.packets - 1).max(1) as f64;
            return (base, begin(base));
        }
        let high_timestamp_ns = pass.high_timestamp_ns.max(timestamp_ns);
        let due = pass.base + (high_timestamp_ns - pass.first_timestamp_ns) as f64 / self.factor;
        (due, Pass { high_timestamp_ns, last_timestamp_ns: timestamp_ns, packets: pass.packets + 1, ..pass })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pace::Arrival;

    fn schedule(packets: Option<u64>, duration_ns: Option<u64>) -> Schedule {
        Schedule { rate_pps: None, arrival: Arrival::Constant, packets, duration_ns, catch_up: CatchUp::Smooth }
    }

    fn all(times: &mut RecordedTimes, timestamps: &[u64]) -> Vec<u64> {
        let mut taken = Vec::new();
        let mut at = 0;
        for now_ns in (0..50_000_000).step_by(1_000) {
            let before = taken.len();
            times.take(now_ns, usize::MAX, timestamps[at..].iter().copied(), &mut |due_ns| taken.push(due_ns));
            at += taken.len() - before;
        }
        taken
    }

    #[test]
    fn recorded_gaps_are_kept_or_scaled() {
        let timestamps = [7_000_000, 7_000_000, 7_400_000, 9_000_000];
        let mut times = RecordedTimes::new(&schedule(None, None), 1.0, 1_000);
        assert_eq!(all(&mut times, &timestamps), [1_000, 1_000, 401_000, 2_001_000]);
        let mut times = RecordedTimes::new(&schedule(None, None), 4.0, 1_000);
        assert_eq!(all(&mut times, &timestamps), [1_000, 1_000, 101_000, 501_000]);
    }

    #[test]
    fn passes_follow_each_other_and_disorder_stands_still() {
        let timestamps = [1_000_000, 3_000_000, 2_500_000, 5_000_000, 1_000_000, 3_000_000];
        let mut times = RecordedTimes::new(&schedule(None, None), 1.0, 0);
        let gap = 4_000_000 / 3;
        assert_eq!(
            all(&mut times, &timestamps),
            [0, 2_000_000, 2_000_000, 4_000_000, 4_000_000 + gap, 6_000_000 + gap]
        );
    }

    #[test]
    fn what_is_said_to_be_due_can_be_taken() {
        // Thirds of nanoseconds, and a replay that is late until it has caught up.
        let timestamps: Vec<u64> = (0..20_000).map(|number| number * 3_331).collect();
        let mut times = RecordedTimes::new(&schedule(None, None), 3.0, 5_000);
        let (mut at, mut now_ns) = (0, 400_000);
        while at < timestamps.len() {
            let before = at;
            times.take(now_ns, usize::MAX, timestamps[before..].iter().copied(), &mut |_| at += 1);
            let next_ns = times.next_due_ns(timestamps.get(at).copied());
            assert!(next_ns.is_none_or(|next_ns| next_ns > now_ns), "{next_ns:?} was due at {now_ns}");
            now_ns = next_ns.unwrap_or(now_ns);
        }
    }

    #[test]
    fn ends_are_kept() {
        let timestamps: Vec<u64> = (0..10).map(|number| number * 1_000_000).collect();
        let mut times = RecordedTimes::new(&schedule(Some(3), None), 1.0, 0);
        assert_eq!(all(&mut times, &timestamps).len(), 3);
        assert!(times.is_over());
        let mut times = RecordedTimes::new(&schedule(None, Some(4_500_000)), 1.0, 0);
        assert_eq!(all(&mut times, &timestamps).len(), 5);
        assert_eq!(times.next_due_ns(Some(5_000_000)), None);
    }

    #[test]
    fn a_late_replay_catches_up_without_a_flood() {
        // 100,000 packets a second, and the first look comes 10 ms late.
        let timestamps: Vec<u64> = (0..20_000).map(|number| number * 10_000).collect();
        let mut times = RecordedTimes::new(&schedule(None, None), 1.0, 0);
        let (mut at, mut sent) = (0, Vec::new());
        for now_ns in (10_000_000..300_000_000).step_by(1_000) {
            times.take(now_ns, usize::MAX, timestamps[at..].iter().copied(), &mut |_| sent.push(now_ns));
            at = sent.len();
        }
        assert!(sent.iter().filter(|now_ns| **now_ns == 10_000_000).count() <= 13);
        assert_eq!(sent.len(), 20_000);
        let first_10_ms = sent.iter().filter(|now_ns| **now_ns < 20_000_000).count();
        assert!((1_090..1_120).contains(&first_10_ms), "{first_10_ms}");
        let at_once = Schedule { catch_up: CatchUp::Burst, ..schedule(None, None) };
        let (mut times, mut count) = (RecordedTimes::new(&at_once, 1.0, 0), 0);
        times.take(10_000_000, usize::MAX, timestamps.iter().copied(), &mut |_| count += 1);
        assert_eq!(count, 1_001);
    }

    #[test]
    fn closing_counts_what_was_due() {
        let timestamps: Vec<u64> = (0..100).map(|number| number * 1_000_000).collect();
        let mut times = RecordedTimes::new(&schedule(None, None), 1.0, 0);
        times.take(0, 1, timestamps.iter().copied(), &mut |_| {});
        times.close(50_000_000);
        times.take(50_000_000, usize::MAX, timestamps[1..].iter().copied(), &mut |_| {});
        assert_eq!(times.taken(), 51);
    }
}
