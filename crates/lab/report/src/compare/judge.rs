//! What can be said of one figure: whether it differs, by how much, and how sure that is.

use serde::Serialize;

use super::scale::Scale;
use super::series::{Key, Series};
use super::statistics::{Estimate, RANKED_MAX, cliffs_delta, mann_whitney, mann_whitney_least, shift};
use super::thresholds::Thresholds;
use crate::figure::{Better, Unit, median};

/// A rank test needs so many values on each side.
const RANKED_MIN: usize = 4;

/// How a difference was judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Exact Mann-Whitney U test.
    MannWhitney,
    /// Student's t-test (of logarithms where all values are above 0): too few values for a rank test.
    Student,
    /// No test was made.
    None,
}

/// What is said of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// No significant difference, and large ones are excluded.
    Same,
    /// A significant difference for the better.
    Better,
    /// A significant difference for the worse.
    Worse,
    /// A significant difference of a figure that is neither better nor worse when higher.
    Different,
    /// The worst difference: the figure has values before and none after.
    Gone,
    /// The figure has none before and values after.
    Appeared,
    /// Every value on both sides is the tester's own limit or the highest load tried, so it says nothing of the DUT.
    Limited,
    /// Not enough is known to tell; [`Compared::reason`] says why.
    Inconclusive,
}

/// Why a figure is inconclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// One value on each side: their spread is unknown.
    OneRepetition,
    /// The values vary so much that a large change is not excluded.
    Spread,
    /// Some repetitions have a value and some do not.
    Missing,
    /// In one of the sides every trial behind the figure was disturbed.
    Disturbed,
    /// There is a difference, but the machine was busier on one side.
    Busier,
    /// The tester's limit left one side without a value.
    Tester,
    /// A run is not complete and has not measured the figure.
    NotMeasured,
}

/// A figure of both sides.
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
    /// The values before: one for each repetition, or the median of each run where several runs are compared.
    pub before: Vec<f64>,
    /// The values after.
    pub after: Vec<f64>,
    /// Why repetitions before have no value, one entry for each.
    pub before_missing: Vec<String>,
    /// Why repetitions after have no value.
    pub after_missing: Vec<String>,
    /// Whether `shift`, `interval` and `least` are relative to the values before (-0.1 is 10 % less), or in `unit`.
    pub relative: bool,
    /// Hodges-Lehmann estimate of the change; NaN where one side has no value.
    pub shift: f64,
    /// Confidence interval of the change, from Student's t; all intervals of a comparison hold together with a probability of
    /// 1 - [`Thresholds::alpha`].
    pub interval: Option<[f64; 2]>,
    /// Cliff's delta, -1 to 1.
    pub cliffs_delta: f64,
    /// How it was judged.
    pub method: Method,
    /// After Holm's correction; `None` where there is no test.
    pub p_value: Option<f64>,
    /// Least change that counts here: threshold or resolution of the search, whichever is larger.
    pub least: f64,
    /// The verdict.
    pub verdict: Verdict,
    /// Why the verdict is inconclusive.
    pub reason: Option<Reason>,
    /// Remarks of either side.
    pub marks: Vec<&'static str>,
    #[serde(skip)]
    pub(super) words: (Unit, Better),
    #[serde(skip)]
    failed: bool,
    /// Whether the change would count if it were significant.
    #[serde(skip)]
    pub(super) is_large: bool,
    #[serde(skip)]
    is_bounded: bool,
    /// Whether chance is ruled out; a significant change may be too small to count.
    #[serde(skip)]
    pub(super) is_significant: bool,
}

/// Whether the two have what a test needs: three values, not all at a limit, undisturbed.
pub(super) fn is_testable(one: &Series, other: &Series) -> bool {
    settled(one, other).is_none()
}

/// What needs no test.
fn settled(one: &Series, other: &Series) -> Option<(Verdict, Option<Reason>)> {
    let inconclusive = |reason| Some((Verdict::Inconclusive, Some(reason)));
    let gone = |from: &Series, to: &Series, verdict| match (from.missing.is_empty(), to.missing.is_empty()) {
        (_, true) => inconclusive(Reason::NotMeasured),
        (false, _) => inconclusive(Reason::Missing),
        _ if to.spoilt => inconclusive(Reason::Disturbed),
        _ if to.limited => inconclusive(Reason::Tester),
        _ if from.better == Better::Neither => Some((Verdict::Different, None)),
        _ => Some((verdict, None)),
    };
    match (one.values.is_empty(), other.values.is_empty()) {
        (false, true) => gone(one, other, Verdict::Gone),
        (true, false) => gone(other, one, Verdict::Appeared),
        _ if one.limited && other.limited => Some((Verdict::Limited, None)),
        _ if one.values.len() + other.values.len() < 3 => inconclusive(Reason::OneRepetition),
        _ if one.spoilt || other.spoilt => inconclusive(Reason::Disturbed),
        _ => None,
    }
}

/// The change and the p-value of one figure, before correction. `tests` figures are tested beside each other.
pub(super) fn judge(key: &Key, one: &Series, other: &Series, tests: usize, thresholds: &Thresholds) -> Compared {
    let scale = Scale::of(key, one, other, thresholds);
    let level = thresholds.alpha / tests.max(1) as f64;
    let scaled = |values: &[f64]| values.iter().map(|value| scale.to(*value)).collect::<Vec<_>>();
    let estimate = Estimate::of(&scaled(&one.values), &scaled(&other.values), scale.floor);
    let settled = settled(one, other);
    let estimate = estimate.filter(|_| settled.is_none());
    let interval =
        estimate.map(|it| (it.difference, it.margin(level))).map(|(middle, margin)| [middle - margin, middle + margin]);
    let (method, p_value) = match estimate {
        Some(estimate) => p_value(one, other, estimate, level),
        None => (Method::None, None),
    };
    let undecided = (Verdict::Inconclusive, Some(Reason::Spread));
    let (verdict, reason) = settled.unwrap_or(undecided);
    let change = shift(&one.values, &other.values, |to, from| scale.change(to, from));
    let mut marks: Vec<&'static str> = one.marks.iter().chain(&other.marks).map(|mark| mark.short()).collect();
    marks.sort_unstable();
    marks.dedup();
    Compared {
        cell: key.0.clone(),
        test: key.1.to_owned(),
        figure: key.2.clone(),
        unit: one.unit.symbol(),
        before: one.values.clone(),
        after: other.values.clone(),
        before_missing: one.missing.clone(),
        after_missing: other.missing.clone(),
        relative: scale.is_relative,
        shift: change,
        interval: interval.map(|ends| ends.map(|end| scale.change_of(end))),
        cliffs_delta: cliffs_delta(&one.with_missing(), &other.with_missing()),
        method,
        p_value,
        least: scale.least(),
        verdict,
        reason,
        marks,
        words: (one.unit, one.better),
        failed: if one.values.is_empty() { one.failed } else { other.failed },
        is_large: scale.is_large(change, median(&other.values) - median(&one.values)) || is_mostly_missing(one, other),
        is_bounded: interval.is_some_and(|ends| ends.iter().all(|end| scale.is_bounded(*end, median(&one.values)))),
        is_significant: false,
    }
}

/// Whether the median of exactly one side is a missing value.
fn is_mostly_missing(one: &Series, other: &Series) -> bool {
    let is_missing = |series: &Series| !median(&series.with_missing()).is_finite();
    is_missing(one) != is_missing(other)
}

fn p_value(one: &Series, other: &Series, estimate: Estimate, level: f64) -> (Method, Option<f64>) {
    let (n, m) = (one.values.len() + one.missing.len(), other.values.len() + other.missing.len());
    let has_missing = n + m > one.values.len() + other.values.len();
    // A missing value is the worst one, where there is one.
    let is_ordered = !has_missing || one.better != Better::Neither;
    if is_ordered && n.min(m) >= RANKED_MIN && n + m <= RANKED_MAX && mann_whitney_least(n, m) <= level {
        return (Method::MannWhitney, Some(mann_whitney(&one.with_missing(), &other.with_missing())));
    }
    if has_missing { (Method::None, None) } else { (Method::Student, Some(estimate.p_value())) }
}

impl Compared {
    /// Decides, now that the p-value is corrected for all the others.
    pub(super) fn decide(&mut self, thresholds: &Thresholds) {
        let has_missing = !self.before_missing.is_empty() || !self.after_missing.is_empty();
        if self.method == Method::None && self.interval.is_none() {
            return;
        }
        self.is_significant = self.p_value.is_some_and(|p| p <= thresholds.alpha);
        (self.verdict, self.reason) = match self.is_significant && self.is_large {
            true => (self.direction(), None),
            false if has_missing => (Verdict::Inconclusive, Some(Reason::Missing)),
            false if !self.is_bounded => (Verdict::Inconclusive, Some(Reason::Spread)),
            false => (Verdict::Same, None),
        };
    }

    fn direction(&self) -> Verdict {
        let has_missing = !self.before_missing.is_empty() || !self.after_missing.is_empty();
        let rises = if has_missing { self.cliffs_delta > 0.0 } else { self.shift > 0.0 };
        match (self.words.1, rises) {
            (Better::Higher, true) | (Better::Lower, false) => Verdict::Better,
            (Better::Higher, false) | (Better::Lower, true) => Verdict::Worse,
            (Better::Neither, _) => Verdict::Different,
        }
    }

    /// The change in multiples of the least that counts; 0 where there is none.
    pub(super) fn size(&self) -> f64 {
        let (change, least) = match self.relative {
            true => (self.shift.ln_1p(), self.least.ln_1p()),
            false => (self.shift, self.least),
        };
        let size = change.abs() / least;
        if size.is_nan() { 0.0 } else { size }
    }

    /// Whether one side has no value because the whole test failed: noise may take a figure away, but not the DUT.
    pub(super) fn is_failed(&self) -> bool {
        self.failed && (self.before.is_empty() || self.after.is_empty())
    }

    /// Whether the figure differs significantly.
    pub fn is_difference(&self) -> bool {
        self.is_worse() || matches!(self.verdict, Verdict::Better | Verdict::Different | Verdict::Appeared)
    }

    /// Whether not enough is known of a figure that could be better or worse.
    pub fn is_inconclusive(&self) -> bool {
        self.verdict == Verdict::Inconclusive && self.words.1 != Better::Neither
    }

    /// Whether the figure is significantly worse, or gone.
    pub fn is_worse(&self) -> bool {
        matches!(self.verdict, Verdict::Worse | Verdict::Gone)
    }
}
