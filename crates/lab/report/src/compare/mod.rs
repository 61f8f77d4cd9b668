//! Which differences between results are larger than the noise.
//!
//! The first result is the reference; each figure that another one has, too, gets a p-value:
//!
//! - with enough repetitions, from the exact Mann-Whitney U test;
//! - where even values wholly apart could not convince that test (fewer than 4 on a side, or too few for so many figures), from
//!   Student's t-test of the logarithms, with the variance of the search's interval (its width asked for) added to the spread observed;
//! - with one repetition on each side no noise is known, and nothing can be told.
//!
//! All p-values of a pair of results go through Holm's correction, so the chance of any false difference in it is at most
//! [`Thresholds::alpha`]. Repetitions of one run are more alike than runs are, so a difference must also be at least as large as
//! [`Thresholds`] says for its kind, and larger than the resolution of the search. Figures of which every trial was disturbed are not
//! judged, and where the noise of the two runs differs by more than [`NoiseLimits`] no difference is told. `docs/results.md` says the same for users.

mod noise;
mod settings;
mod show;
mod statistics;

pub use noise::{NoiseLimits, RunNoise};
pub use settings::Setting;
pub use show::{comparison_html, comparison_json, comparison_markdown, comparison_terminal};

use crate::Results;
use crate::figure::{Better, Mark, Summary, Unit, summaries};
use serde::Serialize;
use statistics::{RANKED_MAX, cliffs_delta, holm, mann_whitney, mann_whitney_least, shift, student};
use std::collections::HashMap;

/// Name and version of a comparison's format.
pub const COMPARISON_SCHEMA: &str = "linerate.comparison/1";
/// A rank test needs so many values on each side.
const RANKED_MIN: usize = 4;

/// From where on a difference is one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Thresholds {
    /// Greatest probability of any false difference in a comparison of two results.
    pub alpha: f64,
    /// Least relative difference of a rate.
    pub rate: f64,
    /// Least relative difference of a time up to the 99th percentile, and of work per packet.
    pub time: f64,
    /// Least relative difference of higher percentiles and maxima, which a few packets decide.
    pub tail: f64,
    /// Least difference of a loss ratio, absolute.
    pub loss: f64,
    /// How much the noise of the two runs may differ.
    pub noise: NoiseLimits,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self { alpha: 0.05, rate: 0.03, time: 0.10, tail: 0.30, loss: 0.002, noise: NoiseLimits::default() }
    }
}

/// How a difference was judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Exact Mann-Whitney U test.
    MannWhitney,
    /// Student's t-test of logarithms: too few values for a rank test.
    Student,
    /// Cannot be judged.
    None,
}

/// What is said of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// No difference larger than the noise.
    Same,
    /// Different, and better.
    Better,
    /// Different, and worse.
    Worse,
    /// Different, and neither better nor worse.
    Different,
    /// Cannot be told: too few repetitions, or both figures are the tester's own limit.
    Untold,
    /// Not judged: in one of the results every trial behind it was disturbed.
    Disturbed,
    /// There is a difference, and it cannot be told of what: one run's machine was busier.
    Busier,
}

/// A figure in both results.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Compared {
    /// Id of the cell.
    pub cell: String,
    /// The test, `cpu` for costs.
    pub test: String,
    /// Which figure: `NDR`, `p99 at 50 %`.
    pub figure: String,
    /// In what it is counted: `pps`, `ns`, `ratio`.
    pub unit: &'static str,
    /// The reference's repetitions.
    pub before: Vec<f64>,
    /// The other's.
    pub after: Vec<f64>,
    /// Hodges-Lehmann shift: relative (-0.1 is 10 % less), absolute for ratios.
    pub shift: f64,
    /// Cliff's delta, -1 to 1.
    pub cliffs_delta: f64,
    /// How it was judged.
    pub method: Method,
    /// After Holm's correction; `None` where there is no test.
    pub p_value: Option<f64>,
    /// Least shift that counts here.
    pub least: f64,
    /// The verdict.
    pub verdict: Verdict,
    /// Marks of either side.
    pub marks: Vec<&'static str>,
    #[serde(skip)]
    words: (Unit, Better),
}

/// The reference beside one other result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Pair {
    /// Name and time of the reference.
    pub before: String,
    /// Name and time of the other.
    pub after: String,
    /// What differs where they were measured, and of what.
    pub settings: Vec<Setting>,
    /// What disturbed the two runs, the reference first.
    pub noise: [RunNoise; 2],
    /// In what these differ by more than the limits; then no difference is told.
    pub noise_differs: Vec<String>,
    /// In the order of the reference.
    pub figures: Vec<Compared>,
    /// Figures that only one of them has: `cell, test, figure`.
    pub only_before: Vec<String>,
    /// See `only_before`.
    pub only_after: Vec<String>,
}

/// Results beside a reference.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// [`COMPARISON_SCHEMA`].
    pub schema: &'static str,
    /// From where on a difference is one.
    pub thresholds: Thresholds,
    /// One for each result after the first.
    pub pairs: Vec<Pair>,
}

impl Comparison {
    /// Whether differences were found that may be the machines', or nothing was judged because all was disturbed.
    pub fn cannot_tell(&self) -> bool {
        self.pairs.iter().any(|pair| {
            let any = |verdict: Verdict| pair.figures.iter().any(|figure| figure.verdict == verdict);
            any(Verdict::Busier) || any(Verdict::Disturbed) && !any(Verdict::Same)
        })
    }

    /// Whether any figure of any pair differs by more than the noise: the exit code of `linerate compare`.
    pub fn differs(&self) -> bool {
        self.pairs.iter().any(|pair| pair.differences().next().is_some())
    }
}

impl Pair {
    /// The figures that differ.
    pub fn differences(&self) -> impl Iterator<Item = &Compared> {
        self.figures
            .iter()
            .filter(|figure| matches!(figure.verdict, Verdict::Better | Verdict::Worse | Verdict::Different))
    }
}

/// Compares each result with the first one.
pub fn compare(results: &[Results]) -> Comparison {
    compare_with(results, &Thresholds::default())
}

/// Compares each result with the first one, with other thresholds.
pub fn compare_with(results: &[Results], thresholds: &Thresholds) -> Comparison {
    let pairs = match results {
        [reference, others @ ..] => others.iter().map(|other| pair(reference, other, thresholds)).collect(),
        [] => Vec::new(),
    };
    Comparison { schema: COMPARISON_SCHEMA, thresholds: *thresholds, pairs }
}

/// What a figure is called in both results.
type Key = (String, &'static str, String);

fn keyed(results: &Results) -> Vec<(Key, Summary)> {
    let id = |cell: usize| results.cells.get(cell).map(|cell| cell.id.clone()).unwrap_or_default();
    summaries(results)
        .0
        .into_iter()
        .map(|figure| ((id(figure.cell), figure.test, figure.name.clone()), figure))
        .collect()
}

fn pair(before: &Results, after: &Results, thresholds: &Thresholds) -> Pair {
    let (old, new) = (keyed(before), keyed(after));
    let mut by_key: HashMap<&Key, &Summary> = new.iter().map(|(key, figure)| (key, figure)).collect();
    let words = |key: &Key| format!("{}, {}, {}", key.0, key.1, key.2);
    let mut only_before = Vec::new();
    let mut both = Vec::new();
    for (key, one) in &old {
        match by_key.remove(key) {
            Some(other) if other.unit == one.unit => both.push((key, one, other)),
            _ => only_before.push(words(key)),
        }
    }
    let only_after = new.iter().map(|(key, _)| key).filter(|key| by_key.contains_key(key)).map(words).collect();
    let tests = both.iter().filter(|(_, one, other)| one.values.len() + other.values.len() >= 3).count();
    let least_p = thresholds.alpha / tests.max(1) as f64;
    let mut figures: Vec<Compared> =
        both.into_iter().map(|(key, one, other)| measured(key, one, other, least_p, thresholds)).collect();
    let tested: Vec<f64> = figures.iter().filter_map(|figure| figure.p_value).collect();
    let mut corrected = holm(&tested).into_iter();
    for figure in &mut figures {
        figure.p_value = figure.p_value.and_then(|_| corrected.next());
        figure.verdict = verdict(figure, thresholds);
    }
    let noise = [RunNoise::of(before, after), RunNoise::of(after, before)];
    let noise_differs = noise[0].differences(&noise[1], &thresholds.noise);
    if !noise_differs.is_empty() {
        let told =
            |figure: &&mut Compared| matches!(figure.verdict, Verdict::Better | Verdict::Worse | Verdict::Different);
        figures.iter_mut().filter(told).for_each(|figure| figure.verdict = Verdict::Busier);
    }
    let title = |results: &Results| format!("{}, {}", results.name, results.started.words());
    let (settings, (before, after)) = (settings::differences(before, after), (title(before), title(after)));
    Pair { before, after, settings, noise, noise_differs, figures, only_before, only_after }
}

/// The effect and the p-value of one figure, before correction and verdict.
fn measured(key: &Key, one: &Summary, other: &Summary, least_p: f64, thresholds: &Thresholds) -> Compared {
    let is_positive = one.values.iter().chain(&other.values).all(|value| *value > 0.0);
    let is_relative = one.unit != Unit::Share && is_positive;
    let resolution = one.width.unwrap_or(0.0).max(other.width.unwrap_or(0.0));
    let (method, p_value) = p_value(one, other, least_p, is_relative, resolution);
    let difference = |to: f64, from: f64| if is_relative { to / from - 1.0 } else { to - from };
    let mut marks: Vec<&'static str> = one.marks.iter().chain(&other.marks).map(|mark| mark.short()).collect();
    marks.sort_unstable();
    marks.dedup();
    let spoilt = one.spoilt || other.spoilt;
    let both_limited = [one, other].iter().all(|side| side.marks.contains(&Mark::TesterLimited));
    let is_judged = !both_limited && !spoilt;
    Compared {
        cell: key.0.clone(),
        test: key.1.to_owned(),
        figure: key.2.clone(),
        unit: one.unit.symbol(),
        before: one.values.clone(),
        after: other.values.clone(),
        shift: shift(&one.values, &other.values, difference),
        cliffs_delta: cliffs_delta(&one.values, &other.values),
        method: if is_judged { method } else { Method::None },
        p_value: p_value.filter(|_| is_judged),
        least: least(one, thresholds, resolution),
        verdict: if spoilt { Verdict::Disturbed } else { Verdict::Untold },
        marks,
        words: (one.unit, one.better),
    }
}

fn p_value(one: &Summary, other: &Summary, least_p: f64, is_relative: bool, resolution: f64) -> (Method, Option<f64>) {
    let (n, m) = (one.values.len(), other.values.len());
    let is_ranked = n.min(m) >= RANKED_MIN && n + m <= RANKED_MAX && mann_whitney_least(n, m) <= least_p;
    if is_ranked {
        return (Method::MannWhitney, Some(mann_whitney(&one.values, &other.values)));
    }
    if n + m >= 3 {
        let scaled = |values: &[f64]| {
            values.iter().map(|value| if is_relative { value.ln() } else { *value }).collect::<Vec<_>>()
        };
        let p = student(&scaled(&one.values), &scaled(&other.values), if is_relative { resolution } else { 0.0 });
        return if p.is_finite() { (Method::Student, Some(p)) } else { (Method::None, None) };
    }
    (Method::None, None)
}

/// The least shift of a figure that counts.
fn least(figure: &Summary, thresholds: &Thresholds, resolution: f64) -> f64 {
    let is_tail = ["p99.9 ", "p99.99 ", "max ", "PDV "].iter().any(|tail| figure.name.starts_with(tail));
    let least = match figure.unit {
        Unit::PacketsPerSecond => thresholds.rate,
        Unit::Share => thresholds.loss,
        Unit::Nanoseconds if is_tail => thresholds.tail,
        Unit::Cores => 0.0,
        _ => thresholds.time,
    };
    least.max(resolution)
}

fn direction(better: Better, shift: f64) -> Verdict {
    match (better, shift > 0.0) {
        (Better::Higher, true) | (Better::Lower, false) => Verdict::Better,
        (Better::Higher, false) | (Better::Lower, true) => Verdict::Worse,
        (Better::Neither, _) => Verdict::Different,
    }
}

fn verdict(figure: &Compared, thresholds: &Thresholds) -> Verdict {
    match figure.p_value {
        None => figure.verdict,
        Some(p) if p <= thresholds.alpha && figure.shift.abs() > figure.least => {
            direction(figure.words.1, figure.shift)
        }
        Some(_) => Verdict::Same,
    }
}
