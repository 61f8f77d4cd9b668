//! The highest rate that a device delivers at any offered load: the maximum forwarding rate of RFC 2285 section 3.6.3, measured
//! after RFC 2889 with varied offered loads.
//!
//! Loads go down from the maximum in tenths; then the neighbourhood of the best one is halved until no load further than the
//! resolution from it is left. A load at or below the best rate so far cannot deliver more, and is left out.

use crate::{Load, PlanError, Trial, TrialError};
use std::collections::BTreeMap;

/// The search as a state machine.
#[derive(Debug, Clone)]
pub struct MaxForwardingRate {
    maximum: Load,
    resolution: f64,
    /// Rate delivered, in packets per second, by load.
    delivered: BTreeMap<Load, f64>,
    trials: Vec<Trial>,
}

/// What was found.
#[derive(Debug, Clone, PartialEq)]
pub struct ForwardingRate {
    /// The highest rate delivered, in packets per second, and the lowest load under which it was. `None` before the first trial.
    pub best: Option<(f64, Load)>,
    /// Rate delivered at the highest load (FRMOL, RFC 2285 section 3.6.2).
    pub at_maximum_pps: Option<f64>,
    /// Every trial, in order.
    pub trials: Vec<Trial>,
}

/// Loads of the first round.
const SWEEP: u64 = 10;
/// The search ends after so many trials, whatever the device does.
const TRIALS_MAX: usize = 64;

impl MaxForwardingRate {
    /// A search up to `maximum`; `resolution` is relative to the load.
    pub fn new(maximum: Load, resolution: f64) -> Result<Self, PlanError> {
        if maximum.pps() == 0 || !(resolution > 0.0 && resolution < 1.0) {
            return Err(PlanError("a maximum forwarding rate needs a load and a resolution between 0 and 1"));
        }
        Ok(Self { maximum, resolution, delivered: BTreeMap::new(), trials: Vec::new() })
    }

    /// The load to try next, or `None` at the end.
    pub fn next(&self) -> Option<Load> {
        if self.trials.len() >= TRIALS_MAX {
            return None;
        }
        let Some((rate_pps, load)) = self.best() else { return Some(self.maximum) };
        let is_open = |load: &Load| !self.delivered.contains_key(load) && load.pps() as f64 > rate_pps;
        let sweep = (1..=SWEEP)
            .rev()
            .map(|tenth| Load::from_pps((self.maximum.pps() as f64 * tenth as f64 / SWEEP as f64) as u64));
        let beside = || self.beside(load, rate_pps).filter(|_| rate_pps > 0.0);
        sweep.into_iter().find(is_open).or_else(beside)
    }

    /// Takes the result of a trial. One at another load than asked for counts as well.
    pub fn record(&mut self, trial: Trial) -> Result<(), TrialError> {
        trial.check()?;
        let rate_pps = self.delivered.entry(trial.load).or_insert(0.0);
        *rate_pps = rate_pps.max(trial.forwarding_rate_pps());
        self.trials.push(trial);
        Ok(())
    }

    /// What was found so far.
    pub fn outcome(&self) -> ForwardingRate {
        ForwardingRate {
            best: self.best(),
            at_maximum_pps: self.delivered.get(&self.maximum).copied(),
            trials: self.trials.clone(),
        }
    }

    /// The highest rate, and the lowest load that delivered it to 1 pps: a rate is known no better than to a packet.
    fn best(&self) -> Option<(f64, Load)> {
        let highest_pps = self.delivered.values().copied().fold(0.0, f64::max);
        let (load, _) = self.delivered.iter().find(|(_, rate_pps)| **rate_pps >= highest_pps - 1.0)?;
        Some((highest_pps, *load))
    }

    /// The middle between the best load and its neighbour, on the side where more is left.
    fn beside(&self, best: Load, rate_pps: f64) -> Option<Load> {
        let tried_below = self.delivered.range(..best).next_back().map_or(0, |(load, _)| load.pps());
        let below = Load::from_pps(tried_below.max(rate_pps as u64)).min(best);
        let above = self.delivered.range(best..).nth(1).map_or(best, |(load, _)| *load);
        let apart = |lower: Load, upper: Load| (upper.pps() - lower.pps()) as f64;
        let (lower, upper) = if apart(below, best) >= apart(best, above) { (below, best) } else { (best, above) };
        let is_wide = upper.pps() - lower.pps() > 1 && apart(lower, upper) > self.resolution * upper.pps() as f64;
        is_wide.then(|| Load::middle(lower, upper))
    }
}
