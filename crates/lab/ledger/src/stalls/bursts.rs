//! Lays lost packets over stalls: which of them a ring lost because its core was away.
//!
//! A lost packet has a number, so a time at which it was sent ([`Marks`]). It is a stall's if it was sent during the stall, or soon after
//! it: the ring is full then, and as long as it drains it loses what comes in bursts. That time is over once a whole ring of packets
//! passed without a loss, and at the latest [`DRAIN_MAX_NS`] after the stall. A stall does not cost much more than was sent meanwhile,
//! since the device could have done no more in that time. In a trial that loses packets all the time nothing says
//! which loss after a stall is its own, so only what was sent during it counts.

use linerate_report::{LOSS_BINS, LossTimes};

use crate::turns::{Marks, Span};

/// Packets that a veth's ring holds (VETH_RING_SIZE of drivers/net/veth.c).
const RING_PACKETS: u64 = 256;
/// Packets of a batch, which are sent at one time.
const SENT_AT_ONCE: u64 = 64;
/// Longest time after a stall that its loss may go on.
const DRAIN_MAX_NS: u64 = 50_000_000;
/// A trial that loses packets outside stalls in more than this share of its bins loses them all the time.
const ALWAYS_SHARE: f64 = 0.5;

/// Goes over the runs of numbers that did not arrive, in rising order: the first one of each, and how many.
pub(crate) type Runs<'a> = &'a dyn Fn(&mut dyn FnMut(u64, u64));

/// What was lost when.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Laid {
    /// Packets lost by each stall, in their order.
    pub(crate) by_stall: Vec<u64>,
    /// All packets lost.
    pub(crate) times: LossTimes,
}

/// Lays the `runs` over `stalls`, which are in the order of time, in a load of `duration_ns` from `start_ns` on.
pub(crate) fn lay(runs: Runs<'_>, marks: &Marks, stalls: &[Span], (start_ns, duration_ns): (u64, u64)) -> Laid {
    let bin_ns = duration_ns.div_ceil(LOSS_BINS as u64).max(1);
    let mut bins = Bins::new(marks, start_ns, bin_ns);
    let mut outside = Bins::new(marks, start_ns, bin_ns);
    let mut during = Windows::new(marks, stalls, false);
    runs(&mut |first, count| {
        bins.add(first, count);
        during.split(first, count, |first, count| outside.add(first, count));
    });
    let used = (duration_ns / bin_ns).max(1);
    let always = outside.lost.iter().filter(|lost| **lost > 0).count() as f64 > ALWAYS_SHARE * used as f64;
    if !always {
        during = Windows::new(marks, stalls, true);
        runs(&mut |first, count| during.split(first, count, |_, _| {}));
    }
    let by_stall = during.list.iter().map(|window| window.lost).collect();
    Laid { by_stall, times: LossTimes { bin_ns, lost: bins.lost } }
}

/// Packets by time. Numbers must come in rising order.
struct Bins {
    /// The number at which each bin ends.
    ends: Vec<u64>,
    lost: Vec<u64>,
    at: usize,
}

impl Bins {
    fn new(marks: &Marks, start_ns: u64, bin_ns: u64) -> Bins {
        let end = |bin: usize| match bin + 1 {
            // What was sent after the end is of the last bin.
            LOSS_BINS => u64::MAX,
            next => marks.packets_at(start_ns.saturating_add(next as u64 * bin_ns)),
        };
        Bins { ends: (0..LOSS_BINS).map(end).collect(), lost: vec![0; LOSS_BINS], at: 0 }
    }

    fn add(&mut self, mut first: u64, mut count: u64) {
        while count > 0 {
            while self.at + 1 < LOSS_BINS && self.ends[self.at] <= first {
                self.at += 1;
            }
            let here = count.min(self.ends[self.at].saturating_sub(first)).max(1);
            self.lost[self.at] += here;
            (first, count) = (first + here, count - here);
        }
    }
}

/// Numbers of packets that belong to stalls.
struct Windows {
    list: Vec<Window>,
    at: usize,
    drains: bool,
}

struct Window {
    /// Sent during the stall: from this number to before that one.
    first: u64,
    end: u64,
    /// The last one that can be lost because of it.
    drained: u64,
    /// One more than the last one that was.
    lost_end: u64,
    /// The most that it can have cost.
    most: u64,
    lost: u64,
}

impl Windows {
    fn new(marks: &Marks, stalls: &[Span], drains: bool) -> Windows {
        let mut taken = 0;
        let window = |span: &Span| {
            // Stalls of two causes may overlap: a packet is the first one's.
            let first = marks.packets_at(span.start_ns).max(taken);
            let end = marks.packets_at(span.end_ns).max(first);
            taken = end;
            let drained = marks.packets_at(span.end_ns.saturating_add(DRAIN_MAX_NS)).max(end);
            let sent = end - first;
            Window { first, end, drained, lost_end: end, most: sent + sent / 2 + SENT_AT_ONCE, lost: 0 }
        };
        Windows { list: stalls.iter().map(window).collect(), at: 0, drains }
    }

    /// Gives each packet of a run to its stall, or to `outside`.
    fn split(&mut self, mut first: u64, mut count: u64, mut outside: impl FnMut(u64, u64)) {
        while count > 0 {
            while self.list.get(self.at + 1).is_some_and(|next| next.first <= first) {
                self.at += 1;
            }
            let next = self.list.get(self.at + 1).map_or(u64::MAX, |next| next.first);
            let drains = self.drains;
            let here = match self.list.get_mut(self.at) {
                Some(window) if window.first > first => {
                    let here = count.min(window.first - first);
                    outside(first, here);
                    here
                }
                Some(window) => {
                    let goes_on = drains
                        && first < window.drained
                        && first < window.lost_end + RING_PACKETS
                        && window.lost < window.most;
                    let until = match first < window.end {
                        true => window.end,
                        false if goes_on => next.min(window.drained).min(first + (window.most - window.lost)),
                        false => next,
                    };
                    let here = count.min(until - first);
                    if first < window.end || goes_on {
                        window.lost += here;
                        window.lost_end = window.lost_end.max(first + here);
                    } else {
                        outside(first, here);
                    }
                    here
                }
                None => {
                    outside(first, count);
                    count
                }
            };
            (first, count) = (first + here, count - here);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// 1,000 packets a millisecond from 1 s on, for 100 ms.
    const LOAD: (u64, u64) = (1_000 * MS, 100 * MS);

    fn marks() -> Marks {
        Marks::at(&(0..=100).map(|ms| ((1_000 + ms) * MS, ms * 1_000)).collect::<Vec<_>>())
    }

    fn stall(start_ms: f64, end_ms: f64) -> Span {
        let at = |ms: f64| 1_000 * MS + (ms * MS as f64) as u64;
        Span { start_ns: at(start_ms), end_ns: at(end_ms) }
    }

    fn laid(lost: &[(u64, u64)], stalls: &[Span]) -> Laid {
        lay(&|each| lost.iter().for_each(|(first, count)| each(*first, *count)), &marks(), stalls, LOAD)
    }

    #[test]
    fn what_was_sent_during_a_stall_is_its_own_and_nothing_else() {
        // Away from 20 to 23 ms: the ring takes 256 packets, then all are lost.
        let laid = laid(&[(5_000, 7), (20_256, 2_744), (60_000, 9)], &[stall(20.0, 23.0)]);
        assert_eq!(laid.by_stall, [2_744]);
        assert_eq!(laid.times.lost.iter().sum::<u64>(), 2_760);
    }

    #[test]
    fn loss_goes_on_while_the_ring_drains_and_not_beyond() {
        // After the stall bursts find the ring nearly full: less and less is lost, with less than a ring's worth in between.
        let drains = [(20_256, 2_800), (23_100, 30), (23_350, 10), (23_600, 2)];
        let later = [(23_860, 5)];
        let laid = laid(&[&drains[..], &later[..]].concat(), &[stall(20.0, 23.0)]);
        assert_eq!(laid.by_stall, [2_842]);
    }

    #[test]
    fn a_drain_ends_at_last() {
        let slow: Vec<(u64, u64)> = (0..390).map(|step| (2_100 + step * 200, 1)).collect();
        // It never stops, but is in fewer bins than half of them.
        let stalls = [stall(1.0, 2.0)];
        let marks = marks();
        let runs = |each: &mut dyn FnMut(u64, u64)| slow.iter().for_each(|(first, count)| each(*first, *count));
        let laid = lay(&runs, &marks, &stalls, (1_000 * MS, 100_000 * MS));
        assert!((240..=251).contains(&laid.by_stall[0]), "50 ms of one in 200: {:?}", laid.by_stall);
    }

    #[test]
    fn a_short_stall_does_not_take_all_loss_that_follows() {
        // 60 us, then a little loss for 40 ms, because the load is at the limit.
        let lost: Vec<(u64, u64)> = (0..400).map(|step| (20_060 + step * 100, 3)).collect();
        assert_eq!(laid(&lost, &[stall(20.0, 20.06)]).by_stall, [60 + 30 + 64]);
    }

    #[test]
    fn under_overload_only_what_was_sent_during_the_stall_counts() {
        // One packet of ten is lost all the time, all of them from 20 to 23 ms.
        let mut lost: Vec<(u64, u64)> = (0..2_000).map(|step| (step * 10, 1)).collect();
        lost.push((20_000, 3_000));
        lost.extend((0..7_700).map(|step| (23_000 + step * 10, 1)));
        assert_eq!(laid(&lost, &[stall(20.0, 23.0)]).by_stall, [3_000]);
    }

    #[test]
    fn each_packet_belongs_to_one_stall() {
        // One run over two stalls and what lies between and around them.
        let stalls = [stall(10.0, 12.0), stall(11.0, 14.0), stall(20.0, 21.0)];
        let laid = laid(&[(9_000, 16_000)], &stalls);
        // The second and the third go on while the ring drains, for half of what was sent during each, and a batch.
        assert_eq!(laid.by_stall, [2_000, 3_064, 1_564]);
        assert_eq!(laid.times.lost.iter().sum::<u64>(), 16_000);
        assert!(super::tests::laid(&[(9_000, 16_000)], &[]).by_stall.is_empty());
    }

    #[test]
    fn bins_tell_when() {
        let laid = laid(&[(0, 10), (50_000, 400), (99_990, 10)], &[]);
        assert_eq!(laid.times.bin_ns, 390_625);
        assert_eq!((laid.times.lost[0], laid.times.lost[255]), (10, 10));
        assert_eq!(laid.times.lost[128] + laid.times.lost[129], 400);
        assert_eq!(laid.times.lost.len(), LOSS_BINS);
    }
}
