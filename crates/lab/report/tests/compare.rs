//! Comparisons: no difference where there is none, the right one where there is, and what cannot be told is said.

use super::experiment;
use super::hostile;

use experiment::{Device, Random, cell, rich, sizes, small, throughput};
use linerate_report::*;
use proptest::prelude::*;

/// One cell whose throughput was searched so often. Only the rates: the trials behind them are left out.
fn rates(random: &mut Random, repetitions: u32, capacity_pps: f64, noise: f64) -> Results {
    let device = Device { capacity_pps, noise, baseline_pps: 4e6 };
    let find = |repetition| Finding { trials: Vec::new(), ..throughput(repetition, 64, 1, &device, random) };
    let findings = (1..=repetitions).map(find).collect();
    Results { cells: vec![cell("bridge", 64, 1, "one way", device.baseline_pps, findings)], ..small() }
}

/// No noise is too different.
const FAR: NoiseLimits = NoiseLimits { taken: 1e9, gap_ratio: 1e9, gap_least_ns: 1.0, disturbed: 2.0 };

/// Every significant difference counts, however small.
fn any_size() -> Thresholds {
    Thresholds { rate: 0.0, time: 0.0, tail: 0.0, loss: 0.0, outage_ns: 0.0, noise: FAR, ..Thresholds::default() }
}

#[test]
fn false_differences_are_rarer_than_alpha_and_tests_are_not_deaf() {
    let mut random = Random(11);
    // Repetitions, and whether a difference of two standard deviations is expected to be seen mostly.
    for (repetitions, method) in
        [(2, Method::Student), (3, Method::Student), (8, Method::MannWhitney), (12, Method::MannWhitney)]
    {
        let (mut wrong, mut seen) = (0, 0);
        for _ in 0..150 {
            let one = rates(&mut random, repetitions, 1e6, 0.05);
            let same = compare_with(&[one.clone(), rates(&mut random, repetitions, 1e6, 0.05)], &any_size());
            assert_eq!(same.pairs[0].figures[0].method, method);
            wrong += usize::from(same.differs());
            let far = compare_with(&[one, rates(&mut random, repetitions, 0.6e6, 0.05)], &any_size());
            seen += usize::from(far.differs());
        }
        println!("{repetitions} repetitions: {wrong} of 150 false, {seen} of 150 seen");
        // 7.5 are expected at most; three standard deviations above that is 15.
        assert!(wrong <= 15, "{repetitions} repetitions: {wrong} of 150 false");
        assert!(repetitions < 3 || seen >= 142, "{repetitions} repetitions: {seen} of 150 seen");
    }
}

#[test]
fn the_same_experiment_twice_does_not_differ() {
    for seed in 0..4 {
        let comparison = compare(&[rich(seed), rich(seed + 100)]);
        let found: Vec<_> = comparison.pairs[0].differences().map(|figure| (&figure.cell, &figure.figure)).collect();
        assert!(!comparison.differs(), "seed {seed}: {found:?}");
        assert!(comparison.pairs[0].figures.len() > 300 && comparison.pairs[0].settings.is_empty());
    }
}

#[test]
fn the_testers_own_limit_is_no_difference_of_the_device() {
    let mut random = Random(3);
    let mut limited = |baseline_pps| {
        let device = Device { capacity_pps: 9e6, noise: 0.0, baseline_pps };
        let findings = (1..=5).map(|repetition| throughput(repetition, 64, 1, &device, &mut random)).collect();
        Results { cells: vec![cell("bridge", 64, 1, "one way", baseline_pps, findings)], ..small() }
    };
    let comparison = compare(&[limited(2e6), limited(1e6)]);
    let rates = comparison.pairs[0].figures.iter().filter(|figure| figure.test == "throughput");
    for figure in rates {
        assert_eq!(figure.verdict, Verdict::Limited);
        assert_eq!(figure.marks, ["tester's limit"]);
    }
}

/// A run of the same device with so many repetitions, on a machine so busy.
fn on_machine(seed: u64, repetitions: u32, capacity_pps: f64, noise: impl Fn(usize) -> Noise) -> Results {
    let mut results = sizes(seed, repetitions, capacity_pps, 0.002);
    let trials = results.cells.iter_mut().flat_map(|cell| &mut cell.findings).flat_map(|finding| &mut finding.trials);
    trials.enumerate().for_each(|(number, made)| made.machine.noise = noise(number));
    results
}

#[test]
fn figures_of_which_every_trial_was_disturbed_are_shown_and_not_judged() {
    let all = |_| Noise { disturbed: true, ..Noise::default() };
    let some = |number: usize| Noise { disturbed: number.is_multiple_of(2), ..Noise::default() };
    let near = Thresholds { noise: FAR, ..Thresholds::default() };
    let compared = compare_with(&[on_machine(1, 5, 1.2e6, all), on_machine(2, 5, 0.6e6, all)], &near);
    assert!(!compared.differs() && compared.is_inconclusive());
    for figure in &compared.pairs[0].figures {
        assert_eq!((figure.verdict, figure.reason), (Verdict::Inconclusive, Some(Reason::Disturbed)));
        assert_eq!((figure.method, figure.p_value, figure.interval), (Method::None, None, None));
        assert!(!figure.before.is_empty() && !figure.after.is_empty(), "it is shown");
    }
    let text = comparison_terminal(&compared, 140, false);
    assert!(text.contains("all disturbed") && text.contains("every trial behind the figure was disturbed"), "{text}");
    let compared = compare_with(&[on_machine(1, 5, 1.2e6, some), on_machine(2, 5, 0.6e6, some)], &near);
    assert!(compared.is_worse() && !compared.is_inconclusive(), "half of the trials say something");
}

#[test]
fn other_conditions_and_figures_of_one_side_are_stated() {
    let one = rich(1);
    let mut other = rich(2);
    other.environment.kernel = Some("Linux 7.1".to_owned());
    other.environment.cache_line = Some(CacheLine { cores: [0, 1], before_ns: Some(400.0), after_ns: Some(420.0) });
    other.cells[0].mode = "DUT in the sender's context".to_owned();
    other.cells[1].dut.configuration.insert("rules".to_owned(), "200".to_owned());
    let last = other.cells.pop().unwrap();
    let comparison = compare(&[one, other]);
    let what: Vec<&str> = comparison.pairs[0].settings.iter().map(|setting| setting.what.as_str()).collect();
    assert_eq!(what.len(), 4, "{what:?}");
    for (found, wanted) in what.iter().zip(["kernel", "cache-line regime", "one-way: mode", "DUT rules"]) {
        assert!(found.contains(wanted), "{found}");
    }
    assert!(comparison.pairs[0].only_before.iter().all(|figure| figure.starts_with(&last.id)));
    assert!(!comparison.pairs[0].only_before.is_empty() && comparison.pairs[0].only_after.is_empty());
}

#[test]
fn every_output_names_the_differences() {
    let results = [sizes(1, 5, 1.2e6, 0.01), sizes(2, 5, 1.0e6, 0.01), sizes(3, 5, 1.2e6, 0.01)];
    let comparison = compare(&results);
    assert!(comparison.pairs[0].differences().count() >= 14 && comparison.pairs[1].differences().next().is_none());
    let json = comparison_json(&comparison);
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(value["schema"], COMPARISON_SCHEMA);
    assert_eq!(value["pairs"][0]["figures"][0]["verdict"], "worse");
    let outputs =
        [comparison_terminal(&comparison, 80, false), comparison_markdown(&comparison), comparison_html(&comparison)];
    for text in outputs {
        assert!(text.contains("worse") && text.contains("no significant difference in"), "{text}");
    }
    let hostile = comparison_html(&compare(&[hostile::hostile(), hostile::hostile()]));
    assert!(!hostile.contains("<script>"));
    assert!(compare(&[]).pairs.is_empty() && compare(&[small()]).pairs.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(25))]

    #[test]
    fn a_shift_is_found_with_its_sign_and_size(seed: u64, repetitions in 3u32..12, shift in prop_oneof![-0.6f64..-0.25, 0.25f64..1.5]) {
        let mut random = Random(seed);
        let one = rates(&mut random, repetitions, 1e6, 0.008);
        let other = rates(&mut random, repetitions, 1e6 * (1.0 + shift), 0.008);
        for (results, sign) in [([one.clone(), other.clone()], 1.0), ([other, one], -1.0)] {
            let comparison = compare(&results);
            for figure in &comparison.pairs[0].figures {
                let up = shift * sign > 0.0;
                // What interruptions of the host took is neither better nor worse.
                let expected = match figure.figure.ends_with("interruptions counted") {
                    true => Verdict::Different,
                    false if up => Verdict::Better,
                    false => Verdict::Worse,
                };
                prop_assert_eq!(figure.verdict, expected);
                prop_assert_eq!(figure.cliffs_delta, if up { 1.0 } else { -1.0 });
                let expected = if sign > 0.0 { shift } else { 1.0 / (1.0 + shift) - 1.0 };
                prop_assert!((figure.shift - expected).abs() < 0.1 * (1.0 + expected), "{} {}", figure.shift, expected);
            }
        }
    }

    /// Whatever the device did: a run on a machine that was busier by more than the limits gives no difference, and says why.
    #[test]
    fn a_busier_machine_is_no_difference_of_the_device(seed: u64, shift in 0.2f64..3.0, how in 0usize..3, busier_first: bool) {
        let quiet = |_| Noise { gap_max_ns: 100_000, waited_ns: Some(0), ..Noise::default() };
        let busy = move |number: usize| match how {
            0 => Noise { gap_max_ns: 100_000, steal_share: 0.05, ..Noise::default() },
            1 => Noise { gap_max_ns: 20_000_000, ..Noise::default() },
            _ => Noise { gap_max_ns: 100_000, disturbed: number.is_multiple_of(3), repeated: 1, ..Noise::default() },
        };
        let mut runs = [on_machine(seed, 4, 1e6, quiet), on_machine(seed ^ 1, 4, 1e6 * shift, busy)];
        if busier_first {
            runs.reverse();
        }
        let comparison = compare(&runs);
        prop_assert!(!comparison.differs());
        prop_assert!(!comparison.pairs[0].noise_differs.is_empty());
        let lowered = comparison.pairs[0].figures.iter().any(|figure| figure.reason == Some(Reason::Busier));
        prop_assert_eq!(comparison.is_inconclusive(), lowered);
        let text = comparison_terminal(&comparison, 140, false);
        prop_assert!(text.contains("The machines were not equally busy"), "{}", text);
        // On machines equally busy the same figures are told.
        let alike = compare(&[on_machine(seed, 4, 1e6, quiet), on_machine(seed ^ 1, 4, 1e6 * shift, quiet)]);
        prop_assert!(alike.pairs[0].noise_differs.is_empty());
        prop_assert!(alike.differs() || (shift - 1.0).abs() < 0.1);
    }
}
