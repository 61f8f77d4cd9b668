//! What a report says, before it is text for a terminal, Markdown or HTML: sentences and grids.

mod account;
mod answer;
mod captures;
mod costs;
mod flow_counters;
mod goals;
mod grids;
mod head;
pub(crate) mod labels;
mod points;
mod recommendation;
mod sessions;

pub(crate) use account::{RowKind, account_rows, ledger_trials};
pub(crate) use captures::{Curve, CurvePoint, Curves, capture_curves};
pub(crate) use costs::cores_trial;
pub(crate) use goals::goal_rows;
pub(crate) use grids::{is_rate, loss_points};
use head::sentences;
pub(crate) use head::{KeyFigure, key_figures};
pub(crate) use recommendation::recommendation;
pub(crate) use sessions::{is_echoes, limits};

use crate::figure::{Mark, summaries};
use crate::{ExperimentTrial, Results};

/// More rows than this are for the files of values, not for a page.
pub(crate) const ROWS_MAX: usize = 400;

/// Ledgers on a page; the others are in a file of their own.
pub(crate) const LEDGERS_MAX: usize = 24;

/// How an entry is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Tone {
    #[default]
    Plain,
    Strong,
    Good,
    Bad,
    Doubtful,
}

/// An entry of a grid.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Entry {
    pub(crate) text: String,
    pub(crate) tone: Tone,
}

impl Entry {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self::toned(text, Tone::Plain)
    }

    pub(crate) fn toned(text: impl Into<String>, tone: Tone) -> Self {
        Self { text: text.into(), tone }
    }
}

/// What an output may set beside a grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Topic {
    Goals,
    /// Settings of a capture, the best first.
    Ranking,
    Captures,
    Throughput,
    Link,
    Published,
    FlowCounters,
    /// The most connections and requests that succeed.
    SessionLimits,
    /// What became of them by load.
    SessionLoads,
    /// Echoes by connections.
    Echoes,
    /// What else is of echoes.
    Sessions,
    Loss,
    Latency,
    Tests,
    Cost,
    Cores,
    Noise,
    Missing,
    Devices,
    Environment,
}

/// A table with its heading.
#[derive(Debug, Clone)]
pub(crate) struct Grid {
    pub(crate) topic: Topic,
    pub(crate) title: String,
    /// Name, and whether its entries are numbers.
    pub(crate) columns: Vec<(&'static str, bool)>,
    pub(crate) rows: Vec<Vec<Entry>>,
    pub(crate) notes: Vec<String>,
}

impl Grid {
    pub(crate) fn new(topic: Topic, title: impl Into<String>, columns: &[(&'static str, bool)]) -> Self {
        Self { topic, title: title.into(), columns: columns.to_vec(), rows: Vec::new(), notes: Vec::new() }
    }

    /// Cuts the grid to what can be read, and says so.
    fn bounded(mut self) -> Self {
        let left = self.rows.len().saturating_sub(ROWS_MAX);
        if left > 0 {
            self.rows.truncate(ROWS_MAX);
            self.notes.push(format!("{left} more rows are in the CSV files"));
        }
        self
    }
}

/// Everything that a report says.
#[derive(Debug, Clone)]
pub(crate) struct Overview {
    pub(crate) title: String,
    /// Name, tool, time: one line.
    pub(crate) subtitle: String,
    pub(crate) about: String,
    /// The result in words.
    pub(crate) sentences: Vec<String>,
    /// Without the ledgers, which follow the grid of topic `Cores`.
    pub(crate) grids: Vec<Grid>,
    pub(crate) warnings: Vec<String>,
}

pub(crate) fn overview(results: &Results) -> Overview {
    let labels = labels::Labels::new(results);
    let (figures, missing) = summaries(results);
    let grids = [
        goals::grid(results, &labels),
        captures::ranking(results),
        grids::throughput(&labels, &figures),
        grids::published(results, &labels, &figures),
        flow_counters::grid(results, &labels),
        grids::link(results, &labels, &figures),
        captures::grid(results, &labels),
        sessions::found(&labels, &figures),
        sessions::loads(results, &labels),
        sessions::echoes(results, &labels),
        sessions::echo_accounts(results, &labels),
        sessions::echo_connections(results, &labels),
        sessions::udp_loops(results, &labels),
        grids::loss(results, &labels),
        grids::latency(results, &labels, &figures),
        grids::tests(&labels, &figures),
        grids::missing(&labels, &missing),
        costs::cost(&labels, &figures),
        costs::cores(results, &labels),
        costs::noise(results, &labels, &figures),
        head::devices(results),
        head::environment_grid(&results.environment),
    ];
    let mut warnings = results.warnings.clone();
    if !results.complete {
        warnings.insert(0, "the run is not complete: what is missing was not measured yet".to_owned());
    }
    Overview {
        title: if results.title.is_empty() { results.name.clone() } else { results.title.clone() },
        subtitle: head::subtitle(results),
        about: results.about.split_whitespace().collect::<Vec<_>>().join(" "),
        sentences: sentences(results, &labels, &figures, &missing),
        grids: grids.into_iter().filter(|grid| !grid.rows.is_empty()).map(Grid::bounded).collect(),
        warnings,
    }
}

/// Each mark that some figure has, explained once.
fn explained(marks: impl Iterator<Item = Mark>) -> Vec<String> {
    let mut marks: Vec<Mark> = marks.collect();
    marks.sort_unstable();
    marks.dedup();
    marks.iter().map(|mark| format!("{}: {}", mark.short(), mark.words())).collect()
}

/// A trial with its cell's index, for ledgers.
pub(crate) type LedgerTrial<'a> = (usize, &'a ExperimentTrial);
