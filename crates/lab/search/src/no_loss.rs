//! A load without loss, strictly: the highest of a few loads that one whole trial carries without losing a single packet.
//!
//! The throughput of RFC 2544 section 26.1 wants trials without any loss. On a machine whose cores are taken away now and then a bisection for
//! it closes in on chance. This procedure tries shares of a rate that was found by other means, the highest first, and stops at the first
//! that passes. So it says what was carried without loss and for how long, and nothing about loads in between.

use crate::{GoalError, Load, Trial, TrialError};

/// The trials, from the highest load downwards.
#[derive(Debug, Clone)]
pub struct NoLoss {
    loads: Vec<Load>,
    trials: Vec<Trial>,
}

impl NoLoss {
    /// At these shares of a load, in this order, with trials of `duration_ns`. Shares below 1 packet per second are left out.
    ///
    /// # Errors
    /// When no load is left, or a trial would send no packet.
    pub fn new(load: Load, shares: &[f64], duration_ns: u64) -> Result<Self, GoalError> {
        let at = |share: &f64| Load::from_pps((load.pps() as f64 * share) as u64);
        let loads: Vec<Load> = shares.iter().map(at).filter(|load| load.pps() > 0).collect();
        let Some(minimum) = loads.iter().min().copied() else { return Err(GoalError::ZeroMinimum) };
        if u128::from(minimum.pps()) * u128::from(duration_ns) < 1_000_000_000 {
            return Err(GoalError::EmptyTrial { minimum, duration_ns });
        }
        Ok(Self { loads, trials: Vec::new() })
    }

    /// The load to try next, or `None` at the end.
    pub fn next(&self) -> Option<Load> {
        if self.found().is_some() { None } else { self.loads.get(self.trials.len()).copied() }
    }

    /// Takes the result of a trial at [`NoLoss::next`].
    ///
    /// # Errors
    /// A trial whose numbers cannot be of one trial is refused and nothing changes.
    pub fn record(&mut self, trial: Trial) -> Result<(), TrialError> {
        trial.check()?;
        self.trials.push(trial);
        Ok(())
    }

    /// The load that was carried without loss: every intended packet was sent and delivered.
    pub fn found(&self) -> Option<Load> {
        self.trials.last().filter(|trial| trial.unsent == 0 && trial.lost == 0).map(|trial| trial.load)
    }

    /// Every trial so far, in order.
    pub fn trials(&self) -> &[Trial] {
        &self.trials
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(load: Load, lost: u64, unsent: u64) -> Trial {
        Trial { load, duration_ns: 500_000_000, intended: load.pps() / 2, unsent, lost, lost_in_interruptions: 0 }
    }

    #[test]
    fn the_first_share_that_loses_nothing_is_the_result() {
        let mut search = NoLoss::new(Load::from_pps(800_000), &[1.0, 0.75, 0.5], 500_000_000).expect("loads");
        for (expected, lost, unsent) in [(800_000, 1, 0), (600_000, 0, 1), (400_000, 0, 0)] {
            assert_eq!(search.found(), None);
            let load = search.next().expect("a load");
            assert_eq!(load.pps(), expected);
            search.record(trial(load, lost, unsent)).expect("a trial");
        }
        assert_eq!((search.next(), search.found()), (None, Some(Load::from_pps(400_000))));
        assert_eq!(search.trials().len(), 3);
    }

    #[test]
    fn where_every_share_loses_there_is_no_figure() {
        let mut search = NoLoss::new(Load::from_pps(1_000), &[1.0], 500_000_000).expect("loads");
        search.record(trial(Load::from_pps(1_000), 1, 0)).expect("a trial");
        assert_eq!((search.next(), search.found()), (None, None));
        assert!(search.record(trial(Load::from_pps(1_000), 501, 0)).is_err(), "more lost than intended");
    }

    #[test]
    fn loads_without_packets_are_refused() {
        assert!(NoLoss::new(Load::from_pps(0), &[1.0], 1_000_000_000).is_err());
        assert!(NoLoss::new(Load::from_pps(10), &[], 1_000_000_000).is_err());
        assert!(NoLoss::new(Load::from_pps(10), &[1.0], 1_000_000).is_err());
    }
}
