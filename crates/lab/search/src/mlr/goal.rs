//! What is looked for (the Search Goal of RFC 9971), and within which limits.

use crate::Load;

/// One search goal. Fields are plain; [`Search::new`](super::Search::new) checks them.
#[derive(Debug, Clone, PartialEq)]
pub struct Goal {
    /// What a report calls it: `NDR`, `PDR`.
    pub name: String,
    /// Goal Loss Ratio: a trial that misses a larger share of its intended frames is a high-loss trial. At least 0, below 1.
    pub loss_ratio: f64,
    /// Goal Exceed Ratio: the share of trial time that may be high-loss at a lower bound. At least 0, below 1; 0.5 is
    /// recommended, 0 is strict.
    pub exceed_ratio: f64,
    /// Goal Initial Trial Duration, in nanoseconds: the shortest trial that this goal asks for.
    pub initial_trial_ns: u64,
    /// Goal Final Trial Duration, in nanoseconds: shorter trials are *short*, and can never make a lower bound.
    pub final_trial_ns: u64,
    /// Goal Duration Sum, in nanoseconds: trial time after which a load is decided.
    pub duration_sum_ns: u64,
    /// Goal Width: the search ends when `upper - lower <= width * upper` (or when they are 1 pps apart).
    pub width: f64,
    /// Whether packets that were lost in interruptions ([`Trial::lost_in_interruptions`](crate::Trial::lost_in_interruptions)) are left
    /// out: the goal then judges the device, not the machine's other work.
    pub outside_interruptions: bool,
}

const SECOND_NS: u64 = 1_000_000_000;

impl Goal {
    /// The throughput of RFC 2544, unconditionally compliant with its section 24 (RFC 9971, "MLRsearch Compliant with RFC
    /// 2544"): no loss in one trial of 60 s. A short trial that loses decides against a load; only a trial of full length
    /// decides for one.
    pub fn rfc2544() -> Self {
        Self {
            name: "RFC 2544".to_owned(),
            loss_ratio: 0.0,
            exceed_ratio: 0.0,
            initial_trial_ns: SECOND_NS,
            final_trial_ns: 60 * SECOND_NS,
            duration_sum_ns: 60 * SECOND_NS,
            width: 0.005,
            outside_interruptions: false,
        }
    }

    /// Binary search with loss verification of ETSI GS NFV-TST 009 section 12.3.3, at most one repetition (RFC 9971,
    /// 4.10.3): no loss in one of two trials of 60 s.
    pub fn tst009() -> Self {
        Self { name: "TST009".to_owned(), exceed_ratio: 0.5, duration_sum_ns: 120 * SECOND_NS, ..Self::rfc2544() }
    }

    /// The non-drop rate as FD.io CSIT finds it: no loss in half of 21 trials of 1 s, width 0.5 %.
    pub fn ndr() -> Self {
        Self {
            name: "NDR".to_owned(),
            loss_ratio: 0.0,
            exceed_ratio: 0.5,
            initial_trial_ns: SECOND_NS,
            final_trial_ns: SECOND_NS,
            duration_sum_ns: 21 * SECOND_NS,
            width: 0.005,
            outside_interruptions: false,
        }
    }

    /// The partial drop rate as FD.io CSIT finds it: at most 0.5 % lost in half of 21 trials of 1 s, width 0.5 %.
    pub fn pdr() -> Self {
        Self { name: "PDR".to_owned(), loss_ratio: 0.005, ..Self::ndr() }
    }

    /// Whether bounds are as close as asked for.
    pub fn is_resolved(&self, lower: Load, upper: Load) -> bool {
        is_narrow(lower, upper, self.width)
    }

    /// Whether a search can be made of it.
    pub fn check(&self) -> Result<(), GoalError> {
        let fail = |what| Err(GoalError::Goal { name: self.name.clone(), what });
        match self {
            _ if !(0.0..1.0).contains(&self.loss_ratio) => fail("the loss ratio must be at least 0 and below 1"),
            _ if !(0.0..1.0).contains(&self.exceed_ratio) => fail("the exceed ratio must be at least 0 and below 1"),
            _ if !(self.width > 0.0 && self.width < 1.0) => fail("the width must be above 0 and below 1"),
            _ if self.initial_trial_ns == 0 => fail("the initial trial duration must not be 0"),
            _ if self.final_trial_ns < self.initial_trial_ns => {
                fail("the final trial duration must not be below the initial one")
            }
            _ if self.duration_sum_ns < self.final_trial_ns => {
                fail("the duration sum must not be below the final trial duration")
            }
            _ if self.duration_sum_ns > DURATION_SUM_MAX_NS => fail("the duration sum must be at most 30 days"),
            _ => Ok(()),
        }
    }
}

const DURATION_SUM_MAX_NS: u64 = 30 * 86_400 * SECOND_NS;

/// Whether `upper - lower <= width * upper`. Loads are whole packets per second, so 1 pps is always narrow.
pub(super) fn is_narrow(lower: Load, upper: Load, width: f64) -> bool {
    let apart_pps = upper.pps().saturating_sub(lower.pps());
    apart_pps <= 1 || apart_pps as f64 <= width * upper.pps() as f64
}

/// Limits of the whole search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Min Load: the lowest load that is tried. At least 1 pps and at least one packet in the shortest trial.
    pub minimum: Load,
    /// Max Load: the highest load that is tried: the rate of the link, or what the tester reached without the DUT.
    pub maximum: Load,
    /// The search ends, converged or not, after this many trials.
    pub trials_max: u32,
    /// The search ends, converged or not, once its trials have sent for so long, in nanoseconds.
    pub duration_max_ns: u64,
}

impl Limits {
    /// Between two loads, with at most 5,000 trials and any duration.
    pub const fn new(minimum: Load, maximum: Load) -> Self {
        Self { minimum, maximum, trials_max: 5_000, duration_max_ns: u64::MAX }
    }

    /// Whether a search for these goals can be made within these limits.
    pub(super) fn check(&self, goals: &[Goal]) -> Result<(), GoalError> {
        if goals.is_empty() || self.trials_max == 0 {
            return Err(GoalError::Nothing);
        }
        goals.iter().try_for_each(Goal::check)?;
        if self.minimum.pps() == 0 || self.minimum > self.maximum {
            return Err(GoalError::Range { minimum: self.minimum, maximum: self.maximum });
        }
        let duration_ns = goals.iter().map(|goal| goal.initial_trial_ns).min().unwrap_or(0);
        if u128::from(self.minimum.pps()) * u128::from(duration_ns) < u128::from(SECOND_NS) {
            return Err(GoalError::EmptyTrial { minimum: self.minimum, duration_ns });
        }
        Ok(())
    }
}

/// Why no search can be made of goals.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GoalError {
    /// No goal, or no trial allowed.
    #[error("a search needs at least 1 goal and 1 trial")]
    Nothing,
    /// The minimum load is 0 or above the maximum.
    #[error("loads must go from at least 1 pps upwards, not from {minimum} to {maximum}")]
    Range {
        /// The minimum as given.
        minimum: Load,
        /// The maximum as given.
        maximum: Load,
    },
    /// A trial at the minimum load would send no packet.
    #[error("a trial of {duration_ns} ns at {minimum} sends no packet: raise the minimum or the initial duration")]
    EmptyTrial {
        /// The minimum as given.
        minimum: Load,
        /// The shortest trial, in nanoseconds.
        duration_ns: u64,
    },
    /// A goal contradicts itself.
    #[error("goal {name}: {what}")]
    Goal {
        /// Its name.
        name: String,
        /// What has to be.
        what: &'static str,
    },
}
