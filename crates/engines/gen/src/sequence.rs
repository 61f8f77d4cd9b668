//! Loss, duplication and reordering of one stream, from its sequence numbers.
//!
//! RFC 4737 section 3.3: a packet is *reordered* when its number is smaller than the next expected one. Each number within
//! the window is remembered as missing or seen, so a late packet is told from a duplicate. The scheduled times rise with the
//! numbers, so an old number with a new time is neither: the sender has started again, and the count starts again with it.
//!
//! A packet in order with nothing missing costs a compare and an increment, a run of such packets costs that once.

/// Numbers back from the next expected one for which "seen or missing" is known, unless asked otherwise.
pub const WINDOW_DEFAULT: u64 = 1 << 20;

/// Where counting starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At the first packet seen: what came before is not known, thus not lost.
    FirstSeen,
    /// At this number: everything from it on that does not arrive is lost.
    At(u64),
}

/// Runs of a sender that are remembered one by one.
const RUNS_MAX: usize = 1024;

/// The numbers of one run of the sender, as far as one tracker saw them.
#[derive(Clone, Copy, Debug)]
struct SenderRun {
    base: u64,
    next: u64,
    delivered: u64,
    first_number: u64,
    first_time_ns: u64,
    newest_time_ns: u64,
}

/// The counts of a stream. `expected = delivered + lost`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SequenceCounts {
    /// Distinct packets that arrived.
    pub delivered: u64,
    /// Packets that did not arrive: numbers between the start and the highest one seen.
    pub lost: u64,
    /// Further arrivals of packets that had arrived before.
    pub duplicated: u64,
    /// Packets (of the delivered) that arrived after one with a higher number.
    pub reordered: u64,
    /// Arrivals with a number too far back to tell whether they are duplicates; in none of the counts above.
    pub beyond_window: u64,
    /// How often the sender started again.
    pub restarts: u64,
}

/// Follows one stream.
pub struct SequenceTracker {
    start: Start,
    window: u64,
    /// Next expected number (highest seen + 1), counted without wrap.
    next: u64,
    /// Number at which this run of the sender started.
    base: u64,
    seen_any: bool,
    /// Number and scheduled time of this run's first packet (of a first packet with the first number: that number, and 0), and the newest time.
    first_number: u64,
    first_time_ns: u64,
    newest_time_ns: u64,
    /// Runs of the sender before this one, for those who merge trackers; at most [`RUNS_MAX`].
    runs_before: Vec<SenderRun>,
    /// One bit for each number of the window: set = missing. Allocated at the first gap.
    missing: Vec<u64>,
    /// Numbers of earlier runs of the sender that did not arrive.
    lost_before: u64,
    delivered_this_run: u64,
    counts: SequenceCounts,
}

impl SequenceTracker {
    /// A tracker that remembers at least `window` numbers (rounded up to a power of two, 64 to 2^32).
    pub fn new(start: Start, window: u64) -> SequenceTracker {
        let base = match start {
            Start::At(number) => number,
            Start::FirstSeen => 0,
        };
        SequenceTracker {
            start,
            window: window.clamp(64, 1 << 32).next_power_of_two(),
            next: base,
            base,
            seen_any: matches!(start, Start::At(_)),
            first_number: base,
            first_time_ns: 0,
            newest_time_ns: 0,
            runs_before: Vec::new(),
            missing: Vec::new(),
            lost_before: 0,
            delivered_this_run: 0,
            counts: SequenceCounts::default(),
        }
    }

    /// Notes the arrival of packet `sequence`, whose scheduled time (unwrapped, rising with the number) is `time_ns`.
    /// True when it is the first arrival of that packet.
    #[inline]
    pub fn record(&mut self, sequence: u64, time_ns: u64) -> bool {
        if sequence == self.next && self.missing.is_empty() && self.seen_any {
            self.next += 1;
            self.newest_time_ns = time_ns;
            self.delivered_this_run += 1;
            return true;
        }
        self.record_slow(sequence, time_ns)
    }

    /// Notes that the next `count` numbers arrived in order, scheduled for the same time as the last one noted.
    #[inline]
    pub fn record_next(&mut self, count: u64) {
        if self.missing.is_empty() {
            self.next += count;
        } else {
            (0..count).for_each(|_| self.advance(self.next));
        }
        self.delivered_this_run += count;
    }

    /// The number after the highest one seen.
    #[inline]
    pub fn next_expected(&self) -> u64 {
        self.next
    }

    /// The counts so far; lost counts up to the highest number seen.
    pub fn counts(&self) -> SequenceCounts {
        self.counts_until(self.next)
    }

    /// The counts when the sender is known to have sent the numbers up to `end` (exclusive).
    pub fn counts_until(&self, end: u64) -> SequenceCounts {
        let expected = end.max(self.next) - self.base;
        let mut counts = self.counts;
        counts.delivered += self.delivered_this_run;
        counts.lost = self.lost_before + expected - self.delivered_this_run;
        counts
    }

    #[cold]
    #[inline(never)]
    fn record_slow(&mut self, sequence: u64, time_ns: u64) -> bool {
        if !self.seen_any {
            self.seen_any = true;
            (self.base, self.next) = (sequence, sequence);
        }
        if sequence >= self.next {
            if self.delivered_this_run == 0 {
                (self.first_number, self.first_time_ns) = (sequence, time_ns);
            }
            self.advance(sequence);
            self.newest_time_ns = time_ns;
            self.delivered_this_run += 1;
            return true;
        }
        if time_ns > self.newest_time_ns {
            self.restart(sequence, time_ns);
            return true;
        }
        if sequence < self.base || self.next - sequence > self.window {
            self.counts.beyond_window += 1;
            return false;
        }
        if self.take_missing(sequence) {
            self.counts.reordered += 1;
            self.delivered_this_run += 1;
            return true;
        }
        self.counts.duplicated += 1;
        false
    }

    /// Makes `sequence` the highest number seen; those skipped are missing.
    fn advance(&mut self, sequence: u64) {
        let skipped = sequence - self.next;
        if skipped > 0 && self.missing.is_empty() {
            self.missing = vec![0; (self.window / 64) as usize];
        }
        if !self.missing.is_empty() {
            // Numbers further back than the window need no bit any more.
            let first = sequence.saturating_sub(self.window - 1).max(self.next);
            for number in first..sequence {
                self.set_missing(number, true);
            }
            self.set_missing(sequence, false);
        }
        self.next = sequence + 1;
    }

    fn set_missing(&mut self, number: u64, missing: bool) {
        let bit = number & (self.window - 1);
        let word = &mut self.missing[(bit / 64) as usize];
        *word = *word & !(1 << (bit % 64)) | u64::from(missing) << (bit % 64);
    }

    /// Was the number missing? It is not any more.
    fn take_missing(&mut self, number: u64) -> bool {
        let bit = number & (self.window - 1);
        match self.missing.get_mut((bit / 64) as usize) {
            Some(word) if *word >> (bit % 64) & 1 == 1 => {
                *word &= !(1 << (bit % 64));
                true
            }
            _ => false,
        }
    }

    /// The sender began anew: what it had sent before is settled.
    fn restart(&mut self, sequence: u64, time_ns: u64) {
        if self.runs_before.len() < RUNS_MAX {
            self.runs_before.push(self.run());
        }
        self.counts = self.counts();
        self.lost_before = self.counts.lost;
        self.counts.restarts += 1;
        self.base = match self.start {
            Start::At(number) => number.min(sequence),
            Start::FirstSeen => sequence,
        };
        self.next = self.base;
        self.delivered_this_run = 1;
        self.missing = Vec::new();
        self.advance(sequence);
        (self.first_number, self.first_time_ns, self.newest_time_ns) = (sequence, time_ns, time_ns);
    }

    fn run(&self) -> SenderRun {
        let SequenceTracker { base, next, first_number, first_time_ns, newest_time_ns, .. } = *self;
        SenderRun { base, next, delivered: self.delivered_this_run, first_number, first_time_ns, newest_time_ns }
    }
}

/// The counts of one stream whose packets came to several trackers, each packet to one of them (queues of a port divide packets so). `end` is
/// the number that follows the last one sent, where that is known.
///
/// Order is judged by each tracker for itself: a flow is in one queue. A packet that comes to two trackers counts as delivered by both,
/// if there is one missing for it, else as duplicated. A sender that begins again is noticed by trackers that saw higher numbers before.
pub fn merged_counts(trackers: &[&SequenceTracker], end: Option<u64>) -> SequenceCounts {
    if let [tracker] = trackers {
        return end.map_or_else(|| tracker.counts(), |end| tracker.counts_until(end));
    }
    let mut sum = SequenceCounts::default();
    let mut runs: Vec<SenderRun> = Vec::new();
    for tracker in trackers.iter().filter(|tracker| tracker.seen_any) {
        sum.duplicated += tracker.counts.duplicated;
        sum.reordered += tracker.counts.reordered;
        sum.beyond_window += tracker.counts.beyond_window;
        runs.extend(tracker.runs_before.iter().chain([&tracker.run()]));
    }
    // A tracker that was told where numbers start and has seen none knows no time.
    let (mut runs, silent): (Vec<_>, Vec<_>) = runs.into_iter().partition(|run| run.delivered > 0);
    runs.sort_unstable_by_key(|run| run.first_time_ns);
    let mut whole: Vec<SenderRun> = Vec::new();
    for run in runs {
        match whole.last_mut() {
            // Times rise with numbers. Old numbers with new times are those of a sender that began again.
            Some(last) if run.first_time_ns <= last.newest_time_ns || run.first_number >= last.next => {
                last.base = last.base.min(run.base);
                last.next = last.next.max(run.next);
                last.delivered += run.delivered;
                last.newest_time_ns = last.newest_time_ns.max(run.newest_time_ns);
            }
            _ => whole.push(run),
        }
    }
    if whole.is_empty() {
        whole.extend(silent.first());
    }
    sum.restarts = whole.len().saturating_sub(1) as u64;
    let last = whole.len().saturating_sub(1);
    for (at, run) in whole.iter().enumerate() {
        let next = end.filter(|_| at == last).map_or(run.next, |end| end.max(run.next));
        let expected = next - run.base;
        let delivered = run.delivered.min(expected);
        sum.delivered += delivered;
        sum.duplicated += run.delivered - delivered;
        sum.lost += expected - delivered;
    }
    sum
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use proptest::prelude::*;

    fn counts(delivered: u64, lost: u64, duplicated: u64, reordered: u64) -> SequenceCounts {
        SequenceCounts { delivered, lost, duplicated, reordered, ..SequenceCounts::default() }
    }

    fn follow(start: Start, numbers: &[u64]) -> SequenceCounts {
        let mut tracker = SequenceTracker::new(start, 64);
        numbers.iter().for_each(|number| {
            tracker.record(*number, number * 10);
        });
        tracker.counts()
    }

    #[test]
    fn names_what_happened() {
        assert_eq!(follow(Start::At(0), &[0, 1, 2, 3]), counts(4, 0, 0, 0));
        assert_eq!(follow(Start::At(0), &[2, 3]), counts(2, 2, 0, 0));
        assert_eq!(follow(Start::FirstSeen, &[2, 3]), counts(2, 0, 0, 0));
        assert_eq!(follow(Start::At(0), &[0, 2, 1, 3]), counts(4, 0, 0, 1));
        assert_eq!(follow(Start::At(0), &[0, 1, 1, 5, 1]), counts(3, 3, 2, 0));
        let mut tracker = SequenceTracker::new(Start::At(0), 64);
        tracker.record(0, 0);
        assert_eq!(tracker.counts_until(10), counts(1, 9, 0, 0));
    }

    #[test]
    fn a_sender_that_starts_again_is_not_a_flood_of_duplicates() {
        let mut tracker = SequenceTracker::new(Start::FirstSeen, 64);
        for number in [0, 1, 3] {
            tracker.record(number, 100 + number);
        }
        for number in [0, 1, 2] {
            assert!(tracker.record(number, 500 + number));
        }
        assert_eq!(tracker.counts(), SequenceCounts { restarts: 1, ..counts(6, 1, 0, 0) });
    }

    #[test]
    fn what_is_too_old_to_tell_is_said_to_be() {
        let mut tracker = SequenceTracker::new(Start::At(0), 64);
        tracker.record(1_000_000_000_000, 7);
        assert!(!tracker.record(5, 7));
        assert_eq!(tracker.counts().beyond_window, 1);
    }

    proptest! {
        /// Against a set of all numbers ever seen, as long as nothing is older than the window.
        #[test]
        fn agrees_with_an_exact_account(jumps in proptest::collection::vec((0u64..6, 0u64..70), 1..400)) {
            let mut tracker = SequenceTracker::new(Start::At(0), 128);
            let (mut seen, mut next) = (HashSet::new(), 0u64);
            let mut expected = SequenceCounts::default();
            for (kind, distance) in jumps {
                let number = if kind < 4 { next + distance % 4 } else { next.saturating_sub(distance) };
                let first = seen.insert(number);
                expected.delivered += u64::from(first);
                expected.duplicated += u64::from(!first);
                expected.reordered += u64::from(first && number < next);
                next = next.max(number + 1);
                prop_assert_eq!(tracker.record(number, number), first);
            }
            expected.lost = next - expected.delivered;
            prop_assert_eq!(tracker.counts(), expected);
        }
    }

    /// The counts of packets (number, time) that are divided among trackers by `queue`.
    fn divided(start: Start, packets: &[(u64, u64, usize)], queues: usize) -> SequenceCounts {
        let mut trackers: Vec<_> = (0..queues).map(|_| SequenceTracker::new(start, 1 << 12)).collect();
        for (number, time_ns, queue) in packets {
            trackers[*queue].record(*number, *time_ns);
        }
        merged_counts(&trackers.iter().collect::<Vec<_>>(), None)
    }

    proptest! {
        /// Of packets that queues divide, loss and duplicates are those that one tracker counts. Each number has its queue, as each flow has. After
        /// the restart of a sender that had sent more, too.
        #[test]
        fn queues_together_count_as_one(
            steps in proptest::collection::vec((1u64..4, any::<bool>()), 1..300),
            restart in any::<bool>(),
            from_start in any::<bool>(),
            queues in 1usize..5,
        ) {
            let queue_of = |number: u64| (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60) as usize % queues;
            let mut packets: Vec<(u64, u64, usize)> = Vec::new();
            if restart {
                packets.extend((3..2_000).filter(|number| number % 7 != 0).map(|number| (number, number, queue_of(number))));
            }
            let (mut number, mut time_ns) = (0, 10_000);
            for (step, twice) in steps {
                (number, time_ns) = (number + step, time_ns + 10 * step);
                packets.extend(std::iter::repeat_n((number, time_ns, queue_of(number)), 1 + usize::from(twice)));
            }
            let start = if from_start { Start::At(0) } else { Start::FirstSeen };
            let in_one: Vec<_> = packets.iter().map(|(number, time_ns, _)| (*number, *time_ns, 0)).collect();
            let one = divided(start, &in_one, 1);
            prop_assert_eq!(one.restarts, u64::from(restart));
            prop_assert_eq!(divided(start, &packets, queues), one);
        }
    }

    #[test]
    fn a_stream_that_one_queue_never_saw_is_whole() {
        let counts = divided(Start::At(0), &[(0, 10, 0), (1, 20, 0), (3, 40, 0)], 4);
        assert_eq!((counts.delivered, counts.lost, counts.restarts), (3, 1, 0));
        assert_eq!(divided(Start::At(0), &[], 3), SequenceCounts::default());
        let trackers = [SequenceTracker::new(Start::At(0), 64), SequenceTracker::new(Start::At(0), 64)];
        assert_eq!(merged_counts(&trackers.each_ref(), Some(7)).lost, 7);
    }

    #[test]
    fn a_packet_that_comes_to_two_queues_is_not_more_than_was_sent() {
        let counts = divided(Start::At(0), &[(0, 10, 0), (0, 10, 1), (1, 20, 0), (2, 30, 1)], 2);
        assert_eq!((counts.delivered, counts.lost, counts.duplicated), (3, 0, 1));
    }
}
