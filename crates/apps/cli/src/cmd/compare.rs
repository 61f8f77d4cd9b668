//! `linerate compare`: which differences between runs of an experiment are larger than the noise.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use linerate_report::{
    Results, compare, comparison_html, comparison_json, comparison_markdown, comparison_terminal, load_results,
};

use crate::pktgen::log;

/// Arguments of `linerate compare`.
#[derive(clap::Args)]
#[command(after_help = HELP_END)]
pub struct Args {
    /// Folders of runs, or their result.json; the first is what the others are compared with
    #[arg(value_name = "RUN", required = true, num_args = 2..)]
    runs: Vec<PathBuf>,
    /// Print one JSON document
    #[arg(long, group = "format")]
    json: bool,
    /// Print Markdown
    #[arg(long, group = "format")]
    markdown: bool,
    /// Print one self-contained HTML page
    #[arg(long, group = "format")]
    html: bool,
}

const HELP_END: &str = "\
A difference counts when it is larger than what the runs vary by themselves; docs/results.md says how. More repetitions
(lab run --repetitions 5) find smaller differences.

Examples:
  linerate compare results/before results/after
  linerate compare results/before results/after --markdown >> $GITHUB_STEP_SUMMARY

Exit status: 0 no difference beyond the noise, 1 differences, 2 cannot compare, 3 cannot tell (one run was on a busier machine, or
all that could be judged was disturbed)";

/// Compares.
pub fn run(args: &Args) -> ExitCode {
    let loaded: Result<Vec<Results>, _> = args.runs.iter().map(|path| load_results(path)).collect();
    let results = match loaded {
        Ok(results) => results,
        Err(error) => return refuse(&error.to_string()),
    };
    let comparison = compare(&results);
    if comparison.pairs.iter().all(|pair| pair.figures.is_empty()) {
        return refuse("the runs have no figure in common: no cell and test is in both");
    }
    let text = match args {
        Args { json: true, .. } => comparison_json(&comparison),
        Args { markdown: true, .. } => comparison_markdown(&comparison),
        Args { html: true, .. } => comparison_html(&comparison),
        _ => {
            let columns = terminal_size::terminal_size().map_or(110, |(width, _)| usize::from(width.0));
            comparison_terminal(&comparison, columns, std::io::stdout().is_terminal())
        }
    };
    log::out(text.trim_end());
    match (comparison.differs(), comparison.cannot_tell()) {
        (true, _) => ExitCode::from(1),
        (false, true) => ExitCode::from(3),
        (false, false) => ExitCode::SUCCESS,
    }
}

fn refuse(problem: &str) -> ExitCode {
    eprintln!("linerate compare: {problem}");
    ExitCode::from(2)
}
