//! What a search looks for, and within which limits.

use crate::{Load, Trial};

/// What a search looks for. Fields are plain; [`Search::new`](crate::Search::new) checks them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Goal {
    /// The lowest load that is tried. At least 1 pps and at least one packet in a trial.
    pub minimum: Load,
    /// The highest load that is tried: the rate of the link, or what the tester reached without the DUT.
    pub maximum: Load,
    /// How long each trial sends, in nanoseconds. RFC 2544 section 24 asks for at least 60 s for a reported result.
    pub duration_ns: u64,
    /// Largest share of the intended packets that may be missing in a passing trial. 0 is the throughput of RFC 2544.
    pub loss_ratio: f64,
    /// The search ends when `upper - lower <= resolution * upper`, to less than 1 pps.
    pub resolution: f64,
    /// How often a failing trial is repeated before it counts; one passing repetition overturns it. 0 is strict RFC 2544: every
    /// failing trial counts. With 1 or more the final upper bound is also tried again at the end, if its failure is not
    /// recent, because a long disturbance can spoil a trial together with its repetition.
    pub confirmations: u32,
    /// A failing trial that missed this share of its packets or more is not repeated: noise does not look like that.
    pub confirm_below_loss_ratio: f64,
    /// Where to look first, for instance the rate received in an overload trial. `None` starts with a trial at the maximum and
    /// takes the rate received there.
    pub hint: Option<Load>,
    /// The search ends, converged or not, after this many trials.
    pub trials_max: u32,
}

impl Goal {
    /// Zero loss between two loads: resolution 1 %, trials of 1 s, no confirmation, no hint, at most 64 trials.
    pub const fn new(minimum: Load, maximum: Load) -> Self {
        Self {
            minimum,
            maximum,
            duration_ns: 1_000_000_000,
            loss_ratio: 0.0,
            resolution: 0.01,
            confirmations: 0,
            confirm_below_loss_ratio: 0.1,
            hint: None,
            trials_max: 64,
        }
    }

    /// Whether every failing trial counts at once, as in RFC 2544.
    pub fn is_strict(&self) -> bool {
        self.confirmations == 0
    }

    /// Whether the trial shows that its load was carried.
    pub fn is_met_by(&self, trial: &Trial) -> bool {
        trial.loss_ratio() <= self.loss_ratio
    }

    /// Whether bounds are as close as asked for. Loads are whole packets per second, so a width that rounding made longer by less
    /// than 1 pps is.
    pub(crate) fn is_resolved(&self, lower: Load, upper: Load) -> bool {
        let width_pps = upper.pps().saturating_sub(lower.pps());
        width_pps <= 1 || (width_pps as f64) < self.resolution * upper.pps() as f64 + 1.0
    }

    /// The resolution as a step in the natural logarithm of the load.
    pub(crate) fn step_log(&self) -> f64 {
        -(-self.resolution).ln_1p()
    }

    /// Trials that a regular device needs at most, confirmations apart: first guesses, then strides away from the guess that
    /// double (at most `n`), then halvings (at most `n`), where `n = log2(ln(maximum / minimum) / resolution)`.
    pub fn trials_expected_max(&self) -> u32 {
        let range_log = (self.maximum.pps() as f64 / self.minimum.pps().max(1) as f64).ln();
        let halvings = (range_log / self.step_log()).max(1.0).log2().ceil() as u32;
        4 + 2 * halvings
    }

    /// Whether a search can be made of it.
    pub fn check(&self) -> Result<(), GoalError> {
        if self.minimum.pps() == 0 {
            return Err(GoalError::ZeroMinimum);
        }
        if self.minimum > self.maximum {
            return Err(GoalError::Range { minimum: self.minimum, maximum: self.maximum });
        }
        if u128::from(self.minimum.pps()) * u128::from(self.duration_ns) < 1_000_000_000 {
            return Err(GoalError::EmptyTrial { minimum: self.minimum, duration_ns: self.duration_ns });
        }
        if !(self.resolution > 0.0 && self.resolution < 1.0) {
            return Err(GoalError::Ratio { what: "resolution", value: self.resolution });
        }
        if !(0.0..1.0).contains(&self.loss_ratio) {
            return Err(GoalError::Ratio { what: "loss ratio", value: self.loss_ratio });
        }
        if !(0.0..=1.0).contains(&self.confirm_below_loss_ratio) {
            return Err(GoalError::Ratio {
                what: "loss ratio up to which failures are confirmed",
                value: self.confirm_below_loss_ratio,
            });
        }
        if self.trials_max == 0 {
            return Err(GoalError::NoTrials);
        }
        Ok(())
    }
}

/// Why no search can be made of a goal.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum GoalError {
    /// The minimum load is 0.
    #[error("the minimum load must be at least 1 pps")]
    ZeroMinimum,
    /// The minimum load is above the maximum.
    #[error("the minimum load {minimum} is above the maximum {maximum}")]
    Range {
        /// The minimum as given.
        minimum: Load,
        /// The maximum as given.
        maximum: Load,
    },
    /// A trial at the minimum load would send no packet.
    #[error("a trial of {duration_ns} ns at {minimum} sends no packet: raise the minimum or the duration")]
    EmptyTrial {
        /// The minimum as given.
        minimum: Load,
        /// The duration as given, in nanoseconds.
        duration_ns: u64,
    },
    /// A ratio is outside its range.
    #[error("the {what} {value} is not a ratio between 0 and 1")]
    Ratio {
        /// Which one.
        what: &'static str,
        /// The value as given.
        value: f64,
    },
    /// No trial is allowed.
    #[error("a search needs at least 1 trial")]
    NoTrials,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_width_that_rounding_made_longer_is_resolved() {
        let goal = Goal::new(Load::from_pps(1), Load::from_pps(1_000_000));
        let is_resolved = |lower, upper| goal.is_resolved(Load::from_pps(lower), Load::from_pps(upper));
        // 1 % of 687,668 is 6,876.68: 6,877 differs from it by rounding, 6,878 does not.
        assert!(is_resolved(680_791, 687_668));
        assert!(!is_resolved(680_790, 687_668));
        assert!(is_resolved(5, 6) && !is_resolved(5, 7));
    }
}
