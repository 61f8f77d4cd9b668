//! The procedures beside the throughput searches, against devices with known answers and figures computed by hand.

use super::common;

use common::drive::Drive;
use common::{curve, livelock, sharp, soft};
use linerate_search::back_to_back::{BackToBack, Burst, Bursts, Settings, buffer_time};
use linerate_search::frame_loss::FrameLoss;
use linerate_search::max_forwarding_rate::MaxForwardingRate;
use linerate_search::recovery::LoadDrop;
use linerate_search::{Load, PlanError, Statistics, Trial};
use proptest::prelude::*;
use std::convert::Infallible;

const MAXIMUM: Load = Load::from_pps(10_000_000);

#[test]
fn loss_curve_ends_after_two_trials_in_a_row_without_loss() {
    let mut frame_loss = FrameLoss::downwards(MAXIMUM, 0.1).unwrap();
    let found = frame_loss.run(&mut sharp(6.5e6), |_| ()).unwrap();
    let loads: Vec<u64> = found.trials.iter().map(|trial| trial.load.pps() / 1_000_000).collect();
    assert_eq!(loads, [10, 9, 8, 7, 6, 5]);
    assert!(found.is_complete);
    assert_eq!(found.trials[0].lost, 3_500_000);
    assert!(found.trials[3].lost > 0 && found.trials[4].lost == 0 && found.trials[5].lost == 0);
}

#[test]
fn loss_curve_of_a_device_that_always_loses_goes_to_the_lowest_load() {
    let found = FrameLoss::downwards(MAXIMUM, 0.1).unwrap().run(&mut soft(0.0, 0.5), |_| ()).unwrap();
    assert_eq!(found.trials.len(), 10);
    assert!(!found.is_complete);
    assert_eq!(found.trials[9].load, Load::from_pps(1_000_000));
}

#[test]
fn one_trial_without_loss_does_not_end_a_curve() {
    let mut lost = [1, 0, 1, 0, 0, 7].into_iter();
    let mut device = |load: Load, duration_ns| -> Result<Trial, Infallible> {
        Ok(Trial {
            load,
            duration_ns,
            intended: load.pps(),
            unsent: 0,
            lost: lost.next().unwrap(),
            lost_in_interruptions: 0,
        })
    };
    let found = FrameLoss::downwards(MAXIMUM, 0.1).unwrap().run(&mut device, |_| ()).unwrap();
    assert_eq!((found.trials.len(), found.is_complete), (5, true));
}

#[test]
fn unsent_packets_are_not_a_trial_without_loss() {
    let mut device = |load: Load, duration_ns| -> Result<Trial, Infallible> {
        Ok(Trial { load, duration_ns, intended: load.pps(), unsent: 1, lost: 0, lost_in_interruptions: 0 })
    };
    let found = FrameLoss::downwards(MAXIMUM, 0.05).unwrap().run(&mut device, |_| ()).unwrap();
    assert_eq!((found.trials.len(), found.is_complete), (20, false));
}

#[test]
fn given_loads_are_all_measured_in_order() {
    let loads = [3, 1, 2].map(Load::from_pps).to_vec();
    let found = FrameLoss::at(loads.clone()).unwrap().run(&mut sharp(1e6), |_| ()).unwrap();
    assert_eq!(found.trials.iter().map(|trial| trial.load).collect::<Vec<_>>(), loads);
}

#[test]
fn settings_that_cannot_be_are_refused() {
    assert!(FrameLoss::downwards(MAXIMUM, 0.2).is_err());
    assert!(FrameLoss::downwards(MAXIMUM, 0.0).is_err());
    assert!(FrameLoss::downwards(Load::from_pps(0), 0.1).is_err());
    assert!(FrameLoss::at(vec![]).is_err());
    assert!(MaxForwardingRate::new(MAXIMUM, 0.0).is_err());
    assert!(MaxForwardingRate::new(Load::from_pps(0), 0.1).is_err());
    assert!(BackToBack::new(Settings { burst_max: 0, step: 1, repetitions: 1 }).is_err());
    assert!(BackToBack::new(Settings { burst_max: 1, step: 0, repetitions: 1 }).is_err());
}

/// A buffer of `packets` that is emptied at `share` of the full rate holds a burst of `packets / (1 - share)`.
#[test]
fn corrected_buffer_time_is_that_of_the_buffer() {
    let (packets, full_rate_pps, share) = (1_000.0, 10e6, 0.75);
    let burst = packets / (1.0 - share);
    let time = buffer_time(burst, full_rate_pps, share * full_rate_pps).unwrap();
    assert!((time.implied_seconds - 400e-6).abs() < 1e-12);
    assert!((time.corrected_seconds - packets / full_rate_pps).abs() < 1e-12);
    assert_eq!(buffer_time(burst, full_rate_pps, full_rate_pps), None);
    assert_eq!(buffer_time(burst, f64::NAN, 1.0), None);
}

#[test]
fn bursts_of_several_repetitions() {
    let mut longest = [5_000, 5_003, 4_990, 5_000].into_iter();
    let mut limit = longest.next().unwrap();
    let settings = Settings { burst_max: 1_000_000, step: 1, repetitions: 4 };
    let mut back_to_back = BackToBack::new(settings).unwrap();
    let mut ended = 0;
    while let Some(packets) = back_to_back.next() {
        assert_eq!(back_to_back.next(), Some(packets));
        back_to_back.record(Burst { packets, lost: packets.saturating_sub(limit) }).unwrap();
        if back_to_back.outcome().longest.len() > ended {
            ended += 1;
            limit = longest.next().unwrap_or(0);
        }
    }
    let found = back_to_back.outcome();
    assert_eq!(found.longest, [5_000, 5_003, 4_990, 5_000]);
    let statistics = found.statistics.unwrap();
    assert_eq!((statistics.mean, statistics.minimum, statistics.maximum), (4_998.25, 4_990.0, 5_003.0));
    assert!((statistics.deviation - 5.678_908_345).abs() < 1e-6, "{}", statistics.deviation);
    assert!(!found.at_maximum);
    assert!(found.bursts.len() < 50, "{}", found.bursts.len());
    assert!(back_to_back.record(Burst { packets: 1, lost: 0 }).is_err());
}

/// Sends bursts to the end; `lost` says how many packets of a burst are lost.
fn bursts(settings: Settings, lost: impl Fn(u64) -> u64) -> Result<Bursts, PlanError> {
    let mut back_to_back = BackToBack::new(settings)?;
    while let Some(packets) = back_to_back.next() {
        back_to_back.record(Burst { packets, lost: lost(packets) })?;
    }
    Ok(back_to_back.outcome())
}

#[test]
fn bursts_at_the_ends_of_the_range() {
    let settings = Settings { burst_max: 777, step: 5, repetitions: 3 };
    let all = bursts(settings, |_| 0).unwrap();
    assert_eq!((all.longest, all.at_maximum, all.bursts.len()), (vec![777; 3], true, 3));
    let none = bursts(settings, |packets| packets).unwrap();
    assert_eq!((none.longest, none.at_maximum), (vec![0; 3], false));
    assert!(bursts(settings, |packets| packets + 1).is_err());
}

#[test]
fn an_overload_is_followed_by_half_of_it() {
    let throughput = Load::from_pps(1_000_000);
    let drop = LoadDrop::of(throughput, MAXIMUM);
    assert_eq!((drop.overload.pps(), drop.after.pps()), (1_100_000, 550_000));
    assert!(drop.is_overload(throughput));
    assert!(!LoadDrop::of(throughput, throughput).is_overload(throughput));
}

#[test]
fn statistics_of_few_values() {
    assert_eq!(Statistics::of(&[]), None);
    let one = Statistics::of(&[4.0]).unwrap();
    assert_eq!((one.count, one.mean, one.deviation), (1, 4.0, 0.0));
    let three = Statistics::of(&[2.0, 4.0, 6.0]).unwrap();
    assert_eq!((three.mean, three.deviation, three.minimum, three.maximum), (4.0, 2.0, 2.0, 6.0));
}

fn max_forwarding_rate(mut device: impl FnMut(Load, u64) -> Result<Trial, Infallible>) -> (f64, u64, usize) {
    let mut search = MaxForwardingRate::new(MAXIMUM, 0.01).unwrap();
    let found = search.run(&mut device, |_| ()).unwrap();
    assert_eq!(found.trials[0].load, MAXIMUM);
    let (rate_pps, load) = found.best.unwrap();
    (rate_pps, load.pps(), found.trials.len())
}

#[test]
fn maximum_forwarding_rate_of_a_device_that_never_loses_takes_one_trial() {
    assert_eq!(max_forwarding_rate(curve(|load_pps| load_pps)), (1e7, 10_000_000, 1));
}

#[test]
fn maximum_forwarding_rate_when_nothing_is_delivered() {
    let (rate_pps, _, trials) = max_forwarding_rate(curve(|_| 0.0));
    assert_eq!((rate_pps, trials), (0.0, 10));
}

#[test]
fn maximum_forwarding_rate_keeps_a_failure_of_the_measurer_apart() {
    let mut search = MaxForwardingRate::new(MAXIMUM, 0.01).unwrap();
    let error = search.run(&mut |_, _| Err("cable pulled"), |_| ()).unwrap_err();
    assert_eq!(error, "cable pulled");
    assert_eq!(search.outcome().best, None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_burst_length_is_found(limit in 0u64..2_000_000, burst_max in 1u64..1_000_000, step in 1u64..50, repetitions in 1u32..4) {
        let settings = Settings { burst_max, step, repetitions };
        let found = bursts(settings, |packets| packets.saturating_sub(limit)).unwrap();
        prop_assert_eq!(found.longest.len(), repetitions as usize);
        let true_longest = limit.min(burst_max);
        for longest in found.longest {
            prop_assert!(longest <= true_longest && true_longest - longest < step.max(1), "{} {}", longest, true_longest);
        }
        prop_assert_eq!(found.at_maximum, limit >= burst_max);
        prop_assert!(found.bursts.len() <= 45 * repetitions as usize);
    }

    /// Never above what is possible, and not more than the resolution below it.
    #[test]
    fn maximum_forwarding_rate_of_livelocked_and_saturated_devices(capacity_pps in 1e5f64..2e7, saturates: bool) {
        let (rate_pps, load_pps, trials) = if saturates {
            max_forwarding_rate(sharp(capacity_pps))
        } else {
            max_forwarding_rate(livelock(capacity_pps))
        };
        let possible_pps = capacity_pps.min(1e7);
        prop_assert!(rate_pps <= possible_pps + 1.0 && rate_pps >= 0.98 * possible_pps, "{} of {}", rate_pps, possible_pps);
        prop_assert!(load_pps as f64 <= 1.02 * possible_pps + 1.0, "{}", load_pps);
        prop_assert!(trials <= 30, "{}", trials);
    }
}
