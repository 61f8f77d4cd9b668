//! When requests or connections are due: a rate that may change and ramp, with constant or Poisson gaps.
//!
//! The rate is a line of pieces over time. The `k`-th arrival is due when the area under the line reaches `k` (constant gaps) or the sum of `k`
//! exponential numbers (a Poisson process of that rate). The schedule never slips: an arrival that is begun late keeps its time.

use linerate_load::{Gaps, Rate};

/// Hands out the times of arrivals, in order.
pub struct Timetable {
    pieces: Vec<Laid>,
    gaps: Gaps,
    random: u64,
    /// Sum of gaps up to the next arrival: the area at which it is due.
    area: f64,
    /// When it is due; `None` after the last one.
    next_ns: Option<u64>,
    /// Arrivals handed out.
    taken: u64,
    end_ns: u64,
}

/// A piece where it lies.
#[derive(Clone, Copy)]
struct Laid {
    start_ns: u64,
    length_s: f64,
    from: f64,
    to: f64,
    /// Area under the pieces before.
    before: f64,
}

impl Timetable {
    /// The arrivals of `rate` from `start_ns` on, before `end_ns`.
    pub fn new(rate: &Rate, gaps: Gaps, seed: u64, start_ns: u64, end_ns: u64) -> Timetable {
        let (mut pieces, mut at_ns, mut before) = (Vec::new(), start_ns, 0.0);
        for piece in &rate.0 {
            let piece_end_ns = piece.duration_ns.map_or(end_ns, |duration_ns| at_ns.saturating_add(duration_ns));
            let length_s = piece_end_ns.saturating_sub(at_ns) as f64 / 1e9;
            pieces.push(Laid { start_ns: at_ns, length_s, from: piece.from, to: piece.to, before });
            before += (piece.from + piece.to) / 2.0 * length_s;
            at_ns = piece_end_ns;
        }
        let mut timetable =
            Timetable { pieces, gaps, random: seed, area: 0.0, next_ns: None, taken: 0, end_ns: end_ns.min(at_ns) };
        if gaps == Gaps::Poisson {
            timetable.area = timetable.exponential();
        }
        timetable.next_ns = timetable.due_ns();
        timetable
    }

    /// Time of the next arrival; `None` if there is none any more.
    #[inline]
    pub fn next_ns(&self) -> Option<u64> {
        self.next_ns
    }

    /// Takes the next arrival if it is due at `now_ns`, and returns its time.
    #[inline]
    pub fn take(&mut self, now_ns: u64) -> Option<u64> {
        let due_ns = self.next_ns.filter(|due_ns| *due_ns <= now_ns)?;
        self.taken += 1;
        self.area += match self.gaps {
            Gaps::Constant => 1.0,
            Gaps::Poisson => self.exponential(),
        };
        self.next_ns = self.due_ns();
        Some(due_ns)
    }

    /// Arrivals handed out so far.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Ends the schedule at `now_ns`, and returns how many arrivals were due by then and were not taken.
    pub fn close(&mut self, now_ns: u64) -> u64 {
        let before = self.taken;
        self.end_ns = self.end_ns.min(now_ns);
        while self.take(self.end_ns.saturating_sub(1)).is_some() {}
        self.next_ns = None;
        self.taken - before
    }

    fn exponential(&mut self) -> f64 {
        -super::random::unit(&mut self.random).ln()
    }

    /// When the area under the rate reaches `self.area`.
    fn due_ns(&self) -> Option<u64> {
        let piece = self.pieces.iter().rev().find(|piece| piece.before <= self.area)?;
        let wanted = self.area - piece.before;
        let slope = (piece.to - piece.from) / piece.length_s.max(1e-9);
        // Half the slope times t squared, plus from times t, is the area; this form of the root holds for every slope, 0 included.
        let root = (piece.from * piece.from + 2.0 * slope * wanted).max(0.0).sqrt();
        let rises = piece.from > 0.0 || piece.to > 0.0;
        let seconds = if wanted == 0.0 && rises { 0.0 } else { 2.0 * wanted / (piece.from + root) };
        if !seconds.is_finite() {
            return None;
        }
        let due_ns = piece.start_ns.saturating_add((seconds * 1e9) as u64);
        (due_ns < self.end_ns).then_some(due_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn times(rate: &str, gaps: Gaps, end_s: u64) -> Vec<u64> {
        let mut timetable = Timetable::new(&Rate::parse(rate).unwrap(), gaps, 1, 5_000, 5_000 + end_s * SECOND);
        std::iter::from_fn(|| timetable.take(u64::MAX - 1)).map(|time| time - 5_000).collect()
    }

    #[test]
    fn a_constant_rate_has_equal_gaps() {
        let times = times("1k", Gaps::Constant, 2);
        assert_eq!(times.len(), 2_000);
        assert!(times.iter().enumerate().all(|(at, time)| time.abs_diff(at as u64 * 1_000_000) <= 1));
    }

    #[test]
    fn a_ramp_has_the_area_under_its_line() {
        let ramp = times("0..1k@10s", Gaps::Constant, 20);
        assert_eq!(ramp.len().abs_diff(5_000), 0, "{}", ramp.len());
        // A quarter of them in the first half.
        assert!(ramp.iter().filter(|time| **time < 5 * SECOND).count().abs_diff(1_250) <= 1);
        let steps = times("100@1s,100..300@2s,300", Gaps::Constant, 4);
        let within =
            |from: u64, to: u64| steps.iter().filter(|time| (from * SECOND..to * SECOND).contains(*time)).count();
        assert_eq!([within(0, 1), within(1, 3), within(3, 4)], [100, 400, 300]);
        let falling = times("1k..0@10s", Gaps::Constant, 10);
        assert!(falling.len().abs_diff(5_000) <= 1 && falling.windows(2).all(|pair| pair[0] <= pair[1]));
    }

    #[test]
    fn poisson_gaps_are_exponential() {
        let times = times("10k", Gaps::Poisson, 10);
        assert!((98_500..101_500).contains(&times.len()), "{}", times.len());
        let long = times.windows(2).filter(|pair| pair[1] - pair[0] > 100_000).count() as f64 / times.len() as f64;
        assert!((long - (-1.0f64).exp()).abs() < 0.01, "{long}");
    }

    #[test]
    fn what_was_not_taken_was_due_all_the_same() {
        let rate = Rate::parse("1k").unwrap();
        let mut timetable = Timetable::new(&rate, Gaps::Constant, 1, 0, 10 * SECOND);
        assert_eq!(timetable.take(0), Some(0));
        assert_eq!(timetable.take(500_000), None);
        assert_eq!(timetable.next_ns(), Some(1_000_000));
        assert_eq!(timetable.close(2 * SECOND), 1_999);
        assert_eq!((timetable.taken(), timetable.next_ns(), timetable.close(3 * SECOND)), (2_000, None, 0));
    }

    #[test]
    fn a_rate_of_nothing_is_never_due() {
        assert!(times("0", Gaps::Constant, 10).is_empty());
    }
}
