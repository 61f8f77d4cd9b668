//! The least changes that count as differences.

use serde::Serialize;

use super::noise::NoiseLimits;

/// From where on a difference is one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Thresholds {
    /// Significance level: greatest probability of any false difference in a comparison of two sides that differ in nothing
    /// but chance.
    pub alpha: f64,
    /// Least relative difference of a rate.
    pub rate: f64,
    /// Least relative difference of a time up to the 99th percentile, and of work per packet.
    pub time: f64,
    /// Least relative difference of higher percentiles and maxima, which a few packets decide.
    pub tail: f64,
    /// Least difference of a loss ratio or another share, absolute.
    pub loss: f64,
    /// Least difference of an outage or a recovery, which can be 0, in nanoseconds.
    pub outage_ns: f64,
    /// A figure without a significant difference is inconclusive unless its confidence interval excludes changes beyond these.
    pub excluded: Excluded,
    /// How much the noise of the two sides may differ.
    pub noise: NoiseLimits,
}

impl Default for Thresholds {
    fn default() -> Self {
        let excluded = Excluded { rate: 0.3, time: 1.0, share: 0.1 };
        let noise = NoiseLimits::default();
        Self { alpha: 0.05, rate: 0.03, time: 0.10, tail: 0.30, loss: 0.002, outage_ns: 1e6, excluded, noise }
    }
}

/// The changes that a comparison without a significant difference must exclude. Tails are exempt: their spread is their nature.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Excluded {
    /// Relative change of a rate: 0.3 is +30 % or its inverse, -23 %.
    pub rate: f64,
    /// Relative change of a time or of work per packet: 1.0 is twice or half.
    pub time: f64,
    /// Change of a share, absolute.
    pub share: f64,
}
