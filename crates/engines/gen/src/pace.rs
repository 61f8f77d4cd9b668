//! When packets are due: the schedule of a stream port, as arithmetic on an injected time.
//!
//! The schedule never slips: packet `k` of a constant rate is due at `start + k * gap` whatever happened before, so the sent
//! rate is the intended one over any stretch that the generator keeps up with, a late packet carries its scheduled time, and
//! what could not be sent by the end shows as unsent.
//!
//! A generator whose core was taken away for some milliseconds has packets to send that are late. [`CatchUp::Burst`] sends them as
//! fast as the port takes them: the mean rate holds. [`CatchUp::Smooth`] does not let lateness excuse a flood, whose loss would be
//! booked on the device: late packets follow each other [`CATCH_UP`] times as fast as the schedule, after at most one burst of
//! [`BURST_MAX`] (a generic cell rate algorithm, ITU-T I.371, on the departures).

use std::collections::VecDeque;

/// How packets follow each other at a given mean rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrival {
    /// The same gap between all packets.
    Constant,
    /// Exponential gaps from a seed (a Poisson process).
    Poisson {
        /// Start of the pseudo-random sequence.
        seed: u64,
    },
    /// This many packets back to back, then a gap that keeps the mean rate.
    Burst {
        /// Packets of a burst, at least 1.
        packets: u32,
    },
}

/// How late packets catch up with the schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CatchUp {
    /// At once: the mean rate holds as long as the port can take it.
    #[default]
    Burst,
    /// Little by little: the device never sees much more than the rate; a generator that is late too often leaves packets unsent.
    Smooth,
}

/// How much faster than the schedule late packets may go out.
pub const CATCH_UP: f64 = 1.1;

/// Late packets that may go out at once.
pub const BURST_MAX: u32 = 64;

/// Rate, arrival and end of a schedule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Schedule {
    /// Mean rate in packets per second; `None` = as fast as the port takes them.
    pub rate_pps: Option<f64>,
    /// How packets follow each other.
    pub arrival: Arrival,
    /// Number of packets after which it ends; `None` = no such end.
    pub packets: Option<u64>,
    /// Time from the start after which nothing more is due; `None` = no such end.
    pub duration_ns: Option<u64>,
    /// How late packets catch up with the schedule.
    pub catch_up: CatchUp,
}

impl Schedule {
    /// Packets that are due within `elapsed_ns` of the start, the first one and the schedule's ends included. `None` without a
    /// rate, and for random arrivals, where one would have to count.
    pub fn due_within(&self, elapsed_ns: u64) -> Option<u64> {
        self.rate_pps?;
        let together = match self.arrival {
            Arrival::Constant => 1,
            Arrival::Burst { packets } => Fixed::from(packets.max(1)),
            Arrival::Poisson { .. } => return None,
        };
        if self.duration_ns == Some(0) {
            return Some(0);
        }
        let last_ns = self.duration_ns.map_or(elapsed_ns, |duration| elapsed_ns.min(duration.saturating_sub(1)));
        let pause = (self.gap() as Fixed).max(1).saturating_mul(together);
        let due = ((Fixed::from(last_ns) + 1) << 32).div_ceil(pause).saturating_mul(together);
        Some(u64::try_from(due).unwrap_or(u64::MAX).min(self.packets.unwrap_or(u64::MAX)))
    }

    /// Time between packets in units of 2^-32 ns; 0 without a rate.
    fn gap(&self) -> f64 {
        // Rounded up, so that a second at 3 packets a second holds 3 packets and not a fourth just before its end.
        self.rate_pps.map_or(0.0, |rate| (1e9 / rate.max(1e-9) * ONE * (1.0 + f64::EPSILON)).ceil())
    }
}

/// Nanoseconds as fixed point with 32 bits of fraction: exact to 1 packet in 2^32 at any rate.
type Fixed = u128;
const ONE: f64 = 4_294_967_296.0;

/// Hands out the scheduled times, in order.
pub struct Pacer {
    schedule: Schedule,
    start_ns: u64,
    end_ns: u64,
    gap: Fixed,
    /// Scheduled time of the next packet.
    next: Fixed,
    /// Earliest departure of the next packet, by [`CATCH_UP`].
    release: Fixed,
    release_gap: Fixed,
    /// Credit for departures that did not happen.
    credit: Fixed,
    /// Packets handed out.
    taken: u64,
    left_in_burst: u32,
    random: u64,
    /// Times that were handed out and came back; handed out again first.
    returned: VecDeque<u64>,
}

impl Pacer {
    /// A schedule whose first packet is due at `start_ns`.
    pub fn new(schedule: Schedule, start_ns: u64) -> Pacer {
        let gap = schedule.gap();
        let burst = match schedule.arrival {
            Arrival::Burst { packets } => packets.max(1),
            _ => 1,
        };
        let seed = match schedule.arrival {
            Arrival::Poisson { seed } => seed,
            _ => 0,
        };
        let release_gap = gap / CATCH_UP;
        let together = match schedule.arrival {
            Arrival::Constant => BURST_MAX,
            // Such arrivals come in crowds by themselves; they are crowds of the schedule, not of a late generator.
            Arrival::Poisson { .. } => BURST_MAX * 4,
            Arrival::Burst { .. } => burst.max(BURST_MAX).saturating_mul(2),
        };
        Pacer {
            release: match schedule.catch_up {
                CatchUp::Burst => 0,
                CatchUp::Smooth => Fixed::from(start_ns) << 32,
            },
            release_gap: match schedule.catch_up {
                CatchUp::Burst => 0,
                CatchUp::Smooth => release_gap as Fixed,
            },
            credit: match schedule.catch_up {
                CatchUp::Burst => Fixed::MAX,
                CatchUp::Smooth => release_gap as Fixed * Fixed::from(together),
            },
            schedule,
            start_ns,
            end_ns: schedule.duration_ns.map_or(u64::MAX, |duration| start_ns.saturating_add(duration)),
            gap: gap as Fixed,
            next: Fixed::from(start_ns) << 32,
            taken: 0,
            left_in_burst: burst,
            random: seed ^ 0x9e37_79b9_7f4a_7c15,
            returned: VecDeque::new(),
        }
    }

    /// Appends the scheduled times of packets that are due at `now_ns`, at most `count`, and returns how many. Unpaced, every
    /// packet is due at once, with `now_ns` as its time.
    #[inline]
    pub fn take(&mut self, now_ns: u64, count: usize, times_ns: &mut Vec<u64>) -> usize {
        let limit = self.schedule.packets.map_or(u64::MAX, |packets| packets - self.taken.min(packets));
        let count = (count as u64).min(limit) as usize;
        let mut taken = 0;
        if self.schedule.rate_pps.is_none() {
            if now_ns < self.end_ns && now_ns >= self.start_ns {
                times_ns.resize(times_ns.len() + count, now_ns);
                taken = count;
            }
        } else {
            while taken < count
                && let Some(due_ns) = self.returned.pop_front()
            {
                times_ns.push(due_ns);
                taken += 1;
            }
            let now = Fixed::from(now_ns) << 32 | 0xffff_ffff;
            self.release = self.release.max(now.saturating_sub(self.credit));
            while taken < count {
                let due_ns = (self.next >> 32) as u64;
                if self.next > now || self.release > now || due_ns >= self.end_ns {
                    break;
                }
                times_ns.push(due_ns);
                taken += 1;
                self.release += self.release_gap;
                self.step();
            }
        }
        self.taken += taken as u64;
        taken
    }

    /// When the next packet is due; `None` when the schedule is at its end by `now_ns`.
    #[inline]
    pub fn next_due_ns(&self, now_ns: u64) -> Option<u64> {
        if self.schedule.packets.is_some_and(|packets| self.taken >= packets) {
            return None;
        }
        if self.schedule.rate_pps.is_none() {
            return (now_ns < self.end_ns).then_some(now_ns.max(self.start_ns));
        }
        let due_ns = self.returned.front().copied().unwrap_or((self.next >> 32) as u64);
        let release_ns = if self.returned.is_empty() { (self.release >> 32) as u64 } else { 0 };
        (due_ns < self.end_ns).then_some(due_ns.max(release_ns))
    }

    /// Takes back the last packets handed out, whose times these were: they are due again.
    #[cold]
    pub fn give_back(&mut self, times_ns: &[u64]) {
        self.taken -= (times_ns.len() as u64).min(self.taken);
        if self.schedule.rate_pps.is_some() {
            times_ns.iter().rev().for_each(|time_ns| self.returned.push_front(*time_ns));
        }
    }

    /// True when there is a rate; false when packets go as fast as the port takes them.
    #[inline]
    pub fn is_paced(&self) -> bool {
        self.schedule.rate_pps.is_some()
    }

    /// Packets that the schedule asked for by `now_ns` (or by its end), whether they were taken or not. Moves the schedule
    /// there: nothing is due any more. Unpaced, what was taken is what was asked for.
    pub fn close(&mut self, now_ns: u64) -> u64 {
        let last_ns = now_ns.min(self.end_ns.saturating_sub(1));
        let due = last_ns.checked_sub(self.start_ns).and_then(|elapsed_ns| self.schedule.due_within(elapsed_ns));
        if let Some(due) = due {
            self.taken = self.taken.max(due);
            self.returned.clear();
            self.next = self.next.max((Fixed::from(last_ns) + 1) << 32);
        } else if self.schedule.rate_pps.is_some() {
            self.credit = Fixed::MAX;
            self.release = 0;
            let mut sink = Vec::new();
            while self.take(now_ns, 4096, &mut sink) > 0 {
                sink.clear();
            }
        }
        self.end_ns = self.end_ns.min(now_ns);
        self.taken
    }

    /// Closes the schedule at `now_ns`, and begins the same one at another rate for the rest of its time and packets. Returns the packets
    /// that were asked for so far.
    pub fn change_rate(&mut self, rate_pps: f64, now_ns: u64) -> u64 {
        let (end_ns, packets) = (self.end_ns, self.schedule.packets);
        let asked = self.close(now_ns);
        let rest = Schedule {
            rate_pps: Some(rate_pps),
            packets: packets.map(|packets| packets.saturating_sub(asked)),
            duration_ns: (end_ns < u64::MAX).then(|| end_ns.saturating_sub(now_ns + 1)),
            ..self.schedule
        };
        // What was due at this nanosecond has been asked for.
        *self = Pacer::new(rest, now_ns + 1);
        asked
    }

    #[inline]
    fn step(&mut self) {
        match self.schedule.arrival {
            Arrival::Constant => self.next += self.gap,
            Arrival::Poisson { .. } => {
                let gap = -self.uniform().ln() * self.gap as f64;
                self.next += gap as Fixed;
            }
            Arrival::Burst { packets } => {
                self.left_in_burst -= 1;
                if self.left_in_burst == 0 {
                    self.left_in_burst = packets.max(1);
                    self.next += self.gap * Fixed::from(packets.max(1));
                }
            }
        }
    }

    /// A number in (0, 1].
    fn uniform(&mut self) -> f64 {
        let bits = crate::random::next(&mut self.random) >> 11;
        (bits + 1) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn schedule(rate_pps: f64, arrival: Arrival) -> Schedule {
        Schedule {
            rate_pps: Some(rate_pps),
            arrival,
            packets: None,
            duration_ns: Some(1_000_000_000),
            catch_up: CatchUp::Smooth,
        }
    }

    fn all_times(schedule: Schedule) -> Vec<u64> {
        let mut pacer = Pacer::new(schedule, 5_000);
        let mut times = Vec::new();
        for now_ns in (0..2_000_000).map(|step| step * 1_000) {
            while pacer.take(now_ns, 1000, &mut times) > 0 {}
        }
        times
    }

    #[test]
    fn a_second_at_a_rate_is_that_many_packets() {
        for rate in [1.0, 3.0, 10_000.0, 999_999.0, 14_880_952.0] {
            assert_eq!(all_times(schedule(rate, Arrival::Constant)).len(), rate as usize);
        }
    }

    #[test]
    fn a_rate_that_changes_keeps_the_ends_of_the_schedule() {
        for packets in [None, Some(700)] {
            let schedule = Schedule { packets, ..schedule(1_000.0, Arrival::Constant) };
            let mut pacer = Pacer::new(schedule, 0);
            let mut times = Vec::new();
            let mut taken = 0;
            let mut asked = 0;
            for now_ns in (0..=1_200).map(|step| step * 1_000_000) {
                while pacer.take(now_ns, 64, &mut times) > 0 {}
                taken += times.len() as u64;
                times.clear();
                if now_ns == 500_000_000 {
                    asked = pacer.change_rate(200.0, now_ns);
                }
            }
            // Half a second at 1,000 (the packet at 500 ms included), then half a second at 200 packets a second.
            let all = packets.unwrap_or(501 + 100).min(501 + 100);
            assert_eq!((asked, taken, asked + pacer.close(1_200_000_000)), (501, all, all));
        }
    }

    #[test]
    fn what_is_due_is_known_without_counting() {
        for arrival in [Arrival::Constant, Arrival::Burst { packets: 7 }] {
            for rate in [1.0, 3.0, 7.7, 9_999.0, 100_000.0, 3_000_001.0] {
                let schedule = Schedule { catch_up: CatchUp::Burst, ..schedule(rate, arrival) };
                for elapsed_ns in [0, 1, 99_999, 100_000, 333_333_333, 999_999_999, 5_000_000_000] {
                    let (mut counting, mut times) = (Pacer::new(schedule, 5_000), Vec::new());
                    while counting.take(5_000 + elapsed_ns, 1000, &mut times) > 0 {}
                    let due = schedule.due_within(elapsed_ns).unwrap();
                    assert_eq!(due, times.len() as u64, "{rate} {elapsed_ns}");
                    let mut pacer = Pacer::new(schedule, 5_000);
                    assert_eq!(pacer.close(5_000 + elapsed_ns), due, "{rate} {elapsed_ns}");
                    assert_eq!(pacer.close(10_000_000_000), due, "closed is closed");
                }
            }
        }
        let unpaced = Schedule { rate_pps: None, ..schedule(1.0, Arrival::Constant) };
        assert_eq!(unpaced.due_within(1), None);
        let hopeless = Schedule { duration_ns: None, ..schedule(1e12, Arrival::Constant) };
        let asked = Pacer::new(hopeless, 0).close(3_600_000_000_000) as f64;
        assert!((asked / 3.6e15 - 1.0).abs() < 1e-6, "{asked}");
    }

    #[test]
    fn gaps_are_what_the_arrival_says() {
        let times = all_times(schedule(1_000_000.0, Arrival::Burst { packets: 4 }));
        assert_eq!(times[..9], [5_000, 5_000, 5_000, 5_000, 9_000, 9_000, 9_000, 9_000, 13_000]);
        let times = all_times(schedule(100_000.0, Arrival::Poisson { seed: 1 }));
        assert!((99_000..101_000).contains(&times.len()), "{}", times.len());
        // Exponential: a share of e^-1 of the gaps is longer than the mean.
        let long = times.windows(2).filter(|pair| pair[1] - pair[0] > 10_000).count() as f64 / times.len() as f64;
        assert!((long - (-1.0f64).exp()).abs() < 0.01, "{long}");
        assert_ne!(times, all_times(schedule(100_000.0, Arrival::Poisson { seed: 2 })));
    }

    #[test]
    fn what_was_not_taken_is_asked_for_all_the_same() {
        let mut pacer = Pacer::new(schedule(1_000.0, Arrival::Constant), 0);
        let mut times = Vec::new();
        assert_eq!(pacer.take(500_000_000, 20, &mut times), 20);
        assert!(pacer.next_due_ns(500_000_000) <= Some(500_000_000));
        assert_eq!(pacer.close(2_000_000_000), 1_000);
        assert_eq!(pacer.next_due_ns(3_000_000_000), None);
    }

    #[test]
    fn a_late_generator_catches_up_without_a_flood() {
        let mut pacer = Pacer::new(schedule(100_000.0, Arrival::Constant), 0);
        let mut times = Vec::new();
        // 50 ms late: 5,000 packets are due.
        let (late_ns, mut sent) = (50_000_000, Vec::new());
        for now_ns in (late_ns..late_ns + 600_000_000).step_by(1_000) {
            let count = pacer.take(now_ns, 4096, &mut times);
            sent.extend(std::iter::repeat_n(now_ns, count));
        }
        assert!(sent.iter().filter(|time| **time == late_ns).count() <= BURST_MAX as usize + 1);
        let in_first_100_ms = sent.iter().filter(|time| **time < late_ns + 100_000_000).count();
        assert!((10_900..11_200).contains(&in_first_100_ms), "{in_first_100_ms} where 10,000 were due");
        // It has caught up before long: everything due by the end of the loop has gone out.
        assert_eq!(sent.len(), 65_000);
        assert!(times.windows(2).all(|pair| pair[1] - pair[0] == 10_000), "the schedule itself did not slip");
    }

    #[test]
    fn at_once_the_mean_rate_holds_whatever_happens() {
        let at_once = Schedule { catch_up: CatchUp::Burst, ..schedule(100_000.0, Arrival::Constant) };
        let mut pacer = Pacer::new(at_once, 0);
        let mut times = Vec::new();
        assert_eq!(pacer.take(50_000_000, 10_000, &mut times), 5_001);
        assert_eq!(pacer.next_due_ns(50_000_000), Some(50_010_000));
    }

    #[test]
    fn unpaced_everything_is_due_until_the_end() {
        let mut pacer = Pacer::new(
            Schedule {
                rate_pps: None,
                arrival: Arrival::Constant,
                packets: Some(70),
                duration_ns: Some(100),
                catch_up: CatchUp::Burst,
            },
            1_000,
        );
        let mut times = Vec::new();
        assert_eq!(pacer.take(999, 64, &mut times), 0);
        assert_eq!(pacer.take(1_000, 64, &mut times), 64);
        assert_eq!(pacer.take(1_050, 64, &mut times), 6);
        assert_eq!(pacer.next_due_ns(1_050), None);
    }

    proptest! {
        #[test]
        fn times_do_not_depend_on_how_often_one_asks(rate in 1.0f64..1e6, steps in proptest::collection::vec((1u64..10_000, 1usize..70), 1..20)) {
            let mut asked = Pacer::new(schedule(rate, Arrival::Constant), 0);
            let (mut now, mut times) = (0, Vec::new());
            for (step, count) in steps {
                now += step;
                asked.take(now, count, &mut times);
            }
            let mut whole = Pacer::new(schedule(rate, Arrival::Constant), 0);
            let mut expected = Vec::new();
            for now in 0..now + 1 {
                if expected.len() < times.len() && whole.next_due_ns(now) <= Some(now) {
                    whole.take(now, 1, &mut expected);
                }
            }
            prop_assert_eq!(times, expected);
        }
    }
}
