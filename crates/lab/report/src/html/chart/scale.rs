//! From values to places on an axis.

/// Most ticks of an axis.
const TICKS_MAX: f64 = 6.0;
/// The decades that an axis can have. The powers of ten beyond the range of `f64` are 0 and infinite, and no axis reaches them.
const DECADES: (f64, f64) = (1e-18, 1e18);

/// An axis.
#[derive(Debug, Clone, Copy)]
pub(in crate::html) struct Scale {
    low: f64,
    high: f64,
    is_log: bool,
    from: f64,
    to: f64,
}

impl Scale {
    /// From 0 to the next round number above `most`, drawn between the two places.
    pub(in crate::html) fn linear(most: f64, from: f64, to: f64) -> Self {
        let most = if most.is_finite() && most > 0.0 { most } else { 1.0 };
        let step = step(most);
        Self { low: 0.0, high: (most / step).ceil() * step, is_log: false, from, to }
    }

    /// Between two values as they are.
    pub(in crate::html) fn between(low: f64, high: f64, from: f64, to: f64) -> Self {
        Self { low, high: if high > low { high } else { low + 1.0 }, is_log: false, from, to }
    }

    /// Decades around the values, as far as [`DECADES`] go.
    pub(in crate::html) fn log(least: f64, most: f64, from: f64, to: f64) -> Self {
        let least = if least.is_finite() && least > 0.0 { least } else { 1.0 };
        let decade = |value: f64| value.clamp(DECADES.0, DECADES.1).log10();
        let low = 10f64.powf(decade(least).floor());
        let high = 10f64.powf(decade(most.max(least)).ceil());
        Self { low, high: if high > low { high } else { low * 10.0 }, is_log: true, from, to }
    }

    /// Between two values as they are, by their logarithm.
    pub(in crate::html) fn log_between(low: f64, high: f64, from: f64, to: f64) -> Self {
        let low = if low.is_finite() && low > 0.0 { low } else { 1.0 };
        Self { low, high: if high > low { high } else { low * 2.0 }, is_log: true, from, to }
    }

    pub(in crate::html) fn place(&self, value: f64) -> f64 {
        let share = if self.is_log {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
        self.from + share * (self.to - self.from)
    }

    pub(in crate::html) fn high(&self) -> f64 {
        self.high
    }

    /// Round values on the axis.
    pub(in crate::html) fn ticks(&self) -> Vec<f64> {
        if self.is_log {
            let (low, high) = (self.low.log10().round() as i32, self.high.log10().round() as i32);
            return (low..=high).map(|power| 10f64.powi(power)).collect();
        }
        let step = step(self.high - self.low);
        let first = (self.low / step).ceil() as i64;
        (first..first + 2 * TICKS_MAX as i64)
            .map(|n| n as f64 * step)
            .take_while(|tick| *tick <= self.high * 1.000_001)
            .collect()
    }
}

/// 1, 2 or 5 times a power of ten, so that there are not too many ticks.
fn step(range: f64) -> f64 {
    let rough = range / TICKS_MAX;
    let power = 10f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= rough).unwrap_or(10.0);
    factor * power
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ticks_are_round() {
        assert_eq!(Scale::linear(1.43e6, 0.0, 1.0).ticks(), [0.0, 0.5e6, 1e6, 1.5e6]);
        assert_eq!(Scale::linear(0.7, 0.0, 1.0).ticks().len(), 5);
        assert_eq!(Scale::log(3_000.0, 2e6, 0.0, 1.0).ticks(), [1e3, 1e4, 1e5, 1e6, 1e7]);
    }

    #[test]
    fn values_at_the_ends_of_the_floating_range_have_an_axis() {
        for value in [f64::MAX, 1.1e308, f64::MIN_POSITIVE, 5e-324, f64::INFINITY, f64::NAN] {
            let scale = Scale::log(value, value, 10.0, 200.0);
            assert!(scale.low < scale.high && scale.high.is_finite(), "{value}: {scale:?}");
            assert!((2..=40).contains(&scale.ticks().len()), "{value}: {scale:?}");
        }
    }

    proptest! {
        #[test]
        fn no_value_leaves_the_axis(low: f64, high: f64, value: f64, log: bool) {
            let scale = if log { Scale::log(low, high, 10.0, 200.0) } else { Scale::linear(high, 10.0, 200.0) };
            prop_assert!((10.0..=200.0).contains(&scale.place(value)), "{scale:?}");
            prop_assert!(scale.ticks().len() <= 400);
        }

        #[test]
        fn real_axes_have_a_few_ticks(most in 1e-6f64..1e12) {
            let count = Scale::linear(most, 0.0, 1.0).ticks().len();
            prop_assert!((3..=8).contains(&count), "{count} ticks up to {most}");
            prop_assert!(Scale::linear(most, 0.0, 1.0).high() >= most);
        }
    }
}
