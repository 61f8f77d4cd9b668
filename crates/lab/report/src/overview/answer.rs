//! The answer in a few lines: what each cell carries, with its bounds, and how far the machine can be trusted. For experiments that measure the
//! capacity; others are told by their sentences alone.

use super::labels::Labels;
use crate::figure::median;
use crate::number::sum;
use crate::units::{count, nanoseconds, percent, pps};
use crate::{Cell, ExperimentTrial, Finding, Found, GoalFound, Results};

/// More cells than this are for the tables.
const CELLS_MAX: usize = 6;

/// One line for each cell, and one on the machine; none where no cell has a capacity.
pub(super) fn answer(results: &Results, labels: &Labels) -> Vec<String> {
    let is_meant = |cell: &&Cell| found(cell).any(|found| matches!(found, Found::Capacity { .. }));
    if results.cells.len() > CELLS_MAX || !results.cells.iter().any(|cell| is_meant(&cell)) {
        return Vec::new();
    }
    let lines = results.cells.iter().enumerate().map(|(index, cell)| {
        let parts: Vec<String> =
            [goals(cell), capacity(cell).into_iter().collect(), no_loss(cell).into_iter().collect()].concat();
        let parts = if parts.is_empty() { "nothing could be measured".to_owned() } else { parts.join("; ") };
        format!("{}: {parts}.", labels.of(index))
    });
    lines.chain(interruptions(results, labels)).chain(machine(results)).collect()
}

fn found(cell: &Cell) -> impl Iterator<Item = &Found> {
    cell.findings.iter().filter_map(|finding| finding.found.as_ref())
}

/// `812.0 kpps without loss (760.0 kpps to 835.0 kpps)` of each goal: the median of the repetitions, and the bounds of all of them.
fn goals(cell: &Cell) -> Vec<String> {
    let Some(first) = searches(cell).next() else { return Vec::new() };
    first.iter().map(|goal| goal_words(goal, &of_name(cell, &goal.name))).collect()
}

fn searches(cell: &Cell) -> impl Iterator<Item = &Vec<GoalFound>> {
    found(cell).filter_map(|found| if let Found::Throughput { goals } = found { Some(goals) } else { None })
}

fn of_name<'a>(cell: &'a Cell, name: &str) -> Vec<&'a GoalFound> {
    searches(cell).flatten().filter(|goal| goal.name == name).collect()
}

fn goal_words(goal: &GoalFound, all: &[&GoalFound]) -> String {
    let what = match goal.loss_ratio {
        0.0 => "without loss".to_owned(),
        ratio => format!("with at most {} lost", percent(ratio).replace("00 %", " %")),
    };
    let lower: Vec<f64> = all.iter().filter_map(|goal| goal.lower_pps).collect();
    if lower.is_empty() {
        let tried = all.iter().filter_map(|goal| goal.upper_pps).fold(f64::INFINITY, f64::min);
        return format!("no load {what}: the lowest that was tried, {}, lost more", pps(tried));
    }
    let highest = all.iter().map(|goal| goal.upper_pps.or(goal.lower_pps).unwrap_or(0.0)).fold(0.0, f64::max);
    let least = lower.iter().copied().fold(f64::INFINITY, f64::min);
    format!("{} {what} ({}, {} to {})", pps(median(&lower)), goal.name, pps(least), pps(highest))
}

/// The first goal of a cell outside interruptions and with them, where that makes a difference: `1 flow: NDR 812.0 kpps, with them 24.00 kpps`.
fn with_interruptions(cell: &Cell, label: &str) -> Option<String> {
    let first = searches(cell).next()?.first()?;
    let all = of_name(cell, &first.name);
    all.iter().find(|goal| goal.with_interruptions.is_some())?;
    let outside: Vec<f64> = all.iter().filter_map(|goal| goal.lower_pps).collect();
    let with = |goal: &&&GoalFound| goal.with_interruptions.map_or(goal.lower_pps, |bounds| bounds.lower_pps);
    let with: Vec<f64> = all.iter().map(|goal| with(&goal).unwrap_or(0.0)).collect();
    (median(&outside) != median(&with))
        .then(|| format!("{label}: {} {}, with them {}", first.name, pps(median(&outside)), pps(median(&with))))
}

fn capacity(cell: &Cell) -> Option<String> {
    let of = |found: &Found| {
        if let Found::Capacity { delivered_pps, .. } = found { delivered_pps.clone() } else { Vec::new() }
    };
    let all: Vec<f64> = found(cell).flat_map(of).collect();
    let (least, most) = (all.iter().copied().fold(f64::INFINITY, f64::min), all.iter().copied().fold(0.0, f64::max));
    (!all.is_empty()).then(|| format!("{} under overload ({} to {})", pps(median(&all)), pps(least), pps(most)))
}

/// The best of the repetitions: one trial without loss is the proof.
fn no_loss(cell: &Cell) -> Option<String> {
    let mut best: Option<(f64, u64)> = None;
    let mut why = None;
    for found in found(cell) {
        let Found::NoLoss { pps, duration_ns, why: because, .. } = found else { continue };
        why = why.or(because.as_deref());
        best = [best, pps.map(|pps| (pps, *duration_ns))]
            .into_iter()
            .flatten()
            .max_by(|one, other| one.0.total_cmp(&other.0));
    }
    match (best, why) {
        (Some((rate, duration_ns)), _) => {
            Some(format!("not one packet lost over {} at {}", nanoseconds(duration_ns as f64), pps(rate)))
        }
        (None, Some(why)) => Some(format!("no figure without any loss: {why}")),
        (None, None) => None,
    }
}

/// What interrupted the trials, in a sentence; none where nothing did.
fn interruptions(results: &Results, labels: &Labels) -> Option<String> {
    let trials = || results.cells.iter().flat_map(|cell| &cell.findings).flat_map(Finding::used_trials);
    let all = || trials().flat_map(|made| made.stalls.interruptions());
    let longest_ns = all().map(|stall| stall.duration_ns).max()?;
    let sent_ns = sum(trials().map(|made| made.trial.duration_ns));
    let lost = sum(trials().map(|made| made.stalls.lost_in_interruptions));
    let cells = results.cells.iter().enumerate();
    let figures: Vec<String> = cells.filter_map(|(index, cell)| with_interruptions(cell, labels.of(index))).collect();
    let goals = results.cells.iter().find_map(|cell| searches(cell).next()).filter(|goals| !goals.is_empty())?;
    let names = goals.iter().map(|goal| goal.name.as_str()).collect::<Vec<_>>().join(" and ");
    if !goals.iter().all(|goal| goal.outside_interruptions) {
        return None;
    }
    let with = if figures.is_empty() {
        "; with them the rates are the same".to_owned()
    } else {
        format!(" ({})", figures.join("; "))
    };
    Some(format!(
        "{names} leave out {} interruptions of up to {}, in {} of load, that cost {} packets{with}.",
        count(all().count() as u64),
        nanoseconds(longest_ns as f64),
        nanoseconds(sent_ns as f64),
        count(lost)
    ))
}

/// How far the machine kept its pace.
fn machine(results: &Results) -> Option<String> {
    let paces =
        [|made: &ExperimentTrial| made.noise.generator_pace_ns, |made: &ExperimentTrial| made.noise.dut_pace_ns];
    let moved = paces.into_iter().filter_map(|pace| pace_moved(results, pace)).reduce(f64::max)?;
    let trials = || results.cells.iter().flat_map(|cell| &cell.findings).flat_map(Finding::used_trials);
    let trips = || trials().filter_map(|made| made.noise.cache_line_ns);
    let (least, most) = (trips().fold(f64::INFINITY, f64::min), trips().fold(0.0, f64::max));
    let has_moved = most > least * NEAR;
    let line = match has_moved {
        true => format!(", and a cache line took {} to {} between them", nanoseconds(least), nanoseconds(most)),
        false => String::new(),
    };
    let kept = match moved < PACE_KEPT && !has_moved {
        true => "kept their pace",
        false => "did not keep their pace, so another run may differ by more than these bounds",
    };
    Some(format!("The cores {kept}: a fixed loop, timed beside each trial, moved by {}{line}.", percent(moved)))
}

/// Round trips of a cache line further apart than this are those of other cores: the hypervisor has moved them.
const NEAR: f64 = 1.5;
/// A machine whose fixed loop moves by less than this kept its pace.
const PACE_KEPT: f64 = 0.05;

/// By which share the time of the fixed loop moved over the run: between the slowest and the fastest finding, each by its median trial.
fn pace_moved(results: &Results, pace: fn(&ExperimentTrial) -> Option<f64>) -> Option<f64> {
    let findings = results.cells.iter().flat_map(|cell| &cell.findings);
    let times: Vec<f64> = findings
        .filter_map(|finding| {
            let times: Vec<f64> = finding.used_trials().filter_map(pace).collect();
            (!times.is_empty()).then(|| median(&times))
        })
        .collect();
    let (least, most) =
        (times.iter().copied().fold(f64::INFINITY, f64::min), times.iter().copied().fold(0.0, f64::max));
    (times.len() > 1).then(|| (most - least) / median(&times))
}
