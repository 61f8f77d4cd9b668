//! Loss against offered load, RFC 2544 section 26.3.
//!
//! From the highest load downwards in steps of at most a tenth of it "until there are two successive trials in which no frames
//! are lost"; or at given loads.

use crate::{Load, PlanError, Trial, TrialError};

/// The procedure as a state machine.
#[derive(Debug, Clone)]
pub struct FrameLoss {
    loads: Vec<Load>,
    /// Whether two trials in a row without loss end it.
    ends_early: bool,
    trials: Vec<Trial>,
}

/// What was found.
#[derive(Debug, Clone, PartialEq)]
pub struct LossCurve {
    /// Every trial, in the order of measuring. [`Trial::loss_ratio`] counts unsent packets as missing.
    pub trials: Vec<Trial>,
    /// Whether the last two trials lost nothing: what section 26.3 asks for. A curve at given loads may have lost in all.
    pub is_complete: bool,
}

impl FrameLoss {
    /// From `maximum` (the rate of the link, or what the tester reaches) downwards in steps of `step` of it, which RFC 2544
    /// wants to be 0.1 or finer.
    pub fn downwards(maximum: Load, step: f64) -> Result<Self, PlanError> {
        if !(step > 0.0 && step <= 0.1) {
            return Err(PlanError("the step of a loss curve must be above 0 and at most 0.1 of the highest load"));
        }
        let steps = (1.0 / step - 1e-9).ceil() as u64;
        let load = |number| Load::from_pps((maximum.pps() as f64 * (1.0 - step * number as f64)).round() as u64);
        let loads = (0..steps).map(load).filter(|load| load.pps() > 0).collect();
        Self::new(loads, true)
    }

    /// At these loads, in this order, all of them.
    pub fn at(loads: Vec<Load>) -> Result<Self, PlanError> {
        Self::new(loads, false)
    }

    fn new(mut loads: Vec<Load>, ends_early: bool) -> Result<Self, PlanError> {
        loads.dedup();
        if loads.is_empty() || loads.iter().any(|load| load.pps() == 0) {
            return Err(PlanError("a loss curve needs loads of at least 1 pps"));
        }
        Ok(Self { loads, ends_early, trials: Vec::new() })
    }

    /// The load to try next, or `None` at the end.
    pub fn next(&self) -> Option<Load> {
        if self.ends_early && self.is_complete() {
            return None;
        }
        self.loads.get(self.trials.len()).copied()
    }

    /// Takes the result of the trial that was asked for.
    pub fn record(&mut self, trial: Trial) -> Result<(), TrialError> {
        trial.check()?;
        self.trials.push(trial);
        Ok(())
    }

    /// What was found so far.
    pub fn outcome(&self) -> LossCurve {
        LossCurve { trials: self.trials.clone(), is_complete: self.is_complete() }
    }

    fn is_complete(&self) -> bool {
        matches!(self.trials.as_slice(), [.., a, b] if a.delivered() == a.intended && b.delivered() == b.intended)
    }
}
