//! What a search found.

use crate::{Goal, Load, Step, Trial};
use std::fmt;

/// What is known so far: the throughput lies between the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// The highest load that passed below every load that failed. `None`: none passed yet.
    pub lower: Option<Load>,
    /// The lowest load that failed. `None`: none failed yet.
    pub upper: Option<Load>,
}

impl fmt::Display for Bounds {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.lower, self.upper) {
            (Some(lower), Some(upper)) => write!(formatter, "{} to {upper}", lower.pps()),
            (Some(lower), None) => write!(formatter, "{lower} or more"),
            (None, Some(upper)) => write!(formatter, "below {upper}"),
            (None, None) => write!(formatter, "unknown"),
        }
    }
}

/// One trial of the search, why it was made, and whether it met the goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// What was measured.
    pub trial: Trial,
    /// The step that asked for it; `None` when the caller gave the trial unasked.
    pub step: Option<Step>,
    /// Whether the trial met the goal. A failure may have been overturned by a later trial at the same load.
    pub passed: bool,
}

/// Why a search ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The bounds are as close as the goal's resolution asks.
    Resolved,
    /// The maximum load passed: the throughput is that or more.
    MaximumPassed,
    /// The minimum load failed: the throughput is below it.
    MinimumFailed,
    /// The number of trials is used up.
    TrialsUsedUp,
    /// It has not ended: [`Search::next`](crate::Search::next) still asks for a trial.
    NotEnded,
}

/// What keeps the throughput from being higher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Packets were lost at the upper bound.
    Loss,
    /// The tester could not send what was asked for at the upper bound, and of what it sent no more was lost than the goal
    /// allows: the figure is the tester's own limit (or a path that pushes back on its sender).
    Tester,
    /// The maximum load passed.
    Maximum,
    /// Not known: no load failed, and the maximum was not reached.
    Unknown,
}

/// What a search found.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// What was looked for. A goal with confirmations is not strict RFC 2544, and a report has to say so.
    pub goal: Goal,
    /// The throughput: the highest load that passed below every load that failed.
    pub lower: Option<Load>,
    /// The lowest load that failed.
    pub upper: Option<Load>,
    /// Why the search ended.
    pub stop: Stop,
    /// What keeps the throughput from being higher.
    pub limit: Limit,
    /// Whether a trial failed at a lower load than another that passed later: the device, or the machine, is not steady.
    pub irregular: bool,
    /// Failing trials that a repetition at the same load overturned. Always 0 in a strict search.
    pub overturned: u32,
    /// Every trial, in order.
    pub trials: Vec<Record>,
}

impl Outcome {
    /// The width of the bounds relative to the upper one, where both are known.
    pub fn resolution(&self) -> Option<f64> {
        let (lower, upper) = (self.lower?, self.upper?);
        Some((upper.pps() - lower.pps()) as f64 / upper.pps() as f64)
    }
}
