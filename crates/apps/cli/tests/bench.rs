//! `linerate bench` from the outside: its documents balance, its exit status means what it says, and it leaves nothing behind.

mod left_behind;

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use left_behind::Machine;
use serde_json::Value;

const QUICK: [&str; 6] = ["--trial-ms", "50", "--repetitions", "1", "--flows", "1x1,100x100"];

fn bench(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
    command.arg("bench").args(["--results".as_ref(), folder.as_os_str()]).args(arguments);
    command
}

fn document(output: &Output) -> Value {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{:?}\n{stderr}", output.status);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}\n{stderr}"))
}

/// Every trial of every finding accounts for every packet, with integers.
fn check_trials(document: &Value) -> usize {
    let all = |value: &Value, name: &str| value[name].as_array().unwrap().clone();
    let findings = all(document, "cells").into_iter().flat_map(|cell| all(&cell, "findings"));
    let trials: Vec<Value> = findings.flat_map(|finding| all(&finding, "trials")).collect();
    for made in &trials {
        let trial = &made["trial"];
        let count = |name: &str| trial[name].as_i64().unwrap_or_else(|| panic!("{name} of {trial}"));
        let lost: i64 = trial["lost"].as_array().unwrap().iter().map(|row| row["packets"].as_i64().unwrap()).sum();
        assert_eq!(count("intended"), count("unsent") + count("sent"), "{trial}");
        assert_eq!(count("sent"), count("delivered") + lost + count("unexplained"), "{trial}");
        assert_eq!(count("unexplained"), 0, "{trial}");
        assert_eq!(count("duplicated"), 0, "{trial}");
        // A trial that was made again may be one whose thread had no core at all.
        assert!(count("sent") > 0 || made["not_used"].is_string(), "{made}");
    }
    trials.len()
}

/// What was found by the test of this name, in every cell.
fn found(document: &Value, test: &str) -> Vec<Value> {
    let cells = document["cells"].as_array().unwrap();
    let findings = cells.iter().flat_map(|cell| cell["findings"].as_array().unwrap());
    findings.map(|finding| finding["result"].clone()).filter(|found| found["test"] == test).collect()
}

fn is_root() -> bool {
    std::fs::read_to_string("/proc/self/status").is_ok_and(|status| status.contains("Uid:\t0\t0\t0\t0"))
}

#[test]
fn the_router_is_measured_and_every_packet_accounted_for() {
    let folder = tempfile::tempdir().unwrap();
    let document = document(&bench(folder.path(), &QUICK).arg("--json").output().unwrap());
    assert_eq!((&document["schema"], &document["name"]), (&"linerate.experiment-result/1".into(), &"quick".into()));
    check_trials(&document);
    let cells = document["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 2);
    if cells[0]["dut"]["name"] == "Linerate pipe" {
        eprintln!("skipped: the router itself, since {}", document["about"]);
        return;
    }
    assert!(cells.iter().all(|cell| cell["baseline_pps"].as_f64().is_some_and(|pps| pps > 0.0)));
    let (searches, capacities) = (found(&document, "throughput"), found(&document, "capacity"));
    assert_eq!((searches.len(), capacities.len()), (2, 2), "{document}");
    for search in &searches {
        let goals = search["goals"].as_array().unwrap();
        assert_eq!(goals.iter().map(|goal| goal["name"].as_str().unwrap()).collect::<Vec<_>>(), ["NDR", "PDR"]);
    }
    for capacity in &capacities {
        assert!(capacity["delivered_pps"].as_array().unwrap().iter().all(|pps| pps.as_f64().unwrap() > 0.0));
    }
    assert!(document["environment"]["kernel"].is_string());
    let stored: Vec<_> = std::fs::read_dir(folder.path()).unwrap().flatten().collect();
    assert_eq!(stored.len(), 1);
    let text = std::fs::read_to_string(stored[0].path().join("result.json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), document);
    for report in ["report.txt", "report.html", "results.csv"] {
        assert!(stored[0].path().join(report).exists(), "{report}");
    }
}

#[test]
fn an_ordinary_user_gets_the_same() {
    if !is_root() {
        eprintln!("skipped: the test itself runs as an ordinary user, so the test above has shown it");
        return;
    }
    const NOBODY: u32 = 65_534;
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::chown(folder.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    // The binary's folder may be closed to others: run a copy. Made by another process: a file that this one has open for writing, and
    // with it for a moment each process that the tests beside this one start, cannot be run (ETXTBSY, execve(2)).
    let copy = folder.path().join("linerate");
    assert!(Command::new("cp").arg(env!("CARGO_BIN_EXE_linerate")).arg(&copy).status().unwrap().success());
    let mut command = Command::new(&copy);
    command.args(["bench", "--results"]).arg(folder.path().join("results")).args(QUICK).arg("--json");
    let output = command.current_dir(folder.path()).uid(NOBODY).gid(NOBODY).output().unwrap();
    let document = document(&output);
    check_trials(&document);
    eprintln!("as an ordinary user: {}", document["cells"][0]["mode"]);
}

#[test]
fn without_namespaces_the_link_is_measured_and_said_to_be() {
    let folder = tempfile::tempdir().unwrap();
    let output = bench(folder.path(), &QUICK).args(["--in-process", "--json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "there is no goal to miss");
    let document = document(&output);
    assert!(check_trials(&document) > 2);
    assert!(document["about"].as_str().unwrap().contains("--in-process"), "{}", document["about"]);
    let tables = bench(folder.path(), &QUICK).args(["--in-process", "--trials"]).output().unwrap();
    // A table of disturbed trials is so wide that its heads are cut into several lines.
    let text = String::from_utf8(tables.stdout).unwrap();
    let words: Vec<&str> = text.split_whitespace().collect();
    let text = words.join(" ");
    for word in ["intended", "delivered", "unexplained", "under overload", "generator", "where the others went"] {
        assert!(text.contains(word), "{word} in\n{text}");
    }
}

#[test]
fn the_exit_status_says_whether_a_goal_was_missed() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let output = bench(folder.path(), &QUICK).arg("--in-process").args(arguments).output().unwrap();
        (output.status.code().unwrap(), output)
    };
    // Whether a machine that others use carries a packet a second without any loss is not for this test to decide.
    let (status, output) = run(&["--goal", "1pps", "--json"]);
    assert_eq!(status == 0, goals_met(&document(&output)));
    let (status, output) = run(&["--goal", "900Gpps", "--json"]);
    assert_eq!((status, goals_met(&document(&output))), (1, false));
    for wrong in [&["--goal", "fast"][..], &["--flows", "0x1"], &["--trial-ms", "1"], &["--size", "63"], &["--no-such"]]
    {
        assert_eq!(run(wrong).0, 2, "{wrong:?}");
    }
}

/// Whether every goal of a document is met; there is one at least.
fn goals_met(document: &Value) -> bool {
    let cells = document["cells"].as_array().unwrap();
    let findings = cells.iter().flat_map(|cell| cell["findings"].as_array().unwrap());
    let goals: Vec<&Value> = findings.filter_map(|finding| finding["goals"].as_array()).flatten().collect();
    assert!(!goals.is_empty(), "{document}");
    goals.iter().all(|goal| goal["met"] == true)
}

#[test]
fn stopped_or_killed_it_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let mut machine = Machine::now();
    for signal in ["-INT", "-KILL"] {
        let mut child = left_behind::mark(&mut bench(folder.path(), &["--trial-ms", "1000"]))
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(1_200));
        machine.note(child.id());
        let sent = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
        assert!(sent.success());
        let start = Instant::now();
        let status = child.wait().unwrap();
        assert!(start.elapsed() < Duration::from_secs(60));
        assert_ne!(status.code(), Some(0), "{signal} cuts a run short");
    }
    eprintln!("{} network namespaces were held", machine.seen());
    machine.assert_nothing_left();
}
