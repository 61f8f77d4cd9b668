//! The grids of what was found.

use super::labels::Labels;
use super::{Entry, Grid, Tone, Topic, explained};
use crate::figure::{Mark, Missing, Summary, Unit, median};
use crate::units::{L1_OVERHEAD_BYTES, bps, count, percent, pps};
use crate::{Results, TestResult, TimestampKind, Timestamps};

/// Whether a figure is a rate that the device carried.
pub(crate) fn is_rate(summary: &Summary) -> bool {
    let rates = ["throughput", "max-forwarding-rate", "load", "capacity", "no-loss"].contains(&summary.test);
    rates && summary.unit == Unit::PacketsPerSecond && summary.name != "sent"
}

/// A rate per cell and goal, with bounds and spread.
pub(super) fn throughput(labels: &Labels, figures: &[Summary]) -> Grid {
    let columns = [
        ("cell", false),
        ("goal", false),
        ("median", true),
        ("min", true),
        ("max", true),
        ("fails at", true),
        ("mark", false),
    ];
    let mut grid = Grid::new(Topic::Throughput, "Throughput", &columns);
    // Another view of a goal that says the same is one row too many.
    let says_more = |summary: &&Summary| {
        let base = summary.name.split(", ").next().unwrap_or_default();
        let same =
            |other: &Summary| (other.cell, other.test, other.name.as_str()) == (summary.cell, summary.test, base);
        base == summary.name || !figures.iter().any(|other| same(other) && other.values == summary.values)
    };
    let rates: Vec<&Summary> = figures.iter().filter(|summary| is_rate(summary)).filter(says_more).collect();
    for summary in &rates {
        let doubtful = if summary.marks.is_empty() { Tone::Strong } else { Tone::Doubtful };
        grid.rows.push(vec![
            Entry::new(labels.of(summary.cell)),
            Entry::new(goal_words(summary)),
            Entry::toned(summary.words(), doubtful),
            Entry::new(pps(summary.min())),
            Entry::new(pps(summary.max())),
            Entry::new(summary.upper.map_or("-".to_owned(), pps)),
            Entry::toned(summary.mark_words(), Tone::Doubtful),
        ]);
    }
    grid.notes = explained(rates.iter().flat_map(|summary| summary.marks.iter().copied()));
    grid
}

fn goal_words(summary: &Summary) -> String {
    match summary.test {
        "throughput" => summary.name.clone(),
        "load" => "at a given load".to_owned(),
        "capacity" => "capacity".to_owned(),
        "no-loss" => summary.name.clone(),
        _ => "most delivered".to_owned(),
    }
}

/// The first rate of each cell in bits, beside the path without the DUT.
pub(super) fn link(results: &Results, labels: &Labels, figures: &[Summary]) -> Grid {
    let columns = [
        ("cell", false),
        ("goal", false),
        ("rate", true),
        ("L1", true),
        ("L2", true),
        ("without the DUT", true),
        ("share", true),
        ("mark", false),
    ];
    let mut grid = Grid::new(Topic::Link, "On the link", &columns);
    for (index, cell) in results.cells.iter().enumerate() {
        let Some(rate) = figures.iter().find(|summary| summary.cell == index && is_rate(summary)) else { continue };
        let bits = |overhead: u32| bps(rate.median() * (cell.size_wire + f64::from(overhead)) * 8.0);
        let share = cell.baseline_pps.map(|baseline| percent(rate.median() / baseline));
        grid.rows.push(vec![
            Entry::new(labels.of(index)),
            Entry::new(goal_words(rate)),
            Entry::new(rate.words()),
            Entry::new(bits(L1_OVERHEAD_BYTES)),
            Entry::new(bits(0)),
            Entry::new(cell.baseline_pps.map_or("-".to_owned(), pps)),
            Entry::new(share.unwrap_or("-".to_owned())),
            Entry::toned(rate.mark_words(), Tone::Doubtful),
        ]);
    }
    if !grid.rows.is_empty() {
        let note = "L1 counts preamble and gap (20 bytes a frame), L2 the frames with their check sequence. Without the DUT: what the \
                    same path and tester carry; a figure within 5 % of it is the tester's limit.";
        grid.notes = vec![note.to_owned()];
    }
    grid
}

/// What others published, beside what was measured here. Where the clock of the others' machine is known, both figures are compared for each
/// GHz, too.
pub(super) fn published(results: &Results, labels: &Labels, figures: &[Summary]) -> Grid {
    let clock_ghz = results.environment.core_clock_ghz();
    let has_clocks = results.cells.iter().flat_map(|cell| &cell.published).any(|row| row.per_ghz.is_some());
    let mut columns = vec![
        ("cell", false),
        ("figure", false),
        ("published", false),
        ("source", false),
        ("measured here", true),
        ("mark", false),
    ];
    if has_clocks {
        columns.splice(5..5, [("times", true), ("times per GHz", true)]);
    }
    let mut grid = Grid::new(Topic::Published, "Published and measured", &columns);
    let (mut compared, mut slower, mut slower_per_ghz) = (0, 0, 0);
    for (index, cell) in results.cells.iter().enumerate() {
        for row in &cell.published {
            let measured = beside(index, &row.what, figures);
            let mut entries = vec![
                Entry::new(labels.of(index)),
                Entry::new(figure_words(&row.what, measured)),
                Entry::new(&row.text),
                Entry::new(&row.source),
                Entry::toned(measured.map_or("-".to_owned(), Summary::words), Tone::Strong),
            ];
            if has_clocks {
                let here = measured.map(Summary::median);
                let here_per_ghz = here.zip(clock_ghz).map(|(here, ghz)| here / ghz).filter(|_| row.per_ghz.is_some());
                let [times, times_per_ghz] = [(here, row.value), (here_per_ghz, row.per_ghz)]
                    .map(|(here, there)| Some(here? / there.filter(|value| *value > 0.0)?));
                compared += usize::from(times.is_some());
                slower += usize::from(times.is_some_and(|times| times < 1.0));
                slower_per_ghz += usize::from(times_per_ghz.is_some_and(|times| times < 1.0));
                let ratio = |value: Option<f64>| match value {
                    Some(times) => {
                        Entry::toned(format!("{times:.2}"), if times < 1.0 { Tone::Bad } else { Tone::Good })
                    }
                    None => Entry::new("-"),
                };
                entries.extend([ratio(times), ratio(times_per_ghz)]);
            }
            entries.push(Entry::toned(measured.map(Summary::mark_words).unwrap_or_default(), Tone::Doubtful));
            grid.rows.push(entries);
        }
    }
    if !grid.rows.is_empty() {
        grid.notes = vec!["Published figures were measured on other machines.".to_owned()];
    }
    if compared > 0 {
        let note = format!(
            "Times: the figure here over the published one. Of {} figures that were measured, {} are below the published ones, and {} \
             for each GHz of both machines' clocks.",
            count(compared as u64),
            count(slower as u64),
            count(slower_per_ghz as u64)
        );
        grid.notes.push(note);
    }
    grid
}

/// The published figure, with the load of the measured one where that has one.
fn figure_words(what: &str, measured: Option<&Summary>) -> String {
    let at = measured.filter(|summary| summary.test == "capture").and_then(|summary| summary.name.split_once(" at "));
    at.map_or(what.to_owned(), |(_, load)| format!("{what}, here at {load}"))
}

/// The measured figure that a published one is set beside.
fn beside<'a>(cell: usize, what: &str, figures: &'a [Summary]) -> Option<&'a Summary> {
    let of_cell = || figures.iter().filter(move |summary| summary.cell == cell);
    match what {
        "throughput" | "rate" => {
            let mut captured =
                of_cell().filter(|summary| summary.test == "capture" && summary.name.starts_with("captured at "));
            of_cell().find(|summary| is_rate(summary)).or_else(|| captured.next_back())
        }
        "cores" => of_cell().find(|summary| summary.unit == Unit::Cores),
        "echoes" => of_cell().find(|summary| summary.test == "tcp-echo" && summary.name == what),
        // Loads rise, and what was published was measured at the highest.
        "capture-ratio" | "idle" => {
            let name = what.replace('-', " ");
            let is_meant = |summary: &&Summary| summary.name.split(" at ").next() == Some(&name);
            of_cell().filter(|summary| summary.test == "capture").rfind(is_meant)
        }
        what => of_cell().find(|summary| summary.test == what || summary.name == what),
    }
}

/// Loss by cell and offered load; the median over repetitions at the same place of the list.
pub(super) fn loss(results: &Results, labels: &Labels) -> Grid {
    let columns = [("cell", false), ("load", true), ("sent", true), ("delivered", true), ("lost", true)];
    let mut grid = Grid::new(Topic::Loss, "Loss against offered load", &columns);
    for (index, _) in results.cells.iter().enumerate() {
        for point in loss_points(results, index) {
            let tone = if point.loss_ratio > 0.0 { Tone::Bad } else { Tone::Good };
            grid.rows.push(vec![
                Entry::new(labels.of(index)),
                Entry::new(pps(point.load_pps)),
                Entry::new(pps(point.sent_pps)),
                Entry::new(pps(point.delivered_pps)),
                Entry::toned(percent(point.loss_ratio), tone),
            ]);
        }
    }
    grid
}

/// The loss curve of a cell, from the highest load downwards: medians over the repetitions of equal loads.
pub(crate) fn loss_points(results: &Results, cell: usize) -> Vec<crate::LossPoint> {
    let mut points: Vec<crate::LossPoint> = Vec::new();
    for finding in results.cells.get(cell).iter().flat_map(|cell| &cell.findings) {
        if let Some(TestResult::FrameLoss { points: more }) = &finding.result {
            points.extend(more);
        }
    }
    points.sort_by(|one, other| other.load_pps.total_cmp(&one.load_pps));
    let same = |one: &crate::LossPoint, other: &crate::LossPoint| pps(one.load_pps) == pps(other.load_pps);
    let merge = |group: &[crate::LossPoint]| {
        let middle = |value: fn(&crate::LossPoint) -> f64| median(&group.iter().map(value).collect::<Vec<_>>());
        crate::LossPoint {
            load_pps: middle(|point| point.load_pps),
            sent_pps: middle(|point| point.sent_pps),
            delivered_pps: middle(|point| point.delivered_pps),
            loss_ratio: middle(|point| point.loss_ratio),
        }
    };
    points.chunk_by(same).map(merge).collect()
}

/// Percentiles by cell and load.
pub(super) fn latency(results: &Results, labels: &Labels, figures: &[Summary]) -> Grid {
    let names = ["p50", "p90", "p99", "p99.9", "p99.99", "max", "PDV"];
    let columns: Vec<_> = [("cell", false), ("load", true)]
        .into_iter()
        .chain(names.map(|name| (name, true)))
        .chain([("mark", false)])
        .collect();
    let mut grid = Grid::new(Topic::Latency, "Latency", &columns);
    let mut last: Option<(usize, String)> = None;
    for summary in figures.iter().filter(|summary| summary.test == "latency") {
        let Some((name, load)) = summary.name.split_once(" at ") else { continue };
        let Some(column) = names.iter().position(|known| *known == name) else { continue };
        let key = (summary.cell, load.to_owned());
        if last.as_ref() != Some(&key) {
            let mut row = vec![Entry::new("-"); columns.len()];
            row.splice(..2, [Entry::new(labels.of(summary.cell)), Entry::new(load)]);
            if let Some(mark) = row.last_mut() {
                *mark = Entry::toned(summary.mark_words(), Tone::Doubtful);
            }
            grid.rows.push(row);
            last = Some(key);
        }
        if let Some(entry) = grid.rows.last_mut().and_then(|row| row.get_mut(column + 2)) {
            *entry = Entry::new(summary.unit.words(summary.median()));
        }
    }
    if !grid.rows.is_empty() {
        grid.notes = vec![
            "One way; load as a share of the throughput; medians over the repetitions. PDV: packet delay variation of RFC 8219, the \
             99.9th percentile less the least delay."
                .to_owned(),
        ];
        grid.notes.extend(timestamps(results));
        grid.notes.extend(explained(marks_of(figures, "latency")));
    }
    grid
}

/// Whose timestamps latencies are of, a sentence for each kind and reason.
fn timestamps(results: &Results) -> Vec<String> {
    let found = results.cells.iter().flat_map(|cell| &cell.findings).filter_map(|finding| finding.result.as_ref());
    let points = found.flat_map(|found| match found {
        TestResult::Latency { points } => points.as_slice(),
        _ => &[],
    });
    let mut all: Vec<Timestamps> = Vec::new();
    for point in points.filter(|point| point.latency.is_some()) {
        let one = point.timestamps.clone().unwrap_or_else(|| Timestamps::software(None));
        let is_like = |other: &&mut Timestamps| {
            (other.kind, &other.clocks, &other.fallback_reason) == (one.kind, &one.clocks, &one.fallback_reason)
        };
        match all.iter_mut().find(is_like) {
            Some(same) => {
                same.error_ns = same.error_ns.zip(one.error_ns).map(|(same, one)| same.max(one));
                same.probes = same.probes.zip(one.probes).map(|(same, one)| same.with(&one));
            }
            None => all.push(one),
        }
    }
    let sentence = |timestamps: &Timestamps| {
        let from = match timestamps.kind {
            TimestampKind::Software => "from the scheduled time of sending",
            TimestampKind::Kernel | TimestampKind::Hardware => "of probes beside the load",
        };
        format!("Measured by {timestamps}; {from}.")
    };
    all.iter().map(sentence).collect()
}

fn marks_of<'a>(figures: &'a [Summary], test: &'a str) -> impl Iterator<Item = Mark> + 'a {
    figures.iter().filter(move |summary| summary.test == test).flat_map(|summary| summary.marks.iter().copied())
}

/// The other tests, a figure a row.
pub(super) fn tests(labels: &Labels, figures: &[Summary]) -> Grid {
    let columns = [
        ("cell", false),
        ("test", false),
        ("figure", false),
        ("median", true),
        ("min", true),
        ("max", true),
        ("times", true),
        ("mark", false),
    ];
    let mut grid = Grid::new(Topic::Tests, "Other tests", &columns);
    let tests = ["back-to-back", "system-recovery", "reset", "soak", "ping"];
    for summary in figures.iter().filter(|summary| tests.contains(&summary.test)) {
        let tone = if summary.marks.is_empty() { Tone::Strong } else { Tone::Doubtful };
        grid.rows.push(vec![
            Entry::new(labels.of(summary.cell)),
            Entry::new(summary.test.replace('-', " ")),
            Entry::new(&summary.name),
            Entry::toned(summary.words(), tone),
            Entry::new(summary.unit.words(summary.min())),
            Entry::new(summary.unit.words(summary.max())),
            Entry::new(count(summary.values.len() as u64)),
            Entry::toned(summary.mark_words(), Tone::Doubtful),
        ]);
    }
    grid.notes = explained(tests.iter().flat_map(|test| marks_of(figures, test)));
    grid
}

/// What could not be measured, and why.
pub(super) fn missing(labels: &Labels, missing: &[Missing]) -> Grid {
    let columns = [("cell", false), ("test", false), ("figure", false), ("repetition", true), ("why", false)];
    let mut grid = Grid::new(Topic::Missing, "Not measured", &columns);
    for Missing { cell, test, name, repetition, why } in missing {
        grid.rows.push(vec![
            Entry::new(labels.of(*cell)),
            Entry::new(test.replace('-', " ")),
            Entry::new(name),
            Entry::new(repetition.to_string()),
            Entry::toned(why, Tone::Bad),
        ]);
    }
    grid
}
