//! How busy the machines of two runs were, by what their trials recorded: a busier machine is no property of a device.

use std::collections::HashSet;

use serde::Serialize;

use crate::figure::median;
use crate::units::{nanoseconds, percent};
use crate::{ExperimentTrial, Finding, Results};

/// How much the noise of two runs may differ.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct NoiseLimits {
    /// Difference of the share of time that was taken from the sending thread, absolute.
    pub taken: f64,
    /// Ratio of the median longest gaps; gaps below `gap_least_ns` count as that.
    pub gap_ratio: f64,
    /// See `gap_ratio`, in nanoseconds.
    pub gap_least_ns: f64,
    /// Difference of the share of disturbed trials, absolute.
    pub disturbed: f64,
}

impl Default for NoiseLimits {
    fn default() -> Self {
        Self { taken: 0.02, gap_ratio: 5.0, gap_least_ns: 1e6, disturbed: 0.25 }
    }
}

/// What disturbed a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct RunNoise {
    /// Trials of the figures in both results.
    pub trials: usize,
    /// Share of the time in which the hypervisor, or other programs, kept the sending thread from its core.
    pub taken: f64,
    /// Median over the trials of the longest time for which the sending thread was away, in nanoseconds.
    pub gap_ns: f64,
    /// Share of the trials that were marked as disturbed, or made again for it.
    pub disturbed: f64,
}

impl RunNoise {
    /// Over the trials of all `runs` in the cells that the `others` have, too.
    pub(super) fn of(runs: &[Results], others: &[Results]) -> Self {
        let known: HashSet<&str> = others.iter().flat_map(|run| &run.cells).map(|cell| cell.id.as_str()).collect();
        let cells = runs.iter().flat_map(|run| &run.cells).filter(|cell| known.contains(cell.id.as_str()));
        let trials: Vec<&ExperimentTrial> =
            cells.flat_map(|cell| &cell.findings).flat_map(Finding::used_trials).collect();
        if trials.is_empty() {
            return Self::default();
        }
        let time_ns: f64 = trials.iter().map(|made| made.trial.duration_ns as f64).sum();
        let taken_ns = |made: &&ExperimentTrial| {
            let stolen = made.machine.noise.steal_share.max(0.0) * made.trial.duration_ns as f64;
            stolen + made.machine.noise.waited_ns.unwrap_or(0) as f64
        };
        let gaps: Vec<f64> = trials.iter().map(|made| made.machine.noise.gap_max_ns as f64).collect();
        let repeated: u64 = trials.iter().map(|made| u64::from(made.machine.noise.repeated)).sum();
        let marked = trials.iter().filter(|made| made.machine.noise.disturbed).count() as u64;
        Self {
            trials: trials.len(),
            taken: if time_ns > 0.0 { trials.iter().map(taken_ns).sum::<f64>() / time_ns } else { 0.0 },
            gap_ns: median(&gaps),
            disturbed: (repeated + marked) as f64 / (trials.len() as u64 + repeated) as f64,
        }
    }

    /// In what the two differ by more than the limits, in words.
    pub(super) fn differences(&self, other: &Self, limits: &NoiseLimits) -> Vec<String> {
        if self.trials == 0 || other.trials == 0 {
            return Vec::new();
        }
        let mut words = Vec::new();
        if (self.taken - other.taken).abs() > limits.taken {
            let (one, two) = (percent(self.taken), percent(other.taken));
            words.push(format!("{one} and {two} of the time was taken from the sending thread"));
        }
        let (one, two) = (self.gap_ns.max(limits.gap_least_ns), other.gap_ns.max(limits.gap_least_ns));
        if one.max(two) > limits.gap_ratio * one.min(two) {
            let (one, two) = (nanoseconds(self.gap_ns), nanoseconds(other.gap_ns));
            words.push(format!("it was away for {one} and {two} at the longest in the middle trial"));
        }
        if (self.disturbed - other.disturbed).abs() > limits.disturbed {
            let (one, two) = (percent(self.disturbed), percent(other.disturbed));
            words.push(format!("{one} and {two} of the trials were disturbed"));
        }
        words
    }
}
