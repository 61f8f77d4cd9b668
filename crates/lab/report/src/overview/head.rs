//! The result in words, and where it was measured.

use super::labels::{Labels, path_name};
use super::{Entry, Grid, Tone, Topic, is_echoes, is_rate};
use crate::figure::{Missing, Summary, Unit};
use crate::units::{count, nanoseconds, percent};
use crate::{Environment, Finding, Results};
use std::collections::BTreeMap;

/// Key figures at the head of a report.
const KEY_FIGURES_MAX: usize = 6;

pub(super) fn subtitle(results: &Results) -> String {
    let took_ms = results.ended.unix_ms().saturating_sub(results.started.unix_ms());
    let (tool, version) = (&results.tool.name, &results.tool.version);
    let took = nanoseconds(took_ms as f64 * 1e6);
    format!("{}, {}, took {took}, measured by {tool} {version}", results.name, results.started.words())
}

/// A figure at the head: what, value, bounds or spread, marks.
pub(crate) struct KeyFigure {
    pub(crate) label: String,
    pub(crate) value: String,
    pub(crate) detail: String,
    pub(crate) marks: String,
}

/// The rate of the first goal in each cell, or the best of each path where cells are many, with the spread over the repetitions. Where there is no
/// such rate, that of connections or requests, or of echoes.
pub(crate) fn key_figures(results: &Results, labels: &Labels, figures: &[Summary]) -> Vec<KeyFigure> {
    let mut rates = first_goals(results, figures);
    if rates.is_empty() {
        rates = super::limits(figures).into_iter().next().map_or_else(Vec::new, |(_, figures)| figures);
    }
    if rates.is_empty() {
        rates = figures.iter().filter(|summary| is_echoes(summary)).collect();
    }
    if rates.len() > KEY_FIGURES_MAX {
        rates = best_of_each_path(results, &rates);
    }
    rates.truncate(KEY_FIGURES_MAX);
    let key = |summary: &Summary| KeyFigure {
        label: format!("{}, {}", labels.of(summary.cell), summary.name),
        value: summary.words(),
        detail: spread_words(summary),
        marks: summary.mark_words(),
    };
    rates.into_iter().map(key).collect()
}

fn best_of_each_path<'a>(results: &Results, rates: &[&'a Summary]) -> Vec<&'a Summary> {
    let path = |summary: &Summary| results.cells.get(summary.cell).map_or(String::new(), path_name);
    let mut best: Vec<&'a Summary> = Vec::new();
    for rate in rates {
        match best.iter_mut().find(|other| path(other) == path(rate)) {
            Some(other) if other.median() >= rate.median() => {}
            Some(other) => *other = rate,
            None => best.push(rate),
        }
    }
    best
}

fn spread_words(summary: &Summary) -> String {
    let words = |value| summary.unit.words(value);
    let spread = match summary.values.len() {
        1 => "one repetition".to_owned(),
        _ if summary.min() == summary.max() => format!("the same {} times", count(summary.values.len() as u64)),
        times => format!("{} to {}, {} times", words(summary.min()), words(summary.max()), count(times as u64)),
    };
    match summary.upper {
        Some(upper) => format!("{spread}; fails at {}", words(upper)),
        None => spread,
    }
}

/// The first rate of each cell.
fn first_goals<'a>(results: &Results, figures: &'a [Summary]) -> Vec<&'a Summary> {
    let of_cell = |cell: usize| figures.iter().find(|summary| summary.cell == cell && is_rate(summary));
    (0..results.cells.len()).filter_map(of_cell).collect()
}

/// What a reader should know if they read nothing else.
pub(super) fn sentences(results: &Results, labels: &Labels, figures: &[Summary], missing: &[Missing]) -> Vec<String> {
    let mut sentences = super::recommendation(results);
    sentences.extend(super::answer::answer(results, labels));
    let rates = first_goals(results, figures);
    let by_rate = |one: &&&Summary, other: &&&Summary| one.median().total_cmp(&other.median());
    let described = |summary: &Summary| {
        let marks = if summary.marks.is_empty() { String::new() } else { format!(" ({})", summary.mark_words()) };
        format!("{} {}{marks}", labels.of(summary.cell), summary.words())
    };
    match (rates.iter().max_by(by_rate), rates.iter().min_by(by_rate)) {
        (_, _) if !sentences.is_empty() => {}
        (Some(most), Some(least)) if most.cell != least.cell => {
            let goal = &most.name;
            sentences.push(format!("Fastest ({goal}): {}. Slowest: {}.", described(most), described(least)));
        }
        (Some(only), _) => sentences.push(format!("{}: {}, {}.", only.name, described(only), spread_words(only))),
        // Tests of TCP have rates of connections.
        _ if figures.iter().any(|summary| matches!(summary.unit, Unit::PerSecond | Unit::Connections)) => {
            sentences.extend(super::sessions::sentences(labels, figures, results.cells.len()));
        }
        _ => sentences.push("No rate was measured.".to_owned()),
    }
    sentences.extend(super::goals::sentence(results));
    if !labels.common.is_empty() {
        sentences.push(format!("In all cells: {}.", labels.common));
    }
    let limited = rates.iter().filter(|summary| summary.marks.contains(&crate::figure::Mark::TesterLimited)).count();
    if limited > 0 {
        let which = if limited == rates.len() {
            "Every rate".to_owned()
        } else {
            format!("{limited} of {} rates", rates.len())
        };
        let verb = if limited == 1 || limited == rates.len() { "is" } else { "are" };
        sentences.push(format!("{which} {verb} the tester's own limit: the device may carry more."));
    }
    sentences.extend(ledger_sentence(results));
    let disturbed = trials(results).filter(|made| made.machine.noise.disturbed).count();
    if disturbed > 0 {
        let all = trials(results).count();
        sentences.push(format!(
            "Disturbed by the machine: {} of {} trials.",
            count(disturbed as u64),
            count(all as u64)
        ));
    }
    sentences.extend(not_used_sentence(results));
    if !missing.is_empty() {
        sentences.push(format!("Not measured: {} (see there).", count(missing.len() as u64)));
    }
    sentences
}

fn trials(results: &Results) -> impl Iterator<Item = &crate::ExperimentTrial> {
    results.cells.iter().flat_map(|cell| &cell.findings).flat_map(Finding::used_trials)
}

/// What was made again is kept, for whoever wants to look.
fn not_used_sentence(results: &Results) -> Option<String> {
    let all = results.cells.iter().flat_map(|cell| &cell.findings).flat_map(|finding| &finding.trials);
    let not_used: Vec<_> = all.filter(|made| made.not_used.is_some()).collect();
    let disturbed = not_used.iter().filter(|made| made.machine.noise.disturbed).count();
    (!not_used.is_empty()).then(|| {
        format!(
            "Trials that were made again, and are in no figure: {}, of which {} were disturbed (trials.csv has them, and why).",
            count(not_used.len() as u64),
            count(disturbed as u64)
        )
    })
}

/// How much of what was sent is accounted for.
fn ledger_sentence(results: &Results) -> Option<String> {
    let accounts = || trials(results).map(|made| &made.trial.account);
    let sum = |value: fn(&crate::Account) -> i128| accounts().map(value).sum::<i128>() as f64;
    let sent = sum(|account| account.sent().into());
    let lost = sum(|account| account.lost_total().into());
    let unexplained = sum(|account| i128::from(account.unexplained()).abs());
    let all = trials(results).count();
    let worst = accounts()
        .map(|account| account.unexplained().unsigned_abs() as f64 / account.sent().max(1) as f64)
        .fold(0.0, f64::max);
    (sent > 0.0).then(|| {
        format!(
            "Of all packets sent in {} trials, {} were lost at a named place for a named cause, and {} are unexplained (at most {} in a trial).",
            count(all as u64),
            percent(lost / sent),
            percent(unexplained / sent),
            percent(worst)
        )
    })
}

/// Each DUT once, with its configuration.
pub(super) fn devices(results: &Results) -> Grid {
    let mut grid = Grid::new(
        Topic::Devices,
        "Devices under test",
        &[("DUT", false), ("what", false), ("version", false), ("configuration", false), ("where it worked", false)],
    );
    let mut known = Vec::new();
    for cell in &results.cells {
        let key = (&cell.dut_name, &cell.dut, &cell.mode);
        if known.contains(&key) {
            continue;
        }
        known.push(key);
        grid.rows.push(vec![
            Entry::toned(&cell.dut_name, Tone::Strong),
            Entry::new(&cell.dut.name),
            Entry::new(cell.dut.version.as_deref().unwrap_or("-")),
            Entry::new(map_words(&cell.dut.configuration)),
            Entry::new(&cell.mode),
        ]);
    }
    grid
}

fn map_words(map: &BTreeMap<String, String>) -> String {
    map.iter().map(|(key, value)| format!("{key} = {value}")).collect::<Vec<_>>().join("; ")
}

/// What is known of the machine, by name.
fn environment(environment: &Environment) -> Vec<(String, String)> {
    let cores = environment.cores_online.map(|cores| cores.to_string());
    let known = [
        ("kernel", &environment.kernel),
        ("CPU", &environment.cpu_model),
        ("cores online", &cores),
        ("governor", &environment.governor),
        ("hypervisor", &environment.hypervisor),
    ];
    let mut rows: Vec<(String, String)> =
        known.into_iter().filter_map(|(label, value)| Some((label.to_owned(), value.clone()?))).collect();
    if let Some(line) = &environment.cache_line {
        let time = |span_ns: Option<f64>| nanoseconds(span_ns.unwrap_or(f64::NAN));
        let [one, other] = line.cores;
        let (before, after) = (time(line.before_ns), time(line.after_ns));
        let words = format!("cores {one} and {other}, there and back: {before} before the run, {after} after it");
        rows.push(("cache line".to_owned(), words));
    }
    let maps = [
        ("version", &environment.versions),
        ("sysctl", &environment.sysctls),
        ("offload", &environment.offloads),
        ("mitigation", &environment.mitigations),
        ("other", &environment.other),
    ];
    for (label, map) in maps {
        rows.extend(map.iter().map(|(key, value)| (format!("{label} {key}"), value.clone())));
    }
    rows
}

pub(super) fn environment_grid(of: &Environment) -> Grid {
    let mut grid = Grid::new(Topic::Environment, "Environment", &[("what", false), ("value", false)]);
    grid.rows = environment(of).into_iter().map(|(what, value)| vec![Entry::new(what), Entry::new(value)]).collect();
    grid
}
