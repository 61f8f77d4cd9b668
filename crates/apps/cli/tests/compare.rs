//! `linerate compare` from the outside: its exit statuses, and what it says with each.

#[path = "../../../lab/report/tests/common/experiment.rs"]
#[allow(dead_code)]
mod experiment;

use std::path::Path;
use std::process::Command;

use linerate_report::{Results, TestResult, results_json};

/// Runs the command on these arguments, in a folder with the runs: exit status, output and errors, with a space for each line's end.
fn compare(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
    let ended = command.arg("compare").args(arguments).current_dir(folder).output().expect("the program runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).split_whitespace().collect::<Vec<_>>().join(" ");
    (ended.status.code(), text(&ended.stdout), text(&ended.stderr))
}

fn save(folder: &Path, name: &str, results: &Results) {
    std::fs::write(folder.join(name), results_json(results)).expect("a result is written");
}

/// A run in which the search for the NDR of the smallest frames found that no load passed.
fn without_ndr(mut results: Results) -> Results {
    for finding in &mut results.cells[0].findings {
        let Some(TestResult::Throughput { goals }) = &mut finding.result else { continue };
        goals[0].lower_pps = None;
        goals[0].conditional_pps = None;
        goals[0].with_interruptions = None;
    }
    results
}

#[test]
fn exit_statuses_tell_same_worse_impossible_and_inconclusive() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let sizes = |name: &str, seed, repetitions, capacity_pps| {
        save(folder, name, &experiment::sizes(seed, repetitions, capacity_pps, 0.002));
    };
    sizes("before.json", 1, 5, 1.2e6);
    sizes("alike.json", 2, 5, 1.2e6);
    sizes("slower.json", 3, 5, 1.0e6);
    sizes("faster.json", 4, 5, 1.4e6);
    sizes("once.json", 5, 1, 0.98e6);
    sizes("once-dead.json", 6, 1, 0.041e6);
    save(folder, "no-ndr.json", &without_ndr(experiment::sizes(7, 5, 1.2e6, 0.002)));
    std::fs::write(folder.join("other.toml"), "name = \"x\"\n").expect("a file");
    for (after, status, words) in [
        ("alike.json", 0, "no significant difference in"),
        ("slower.json", 1, "significant differences ("),
        ("no-ndr.json", 1, "gone"),
        // Better is no reason to fail, and is said.
        ("faster.json", 0, "better"),
    ] {
        let (code, stdout, stderr) = compare(folder, &["before.json", after]);
        assert_eq!(code, Some(status), "{after}: {stdout}{stderr}");
        assert!(stdout.contains(words), "{after}: {stdout}");
    }
    for format in [&[][..], &["--markdown"], &["--html"]] {
        let (code, stdout, stderr) = compare(folder, &[&["once.json", "once-dead.json"], format].concat());
        assert_eq!(code, Some(3), "{stdout}{stderr}");
        let words = ["one repetition a side", "at least 2", "--repetitions 5", "-95.8 %", "not judged"];
        words.iter().for_each(|words| assert!(stdout.contains(words), "{words}: {stdout}"));
        assert!(!stdout.contains("no significant difference"), "{stdout}");
    }
    let (code, stdout, _) = compare(folder, &["once.json", "once-dead.json", "--json"]);
    assert!(code == Some(3) && stdout.contains("\"reason\": \"one-repetition\""), "{stdout}");
    for (arguments, words) in [
        (&["before.json", "other.toml"][..], "other.toml"),
        (&["before.json"], "2 values"),
        (&[], "--before"),
        (&["--before", "before.json"], "--after"),
        (&["before.json", "alike.json", "--after", "slower.json"], "cannot be used with"),
    ] {
        let (code, stdout, stderr) = compare(folder, arguments);
        assert_eq!(code, Some(2), "{arguments:?}: {stdout}{stderr}");
        assert!(stderr.contains(words), "{arguments:?}: {stderr}");
    }
}

#[test]
fn several_runs_are_one_side() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let rates = [1.2e6, 1.25e6, 1.15e6];
    // Runs of one repetition each, as `linerate bench` makes them.
    for (number, rate_pps) in (1..).zip(rates) {
        save(folder, &format!("a{number}"), &experiment::sizes(number, 1, rate_pps, 0.002));
        save(folder, &format!("b{number}"), &experiment::sizes(number + 10, 1, rate_pps * 1.005, 0.002));
        save(folder, &format!("c{number}"), &experiment::sizes(number + 20, 1, rate_pps * 0.2, 0.002));
    }
    let (code, stdout, stderr) = compare(folder, &["--before", "a1", "a2", "a3", "--after", "b1", "b2", "b3"]);
    assert!(code == Some(0) || code == Some(3), "{stdout}{stderr}");
    assert!(!stdout.contains("worse"), "{stdout}");
    let (code, stdout, stderr) = compare(folder, &["--before", "a1", "a2", "a3", "--after", "c1", "c2", "c3"]);
    assert_eq!(code, Some(1), "{stdout}{stderr}");
    assert!(stdout.contains("median of a run (3 before, 3 after)"), "{stdout}");
    assert!(stdout.contains("-80.0 %") && stdout.contains("values of each figure: 3 before"), "{stdout}");
}
