//! What a sending loop notes of time, in bounded memory: when it was away, how far it had come, when nothing arrived.
//!
//! The loop reads the clock twice a turn: before and after it offers its ports what is due. So a pause outside the calls of ports,
//! in which only this thread can be late, is told apart from a long call, in which the kernel and perhaps the device work.

use std::collections::VecDeque;

/// A time that is as long as this is noted, in nanoseconds.
pub const NOTED_NS: u64 = 100_000;
/// Most spans of one kind that are kept.
const SPANS_MAX: usize = 4096;
/// Most marks that are kept of one port, and the time between two of them while there is room.
const MARKS_MAX: usize = 1 << 16;
const MARK_EVERY_NS: u64 = 50_000;
/// Time between two looks at what arrived: each look takes a cache line from the core that counts.
const LOOK_EVERY_NS: u64 = 100_000;

/// A time, in nanoseconds of CLOCK_MONOTONIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// From.
    pub start_ns: u64,
    /// To.
    pub end_ns: u64,
}

impl Span {
    /// How long it is.
    pub fn length_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

/// Spans in the order of time: the first `SPANS_MAX`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spans {
    list: Vec<Span>,
    /// Spans that found no room.
    pub missed: u64,
}

impl Spans {
    #[cold]
    fn push(&mut self, start_ns: u64, end_ns: u64) {
        if self.list.len() < SPANS_MAX {
            self.list.push(Span { start_ns, end_ns });
        } else {
            self.missed += 1;
        }
    }

    /// Them.
    pub fn list(&self) -> &[Span] {
        &self.list
    }

    /// Spans that are given, for tests.
    #[cfg(test)]
    pub(crate) fn of(spans: &[Span]) -> Spans {
        Spans { list: spans.to_vec(), missed: 0 }
    }
}

/// How many packets a port had taken at some times, with as many marks as fit: of a long load every second one, every fourth...
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Marks {
    /// Time and packets, both rising.
    marks: Vec<(u64, u64)>,
    every_ns: u64,
}

impl Marks {
    fn with_room() -> Marks {
        Marks { marks: Vec::with_capacity(MARKS_MAX), every_ns: MARK_EVERY_NS }
    }

    #[inline]
    fn note(&mut self, now_ns: u64, packets: u64, forced: bool) {
        let last_ns = self.marks.last().map_or(0, |(time_ns, _)| *time_ns);
        if now_ns.saturating_sub(last_ns) >= self.every_ns || forced && now_ns > last_ns {
            self.push(now_ns, packets);
        }
    }

    #[cold]
    fn push(&mut self, now_ns: u64, packets: u64) {
        if self.marks.len() >= MARKS_MAX {
            let mut number = 0;
            self.marks.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            self.every_ns *= 2;
        }
        self.marks.push((now_ns, packets));
    }

    /// How many packets had been handed over at this time.
    pub fn packets_at(&self, time_ns: u64) -> u64 {
        let after = self.marks.partition_point(|(mark_ns, _)| *mark_ns <= time_ns);
        let Some(before) = after.checked_sub(1).and_then(|at| self.marks.get(at)) else { return 0 };
        let Some(after) = self.marks.get(after) else { return before.1 };
        let share = (time_ns - before.0) as f64 / (after.0 - before.0) as f64;
        before.1 + (share * (after.1 - before.1) as f64) as u64
    }

    /// Marks at times that are given, for tests.
    #[cfg(test)]
    pub(crate) fn at(marks: &[(u64, u64)]) -> Marks {
        Marks { marks: marks.to_vec(), every_ns: MARK_EVERY_NS }
    }
}

/// A count of the packets that arrived at the far end, which the loop can read at any time without a system call.
pub trait Arrived: Sync {
    /// Packets so far.
    fn arrived(&self) -> u64;
}

/// What a loop noted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TurnLog {
    /// When the loop was away outside the calls of its ports, beyond what it meant to wait.
    pub away: Spans,
    /// Long turns: the ports' calls, and making the packets.
    pub calls: Spans,
    /// When nothing arrived although packets had been sent, as far as the loop was there to see it; to `LOOK_EVERY_NS`. None where
    /// the loop cannot see what arrives.
    pub silent: Option<Spans>,
    /// By lane.
    pub marks: Vec<Marks>,
}

/// Makes a [`TurnLog`].
pub struct TurnLogger<'a> {
    log: TurnLog,
    watch: Option<ArrivalWatch<'a>>,
}

impl<'a> TurnLogger<'a> {
    /// With what counts the arrivals of each lane, where there is something that does.
    pub fn new(lanes: &[Option<&'a dyn Arrived>]) -> TurnLogger<'a> {
        let marks = lanes.iter().map(|_| Marks::with_room()).collect();
        let all: Option<Vec<&dyn Arrived>> = lanes.iter().copied().collect();
        TurnLogger { log: TurnLog { marks, ..TurnLog::default() }, watch: all.map(ArrivalWatch::new) }
    }

    /// A turn begins at `now_ns`; the loop meant to be back at `meant_ns`. `sent` gives what each lane has sent so far.
    #[inline]
    pub fn begin(&mut self, meant_ns: u64, now_ns: u64, sent: impl Iterator<Item = u64>) {
        let was_away = now_ns.saturating_sub(meant_ns) >= NOTED_NS;
        if was_away {
            self.log.away.push(meant_ns, now_ns);
        }
        let mut total = 0;
        for (marks, packets) in self.log.marks.iter_mut().zip(sent) {
            if was_away {
                marks.note(meant_ns, packets, true);
            }
            marks.note(now_ns, packets, was_away);
            total += packets;
        }
        if let Some(watch) = &mut self.watch {
            watch.look(now_ns, total, was_away);
        }
    }

    /// The ports had their turn.
    #[inline]
    pub fn called(&mut self, from_ns: u64, to_ns: u64) {
        if to_ns.saturating_sub(from_ns) >= NOTED_NS {
            self.log.calls.push(from_ns, to_ns);
            if let Some(watch) = &mut self.watch {
                watch.blind = true;
            }
        }
    }

    /// The loop is over; `sent` gives what each lane has sent in all.
    pub fn finish(mut self, now_ns: u64, sent: impl Iterator<Item = u64>) -> TurnLog {
        for (marks, packets) in self.log.marks.iter_mut().zip(sent) {
            marks.note(now_ns, packets, true);
        }
        self.log.silent = self.watch.map(ArrivalWatch::finish);
        self.log
    }
}

/// Sees whether packets arrive while there are some on their way. One look in `LOOK_EVERY_NS`.
struct ArrivalWatch<'a> {
    arrived: Vec<&'a dyn Arrived>,
    looked_ns: u64,
    last: u64,
    /// Packets sent when something had arrived last.
    sent: u64,
    /// The last look before nothing arrived; 0 while something does, or nothing is on its way.
    since_ns: u64,
    /// The loop was away since the last look, so it cannot tell.
    blind: bool,
    /// How long it took until something arrived, of the last times: the device works in batches.
    usual: VecDeque<u64>,
    silent: Spans,
}

impl<'a> ArrivalWatch<'a> {
    /// Silences that are shorter than this many times the usual one are the device's way of working.
    const UNUSUAL: u64 = 4;
    const USUAL_MAX: usize = 256;

    fn new(arrived: Vec<&'a dyn Arrived>) -> ArrivalWatch<'a> {
        ArrivalWatch {
            arrived,
            looked_ns: 0,
            last: 0,
            sent: 0,
            since_ns: 0,
            blind: false,
            usual: VecDeque::with_capacity(Self::USUAL_MAX),
            silent: Spans::default(),
        }
    }

    #[inline]
    fn look(&mut self, now_ns: u64, sent: u64, was_away: bool) {
        self.blind |= was_away;
        if now_ns.saturating_sub(self.looked_ns) >= LOOK_EVERY_NS {
            self.look_now(now_ns, sent);
        }
    }

    #[cold]
    fn look_now(&mut self, now_ns: u64, sent: u64) {
        let before_ns = std::mem::replace(&mut self.looked_ns, now_ns);
        let arrived = self.arrived.iter().map(|lane| lane.arrived()).sum();
        let blind = std::mem::take(&mut self.blind);
        if arrived != self.last || blind {
            if self.since_ns != 0 && !blind {
                self.note(self.since_ns, now_ns);
            }
            (self.last, self.sent, self.since_ns) = (arrived, sent, 0);
        } else if sent > self.sent && self.since_ns == 0 {
            self.since_ns = before_ns;
        }
    }

    fn note(&mut self, since_ns: u64, now_ns: u64) {
        let length_ns = now_ns.saturating_sub(since_ns);
        if length_ns > 2 * LOOK_EVERY_NS {
            self.silent.push(since_ns, now_ns);
        }
        if self.usual.len() == Self::USUAL_MAX {
            self.usual.pop_front();
        }
        self.usual.push_back(length_ns);
    }

    /// The silences, without those that are usual.
    fn finish(self) -> Spans {
        let mut usual: Vec<u64> = self.usual.into();
        usual.sort_unstable();
        let median_ns = usual.get(usual.len() / 2).copied().filter(|_| usual.len() >= 16).unwrap_or(LOOK_EVERY_NS);
        let mut silent = self.silent;
        silent.list.retain(|span| span.length_ns() >= Self::UNUSUAL * median_ns);
        silent
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    const US: u64 = 1_000;
    const MS: u64 = 1_000_000;

    struct Count(AtomicU64);

    impl Arrived for Count {
        fn arrived(&self) -> u64 {
            self.0.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn a_pause_outside_calls_is_told_from_a_long_call() {
        let mut logger = TurnLogger::new(&[None]);
        // A turn of 20 us, then away for 2 ms; a call of 3 ms; a sleep of 5 ms that was meant.
        logger.begin(0, 10 * US, [0].into_iter());
        logger.called(10 * US, 30 * US);
        logger.begin(30 * US, 30 * US + 2 * MS, [64].into_iter());
        logger.called(30 * US + 2 * MS, 30 * US + 5 * MS);
        logger.begin(30 * US + 10 * MS, 40 * US + 10 * MS, [128].into_iter());
        let log = logger.finish(50 * US + 10 * MS, [128].into_iter());
        assert_eq!(log.away.list(), [Span { start_ns: 30 * US, end_ns: 30 * US + 2 * MS }]);
        assert_eq!(log.calls.list(), [Span { start_ns: 30 * US + 2 * MS, end_ns: 30 * US + 5 * MS }]);
        assert_eq!((log.silent, log.away.missed), (None, 0));
        // The number sent is known at both ends of the pause.
        assert_eq!(log.marks[0].packets_at(30 * US), log.marks[0].packets_at(30 * US + 2 * MS - 1));
    }

    #[test]
    fn numbers_follow_from_marks() {
        let marks = Marks::at(&[(1_000, 0), (2_000, 100), (5_000, 100), (6_000, 300)]);
        assert_eq!(
            [500, 1_000, 1_500, 3_000, 5_500, 9_000].map(|time| marks.packets_at(time)),
            [0, 0, 50, 100, 200, 300]
        );
        assert_eq!(Marks::default().packets_at(3), 0);
    }

    #[test]
    fn marks_of_a_long_load_are_fewer_and_as_right() {
        let mut marks = Marks::with_room();
        (0..1_000_000).for_each(|step| marks.note((step + 1) * MARK_EVERY_NS, step * 100, false));
        assert!(marks.marks.len() <= MARKS_MAX && marks.marks.capacity() == MARKS_MAX);
        assert_eq!(marks.packets_at(500_001 * MARK_EVERY_NS + MARK_EVERY_NS / 2), 50_000_050);
    }

    /// Looks each 100 us while packets are sent at one a microsecond; `arriving` says how many arrived by a time in microseconds.
    fn silences(until_us: u64, arriving: impl Fn(u64) -> u64, away_us: std::ops::Range<u64>) -> Vec<Span> {
        let count = Count(AtomicU64::new(0));
        let mut logger = TurnLogger::new(&[Some(&count)]);
        let mut meant_us = 1_000;
        for now_us in (1_000..until_us).filter(|now_us| !away_us.contains(now_us)) {
            count.0.store(arriving(now_us), Ordering::Relaxed);
            logger.begin(meant_us * US, now_us * US, [now_us].into_iter());
            meant_us = now_us + 1;
        }
        logger.finish(until_us * US, [until_us].into_iter()).silent.expect("it looked").list().to_vec()
    }

    #[test]
    fn a_silence_while_packets_are_on_their_way_is_found() {
        let stalled = |now_us: u64| if (20_000..22_300).contains(&now_us) { 20_000 } else { now_us };
        let [found] = silences(40_000, stalled, 0..0)[..] else { panic!("one silence") };
        assert!((2_200 * US..=2_500 * US).contains(&found.length_ns()), "{found:?}");
        assert!(found.start_ns.abs_diff(20_000 * US) <= 100 * US, "{found:?}");
    }

    #[test]
    fn nothing_is_silent_that_could_not_be_seen_or_is_usual() {
        let stalled = |now_us: u64| if (20_000..22_300).contains(&now_us) { 20_000 } else { now_us };
        assert_eq!(silences(40_000, stalled, 19_990..22_400), [], "the loop was away itself");
        assert_eq!(silences(40_000, |now_us| now_us / 1_500 * 1_500, 0..0), [], "it works in batches");
        assert_eq!(silences(40_000, |_| 5, 0..0), [], "nothing ever came");
    }
}
