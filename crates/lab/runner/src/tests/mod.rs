//! The flow of a run, on devices made up of numbers.

mod captures;
mod made_up;
mod sessions;

use std::io;

use linerate_experiment::{DutKind, Experiment};
use linerate_report::{Cell, Finding, Results, TestResult};
use linerate_testbed::dut::parse;
use linerate_testbed::dut::switch::Switch;
use linerate_testbed::dut::switch_ports::SwitchPorts;

use super::plan::Plan;
use super::{End, Event, RunError, Store, begin, matches_pattern, reached, run};
use made_up::{MadeUp, Trouble};

fn experiment(matrix: &str, tests: &str) -> (Experiment, String) {
    let file = format!(
        "name = \"made-up\"\ntitle = \"Made up\"\n[[dut]]\nname = \"one\"\nkind = \"router\"\n[[dut]]\nname = \"two\"\n\
         kind = \"bridge\"\n[matrix]\nsizes = [64]\nflows = [1]\n{matrix}\n{tests}\n"
    );
    let experiment = parse(&file, "made-up.toml").unwrap_or_else(|errors| panic!("{errors}"));
    (experiment, file)
}

const THROUGHPUT: &str = "[[test]]\nkind = \"throughput\"";

/// Counts what is kept, and fails when told to.
#[derive(Default)]
struct Kept {
    saves: usize,
    trials: usize,
    full_after: Option<usize>,
    /// Cell, trial and text.
    shown: Vec<(String, String, String)>,
}

impl Store for Kept {
    fn save(&mut self, results: &Results) -> io::Result<()> {
        if self.full_after.is_some_and(|saves| self.saves >= saves) {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        self.saves += 1;
        self.trials = trials(results);
        Ok(())
    }

    fn keep_shown(&mut self, cell: &str, trial: &str, text: &str) -> io::Result<()> {
        self.shown.push((cell.to_owned(), trial.to_owned(), text.to_owned()));
        Ok(())
    }
}

fn trials(results: &Results) -> usize {
    results.cells.iter().flat_map(|cell| &cell.findings).map(|finding| finding.trials.len()).sum()
}

fn all(experiment: &Experiment, file: &str, testbeds: &mut MadeUp) -> (Results, Result<End, RunError>, Kept) {
    let mut results = begin(experiment, file, None, "0").expect("cells");
    let mut kept = Kept::default();
    let end = run(experiment, &mut results, testbeds, &mut kept, &mut |_| {});
    (results, end, kept)
}

fn throughput(results: &Results, cell: usize) -> f64 {
    match &results.cells[cell].findings[0].result {
        Some(TestResult::Throughput { goals }) => goals[0].lower_pps.expect("a lower bound"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_cell_gets_its_throughput_and_every_trial_is_kept_at_once() {
    let (experiment, file) = experiment("", THROUGHPUT);
    let mut testbeds = MadeUp::new(500_000.0, 2_000_000.0);
    let (results, end, kept) = all(&experiment, &file, &mut testbeds);
    assert!(matches!(end, Ok(End::Complete)), "{end:?}");
    assert!(results.complete && reached(&results));
    for cell in 0..2 {
        let pps = throughput(&results, cell);
        assert!((485_000.0..=500_000.0).contains(&pps), "{pps}");
        assert_eq!(results.cells[cell].baseline_pps, Some(2_000_000.0));
        assert_eq!(results.cells[cell].findings[0].test, "throughput");
    }
    assert_eq!(kept.trials, trials(&results));
    assert!(kept.saves > kept.trials, "after each trial, and after each finding");
    assert_eq!(testbeds.baselines, 1, "cells of one path share their baseline");
}

#[test]
fn a_test_of_some_cells_is_made_there_only_and_what_devices_showed_is_kept_by_trial() {
    let ping = "[[test]]\nkind = \"load\"\n[[test]]\nkind = \"ping\"\ntrial = \"2s\"\ncells = [{ dut = \"two\" }]";
    let (mut experiment, file) = experiment("repetitions = 2", ping);
    let (results, end, kept) = all(&experiment, &file, &mut MadeUp::new(500_000.0, 2_000_000.0));
    assert!(matches!(end, Ok(End::Complete)) && results.complete);
    let tests = |cell: &Cell| cell.findings.iter().map(|finding| finding.test.clone()).collect::<Vec<_>>();
    assert_eq!(
        results.cells.iter().map(tests).collect::<Vec<_>>(),
        [vec!["load"; 2], vec!["load", "ping", "load", "ping"]]
    );
    let pinged = TestResult::Ping { sent: 200, interval_ns: 10_000_000, rtt: None };
    assert_eq!(results.cells[1].findings[1].result.as_ref(), Some(&pinged));
    let shown: Vec<_> = kept.shown.iter().map(|(cell, trial, text)| format!("{cell}, {trial}: {text}")).collect();
    let expected =
        ["one", "two"].map(|dut| [1, 2].map(|r| format!("{dut}/64/1/one-way, load {r}, trial 1: 500000 packets")));
    assert_eq!(shown, expected.concat());
    // A run that was stopped within the cell with both tests lacks the last one.
    let mut stopped = results.clone();
    stopped.cells[1].findings.truncate(3);
    run(&experiment, &mut stopped, &mut MadeUp::new(5e5, 2e6), &mut Kept::default(), &mut |_| {}).expect("the rest");
    assert!(stopped.complete && stopped.cells[1].findings.len() == 4);
    experiment.tests.truncate(1);
    assert!(Plan::resume(&experiment, &results).is_complete(&results));
}

#[test]
fn rates_of_both_ways_are_sums() {
    let (experiment, file) = experiment("directions = [\"both-ways\"]", THROUGHPUT);
    let (results, _, _) = all(&experiment, &file, &mut MadeUp::new(500_000.0, 2_000_000.0));
    let pps = throughput(&results, 0);
    assert!((970_000.0..=1_000_000.0).contains(&pps), "each way carries 500,000: {pps}");
    assert_eq!(results.cells[0].direction, "both ways");
}

#[test]
fn a_placement_on_cores_is_a_dimension() {
    let (experiment, file) = experiment("cores = [\"apart\", \"shared\"]\nskip = [{ dut = \"two\" }]", THROUGHPUT);
    let mut testbeds = MadeUp::new(500_000.0, 2_000_000.0);
    let (results, end, _) = all(&experiment, &file, &mut testbeds);
    assert!(matches!(end, Ok(End::Complete)));
    let cells: Vec<_> = results.cells.iter().map(|cell| (cell.id.as_str(), cell.cores.as_deref())).collect();
    assert_eq!(cells, [("one/64/1/one-way/apart", Some("apart")), ("one/64/1/one-way/shared", Some("shared"))]);
    assert_eq!(testbeds.baselines, 2, "another placement is another path");
}

#[test]
fn a_path_of_shared_memory_has_a_baseline_of_its_own() {
    let (mut experiment, file) = experiment("", THROUGHPUT);
    experiment.duts[1].kind = DutKind::from(Switch(SwitchPorts::Memif));
    let mut testbeds = MadeUp::new(500_000.0, 2_000_000.0);
    let (_, end, _) = all(&experiment, &file, &mut testbeds);
    assert!(matches!(end, Ok(End::Complete)));
    assert_eq!(testbeds.baselines, 2);
    experiment.duts[1].kind = DutKind::from(Switch(SwitchPorts::Xdp));
    let mut testbeds = MadeUp::new(500_000.0, 2_000_000.0);
    all(&experiment, &file, &mut testbeds).1.expect("a run");
    assert_eq!(testbeds.baselines, 1);
}

#[test]
fn a_figure_near_the_baseline_is_the_testers() {
    let (experiment, file) = experiment("", THROUGHPUT);
    let (results, _, _) = all(&experiment, &file, &mut MadeUp::new(3_000_000.0, 2_000_000.0));
    let Some(TestResult::Throughput { goals }) = &results.cells[0].findings[0].result else { panic!("no throughput") };
    assert!(goals[0].tester_limited);
    assert_eq!(goals[0].limited_by, linerate_report::LimitedBy::Tester);
    let (results, _, _) = all(&experiment, &file, &mut MadeUp::new(1_000_000.0, 2_000_000.0));
    let Some(TestResult::Throughput { goals }) = &results.cells[0].findings[0].result else { panic!("no throughput") };
    assert!(!goals[0].tester_limited);
}

#[test]
fn every_test_finds_something() {
    let tests = "[[test]]\nkind = \"throughput\"\nsearch = \"bisection\"\n[[test]]\nkind = \"latency\"\n[[test]]\n\
                 kind = \"frame-loss\"\n[[test]]\nkind = \"back-to-back\"\nbursts = 2\n[[test]]\nkind = \"recovery\"\n\
                 [[test]]\nkind = \"reset\"\n[[test]]\nkind = \"soak\"\n[[test]]\nkind = \"max-forwarding-rate\"\n\
                 [[test]]\nkind = \"load\"\nrate = \"1000pps\"\n";
    let (experiment, file) = experiment("repetitions = 2", tests);
    let (results, end, _) = all(&experiment, &file, &mut MadeUp::new(500_000.0, 2_000_000.0));
    assert!(matches!(end, Ok(End::Complete)));
    assert_eq!(results.cells[0].findings.len(), 18);
    for finding in results.cells.iter().flat_map(|cell| &cell.findings) {
        assert!(finding.error.is_none(), "{}: {:?}", finding.test, finding.error);
        assert!(!finding.trials.is_empty(), "{}", finding.test);
    }
    let found = |test: &str| {
        let finding = results.cells[0].findings.iter().find(|finding| finding.test == test);
        finding.and_then(|finding| finding.result.clone()).unwrap_or_else(|| panic!("{test}"))
    };
    let TestResult::Latency { points } = found("latency") else { panic!() };
    assert!(points.iter().all(|point| point.latency.is_some()));
    let TestResult::FrameLoss { points } = found("frame-loss") else { panic!() };
    assert!(
        points[0].loss_ratio > 0.7 && points.iter().rev().take(2).all(|point| point.loss_ratio == 0.0),
        "{points:?}"
    );
    let TestResult::BackToBack { bursts, at_maximum, buffer_seconds, .. } = found("back-to-back") else { panic!() };
    // 256 slots, of which the device empties a quarter while they fill.
    assert!(bursts.len() == 2 && bursts.iter().all(|packets| (330..=342).contains(packets)), "{bursts:?}");
    assert!(!at_maximum);
    let slots = buffer_seconds.expect("corrected") * 2e6;
    assert!((245.0..=260.0).contains(&slots), "{slots}");
    let TestResult::MaxForwardingRate { pps, .. } = found("max-forwarding-rate") else { panic!() };
    assert!((499_000.0..=501_000.0).contains(&pps), "{pps}");
    assert_eq!(
        found("system-recovery"),
        TestResult::SystemRecovery {
            recovery_ns: Some(7_000_000),
            overload_pps: match found("system-recovery") {
                TestResult::SystemRecovery { overload_pps, .. } => overload_pps,
                _ => 0.0,
            },
            after_pps: match found("system-recovery") {
                TestResult::SystemRecovery { overload_pps, .. } => overload_pps / 2.0,
                _ => 0.0,
            },
        }
    );
}

#[test]
fn capacity_is_measured_several_times_and_a_load_without_loss_is_proved_once() {
    let tests = format!(
        "{THROUGHPUT}\n[[test]]\nkind = \"capacity\"\ntrials = 3\n[[test]]\nkind = \"no-loss\"\nshares = [1, 0.5]\n"
    );
    let (experiment, file) = experiment("", &tests);
    let (results, _, _) = all(&experiment, &file, &mut MadeUp::new(500_000.0, 2_000_000.0));
    assert!(reached(&results));
    let [search, capacity, no_loss] = &results.cells[0].findings[..] else { panic!("{results:#?}") };
    let Some(TestResult::Capacity { delivered_pps, sent_pps }) = &capacity.result else { panic!("{capacity:#?}") };
    assert!(delivered_pps.len() == 3 && delivered_pps.iter().all(|pps| (499e3..=501e3).contains(pps)), "{capacity:#?}");
    assert!(sent_pps.iter().all(|pps| (1.99e6..=2.01e6).contains(pps)));
    let Some(TestResult::Throughput { goals }) = &search.result else { panic!("{search:#?}") };
    let Some(TestResult::NoLoss { pps, points, why, .. }) = &no_loss.result else { panic!("{no_loss:#?}") };
    assert_eq!((*pps, points.len(), why), (goals[0].lower_pps, 1, &None));
}

#[test]
fn where_interruptions_cost_packets_at_every_load_the_figure_without_loss_is_missing_with_its_reason() {
    let tests = format!("{THROUGHPUT}\nsearch = \"bisection\"\n[[test]]\nkind = \"no-loss\"\nshares = [1, 0.5]\n");
    let (experiment, file) = experiment("skip = [{ dut = \"two\" }]", &tests);
    let mut quiet = MadeUp::new(500_000.0, 2_000_000.0);
    all(&experiment, &file, &mut quiet).1.expect("a run");
    // In the trials after those of the search.
    let mut results = begin(&experiment, &file, None, "0").expect("cells");
    let mut testbeds = MadeUp { stop_after: Some(quiet.trials - 1), ..MadeUp::new(500_000.0, 2_000_000.0) };
    run(&experiment, &mut results, &mut testbeds, &mut Kept::default(), &mut |_| {}).expect("kept");
    let mut testbeds = MadeUp { interrupted: 9, ..MadeUp::new(500_000.0, 2_000_000.0) };
    run(&experiment, &mut results, &mut testbeds, &mut Kept::default(), &mut |_| {}).expect("kept");
    let Some(TestResult::NoLoss { pps: None, points, why: Some(why), .. }) = &results.cells[0].findings[1].result
    else {
        panic!("{results:#?}")
    };
    assert_eq!(points.len(), 2);
    assert!(why.contains("2 loads tried") && why.contains("all while a core was away"), "{why}");
}

#[test]
fn unsent_packets_decide_no_search() {
    let (experiment, file) = experiment("skip = [{ dut = \"two\" }]", THROUGHPUT);
    let mut testbeds = MadeUp { starved: 3, ..MadeUp::new(500_000.0, 2_000_000.0) };
    let (results, _, _) = all(&experiment, &file, &mut testbeds);
    let (quiet, _, _) = all(&experiment, &file, &mut MadeUp::new(500_000.0, 2_000_000.0));
    assert_eq!(
        results.cells[0].findings[0].result, quiet.cells[0].findings[0].result,
        "as if the tester had not stalled"
    );
    let unused =
        |results: &Results| results.cells[0].findings[0].trials.iter().filter(|made| made.not_used.is_some()).count();
    assert_eq!((unused(&results), unused(&quiet)), (3, 0));
    // A load that the tester never sends whole is its own limit, and is said to be.
    let mut testbeds = MadeUp { starved: 1_000, ..MadeUp::new(3_000_000.0, 2_000_000.0) };
    let (results, _, _) = all(&experiment, &file, &mut testbeds);
    let Some(TestResult::Throughput { goals }) = &results.cells[0].findings[0].result else { panic!("{results:#?}") };
    assert_eq!(goals[0].limited_by, linerate_report::LimitedBy::Tester);
}

#[test]
fn a_goal_outside_interruptions_says_what_the_figure_is_with_them() {
    let of = |line: &str| {
        let (experiment, file) = experiment("skip = [{ dut = \"two\" }]", &format!("{THROUGHPUT}\n{line}"));
        let mut testbeds = MadeUp { interrupted: 1_000, ..MadeUp::new(500_000.0, 2_000_000.0) };
        let (results, _, _) = all(&experiment, &file, &mut testbeds);
        match &results.cells[0].findings[0].result {
            Some(TestResult::Throughput { goals }) => goals[0].clone(),
            other => panic!("{other:?}"),
        }
    };
    let (outside, with) = (of("outside_interruptions = true"), of("outside_interruptions = false"));
    assert!((485e3..=500e3).contains(&outside.lower_pps.expect("a load")), "{outside:?}");
    assert_eq!(with.lower_pps, None, "each trial loses packets");
    let counted = outside.with_interruptions.expect("told");
    assert_eq!(counted.lower_pps, None, "and the same trials say so: {counted:?}");
    assert_eq!(
        (outside.outside_interruptions, with.outside_interruptions, with.with_interruptions),
        (true, false, None)
    );
}

#[test]
fn a_full_rate_trial_shorter_than_those_of_a_bisection_counts_for_nothing() {
    let (experiment, file) =
        experiment("skip = [{ dut = \"two\" }]", &format!("{THROUGHPUT}\nsearch = \"bisection\"\ntrial = \"2s\"\n"));
    let (results, _, _) = all(&experiment, &file, &mut MadeUp::new(9e6, 2e6));
    let [full_rate, others @ ..] = &results.cells[0].findings[0].trials[..] else { panic!("{results:#?}") };
    assert_eq!(full_rate.trial.duration_ns, 1_000_000_000);
    let at_maximum = others.iter().find(|made| made.trial.load_pps == 2e6).expect("a whole trial at the maximum");
    assert_eq!(at_maximum.trial.duration_ns, 2_000_000_000);
}

#[test]
fn a_search_ends_with_its_time_and_says_what_it_knows() {
    let (experiment, file) = experiment("skip = [{ dut = \"two\" }]", &format!("{THROUGHPUT}\ntime_max = \"1ms\"\n"));
    let mut testbeds = MadeUp::new(500_000.0, 2_000_000.0);
    let mut experiment = experiment;
    if let linerate_experiment::TestKind::Throughput { time_max_ns, .. } = &mut experiment.tests[0].kind {
        assert_eq!(*time_max_ns, Some(1_000_000));
        *time_max_ns = Some(0);
    }
    let (results, _, _) = all(&experiment, &file, &mut testbeds);
    let Some(TestResult::Throughput { goals }) = &results.cells[0].findings[0].result else { panic!("{results:#?}") };
    assert_eq!((testbeds.trials, goals[0].stop), (1, linerate_report::SearchStop::UsedUp), "the one at full rate");
    assert_eq!((goals[0].lower_pps, goals[0].upper_pps), (None, Some(2e6)));
}

#[test]
fn a_stopped_run_keeps_what_it_has_and_goes_on_where_it_stopped() {
    let tests = "[[test]]\nkind = \"load\"\nrate = \"1000pps\"\n[[test]]\nkind = \"load\"\nrate = \"2000pps\"\n";
    let (experiment, file) = experiment("repetitions = 2", tests);
    for stop_after in 0..10 {
        let mut testbeds = MadeUp { stop_after: Some(stop_after), ..MadeUp::new(500_000.0, 2_000_000.0) };
        let (mut results, end, kept) = all(&experiment, &file, &mut testbeds);
        let whole = matches!(end, Ok(End::Complete));
        assert_eq!(results.complete, whole, "{stop_after}");
        assert_eq!(kept.trials, trials(&results));
        let before = results.clone();
        let mut testbeds = MadeUp::new(500_000.0, 2_000_000.0);
        let end = run(&experiment, &mut results, &mut testbeds, &mut Kept::default(), &mut |_| {});
        assert!(matches!(end, Ok(End::Complete)) && results.complete, "{stop_after}");
        assert_eq!(
            testbeds.trials + trials(&before),
            8,
            "no finished trial is made again, none is left out: {stop_after}"
        );
        for (cell, earlier) in results.cells.iter().zip(&before.cells) {
            assert_eq!(cell.findings.len(), 4);
            let finished: Vec<_> =
                earlier.findings.iter().filter(|finding| finding.result.is_some()).cloned().collect();
            assert!(cell.findings.starts_with(&finished), "{stop_after}");
        }
    }
}

#[test]
fn a_device_that_dies_is_built_again_once_and_the_next_cell_is_measured() {
    let tests = "[[test]]\nkind = \"load\"\nrate = \"1000pps\"\n[[test]]\nkind = \"load\"\nrate = \"2000pps\"\n[[test]]\nkind = \"load\"\nrate = \"3000pps\"\n";
    let (experiment, file) = experiment("", tests);
    let why = |results: &Results, cell: usize| -> Vec<bool> {
        results.cells[cell].findings.iter().map(|finding| finding.error.is_some()).collect()
    };
    let mut testbeds = MadeUp { trouble: Some(("one", Trouble::DiesAt(vec![1]))), ..MadeUp::new(5e5, 2e6) };
    let (results, end, _) = all(&experiment, &file, &mut testbeds);
    assert!(matches!(end, Ok(End::Complete)) && results.complete && !reached(&results));
    assert_eq!(why(&results, 0), [false, true, false], "the test under which it died, and no other");
    assert_eq!(why(&results, 1), [false; 3]);
    let mut testbeds = MadeUp { trouble: Some(("one", Trouble::DiesAt(vec![0, 1]))), ..MadeUp::new(5e5, 2e6) };
    let (results, _, _) = all(&experiment, &file, &mut testbeds);
    assert_eq!((why(&results, 0), why(&results, 1)), (vec![true; 3], vec![false; 3]), "twice, and it is left alone");
    let words = results.cells[0].findings[0].error.as_deref().unwrap_or("");
    assert!(words.contains("died"), "{words}");
}

#[test]
fn a_device_that_dies_while_warming_up_is_built_again_once_too_and_a_warning_tells() {
    let (experiment, file) = experiment("", THROUGHPUT);
    for (lives, measured) in [(1, true), (2, false)] {
        let mut testbeds = MadeUp { trouble: Some(("one", Trouble::DiesWarmingUp(lives))), ..MadeUp::new(5e5, 2e6) };
        let (results, end, _) = all(&experiment, &file, &mut testbeds);
        assert!(matches!(end, Ok(End::Complete)) && results.complete);
        let told = |warning: &String| warning.contains("while warming up: made up died: signal 11");
        assert_eq!(results.warnings.iter().filter(|warning| told(warning)).count(), 1, "{:?}", results.warnings);
        let error = results.cells[0].findings[0].error.as_deref().unwrap_or("");
        assert_eq!(error.is_empty(), measured, "{error}");
        assert!(measured || error.contains("died again") && error.contains("while warming up"), "{error}");
        assert!(throughput(&results, 1) > 4e5);
    }
}

#[test]
fn what_cannot_be_built_says_why_and_the_rest_goes_on() {
    let (experiment, file) = experiment("", THROUGHPUT);
    let mut testbeds = MadeUp { trouble: Some(("one", Trouble::Missing)), ..MadeUp::new(5e5, 2e6) };
    let (results, end, _) = all(&experiment, &file, &mut testbeds);
    assert!(matches!(end, Ok(End::Complete)) && results.complete && !reached(&results));
    assert_eq!(results.cells[0].findings[0].error.as_deref(), Some("`made-up` is not installed"));
    assert!(throughput(&results, 1) > 4e5);
}

#[test]
fn latency_without_a_throughput_says_so() {
    let (experiment, file) = experiment("", "[[test]]\nkind = \"load\"\nrate = \"1000pps\"\n");
    let mut experiment = experiment;
    experiment.tests[0].kind = linerate_experiment::TestKind::Soak { share: 0.5 };
    let (results, _, _) = all(&experiment, &file, &mut MadeUp::new(5e5, 2e6));
    let why = results.cells[0].findings[0].error.clone().unwrap_or_default();
    assert!(why.contains("throughput"), "{why}");
}

#[test]
fn disturbed_trials_are_made_again_then_marked_and_all_are_kept() {
    let (mut experiment, file) = experiment("", "[[test]]\nkind = \"load\"\nrate = \"1000pps\"\n");
    (experiment.gap_max_ns, experiment.disturbed_retries) = (1_000_000, 2);
    let mut testbeds = MadeUp { disturbed: 1, ..MadeUp::new(5e5, 2e6) };
    let mut again = 0;
    let mut results = begin(&experiment, &file, Some("one"), "0").expect("cells");
    let watch = &mut |event: Event<'_>| again += usize::from(matches!(event, Event::Again(_)));
    run(&experiment, &mut results, &mut testbeds, &mut Kept::default(), watch).expect("kept");
    let [only] = &results.cells[0].findings[0].trials[..] else { panic!("{results:#?}") };
    let noise = only.machine.noise;
    assert_eq!((noise.disturbed, noise.repeated, again), (false, 0, 1), "the baseline's trial was the disturbed one");
    let mut testbeds = MadeUp { disturbed: 1_000, ..MadeUp::new(5e5, 2e6) };
    let (results, _, kept) = all(&experiment, &file, &mut testbeds);
    let [first, second, last] = &results.cells[0].findings[0].trials[..] else { panic!("{results:#?}") };
    assert_eq!((last.machine.noise.disturbed, last.machine.noise.repeated, &last.not_used), (true, 2, &None));
    for (number, made) in [first, second].into_iter().enumerate() {
        assert_eq!((made.machine.noise.disturbed, made.machine.noise.repeated), (true, number as u32));
        assert_eq!(made.trial.name, format!("{}, attempt {}", last.trial.name, number + 1));
        let why = made.not_used.as_deref().unwrap_or_default();
        assert!(why.contains("disturbed") && why.contains("1.00 s"), "{why}");
        assert_eq!(made.trial.baseline_pps, last.trial.baseline_pps);
    }
    assert_eq!(results.cells[0].findings[0].used_trials().count(), 1);
    assert_eq!(kept.trials, trials(&results));
}

#[test]
fn a_machine_that_is_always_disturbed_does_not_have_every_trial_made_twice() {
    let (mut experiment, file) = experiment("repetitions = 30", "[[test]]\nkind = \"load\"\nrate = \"1000pps\"\n");
    (experiment.gap_max_ns, experiment.disturbed_retries) = (1_000_000, 1);
    let made = |disturbed: usize| {
        let mut testbeds = MadeUp { disturbed, ..MadeUp::new(5e5, 2e6) };
        let (results, _, _) = all(&experiment, &file, &mut testbeds);
        results.cells[0].findings.iter().map(|finding| finding.trials.len()).collect::<Vec<_>>()
    };
    let always = made(1_000);
    let again: Vec<usize> = (1..).zip(&always).filter(|(_, trials)| **trials > 1).map(|(number, _)| number).collect();
    assert_eq!(again, [1, 3, 6, 11, 20, 29], "one rests, then two, four, eight");
    // The baseline and its repetition, and the first three trials of the device: the first in vain, the second at rest, then all is well.
    assert_eq!(made(5)[..4], [2, 1, 1, 1]);
}

#[test]
fn a_cell_with_time_left_gets_more_repetitions_and_one_without_those_that_were_asked_for() {
    let tests = "[[test]]\nkind = \"load\"\n[[test]]\nkind = \"max-forwarding-rate\"";
    let (experiment, file) = experiment("repetitions = 3", tests);
    let made = |cell_time_ns| {
        let (results, end, _) =
            all(&Experiment { cell_time_ns, ..experiment.clone() }, &file, &mut MadeUp::new(5e5, 2e6));
        assert!(matches!(end, Ok(End::Complete)) && results.complete);
        results
            .cells
            .iter()
            .map(|cell| cell.findings.iter().map(|finding| finding.repetition).collect())
            .collect::<Vec<Vec<_>>>()
    };
    let asked = vec![1, 1, 2, 2, 3, 3];
    assert_eq!(made(None), [asked.clone(), asked.clone()]);
    assert_eq!(made(Some(1)), [asked.clone(), asked], "there is no time left");
    let most: Vec<u32> = (1..=24).flat_map(|repetition| [repetition; 2]).collect();
    assert_eq!(made(Some(u64::MAX)), [most.clone(), most], "eight times as many at most");
}

#[test]
fn a_trial_in_which_a_link_of_the_testers_went_away_is_made_again_and_names_it() {
    let (mut experiment, file) = experiment("", "[[test]]\nkind = \"load\"\nrate = \"1000pps\"\n");
    experiment.disturbed_retries = 1;
    // Of the baseline, and of the first device.
    let (results, _, _) = all(&experiment, &file, &mut MadeUp { flapped: 2, ..MadeUp::new(5e5, 2e6) });
    let mut testbeds = MadeUp { flapped: 3, ..MadeUp::new(5e5, 2e6) };
    let (worse, _, _) = all(&experiment, &file, &mut testbeds);
    assert_eq!(results.cells[0].findings[0].trials.len(), 1, "the baseline's two trials were hit");
    let [first, last] = &worse.cells[0].findings[0].trials[..] else { panic!("{worse:#?}") };
    let why = first.not_used.as_deref().unwrap_or_default();
    assert!(why.contains("eth9 went away once") && why.ends_with("made again"), "{why}");
    assert_eq!((last.machine.noise.disturbed, last.machine.noise.repeated, &last.not_used), (false, 1, &None));
    let (always, _, _) = all(&experiment, &file, &mut MadeUp { flapped: 1_000, ..MadeUp::new(5e5, 2e6) });
    let last = always.cells[0].findings[0].trials.last().expect("a trial");
    assert_eq!((last.machine.noise.disturbed, last.machine.noise.repeated), (true, 1), "it is marked in the end");
}

#[test]
fn the_trials_of_a_search_are_numbered_without_those_that_were_made_again() {
    let (mut experiment, file) = experiment("", THROUGHPUT);
    (experiment.gap_max_ns, experiment.disturbed_retries) = (1_000_000, 1);
    let (quiet, _, _) = all(&experiment, &file, &mut MadeUp::new(5e5, 2e6));
    let (results, _, _) = all(&experiment, &file, &mut MadeUp { disturbed: 7, ..MadeUp::new(5e5, 2e6) });
    let [cell, undisturbed] = [&results, &quiet].map(|results| &results.cells[0].findings[0]);
    let used = |finding: &Finding| -> Vec<(String, f64)> {
        finding.used_trials().map(|made| (made.trial.name.clone(), made.trial.load_pps)).collect()
    };
    assert_eq!((used(cell), &cell.result), (used(undisturbed), &undisturbed.result));
    assert!(cell.trials.len() > undisturbed.trials.len(), "{cell:#?}");
}

#[test]
fn a_trial_whose_losses_have_no_cause_yet_is_made_again_and_says_so() {
    let (mut experiment, file) = experiment("", "[[test]]\nkind = \"load\"\nrate = \"1000pps\"\n");
    experiment.disturbed_retries = 0;
    // Of the baseline, of the first device, and the second time in a row, which cannot be.
    let mut testbeds = MadeUp { unasked: 4, ..MadeUp::new(5e5, 2e6) };
    let mut again = Vec::new();
    let mut results = begin(&experiment, &file, None, "0").expect("cells");
    let watch = &mut |event: Event<'_>| {
        if let Event::Again(trial) = event {
            again.push(trial.trial.name.clone());
        }
    };
    run(&experiment, &mut results, &mut testbeds, &mut Kept::default(), watch).expect("kept");
    assert_eq!(again.len(), 2, "{again:?}");
    let notes = |cell: &Cell| -> Vec<_> {
        cell.findings[0].trials.iter().map(|made| (made.not_used.clone(), made.trial.notes.clone())).collect()
    };
    let asked = "made again: nobody was asked".to_owned();
    assert_eq!(notes(&results.cells[0]), [(Some(asked.clone()), vec![]), (None, vec![asked])]);
    assert_eq!(notes(&results.cells[1]), [(None, vec![])]);
    assert!(
        results.cells[0].findings[0].trials.iter().all(|made| made.machine.noise.repeated == 0),
        "none was disturbed"
    );
}

#[test]
fn a_full_disk_ends_the_run_and_says_so() {
    let (experiment, file) = experiment("", THROUGHPUT);
    for full_after in 0..6 {
        let mut results = begin(&experiment, &file, None, "0").expect("cells");
        let mut kept = Kept { full_after: Some(full_after), ..Kept::default() };
        let mut testbeds = MadeUp::new(5e5, 2e6);
        let end = run(&experiment, &mut results, &mut testbeds, &mut kept, &mut |_| {});
        assert!(matches!(end, Err(RunError::Store(_))), "{end:?}");
        assert!(testbeds.trials <= full_after + 1, "nothing is measured that cannot be kept");
    }
}

#[test]
fn cells_are_chosen_by_pattern() {
    let id = "snat/64/10000/both-ways";
    for pattern in ["snat", "snat/*", "*/64/*", "*both-ways", "*", "snat*64*ways", "10000"] {
        assert!(matches_pattern(id, pattern), "{pattern}");
    }
    for pattern in ["plain", "64/*", "*/one-way", "snat*ways*64*", "snat/*/one*"] {
        assert!(!matches_pattern(id, pattern), "{pattern}");
    }
    let (experiment, file) = experiment("", THROUGHPUT);
    let error = begin(&experiment, &file, Some("three"), "0").expect_err("no such cell");
    assert!(error.to_string().contains("one/64/1/one-way"), "{error}");
}
