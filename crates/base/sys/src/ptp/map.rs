//! Times of one clock as times of another, between readings of both.

use super::Reading;

/// Faster than this no two clocks drift apart, as a share: a daemon that steers a clock stays far below.
const DRIFT_MAX: f64 = 1e-3;

/// Why times of a clock cannot be turned into times of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    /// There are fewer than four readings.
    #[error("the clock was read too seldom")]
    TooFew,
    /// It goes on evenly, but by another rate than the system's clock: by more than a thousandth.
    #[error("a clock runs at {} times the pace of the system's", *.thousandths as f64 / 1e3)]
    Pace {
        /// What it goes on by while the system's clock goes on by a thousand.
        thousandths: u64,
    },
    /// Between two readings one of the clocks was set; or it stands still.
    #[error("a clock was set to another time meanwhile, or does not run")]
    Jumped,
}

/// From the times of a clock to those of the system's clock, by straight lines between readings.
///
/// The first and the last piece only show how steadily the clock runs: a change of its rate within a piece shows in the readings on both
/// sides of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ClockMap {
    /// In the order of both clocks. At least four.
    readings: Vec<Reading>,
    error_ns: u64,
}

impl ClockMap {
    /// Of readings in the order in which they were made.
    ///
    /// # Errors
    /// Fewer than four; a clock that was set in between.
    pub fn new(readings: Vec<Reading>) -> Result<ClockMap, MapError> {
        if readings.len() < 4 {
            return Err(MapError::TooFew);
        }
        if !readings.windows(2).all(|two| is_steady(two[0], two[1])) {
            return Err(even_pace(&readings).map_or(MapError::Jumped, |thousandths| MapError::Pace { thousandths }));
        }
        let widest_ns = readings.iter().map(|reading| reading.error_ns).max().unwrap_or(0);
        let strays = readings.windows(3).map(|three| {
            let straight_ns = between(three[0], three[2], three[1].clock_ns);
            (three[1].system_ns as i128 - straight_ns as i128).unsigned_abs() as u64
        });
        let error_ns = widest_ns.saturating_add(strays.max().unwrap_or(0)).saturating_add(1);
        Ok(ClockMap { readings, error_ns })
    }

    /// The system's time, in nanoseconds, at a time of the clock; `None` outside the readings less the first and the last one.
    pub fn system_ns(&self, clock_ns: i64) -> Option<i64> {
        let inner = &self.readings[1..self.readings.len() - 1];
        let after = inner.partition_point(|reading| reading.clock_ns <= clock_ns);
        match (after.checked_sub(1).map(|before| inner[before]), inner.get(after)) {
            (Some(before), Some(after)) => Some(between(before, *after, clock_ns)),
            (Some(last), None) if last.clock_ns == clock_ns => Some(last.system_ns),
            _ => None,
        }
    }

    /// By how much a time may be wrong, in nanoseconds: the widest error of a reading, and the most by which a reading is off the straight
    /// line between its neighbours, which is how far the clock's rate changes from one reading to the next.
    pub fn error_ns(&self) -> u64 {
        self.error_ns
    }
}

/// Whether both clocks went on, and by about as much.
fn is_steady(one: Reading, other: Reading) -> bool {
    one.keeps_pace(other, 1.0, DRIFT_MAX)
}

/// The pace of a clock that goes on evenly, in thousandths of the system's.
fn even_pace(readings: &[Reading]) -> Option<u64> {
    let pace = readings.first()?.pace(*readings.last()?)?;
    let evenly = readings.windows(2).all(|two| two[0].keeps_pace(two[1], pace, DRIFT_MAX));
    evenly.then_some((pace * 1e3).round() as u64)
}

/// On the straight line through two readings.
fn between(one: Reading, other: Reading, clock_ns: i64) -> i64 {
    let moved = |from: i64, to: i64| to as i128 - from as i128;
    let (clock, system) = (moved(one.clock_ns, other.clock_ns), moved(one.system_ns, other.system_ns));
    let since = moved(one.clock_ns, clock_ns);
    // Less than 2^64 times 2^64, if a caller goes that far; a steady pair is far below.
    let product = since.saturating_mul(system);
    let straight = one.system_ns as i128 + (product + clock.max(1) / 2).div_euclid(clock.max(1));
    straight.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: i64 = 1_000_000_000;

    /// A clock whose rate changes at some moments: its time at a time of the system.
    #[derive(Debug, Clone)]
    struct Drifting {
        offset_ns: i64,
        /// From this system time on, parts per billion.
        rates: Vec<(i64, i64)>,
    }

    impl Drifting {
        fn clock_ns(&self, system_ns: i64) -> i64 {
            let mut clock = i128::from(self.offset_ns) + i128::from(system_ns);
            for (number, (from, ppb)) in self.rates.iter().enumerate() {
                let until = self.rates.get(number + 1).map_or(i64::MAX, |next| next.0).min(system_ns);
                clock += i128::from((until - from).max(0)) * i128::from(*ppb) / 1_000_000_000;
            }
            clock as i64
        }
    }

    fn drifting(changes: usize) -> impl Strategy<Value = Drifting> {
        let rates = prop::collection::btree_map(0..2 * SECOND, -100_000..100_000_i64, 0..=changes);
        (-1_000 * SECOND..1_000 * SECOND, -100_000..100_000_i64, rates).prop_map(|(offset_ns, first, rates)| {
            let rates = std::iter::once((-10 * SECOND, first)).chain(rates).collect();
            Drifting { offset_ns, rates }
        })
    }

    /// Readings each 100 ms, each wrong by the next of these.
    fn readings(clock: &Drifting, errors: &[i64], bound: u64) -> Vec<Reading> {
        let times = (-2..23).map(|tenth| tenth * SECOND / 10);
        let reading = |(system_ns, error): (i64, &i64)| Reading {
            clock_ns: clock.clock_ns(system_ns),
            system_ns: system_ns + error,
            error_ns: bound,
        };
        times.zip(errors.iter().cycle()).map(reading).collect()
    }

    proptest! {
        #[test]
        fn times_of_a_clock_that_runs_evenly_are_as_right_as_its_readings(
            clock in drifting(0),
            errors in prop::collection::vec(-500..=500_i64, 1..30),
            at in 0..2 * SECOND,
        ) {
            let map = ClockMap::new(readings(&clock, &errors, 500)).unwrap();
            let told = map.system_ns(clock.clock_ns(at)).unwrap();
            // The clock's own times are whole nanoseconds.
            prop_assert!((told - at).unsigned_abs() <= 500 + 2, "{} for {at}", told);
            prop_assert!(map.error_ns() >= 500 && map.error_ns() <= 500 + 1000 + 3);
        }

        #[test]
        fn the_error_covers_changes_of_the_rate(clock in drifting(1), at in 0..2 * SECOND) {
            let map = ClockMap::new(readings(&clock, &[0], 2)).unwrap();
            let told = map.system_ns(clock.clock_ns(at)).unwrap();
            prop_assert!((told - at).unsigned_abs() <= map.error_ns(), "{told} for {at}: {}", map.error_ns());
        }

        #[test]
        fn a_jump_is_found(clock in drifting(1), at in 2..23_usize, jump in 1_000_000..i64::MAX / 4, back: bool) {
            let mut readings = readings(&clock, &[0], 50);
            let jump = if back { -jump } else { jump };
            readings[at..].iter_mut().for_each(|reading| reading.clock_ns = reading.clock_ns.saturating_add(jump));
            prop_assert_eq!(ClockMap::new(readings), Err(MapError::Jumped));
        }

        #[test]
        fn any_readings_and_times_are_taken(all in prop::collection::vec((any::<i64>(), any::<i64>(), any::<u64>()), 0..9), at: i64) {
            let reading = |(clock_ns, system_ns, error_ns)| Reading { clock_ns, system_ns, error_ns };
            if let Ok(map) = ClockMap::new(all.into_iter().map(reading).collect()) {
                let _ = map.system_ns(at);
            }
        }
    }

    #[test]
    fn a_clock_of_another_pace_is_told_from_one_that_was_set() {
        let at = |number: i64, clock_ns| Reading { clock_ns, system_ns: number * SECOND, error_ns: 1_000 };
        let fast = (0..6).map(|number| at(number, 5 + number * SECOND / 3 * 5)).collect();
        let Err(error) = ClockMap::new(fast) else { panic!("taken") };
        assert_eq!(error, MapError::Pace { thousandths: 1_667 });
        assert_eq!(error.to_string(), "a clock runs at 1.667 times the pace of the system's");
        let set = (0..6).map(|number| at(number, number * SECOND + if number > 2 { SECOND } else { 0 })).collect();
        assert_eq!(ClockMap::new(set), Err(MapError::Jumped));
    }

    #[test]
    fn times_outside_the_inner_readings_are_not_told() {
        let even = |number: i64| Reading { clock_ns: number * SECOND, system_ns: number * SECOND + 7, error_ns: 3 };
        let map = ClockMap::new((0..5).map(even).collect()).unwrap();
        assert_eq!(
            [SECOND - 1, SECOND, 3 * SECOND, 3 * SECOND + 1].map(|at| map.system_ns(at)),
            [None, Some(SECOND + 7), Some(3 * SECOND + 7), None]
        );
        assert_eq!(map.error_ns(), 4);
        assert_eq!(ClockMap::new((0..3).map(even).collect()), Err(MapError::TooFew));
        // A clock that stands still, which QEMU's e1000e has.
        let stands = (0..5).map(|number| Reading { clock_ns: 0, ..even(number) }).collect();
        assert_eq!(ClockMap::new(stands), Err(MapError::Jumped));
    }
}
