//! `linerate bench`: the main job. Measures the Linux kernel as a router and accounts for every packet: the shipped experiment `quick`, with
//! what the command line changes in it, run as `linerate lab` runs any experiment.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use linerate_experiment::{
    DutSpec, Experiment, FlowOrder, FlowSpec, Limit, LimitOf, SizeSpec, TestKind, TesterPorts, TopologyKind,
};
use linerate_report::{Rate, Results, results_json, results_screen, trials_terminal};
use linerate_runner::End;
use linerate_sys::signal;
use linerate_testbed::cleanup;
use linerate_testbed::dut::pipe::Pipe;

use crate::lab::file::{self, Changes, Plan};
use crate::lab::place::{self, Place};
use crate::lab::run::{self, Ended, Options};
use linerate_console::print;

/// Arguments of `linerate bench`.
#[derive(clap::Args)]
#[command(after_help = HELP_END, args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    other: Option<Other>,
    /// Print the result document (docs/results.md) as JSON on stdout instead of the tables
    #[arg(long)]
    json: bool,
    /// Print every trial too, each with its account, instead of one ledger for each cell
    #[arg(long)]
    trials: bool,
    /// Length of each trial in milliseconds; short ones see few interruptions [default: 100, and 500 for the figure without any loss]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(20..=3_600_000))]
    trial_ms: Option<u64>,
    /// How often each figure is measured [default: as often as 23 s for each number of flows allow]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repetitions: Option<u32>,
    /// Frame length on the wire, with FCS, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 64, value_parser = clap::value_parser!(u32).range(64..=1518))]
    size: u32,
    /// Sources x destinations of each measurement
    #[arg(long, value_name = "SxD,...", value_delimiter = ',', default_value = "1x1,100x100", value_parser = parse_flows)]
    flows: Vec<(u64, u64)>,
    /// Exit with 1 if the throughput without loss (NDR) is less than this rate, e.g. 500kpps or l2:1Gbit/s
    #[arg(long, value_name = "RATE")]
    goal: Option<Rate>,
    /// Port kind that sends: xdp or packet (the best that works unless named)
    #[arg(long, value_name = "KIND", requires = "receiver")]
    sender: Option<String>,
    /// What counts: sink (an XDP program), xdp or packet
    #[arg(long, value_name = "KIND", requires = "sender")]
    receiver: Option<String>,
    /// Measure the in-process link, as where no network namespace can be made
    #[arg(long)]
    in_process: bool,
    /// Plain lines instead of the live view
    #[arg(long)]
    plain: bool,
    /// Folder for the results, one folder in it for each run
    #[arg(long, value_name = "DIR", default_value = "results")]
    results: PathBuf,
}

/// What else is measured.
#[derive(clap::Subcommand)]
enum Other {
    /// Measures captures instead: which settings lose how much on this host, and which one is the best
    Capture(Box<super::bench_capture::Args>),
}

const HELP_END: &str = "\
Three network namespaces (generator - router - receiver), joined by veth pairs, are made for the run and are gone after it. As
an ordinary user they are made inside a user namespace; where the kernel forbids that, the in-process link is measured instead.

It runs the shipped experiment `quick` (linerate lab run quick): for each number of flows the throughput (NDR without loss, PDR with
0.5 %, by MLRsearch, RFC 9971), the capacity (what is delivered under overload), and the highest load that loses not one packet.

Examples:
  linerate bench                        the whole measurement, under a minute
  linerate bench --json > result.json   the same as one document
  linerate bench --goal 500kpps         exit status 1 if the router carries less
  linerate bench capture --quick        captures instead of the router, and the best setting for this host
  linerate lab run full-rfc2544         every test of RFC 2544, with trials of its length

Exit status: 0 measured, 1 measured but the goal was missed, 2 could not measure, or stopped";

/// Measures, prints, stores.
pub fn run(args: &Args) -> ExitCode {
    if let Some(Other::Capture(args)) = &args.other {
        return super::bench_capture::run(args);
    }
    let mut plan = match plan(args) {
        Ok(plan) => plan,
        Err(problem) => return refuse(&problem),
    };
    let place = match args.in_process {
        true => Place::InProcess { why: "asked for by --in-process".into() },
        false => place::place(),
    };
    if let Err(error) = signal::catch_stop_signals() {
        return refuse(&format!("signals cannot be caught: {error}"));
    }
    cleanup::remove_left_behind();
    let as_root = match &place {
        Place::Namespaces { as_root } => *as_root,
        Place::InProcess { why } => {
            inside(&mut plan.experiment, why);
            false
        }
    };
    let options = Options {
        results: args.results.clone(),
        only: None,
        fresh: true,
        plain: args.plain,
        as_root,
        no_namespaces: None,
    };
    match run::run(&plan, &options) {
        Ok(ended) => conclude(args, &ended),
        Err(problem) => refuse(&problem),
    }
}

fn conclude(args: &Args, Ended { results, folder, end }: &Ended) -> ExitCode {
    if args.json {
        print(results_json(results).trim_end());
    } else {
        let columns = terminal_size::terminal_size().map_or(110, |(width, _)| usize::from(width.0));
        let colour = std::io::stdout().is_terminal();
        if args.trials {
            print(&trials_terminal(results, columns, colour));
        }
        print(results_screen(results, columns, colour).trim_end());
    }
    linerate_console::tell!(
        "kept in {}; report.html there has the pictures, report.txt the environment",
        folder.display()
    );
    match end {
        Err(error) => refuse(&error.to_string()),
        Ok(End::Stopped) => refuse("stopped"),
        Ok(End::Complete) => status(results),
    }
}

fn status(results: &Results) -> ExitCode {
    let findings = || results.cells.iter().flat_map(|cell| &cell.findings);
    if findings().all(|finding| finding.result.is_none()) {
        let why = findings().find_map(|finding| finding.error.clone()).unwrap_or_default();
        return refuse(&format!("nothing could be measured: {why}"));
    }
    let met = findings().all(|finding| finding.goals.iter().all(|goal| goal.met));
    if met { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

fn refuse(problem: &str) -> ExitCode {
    linerate_console::tell!("linerate bench: {problem}");
    ExitCode::from(2)
}

/// The shipped experiment with what the command line changes in it.
fn plan(args: &Args) -> Result<Plan, String> {
    let changes = Changes { repetitions: args.repetitions, ..Changes::default() };
    let mut plan = file::plan("quick", &changes)?;
    let experiment = &mut plan.experiment;
    experiment.sizes = vec![SizeSpec { label: args.size.to_string(), parts: vec![(args.size, 1)] }];
    experiment.flows = flows(&experiment.flows, &args.flows);
    experiment.testers.extend(
        args.sender.clone().zip(args.receiver.clone()).map(|(sender, receiver)| TesterPorts { sender, receiver }),
    );
    if let Some(trial_ms) = args.trial_ms {
        file::shorten_all(experiment, trial_ms * 1_000_000);
    }
    if let Some(goal) = args.goal {
        let bound = goal.to_pps(args.size, None);
        let bound = bound.map_err(|error| format!("--goal: {error}; a veth has no link rate, give pps or bit/s"))?;
        let limit = Limit { of: LimitOf::Rate, goal: Some("NDR".into()), bound };
        for test in &mut experiment.tests {
            let is_search = matches!(test.kind, TestKind::Throughput { .. });
            test.limits.extend(is_search.then(|| limit.clone()));
        }
    }
    plan.text += &as_comment(args);
    Ok(plan)
}

/// What the command line changed, for whoever reads the file that is kept with the results.
fn as_comment(args: &Args) -> String {
    let flows: Vec<String> = args.flows.iter().map(|(sources, to)| format!("{sources}x{to}")).collect();
    let mut words = format!("\n# linerate bench --size {} --flows {}", args.size, flows.join(","));
    if let Some(trial_ms) = args.trial_ms {
        words += &format!(" --trial-ms {trial_ms}");
    }
    words + "\n"
}

/// The same addresses as the experiment's own flows, in these numbers.
fn flows(of: &[FlowSpec], wanted: &[(u64, u64)]) -> Vec<FlowSpec> {
    let Some(like) = of.first() else { return Vec::new() };
    let spec = |(sources, destinations): &(u64, u64)| FlowSpec {
        sources: *sources,
        destinations: *destinations,
        ports: 1,
        order: FlowOrder::Odometer,
        ..like.clone()
    };
    wanted.iter().map(spec).collect()
}

/// The link inside this process instead of the router.
fn inside(experiment: &mut Experiment, why: &str) {
    experiment.title = "The in-process link".into();
    experiment.about = format!("Not the router, but the link between two threads of this process: {why}.");
    experiment.topology = TopologyKind::InProcess;
    experiment.duts = vec![DutSpec { name: "pipe".into(), kind: Pipe.into() }];
    experiment.testers.clear();
    experiment.published.clear();
}

/// `100x100`, or `1`.
fn parse_flows(text: &str) -> Result<(u64, u64), String> {
    let parts = text.split_once('x').unwrap_or((text, "1"));
    let number = |part: &str| part.parse().ok().filter(|count| (1..=100).contains(count));
    number(parts.0).zip(number(parts.1)).ok_or_else(|| "takes sources x destinations, 1x1 to 100x100".into())
}
