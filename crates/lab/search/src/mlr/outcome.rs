//! What a search found: one goal result (RFC 9971, "Goal Results") for each goal.

use super::database::TrialDatabase;
use super::goal::{Goal, Limits};
use super::step::Step;
use super::tally::conditional_throughput_pps;
use crate::{Bounds, Limit, Load, Stop, Trial};

/// One trial of the search, and why it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// What was measured.
    pub trial: Trial,
    /// The step that asked for it; `None` when the caller gave the trial unasked.
    pub step: Option<Step>,
}

/// What was found for one goal.
#[derive(Debug, Clone, PartialEq)]
pub struct GoalOutcome {
    /// What was looked for.
    pub goal: Goal,
    /// The relevant lower bound, which a report must show: the largest lower bound below the smallest upper bound. Without an
    /// upper bound it is the largest lower bound, and the result is not regular.
    pub lower: Option<Load>,
    /// The relevant upper bound: the smallest upper bound.
    pub upper: Option<Load>,
    /// The conditional throughput at the lower bound, in packets per second.
    pub conditional_pps: Option<f64>,
    /// Whether a load above the upper bound is a lower bound (loss inversion): the device, or the machine, is not steady.
    pub irregular: bool,
    /// What the same trials say with the losses in interruptions counted; `None` where the goal counts them anyway, or there were none.
    pub with_interruptions: Option<Bounds>,
    /// Why the search for this goal ended.
    pub stop: Stop,
    /// What keeps the rate from being higher.
    pub limit: Limit,
}

impl GoalOutcome {
    /// Whether it is a Regular Goal Result: both bounds are there and as close as asked for. Values of any other have to be
    /// marked in a report.
    pub fn is_regular(&self) -> bool {
        self.stop == Stop::Resolved
    }

    /// The width of the bounds relative to the upper one, where both are known.
    pub fn width(&self) -> Option<f64> {
        let (lower, upper) = (self.lower?, self.upper?);
        Some((upper.pps() - lower.pps()) as f64 / upper.pps() as f64)
    }
}

/// What was found for all goals.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// In the order of the goals.
    pub goals: Vec<GoalOutcome>,
    /// The time that all trials sent, in nanoseconds.
    pub trial_time_ns: u64,
    /// Every trial, in order.
    pub trials: Vec<Record>,
}

/// The result of one goal, whose last target is `target`.
pub(super) fn of_goal(
    goal: &Goal,
    database: &TrialDatabase,
    target: usize,
    limits: &Limits,
    has_ended: bool,
) -> GoalOutcome {
    let Bounds { lower, upper } = database.bounds(target);
    let lower_entry = lower.and_then(|lower| database.entry(lower));
    let of_goal = database.targets().get(target);
    GoalOutcome {
        goal: goal.clone(),
        lower,
        upper,
        conditional_pps: lower_entry.zip(of_goal).and_then(|(entry, of)| {
            conditional_throughput_pps(&entry.seen_by(of), goal.exceed_ratio, goal.final_trial_ns)
        }),
        with_interruptions: of_goal.and_then(|of| database.with_interruptions(of)),
        irregular: database.is_inverted(target),
        stop: stop(goal, database, target, limits, has_ended),
        limit: limit(goal, database, target, limits),
    }
}

fn stop(goal: &Goal, database: &TrialDatabase, target: usize, limits: &Limits, has_ended: bool) -> Stop {
    match database.bounds(target) {
        Bounds { lower: Some(lower), .. } if lower >= limits.maximum => Stop::MaximumPassed,
        Bounds { upper: Some(upper), .. } if upper <= limits.minimum => Stop::MinimumFailed,
        Bounds { lower: Some(lower), upper: Some(upper) } if goal.is_resolved(lower, upper) => Stop::Resolved,
        _ if has_ended => Stop::TrialsUsedUp,
        _ => Stop::NotEnded,
    }
}

fn limit(goal: &Goal, database: &TrialDatabase, target: usize, limits: &Limits) -> Limit {
    let Bounds { lower, upper } = database.bounds(target);
    if lower.is_some_and(|lower| lower >= limits.maximum) {
        return Limit::Maximum;
    }
    match upper.and_then(|upper| database.entry(upper)?.worst(database.targets().get(target)?)) {
        Some(worst) if worst.lost as f64 / worst.intended.max(1) as f64 > goal.loss_ratio => Limit::Loss,
        Some(_) => Limit::Tester,
        None => Limit::Unknown,
    }
}
