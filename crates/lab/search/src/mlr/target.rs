//! Targets: what a goal is worked towards in stages, short trials before long ones.
//!
//! The last target of a goal is the goal itself. Those before it ask for less trial time, and the first of three for twice the
//! width. So most loads are tried only shortly, and the full duration sum is spent near the result. The width of the last target
//! but one is already the goal's: its two bounds are the only loads that a regular device needs to have tried in full.

use super::Goal;
use crate::Trial;

/// A goal, or a stage on the way to it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Target {
    /// Number of its goal.
    pub(super) goal: usize,
    /// The target of the same goal before it.
    pub(super) preceding: Option<usize>,
    pub(super) loss_ratio: f64,
    pub(super) exceed_ratio: f64,
    pub(super) trial_ns: u64,
    pub(super) duration_sum_ns: u64,
    pub(super) width: f64,
    pub(super) outside_interruptions: bool,
}

/// A stage asks for at most this many times the trial time of the one before.
const GROWTH_MAX: f64 = 8.0;

/// The targets of all goals in the order in which they are worked on, cheap ones first; and the last target of each goal.
pub(super) fn targets(goals: &[Goal]) -> (Vec<Target>, Vec<usize>) {
    let mut targets: Vec<Target> = goals.iter().enumerate().flat_map(|(number, goal)| stages(number, goal)).collect();
    targets.sort_by_key(|target| (target.duration_sum_ns, target.goal));
    let mut latest = vec![None; goals.len()];
    for (index, target) in targets.iter_mut().enumerate() {
        if let Some(latest) = latest.get_mut(target.goal) {
            target.preceding = latest.replace(index);
        }
    }
    (targets, latest.into_iter().flatten().collect())
}

/// The stages of one goal: duration sums grow from the initial trial duration by equal factors.
fn stages(number: usize, goal: &Goal) -> Vec<Target> {
    let growth = goal.duration_sum_ns as f64 / goal.initial_trial_ns as f64;
    let last = (growth.ln() / GROWTH_MAX.ln()).ceil().max(0.0) as u32;
    let stage = |stage: u32| {
        let duration_sum_ns = if stage == last {
            goal.duration_sum_ns
        } else {
            (goal.initial_trial_ns as f64 * growth.powf(f64::from(stage) / f64::from(last))) as u64
        };
        Target {
            goal: number,
            preceding: None,
            loss_ratio: goal.loss_ratio,
            exceed_ratio: goal.exceed_ratio,
            trial_ns: duration_sum_ns.clamp(goal.initial_trial_ns, goal.final_trial_ns),
            duration_sum_ns,
            width: if stage + 1 < last { (2.0 * goal.width).min(0.5) } else { goal.width },
            outside_interruptions: goal.outside_interruptions,
        }
    };
    (0..=last).map(stage).collect()
}

impl Target {
    /// The trial as this target judges it.
    pub(super) fn seen(&self, trial: &Trial) -> Trial {
        if self.outside_interruptions { trial.outside_interruptions() } else { *trial }
    }

    /// The width as a step in the natural logarithm of the load.
    pub(super) fn step_log(&self) -> f64 {
        -(-self.width).ln_1p()
    }
}
