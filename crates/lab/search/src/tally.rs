//! What is known of each load that was tried.

use crate::{Goal, Load, Trial};
use std::collections::BTreeMap;

/// What is known of one load.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tally {
    pub(crate) passes: u32,
    pub(crate) failures: u32,
    /// A failure counts only once it is settled: confirmed, or too large to need it.
    pub(crate) settled: bool,
    /// The worst trial at this load: it tells why the load fails.
    pub(crate) worst: Trial,
    /// Number of the latest trial at this load.
    pub(crate) latest: usize,
}

/// What is known of every load.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tallies {
    by_load: BTreeMap<Load, Tally>,
}

impl Tallies {
    /// Adds trial number `number`.
    pub(crate) fn add(&mut self, goal: &Goal, trial: &Trial, number: usize) {
        let tally = self.by_load.entry(trial.load).or_insert(Tally {
            passes: 0,
            failures: 0,
            settled: false,
            worst: *trial,
            latest: number,
        });
        tally.latest = number;
        if trial.loss_ratio() > tally.worst.loss_ratio() {
            tally.worst = *trial;
        }
        if goal.is_met_by(trial) {
            tally.passes += 1;
        } else {
            tally.failures += 1;
            let obvious = trial.loss_ratio() >= goal.confirm_below_loss_ratio;
            tally.settled |= obvious || tally.failures > goal.confirmations;
        }
    }

    pub(crate) fn of(&self, load: Load) -> Option<&Tally> {
        self.by_load.get(&load)
    }

    /// A failure that waits for its confirmation.
    pub(crate) fn unconfirmed(&self, goal: &Goal) -> Option<Load> {
        let waits = |tally: &Tally| tally.failures > 0 && !tally.settled && !passes(goal, tally);
        self.by_load.iter().find(|(_, tally)| waits(tally)).map(|(load, _)| *load)
    }

    /// The lowest load that fails.
    pub(crate) fn upper(&self, goal: &Goal) -> Option<Load> {
        let fails = |tally: &Tally| tally.settled && !passes(goal, tally);
        self.by_load.iter().find(|(_, tally)| fails(tally)).map(|(load, _)| *load)
    }

    /// The highest load that passes below the lowest one that fails: what lies beyond a failure is not throughput.
    pub(crate) fn lower(&self, goal: &Goal) -> Option<Load> {
        let upper = self.upper(goal);
        let below = |load: &Load| upper.is_none_or(|upper| *load < upper);
        self.by_load.iter().rev().find(|(load, tally)| below(load) && passes(goal, tally)).map(|(load, _)| *load)
    }

    /// Failures that a repetition overturned.
    pub(crate) fn overturned(&self, goal: &Goal) -> u32 {
        self.by_load.values().filter(|tally| passes(goal, tally)).map(|tally| tally.failures).sum()
    }
}

/// Strict: no failure. Otherwise one pass is enough.
fn passes(goal: &Goal, tally: &Tally) -> bool {
    tally.passes > 0 && (tally.failures == 0 || !goal.is_strict())
}
