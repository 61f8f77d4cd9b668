//! What the trials at one load say of it, for one goal: "Load Classification Logic" and "Conditional Throughput Logic" of RFC
//! 9971.

use crate::Trial;

/// What a load is for a goal (RFC 9971, "Load Classification").
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LoadClass {
    /// Trials still to come could make it either.
    #[default]
    Undecided,
    /// The goal is met, whatever trials within the duration sum would still show.
    Lower,
    /// The goal is failed, whatever trials within the duration sum would still show.
    Upper,
}

/// Durations of the trials at one load, by length (full: at least the goal's final trial duration) and loss (high: above the
/// goal's loss ratio), in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DurationSums {
    /// Full-length low-loss trials.
    pub full_low_ns: u64,
    /// Full-length high-loss trials.
    pub full_high_ns: u64,
    /// Short low-loss trials.
    pub short_low_ns: u64,
    /// Short high-loss trials.
    pub short_high_ns: u64,
}

impl DurationSums {
    /// Adds a trial.
    pub fn add(&mut self, trial: &Trial, loss_ratio: f64, final_trial_ns: u64) {
        let is_full = trial.duration_ns >= final_trial_ns;
        let is_high = trial.loss_ratio() > loss_ratio;
        let sum_ns = match (is_full, is_high) {
            (true, false) => &mut self.full_low_ns,
            (true, true) => &mut self.full_high_ns,
            (false, false) => &mut self.short_low_ns,
            (false, true) => &mut self.short_high_ns,
        };
        *sum_ns = sum_ns.saturating_add(trial.duration_ns);
    }

    /// The load classification of RFC 9971, as its text and the appendix "Load Classification Code" have it.
    ///
    /// Short high-loss trials count as far as short low-loss ones do not balance them; short low-loss trials count for nothing
    /// else. What is missing to the duration sum is taken as all low-loss (the optimist) and as all high-loss (the pessimist): an
    /// upper bound exceeds even for the optimist, a lower bound does not even for the pessimist.
    pub fn classify(&self, exceed_ratio: f64, duration_sum_ns: u64) -> LoadClass {
        let balancing_ns = self.short_low_ns as f64 * exceed_ratio / (1.0 - exceed_ratio);
        let excess_ns = (self.short_high_ns as f64 - balancing_ns).max(0.0);
        let high_ns = self.full_high_ns as f64 + excess_ns;
        let whole_ns = (self.full_low_ns as f64 + high_ns).max(duration_sum_ns as f64);
        let allowed_ns = whole_ns * exceed_ratio;
        if high_ns > allowed_ns {
            LoadClass::Upper
        } else if whole_ns - self.full_low_ns as f64 <= allowed_ns {
            LoadClass::Lower
        } else {
            LoadClass::Undecided
        }
    }
}

/// The conditional throughput at the load of these trials (RFC 9971, "Conditional Throughput Logic"), in packets per second:
/// the load less the loss ratio at the `1 - exceed_ratio` quantile of trial time, over full-length trials in the order of loss.
/// `None` without any.
pub fn conditional_throughput_pps(trials: &[Trial], exceed_ratio: f64, final_trial_ns: u64) -> Option<f64> {
    let mut full: Vec<&Trial> = trials.iter().filter(|trial| trial.duration_ns >= final_trial_ns).collect();
    full.sort_by(|a, b| a.loss_ratio().total_cmp(&b.loss_ratio()));
    let sum_ns: f64 = full.iter().map(|trial| trial.duration_ns as f64).sum();
    let mut remaining_ns = sum_ns * (1.0 - exceed_ratio);
    let mut quantile = *full.first()?;
    for trial in full {
        if remaining_ns <= 0.0 {
            break;
        }
        quantile = trial;
        remaining_ns -= trial.duration_ns as f64;
    }
    Some(quantile.forwarding_rate_pps())
}
