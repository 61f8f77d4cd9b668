//! The database of all trials: what each load is for each target, and the relevant bounds.

use super::goal::is_narrow;
use super::tally::{DurationSums, LoadClass};
use super::target::Target;
use crate::{Bounds, Load, Trial};
use std::collections::BTreeMap;

/// What is known of one load.
#[derive(Debug, Clone, Default)]
pub(super) struct Entry {
    pub(super) trials: Vec<Trial>,
    /// By target.
    sums: Vec<DurationSums>,
    /// By target.
    classes: Vec<LoadClass>,
}

impl Entry {
    /// The trials as a target judges them.
    pub(super) fn seen_by(&self, target: &Target) -> Vec<Trial> {
        self.trials.iter().map(|trial| target.seen(trial)).collect()
    }

    /// The trial that lost most, as a target judges it.
    pub(super) fn worst(&self, target: &Target) -> Option<Trial> {
        self.seen_by(target).into_iter().max_by(|a, b| a.loss_ratio().total_cmp(&b.loss_ratio()))
    }
}

/// All trials by load, classified for every target.
#[derive(Debug, Clone)]
pub(super) struct TrialDatabase {
    targets: Vec<Target>,
    entries: BTreeMap<Load, Entry>,
    bounds: Vec<Bounds>,
}

impl TrialDatabase {
    pub(super) fn new(targets: Vec<Target>) -> Self {
        let bounds = vec![Bounds { lower: None, upper: None }; targets.len()];
        Self { targets, entries: BTreeMap::new(), bounds }
    }

    pub(super) fn targets(&self) -> &[Target] {
        &self.targets
    }

    pub(super) fn entry(&self, load: Load) -> Option<&Entry> {
        self.entries.get(&load)
    }

    /// Adds a trial: it counts for every target.
    pub(super) fn add(&mut self, trial: Trial) {
        let entry = self.entries.entry(trial.load).or_default();
        entry.sums.resize(self.targets.len(), DurationSums::default());
        entry.classes.resize(self.targets.len(), LoadClass::Undecided);
        entry.trials.push(trial);
        let mut moved = Vec::new();
        let known = entry.sums.iter_mut().zip(entry.classes.iter_mut()).zip(&self.targets);
        for (index, ((sums, class), target)) in known.enumerate() {
            sums.add(&target.seen(&trial), target.loss_ratio, target.trial_ns);
            let now = sums.classify(target.exceed_ratio, target.duration_sum_ns);
            if std::mem::replace(class, now) != now {
                moved.push(index);
            }
        }
        for index in moved {
            let bounds = self.relevant_bounds(index);
            if let Some(known) = self.bounds.get_mut(index) {
                *known = bounds;
            }
        }
    }

    /// What a load is for a target.
    pub(super) fn class(&self, target: usize, load: Load) -> LoadClass {
        self.entries.get(&load).map_or(LoadClass::Undecided, |entry| class_of(entry, target))
    }

    /// The relevant bounds of a target of RFC 9971. Without an upper bound the lower one is the largest.
    pub(super) fn bounds(&self, target: usize) -> Bounds {
        self.bounds.get(target).copied().unwrap_or(Bounds { lower: None, upper: None })
    }

    /// Whether a load above the relevant upper bound is a lower bound.
    pub(super) fn is_inverted(&self, target: usize) -> bool {
        let Some(upper) = self.bounds(target).upper else { return false };
        self.entries.range(upper..).any(|(_, entry)| class_of(entry, target) == LoadClass::Lower)
    }

    /// Whether nothing is left to do for a target.
    pub(super) fn is_reached(&self, target: usize, minimum: Load, maximum: Load) -> bool {
        let Some(of) = self.targets.get(target) else { return true };
        match self.bounds(target) {
            Bounds { lower: Some(lower), .. } if lower >= maximum => true,
            Bounds { lower: Some(lower), upper: Some(upper) } => is_narrow(lower, upper, of.width),
            Bounds { upper: Some(upper), .. } if upper <= minimum => true,
            Bounds { .. } => false,
        }
    }

    /// The bounds of a target that leaves interruptions out, had it counted them; `None` where that makes no difference to any trial.
    pub(super) fn with_interruptions(&self, target: &Target) -> Option<Bounds> {
        let trials = || self.entries.values().flat_map(|entry| &entry.trials);
        if !target.outside_interruptions || trials().all(|trial| trial.lost_in_interruptions == 0) {
            return None;
        }
        let mut counting = TrialDatabase::new(vec![Target { outside_interruptions: false, ..*target }]);
        trials().for_each(|trial| counting.add(*trial));
        Some(counting.bounds(0))
    }

    fn relevant_bounds(&self, target: usize) -> Bounds {
        let upper = self.entries.iter().find(|(_, entry)| class_of(entry, target) == LoadClass::Upper);
        let upper = upper.map(|(load, _)| *load);
        let below = |load: &Load| upper.is_none_or(|upper| *load < upper);
        let lower =
            self.entries.iter().rev().find(|(load, entry)| below(load) && class_of(entry, target) == LoadClass::Lower);
        Bounds { lower: lower.map(|(load, _)| *load), upper }
    }
}

/// The rate that arrived in all trials together, in packets per second.
pub(super) fn forwarding_rate_pps(trials: &[Trial]) -> f64 {
    let seconds: f64 = trials.iter().map(|trial| trial.duration_ns as f64).sum();
    let sum: f64 = trials.iter().map(|trial| trial.forwarding_rate_pps() * trial.duration_ns as f64).sum();
    sum / seconds
}

fn class_of(entry: &Entry, target: usize) -> LoadClass {
    entry.classes.get(target).copied().unwrap_or_default()
}
