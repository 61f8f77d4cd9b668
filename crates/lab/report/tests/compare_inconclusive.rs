//! Comparisons that must not pass for "no difference": too little is known, figures vanish, values have no spread or are 0.

use super::experiment;

use experiment::{Device, Random, cell, finding, small, throughput, trial};
use linerate_report::*;

const DEVICE: Device = Device { capacity_pps: 1e6, noise: 0.0, baseline_pps: 4e6 };

/// A run with one cell and these findings.
fn run(findings: Vec<Finding>) -> Results {
    Results { cells: vec![cell("router", 64, 1, "one way", DEVICE.baseline_pps, findings)], ..small() }
}

/// A run with these throughputs, one for each repetition; `None` where no load passed. Only the goal NDR, and no trials.
fn ndr(rates_pps: &[Option<f64>], width: f64) -> Results {
    let finding = |(repetition, lower_pps): (u32, &Option<f64>)| {
        let mut finding = throughput(repetition, 64, 1, &DEVICE, &mut Random(1));
        finding.trials.clear();
        if let Some(TestResult::Throughput { goals }) = &mut finding.result {
            goals.truncate(1);
            let upper_pps = Some(lower_pps.unwrap_or(1e3) * (1.0 + width));
            let limited_by = LimitedBy::Loss;
            let goal = GoalFound { lower_pps: *lower_pps, upper_pps, width, limited_by, ..goals[0].clone() };
            goals[0] = GoalFound { conditional_pps: None, with_interruptions: None, tester_limited: false, ..goal };
        }
        finding
    };
    run((1..).zip(rates_pps).map(finding).collect())
}

fn found(all: &[TestResult]) -> Results {
    let made = |repetition| vec![trial(&format!("t-{repetition}"), 64, 1, 0.5e6, 1e6, &DEVICE)];
    run((1..).zip(all).map(|(repetition, found)| finding(repetition, found.clone(), made(repetition))).collect())
}

/// The finding of a test that failed.
fn dead(test: &str, repetition: u32) -> Finding {
    let error = Some("the DUT stopped: exit status 1".to_owned());
    Finding { test: test.to_owned(), repetition, result: None, error, goals: Vec::new(), trials: Vec::new() }
}

fn figure<'a>(comparison: &'a Comparison, name: &str) -> &'a Compared {
    comparison.pairs[0].figures.iter().find(|figure| figure.figure == name).expect(name)
}

fn verdict(comparison: &Comparison, name: &str) -> (Verdict, Option<Reason>) {
    let figure = figure(comparison, name);
    (figure.verdict, figure.reason)
}

const SAME: (Verdict, Option<Reason>) = (Verdict::Same, None);
const WORSE: (Verdict, Option<Reason>) = (Verdict::Worse, None);
const GONE: (Verdict, Option<Reason>) = (Verdict::Gone, None);

fn inconclusive(reason: Reason) -> (Verdict, Option<Reason>) {
    (Verdict::Inconclusive, Some(reason))
}

#[test]
fn one_repetition_is_inconclusive_and_a_large_change_is_not_hidden() {
    let comparison = compare(&[ndr(&[Some(981e3)], 0.01), ndr(&[Some(41e3)], 0.01)]);
    assert_eq!(verdict(&comparison, "NDR"), inconclusive(Reason::OneRepetition));
    assert!(comparison.is_inconclusive() && !comparison.differs());
    for text in [comparison_terminal(&comparison, 200, false), comparison_markdown(&comparison)] {
        let wanted = [
            "-95.8 %",
            "981.0 kpps to 41.00 kpps",
            "not judged",
            "one repetition a side",
            "at least 2",
            "--repetitions",
        ];
        wanted.iter().for_each(|words| assert!(text.contains(words), "{words}: {text}"));
        assert!(!text.contains("no significant difference"), "{text}");
    }
    // One more repetition on one side is enough.
    let comparison = compare(&[ndr(&[Some(981e3), Some(979e3)], 0.01), ndr(&[Some(41e3)], 0.01)]);
    assert_eq!(verdict(&comparison, "NDR"), WORSE);
}

#[test]
fn a_figure_that_vanished_is_the_worst_difference() {
    let before = ndr(&[Some(981e3); 2], 0.01);
    for (after, why) in [
        (ndr(&[None, None], 0.01), "no load passed"),
        (ndr(&[None], 0.01), "no load passed"),
        (run(vec![dead("throughput", 1), dead("throughput", 2)]), "the DUT stopped: exit status 1"),
    ] {
        let comparison = compare(&[before.clone(), after.clone()]);
        assert_eq!(verdict(&comparison, "NDR"), GONE, "{why}");
        assert!(comparison.is_worse() && !comparison.is_inconclusive());
        let text = comparison_terminal(&comparison, 200, false);
        assert!(text.contains("1 gone") && text.contains(why), "{text}");
        let comparison = compare(&[after, before.clone()]);
        assert_eq!(verdict(&comparison, "NDR"), (Verdict::Appeared, None));
        assert!(!comparison.is_worse() && comparison.differs());
    }
    // What was measured on one side only, because only that side has the cell, says nothing.
    let mut renamed = before.clone();
    renamed.cells[0].id = "bridge/64/1/one-way".to_owned();
    assert!(compare(&[before, renamed]).pairs[0].figures.is_empty());
}

#[test]
fn every_kind_of_figure_can_vanish() {
    let recovery = |recovery_ns| TestResult::SystemRecovery { recovery_ns, overload_pps: 1e6, after_pps: 5e5 };
    let outage = |outage_ns| TestResult::Reset { how: "down".to_owned(), outage_ns, outage_by_loss_ns: 7_000_000 };
    let latency = |samples| {
        let latency = Latency {
            samples,
            min_ns: 1_000,
            mean_ns: 2e3,
            p50_ns: 2_000,
            p90_ns: 2_000,
            p99_ns: 2_000,
            p999_ns: 2_000,
            p9999_ns: 2_000,
            max_ns: 2_000,
        };
        let latency = (samples > 0).then_some(latency);
        let points = [0.5, 0.9].map(|share| LatencyPoint {
            share,
            load_pps: 1e5,
            latency: latency.filter(|_| share == 0.5),
            timestamps: None,
            histogram: Vec::new(),
            pdv_ns: None,
        });
        TestResult::Latency { points: points.into() }
    };
    let cases = [
        (recovery(Some(2_000_000)), recovery(None), "recovery"),
        (outage(Some(7_000_000)), outage(None), "outage"),
        (latency(1_000), latency(0), "p99.9 at 50 %"),
    ];
    for (before, after, name) in cases {
        let both = |found: &TestResult| [found.clone(), found.clone()];
        let comparison = compare(&[found(&both(&before)), found(&both(&after))]);
        assert_eq!(verdict(&comparison, name), GONE, "{name}");
        // Gone in one of two: some repetitions say one thing, some the other.
        let comparison = compare(&[found(&both(&before)), found(&[before, after])]);
        assert_eq!(verdict(&comparison, name), inconclusive(Reason::Missing), "{name}");
        assert!(comparison.is_inconclusive());
    }
}

#[test]
fn repetitions_without_a_value_count_as_the_worst_ones() {
    let all = ndr(&[Some(1e6); 8], 0.01);
    let some = |present: usize| {
        let value = |number| (number < present).then_some(1e6);
        ndr(&(0..8).map(value).collect::<Vec<_>>(), 0.01)
    };
    // Of those that are there, none differs: only what is missing does.
    assert_eq!(verdict(&compare(&[all.clone(), some(2)]), "NDR"), WORSE);
    assert_eq!(verdict(&compare(&[some(2), all.clone()]), "NDR"), (Verdict::Better, None));
    assert_eq!(verdict(&compare(&[all.clone(), some(6)]), "NDR"), inconclusive(Reason::Missing));
    let comparison = compare(&[all, some(2)]);
    assert!(comparison_terminal(&comparison, 200, false).contains("8, 2 of 8"));
}

#[test]
fn what_the_tester_or_the_noise_took_away_is_not_gone() {
    let before = ndr(&[Some(981e3); 2], 0.01);
    let mut after = ndr(&[None, None], 0.01);
    for finding in &mut after.cells[0].findings {
        let Some(TestResult::Throughput { goals }) = &mut finding.result else { continue };
        goals[0].limited_by = LimitedBy::Tester;
    }
    assert_eq!(verdict(&compare(&[before.clone(), after]), "NDR"), inconclusive(Reason::Tester));
    let with_noise = |mut results: Results, noise: Noise| {
        for finding in &mut results.cells[0].findings {
            finding.trials = vec![trial("t", 64, 1, 0.5e6, 1e6, &DEVICE)];
            finding.trials[0].machine.noise = noise;
        }
        results
    };
    let disturbed = with_noise(ndr(&[None, None], 0.01), Noise { disturbed: true, ..Noise::default() });
    assert_eq!(verdict(&compare(&[before.clone(), disturbed]), "NDR"), inconclusive(Reason::Disturbed));
    let quiet = with_noise(before, Noise::default());
    let stolen = Noise { steal_share: 0.3, ..Noise::default() };
    let busy = with_noise(ndr(&[None, None], 0.01), stolen);
    assert_eq!(verdict(&compare(&[quiet.clone(), busy]), "NDR"), inconclusive(Reason::Busier));
    // That the DUT itself died is no matter of noise.
    let mut died = with_noise(ndr(&[Some(1e6)], 0.01), stolen);
    died.cells[0].findings.push(finding(1, TestResult::Load { sent_pps: 1e5, delivered_pps: 1e5 }, Vec::new()));
    died.cells[0].findings[0].result = None;
    died.cells[0].findings[0].error = Some("the DUT stopped".to_owned());
    assert_eq!(verdict(&compare(&[quiet, died]), "NDR"), GONE);
}

#[test]
fn a_run_that_is_not_complete_is_inconclusive() {
    let before = ndr(&[Some(981e3); 2], 0.01);
    let mut after = run(Vec::new());
    after.complete = false;
    let comparison = compare(&[before.clone(), after.clone()]);
    assert_eq!(verdict(&comparison, "NDR"), inconclusive(Reason::NotMeasured));
    assert!(comparison.is_inconclusive() && !comparison.differs());
    // A finding in which the run was stopped is not one that failed.
    after.cells[0].findings.push(Finding { error: None, ..dead("throughput", 1) });
    assert_eq!(verdict(&compare(&[before, after]), "NDR"), inconclusive(Reason::NotMeasured));
}

#[test]
fn equal_repetitions_are_no_certainty() {
    let twice = |rate_pps: f64, width| ndr(&[Some(rate_pps); 2], width);
    let p = |one: &Results, other: &Results| figure(&compare(&[one.clone(), other.clone()]), "NDR").p_value.unwrap();
    // Two values each, all equal to the last bit: there is some spread all the same.
    let close = p(&twice(1e6, 0.005), &twice(0.95e6, 0.005));
    assert!(close > 1e-4 && close < 0.05, "{close}");
    // The wider the search left its interval open, the less is known.
    let wide = p(&twice(1e6, 0.03), &twice(0.95e6, 0.03));
    assert!(wide > close, "{wide} {close}");
    let comparison = compare(&[twice(1e6, 0.2), twice(0.85e6, 0.2)]);
    assert!(!comparison.differs(), "a change within the interval of the search is none");
    assert_eq!(verdict(&compare(&[twice(1e6, 0.005), twice(0.6e6, 0.005)]), "NDR"), WORSE);
}

#[test]
fn bounds_wider_than_asked_for_are_the_resolution() {
    let open = |rate_pps: f64| {
        let mut results = ndr(&[Some(rate_pps); 3], 0.005);
        for finding in &mut results.cells[0].findings {
            let Some(TestResult::Throughput { goals }) = &mut finding.result else { continue };
            goals[0].upper_pps = Some(rate_pps * 2.5);
        }
        results
    };
    let comparison = compare(&[open(1e6), open(0.5e6)]);
    assert_eq!(verdict(&comparison, "NDR"), inconclusive(Reason::Spread));
    assert!((figure(&comparison, "NDR").least - 1.5).abs() < 1e-9);
}

#[test]
fn a_large_change_that_is_not_significant_is_inconclusive() {
    let before = ndr(&[Some(1.0e6), Some(0.7e6)], 0.01);
    let after = ndr(&[Some(0.75e6), Some(0.4e6)], 0.01);
    let comparison = compare(&[before, after]);
    assert_eq!(verdict(&comparison, "NDR"), inconclusive(Reason::Spread));
    let text = comparison_terminal(&comparison, 200, false);
    assert!(text.contains("varies too much") && !text.contains("no significant difference"), "{text}");
    // Steady values with a small change are enough to tell.
    let comparison = compare(&[ndr(&[Some(1.0e6), Some(1.01e6)], 0.01), ndr(&[Some(1.0e6), Some(0.99e6)], 0.01)]);
    assert_eq!(verdict(&comparison, "NDR"), SAME);
    let [low, high] = figure(&comparison, "NDR").interval.unwrap();
    assert!(low < -0.01 && high > 0.0 && low > -0.1 && high < 0.1, "{low} {high}");
}

#[test]
fn values_that_can_be_0_have_absolute_thresholds() {
    let soak = |ratio: f64| TestResult::Soak { load_pps: 5e5, loss_ratio: ratio };
    let reset =
        |outage_ns| TestResult::Reset { how: "down".to_owned(), outage_ns: Some(outage_ns), outage_by_loss_ns: 0 };
    let load = |delivered_pps| TestResult::Load { sent_pps: 1e5, delivered_pps };
    let cases = [
        (soak(0.0), soak(1e-6), "loss at 500 kpps", SAME),
        (soak(0.0), soak(0.02), "loss at 500 kpps", WORSE),
        (soak(1e-6), soak(4e-6), "loss at 500 kpps", SAME),
        (reset(0), reset(1_000), "outage", SAME),
        (reset(2_000), reset(9_000), "outage", SAME),
        (reset(0), reset(40_000_000), "outage", WORSE),
        (load(1e5), load(0.0), "delivered", WORSE),
        (load(0.0), load(0.0), "delivered", SAME),
    ];
    for (before, after, name, wanted) in cases {
        let thrice = |found: &TestResult| [found.clone(), found.clone(), found.clone()];
        let comparison = compare(&[found(&thrice(&before)), found(&thrice(&after))]);
        let name = comparison.pairs[0].figures.iter().find(|it| it.figure.starts_with(&name[..4])).unwrap();
        assert_eq!((name.verdict, name.reason), wanted, "{before:?} {after:?} {name:?}");
    }
}

#[test]
fn few_packets_leave_a_loss_open() {
    let lossy = |lost: u64| {
        let mut results = found(&[0, 1].map(|_| TestResult::Soak { load_pps: 5e5, loss_ratio: lost as f64 / 50.0 }));
        for finding in &mut results.cells[0].findings {
            finding.trials = vec![trial("t", 64, 1, 50.0, 1e6, &DEVICE)];
        }
        results
    };
    // 3 packets of 50 are 6 %, twice the same, and little to go by.
    let comparison = compare(&[lossy(0), lossy(3)]);
    let soak = comparison.pairs[0].figures.iter().find(|figure| figure.test == "soak").unwrap();
    assert_eq!(soak.reason, Some(Reason::Spread), "{soak:?}");
}

/// A run with `repetitions` of which each varies by `within`, and a shift of the whole run by `between` (standard deviations).
fn shifted(random: &mut Random, repetitions: u32, capacity_pps: f64, within: f64, between: f64) -> Results {
    let capacity_pps = capacity_pps * (between * random.normal()).exp();
    let device = Device { capacity_pps, noise: within, ..DEVICE };
    let find = |repetition| Finding { trials: Vec::new(), ..throughput(repetition, 64, 1, &device, random) };
    run((1..=repetitions).map(find).collect())
}

#[test]
fn several_runs_a_side_hold_the_level_where_runs_differ_by_themselves() {
    let mut random = Random(21);
    let thresholds = Thresholds::default();
    let rounds = 200;
    // By how much runs of the same DUT differ, runs a side, and bounds for the share of false differences.
    for (between, runs, false_min, false_max) in [
        // Below the threshold of 3 %, one run a side is enough.
        (0.005, 1, 0, 20),
        // Above it, it is not: this is the limit of comparing two runs, and docs/results.md says so.
        (0.05, 1, 80, 200),
        (0.05, 3, 0, 20),
        (0.05, 5, 0, 20),
    ] {
        let (mut wrong, mut seen) = (0, 0);
        for _ in 0..rounds {
            let mut side = |capacity_pps| -> Vec<Results> {
                (0..runs).map(|_| shifted(&mut random, 5, capacity_pps, 0.005, between)).collect()
            };
            let (before, alike, slower) = (side(1e6), side(1e6), side(0.6e6));
            wrong += i32::from(compare_sides(&before, &alike, &thresholds).differs());
            seen += i32::from(compare_sides(&before, &slower, &thresholds).is_worse());
        }
        println!("{:.1} % between runs, {runs} a side: {wrong} of {rounds} false, {seen} seen", between * 100.0);
        assert!((false_min..=false_max).contains(&wrong), "{between}, {runs} runs: {wrong} of {rounds} false");
        assert!(seen >= rounds * 9 / 10, "{between}, {runs} runs: {seen} of {rounds} seen");
    }
}

#[test]
fn a_run_of_several_is_one_value() {
    let runs = |rates: &[f64]| rates.iter().map(|rate| ndr(&[Some(*rate); 3], 0.01)).collect::<Vec<_>>();
    let (before, after) = (runs(&[1e6, 1.02e6, 0.98e6]), runs(&[0.5e6, 0.51e6, 0.49e6]));
    let comparison = compare_sides(&before, &after, &Thresholds::default());
    assert_eq!(figure(&comparison, "NDR").before, [1e6, 1.02e6, 0.98e6]);
    assert_eq!((verdict(&comparison, "NDR"), comparison.pairs[0].runs), (WORSE, [3, 3]));
    let text = comparison_terminal(&comparison, 200, false);
    assert!(text.contains("median of a run (3 before, 3 after)"), "{text}");
    // One run beside several is one value as well, however many repetitions it has.
    let comparison = compare_sides(&before, &after[..1], &Thresholds::default());
    assert_eq!(figure(&comparison, "NDR").after.len(), 1);
    // A run in which most repetitions have no value has none; a run whose DUT died, neither.
    let mut with_dead = after.clone();
    with_dead[0] = ndr(&[None, None, Some(1e6)], 0.01);
    with_dead[1] = run(vec![dead("throughput", 1), dead("throughput", 2)]);
    let comparison = compare_sides(&before, &with_dead, &Thresholds::default());
    let ndr = figure(&comparison, "NDR");
    assert_eq!((ndr.after.len(), ndr.after_missing.len()), (1, 2), "{ndr:?}");
    assert_eq!(ndr.reason, Some(Reason::Missing));
    with_dead.drain(2..);
    assert_eq!(verdict(&compare_sides(&before, &with_dead, &Thresholds::default()), "NDR"), GONE);
    // What differs among the runs of a side is told.
    let mut other = before.clone();
    other[1].environment.kernel = Some("Linux 7.1".to_owned());
    let pair = &compare_sides(&other, &after, &Thresholds::default()).pairs[0];
    assert!(pair.settings.iter().any(|it| it.what == "among the runs before: kernel"), "{:?}", pair.settings);
}

#[test]
fn what_interruptions_of_the_host_took_does_not_decide() {
    let counted = |lower_pps: Option<f64>| {
        let mut results = ndr(&[Some(1e6); 3], 0.01);
        for finding in &mut results.cells[0].findings {
            let Some(TestResult::Throughput { goals }) = &mut finding.result else { continue };
            goals[0].with_interruptions = Some(GoalBounds { lower_pps, upper_pps: None });
        }
        results
    };
    for after in [None, Some(0.2e6)] {
        let comparison = compare(&[counted(Some(0.9e6)), counted(after)]);
        assert_eq!(verdict(&comparison, "NDR, interruptions counted"), (Verdict::Different, None));
        assert_eq!(verdict(&comparison, "NDR"), SAME);
        assert!(!comparison.is_worse() && !comparison.is_inconclusive());
    }
}

#[test]
fn only_limits_say_nothing() {
    let limited = |rate_pps: f64| {
        let mut results = ndr(&[Some(rate_pps); 3], 0.01);
        for finding in &mut results.cells[0].findings {
            let Some(TestResult::Throughput { goals }) = &mut finding.result else { continue };
            (goals[0].limited_by, goals[0].upper_pps) = (LimitedBy::Maximum, None);
        }
        results
    };
    let comparison = compare(&[limited(1e6), limited(0.5e6)]);
    assert_eq!(verdict(&comparison, "NDR"), (Verdict::Limited, None));
    assert!(comparison.is_inconclusive() && !comparison.differs());
    // A limit on one side is a lower bound of what the DUT carries, and less than that is worse.
    assert_eq!(verdict(&compare(&[limited(1e6), ndr(&[Some(0.5e6); 3], 0.01)]), "NDR"), WORSE);
}
