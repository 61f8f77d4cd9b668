//! The subcommands on Linux.

use std::process::ExitCode;

use clap::Subcommand;

use crate::cmd;
use crate::deferred::Deferred;

/// A subcommand, with its arguments.
#[derive(Subcommand)]
pub enum Command {
    /// Measures the Linux kernel as a router, and accounts for every packet
    Bench(Deferred<cmd::bench::Args>),
    /// Runs experiments from files: devices, sizes, flows and tests; reports
    Lab(Deferred<cmd::lab::Args>),
    /// Compares runs of an experiment: which figures differ significantly, and which are inconclusive
    Compare(Deferred<cmd::compare::Args>),
    /// Renders the results of an experiment again: HTML, Markdown, CSV, OpenMetrics, JSON, text
    Report(Deferred<cmd::report::Args>),
    /// Sends streams, paced and accounted for
    Send(Deferred<cmd::send::Args>),
    /// Counts what arrives, by stream: loss, duplicates, order, latency
    Receive(Deferred<cmd::receive::Args>),
    /// Captures on interfaces, into files or counting, and accounts for every packet
    Capture(Deferred<cmd::capture::Args>),
    /// Prints, filters, merges and cuts capture files; counts their flows
    Read(Deferred<cmd::read::Args>),
    /// netmap's pkt-gen, for every kind of port
    #[command(disable_help_flag = true)]
    PktGen(Deferred<cmd::pkt_gen::Args>),
    /// Joins two ports: what arrives on either leaves by the other
    Bridge(Deferred<cmd::bridge::Args>),
    /// Spreads one port over several by flow, both directions of a flow together
    Lb(Deferred<cmd::lb::Args>),
    /// A learning switch between ports of any kind; its names valeS:P; `switch ctl` controls it
    Switch(Deferred<cmd::switch::Args>),
    /// An OpenFlow 1.3 switch between ports of any kind, under a controller or not; `ofswitch ctl` asks and changes it
    Ofswitch(Deferred<cmd::ofswitch::Args>),
    /// Servers and a stateful load generator over Linerate's own TCP stack, on any port
    Tcp(Deferred<cmd::tcp::Args>),
    /// Lists the ports that can be opened here and what the others need, and the network cards of the PCI bus
    Ports(Deferred<cmd::ports::Args>),
    /// Checks this host for settings that cause packet loss
    Doctor(Deferred<cmd::doctor::Args>),
    /// Prints the script that completes this program's command lines in a shell
    Completions(Deferred<cmd::completions::CompletionsArgs>),
    /// Prints or writes man pages
    Man(Deferred<cmd::completions::ManArgs>),
}

impl Command {
    /// Does it; `definition` is the whole command line's.
    pub fn run(self, definition: fn() -> clap::Command) -> ExitCode {
        match self {
            Command::Bench(args) => cmd::bench::run(&args),
            Command::Lab(args) => cmd::lab::run(&args),
            Command::Compare(args) => cmd::compare::run(&args),
            Command::Report(args) => cmd::report::run(&args),
            Command::PktGen(args) => cmd::pkt_gen::run_args(&args),
            Command::Switch(args) => cmd::switch::run(&args),
            Command::Ofswitch(args) => cmd::ofswitch::run(&args),
            Command::Tcp(args) => cmd::tcp::run(&args),
            Command::Ports(args) => cmd::ports::run(&args),
            Command::Send(args) => cmd::send::run(&args),
            Command::Receive(args) => cmd::receive::run(&args),
            Command::Capture(args) => cmd::capture::run(&args),
            Command::Read(args) => cmd::read::run(&args),
            Command::Bridge(args) => cmd::bridge::run(&args),
            Command::Lb(args) => cmd::lb::run(&args),
            Command::Doctor(args) => cmd::doctor::run(&args),
            Command::Completions(args) => cmd::completions::completions(&args, definition()),
            Command::Man(args) => cmd::completions::man(&args, definition()),
        }
    }
}
