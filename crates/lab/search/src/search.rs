//! The search as a state machine: which load to try next, given what was seen.
//!
//! RFC 2544 section 26.1 leaves the order of the loads open. This one follows FD.io CSIT's MLRsearch (draft-ietf-bmwg-mlrsearch):
//! 1. A trial at the maximum (or at the hint). If the maximum passes, that is all.
//! 2. The rate received in a failing trial is the first guess. A device with a sharp knee carries just that, so a load half a
//!    resolution below it passes, the next one above fails, and three trials are enough.
//! 3. Where the guess was wrong, strides away from it that double, until a load passes below one that fails.
//! 4. Halving of what is left, at the geometric middle.

use crate::step::{Reason, Step};
use crate::tally::Tallies;
use crate::{Bounds, Goal, GoalError, Limit, Load, Outcome, Record, Stop, Trial, TrialError};

/// The search for the highest load that meets a [`Goal`].
#[derive(Debug, Clone)]
pub struct Search {
    goal: Goal,
    records: Vec<Record>,
    tallies: Tallies,
    /// Why the load in question was first tried; a confirmation keeps it.
    motive: Reason,
    /// Length of the next stride, in steps of the resolution. 0 when halving.
    stride: u32,
    last_looks: u32,
    irregular: bool,
    lowest_failure: Option<Load>,
}

/// A failure older than this many trials is looked at once more before the search ends (unless it is strict).
const RECENT_TRIALS: usize = 3;

impl Search {
    /// Starts a search.
    pub fn new(goal: Goal) -> Result<Self, GoalError> {
        goal.check()?;
        Ok(Self {
            goal,
            records: Vec::new(),
            tallies: Tallies::default(),
            motive: Reason::Maximum,
            stride: 1,
            last_looks: 0,
            irregular: false,
            lowest_failure: None,
        })
    }

    /// What is looked for.
    pub fn goal(&self) -> &Goal {
        &self.goal
    }

    /// Every trial so far, in order.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// What is known so far.
    pub fn bounds(&self) -> Bounds {
        Bounds { lower: self.tallies.lower(&self.goal), upper: self.tallies.upper(&self.goal) }
    }

    /// The load to try next, or `None` at the end. Asking twice gives the same answer.
    pub fn next(&self) -> Option<Load> {
        self.next_step().map(|step| step.load)
    }

    /// The load to try next and why, or `None` at the end.
    pub fn next_step(&self) -> Option<Step> {
        if self.records.len() >= self.goal.trials_max as usize {
            return None;
        }
        if let Some(load) = self.tallies.unconfirmed(&self.goal) {
            return Some(Step { load, reason: Reason::Confirmation });
        }
        let step = match self.bounds() {
            Bounds { lower: None, upper: None } => self.first(),
            Bounds { lower: Some(lower), .. } if lower >= self.goal.maximum => return None,
            Bounds { upper: Some(upper), .. } if upper <= self.goal.minimum => return None,
            Bounds { lower: Some(lower), upper: None } => self.above(lower),
            Bounds { lower: None, upper: Some(upper) } => self.below(upper),
            Bounds { lower: Some(lower), upper: Some(upper) } => match self.between(lower, upper) {
                Some(step) => step,
                None => self.last_look(upper)?,
            },
        };
        Some(step)
    }

    /// Takes the result of a trial: the one that was asked for, or one that the caller made of its own accord (an overload
    /// trial made before, say), which then serves as the starting point.
    ///
    /// # Errors
    /// A trial whose numbers cannot be of one trial is refused and nothing changes.
    pub fn record(&mut self, trial: Trial) -> Result<(), TrialError> {
        trial.check()?;
        let step = self.next_step().filter(|step| step.load == trial.load);
        let passed = self.goal.is_met_by(&trial);
        match step.map(|step| step.reason) {
            Some(Reason::Confirmation) => {}
            Some(reason) => self.motive = reason,
            None => self.motive = Reason::Hint,
        }
        self.last_looks += u32::from(step.is_some_and(|step| step.reason == Reason::LastLook));
        self.tallies.add(&self.goal, &trial, self.records.len());
        self.records.push(Record { trial, step, passed });
        self.note_irregularity(&trial, passed);
        if self.tallies.unconfirmed(&self.goal).is_none() {
            self.stride = self.stride_after(passed);
        }
        Ok(())
    }

    /// What was found. Before the end it says what is known so far, with [`Stop::NotEnded`].
    pub fn outcome(&self) -> Outcome {
        let Bounds { lower, upper } = self.bounds();
        Outcome {
            goal: self.goal,
            lower,
            upper,
            stop: self.stop(),
            limit: self.limit(),
            irregular: self.irregular,
            overturned: self.tallies.overturned(&self.goal),
            trials: self.records.clone(),
        }
    }

    fn first(&self) -> Step {
        match self.goal.hint {
            Some(hint) => Step { load: self.just_below(hint.pps() as f64), reason: Reason::Hint },
            None => Step { load: self.goal.maximum, reason: Reason::Maximum },
        }
    }

    /// Half a resolution below a guessed rate, so that one stride up is above it.
    fn just_below(&self, rate_pps: f64) -> Load {
        let load = Load::from_pps((rate_pps * (-self.goal.step_log() / 2.0).exp()) as u64);
        load.clamp(self.goal.minimum, self.goal.maximum)
    }

    /// Nothing failed yet: a stride up, at most to the maximum.
    fn above(&self, lower: Load) -> Step {
        Step { load: self.stride_up(lower), reason: Reason::Up }
    }

    /// Nothing passed yet: to the rate that was received, or a stride down if that is lower.
    fn below(&self, upper: Load) -> Step {
        let received_pps = self.tallies.of(upper).map_or(0.0, |tally| tally.worst.forwarding_rate_pps());
        let (guess, stride) = (self.just_below(received_pps), self.stride_down(upper));
        if guess < stride {
            Step { load: guess, reason: Reason::Received }
        } else {
            Step { load: stride, reason: Reason::Down }
        }
    }

    /// A stride up from a good guess, as long as that is short of the middle; else the middle.
    fn between(&self, lower: Load, upper: Load) -> Option<Step> {
        if self.goal.is_resolved(lower, upper) {
            return None;
        }
        let middle = Load::middle(lower, upper).clamp(self.goal.minimum, self.goal.maximum);
        let stride = self.stride_up(lower);
        let step = if self.stride > 0 && stride < middle {
            Step { load: stride, reason: Reason::Up }
        } else {
            Step { load: middle, reason: Reason::Middle }
        };
        Some(step)
    }

    /// A disturbance can last longer than a trial and its confirmation; then every trial after it passes, and the bounds close
    /// in just under a load that would pass now.
    fn last_look(&self, upper: Load) -> Option<Step> {
        let tally = self.tallies.of(upper)?;
        let is_old = self.records.len() - tally.latest > RECENT_TRIALS;
        let is_doubtful = tally.worst.loss_ratio() < self.goal.confirm_below_loss_ratio;
        let allowed = self.last_looks < self.goal.confirmations;
        (is_old && is_doubtful && allowed).then_some(Step { load: upper, reason: Reason::LastLook })
    }

    fn stride_up(&self, lower: Load) -> Load {
        let factor = (self.goal.step_log() * f64::from(self.stride.max(1))).exp();
        let load = Load::from_pps((lower.pps() as f64 * factor) as u64);
        load.max(Load::from_pps(lower.pps().saturating_add(1))).clamp(self.goal.minimum, self.goal.maximum)
    }

    fn stride_down(&self, upper: Load) -> Load {
        let factor = (-self.goal.step_log() * f64::from(self.stride.max(1))).exp();
        let load = Load::from_pps((upper.pps() as f64 * factor).ceil() as u64);
        load.min(Load::from_pps(upper.pps() - 1)).clamp(self.goal.minimum, self.goal.maximum)
    }

    /// The next stride, once the load in question is settled. A guess that failed counts as a stride down, so that a device
    /// which always loses a little more than it received before is not followed down in small steps.
    fn stride_after(&self, passed: bool) -> u32 {
        let doubled = self.stride.saturating_mul(2).clamp(1, 1 << 20);
        match (self.motive, passed) {
            (Reason::Up, true) | (Reason::Down | Reason::Received, false) => doubled,
            (Reason::Hint | Reason::Received | Reason::LastLook, true) => 1,
            (Reason::Maximum | Reason::Confirmation, _) => 0,
            (Reason::Up | Reason::Hint | Reason::LastLook, false) | (Reason::Down, true) | (Reason::Middle, _) => 0,
        }
    }

    fn note_irregularity(&mut self, trial: &Trial, passed: bool) {
        if passed {
            self.irregular |= self.lowest_failure.is_some_and(|failure| failure < trial.load);
        } else {
            self.lowest_failure = Some(self.lowest_failure.map_or(trial.load, |failure| failure.min(trial.load)));
        }
    }

    fn stop(&self) -> Stop {
        let Bounds { lower, upper } = self.bounds();
        match (lower, upper) {
            _ if self.next_step().is_some() => Stop::NotEnded,
            _ if self.tallies.unconfirmed(&self.goal).is_some() => Stop::TrialsUsedUp,
            (Some(lower), _) if lower >= self.goal.maximum => Stop::MaximumPassed,
            (_, Some(upper)) if upper <= self.goal.minimum => Stop::MinimumFailed,
            (Some(lower), Some(upper)) if self.goal.is_resolved(lower, upper) => Stop::Resolved,
            _ => Stop::TrialsUsedUp,
        }
    }

    fn limit(&self) -> Limit {
        let Bounds { lower, upper } = self.bounds();
        if lower.is_some_and(|lower| lower >= self.goal.maximum) {
            return Limit::Maximum;
        }
        if let Some(tally) = upper.and_then(|upper| self.tallies.of(upper)) {
            let lost_ratio = tally.worst.lost as f64 / tally.worst.intended as f64;
            return if lost_ratio > self.goal.loss_ratio { Limit::Loss } else { Limit::Tester };
        }
        Limit::Unknown
    }
}
