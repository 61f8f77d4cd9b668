//! The estimate against the search itself, on devices made up for it.

use linerate_experiment::{Experiment, LossGoal, Search, TestKind};
use linerate_search::mlr::{Goal, Limits, Order, Search as MlrSearch};
use linerate_search::{Load, Trial};
use linerate_testbed::dut::parse;

fn shipped(text: &str) -> Experiment {
    parse(text, "x.toml").unwrap_or_else(|errors| panic!("{errors}"))
}

/// The experiment with nothing but its throughput test, in one cell.
fn throughput_only(mut experiment: Experiment) -> Experiment {
    experiment.tests.truncate(1);
    experiment.repetitions = 1;
    experiment.duts.truncate(1);
    experiment.sizes.truncate(1);
    experiment.flows.truncate(1);
    experiment.directions.truncate(1);
    experiment.published.clear();
    experiment
}

fn goal(goal: &LossGoal) -> Goal {
    Goal {
        name: goal.name.clone(),
        loss_ratio: goal.loss_ratio,
        exceed_ratio: goal.exceed_ratio,
        initial_trial_ns: goal.initial_trial_ns,
        final_trial_ns: goal.final_trial_ns,
        duration_sum_ns: goal.duration_sum_ns,
        width: goal.width,
        outside_interruptions: goal.outside_interruptions,
    }
}

/// Trials and nanoseconds that the search sends on a device that carries `capacity_pps` and begins to lose at nine tenths of it.
fn searched(goals: &[LossGoal], capacity_pps: f64, early_loss_ratio: f64) -> (u64, u64) {
    let limits = Limits::new(Load::from_pps(1_000), Load::from_pps(2_000_000));
    let mut search = MlrSearch::new(limits, goals.iter().map(goal).collect()).expect("goals that a search takes");
    while let Some(Order { load, duration_ns }) = search.next() {
        let intended = load.pps() as f64 * duration_ns as f64 / 1e9;
        let carried = capacity_pps * duration_ns as f64 / 1e9;
        let early = if load.pps() as f64 > 0.9 * capacity_pps { early_loss_ratio * intended } else { 0.0 };
        let lost = (intended - carried).max(early) as u64;
        let trial = Trial { load, duration_ns, intended: intended as u64, unsent: 0, lost, lost_in_interruptions: 0 };
        search.record(trial).expect("a trial that balances");
    }
    (search.records().len() as u64, search.trial_time_ns())
}

#[test]
fn searches_take_about_as_long_as_estimated() {
    for text in [
        include_str!("../../../../experiments/quick.toml"),
        include_str!("../../../../experiments/linux-router-2019.toml"),
        include_str!("../../../../experiments/full-rfc2544.toml"),
    ] {
        let experiment = throughput_only(shipped(text));
        let TestKind::Throughput { search: Search::Mlr { goals }, .. } = &experiment.tests[0].kind else {
            panic!("no search")
        };
        let estimate = experiment.estimate();
        let (mut trials, mut sending_ns, mut devices) = (0, 0, 0);
        for capacity_pps in [90e3, 333e3, 612e3, 1.1e6, 1.7e6] {
            for early_loss_ratio in [0.0, 0.001, 0.02] {
                let found = searched(goals, capacity_pps, early_loss_ratio);
                (trials, sending_ns, devices) = (trials + found.0, sending_ns + found.1, devices + 1);
            }
        }
        let mean = (trials as f64 / devices as f64, sending_ns as f64 / devices as f64 / 1e9);
        let estimated = (estimate.trials as f64, estimate.sending_ns as f64 / 1e9);
        let fits = |mean: f64, estimated: f64| (1.0..2.0).contains(&(estimated / mean));
        assert!(fits(mean.0, estimated.0), "{}: {mean:?} searched, {estimated:?} estimated", experiment.name);
        assert!(fits(mean.1, estimated.1), "{}: {mean:?} searched, {estimated:?} estimated", experiment.name);
    }
}
