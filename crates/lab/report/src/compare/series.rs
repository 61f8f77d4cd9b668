//! The figures of one side of a comparison: the values of its repetitions or runs, and what limits their meaning.

use std::collections::{HashMap, HashSet};

use crate::figure::{Better, Figure, Mark, Unit, median, of_finding};
use crate::{Finding, Results};

/// Names a figure on both sides: id of the cell, test, figure.
pub(super) type Key = (String, &'static str, String);

/// One figure of one side.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Series {
    pub(super) unit: Unit,
    pub(super) better: Better,
    /// One value for each repetition of a run; of several runs, the median of each.
    pub(super) values: Vec<f64>,
    /// Why a repetition or run has no value, one entry for each.
    pub(super) missing: Vec<String>,
    /// Whether the whole test failed wherever a value is missing.
    pub(super) failed: bool,
    /// Relative width of the widest interval in which a search left a value.
    pub(super) width: f64,
    /// Fewest packets that a trial behind a value sent; `None` if no trial is known.
    pub(super) packets: Option<u64>,
    /// Marks of any value.
    pub(super) marks: Vec<Mark>,
    /// Whether every value is the tester's own limit or the highest load tried.
    pub(super) limited: bool,
    /// Whether every trial behind every value was disturbed.
    pub(super) spoilt: bool,
}

impl Series {
    fn new(figure: Figure, finding: &Finding) -> Self {
        let Figure { name, unit, better, value, upper, width, marks, spoilt, .. } = figure;
        let bounds = value.as_ref().ok().zip(upper).map_or(0.0, |(lower, upper)| upper / lower - 1.0);
        let width = width.unwrap_or(0.0).max(bounds);
        let sent = finding.used_trials().map(|made| made.trial.account.sent()).filter(|sent| *sent > 0);
        let limited = marks.iter().any(|mark| matches!(mark, Mark::TesterLimited | Mark::AtMaximum));
        let (values, missing) = match value {
            Ok(value) => (vec![value], Vec::new()),
            Err(why) => (Vec::new(), vec![why]),
        };
        let width = if width.is_finite() { width.max(0.0) } else { 0.0 };
        let failed = name.is_empty();
        // What interruptions of the host took is no property of the DUT.
        let better = if name.ends_with(", interruptions counted") { Better::Neither } else { better };
        Self { unit, better, values, missing, failed, width, packets: sent.min(), marks, limited, spoilt }
    }

    /// A figure that was not measured.
    fn empty(like: &Self) -> Self {
        let (values, missing, marks) = Default::default();
        Self { values, missing, marks, failed: true, width: 0.0, packets: None, limited: true, spoilt: true, ..*like }
    }

    /// Adds the values of another repetition or run.
    fn add(&mut self, other: Self) {
        self.values.extend(other.values);
        // An empty series has nothing that failed.
        self.failed &= other.failed || other.missing.is_empty();
        self.missing.extend(other.missing);
        self.width = self.width.max(other.width);
        self.packets = self.packets.into_iter().chain(other.packets).min();
        self.marks.extend(other.marks);
        self.marks.sort_unstable();
        self.marks.dedup();
        self.limited &= other.limited;
        self.spoilt &= other.spoilt;
    }

    /// The values, and the worst value there is for each that is missing.
    pub(super) fn with_missing(&self) -> Vec<f64> {
        let worst = if self.better == Better::Lower { f64::INFINITY } else { f64::NEG_INFINITY };
        self.values.iter().copied().chain(self.missing.iter().map(|_| worst)).collect()
    }

    /// A whole run as one value: the median of its repetitions.
    fn into_median(mut self) -> Self {
        let middle = median(&self.with_missing());
        if middle.is_finite() {
            (self.values, self.missing) = (vec![middle], Vec::new());
        } else {
            self.values.clear();
            self.missing.truncate(1);
        }
        self
    }
}

/// What one or several runs measured.
#[derive(Debug)]
pub(super) struct Side {
    /// In the order of the documents.
    pub(super) figures: Vec<(Key, Series)>,
    places: HashMap<Key, usize>,
    /// By cell and test, the figures without a value, by name; the name of a whole test is empty.
    failures: HashMap<(String, &'static str), Vec<(String, Series)>>,
    /// Cells that a run names and has not finished.
    unfinished: HashSet<String>,
}

impl Side {
    /// A value for each repetition, or, `by_run`, the median of each run: then what differs from run to run is in the spread.
    pub(super) fn of(runs: &[Results], by_run: bool) -> Self {
        let mut side = Self::empty();
        for run in runs.iter().map(Self::of_run) {
            if !by_run {
                return run;
            }
            run.figures.into_iter().for_each(|(key, series)| side.add(key, series.into_median()));
            for (place, mut failures) in run.failures {
                failures.dedup_by(|one, other| one.0 == other.0);
                side.failures.entry(place).or_default().extend(failures);
            }
            side.unfinished.extend(run.unfinished);
        }
        side.spread_failures();
        side
    }

    fn empty() -> Self {
        let (figures, places, failures, unfinished) = Default::default();
        Self { figures, places, failures, unfinished }
    }

    fn of_run(results: &Results) -> Self {
        let mut run = Self::empty();
        for (index, cell) in results.cells.iter().enumerate() {
            let is_made = |finding: &&Finding| finding.result.is_some() || finding.error.is_some();
            for finding in cell.findings.iter().filter(is_made) {
                for figure in of_finding(index, cell.baseline_pps, finding) {
                    let key = (cell.id.clone(), figure.test, figure.name.clone());
                    let series = Series::new(figure, finding);
                    match series.missing.is_empty() {
                        true => run.add(key, series),
                        false => run.failures.entry((key.0, key.1)).or_default().push((key.2, series)),
                    }
                }
            }
            if !results.complete {
                run.unfinished.insert(cell.id.clone());
            }
        }
        run.spread_failures();
        run
    }

    fn add(&mut self, key: Key, series: Series) {
        let place = *self.places.entry(key.clone()).or_insert(self.figures.len());
        match self.figures.get_mut(place) {
            Some((_, known)) => known.add(series),
            None => self.figures.push((key, series)),
        }
    }

    /// Tells figures with values of the repetitions in which they have none; the other failures are kept.
    fn spread_failures(&mut self) {
        let mut told = HashSet::new();
        for (key, series) in &mut self.figures {
            let mut missing = Series::empty(series);
            let place = (key.0.clone(), key.1);
            for (name, failure) in self.failures.get(&place).into_iter().flatten() {
                if covers(name, &key.2) {
                    missing.add(failure.clone());
                    told.insert((place.clone(), name.clone()));
                }
            }
            if !missing.missing.is_empty() {
                series.failed = missing.failed;
                series.add(missing);
            }
        }
        for (place, failures) in &mut self.failures {
            failures.retain(|(name, _)| !told.contains(&(place.clone(), name.clone())));
        }
    }

    pub(super) fn figure(&self, key: &Key) -> Option<&Series> {
        self.places.get(key).and_then(|place| self.figures.get(*place)).map(|(_, series)| series)
    }

    /// The figure without any value, where this side tried to measure it or has not come to it yet; `None` where this side does not
    /// have the cell or the test.
    pub(super) fn absent(&self, key: &Key, like: &Series) -> Option<Series> {
        let mut series = Series::empty(like);
        let failures = self.failures.get(&(key.0.clone(), key.1)).into_iter().flatten();
        failures.filter(|(name, _)| covers(name, &key.2)).for_each(|(_, failure)| series.add(failure.clone()));
        (!series.missing.is_empty() || self.unfinished.contains(&key.0)).then_some(series)
    }
}

/// Whether a failure of this name leaves the figure without a value: that of a whole test has no name, that of a goal is also one of
/// its conditional throughput (`NDR, conditional`), that of a latency one of all percentiles at the load (`latency at 50 %`).
fn covers(failure: &str, figure: &str) -> bool {
    let of_goal = || figure.strip_prefix(failure).is_some_and(|rest| matches!(rest, "" | ", conditional"));
    let of_load = || failure.strip_prefix("latency").is_some_and(|load| !load.is_empty() && figure.ends_with(load));
    failure.is_empty() || of_goal() || of_load()
}
