//! The scenarios of `tests/scripts` against the kernel's TCP over a TAP device. What it does otherwise than this stack must be judged in
//! docs/tcp-linux.md: a difference that is not there fails the test, and so does a row without a difference.

mod subject;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{fs, thread};

use linerate_sys::netns::NetNs;
use linerate_tcpscript::{Action, AppExpectation, Call, EndReason, Scenario, Script, run};
use linerate_testkit::{or_skip, program_or_skip};
use linerate_wire::MacAddress;
use subject::Linux;

const MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
/// Scenarios that take longer are left out, because the kernel's clock is real.
const TIME_MAX_NS: u64 = 2_500_000_000;
/// Scenarios that are played at the same time.
const THREADS: usize = 6;
/// Times that a scenario is played before it fails the test: a machine that others use delays things.
const TRIES: usize = 4;
/// Scenarios that are played at least.
const PLAYED_LEAST: usize = 120;

/// The scenario as far as sockets and a real clock can show it; `None` if that says nothing.
fn playable(scenario: &Scenario) -> Option<Scenario> {
    let is_known = |(name, value): &(String, String)| match name.as_str() {
        "ip" | "tolerance" => true,
        "mtu" => value.parse().is_ok_and(|mtu: u16| (68..=1500).contains(&mtu)),
        "congestion" => value == "cubic",
        _ => false,
    };
    let mut scenario = scenario.clone();
    scenario.steps.retain(|step| match &step.action {
        Action::Check(_) => false,
        Action::App(AppExpectation::Closed(reason)) => matches!(reason, EndReason::Reset | EndReason::Refused),
        Action::App(expectation) => !matches!(
            expectation,
            AppExpectation::Sendable
                | AppExpectation::Urgent(_)
                | AppExpectation::SoftError(_)
                | AppExpectation::Nothing
        ),
        _ => true,
    });
    let times_ns = scenario.steps.iter().map(|step| match &step.action {
        Action::Quiet(duration_ns) => step.when.to_ns + duration_ns,
        _ => step.when.to_ns,
    });
    let time_ns: u64 = times_ns.sum();
    let can_call = |call: &Call| match call {
        Call::Listen(options) | Call::Connect(options) => options.is_empty(),
        Call::Abort | Call::Refused(..) | Call::SendUrgent(_) => false,
        Call::Set(name, _) => name == "nodelay",
        _ => true,
    };
    let can_play = scenario.steps.iter().all(|step| match &step.action {
        Action::Call(call) => can_call(call),
        Action::Peer(options) => options.iter().all(|(name, _)| name != "local"),
        _ => true,
    });
    (scenario.settings.iter().all(is_known) && can_play && time_ns <= TIME_MAX_NS).then_some(scenario)
}

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn scenarios() -> Vec<Scenario> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder().join("tests/scripts")).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        all.extend(Script::parse(&text).unwrap().scenarios.iter().filter_map(playable));
    }
    let only = std::env::var("LINERATE_SCENARIO").ok();
    all.retain(|scenario| only.as_ref().is_none_or(|only| scenario.name.contains(only.as_str())));
    all
}

/// Names in the first column of the table of differences.
fn judged() -> BTreeSet<String> {
    let text = fs::read_to_string(folder().join("../../../docs/tcp-linux.md")).unwrap();
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `")?.split_once(" |"));
    rows.flat_map(|(names, _)| names.split(", ").map(|name| name.trim_matches('`').to_owned())).collect()
}

#[test]
fn differences_to_linux_are_judged() {
    if or_skip("no TAP devices", linerate_port_tap::probe()).is_none()
        || or_skip("no network namespace", NetNs::anonymous()).is_none()
        || program_or_skip("ip", Command::new("ip").arg("-V").stdout(Stdio::null()).status()).is_none()
    {
        return;
    }
    let (scenarios, judged) = (scenarios(), judged());
    let (next, differences) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let work = || {
        while let Some(scenario) = scenarios.get(next.fetch_add(1, Ordering::Relaxed)) {
            let play = || {
                let mut linux = Linux::new(scenario).unwrap_or_else(|error| panic!("{error}"));
                run(scenario, &mut linux, MAC).err()
            };
            // A difference that nobody has judged must be there every time, one that was judged must be there once.
            let is_judged = judged.contains(&scenario.name);
            let failures = (0..TRIES).map(|_| play());
            let difference = if is_judged {
                failures.flatten().next()
            } else {
                failures.collect::<Option<Vec<_>>>().and_then(|mut failures| failures.pop())
            };
            if let Some(difference) = difference {
                differences.lock().unwrap().insert(scenario.name.clone(), difference.to_string());
            }
        }
    };
    thread::scope(|scope| (0..THREADS).for_each(|_| drop(scope.spawn(work))));
    let differences = differences.into_inner().unwrap();
    eprintln!("{} scenarios, {} differences", scenarios.len(), differences.len());
    let unjudged: Vec<&str> =
        differences.iter().filter(|(name, _)| !judged.contains(*name)).map(|(_, text)| text.as_str()).collect();
    assert!(unjudged.is_empty(), "{} differences that are not judged:\n{}", unjudged.len(), unjudged.join("\n"));
    if std::env::var_os("LINERATE_SCENARIO").is_none() {
        let stale: Vec<_> = judged.iter().filter(|name| !differences.contains_key(*name)).collect();
        assert!(
            stale.is_empty(),
            "docs/tcp-linux.md judges what Linux does as this stack, or what is not played: {stale:?}"
        );
        assert!(scenarios.len() >= PLAYED_LEAST, "{} scenarios were played", scenarios.len());
    }
}
