//! `linerate bench` from the outside: its documents balance, its exit status means what it says, and it leaves nothing behind.

mod left_behind;

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use left_behind::Machine;
use serde_json::Value;

const QUICK: [&str; 6] = ["--trial-ms", "100", "--trials-max", "3", "--flows", "1x1,100x100"];

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

/// Every trial accounts for every packet, with integers.
fn check_trials(document: &Value) -> usize {
    let trials = document["trials"].as_array().unwrap();
    for trial in trials {
        let count = |name: &str| trial[name].as_i64().unwrap_or_else(|| panic!("{name} of {trial}"));
        let lost: i64 = trial["lost"].as_array().unwrap().iter().map(|row| row["packets"].as_i64().unwrap()).sum();
        assert_eq!(count("intended"), count("unsent") + count("sent"), "{trial}");
        assert_eq!(count("sent"), count("delivered") + lost + count("unexplained"), "{trial}");
        assert_eq!(count("unexplained"), 0, "{trial}");
        assert_eq!(count("duplicated"), 0, "{trial}");
        assert!(count("sent") > 0, "{trial}");
    }
    trials.len()
}

fn is_root() -> bool {
    std::fs::read_to_string("/proc/self/status").is_ok_and(|status| status.contains("Uid:\t0\t0\t0\t0"))
}

#[test]
fn the_router_is_measured_and_every_packet_accounted_for() {
    let folder = tempfile::tempdir().unwrap();
    let document = document(&bench(folder.path(), &QUICK).arg("--json").output().unwrap());
    assert_eq!(document["schema"], "linerate.bench/1");
    check_trials(&document);
    assert_eq!(document["throughput"].as_array().unwrap().len(), 2);
    let mode = document["mode"].as_str().unwrap();
    if mode.contains("in-process") {
        eprintln!("skipped: the router itself, since {mode}");
    } else {
        assert!(document["baseline"]["pps"].as_f64().unwrap() > 0.0);
        let trials = document["trials"].as_array().unwrap();
        let of = |purpose: &str| trials.iter().filter(|trial| trial["purpose"] == purpose).count();
        assert_eq!((of("baseline"), of("overload")), (2, 2));
        for found in document["throughput"].as_array().unwrap() {
            let names = found["trials"].as_array().unwrap();
            let overload = trials.iter().find(|trial| trial["name"] == names[0]).unwrap();
            // Where the router carried all that there was to send, nothing is left to search for: that is the rate.
            let carried_all = overload["delivered"] == overload["intended"];
            assert!(names.len() > 1 || carried_all && found["pps"].as_f64().unwrap() > 0.0, "{found}");
        }
        assert!(document["environment"]["kernel"].is_string());
    }
    let stored: Vec<_> = std::fs::read_dir(folder.path()).unwrap().flatten().collect();
    assert_eq!(stored.len(), 1);
    let text = std::fs::read_to_string(stored[0].path().join("result.json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), document);
    assert!(stored[0].path().join("report.txt").exists());
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
    eprintln!("as an ordinary user: {}", document["mode"]);
}

#[test]
fn without_namespaces_the_link_is_measured_and_said_to_be() {
    let folder = tempfile::tempdir().unwrap();
    let output = bench(folder.path(), &QUICK).args(["--in-process", "--json"]).output().unwrap();
    let document = document(&output);
    assert_eq!(check_trials(&document), 2);
    assert!(document["mode"].as_str().unwrap().contains("in-process link"));
    assert!(!document["warnings"].as_array().unwrap().is_empty());
    let tables = bench(folder.path(), &QUICK).arg("--in-process").output().unwrap();
    let text = String::from_utf8(tables.stdout).unwrap();
    for word in ["intended", "delivered", "unexplained", "Throughput", "generator"] {
        assert!(text.contains(word), "{word} in\n{text}");
    }
}

#[test]
fn the_exit_status_says_whether_a_goal_was_missed() {
    let folder = tempfile::tempdir().unwrap();
    let status = |arguments: &[&str]| {
        let output = bench(folder.path(), &QUICK).arg("--in-process").args(arguments).output().unwrap();
        output.status.code().unwrap()
    };
    assert_eq!(status(&["--goal", "1pps"]), 0);
    assert_eq!(status(&["--goal", "900Gpps"]), 1);
    for wrong in
        [&["--goal", "fast"][..], &["--flows", "0x1"], &["--resolution", "0"], &["--size", "63"], &["--no-such"]]
    {
        assert_eq!(status(wrong), 2, "{wrong:?}");
    }
}

#[test]
fn stopped_or_killed_it_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let mut machine = Machine::now();
    for signal in ["-INT", "-KILL"] {
        let mut child = left_behind::mark(&mut bench(folder.path(), &["--trial-ms", "2000"]))
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
