//! Latency at shares of the throughput (RFC 2544 section 26.2; FD.io CSIT's 0, 10, 50 and 90 %), and the statistics of RFC 8219.
//!
//! At the throughput itself latency measures how deep the buffers are; below it, what a packet meets. Share 0 stands for a rate
//! that leaves the device idle between packets.

use crate::{Load, PlanError};

/// The shares that are usual.
pub const SHARES: [f64; 4] = [0.0, 0.1, 0.5, 0.9];

/// RFC 8219 section 7.2 asks for at least so many samples.
pub const SAMPLES_MIN: u64 = 500;

/// One load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Share of the throughput.
    pub share: f64,
    /// The load it means.
    pub load: Load,
}

/// The loads as a state machine.
#[derive(Debug, Clone)]
pub struct LatencyPoints {
    points: Vec<Point>,
    found: Vec<(Point, Option<Delays>)>,
}

impl LatencyPoints {
    /// Shares of a throughput, each at least 0 and at most 1; share 0 means `idle`.
    pub fn new(throughput: Load, idle: Load, shares: &[f64]) -> Result<Self, PlanError> {
        let are_shares = shares.iter().all(|share| (0.0..=1.0).contains(share));
        if shares.is_empty() || !are_shares || idle.pps() == 0 {
            return Err(PlanError("latency needs shares from 0 to 1 and an idle rate of at least 1 pps"));
        }
        let load = |share: f64| Load::from_pps((throughput.pps() as f64 * share) as u64).max(idle);
        let points = shares.iter().map(|share| Point { share: *share, load: load(*share) }).collect();
        Ok(Self { points, found: Vec::new() })
    }

    /// The load to measure next, or `None` at the end.
    pub fn next(&self) -> Option<Point> {
        self.points.get(self.found.len()).copied()
    }

    /// Takes the delays at the load that was asked for; `None` if no packet arrived.
    pub fn record(&mut self, delays: Option<Delays>) {
        self.found.extend(self.next().map(|point| (point, delays)));
    }

    /// What was found so far, in the order of the shares.
    pub fn outcome(&self) -> &[(Point, Option<Delays>)] {
        &self.found
    }

    /// Measures to the end.
    pub fn run<E>(
        &mut self,
        mut measure: impl FnMut(Point) -> Result<Option<Delays>, E>,
    ) -> Result<&[(Point, Option<Delays>)], E> {
        while let Some(point) = self.next() {
            let delays = measure(point)?;
            self.record(delays);
        }
        Ok(self.outcome())
    }
}

/// Delays of one trial, by RFC 8219 sections 7.2 and 7.3, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delays {
    /// Packets whose delay is known.
    pub samples: u64,
    /// Least delay.
    pub minimum_ns: u64,
    /// Typical latency: the median.
    pub typical_ns: u64,
    /// Worst-case latency: the 99.9th percentile.
    pub worst_ns: u64,
}

impl Delays {
    /// Of delays with how often each was seen, ascending, as a histogram has them. `None` without any.
    pub fn of_counts(counts: &[(u64, u64)]) -> Option<Self> {
        let samples = counts.iter().map(|(_, count)| count).sum();
        Some(Self {
            samples,
            minimum_ns: counts.iter().find(|(_, count)| *count > 0)?.0,
            typical_ns: percentile(counts, samples, 500)?,
            worst_ns: percentile(counts, samples, 999)?,
        })
    }

    /// Of single delays, in any order. `None` without any.
    pub fn of_samples(delays_ns: &[u64]) -> Option<Self> {
        let mut sorted = delays_ns.to_vec();
        sorted.sort_unstable();
        Self::of_counts(&sorted.into_iter().map(|delay_ns| (delay_ns, 1)).collect::<Vec<_>>())
    }

    /// Packet delay variation: the 99.9th percentile less the least delay.
    pub fn variation_ns(&self) -> u64 {
        self.worst_ns - self.minimum_ns
    }

    /// Whether there are as many samples as RFC 8219 asks for.
    pub fn has_enough_samples(&self) -> bool {
        self.samples >= SAMPLES_MIN
    }
}

/// The value below or at which so many thousandths of the samples lie (nearest rank).
fn percentile(counts: &[(u64, u64)], samples: u64, thousandths: u64) -> Option<u64> {
    let rank = (u128::from(samples) * u128::from(thousandths)).div_ceil(1_000).max(1);
    let mut seen = 0u128;
    counts
        .iter()
        .find(|(_, count)| {
            seen += u128::from(*count);
            seen >= rank
        })
        .map(|(value, _)| *value)
}

/// A figure over repetitions of a trial as RFC 8219 summarizes it: the median, with the 1st and 99th percentiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spread {
    /// 1st percentile.
    pub low_ns: u64,
    /// Median.
    pub median_ns: u64,
    /// 99th percentile.
    pub high_ns: u64,
}

impl Spread {
    /// Of these values, in any order. RFC 8219 asks for at least 20 of them. `None` without any.
    pub fn of(values_ns: &[u64]) -> Option<Self> {
        let mut sorted: Vec<(u64, u64)> = values_ns.iter().map(|value_ns| (*value_ns, 1)).collect();
        sorted.sort_unstable();
        let at = |thousandths| percentile(&sorted, values_ns.len() as u64, thousandths);
        Some(Self { low_ns: at(10)?, median_ns: at(500)?, high_ns: at(990)? })
    }
}
