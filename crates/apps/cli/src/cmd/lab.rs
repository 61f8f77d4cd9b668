//! `linerate lab`: experiments from files. Runs them, lists them and the devices that they can name, checks them, cleans up after killed runs.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use linerate_report::results_json;
use linerate_runner::{End, reached};
use linerate_sys::signal;
use linerate_testbed::cleanup;
use linerate_testbed::dut::{self, KINDS};

use crate::lab::file::{self, Changes};
use crate::lab::place::{self, Place};
use crate::lab::run::{self, Ended, Options};
use crate::lab::{clean, consent, runs, shipped, words};
use linerate_console::print;

/// Arguments of `linerate lab`.
#[derive(clap::Args)]
#[command(after_help = HELP_END)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

const HELP_END: &str = "\
An experiment file names a topology, devices, a matrix of sizes, flows and directions, and tests; docs/experiments.md describes it,
docs/lab.md how to run it and read its report.

  linerate lab run quick                a shipped experiment of under a minute
  linerate lab run my.toml --only 'snat/*' --json > result.json
  linerate lab list                     shipped experiments, and the runs in ./results
  linerate lab duts                     kinds of devices under test
  linerate compare results/A results/B  which figures differ significantly";

#[derive(clap::Subcommand)]
enum Command {
    /// Runs an experiment, or resumes an interrupted run of it
    Run(RunArgs),
    /// Lists the shipped experiments, and the runs in the results folder
    List(ResultsArgs),
    /// Lists the kinds of devices that an experiment file can name, and the topologies that each fits
    Duts,
    /// Checks experiment files; errors name file, line and what was expected
    Check(CheckArgs),
    /// Removes what killed runs left behind
    Clean(ResultsArgs),
}

#[derive(clap::Args)]
#[command(after_help = RUN_HELP_END)]
struct RunArgs {
    /// Experiment file, or the name of a shipped experiment (`linerate lab list`)
    #[arg(value_name = "FILE|NAME")]
    experiment: String,
    /// Folder for the results, one folder in it for each run
    #[arg(long, value_name = "DIR", default_value = "results")]
    results: PathBuf,
    /// Print the result document (schema linerate.experiment-result/1) on stdout instead of the tables
    #[arg(long)]
    json: bool,
    /// Start anew, even if a run of this experiment was stopped
    #[arg(long)]
    fresh: bool,
    /// Only the cells whose id matches; * stands for any text: 'snat/*', '*/both-ways'
    #[arg(long, value_name = "CELL-PATTERN")]
    only: Option<String>,
    /// How often each test is repeated, instead of what the file says
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repetitions: Option<u32>,
    /// Length of every trial, instead of what the file says: 200ms, 1s
    #[arg(long, value_name = "TIME", value_parser = trial_ns)]
    trial: Option<u64>,
    /// Plain lines instead of the live view
    #[arg(long)]
    plain: bool,
    /// Agree to the commands that the file runs with your rights; they are shown before its first run. Shipped experiments ask nothing
    #[arg(long)]
    yes: bool,
}

const RUN_HELP_END: &str = "\
Results are written after every trial. Ctrl-C stops within a second or two and takes everything down; the same command goes on
after the last finished finding.

Exit status: 0 measured; 1 measured, but a cell could not be measured or a goal was not reached; 2 could not measure, or stopped";

#[derive(clap::Args)]
struct ResultsArgs {
    /// Folder of the results
    #[arg(long, value_name = "DIR", default_value = "results")]
    results: PathBuf,
}

#[derive(clap::Args)]
struct CheckArgs {
    /// Experiment files, or names of shipped experiments
    #[arg(value_name = "FILE|NAME", required = true)]
    experiments: Vec<String>,
}

/// Runs the subcommand.
pub fn run(args: &Args) -> ExitCode {
    match &args.command {
        Command::Run(args) => carry_out(args),
        Command::List(args) => list(args),
        Command::Duts => duts(),
        Command::Check(args) => check(args),
        Command::Clean(args) => clean_up(args),
    }
}

fn carry_out(args: &RunArgs) -> ExitCode {
    let changes = Changes { repetitions: args.repetitions, trial_ns: args.trial, only: args.only.clone() };
    let plan = match file::plan(&args.experiment, &changes) {
        Ok(plan) => plan,
        Err(problem) => return refuse_as_is(&problem),
    };
    if let Err(problem) = consent::ask(&plan, &args.results, args.yes) {
        return refuse(&problem);
    }
    // Before any thread: a user namespace is entered by a process of one thread.
    let (as_root, no_namespaces) = match place::place() {
        Place::Namespaces { as_root } => (as_root, None),
        Place::InProcess { why } => (false, Some(why)),
    };
    if let Err(error) = signal::catch_stop_signals() {
        return refuse(&format!("signals cannot be caught: {error}"));
    }
    tell_removed(cleanup::remove_left_behind());
    let options = Options {
        results: args.results.clone(),
        only: args.only.clone(),
        fresh: args.fresh,
        plain: args.plain,
        as_root,
        no_namespaces,
    };
    match run::run(&plan, &options) {
        Ok(ended) => conclude(args, &ended),
        Err(problem) => refuse(&problem),
    }
}

fn conclude(args: &RunArgs, ended: &Ended) -> ExitCode {
    let Ended { results, folder, end } = ended;
    if args.json {
        print(results_json(results).trim_end());
    } else {
        let columns = terminal_size::terminal_size().map_or(110, |(width, _)| usize::from(width.0));
        let text = linerate_report::results_screen(results, columns, std::io::stdout().is_terminal());
        print(text.trim_end());
    }
    linerate_console::tell!("kept in {}; report.txt there has the environment, too", folder.display());
    let findings = || results.cells.iter().flat_map(|cell| &cell.findings);
    match end {
        Err(error) => refuse(&error.to_string()),
        Ok(End::Stopped) => refuse("stopped; the same command goes on from here"),
        Ok(End::Complete) if findings().all(|finding| finding.result.is_none()) => {
            let why = findings().find_map(|finding| finding.error.clone()).unwrap_or_default();
            refuse(&format!("nothing could be measured: {why}"))
        }
        Ok(End::Complete) if reached(results) => ExitCode::SUCCESS,
        Ok(End::Complete) => ExitCode::from(1),
    }
}

fn list(args: &ResultsArgs) -> ExitCode {
    let mut text = String::from("shipped experiments (linerate lab run NAME):\n");
    for (name, _) in shipped::SHIPPED {
        let about = match file::plan(name, &Changes::default()) {
            Ok(plan) => {
                let estimate = plan.experiment.estimate();
                let time = words::span(estimate.duration_ns);
                format!("{} ({} cells, about {time})", plan.experiment.title, estimate.cells)
            }
            Err(error) => error,
        };
        text += &format!("  {name:20} {about}\n");
    }
    let all = match runs::all(&args.results) {
        Ok(all) => all,
        Err(error) => return refuse(&format!("{}: {error}", args.results.display())),
    };
    text += &format!("runs in {}:\n", args.results.display());
    for run in &all {
        let folder = run.folder.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        text += &format!("  {folder:40} {}\n", run.state());
    }
    if all.is_empty() {
        text += "  none\n";
    }
    print(text.trim_end());
    ExitCode::SUCCESS
}

fn duts() -> ExitCode {
    for kind in KINDS {
        print(&format!("{:14} {} ({})", kind.reader.word, kind.about, kind.reader.topologies.join(", ")));
    }
    ExitCode::SUCCESS
}

fn check(args: &CheckArgs) -> ExitCode {
    let mut status = 0;
    for word in &args.experiments {
        match file::read(word).map(|(text, name)| dut::parse(&text, &name)) {
            Ok(Ok(experiment)) => {
                let estimate = experiment.estimate();
                let time = words::span(estimate.duration_ns);
                print(&format!("{word}: good: {} cells, {} trials, about {time}\n", estimate.cells, estimate.trials));
            }
            Ok(Err(errors)) => {
                linerate_console::tell!("{errors}");
                status = status.max(1);
            }
            Err(problem) => {
                linerate_console::tell!("linerate lab: {problem}");
                status = 2;
            }
        }
    }
    ExitCode::from(status)
}

fn clean_up(args: &ResultsArgs) -> ExitCode {
    let removed = clean::all(&args.results);
    if removed.is_empty() {
        print("nothing was left behind");
    }
    let failed = removed.iter().any(|(_, error)| error.is_some());
    tell_removed(removed);
    ExitCode::from(if failed { 2 } else { 0 })
}

fn tell_removed(removed: clean::Removed) {
    for (what, error) in removed {
        match error {
            None => linerate_console::tell!("removed {what}, which a killed run had left"),
            Some(error) => linerate_console::tell!("{what}, which a killed run had left, cannot be removed: {error}"),
        }
    }
}

/// The length of a trial: 1 ms to a day.
fn trial_ns(text: &str) -> Result<u64, String> {
    match linerate_units::duration_ns(text) {
        Ok(ns) if !(1_000_000..=86_400_000_000_000).contains(&ns) => Err("a trial lasts 1ms to 24h".into()),
        read => read.map_err(|error| error.to_string()),
    }
}

fn refuse(problem: &str) -> ExitCode {
    linerate_console::tell!("linerate lab: {problem}");
    ExitCode::from(2)
}

/// Errors of a file begin with `error: FILE:LINE`.
fn refuse_as_is(problem: &str) -> ExitCode {
    if problem.starts_with("error: ") {
        linerate_console::tell!("{problem}");
        return ExitCode::from(2);
    }
    refuse(problem)
}
