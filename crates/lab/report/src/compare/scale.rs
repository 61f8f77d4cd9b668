//! On which scale a figure is compared, and which of its changes count.

use super::series::{Key, Series};
use super::thresholds::Thresholds;
use crate::figure::{Better, Unit, median};

/// No value is taken to vary by less than this share of its threshold (standard deviation).
const FLOOR_SHARE: f64 = 0.1;
/// Where a value can be 0, changes of more than so many times the absolute threshold are to be excluded.
const EXCLUDED_TIMES: f64 = 10.0;

/// The scale of one figure.
pub(super) struct Scale {
    pub(super) is_relative: bool,
    /// Changes up to here do not count, in units of the change.
    threshold: f64,
    /// Nor do differences up to here, in the figure's unit.
    threshold_absolute: f64,
    /// Width of the interval in which the search left a value, in units of the scale.
    resolution: f64,
    /// Variance that each value has at least, in units of the scale.
    pub(super) floor: f64,
    /// The changes to exclude begin here, in units of the scale.
    excluded: f64,
}

impl Scale {
    /// Logarithms where all values are above 0; shares, cores and values that can be 0 as they are.
    pub(super) fn of(key: &Key, one: &Series, other: &Series, thresholds: &Thresholds) -> Self {
        let unit = one.unit;
        let larger = [one, other].map(|side| median(&side.values).abs()).into_iter().fold(0.0, f64::max);
        let is_positive = one.values.iter().chain(&other.values).all(|value| *value > 0.0);
        let is_relative = is_positive && !matches!(unit, Unit::Share | Unit::Cores);
        let is_tail = ["p99.9 ", "p99.99 ", "max ", "PDV "].iter().any(|tail| key.2.starts_with(tail));
        let (threshold, excluded) = match unit {
            Unit::PacketsPerSecond | Unit::PerSecond | Unit::Connections => (thresholds.rate, thresholds.excluded.rate),
            Unit::Share | Unit::Cores => (0.0, 0.0),
            _ if is_tail => (thresholds.tail, f64::INFINITY),
            _ => (thresholds.time, thresholds.excluded.time),
        };
        let threshold_absolute = match (unit, key.1) {
            (Unit::Share, _) => thresholds.loss,
            (Unit::Nanoseconds, "reset" | "system-recovery") => thresholds.outage_ns,
            (Unit::Cores, _) => 0.5,
            (Unit::Packets, _) => 1.0,
            _ => 0.0,
        };
        let width = one.width.max(other.width);
        let packets = one.packets.into_iter().chain(other.packets).min();
        let (threshold, resolution, excluded, counting) = if is_relative {
            // A rate is known to one packet.
            let counted = packets.filter(|_| unit == Unit::PacketsPerSecond);
            let counting = counted.map_or(0.0, |packets| (packets as f64).powi(-2) / 12.0);
            (threshold, width.ln_1p(), excluded.ln_1p(), counting)
        } else {
            // The spread of a count: of `packets`, each is lost or not by itself.
            let counted = packets.filter(|_| unit == Unit::Share).map(|packets| packets as f64);
            let share = larger.clamp(0.0, 1.0);
            let counting = counted.map_or(0.0, |packets| (share * (1.0 - share)).max(1.0 / packets) / packets);
            let excluded = match unit {
                Unit::Share => thresholds.excluded.share,
                _ => (excluded * larger).max(EXCLUDED_TIMES * threshold_absolute),
            };
            ((threshold * larger).max(threshold_absolute), width * larger, excluded, counting)
        };
        // The spread of a capacity is itself one of noise.
        let is_spread = key.1 == "capacity" && key.2 == "spread";
        let exempt = is_tail || is_spread || unit == Unit::Cores || one.better == Better::Neither;
        let floor = (FLOOR_SHARE * threshold).powi(2) + resolution.powi(2) / 12.0 + counting;
        let excluded = if exempt { f64::INFINITY } else { excluded };
        Self { is_relative, threshold, threshold_absolute, resolution, floor, excluded }
    }

    /// A value on this scale.
    pub(super) fn to(&self, value: f64) -> f64 {
        if self.is_relative { value.ln() } else { value }
    }

    /// The change from one value to another.
    pub(super) fn change(&self, to: f64, from: f64) -> f64 {
        if self.is_relative { to / from - 1.0 } else { to - from }
    }

    /// The change that a difference on this scale is.
    pub(super) fn change_of(&self, difference: f64) -> f64 {
        if self.is_relative { difference.exp_m1() } else { difference }
    }

    /// The least change that counts.
    pub(super) fn least(&self) -> f64 {
        self.threshold.max(self.change_of(self.resolution))
    }

    /// Whether a change counts, which is a difference of so much in the figure's unit.
    pub(super) fn is_large(&self, change: f64, difference: f64) -> bool {
        let on_scale = if self.is_relative { change.ln_1p() } else { change };
        let is_resolved = on_scale.abs() > self.resolution;
        is_resolved && change.abs() > self.threshold && difference.abs() > self.threshold_absolute
    }

    /// Whether this end of an interval, on this scale, is not yet a change that must be excluded.
    pub(super) fn is_bounded(&self, end: f64, before: f64) -> bool {
        let is_small =
            || self.is_relative && self.change_of(end).abs() * before <= EXCLUDED_TIMES * self.threshold_absolute;
        end.abs() <= self.excluded || is_small()
    }
}
