//! Results: the versioned document, terminal tables, storage.
//!
//! A run of the lab ends in [`Results`], kept by a [`ResultsFolder`] from its first trial on and shown by [`html`], [`results_markdown`],
//! [`results_terminal`], [`figures_csv`] and [`openmetrics`], which all take their figures and marks from one place (`figure`, `overview`).
//! Their core is the [`Account`] of each trial: every packet that the trial meant to send is delivered, or lost at a place because of a
//! cause, or counted as unexplained. An account cannot be built, loaded or printed unbalanced. The fields are described in
//! `docs/results.md` and `docs/schema/experiment-result-1.json`.
//! [`compare`] says which figures of two runs, or of several runs a side, differ significantly.
//!
//! The crate knows no ports and measures nothing.
//!
//! ```
//! use linerate_report::{Account, Counted, Loss};
//!
//! let counted = Counted { intended: 1_000, sent: 990, delivered: 900, ..Counted::default() };
//! let account = Account::new(counted, vec![Loss::new("dut0", "receive queue full", 85)])?;
//! assert_eq!((account.unsent(), account.lost_total(), account.unexplained()), (10, 85, 5));
//! # Ok::<(), linerate_report::AccountError>(())
//! ```

#![forbid(unsafe_code)]

mod account;
mod bounds;
mod capture;
mod compare;
mod csv;
mod environment;
mod experiment;
mod figure;
mod html;
mod markdown;
mod number;
mod openmetrics;
mod overview;
mod reports;
mod session;
mod stalls;
mod storage;
mod subject;
mod terminal;
mod trial;

pub use account::{Account, AccountError, Counted, Loss};
pub use bounds::stated_bounds;
pub use capture::{CapturePoint, CapturePort, RingTrend};
pub use compare::{
    COMPARISON_SCHEMA, Compared, Comparison, Excluded, Method, NoiseLimits, Pair, Reason, RunNoise, Setting,
    Thresholds, Verdict, compare, compare_sides, compare_with, comparison_html, comparison_json, comparison_markdown,
    comparison_terminal,
};
pub use csv::{figures_csv, ledger_csv, trials_csv};
pub use environment::{CORE_CLOCK, CORE_CLOCK_MEASURED, CacheLine, Environment};
pub use experiment::{
    Cell, EXPERIMENT_SCHEMA, ExperimentTrial, FLOW_MATCHES, Finding, GoalBounds, GoalFound, LatencyPoint, LimitedBy,
    LossPoint, Machine, Noise, PublishedRow, RateBounds, Results, SearchStop, SessionsFound, StatedBounds, TestResult,
    Work,
};
pub use figure::median;
pub use html::html;
pub use linerate_units::{Rate, RateError, Timestamp, Tool, show as units};
pub use markdown::results_markdown;
pub use openmetrics::openmetrics;
pub(crate) use reports::reports;
pub use session::{EchoPoint, EchoesFound, SessionAccount, SessionLoss, SessionPoint, UdpFound, UnbalancedSessions};
pub use stalls::{LOSS_BINS, LossTimes, STALLS_MAX, Stall, StallCause, StalledPart, Stalls};
#[doc(hidden)]
pub use storage::fuzzing;
pub use storage::{LoadError, ResultsFolder, load_results, read_results, results_json};
pub use subject::{Dut, Goal};
pub use terminal::{ledger, results_screen, results_terminal, trials_terminal};
pub use trial::{CoreUse, Latency, Probes, Purpose, Rates, TimestampKind, Timestamps, Trial};

/// Which setting of a capture is the best for the host, by which rule, and how sure that is, in sentences; none where the results have no
/// capture.
pub fn capture_recommendation(results: &Results) -> Vec<String> {
    overview::recommendation(results)
}

/// The same as text for a terminal of `columns` columns, with or without colours; empty where there is none.
pub fn capture_recommendation_terminal(results: &Results, columns: usize, colour: bool) -> String {
    let sentences = overview::recommendation(results);
    if sentences.is_empty() {
        return String::new();
    }
    terminal::grids("Recommendation", &sentences, &[], columns, colour)
}
