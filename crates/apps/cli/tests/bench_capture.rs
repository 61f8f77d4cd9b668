//! `linerate bench capture` from the outside: every packet accounted for, a recommendation at the end, nothing left behind.

mod left_behind;

use std::path::Path;
use std::process::{Command, Output};

use left_behind::Machine;
use serde_json::Value;

fn bench(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
    command.args(["bench", "capture"]).args(["--results".as_ref(), folder.as_os_str()]).args(arguments);
    command.output().expect("the program")
}

const TINY: [&str; 12] = [
    "--trial-ms",
    "100",
    "--tool",
    "packet",
    "--receive",
    "threaded-napi",
    "--cores",
    "all",
    "--load",
    "2kpps,4kpps",
    "--ports",
    "1,2",
];

fn can_measure(output: &Output) -> bool {
    let stderr = String::from_utf8_lossy(&output.stderr);
    let can = output.status.code() == Some(0);
    if !can {
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains("no network namespace") || stderr.contains("nothing could be measured"), "{stderr}");
        eprintln!("skipped: {stderr}");
    }
    can
}

#[test]
fn settings_are_measured_every_packet_accounted_for_and_the_best_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let machine = Machine::now();
    let output = bench(folder.path(), &[&TINY[..], &["--buffer", "512KiB,1MiB", "--json"]].concat());
    if !can_measure(&output) {
        return;
    }
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON on stdout");
    assert_eq!(document["schema"], "linerate.experiment-result/1");
    let cells = document["cells"].as_array().expect("cells");
    assert_eq!(cells.len(), 4);
    let mut captured = 0;
    for trial in cells.iter().flat_map(|cell| cell["findings"][0]["trials"].as_array().expect("trials")) {
        let count = |name: &str| trial["trial"][name].as_i64().expect("a count");
        assert_eq!(count("unexplained"), 0, "{trial}");
        captured += count("delivered");
    }
    assert!(captured > 0);
    for cell in cells {
        let points = cell["findings"][0]["result"]["points"].as_array().expect("points");
        assert_eq!(points.len(), 2, "{cell}");
        let ports = if cell["direction"] == "two ports" { 2 } else { 1 };
        assert!(points.iter().all(|point| point["ports"].as_array().map(Vec::len) == Some(ports)), "{cell}");
    }
    let words = document["recommendation"].to_string();
    assert!(words.contains("Best setting for this host: AF_PACKET, threaded NAPI, all cores, ring of"), "{words}");
    assert!(words.contains("The rule:"), "{words}");
    machine.assert_nothing_left();
}

#[test]
fn the_text_ends_with_the_recommendation() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = bench(folder.path(), &[&TINY[..], &["--buffer", "512KiB"]].concat());
    if !can_measure(&output) {
        return;
    }
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("its level") && text.contains("of sent"), "{text}");
    assert!(text.lines().all(|line| line.trim() != "Environment"), "the environment is in the file: {text}");
    let end = text.rfind("Recommendation").and_then(|at| text.get(at..)).expect("the recommendation");
    assert!(end.contains("One setting was measured") && end.lines().count() < 12, "{text}");
}

#[test]
fn wrong_settings_are_refused_and_the_router_is_still_the_bench() {
    let folder = tempfile::tempdir().expect("a folder");
    for (arguments, told) in [
        (vec!["--load", "fast"], "not a packet rate"),
        (vec!["--buffer", "1KiB"], "64KiB to 1GiB"),
        (vec!["--tool", "tcpdump"], "possible values: packet, pcap, xdp"),
        (vec!["--load", "2kpps,1kpps"], "expected the lowest first"),
    ] {
        let output = bench(folder.path(), &arguments);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && stderr.contains(told), "{arguments:?}: {stderr}");
    }
    let help = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_linerate")).args(arguments).output().expect("the program");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let router = help(&["bench", "--help"]);
    assert!(router.contains("--goal") && router.contains("capture"), "{router}");
    let capture = help(&["bench", "capture", "--help"]);
    assert!(capture.contains("--quick") && capture.contains("Exit status"), "{capture}");
}
