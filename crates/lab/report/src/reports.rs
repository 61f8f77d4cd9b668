//! Every report of an experiment, by file name.

use crate::{Results, figures_csv, html, ledger_csv, openmetrics, results_markdown, results_terminal, trials_csv};

const TERMINAL_COLUMNS: usize = 120;

/// Names and texts of the files that stand beside the document.
pub(crate) fn reports(results: &Results) -> Vec<(&'static str, String)> {
    vec![
        ("report.html", html(results)),
        ("report.md", results_markdown(results)),
        ("report.txt", results_terminal(results, TERMINAL_COLUMNS, false)),
        ("results.csv", figures_csv(results)),
        ("trials.csv", trials_csv(results)),
        ("ledger.csv", ledger_csv(results)),
        ("metrics.txt", openmetrics(results)),
    ]
}
