//! `[[test]]`: what is found out in each cell.

use std::ops::Range;

use crate::read::cell_match::{self, Known};
use crate::read::{goals, limits, sessions};
use crate::section::{self, SHARE_BELOW_1, Section, is_share_below_1};
use crate::{CellMatch, SessionKind, TestKind, TestSpec, TimestampSource};

const TESTS_MAX: usize = 32;
const SECOND_NS: u64 = 1_000_000_000;
/// Shortest trial: below, the tester's own start is most of it.
const TRIAL_NS_MIN: u64 = 1_000_000;
/// Longest trial, a soak of a day.
const TRIAL_NS_MAX: u64 = 86_400 * SECOND_NS;
/// Shortest time from one echo request to the next: `ping` allows ordinary users no less.
const PING_NS_MIN: u64 = 2_000_000;

#[derive(Clone, Copy, PartialEq)]
enum Word {
    Throughput,
    Latency,
    FrameLoss,
    BackToBack,
    Recovery,
    Reset,
    Soak,
    MaxForwardingRate,
    Capture,
    Ping,
    Load,
    Capacity,
    NoLoss,
    Sessions(SessionKind),
    TcpEcho,
    UdpLoop,
}

const KINDS: [(&str, Word); 18] = [
    ("throughput", Word::Throughput),
    ("latency", Word::Latency),
    ("frame-loss", Word::FrameLoss),
    ("back-to-back", Word::BackToBack),
    ("recovery", Word::Recovery),
    ("reset", Word::Reset),
    ("soak", Word::Soak),
    ("max-forwarding-rate", Word::MaxForwardingRate),
    ("load", Word::Load),
    ("capture", Word::Capture),
    ("ping", Word::Ping),
    ("capacity", Word::Capacity),
    ("no-loss", Word::NoLoss),
    ("connection-rate", Word::Sessions(SessionKind::ConnectionRate)),
    ("concurrent-connections", Word::Sessions(SessionKind::ConcurrentConnections)),
    ("request-rate", Word::Sessions(SessionKind::RequestRate)),
    ("tcp-echo", Word::TcpEcho),
    ("udp-loop", Word::UdpLoop),
];

pub(crate) fn all(file: &Section<'_>, has_captures: bool) -> Vec<TestSpec> {
    if file.needs_table("test", "at least one [[test]], as kind = \"throughput\"") {
        file.value("test");
        return Vec::new();
    }
    let (mut tests, mut has_throughput) = (Vec::new(), false);
    for table in file.sections("test", TESTS_MAX) {
        table.needed("kind", "\"throughput\"");
        let Some(word) = table.word("kind", "kind of test", &KINDS) else {
            // It may have been meant to be the throughput.
            has_throughput = true;
            continue;
        };
        let spec = test(&table, word);
        let needs_throughput = match &spec.kind {
            // Share 0 is a rate of its own.
            TestKind::Latency { shares, .. } => shares.iter().any(|share| *share > 0.0),
            _ => matches!(word, Word::BackToBack | Word::Recovery | Word::Reset | Word::Soak | Word::NoLoss),
        };
        if needs_throughput && !has_throughput {
            let name = KINDS.iter().find(|(_, known)| *known == word).map_or("", |(name, _)| name);
            let message = format!("a {name} test starts from the throughput; expected a throughput test before it");
            table.error("kind", message);
        }
        if word == Word::Throughput && tests.iter().any(is_throughput) {
            table.error("kind", "this is the second throughput test; expected one, with several goals");
        }
        if word == Word::Capture && !has_captures {
            table.error("kind", "a capture test needs a capture; expected a [[dut]] of kind = \"capture\"");
        }
        has_throughput |= word == Word::Throughput;
        // Read by `cells`, once the cells have names.
        table.value("cells");
        tests.push(spec);
        table.finish();
    }
    tests
}

/// The cells of each test, with their places.
pub(crate) fn cells(file: &Section<'_>, known: &Known) -> Vec<Vec<(CellMatch, Range<usize>)>> {
    let tables = file.sections("test", TESTS_MAX);
    tables.iter().map(|table| cell_match::rows(table, "cells", known)).collect()
}

fn is_throughput(test: &TestSpec) -> bool {
    matches!(test.kind, TestKind::Throughput { .. })
}

fn test(table: &Section<'_>, word: Word) -> TestSpec {
    let trial = |default_ns| table.span_ns("trial", TRIAL_NS_MIN..=TRIAL_NS_MAX).unwrap_or(default_ns);
    let spec = |trial_ns, kind| TestSpec { limits: limits::read(table, &kind), kind, trial_ns, cells: Vec::new() };
    match word {
        Word::Throughput => {
            let trial_ns = trial(SECOND_NS);
            let time_max_ns = table.span_ns("time_max", TRIAL_NS_MIN..=TRIAL_NS_MAX);
            spec(trial_ns, TestKind::Throughput { search: goals::search(table, trial_ns), time_max_ns })
        }
        Word::Latency => spec(trial(SECOND_NS), latency(table)),
        Word::FrameLoss => spec(trial(SECOND_NS), frame_loss(table)),
        Word::BackToBack => {
            let burst_max_ns = table.span_ns("burst_max", 1_000..=3_600 * SECOND_NS).unwrap_or(2 * SECOND_NS);
            let bursts = table.integer("bursts", 1..=1_000).unwrap_or(50) as u32;
            spec(burst_max_ns, TestKind::BackToBack { burst_max_ns, bursts })
        }
        Word::Recovery => spec(trial(SECOND_NS), TestKind::SystemRecovery),
        Word::Reset => spec(trial(10 * SECOND_NS), TestKind::Reset),
        Word::Soak => {
            let is_load = |share: f64| share > 0.0 && share <= 1.0;
            let share = table.number("share", is_load, "a share above 0 up to 1").unwrap_or(0.9);
            spec(trial(60 * SECOND_NS), TestKind::Soak { share })
        }
        Word::MaxForwardingRate => spec(trial(SECOND_NS), TestKind::MaxForwardingRate),
        Word::Capture => spec(trial(SECOND_NS), captures(table)),
        Word::Ping => {
            let interval_ns = table.span_ns("interval", PING_NS_MIN..=SECOND_NS).unwrap_or(10_000_000);
            spec(trial(2 * SECOND_NS), TestKind::Ping { interval_ns })
        }
        Word::Capacity => {
            let trials = table.integer("trials", 1..=1_000).unwrap_or(5) as u32;
            spec(trial(SECOND_NS / 5), TestKind::Capacity { trials })
        }
        Word::NoLoss => spec(trial(SECOND_NS), TestKind::NoLoss { shares: descending_shares(table) }),
        Word::Sessions(of) => spec(trial(SECOND_NS), sessions::sessions(table, of)),
        Word::TcpEcho => spec(trial(SECOND_NS), sessions::echo(table)),
        Word::UdpLoop => spec(trial(SECOND_NS), TestKind::UdpLoop),
        Word::Load => spec(trial(SECOND_NS), TestKind::Load { pps: table.rate_pps("rate") }),
    }
}

fn latency(table: &Section<'_>) -> TestKind {
    const SOURCES: [(&str, TimestampSource); 4] = [
        ("auto", TimestampSource::Auto),
        ("hardware", TimestampSource::Hardware),
        ("kernel", TimestampSource::Kernel),
        ("software", TimestampSource::Software),
    ];
    let idle_pps = table.rate_pps("idle").unwrap_or(1_000.0);
    let timestamps = table.word("timestamps", "source of timestamps", &SOURCES).unwrap_or_default();
    let mut shares: Vec<f64> = Vec::new();
    if !table.has("shares") {
        table.value("shares");
        return TestKind::Latency { shares: vec![0.0, 0.1, 0.5, 0.9], idle_pps, timestamps };
    }
    for value in table.list("shares", 1..=32).unwrap_or_default() {
        let Some(share) = section::number(value, "shares", is_share_below_1, SHARE_BELOW_1, table.log) else {
            continue;
        };
        if shares.contains(&share) {
            table.log.error(value.span(), format!("the share {share} is there twice"));
        }
        shares.push(share);
    }
    TestKind::Latency { shares, idle_pps, timestamps }
}

/// Shares of the throughput, the highest first.
fn descending_shares(table: &Section<'_>) -> Vec<f64> {
    const DEFAULT: [f64; 5] = [1.0, 0.75, 0.5, 0.25, 0.1];
    if !table.has("shares") {
        table.value("shares");
        return DEFAULT.to_vec();
    }
    let is_share = |share: f64| share > 0.0 && share <= 1.0;
    let mut shares: Vec<f64> = Vec::new();
    for value in table.list("shares", 1..=32).unwrap_or_default() {
        let share = section::number(value, "shares", is_share, "a share above 0 up to 1", table.log);
        let Some(share) = share else { continue };
        if shares.last().is_some_and(|last| share >= *last) {
            table.log.error(value.span(), "this share is not below the one before; expected the highest first");
        }
        shares.push(share);
    }
    shares
}

fn frame_loss(table: &Section<'_>) -> TestKind {
    let mut loads_pps: Vec<f64> = Vec::new();
    for value in table.list("loads", 1..=100).unwrap_or_default() {
        let Some(pps) = section::rate_pps(value, "loads", table.log) else { continue };
        if loads_pps.last().is_some_and(|last| pps >= *last) {
            table.log.error(value.span(), "this load is not below the one before; expected the highest first");
        }
        loads_pps.push(pps);
    }
    TestKind::FrameLoss { loads_pps }
}

fn captures(table: &Section<'_>) -> TestKind {
    table.needed("loads", "[\"100kpps\", \"400kpps\"]");
    let mut loads_pps: Vec<f64> = Vec::new();
    for value in table.list("loads", 1..=32).unwrap_or_default() {
        let Some(pps) = section::rate_pps(value, "loads", table.log) else { continue };
        if loads_pps.last().is_some_and(|last| pps <= *last) {
            table.log.error(value.span(), "this load is not above the one before; expected the lowest first");
        }
        loads_pps.push(pps);
    }
    TestKind::Capture { loads_pps }
}
