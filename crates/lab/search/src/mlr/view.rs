//! What a strategy sees of a search, and why it chose a load.

use super::database::{TrialDatabase, forwarding_rate_pps};
use super::goal::Limits;
use super::tally::{LoadClass, conditional_throughput_pps};
use super::target::Target;
use crate::{Bounds, Load};

/// Why a load is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// It is the maximum, and nothing is known yet.
    Maximum,
    /// The rate received at the lowest failing load promises it.
    Received,
    /// It is a bound of shorter trials.
    Refine,
    /// A stride above the lower bound.
    Up,
    /// A stride below the upper bound.
    Down,
    /// The middle of the bounds.
    Middle,
}

/// What a strategy sees: one target that is not reached.
pub(super) struct View<'a> {
    pub(super) database: &'a TrialDatabase,
    pub(super) limits: &'a Limits,
    pub(super) target: &'a Target,
    pub(super) index: usize,
    pub(super) bounds: Bounds,
    pub(super) pursuit: Pursuit,
}

/// A stride is so many times the one before.
const STRIDE_GROWTH: f64 = 3.0;

impl View<'_> {
    /// Whether trying a load would tell something: it lies strictly within the bounds and is not decided.
    pub(super) fn is_useful(&self, load: Load) -> bool {
        self.bounds.lower.is_none_or(|lower| lower < load)
            && self.bounds.upper.is_none_or(|upper| load < upper)
            && self.database.class(self.index, load) == LoadClass::Undecided
    }

    /// Whether loads passed in a row lately.
    pub(super) fn is_rising(&self) -> bool {
        self.pursuit.up > 0
    }

    /// Whether loads fail that shorter trials passed.
    pub(super) fn is_leaving(&self) -> bool {
        self.is_falling() && self.pursuit.is_alone
    }

    /// Whether the bounds of the target before this one are to be trusted.
    pub(super) fn trusts_preceding(&self) -> bool {
        !self.pursuit.is_alone
    }

    /// Whether loads failed in a row lately.
    pub(super) fn is_falling(&self) -> bool {
        self.pursuit.down > 0
    }

    /// A stride above a load; at least 1 pps.
    pub(super) fn above(&self, load: Load) -> Load {
        let next = Load::from_pps((load.pps() as f64 * self.stride_log(self.pursuit.up).exp()) as u64);
        self.within(next.max(Load::from_pps(load.pps().saturating_add(1))))
    }

    /// A stride below a load; at least 1 pps.
    pub(super) fn below(&self, load: Load) -> Load {
        let next = Load::from_pps((load.pps() as f64 * (-self.stride_log(self.pursuit.down)).exp()).ceil() as u64);
        self.within(next.min(Load::from_pps(load.pps().saturating_sub(1))))
    }

    /// Half a width below the load that the rate received at a failing load promises: the conditional throughput there, or the
    /// rate of all trials where none is of full length; more by what the goal allows to be lost.
    pub(super) fn promised_below(&self, upper: Load) -> Option<Load> {
        let entry = self.database.entry(upper)?;
        let Target { exceed_ratio, trial_ns, loss_ratio, .. } = *self.target;
        let trials = entry.seen_by(self.target);
        let received_pps =
            conditional_throughput_pps(&trials, exceed_ratio, trial_ns).unwrap_or_else(|| forwarding_rate_pps(&trials));
        let promised_pps = received_pps / (1.0 - loss_ratio) * (-self.target.step_log() / 2.0).exp();
        Some(self.within(Load::from_pps(promised_pps as u64)))
    }

    /// The load inside the limits.
    pub(super) fn within(&self, load: Load) -> Load {
        load.clamp(self.limits.minimum, self.limits.maximum)
    }

    fn stride_log(&self, successes: u32) -> f64 {
        self.target.step_log() * STRIDE_GROWTH.powi(successes.saturating_sub(1).min(20) as i32)
    }
}

/// How the search for one target went lately: strides in one direction grow.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pursuit {
    /// Loads in a row that turned out to be lower bounds.
    up: u32,
    /// Loads in a row that turned out to be upper bounds.
    down: u32,
    /// Whether the rate received was tried.
    pub(super) received: bool,
    /// Whether a bound of the target before this one turned out to be the opposite. From then on a target goes on alone: the
    /// shorter trials of those before it do not tell what its own do.
    pub(super) is_alone: bool,
}

impl Pursuit {
    /// Notes what a load that was tried turned out to be.
    pub(super) fn note(&mut self, choice: &Choice, class: LoadClass) {
        let (up, down) = match (choice.reason, class) {
            (Reason::Middle | Reason::Maximum, _) | (_, LoadClass::Undecided) => (0, 0),
            (_, LoadClass::Lower) => (self.up.saturating_add(1), 0),
            (_, LoadClass::Upper) => (0, self.down.saturating_add(1)),
        };
        (self.up, self.down) = (up, down);
        self.received |= choice.reason == Reason::Received;
        let is_refuted = choice.promised != LoadClass::Undecided && class != choice.promised;
        self.is_alone |= choice.reason == Reason::Refine && is_refuted;
    }
}

/// A load for a target. It is tried until the target can tell what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) target: usize,
    pub(super) load: Load,
    pub(super) reason: Reason,
    /// What the target before this one takes it for.
    pub(super) promised: LoadClass,
}
