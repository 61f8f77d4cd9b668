//! `linerate compare`: which figures of runs of an experiment differ significantly.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use linerate_report::{
    Comparison, Results, Thresholds, compare, compare_sides, comparison_html, comparison_json, comparison_markdown,
    comparison_terminal, load_results,
};

use linerate_console::print;

/// Arguments of `linerate compare`.
#[derive(clap::Args)]
#[command(after_help = HELP_END)]
#[command(override_usage = "linerate compare [OPTIONS] BEFORE AFTER...\n       \
    linerate compare [OPTIONS] --before RUN... --after RUN...")]
pub struct Args {
    /// Folders of runs, or their result.json; each one is compared with the first
    #[arg(value_name = "RUN", num_args = 2.., required_unless_present_any = ["before", "after"], conflicts_with_all = ["before", "after"])]
    runs: Vec<PathBuf>,
    /// Compare several runs of the same thing as one side: these are the reference
    #[arg(long, value_name = "RUN", num_args = 1.., requires = "after")]
    before: Vec<PathBuf>,
    /// The runs to compare with those of --before
    #[arg(long, value_name = "RUN", num_args = 1.., requires = "before")]
    after: Vec<PathBuf>,
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
A figure is judged by the spread of its repetitions: run with `lab run FILE --repetitions 5`. One
repetition a side cannot be judged, and is inconclusive. Repetitions show how much one run varies;
runs of the same thing vary more. Several runs a side include that, because each run is then one
value, its median. Alternate the runs of both sides, so that a drift meets both. docs/results.md
describes the tests and thresholds.

Examples:
  linerate compare results/before results/after
  linerate compare results/before results/after --markdown >> $GITHUB_STEP_SUMMARY
  linerate compare --before results/*-old --after results/*-new

Exit status:
  0  enough is known, and no figure is significantly worse
  1  a figure is significantly worse, or gone (measured before and not after)
  2  the runs cannot be compared: a file cannot be read, or no figure is in both
  3  inconclusive: no figure is known to be worse, but not enough is known of at least one: it has
     one repetition a side, varies too much, was disturbed or on a busier machine, or is not
     measured yet";

/// Compares.
pub fn run(args: &Args) -> ExitCode {
    let comparison = match compared(args) {
        Ok(comparison) => comparison,
        Err(problem) => return refuse(&problem),
    };
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
    print(text.trim_end());
    match (comparison.is_worse(), comparison.is_inconclusive()) {
        (true, _) => ExitCode::from(1),
        (false, true) => ExitCode::from(3),
        (false, false) => ExitCode::SUCCESS,
    }
}

fn compared(args: &Args) -> Result<Comparison, String> {
    let load = |paths: &[PathBuf]| -> Result<Vec<Results>, String> {
        paths.iter().map(|path| load_results(path).map_err(|error| error.to_string())).collect()
    };
    if args.runs.is_empty() {
        return Ok(compare_sides(&load(&args.before)?, &load(&args.after)?, &Thresholds::default()));
    }
    Ok(compare(&load(&args.runs)?))
}

fn refuse(problem: &str) -> ExitCode {
    linerate_console::tell!("linerate compare: {problem}");
    ExitCode::from(2)
}
