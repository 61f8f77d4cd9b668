//! The answer in a few lines: what each cell carries, with its bounds, and how far the machine can be trusted. For experiments that measure the
//! capacity; others are told by their sentences alone.

use super::labels::Labels;
use crate::bounds::has_moved;
use crate::figure::median;
use crate::number::sum;
use crate::units::{count, nanoseconds, percent, pps};
use crate::{Cell, Finding, GoalFound, RateBounds, Results, StatedBounds, TestResult, stated_bounds};

/// More cells than this are for the tables.
const CELLS_MAX: usize = 6;

/// One line for each cell, and one on the machine; none where no cell has a capacity.
pub(super) fn answer(results: &Results, labels: &Labels) -> Vec<String> {
    let is_meant = |cell: &&Cell| found(cell).any(|found| matches!(found, TestResult::Capacity { .. }));
    if results.cells.len() > CELLS_MAX || !results.cells.iter().any(|cell| is_meant(&cell)) {
        return Vec::new();
    }
    let stated = stated_bounds(results);
    let lines = results.cells.iter().enumerate().map(|(index, cell)| {
        let of_cell = |rate: &&RateBounds| rate.cell == cell.id;
        let bounds: Vec<&RateBounds> = stated.iter().flat_map(|stated| &stated.rates).filter(of_cell).collect();
        let parts: Vec<String> =
            [goals(cell, &bounds), capacity(&bounds).into_iter().collect(), no_loss(cell).into_iter().collect()]
                .concat();
        let parts = if parts.is_empty() { "nothing could be measured".to_owned() } else { parts.join("; ") };
        format!("{}: {parts}.", labels.of(index))
    });
    lines.chain(interruptions(results, labels)).chain(stated.as_ref().and_then(machine)).collect()
}

fn found(cell: &Cell) -> impl Iterator<Item = &TestResult> {
    cell.findings.iter().filter_map(|finding| finding.result.as_ref())
}

/// `812.0 kpps without loss (760.0 kpps to 835.0 kpps)` of each goal: the median of the repetitions, and the bounds that are stated.
fn goals(cell: &Cell, bounds: &[&RateBounds]) -> Vec<String> {
    let Some(first) = searches(cell).next() else { return Vec::new() };
    first.iter().map(|goal| goal_words(goal, &of_name(cell, &goal.name), bounds)).collect()
}

fn searches(cell: &Cell) -> impl Iterator<Item = &Vec<GoalFound>> {
    found(cell).filter_map(|found| if let TestResult::Throughput { goals } = found { Some(goals) } else { None })
}

fn of_name<'a>(cell: &'a Cell, name: &str) -> Vec<&'a GoalFound> {
    searches(cell).flatten().filter(|goal| goal.name == name).collect()
}

fn goal_words(goal: &GoalFound, all: &[&GoalFound], bounds: &[&RateBounds]) -> String {
    let what = match goal.loss_ratio {
        0.0 => "without loss".to_owned(),
        ratio => format!("with at most {} lost", percent(ratio).replace("00 %", " %")),
    };
    if all.iter().all(|goal| goal.lower_pps.is_none()) {
        let tried = all.iter().filter_map(|goal| goal.upper_pps).fold(f64::INFINITY, f64::min);
        return format!("no load {what}: the lowest that was tried, {}, lost more", pps(tried));
    }
    let Some(bounds) = rate_of(bounds, &goal.name) else { return String::new() };
    format!("{} {what} ({}, {} to {})", pps(bounds.pps), goal.name, pps(bounds.lower_pps), pps(bounds.upper_pps))
}

fn rate_of<'a>(bounds: &[&'a RateBounds], figure: &str) -> Option<&'a RateBounds> {
    bounds.iter().find(|bounds| bounds.figure == figure).copied()
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

fn capacity(bounds: &[&RateBounds]) -> Option<String> {
    let bounds = rate_of(bounds, "capacity")?;
    Some(format!("{} under overload ({} to {})", pps(bounds.pps), pps(bounds.lower_pps), pps(bounds.upper_pps)))
}

/// The best of the repetitions: one trial without loss is the proof.
fn no_loss(cell: &Cell) -> Option<String> {
    let mut best: Option<(f64, u64)> = None;
    let mut why = None;
    for found in found(cell) {
        let TestResult::NoLoss { pps, duration_ns, why: because, .. } = found else { continue };
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
    let all = || trials().flat_map(|made| made.machine.stalls.interruptions());
    let longest_ns = all().map(|stall| stall.duration_ns).max()?;
    let sent_ns = sum(trials().map(|made| made.trial.duration_ns));
    let lost = sum(trials().map(|made| made.machine.stalls.lost_in_interruptions));
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
fn machine(bounds: &StatedBounds) -> Option<String> {
    let moved = bounds.loop_moved?;
    let line = match bounds.cache_line_ns {
        Some([least, most]) if has_moved(least, most) => {
            format!(", and a cache line took {} to {} between them", nanoseconds(least), nanoseconds(most))
        }
        _ => String::new(),
    };
    let kept = match bounds.kept_pace {
        true => "kept their pace",
        false => {
            "did not keep their pace, so the bounds reach from the slowest to the fastest moment of this run; at another \
             one it may be slower or faster still"
        }
    };
    Some(format!("The cores {kept}: a fixed loop, timed beside each trial, moved by {}{line}.", percent(moved)))
}
