//! `linerate report`: the results of an experiment, rendered again.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use linerate_report::{Results, figures_csv, html, load_results, openmetrics, results_json, results_markdown};

use linerate_console::print;

/// Arguments of `linerate report`.
#[derive(clap::Args)]
#[command(after_help = HELP_END)]
pub struct Args {
    /// Folder of a run, or its result.json
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// What to make of it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Write to this file instead of stdout
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

const HELP_END: &str = "\
Examples:
  linerate report results/20261121T105903Z-quick
  linerate report results/20261121T105903Z-quick --format html -o report.html

Exit status: 0 written, 2 could not";

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Tables and ledgers for a terminal
    Text,
    /// One self-contained page
    Html,
    /// Markdown
    Md,
    /// The figures, one in each line
    Csv,
    /// OpenMetrics text, for Prometheus and its kin
    Openmetrics,
    /// The result document
    Json,
}

/// Renders.
pub fn run(args: &Args) -> ExitCode {
    let results = match load_results(&args.folder) {
        Ok(results) => results,
        Err(error) => return refuse(&error.to_string()),
    };
    let text = render(&results, args);
    match &args.output {
        None => print(text.trim_end()),
        Some(path) => {
            if let Err(error) = std::fs::write(path, text) {
                return refuse(&format!("{}: {error}", path.display()));
            }
        }
    }
    ExitCode::SUCCESS
}

fn render(results: &Results, args: &Args) -> String {
    match args.format {
        Format::Text => {
            let to_terminal = args.output.is_none() && std::io::stdout().is_terminal();
            let columns = terminal_size::terminal_size().map_or(110, |(width, _)| usize::from(width.0));
            linerate_report::results_terminal(results, columns, to_terminal)
        }
        Format::Html => html(results),
        Format::Md => results_markdown(results),
        Format::Csv => figures_csv(results),
        Format::Openmetrics => openmetrics(results),
        Format::Json => results_json(results),
    }
}

fn refuse(problem: &str) -> ExitCode {
    linerate_console::tell!("linerate report: {problem}");
    ExitCode::from(2)
}
