//! `linerate bench capture`: which settings of a capture lose how much on this host, and which one is the best. An experiment of its
//! own making, run as `linerate lab` runs those of files.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use linerate_report::{capture_recommendation, results_json};
use linerate_runner::End;
use linerate_sys::signal;
use linerate_testbed::cleanup;

use crate::lab::file::Plan;
use crate::lab::place::{self, Place};
use crate::lab::run::{self, Ended, Options};
use linerate_console::print;

/// Arguments of `linerate bench capture`.
#[derive(clap::Args)]
#[command(after_help = HELP_END)]
pub struct Args {
    /// Fewer settings and shorter trials: under a minute, rough
    #[arg(long)]
    quick: bool,
    /// How packets get into the program: packet (AF_PACKET), pcap (libpcap), xdp (AF_XDP) [default: all]
    #[arg(long = "tool", value_name = "TOOL,...", value_delimiter = ',', value_parser = ["packet", "pcap", "xdp"])]
    tools: Vec<String>,
    /// How interfaces receive: interrupt, threaded-napi, busy-poll [default: the first two]
    #[arg(long, value_name = "WAY,...", value_delimiter = ',', value_parser = ["interrupt", "threaded-napi", "busy-poll"])]
    receive: Vec<String>,
    /// Reception and capture on one core, or on all of them [default: both; all with --quick]
    #[arg(long, value_name = "CORES,...", value_delimiter = ',', value_parser = ["one", "all"])]
    cores: Vec<String>,
    /// Ring of each port, 64KiB to 1GiB [default: 512KiB,64MiB; 10MiB with --quick]
    #[arg(long = "buffer", value_name = "SIZE,...", value_delimiter = ',')]
    buffers: Vec<String>,
    /// Ports at once: 1, 2 or both
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "2", value_parser = ["1", "2"])]
    ports: Vec<String>,
    /// Frame length on the wire, with FCS, in bytes
    #[arg(long = "size", value_name = "BYTES,...", value_delimiter = ',', default_value = "64", value_parser = clap::value_parser!(u32).range(64..=1518))]
    sizes: Vec<u32>,
    /// Loads of each port, rising [default: 100kpps,300kpps,600kpps]
    #[arg(long = "load", value_name = "RATE,...", value_delimiter = ',')]
    loads: Vec<String>,
    /// Length of each trial in milliseconds [default: 1000; 500 with --quick]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(50..=3_600_000))]
    trial_ms: Option<u64>,
    /// How often each setting is measured; 3 and more say how far its figures can be trusted
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repetitions: u32,
    /// Print the result document (schema linerate.experiment-result/1, with `recommendation`) on stdout instead of the tables
    #[arg(long)]
    json: bool,
    /// Folder for the results, one folder in it for each run
    #[arg(long, value_name = "DIR", default_value = "results")]
    results: PathBuf,
    /// Start anew, even if a run of the same settings was stopped
    #[arg(long)]
    fresh: bool,
    /// Plain lines instead of the live view
    #[arg(long)]
    plain: bool,
}

const HELP_END: &str = "\
`linerate capture` counts what one or two ports are sent, over virtual links that are made for the run and are gone after it. For each
setting and load: the share captured, by the capture's own counts and of what was sent; idle time of the machine; CPU time of each packet;
how full the rings were, and whether they would have lasted. Every packet that is missing has a place. The end names the best setting
for this host and the rule by which it was chosen. Settings without effect are named, not measured.

Examples:
  linerate bench capture                          a selection, about two minutes
  linerate bench capture --quick                  a first look
  linerate bench capture --tool packet,xdp --buffer 1MiB,64MiB --load 200kpps,1Mpps --repetitions 3
  linerate lab run bpf-capture-2009               the whole matrix of the experiment of 2009, with its published figures

Root is needed to choose cores and for AF_XDP; without it the settings that need it are named as not measured.
Exit status: 0 measured, 2 could not measure, or stopped";

/// Measures, prints, stores, recommends.
pub fn run(args: &Args) -> ExitCode {
    let text = experiment(args);
    let experiment = match linerate_testbed::dut::parse(&text, "the settings") {
        Ok(experiment) => experiment,
        Err(errors) => {
            let messages: Vec<&str> = errors.problems.iter().map(|problem| problem.message.as_str()).collect();
            return refuse(&messages.join("; "));
        }
    };
    // Before any thread: a user namespace is entered by a process of one thread.
    let as_root = match place::place() {
        Place::Namespaces { as_root } => as_root,
        Place::InProcess { why } => return refuse(&format!("no network namespace can be made: {why}")),
    };
    if let Err(error) = signal::catch_stop_signals() {
        return refuse(&format!("signals cannot be caught: {error}"));
    }
    cleanup::remove_left_behind();
    let options = Options {
        results: args.results.clone(),
        only: None,
        fresh: args.fresh,
        plain: args.plain,
        as_root,
        no_namespaces: None,
    };
    match run::run(&Plan { experiment, text, is_shipped: true }, &options) {
        Ok(ended) => conclude(args, &ended),
        Err(problem) => refuse(&problem),
    }
}

fn conclude(args: &Args, Ended { results, folder, end }: &Ended) -> ExitCode {
    let recommendation = capture_recommendation(results);
    linerate_console::tell!("kept in {}; report.txt there has the environment, too", folder.display());
    if args.json {
        print(results_json(results).trim_end());
    } else {
        let columns = terminal_size::terminal_size().map_or(110, |(width, _)| usize::from(width.0));
        let colour = std::io::stdout().is_terminal();
        let text = linerate_report::results_screen(results, columns, colour);
        let end = linerate_report::capture_recommendation_terminal(results, columns, colour);
        print(format!("{text}\n{end}").trim_end());
    }
    match end {
        Err(error) => refuse(&error.to_string()),
        Ok(End::Stopped) => refuse("stopped; the same command goes on from here"),
        Ok(End::Complete) if recommendation.is_empty() => {
            let findings = results.cells.iter().flat_map(|cell| &cell.findings);
            let why = findings.filter_map(|finding| finding.error.as_deref()).next().unwrap_or_default();
            refuse(&format!("nothing could be measured: {why}"))
        }
        Ok(End::Complete) => ExitCode::SUCCESS,
    }
}

fn refuse(problem: &str) -> ExitCode {
    linerate_console::tell!("linerate bench capture: {problem}");
    ExitCode::from(2)
}

/// The experiment file of these settings: what is kept with the results, and what a stopped run is known by.
fn experiment(args: &Args) -> String {
    let or = |given: &[String], full: &[&str], quick: &[&str]| -> Vec<String> {
        let default = if args.quick { quick } else { full };
        if given.is_empty() { default.iter().map(|word| (*word).to_owned()).collect() } else { given.to_vec() }
    };
    let tools = or(&args.tools, &["packet", "pcap", "xdp"], &["packet", "pcap", "xdp"]);
    let receive = or(&args.receive, &["interrupt", "threaded-napi"], &["interrupt", "threaded-napi"]);
    let cores = or(&args.cores, &["one", "all"], &["all"]);
    let buffers = or(&args.buffers, &["512KiB", "64MiB"], &["10MiB"]);
    let loads = or(&args.loads, &["100kpps", "300kpps", "600kpps"], &["100kpps", "400kpps"]);
    let ports: Vec<String> =
        args.ports.iter().map(|ports| if ports == "1" { "one-port" } else { "two-ports" }.to_owned()).collect();
    let trial_ms = args.trial_ms.unwrap_or(if args.quick { 500 } else { 1000 });
    let sizes: Vec<String> = args.sizes.iter().map(u32::to_string).collect();
    // Without effect on a veth (docs/duts.md), and nobody asked for it.
    let has = |words: &[String], word: &str| words.iter().any(|known| known == word);
    let one_by_xdp = has(&tools, "xdp") && has(&cores, "one") && has(&receive, "interrupt") && tools.len() > 1;
    let skip = if one_by_xdp && args.receive.is_empty() && args.cores.is_empty() {
        "skip = [{ dut = \"capture-xdp-one-interrupt-*\" }]\n"
    } else {
        ""
    };
    format!(
        "# linerate bench capture
name = \"bench-capture\"
title = \"Capture on this host\"
about = \"Linerate's capture, counting, at rising loads; loads of each port: {words}.\"

[topology]
kind = \"namespaces\"

[[dut]]
name = \"capture\"
kind = \"capture\"
tool = {tools}
cores = {cores}
receive = {receive}
buffer = {buffers}

[matrix]
sizes = [{sizes}]
flows = [100]
directions = {ports}
repetitions = {repetitions}
{skip}
[phases]
wait = \"20ms\"
drain = \"50ms\"
rest = \"20ms\"

[[test]]
kind = \"capture\"
loads = {loads}
trial = \"{trial_ms}ms\"
",
        words = printable(&loads.join(", ")),
        tools = list(&tools),
        cores = list(&cores),
        receive = list(&receive),
        buffers = list(&buffers),
        sizes = sizes.join(", "),
        ports = list(&ports),
        repetitions = args.repetitions,
        loads = list(&loads),
    )
}

/// As TOML has it.
fn list(words: &[String]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("\"{}\"", printable(word))).collect();
    format!("[{}]", quoted.join(", "))
}

/// Without what would end or change a text of TOML; what is left of it is refused as it stands.
fn printable(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() || matches!(letter, '"' | '\\') { '?' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use linerate_experiment::Experiment;
    use linerate_testbed::dut::parse;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    fn of(words: &[&str]) -> Experiment {
        let command = Command::parse_from([&["capture"], words].concat());
        parse(&experiment(&command.args), "x").unwrap_or_else(|errors| panic!("{errors}"))
    }

    #[test]
    fn every_choice_is_an_experiment() {
        let minutes = |experiment: &Experiment| experiment.estimate().duration_ns as f64 / 60e9;
        let (usual, quick) = (of(&[]), of(&["--quick"]));
        assert_eq!((usual.cells().len(), quick.cells().len()), (22, 6));
        assert!(minutes(&usual) < 3.0 && minutes(&quick) < 1.0, "{} {}", minutes(&usual), minutes(&quick));
        let asked =
            of(&["--tool", "xdp", "--receive", "busy-poll", "--cores", "one", "--ports", "1,2", "--size", "64,512"]);
        assert_eq!(asked.cells().len(), 8, "what is asked for is not left out");
        assert_eq!(of(&["--tool", "xdp,packet", "--receive", "interrupt"]).cells().len(), 8);
    }

    #[test]
    fn what_is_wrong_is_told() {
        for (words, told) in
            [(["--load", "1x"], "1000pps"), (["--buffer", "9GiB"], "1GiB"), (["--buffer", "a\"b"], "bytes")]
        {
            let command = Command::parse_from([&["capture"], &words[..]].concat());
            let errors = parse(&experiment(&command.args), "x").expect_err("wrong");
            assert!(errors.to_string().contains(told), "{errors}");
        }
    }
}
