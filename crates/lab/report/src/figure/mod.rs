//! The figures of an experiment: each number that a report shows or compares, with its unit, its bounds and what makes it doubtful.
//! Every output takes them from here, so that a mark on a figure is on it everywhere.

mod extract;
mod median;
mod of_found;
mod summary;

pub(crate) use extract::{figures, key_trial, of_finding};
pub use median::median;
pub(crate) use of_found::load_words;
pub(crate) use summary::{Missing, Summary, summaries};

use crate::units::{count, nanoseconds, percent, pps};

/// In what a figure is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    PacketsPerSecond,
    Nanoseconds,
    Share,
    Packets,
    /// Of connections, requests, echoes.
    PerSecond,
    Connections,
    Bytes,
    Cores,
    CyclesPerPacket,
    InstructionsPerPacket,
}

impl Unit {
    /// The figure for people.
    pub(crate) fn words(self, value: f64) -> String {
        match self {
            Self::PacketsPerSecond => pps(value),
            Self::Nanoseconds => nanoseconds(value),
            Self::Share => percent(value),
            Self::PerSecond => crate::units::per_second(value),
            Self::Packets | Self::Connections | Self::Bytes if value.is_finite() => {
                count(value.max(0.0).round() as u64)
            }
            Self::Cores | Self::CyclesPerPacket | Self::InstructionsPerPacket if value.is_finite() => plain(value),
            _ => "-".to_owned(),
        }
    }

    /// The unit of the plain number in CSV and JSON.
    pub(crate) fn symbol(self) -> &'static str {
        match self {
            Self::PacketsPerSecond => "pps",
            Self::Nanoseconds => "ns",
            Self::Share => "ratio",
            Self::Packets => "packets",
            Self::PerSecond => "1/s",
            Self::Connections => "connections",
            Self::Bytes => "bytes",
            Self::Cores => "cores",
            Self::CyclesPerPacket => "cycles/packet",
            Self::InstructionsPerPacket => "instructions/packet",
        }
    }
}

fn plain(value: f64) -> String {
    if value.fract() == 0.0 || value >= 1e5 { format!("{value:.0}") } else { format!("{value:.1}") }
}

/// Which way a figure is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Better {
    Higher,
    Lower,
    Neither,
}

/// What makes a figure doubtful, or something else than it seems.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mark {
    TesterLimited,
    AtMaximum,
    LimitUnknown,
    Irregular,
    Wide,
    Disturbed,
}

impl Mark {
    /// For tables.
    pub(crate) fn short(self) -> &'static str {
        match self {
            Self::TesterLimited => "tester's limit",
            Self::AtMaximum => "or more",
            Self::LimitUnknown => "limit unknown",
            Self::Irregular => "irregular",
            Self::Wide => "wide bounds",
            Self::Disturbed => "disturbed",
        }
    }

    /// For a reader who meets it for the first time.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::TesterLimited => {
                "the tester could not send or count more (within 5 % of the path without the DUT, or held back by it): \
                 this is the tester's own limit, the DUT may carry more"
            }
            Self::AtMaximum => "the highest load that was to be tried passed: the figure is this or more",
            Self::LimitUnknown => "what limits it is not known",
            Self::Irregular => "a higher load passed above a failing one: the DUT or the machine is not steady",
            Self::Wide => "the search ended before its bounds were as close as the experiment asks",
            Self::Disturbed => "the machine took time from a trial behind it, beyond the experiment's limits",
        }
    }
}

/// One figure of one repetition.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Figure {
    /// Index of its cell.
    pub(crate) cell: usize,
    /// The test, as [`crate::TestResult`] names it; `cpu` for costs.
    pub(crate) test: &'static str,
    /// Which figure of the test: `NDR`, `p99 at 50 %`.
    pub(crate) name: String,
    pub(crate) unit: Unit,
    pub(crate) better: Better,
    pub(crate) repetition: u32,
    /// `Err`: why there is none.
    pub(crate) value: Result<f64, String>,
    /// The upper bound, where the value is a lower one.
    pub(crate) upper: Option<f64>,
    /// Relative width of the bounds that was asked for.
    pub(crate) width: Option<f64>,
    pub(crate) marks: Vec<Mark>,
    /// Every trial behind it was disturbed.
    pub(crate) spoilt: bool,
}
