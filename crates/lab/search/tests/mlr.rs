//! MLRsearch on single devices: limits, irregular results, unasked trials, errors.

use super::common;

use common::drive::Drive;
use common::{curve, sharp, soft};
use linerate_search::mlr::{Goal, Limits, Order, Outcome, Reason, Search};
use linerate_search::{Limit, Load, Stop, Trial};
use proptest::prelude::*;
use std::convert::Infallible;

const SECOND_NS: u64 = 1_000_000_000;

fn limits() -> Limits {
    Limits::new(Load::from_pps(1_000), Load::from_pps(20_000_000))
}

fn search(goals: Vec<Goal>, mut device: impl FnMut(Load, u64) -> Result<Trial, Infallible>) -> Outcome {
    Search::new(limits(), goals).unwrap().run(&mut device, |_| ()).unwrap()
}

fn trial(load_pps: u64, seconds: u64, lost: u64) -> Trial {
    let load = Load::from_pps(load_pps);
    Trial {
        load,
        duration_ns: seconds * SECOND_NS,
        intended: load_pps * seconds,
        unsent: 0,
        lost,
        lost_in_interruptions: 0,
    }
}

#[test]
fn two_goals_take_little_more_than_their_four_bounds() {
    let outcome = search(vec![Goal::ndr(), Goal::pdr()], sharp(1_234_567.0));
    // 11 trials of 1 s decide a load; here one load is the upper bound of the one goal and the lower of the other.
    assert!(outcome.trials.len() <= 3 * 11 + 6, "{} trials", outcome.trials.len());
    let [ndr, pdr] = &outcome.goals[..] else { panic!("two goals") };
    assert!(ndr.lower.unwrap().pps() <= 1_234_567 && ndr.upper.unwrap().pps() > 1_234_567);
    let pdr_pps = 1_234_567.0 / 0.995;
    assert!(pdr.lower.unwrap().pps() as f64 <= pdr_pps && pdr.upper.unwrap().pps() as f64 >= pdr_pps);
    for found in [ndr, pdr] {
        assert!(found.is_regular() && !found.irregular && found.limit == Limit::Loss, "{found:#?}");
        assert!(found.width().unwrap() <= 0.005);
    }
    assert_eq!(ndr.conditional_pps, Some(ndr.lower.unwrap().pps() as f64));
    assert_eq!(outcome.trial_time_ns, outcome.trials.len() as u64 * SECOND_NS);
}

#[test]
fn strict_goal_spends_one_long_trial_on_a_steady_device() {
    let outcome = search(vec![Goal::rfc2544()], sharp(1_234_567.0));
    let long = outcome.trials.iter().filter(|record| record.trial.duration_ns == 60 * SECOND_NS);
    assert_eq!(long.count(), 1);
    assert!(outcome.goals[0].is_regular());
    assert!(outcome.trials.iter().all(|record| record.step.is_some_and(|step| step.goal == 0)));
}

#[test]
fn initial_duration_equal_to_the_final_one_makes_only_full_trials() {
    let strict = Goal { initial_trial_ns: 60 * SECOND_NS, ..Goal::rfc2544() };
    let outcome = search(vec![strict], sharp(1_234_567.0));
    assert!(outcome.trials.iter().all(|record| record.trial.duration_ns == 60 * SECOND_NS));
    assert!(outcome.goals[0].is_regular());
    assert!(outcome.trials.len() <= 6, "{}", outcome.trials.len());
}

#[test]
fn goals_beyond_the_limits_say_so() {
    let outcome = search(vec![Goal::ndr(), Goal::pdr()], sharp(1e9));
    for found in &outcome.goals {
        assert_eq!((found.stop, found.limit, found.upper), (Stop::MaximumPassed, Limit::Maximum, None));
        assert_eq!(found.lower, Some(limits().maximum));
        assert!(!found.is_regular());
    }
    // Loses 0.1 % at any load: the strict goal has no lower bound, the other no upper one.
    let outcome = search(vec![Goal::ndr(), Goal::pdr()], curve(|load_pps| 0.999 * load_pps));
    assert_eq!((outcome.goals[0].stop, outcome.goals[0].lower), (Stop::MinimumFailed, None));
    assert_eq!(outcome.goals[0].upper, Some(limits().minimum));
    assert_eq!(outcome.goals[1].stop, Stop::MaximumPassed);
}

/// A buffer hides an excess for a while: what 1 s carries, 60 s do not.
#[test]
fn long_trials_that_lose_where_short_ones_do_not_are_believed_at_once() {
    for buffer in [1_000, 40_000, 1_000_000, 5_000_000] {
        let device = |load: Load, duration_ns: u64| -> Result<Trial, Infallible> {
            let packets = |pps| pps * duration_ns / SECOND_NS;
            let (intended, excess) = (packets(load.pps()), packets(load.pps().saturating_sub(1_000_000)));
            let lost = excess.saturating_sub(buffer).min(intended);
            Ok(Trial { load, duration_ns, intended, unsent: 0, lost, lost_in_interruptions: 0 })
        };
        let outcome = search(vec![Goal::rfc2544()], device);
        let limit_pps = 1_000_000 + buffer / 60;
        let found = &outcome.goals[0];
        assert!(found.lower.unwrap().pps() <= limit_pps && found.upper.unwrap().pps() > limit_pps, "{found:#?}");
        assert!(found.is_regular());
        // Halving takes 13 trials of 60 s.
        assert!(outcome.trial_time_ns <= 4 * 60 * SECOND_NS, "{buffer}: {}", outcome.trial_time_ns);
    }
}

#[test]
fn a_lower_bound_above_an_upper_one_marks_the_result_and_is_not_reported() {
    let mut search = Search::new(limits(), vec![Goal::rfc2544()]).unwrap();
    for (load_pps, lost) in [(1_000_000, 0), (1_004_000, 1), (1_100_000, 0)] {
        search.record(trial(load_pps, 60, lost)).unwrap();
    }
    assert_eq!(search.next(), None);
    let outcome = search.outcome();
    let found = &outcome.goals[0];
    assert_eq!((found.lower, found.upper), (Some(Load::from_pps(1_000_000)), Some(Load::from_pps(1_004_000))));
    assert!(found.irregular && found.stop == Stop::Resolved);
}

#[test]
fn trials_made_before_count() {
    let mut device = soft(1e6, 0.5);
    let mut search = Search::new(limits(), vec![Goal::ndr()]).unwrap();
    search.record(device(Load::from_pps(50_000_000), SECOND_NS).unwrap()).unwrap();
    assert!(search.records()[0].step.is_none());
    assert_eq!(search.next_step().unwrap().reason, Reason::Received);
    let outcome = search.run(&mut device, |_| ()).unwrap();
    assert!(outcome.goals[0].is_regular());
    assert!(outcome.trials[1..].iter().all(|record| record.trial.load <= limits().maximum));
}

#[test]
fn duration_that_was_rounded_still_answers_the_order() {
    let mut device = sharp(3e6);
    let mut rounded =
        |load, duration_ns| device(load, duration_ns).map(|trial| Trial { duration_ns: duration_ns - 1_000, ..trial });
    let outcome = Search::new(limits(), vec![Goal::rfc2544()]).unwrap().run(&mut rounded, |_| ()).unwrap();
    assert!(outcome.goals[0].is_regular());
    assert!(outcome.goals[0].conditional_pps.is_some());
}

#[test]
fn limits_of_trials_and_time_end_the_search() {
    let by_trials = Limits { trials_max: 7, ..limits() };
    let outcome = Search::new(by_trials, vec![Goal::ndr()]).unwrap().run(&mut sharp(3e6), |_| ()).unwrap();
    assert_eq!((outcome.trials.len(), outcome.goals[0].stop), (7, Stop::TrialsUsedUp));
    let by_time = Limits { duration_max_ns: 9 * SECOND_NS, ..limits() };
    let outcome = Search::new(by_time, vec![Goal::ndr()]).unwrap().run(&mut sharp(3e6), |_| ()).unwrap();
    assert_eq!((outcome.trial_time_ns, outcome.goals[0].stop), (9 * SECOND_NS, Stop::TrialsUsedUp));
}

#[test]
fn estimates_are_there_before_bounds_are() {
    let mut search = Search::new(limits(), vec![Goal::ndr(), Goal::pdr()]).unwrap();
    let mut device = sharp(3e6);
    for _ in 0..4 {
        let Order { load, duration_ns } = search.next().unwrap();
        search.record(device(load, duration_ns).unwrap()).unwrap();
    }
    assert_eq!((search.bounds(0).lower, search.bounds(0).upper), (None, None));
    let estimate = search.estimate(0);
    assert!(estimate.lower.unwrap().pps() <= 3_000_000 && estimate.upper.unwrap().pps() > 3_000_000);
    assert_eq!(search.outcome().goals[0].stop, Stop::NotEnded);
    assert_eq!(search.estimate(7).upper, None);
}

#[test]
fn failure_of_the_measurer_keeps_what_was_recorded() {
    let mut left = 5;
    let mut device = sharp(3e6);
    let mut failing = |load, duration_ns| {
        left -= 1;
        if left < 0 { Err("cable pulled") } else { Ok(device(load, duration_ns).unwrap()) }
    };
    let mut search = Search::new(limits(), vec![Goal::ndr()]).unwrap();
    assert_eq!(search.run(&mut failing, |_| ()).unwrap_err(), "cable pulled");
    assert_eq!(search.records().len(), 5);
    assert!(search.record(trial(1_000, 1, 1_001)).is_err());
    assert_eq!(search.records().len(), 5);
}

#[test]
fn goals_that_cannot_be_are_refused() {
    let at = Load::from_pps;
    let refused = [
        (limits(), vec![]),
        (Limits { trials_max: 0, ..limits() }, vec![Goal::ndr()]),
        (Limits::new(at(0), at(10)), vec![Goal::ndr()]),
        (Limits::new(at(11), at(10)), vec![Goal::ndr()]),
        (limits(), vec![Goal { initial_trial_ns: 1_000, ..Goal::ndr() }]),
        (limits(), vec![Goal::ndr(), Goal { loss_ratio: 1.0, ..Goal::ndr() }]),
        (limits(), vec![Goal { loss_ratio: f64::NAN, ..Goal::ndr() }]),
        (limits(), vec![Goal { exceed_ratio: 1.0, ..Goal::ndr() }]),
        (limits(), vec![Goal { exceed_ratio: -0.1, ..Goal::ndr() }]),
        (limits(), vec![Goal { width: 0.0, ..Goal::ndr() }]),
        (limits(), vec![Goal { width: 1.0, ..Goal::ndr() }]),
        (limits(), vec![Goal { initial_trial_ns: 0, ..Goal::ndr() }]),
        (limits(), vec![Goal { initial_trial_ns: 2 * SECOND_NS, ..Goal::ndr() }]),
        (limits(), vec![Goal { duration_sum_ns: SECOND_NS / 2, ..Goal::ndr() }]),
        (limits(), vec![Goal { duration_sum_ns: u64::MAX, ..Goal::ndr() }]),
    ];
    for (limits, goals) in refused {
        let error = Search::new(limits, goals.clone()).map(|_| ()).expect_err(&format!("{limits:?} {goals:?}"));
        assert!(!error.to_string().is_empty());
    }
}

fn any_goal() -> impl Strategy<Value = Goal> {
    let ratio = prop_oneof![Just(0.0), 0.0f64..0.99];
    (ratio.clone(), ratio, 1u64..20, 1u64..20, 1u64..40, 0.0005f64..0.9).prop_map(
        |(loss_ratio, exceed_ratio, initial, growth, more, width)| Goal {
            name: "any".to_owned(),
            loss_ratio,
            exceed_ratio,
            initial_trial_ns: initial * SECOND_NS / 4,
            final_trial_ns: initial * growth * SECOND_NS / 4,
            duration_sum_ns: initial * growth * more * SECOND_NS / 4,
            width,
            outside_interruptions: false,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever the goals and however senseless the device: orders stay within the limits, asking twice gives the same answer,
    /// the search ends, and what it calls bounds are loads that were tried.
    #[test]
    fn any_search_ends_within_its_limits(
        goals in prop::collection::vec(any_goal(), 1..4),
        minimum in 4u64..1_000_000,
        range in prop_oneof![Just(1.0), 1.0f64..1e6],
        losses in prop::collection::vec(0.0f64..1.0, 1..50),
    ) {
        let maximum = (minimum as f64 * range) as u64;
        let limits = Limits { trials_max: 400, ..Limits::new(Load::from_pps(minimum), Load::from_pps(maximum)) };
        let mut search = Search::new(limits, goals).unwrap();
        let mut losses = losses.into_iter().cycle();
        let unasked_pps = (maximum as f64 * 1.001) as u64 + 1;
        let unasked = Trial { load: Load::from_pps(unasked_pps), duration_ns: SECOND_NS, intended: 2, unsent: 0, lost: 1, lost_in_interruptions: 0 };
        search.record(unasked).unwrap();
        while let Some(order) = search.next() {
            prop_assert_eq!(search.next(), Some(order));
            prop_assert!((limits.minimum..=limits.maximum).contains(&order.load));
            let intended = (order.load.pps() * (order.duration_ns / 1_000_000) / 1_000).max(1);
            let lost = (losses.next().unwrap_or(0.0).powi(8) * intended as f64) as u64;
            search.record(Trial { load: order.load, duration_ns: order.duration_ns, intended, unsent: 0, lost, lost_in_interruptions: 0 }).unwrap();
        }
        let outcome = search.outcome();
        prop_assert!(outcome.trials.len() <= 400);
        for found in &outcome.goals {
            prop_assert!(found.stop != Stop::NotEnded);
            let was_tried = |load: Load| outcome.trials.iter().any(|record| record.trial.load == load);
            prop_assert!(found.lower.is_none_or(was_tried) && found.upper.is_none_or(was_tried));
            prop_assert!(found.lower.zip(found.upper).is_none_or(|(lower, upper)| lower < upper));
            prop_assert_eq!(found.lower.is_some(), found.conditional_pps.is_some());
        }
    }

    /// A steady device is found whatever the goal, and without the trials being used up.
    #[test]
    fn any_goal_is_found_on_a_steady_device(
        goals in prop::collection::vec(any_goal(), 1..4),
        capacity_pps in 2_000.0f64..1e7,
        lost_share in 0.001f64..1.0,
    ) {
        let outcome = search(goals, soft(capacity_pps, lost_share));
        for found in &outcome.goals {
            prop_assert!(found.is_regular() || found.stop == Stop::MaximumPassed, "{:#?}", found);
            prop_assert!(!found.irregular);
            // A packet more or less decides at the edge.
            let over_pps = lost_share * (found.lower.unwrap().pps() as f64 - capacity_pps);
            prop_assert!(over_pps <= found.goal.loss_ratio * found.lower.unwrap().pps() as f64 + 8.0, "{:#?}", found);
        }
    }
}
