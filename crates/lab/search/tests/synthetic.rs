//! MLRsearch against thousands of random devices with known answers: right bounds, in half the trial time of plain bisection or
//! less.
//!
//! The comparison is with RFC 2544 bisection done for the goals one after the other: the same minimum, maximum and width, and
//! each load tried for the goal's duration sum ([`made_up::bisection_times`]). It is helped twice: it halves geometrically
//! (arithmetic halving needs more trials below a tenth of the maximum), and disturbances never mislead it. The last column
//! compares with a bisection that leaves a load as soon as RFC 9971 lets it.
//!
//! `cargo test -p linerate-search --test synthetic -- --nocapture` prints the figures.

mod made_up;

use linerate_search::mlr::{Goal, GoalOutcome, Order, Outcome, Search};
use linerate_search::{Limit, Stop};
use made_up::{BisectionTimes, Device, KINDS, Kind, bisection_times};
use std::collections::BTreeMap;

fn search(device: &mut Device, goals: &[Goal]) -> Outcome {
    let limits = device.limits;
    let mut search = Search::new(limits, goals.to_vec()).unwrap();
    while let Some(Order { load, duration_ns }) = search.next() {
        search.record(device.measure(load, duration_ns).unwrap()).unwrap();
    }
    search.outcome()
}

/// The bounds are right: the lower load is likely to meet the goal, the upper one is not, and they are as close as asked for.
///
/// A load of which a tenth to nine tenths of the trials exceed may be classified as either; only soft devices have such loads.
fn assert_right(device: &Device, found: &GoalOutcome, about: &str) {
    let goal = &found.goal;
    let fails = |load| device.exceeds(goal, load).1 >= 0.1;
    let passes = |load| device.exceeds(goal, load).0 <= 0.9;
    assert!(found.lower.is_none_or(passes), "{about}: {found:#?}");
    assert!(found.upper.is_none_or(fails), "{about}: {found:#?}");
    match found.stop {
        Stop::Resolved => assert!(goal.is_resolved(found.lower.unwrap(), found.upper.unwrap()), "{about}"),
        Stop::MaximumPassed => assert_eq!(found.lower, Some(device.limits.maximum), "{about}"),
        Stop::MinimumFailed => assert_eq!(found.upper, Some(device.limits.minimum), "{about}"),
        Stop::TrialsUsedUp | Stop::NotEnded => panic!("{about}: {found:#?}"),
    }
    match found.limit {
        Limit::Maximum => assert_eq!(found.stop, Stop::MaximumPassed, "{about}"),
        Limit::Tester => assert_eq!(device.kind, Kind::Tester, "{about}"),
        Limit::Loss => assert_ne!(device.kind, Kind::Tester, "{about}"),
        Limit::Unknown => panic!("{about}: {found:#?}"),
    }
    if let (Some(conditional_pps), Some(lower)) = (found.conditional_pps, found.lower) {
        let least_pps = lower.pps() as f64 * (1.0 - goal.loss_ratio);
        assert!((least_pps - 1e-6..=lower.pps() as f64).contains(&conditional_pps), "{about}: {found:#?}");
    }
}

/// Trial times over many devices.
#[derive(Default)]
struct Times {
    devices: u64,
    ours_ns: u64,
    bisection: BisectionTimes,
    trials: usize,
    worst_ratio: f64,
}

impl Times {
    fn add(&mut self, outcome: &Outcome, bisection: BisectionTimes) {
        self.devices += 1;
        self.ours_ns += outcome.trial_time_ns;
        self.bisection += bisection;
        self.trials += outcome.trials.len();
        self.worst_ratio = self.worst_ratio.max(outcome.trial_time_ns as f64 / bisection.plain_ns as f64);
    }

    /// Trial time beside plain bisection.
    fn ratio(&self) -> f64 {
        self.ours_ns as f64 / self.bisection.plain_ns as f64
    }

    fn print(&self, name: &str) {
        let seconds = |ns: u64| ns as f64 / 1e9 / self.devices as f64;
        println!(
            "{name:9} {:6} devices: {:6.1} s in {:4.1} trials each; plain bisection {:7.1} s: {:4.1} % (worst {:5.1} %); deciding {:4.1} %",
            self.devices,
            seconds(self.ours_ns),
            self.trials as f64 / self.devices as f64,
            seconds(self.bisection.plain_ns),
            100.0 * self.ratio(),
            100.0 * self.worst_ratio,
            100.0 * self.ours_ns as f64 / self.bisection.deciding_ns as f64
        );
    }
}

/// Searches `count` devices and checks each; returns the trial times of all, and prints them by kind.
fn check_many(count: u64, kinds: &[Kind], goals: &[Goal]) -> Times {
    let mut all = Times::default();
    let mut by_kind: BTreeMap<Kind, Times> = BTreeMap::new();
    for seed in 0..count {
        let kind = kinds[(seed % kinds.len() as u64) as usize];
        let mut device = Device::new(kind, seed);
        let outcome = search(&mut device, goals);
        let mut bisection = BisectionTimes::default();
        for found in &outcome.goals {
            assert_right(&device, found, &format!("{kind:?}, seed {seed}"));
            bisection += bisection_times(&device, &found.goal);
        }
        all.add(&outcome, bisection);
        by_kind.entry(kind).or_default().add(&outcome, bisection);
    }
    println!("{}:", goals.iter().map(|goal| goal.name.as_str()).collect::<Vec<_>>().join(" and "));
    by_kind.iter().for_each(|(kind, times)| times.print(&format!("{kind:?}")));
    all.print("all");
    all
}

fn steady() -> Vec<Kind> {
    KINDS.into_iter().filter(|kind| !kind.is_random()).collect()
}

#[test]
fn ndr_and_pdr_of_ten_thousand_devices_in_a_fifth_of_the_time() {
    let times = check_many(10_000, &KINDS, &[Goal::ndr(), Goal::pdr()]);
    assert!(times.ratio() <= 0.2, "{}", times.ratio());
}

/// Strict goals take every disturbance for the device's own, so only steady devices have an answer.
#[test]
fn strict_goals_of_a_thousand_steady_devices_in_a_fifth_of_the_time() {
    let partial = Goal { name: "PDR".to_owned(), loss_ratio: 0.005, ..Goal::rfc2544() };
    let times = check_many(1_000, &steady(), &[Goal::rfc2544(), partial]);
    assert!(times.ratio() <= 0.2, "{}", times.ratio());
}

#[test]
fn loss_verification_of_a_thousand_steady_devices_in_a_fifth_of_the_time() {
    let times = check_many(1_000, &steady(), &[Goal::tst009(), Goal::rfc2544()]);
    assert!(times.ratio() <= 0.2, "{}", times.ratio());
}
