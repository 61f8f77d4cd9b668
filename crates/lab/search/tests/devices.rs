//! The search against devices whose loss curves are known.

use super::common;

use common::drive::Drive;
use common::{curve, disturbed, livelock, sharp, soft};
use linerate_search::{Goal, Limit, Load, Outcome, Reason, Search, Stop, Trial};
use proptest::prelude::*;
use std::convert::Infallible;

fn goal() -> Goal {
    Goal::new(Load::from_pps(1_000), Load::from_pps(20_000_000))
}

fn search(goal: Goal, mut device: impl FnMut(Load, u64) -> Result<Trial, Infallible>) -> Outcome {
    Search::new(goal).unwrap().run(&mut device, |_| ()).unwrap()
}

/// The bounds hold the true rate and are as close as asked for.
fn assert_found(outcome: &Outcome, capacity_pps: f64) {
    let (lower, upper) = (outcome.lower.unwrap(), outcome.upper.unwrap());
    assert_eq!(outcome.stop, Stop::Resolved, "{outcome:?}");
    assert!(
        lower.pps() as f64 <= capacity_pps && (upper.pps() as f64) > capacity_pps,
        "{lower} {upper} {capacity_pps}"
    );
    let width_pps = upper.pps() - lower.pps();
    assert!(
        width_pps <= 1 || (width_pps as f64) < outcome.goal.resolution * upper.pps() as f64 + 1.0,
        "{lower} {upper}"
    );
}

#[test]
fn sharp_knee_takes_three_or_four_trials() {
    for capacity_pps in [5_000.0, 333_333.3, 1_488_095.2, 7_654_321.0] {
        let outcome = search(goal(), sharp(capacity_pps));
        assert_found(&outcome, capacity_pps);
        assert!(outcome.trials.len() <= 4, "{capacity_pps}: {:#?}", outcome.trials);
        assert_eq!(outcome.limit, Limit::Loss);
        assert!(!outcome.irregular && outcome.overturned == 0);
    }
}

#[test]
fn hint_saves_the_trial_at_the_maximum() {
    let outcome = search(Goal { hint: Some(Load::from_pps(1_500_000)), ..goal() }, sharp(1_500_000.0));
    assert_found(&outcome, 1_500_000.0);
    assert_eq!(outcome.trials.len(), 2, "{:#?}", outcome.trials);
    assert_eq!(outcome.trials[0].step.unwrap().reason, Reason::Hint);
}

#[test]
fn trial_made_before_is_the_starting_point() {
    let mut device = sharp(1_500_000.0);
    let mut search = Search::new(goal()).unwrap();
    search.record(device(Load::from_pps(50_000_000), 1_000_000_000).unwrap()).unwrap();
    assert_eq!(search.next_step().unwrap().reason, Reason::Received);
    let outcome = search.run(&mut device, |_| ()).unwrap();
    assert_found(&outcome, 1_500_000.0);
    assert!(outcome.trials.len() <= 4);
    assert_eq!(outcome.trials[0].step, None);
}

#[test]
fn device_faster_than_the_maximum() {
    let outcome = search(goal(), sharp(1e9));
    assert_eq!((outcome.stop, outcome.limit, outcome.trials.len()), (Stop::MaximumPassed, Limit::Maximum, 1));
    assert_eq!((outcome.lower, outcome.upper), (Some(Load::from_pps(20_000_000)), None));
    // The same when the search comes from below, and when a load beyond the maximum is known to fail.
    let outcome = search(Goal { hint: Some(Load::from_pps(1_000_000)), ..goal() }, sharp(1e9));
    assert_eq!((outcome.stop, outcome.lower), (Stop::MaximumPassed, Some(Load::from_pps(20_000_000))));
    let mut from_beyond = Search::new(goal()).unwrap();
    let mut device = sharp(25_000_000.0);
    from_beyond.record(device(Load::from_pps(50_000_000), 1_000_000_000).unwrap()).unwrap();
    let outcome = from_beyond.run(&mut device, |_| ()).unwrap();
    assert_eq!((outcome.stop, outcome.lower), (Stop::MaximumPassed, Some(Load::from_pps(20_000_000))));
}

#[test]
fn device_that_carries_nothing() {
    let outcome = search(goal(), curve(|_| 0.0));
    assert_eq!((outcome.stop, outcome.lower), (Stop::MinimumFailed, None));
    assert_eq!(outcome.upper, Some(Load::from_pps(1_000)));
    assert!(outcome.trials.len() <= 3, "{:#?}", outcome.trials);
}

#[test]
fn tester_that_cannot_send_is_named_as_the_limit() {
    let device = |load: Load, duration_ns| -> Result<Trial, Infallible> {
        let unsent = load.pps().saturating_sub(3_000_000);
        Ok(Trial { load, duration_ns, intended: load.pps(), unsent, lost: 0, lost_in_interruptions: 0 })
    };
    let outcome = search(goal(), device);
    assert_found(&outcome, 3_000_000.0);
    assert_eq!(outcome.limit, Limit::Tester);
}

#[test]
fn loss_ratio_goal_is_honoured() {
    // Loses 0.9 % of what exceeds 1 Mpps: that is 0.5 % of everything at 2.25 Mpps = 1 Mpps / (1 - 0.005 / 0.009).
    let outcome = search(Goal { loss_ratio: 0.005, ..goal() }, soft(1e6, 0.009));
    assert_found(&outcome, 2_250_000.0);
    let strict = search(goal(), soft(1e6, 0.009));
    assert!(strict.upper.unwrap() < Load::from_pps(1_020_000), "{strict:?}");
}

#[test]
fn strict_search_believes_a_disturbance_and_a_confirming_one_does_not() {
    let device = || disturbed(sharp(5e6), 1..2, 3);
    let strict = search(goal(), device());
    assert!(strict.upper.unwrap() < Load::from_pps(5_000_000), "{strict:?}");
    let confirming = search(Goal { confirmations: 1, ..goal() }, device());
    assert_found(&confirming, 5e6);
    assert_eq!(confirming.overturned, 1);
    assert_eq!(confirming.trials[2].step.unwrap().reason, Reason::Confirmation);
}

#[test]
fn long_disturbance_is_found_by_the_last_look_and_marked_irregular() {
    // Trials 1 and 2 (the first guess and its confirmation) are spoilt; the device carries five times what then fails.
    let goal = Goal { confirmations: 1, hint: Some(Load::from_pps(1_000_000)), ..goal() };
    let outcome = search(goal, disturbed(sharp(5e6), 0..2, 20_000));
    assert_found(&outcome, 5e6);
    assert!(outcome.irregular);
    assert_eq!(outcome.overturned, 2);
    assert!(outcome.trials.iter().any(|record| record.step.unwrap().reason == Reason::LastLook));
}

#[test]
fn obvious_loss_is_not_confirmed() {
    let outcome = search(Goal { confirmations: 3, ..goal() }, sharp(1_000_000.0));
    let at_maximum = outcome.trials.iter().filter(|record| record.trial.load.pps() == 20_000_000).count();
    assert_eq!(at_maximum, 1);
    assert_found(&outcome, 1_000_000.0);
}

#[test]
fn failure_of_the_measurer_ends_the_search_and_keeps_the_bounds() {
    let mut trials = 0;
    let mut device = |load: Load, duration_ns| {
        trials += 1;
        let lost = load.pps().saturating_sub(1_000_000);
        if trials < 3 {
            Ok(Trial { load, duration_ns, intended: load.pps(), unsent: 0, lost, lost_in_interruptions: 0 })
        } else {
            Err("cable pulled")
        }
    };
    let mut search = Search::new(goal()).unwrap();
    assert_eq!(search.run(&mut device, |_| ()), Err("cable pulled"));
    let outcome = search.outcome();
    assert_eq!((outcome.stop, outcome.trials.len()), (Stop::NotEnded, 2));
    assert!(outcome.lower.is_some() && outcome.upper.is_some());
}

#[test]
fn trials_that_cannot_be_are_refused() {
    let mut search = Search::new(goal()).unwrap();
    let load = Load::from_pps(1_000);
    let trial =
        |intended, unsent, lost| Trial { load, duration_ns: 1, intended, unsent, lost, lost_in_interruptions: 0 };
    assert!(search.record(trial(0, 0, 0)).is_err());
    assert!(search.record(trial(10, 6, 5)).is_err());
    assert!(search.record(trial(10, u64::MAX, u64::MAX)).is_err());
    assert!(search.records().is_empty());
    assert!(search.record(trial(10, 5, 5)).is_ok());
}

#[test]
fn goals_that_cannot_be_are_refused() {
    let at = Load::from_pps;
    for goal in [
        Goal::new(at(0), at(10)),
        Goal::new(at(11), at(10)),
        Goal { duration_ns: 1_000, ..Goal::new(at(10), at(100)) },
        Goal { resolution: 0.0, ..goal() },
        Goal { resolution: f64::NAN, ..goal() },
        Goal { loss_ratio: -0.1, ..goal() },
        Goal { loss_ratio: f64::NAN, ..goal() },
        Goal { confirm_below_loss_ratio: 2.0, ..goal() },
        Goal { trials_max: 0, ..goal() },
    ] {
        let error = Search::new(goal).map(|_| ()).unwrap_err();
        assert!(!error.to_string().is_empty());
    }
}

#[test]
fn trials_are_bounded_when_the_device_makes_no_sense() {
    let mut trials = 0;
    let device = |load: Load, duration_ns| -> Result<Trial, Infallible> {
        trials += 1;
        // Fails and passes by turns, and answers for another load than was asked.
        let load = Load::from_pps(load.pps() / 2 + 1);
        Ok(Trial {
            load,
            duration_ns,
            intended: 1_000,
            unsent: 0,
            lost: u64::from(trials % 2 == 0),
            lost_in_interruptions: 0,
        })
    };
    let outcome = search(Goal { trials_max: 30, confirmations: 2, ..goal() }, device);
    assert!(outcome.trials.len() <= 30);
}

#[test]
fn progress_is_called_after_each_trial_and_bounds_only_close_in() {
    let mut widths = Vec::new();
    let mut search = Search::new(Goal { hint: Some(Load::from_pps(3_000)), ..goal() }).unwrap();
    let outcome = search
        .run(&mut soft(5e6, 0.5), |search| {
            let bounds = search.bounds();
            widths.push(bounds.upper.map_or(u64::MAX, Load::pps) - bounds.lower.map_or(0, Load::pps));
        })
        .unwrap();
    assert_eq!(widths.len(), outcome.trials.len());
    assert!(widths.windows(2).all(|pair| pair[1] < pair[0]), "{widths:?}");
}

fn any_goal() -> impl Strategy<Value = Goal> {
    (1u64..1_000_000, 1.0f64..1e6, 0.0005f64..0.2, prop::option::of(1u64..u64::MAX / 2)).prop_map(
        |(minimum, range, resolution, hint)| {
            let maximum = (minimum as f64 * range) as u64;
            Goal {
                resolution,
                hint: hint.map(Load::from_pps),
                trials_max: 1_000,
                ..Goal::new(Load::from_pps(minimum), Load::from_pps(maximum.max(minimum)))
            }
        },
    )
}

/// A goal, a capacity strictly inside its range, and a hint that is near it, or anywhere.
fn goal_and_capacity() -> impl Strategy<Value = (Goal, f64)> {
    (any_goal(), 0.0f64..1.0, prop::option::of(0.5f64..2.0)).prop_map(|(mut goal, place, hint)| {
        let (minimum, maximum) = (goal.minimum.pps() as f64, goal.maximum.pps() as f64);
        let capacity_pps = minimum * (maximum / minimum).powf(place);
        if let Some(factor) = hint {
            goal.hint = Some(Load::from_pps((capacity_pps * factor) as u64));
        }
        (goal, capacity_pps)
    })
}

fn check_any_device(goal: Goal, capacity_pps: f64, device: impl FnMut(Load, u64) -> Result<Trial, Infallible>) {
    let outcome = search(goal, device);
    assert!(
        outcome.trials.len() <= goal.trials_expected_max() as usize,
        "{} trials of {}",
        outcome.trials.len(),
        goal.trials_expected_max()
    );
    assert!(outcome.trials.iter().all(|record| (goal.minimum..=goal.maximum).contains(&record.trial.load)));
    assert!(!outcome.irregular);
    if capacity_pps >= goal.maximum.pps() as f64 {
        assert_eq!(outcome.stop, Stop::MaximumPassed);
    } else if capacity_pps < goal.minimum.pps() as f64 {
        assert_eq!(outcome.stop, Stop::MinimumFailed);
    } else {
        assert_found(&outcome, capacity_pps);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn sharp_devices_are_found((goal, capacity_pps) in goal_and_capacity()) {
        check_any_device(goal, capacity_pps, sharp(capacity_pps));
    }

    #[test]
    fn soft_devices_are_found((goal, capacity_pps) in goal_and_capacity(), lost_share in 0.0001f64..1.0) {
        check_any_device(goal, capacity_pps, soft(capacity_pps, lost_share));
    }

    #[test]
    fn livelocked_devices_are_found((goal, capacity_pps) in goal_and_capacity()) {
        check_any_device(goal, capacity_pps, livelock(capacity_pps));
    }

    #[test]
    fn one_spoilt_trial_does_not_move_a_confirmed_result(
        (goal, capacity_pps) in goal_and_capacity(),
        spoilt in 0usize..40,
        packets in 1u64..1_000_000,
    ) {
        let goal = Goal { confirmations: 1, confirm_below_loss_ratio: 1.0, ..goal };
        let outcome = search(goal, disturbed(sharp(capacity_pps), spoilt..spoilt + 1, packets));
        if outcome.stop == Stop::Resolved {
            // A trial that lost everything is never repeated, whatever the limit: such a load is left out here.
            let hopeless = outcome.trials.get(spoilt).is_some_and(|record| record.trial.delivered() == 0);
            if !hopeless {
                assert_found(&outcome, capacity_pps);
            }
        }
    }

    #[test]
    fn a_passing_lower_bound_is_always_a_trial_that_passed(
        (goal, _) in goal_and_capacity(),
        confirmations in 0u32..3,
        losses in prop::collection::vec(0u64..5, 1..60),
    ) {
        let mut losses = losses.into_iter().cycle();
        let device = |load: Load, duration_ns| -> Result<Trial, Infallible> {
            let lost = losses.next().unwrap_or(0).saturating_sub(3);
            Ok(Trial { load, duration_ns, intended: load.pps().max(2), unsent: 0, lost, lost_in_interruptions: 0 })
        };
        let goal = Goal { confirmations, ..goal };
        let outcome = search(goal, device);
        if let Some(lower) = outcome.lower {
            prop_assert!(outcome.trials.iter().any(|record| record.passed && record.trial.load == lower));
        }
        if let (Some(lower), Some(upper)) = (outcome.lower, outcome.upper) {
            prop_assert!(lower < upper);
        }
        if goal.is_strict() {
            prop_assert_eq!(outcome.overturned, 0);
        }
        prop_assert!(outcome.stop != Stop::NotEnded);
    }

    #[test]
    fn asking_twice_gives_the_same_load((goal, capacity_pps) in goal_and_capacity()) {
        let mut device = sharp(capacity_pps);
        let mut search = Search::new(goal).unwrap();
        while let Some(load) = search.next() {
            prop_assert_eq!(search.next(), Some(load));
            search.record(device(load, goal.duration_ns).unwrap()).unwrap();
        }
    }
}
