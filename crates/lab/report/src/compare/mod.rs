//! Which figures differ significantly between the sides of a comparison: before and after.
//!
//! A side is one run, whose repetitions are the values of a figure, or several runs, whose medians are. A figure of both sides gets
//! a p-value:
//!
//! - with enough values, from the exact Mann-Whitney U test;
//! - where even values wholly apart could not convince that test (fewer than 4 on a side, or too few for so many figures), from
//!   Student's t-test of the logarithms. Equal values are no certainty there: the variance of the interval that the search left
//!   open, of counting packets, and a tenth of the threshold as a standard deviation are added to the variance observed;
//! - with one value on each side the spread is unknown, and the figure is inconclusive.
//!
//! All p-values of a comparison go through Holm's correction, so the chance of any false difference in it is at most
//! [`Thresholds::alpha`] between sides that differ in nothing but chance. Repetitions of one run are more alike than runs are: a
//! difference must also be larger than [`Thresholds`] says for its kind, and what varies more than that from run to run is
//! only seen with several runs a side. A figure that one side could not measure is gone, which is the worst difference. A figure without a
//! significant difference is inconclusive unless its confidence interval excludes large changes ([`Excluded`]).
//! `docs/results.md` says the same for users.

mod judge;
mod noise;
mod scale;
mod series;
mod settings;
mod show;
mod statistics;
mod thresholds;
mod words;

pub use judge::{Compared, Method, Reason, Verdict};
pub use noise::{NoiseLimits, RunNoise};
pub use settings::Setting;
pub use show::{comparison_html, comparison_json, comparison_markdown, comparison_terminal};
pub use thresholds::{Excluded, Thresholds};

use crate::Results;
use judge::{is_testable, judge};
use serde::Serialize;
use series::{Key, Series, Side};
use statistics::holm;

/// Name and version of a comparison's format.
pub const COMPARISON_SCHEMA: &str = "linerate.comparison/1";

/// One side compared with the other.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Pair {
    /// Name and time of the first run before.
    pub before: String,
    /// Name and time of the first run after.
    pub after: String,
    /// Number of runs before and after. With one, the values of a figure are its repetitions; else each is the median of a run.
    pub runs: [usize; 2],
    /// What differs in where and of what the runs were measured.
    pub settings: Vec<Setting>,
    /// What disturbed the two sides.
    pub noise: [RunNoise; 2],
    /// In what these differ by more than the limits; then a difference is inconclusive.
    pub noise_differs: Vec<String>,
    /// In the order of the first run before.
    pub figures: Vec<Compared>,
    /// Figures whose cell or test is only in the runs before: `cell, test, figure`. They say nothing.
    pub only_before: Vec<String>,
    /// Figures whose cell or test is only in the runs after.
    pub only_after: Vec<String>,
}

/// Sides compared with a reference.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// [`COMPARISON_SCHEMA`].
    pub schema: &'static str,
    /// From where on a difference is one.
    pub thresholds: Thresholds,
    /// One for each side that is compared with the reference.
    pub pairs: Vec<Pair>,
}

impl Comparison {
    /// Whether any figure is significantly worse, or gone.
    pub fn is_worse(&self) -> bool {
        self.pairs.iter().any(|pair| pair.figures.iter().any(Compared::is_worse))
    }

    /// Whether anything is not known well enough to tell: a figure is inconclusive, or none of a pair could be judged.
    pub fn is_inconclusive(&self) -> bool {
        self.pairs.iter().any(|pair| {
            let is_judged = |figure: &Compared| figure.verdict == Verdict::Same || figure.is_difference();
            pair.inconclusive().next().is_some() || !pair.figures.iter().any(is_judged)
        })
    }

    /// Whether any figure differs significantly, for the better or the worse.
    pub fn differs(&self) -> bool {
        self.pairs.iter().any(|pair| pair.differences().next().is_some())
    }
}

impl Pair {
    /// The figures that differ significantly: those gone first, then those worse.
    pub fn differences(&self) -> impl Iterator<Item = &Compared> {
        let mut found: Vec<&Compared> = self.figures.iter().filter(|figure| figure.is_difference()).collect();
        found.sort_by_key(|figure| match figure.verdict {
            Verdict::Gone => 0,
            Verdict::Worse => 1,
            _ => 2,
        });
        found.into_iter()
    }

    /// The figures that are inconclusive and could be better or worse.
    pub fn inconclusive(&self) -> impl Iterator<Item = &Compared> {
        self.figures.iter().filter(|figure| figure.is_inconclusive())
    }
}

/// Compares each run with the first one.
pub fn compare(results: &[Results]) -> Comparison {
    compare_with(results, &Thresholds::default())
}

/// Compares each run with the first one, with other thresholds.
pub fn compare_with(results: &[Results], thresholds: &Thresholds) -> Comparison {
    let one = std::slice::from_ref::<Results>;
    let pairs = match results {
        [reference, others @ ..] => others.iter().map(|other| pair(one(reference), one(other), thresholds)).collect(),
        [] => Vec::new(),
    };
    Comparison { schema: COMPARISON_SCHEMA, thresholds: *thresholds, pairs }
}

/// Compares several runs before with several runs after. With more than one run on a side, each run is one value, its median.
pub fn compare_sides(before: &[Results], after: &[Results], thresholds: &Thresholds) -> Comparison {
    let pairs = if before.is_empty() || after.is_empty() { Vec::new() } else { vec![pair(before, after, thresholds)] };
    Comparison { schema: COMPARISON_SCHEMA, thresholds: *thresholds, pairs }
}

fn pair(before: &[Results], after: &[Results], thresholds: &Thresholds) -> Pair {
    // One run beside several is one value, too.
    let is_by_run = before.len() + after.len() > 2;
    let (old, new) = (Side::of(before, is_by_run), Side::of(after, is_by_run));
    let Matched { both, only_before, only_after } = Matched::of(&old, &new);
    let tests = both.iter().filter(|(_, one, other)| is_testable(one, other)).count();
    let mut figures: Vec<Compared> =
        both.iter().map(|(key, one, other)| judge(key, one, other, tests, thresholds)).collect();
    let tested: Vec<f64> = figures.iter().filter_map(|figure| figure.p_value).collect();
    let mut corrected = holm(&tested).into_iter();
    for figure in &mut figures {
        figure.p_value = figure.p_value.and_then(|_| corrected.next());
        figure.decide(thresholds);
    }
    let noise = [RunNoise::of(before, after), RunNoise::of(after, before)];
    let noise_differs = noise[0].differences(&noise[1], &thresholds.noise);
    if !noise_differs.is_empty() {
        // That a whole test fails is no matter of noise.
        let is_told = |figure: &&mut Compared| figure.is_difference() && !figure.is_failed();
        for figure in figures.iter_mut().filter(is_told) {
            (figure.verdict, figure.reason) = (Verdict::Inconclusive, Some(Reason::Busier));
        }
    }
    let runs = [before.len(), after.len()];
    let settings = settings::of_sides(before, after);
    let title =
        |runs: &[Results]| runs.first().map(|run| format!("{}, {}", run.name, run.started.words())).unwrap_or_default();
    let (before, after) = (title(before), title(after));
    Pair { before, after, runs, settings, noise, noise_differs, figures, only_before, only_after }
}

/// The figures of two sides by name.
struct Matched {
    both: Vec<(Key, Series, Series)>,
    only_before: Vec<String>,
    only_after: Vec<String>,
}

impl Matched {
    /// A figure that one side tried to measure and could not is a figure of both.
    fn of(old: &Side, new: &Side) -> Self {
        let words = |key: &Key| format!("{}, {}, {}", key.0, key.1, key.2);
        let (mut both, mut only_before, mut only_after) = (Vec::new(), Vec::new(), Vec::new());
        for (key, one) in &old.figures {
            let other = match new.figure(key) {
                Some(other) => Some(other.clone()).filter(|other| other.unit == one.unit),
                None => new.absent(key, one),
            };
            match other {
                Some(other) => both.push((key.clone(), one.clone(), other)),
                None => only_before.push(words(key)),
            }
        }
        for (key, other) in new.figures.iter().filter(|(key, _)| old.figure(key).is_none()) {
            match old.absent(key, other) {
                Some(one) => both.push((key.clone(), one, other.clone())),
                None => only_after.push(words(key)),
            }
        }
        both.retain(|(_, one, other)| !one.values.is_empty() || !other.values.is_empty());
        Self { both, only_before, only_after }
    }
}
