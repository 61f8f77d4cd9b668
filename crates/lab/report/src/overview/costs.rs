//! The grids of what it cost and how quiet the machine was.

use super::labels::Labels;
use super::{Entry, Grid, Tone, Topic, explained};
use crate::figure::{Summary, key_trial};
use crate::units::{count, nanoseconds, percent, pps};
use crate::{Cell, CoreUse, ExperimentTrial, Finding, Results, TestResult};

/// More steal than this is shown as doubtful, whatever the experiment's limit.
const STEAL_DOUBTFUL: f64 = 0.01;

/// CPU per packet and full cores.
pub(super) fn cost(labels: &Labels, figures: &[Summary]) -> Grid {
    let columns = [("cell", false), ("cost", false), ("median", true), ("min", true), ("max", true), ("mark", false)];
    let mut grid = Grid::new(Topic::Cost, "CPU per packet", &columns);
    let costs: Vec<&Summary> = figures.iter().filter(|summary| summary.test == "cpu").collect();
    for summary in &costs {
        grid.rows.push(vec![
            Entry::new(labels.of(summary.cell)),
            Entry::new(&summary.name),
            Entry::toned(summary.words(), if summary.marks.is_empty() { Tone::Strong } else { Tone::Doubtful }),
            Entry::new(summary.unit.words(summary.min())),
            Entry::new(summary.unit.words(summary.max())),
            Entry::toned(summary.mark_words(), Tone::Doubtful),
        ]);
    }
    if !costs.is_empty() {
        grid.notes = vec![
            "For each packet delivered, in the trial at the rate found. A core is at 100 % from 95 % on.".to_owned(),
        ];
        grid.notes.extend(explained(costs.iter().flat_map(|summary| summary.marks.iter().copied())));
    }
    grid
}

/// The trial of a cell whose cores are shown: at the rate found, in the first repetition that has one.
pub(crate) fn cores_trial(cell: &Cell) -> Option<&ExperimentTrial> {
    let with_cores = |made: &&ExperimentTrial| !made.trial.cpu.is_empty();
    let searches = cell.findings.iter().filter(|finding| matches!(finding.result, Some(TestResult::Throughput { .. })));
    searches.chain(&cell.findings).filter_map(key_trial).find(with_cores)
}

/// What each core did.
pub(super) fn cores(results: &Results, labels: &Labels) -> Grid {
    let kinds = ["user", "system", "softirq", "irq", "steal", "idle"];
    let columns: Vec<_> = [("cell", false), ("core", true), ("role", false)]
        .into_iter()
        .chain(kinds.map(|kind| (kind, true)))
        .chain([("", false)])
        .collect();
    let mut grid = Grid::new(Topic::Cores, "Cores, in % of their time", &columns);
    for (index, cell) in results.cells.iter().enumerate() {
        let cores = cores_trial(cell).map(|made| made.trial.cpu.as_slice()).unwrap_or_default();
        grid.rows.extend(cores.iter().map(|core| core_row(labels.of(index), core)));
    }
    grid
}

fn core_row(label: &str, core: &CoreUse) -> Vec<Entry> {
    let share = |share: f64| if share.is_finite() { format!("{:.1}", share * 100.0) } else { "-".to_owned() };
    let steal = if core.steal >= STEAL_DOUBTFUL { Tone::Doubtful } else { Tone::Plain };
    let role = core.role.as_deref().unwrap_or("");
    let full = if core.idle <= 0.05 { "at 100 %" } else { "" };
    let mut row = vec![Entry::new(label), Entry::new(core.core.to_string()), Entry::new(role)];
    row.extend([core.user, core.system, core.softirq, core.irq].map(|kind| Entry::new(share(kind))));
    row.extend([Entry::toned(share(core.steal), steal), Entry::new(share(core.idle)), Entry::new(full)]);
    row
}

/// The range of round trips of a cache line between generator and DUT before the trials: virtual cores move within a run, too.
fn cache_line_words(round_trips_ns: impl Iterator<Item = f64> + Clone) -> String {
    let least = round_trips_ns.clone().fold(f64::INFINITY, f64::min);
    let most = round_trips_ns.fold(f64::NEG_INFINITY, f64::max);
    match (least.is_finite(), most > least * 1.05) {
        (false, _) => "-".to_owned(),
        (true, false) => nanoseconds(most),
        (true, true) => format!("{} to {}", nanoseconds(least), nanoseconds(most)),
    }
}

/// How much repetitions differ, and what disturbed them.
pub(super) fn noise(results: &Results, labels: &Labels, figures: &[Summary]) -> Grid {
    let columns = [
        ("cell", false),
        ("trials", true),
        ("disturbed", true),
        ("repeated", true),
        ("worst steal", true),
        ("longest gap", true),
        ("cache line", true),
        ("rate: min", true),
        ("median", true),
        ("max", true),
        ("spread", true),
    ];
    let mut grid = Grid::new(Topic::Noise, "Noise", &columns);
    for (index, cell) in results.cells.iter().enumerate() {
        let trials = || cell.findings.iter().flat_map(Finding::used_trials);
        if trials().next().is_none() {
            continue;
        }
        let disturbed = trials().filter(|made| made.machine.noise.disturbed).count() as u64;
        let repeated: u64 = trials().map(|made| u64::from(made.machine.noise.repeated)).sum();
        let steal = trials().map(|made| made.machine.noise.steal_share).fold(0.0, f64::max);
        let gap_ns = trials().map(|made| made.machine.noise.gap_max_ns).max().unwrap_or(0);
        let doubtful = |is: bool| if is { Tone::Doubtful } else { Tone::Plain };
        let mut row = vec![
            Entry::new(labels.of(index)),
            Entry::new(count(trials().count() as u64)),
            Entry::toned(count(disturbed), doubtful(disturbed > 0)),
            Entry::toned(count(repeated), doubtful(repeated > 0)),
            Entry::toned(percent(steal), doubtful(steal >= STEAL_DOUBTFUL)),
            Entry::new(nanoseconds(gap_ns as f64)),
            Entry::new(cache_line_words(trials().filter_map(|made| made.machine.noise.cache_line_ns))),
        ];
        let rate = figures.iter().find(|summary| summary.cell == index && summary.test == "throughput");
        match rate {
            Some(rate) => {
                let spread = (rate.max() - rate.min()) / rate.median();
                row.extend([rate.min(), rate.median(), rate.max()].map(|value| Entry::new(pps(value))));
                let spread = if rate.values.len() > 1 { percent(spread) } else { "one repetition".to_owned() };
                row.push(Entry::new(spread));
            }
            None => row.extend(vec![Entry::new("-"); 4]),
        }
        grid.rows.push(row);
    }
    grid
}
