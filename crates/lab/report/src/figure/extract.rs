//! From cells to figures.

use super::of_found::{Part, of_found};
use super::{Better, Figure, Mark, Unit};
use crate::trial::is_tester_limited;
use crate::{CoreUse, ExperimentTrial, Finding, Results, TestResult, Trial};

/// Every figure of every repetition, in the order of the document.
pub(crate) fn figures(results: &Results) -> Vec<Figure> {
    let findings = results
        .cells
        .iter()
        .enumerate()
        .flat_map(|(index, cell)| cell.findings.iter().map(move |finding| (index, cell.baseline_pps, finding)));
    findings.flat_map(|(cell, baseline_pps, finding)| of_finding(cell, baseline_pps, finding)).collect()
}

/// The figures of one repetition of one test in the cell with this index.
pub(crate) fn of_finding(cell: usize, baseline_pps: Option<f64>, finding: &Finding) -> Vec<Figure> {
    let disturbed = finding.used_trials().any(|trial| trial.machine.noise.disturbed);
    let spoilt = disturbed && finding.used_trials().all(|trial| trial.machine.noise.disturbed);
    let Some(found) = &finding.result else {
        let why = finding.error.clone().unwrap_or_else(|| "the run was stopped within it".to_owned());
        let name = "";
        let part = Part { value: Err(why), ..Part::new(name, Unit::PacketsPerSecond, Better::Neither, f64::NAN) };
        return vec![figure(cell, known_test(&finding.test), finding.repetition, part)];
    };
    let parts = of_found(found).into_iter().map(|part| (test_name(found), part));
    let of_test = test_name(found);
    let costs = key_trial(finding).map(costs).unwrap_or_default().into_iter().map(|mut part| {
        // Costs at other loads than the throughput are figures of their own.
        if of_test != "throughput" {
            part.name.push_str(&format!(" ({})", of_test.replace('-', " ")));
        }
        ("cpu", part)
    });
    let costs = costs.filter(|_| has_costs(found));
    parts
        .chain(costs)
        .map(|(test, mut part)| {
            part.marks.extend(disturbed.then_some(Mark::Disturbed));
            let is_rate = part.unit == Unit::PacketsPerSecond && part.better == Better::Higher;
            let by_tester = is_rate && is_tester_limited(part.value.clone().ok(), baseline_pps);
            part.marks.extend(by_tester.then_some(Mark::TesterLimited));
            Figure { spoilt, ..figure(cell, test, finding.repetition, part) }
        })
        .collect()
}

fn figure(cell: usize, test: &'static str, repetition: u32, part: Part) -> Figure {
    let Part { name, unit, better, value, upper, width, mut marks } = part;
    marks.sort_unstable();
    marks.dedup();
    Figure { cell, test, name, unit, better, repetition, value, upper, width, marks, spoilt: false }
}

/// The name of the test in the document.
fn test_name(found: &TestResult) -> &'static str {
    match found {
        TestResult::Throughput { .. } => "throughput",
        TestResult::Capacity { .. } => "capacity",
        TestResult::NoLoss { .. } => "no-loss",
        TestResult::Latency { .. } => "latency",
        TestResult::FrameLoss { .. } => "frame-loss",
        TestResult::BackToBack { .. } => "back-to-back",
        TestResult::SystemRecovery { .. } => "system-recovery",
        TestResult::Reset { .. } => "reset",
        TestResult::Soak { .. } => "soak",
        TestResult::MaxForwardingRate { .. } => "max-forwarding-rate",
        TestResult::ConnectionRate(_) => "connection-rate",
        TestResult::ConcurrentConnections(_) => "concurrent-connections",
        TestResult::RequestRate(_) => "request-rate",
        TestResult::TcpEcho(_) => "tcp-echo",
        TestResult::UdpLoop(_) => "udp-loop",
        TestResult::Load { .. } => "load",
        TestResult::Capture { .. } => "capture",
        TestResult::Ping { .. } => "ping",
    }
}

fn known_test(name: &str) -> &'static str {
    let known = ["throughput", "latency", "frame-loss", "back-to-back", "system-recovery", "reset", "soak"];
    let known = known.iter().chain(&["max-forwarding-rate", "load", "capture", "capacity", "no-loss", "ping"]);
    let known = known.chain(&["connection-rate", "concurrent-connections", "request-rate", "tcp-echo", "udp-loop"]);
    known.copied().find(|known| *known == name).unwrap_or("test")
}

/// Tests whose trials run at one steady load.
fn has_costs(found: &TestResult) -> bool {
    matches!(
        found,
        TestResult::Throughput { .. }
            | TestResult::Soak { .. }
            | TestResult::MaxForwardingRate { .. }
            | TestResult::Load { .. }
            | TestResult::Capacity { .. }
    )
}

/// The trial that stands for a finding: of a search the last one at the load nearest to what was found, else the one that
/// delivered most.
pub(crate) fn key_trial(finding: &Finding) -> Option<&ExperimentTrial> {
    if let Some(TestResult::Throughput { goals }) = &finding.result {
        let found_pps = goals.first().and_then(|goal| goal.lower_pps)?;
        let distance = |made: &ExperimentTrial| (made.trial.load_pps - found_pps).abs();
        return finding.used_trials().rev().min_by(|one, other| distance(one).total_cmp(&distance(other)));
    }
    let delivered = |made: &&ExperimentTrial| made.trial.rates().map_or(0, |rates| rates.delivered_pps as u64);
    finding.used_trials().max_by_key(delivered)
}

fn costs(made: &ExperimentTrial) -> Vec<Part> {
    let mut parts = Vec::new();
    if let Some(cost_ns) = cpu_ns_per_packet(&made.trial) {
        parts.push(Part::new("time per packet, all cores", Unit::Nanoseconds, Better::Lower, cost_ns));
    }
    if !made.trial.cpu.is_empty() {
        parts.push(Part::new("cores at 100 %", Unit::Cores, Better::Lower, made.cores_full() as f64));
    }
    for work in &made.machine.work {
        let of = |what: &str| format!("{what} per packet, {}", work.of);
        let cycles = work.cycles_per_packet.map(|value| ("cycles", Unit::CyclesPerPacket, value));
        let instructions =
            work.instructions_per_packet.map(|value| ("instructions", Unit::InstructionsPerPacket, value));
        for (what, unit, value) in cycles.into_iter().chain(instructions) {
            parts.push(Part::new(of(what), unit, Better::Lower, value));
        }
    }
    parts
}

/// Time that all cores worked for each packet delivered, in nanoseconds.
fn cpu_ns_per_packet(trial: &Trial) -> Option<f64> {
    let busy: f64 = trial.cpu.iter().map(busy_share).sum();
    let per_packet = busy * trial.duration_ns as f64 / trial.account.delivered() as f64;
    (per_packet.is_finite() && busy > 0.0).then_some(per_packet)
}

/// Share of a core's time that it worked.
fn busy_share(core: &CoreUse) -> f64 {
    core.user + core.system + core.softirq + core.irq
}
