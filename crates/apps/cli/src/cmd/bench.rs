//! `linerate bench`: the main job. Measures the Linux kernel as a router and accounts for every packet.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::SystemTime;

use linerate_lab::bench::{self, BenchSpec, Event, Place};
use linerate_lab::cleanup;
use linerate_lab::tester::TesterSpec;
use linerate_report::{Document, Rate, Timestamp, Trial, units};
use linerate_sys::capability::{Capabilities, Capability};
use linerate_sys::netns::NetNs;
use linerate_sys::{signal, userns};

use crate::pktgen::log;

/// Arguments of `linerate bench`.
#[derive(clap::Args)]
#[command(after_help = HELP_END, args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    other: Option<Other>,
    /// Print one JSON document (schema linerate.bench/1, docs/results.md) on stdout instead of the tables
    #[arg(long)]
    json: bool,
    /// Length of each trial in milliseconds; RFC 2544 asks for 60000 for a reported result
    #[arg(long, value_name = "MS", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(50..=3_600_000))]
    trial_ms: u64,
    /// Frame length on the wire, with FCS, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 64, value_parser = clap::value_parser!(u32).range(64..=1518))]
    size: u32,
    /// Sources x destinations of each search
    #[arg(long, value_name = "SxD,...", value_delimiter = ',', default_value = "1x1,100x100", value_parser = parse_flows)]
    flows: Vec<(u64, u64)>,
    /// A search ends when its bounds are this close
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0)]
    resolution: f64,
    /// How often a failing trial is repeated before it counts; 0 is strict RFC 2544
    #[arg(long, value_name = "N", default_value_t = 1)]
    confirmations: u32,
    /// Most trials of a search
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(2..=1000))]
    trials_max: u32,
    /// Exit with 1 if a search finds less than this rate, e.g. 500kpps or l2:1Gbit/s
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

Examples:
  linerate bench                        the whole measurement, under a minute
  linerate bench --json > result.json   the same as one document
  linerate bench --goal 500kpps         exit status 1 if the router carries less
  linerate bench capture --quick        captures instead of the router, and the best setting for this host
  linerate bench --trial-ms 60000 --confirmations 0   as strict as RFC 2544, section 26.1

Exit status: 0 measured, 1 measured but the goal was missed, 2 could not measure";

/// Measures, prints, stores.
pub fn run(args: &Args) -> ExitCode {
    if let Some(Other::Capture(args)) = &args.other {
        return super::bench_capture::run(args);
    }
    // Before anything else: a user namespace is entered by a process of one thread.
    let place = place(args.in_process);
    if let Err(error) = signal::catch_stop_signals() {
        return refuse(&format!("signals cannot be caught: {error}"));
    }
    for (name, error) in cleanup::remove_left_behind() {
        match error {
            None => eprintln!("removed {name}, which a killed run had left"),
            Some(error) => eprintln!("{name}, which a killed run had left, cannot be removed: {error}"),
        }
    }
    let spec = match spec(args, place) {
        Ok(spec) => spec,
        Err(problem) => return refuse(&problem),
    };
    let mut document = bench::document(env!("CARGO_PKG_VERSION"), Timestamp::from_system(SystemTime::now()));
    let measured = bench::run(&spec, &mut document, &mut progress);
    document.ended = Timestamp::from_system(SystemTime::now());
    if let Err(error) = &measured {
        document.warnings.push(format!("not complete: {error}"));
    }
    if !document.trials.is_empty() {
        show(args, &document);
    }
    match measured {
        Err(error) => refuse(&error.to_string()),
        Ok(()) if document.goals_met() => ExitCode::SUCCESS,
        Ok(()) => ExitCode::from(1),
    }
}

fn refuse(problem: &str) -> ExitCode {
    eprintln!("linerate bench: {problem}");
    ExitCode::from(2)
}

/// Where this process can measure.
pub(super) fn place(in_process: bool) -> Place {
    if in_process {
        return Place::InProcess { why: "asked for by --in-process".into() };
    }
    let held = Capabilities::read();
    let namespaces = |held: &Capabilities| held.has(Capability::SysAdmin) && held.has(Capability::NetAdmin);
    if let Ok(held) = held
        && namespaces(&held)
        && NetNs::anonymous().is_ok()
    {
        return Place::Namespaces {
            as_root: held.has_for_host(Capability::Bpf) && held.has_for_host(Capability::NetRaw),
        };
    }
    match userns::enter() {
        Ok(_) => Place::Namespaces { as_root: false },
        Err(error) => Place::InProcess { why: error.to_string() },
    }
}

fn spec(args: &Args, place: Place) -> Result<BenchSpec, String> {
    if !(args.resolution > 0.0 && args.resolution < 100.0) {
        return Err("--resolution takes a percentage above 0 and below 100".into());
    }
    let goal_pps = args.goal.map(|goal| goal.to_pps(args.size, None)).transpose();
    let goal_pps = goal_pps.map_err(|error| format!("--goal: {error}; a veth has no link rate, give pps or bit/s"))?;
    let ports = args.sender.clone().zip(args.receiver.clone());
    Ok(BenchSpec {
        size_wire: args.size,
        flows: args.flows.clone(),
        trial_ns: args.trial_ms * 1_000_000,
        resolution: args.resolution / 100.0,
        confirmations: args.confirmations,
        trials_max: args.trials_max,
        goal_pps,
        ports: ports.map(|(sender, receiver)| TesterSpec::new(sender, receiver)),
        ..BenchSpec::new(place)
    })
}

/// `100x100`, or `1`.
fn parse_flows(text: &str) -> Result<(u64, u64), String> {
    let parts = text.split_once('x').unwrap_or((text, "1"));
    let number = |part: &str| part.parse().ok().filter(|count| (1..=100).contains(count));
    number(parts.0).zip(number(parts.1)).ok_or_else(|| "takes sources x destinations, 1x1 to 100x100".into())
}

fn progress(event: Event<'_>) {
    match event {
        Event::Phase(phase) => eprintln!("{phase}"),
        Event::Begin { name, bounds: None } => eprintln!("  {name} ..."),
        Event::Begin { name, bounds: Some(bounds) } => eprintln!("  {name}, bounds {bounds} ..."),
        Event::End(trial) => eprintln!("    {}", one_line(trial)),
    }
}

fn one_line(trial: &Trial) -> String {
    let account = &trial.account;
    let delivered = trial.rates().map_or_else(|| "-".into(), |rates| units::pps(rates.delivered_pps));
    let lost = account.sent() - account.delivered().min(account.sent());
    format!(
        "{} intended, {} delivered ({delivered}), {} lost, {} unsent",
        units::count(account.intended()),
        units::count(account.delivered()),
        units::count(lost),
        units::count(account.unsent()),
    )
}

fn show(args: &Args, document: &Document) {
    if args.json {
        log::out(&linerate_report::json(document));
    } else {
        let columns = terminal_size::terminal_size().map_or(110, |(width, _)| usize::from(width.0));
        log::out(&linerate_report::terminal(document, columns, std::io::stdout().is_terminal()));
    }
    match linerate_report::store(&args.results, document) {
        Ok(folder) => eprintln!("stored in {}", folder.display()),
        Err(error) => eprintln!("the result could not be stored in {}: {error}", args.results.display()),
    }
}
