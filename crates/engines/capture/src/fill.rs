//! How full a ring or a queue was, and whether it would have lasted.
//!
//! A short run in a large buffer loses nothing, whatever the rate: the buffer holds what the reader cannot. So the level is
//! noted all along. A reader that keeps up lets the level fall back, again and again, to where it was; one that does not leaves
//! a rising floor under it, and the slope of that floor says when the buffer will be full.

use serde::Serialize;

/// Slices of time that are remembered. When there are more, two become one, so that memory does not grow with the run.
const SLICES_MAX: usize = 64;
/// Slices that it takes to see a trend.
const SLICES_MIN: usize = 8;
/// Length of a slice at first.
const SLICE_NS: u64 = 10_000_000;

/// Notes levels of one buffer.
#[derive(Clone, Debug)]
pub struct FillGauge {
    capacity: u64,
    highest: u64,
    overflows: u64,
    start_ns: Option<u64>,
    slice_ns: u64,
    /// Lowest level of each slice; `None` where none was noted.
    floors: Vec<Option<u64>>,
}

/// How full a buffer was.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct FillReport {
    /// Room, in the unit of the levels.
    pub capacity: u64,
    /// The highest level.
    pub highest: u64,
    /// Times that something found no room.
    pub overflows: u64,
    /// Whether it will last.
    pub projection: Projection,
}

/// What the levels say about a longer run at the same load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "says")]
#[non_exhaustive]
pub enum Projection {
    /// Too few levels were noted to tell.
    TooShort,
    /// The level fell back to where it had been: the reader keeps up.
    Steady,
    /// The floor rises: the buffer is full this long after the last level, and then packets are lost.
    FullIn {
        /// Nanoseconds.
        ns: u64,
    },
    /// It was full, and something was lost.
    Overflowed,
}

impl FillGauge {
    /// A gauge of a buffer with room for `capacity` bytes (or blocks, or whatever the levels count).
    pub fn new(capacity: u64) -> FillGauge {
        FillGauge { capacity, highest: 0, overflows: 0, start_ns: None, slice_ns: SLICE_NS, floors: Vec::new() }
    }

    /// Notes a level. Times may not go back by more than the clock's steps; one before the first counts as the first.
    #[inline]
    pub fn note(&mut self, now_ns: u64, used: u64) {
        self.highest = self.highest.max(used);
        let start_ns = *self.start_ns.get_or_insert(now_ns);
        let mut slice = (now_ns.saturating_sub(start_ns) / self.slice_ns) as usize;
        while slice >= SLICES_MAX {
            self.halve();
            slice = (now_ns.saturating_sub(start_ns) / self.slice_ns) as usize;
        }
        if slice >= self.floors.len() {
            self.floors.resize(slice + 1, None);
        }
        let floor = &mut self.floors[slice];
        *floor = Some(floor.map_or(used, |floor| floor.min(used)));
    }

    /// Notes a peak of which only the height is known.
    pub fn note_peak(&mut self, used: u64) {
        self.highest = self.highest.max(used);
    }

    /// Notes that something found no room.
    pub fn note_overflow(&mut self, times: u64) {
        self.overflows += times;
        if times > 0 {
            self.highest = self.capacity;
        }
    }

    /// What was found out so far.
    pub fn report(&self) -> FillReport {
        let FillGauge { capacity, highest, overflows, .. } = *self;
        FillReport { capacity, highest, overflows, projection: self.projection() }
    }

    fn halve(&mut self) {
        let pairs = self.floors.chunks(2).map(|pair| pair.iter().flatten().min().copied());
        self.floors = pairs.collect();
        self.slice_ns = self.slice_ns.saturating_mul(2);
    }

    fn projection(&self) -> Projection {
        if self.overflows > 0 {
            return Projection::Overflowed;
        }
        // The last slice may have just begun: its floor is not one yet.
        let whole = &self.floors[..self.floors.len().saturating_sub(1)];
        let points: Vec<(f64, f64)> = whole
            .iter()
            .enumerate()
            .filter_map(|(slice, floor)| floor.map(|floor| (slice as f64, floor as f64)))
            .collect();
        if points.len() < SLICES_MIN {
            return Projection::TooShort;
        }
        let quarter = points.len() / 4;
        let highest_at_first = points[..quarter].iter().map(|point| point.1).fold(0.0, f64::max);
        let (later, last) = (&points[points.len() - quarter..], points[points.len() - 1].1);
        let lowest_at_last = later.iter().map(|point| point.1).fold(f64::INFINITY, f64::min);
        let slope = slope(&points);
        if lowest_at_last <= highest_at_first || slope <= 0.0 {
            return Projection::Steady;
        }
        let slices = (self.capacity as f64 - last).max(0.0) / slope;
        Projection::FullIn { ns: (slices * self.slice_ns as f64) as u64 }
    }
}

/// Of the straight line through the points, by least squares.
fn slope(points: &[(f64, f64)]) -> f64 {
    let count = points.len() as f64;
    let mean = |value: fn(&(f64, f64)) -> f64| points.iter().map(value).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let along: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    let spread: f64 = points.iter().map(|point| (point.0 - x) * (point.0 - x)).sum();
    if spread > 0.0 { along / spread } else { 0.0 }
}

/// How long a buffer of `bytes` holds what comes at `bytes_per_s` if nobody reads it, in nanoseconds; `None` when nothing comes.
pub fn holds_ns(bytes: u64, bytes_per_s: f64) -> Option<u64> {
    (bytes_per_s > 0.0).then(|| (bytes as f64 / bytes_per_s * 1e9) as u64)
}

impl FillReport {
    /// The highest level as a share of the room, 0 to 1.
    pub fn highest_share(&self) -> f64 {
        self.highest as f64 / self.capacity.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A gauge of 1000 with the level of each millisecond.
    fn gauge(ms: u64, level: impl Fn(u64) -> u64) -> FillGauge {
        let mut gauge = FillGauge::new(1000);
        (0..ms).for_each(|at| gauge.note(5 + at * MS, level(at)));
        gauge
    }

    #[test]
    fn a_reader_that_keeps_up_is_steady_however_high_the_level_goes() {
        for ms in [200, 700, 5_000, 60_000] {
            let report = gauge(ms, |at| at % 9 * 100).report();
            assert_eq!((report.highest, report.projection), (800, Projection::Steady), "{ms}");
        }
        assert_eq!(gauge(500, |_| 0).report().projection, Projection::Steady);
        assert_eq!(gauge(500, |_| 300).report().projection, Projection::Steady);
        // Falling.
        assert_eq!(gauge(500, |at| 1000 - at).report().projection, Projection::Steady);
    }

    #[test]
    fn a_rising_floor_says_when_it_is_full() {
        // One in each 10 ms on top of swings: full after 10 s.
        for ms in [1_000, 3_000, 9_000] {
            let report = gauge(ms, |at| at / 10 + at % 7).report();
            let Projection::FullIn { ns } = report.projection else { panic!("{report:?}") };
            let full_at_ms = ms + ns / MS;
            assert!((9_000..11_500).contains(&full_at_ms), "{ms}: {full_at_ms}");
        }
    }

    #[test]
    fn what_cannot_be_told_is_not() {
        assert_eq!(FillGauge::new(9).report().projection, Projection::TooShort);
        assert_eq!(gauge(50, |at| at).report().projection, Projection::TooShort);
        let mut full = gauge(500, |_| 0);
        full.note_overflow(0);
        assert_eq!(full.report().projection, Projection::Steady);
        full.note_overflow(3);
        let report = full.report();
        assert_eq!((report.projection, report.highest_share(), report.overflows), (Projection::Overflowed, 1.0, 3));
    }

    #[test]
    fn memory_and_time_are_bounded_whatever_the_times() {
        let mut gauge = FillGauge::new(10);
        for now_ns in [5, 0, u64::MAX, 7, 1 << 60] {
            gauge.note(now_ns, 3);
            assert!(gauge.floors.len() <= SLICES_MAX);
        }
        assert_eq!(gauge.report().highest, 3);
    }

    #[test]
    fn bytes_mean_time() {
        assert_eq!(holds_ns(1 << 20, (1 << 20) as f64 * 4.0), Some(250 * MS));
        assert_eq!(holds_ns(1 << 20, 0.0), None);
    }
}
