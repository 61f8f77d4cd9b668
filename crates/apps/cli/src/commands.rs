//! The subcommands on Linux.

use std::process::ExitCode;

use clap::Subcommand;

use crate::cmd;

/// A subcommand, with its arguments.
#[derive(Subcommand)]
pub enum Command {
    /// Measures the Linux kernel as a router, and accounts for every packet
    Bench(Box<cmd::bench::Args>),
    /// Runs experiments from files: devices, sizes, flows and tests; reports
    Lab(Box<cmd::lab::Args>),
    /// Compares runs of an experiment: which figures differ significantly, and which are inconclusive
    Compare(cmd::compare::Args),
    /// Renders the results of an experiment again: HTML, Markdown, CSV, OpenMetrics, JSON, text
    Report(cmd::report::Args),
    /// Sends streams, paced and accounted for
    Send(Box<cmd::send::Args>),
    /// Counts what arrives, by stream: loss, duplicates, order, latency
    Receive(cmd::receive::Args),
    /// Captures on interfaces, into files or counting, and accounts for every packet
    Capture(Box<cmd::capture::Args>),
    /// Prints, filters, merges and cuts capture files; counts their flows
    Read(cmd::read::Args),
    /// netmap's pkt-gen, for every kind of port
    #[command(disable_help_flag = true)]
    PktGen(cmd::pkt_gen::Args),
    /// Joins two ports: what arrives on either leaves by the other
    Bridge(Box<cmd::bridge::Args>),
    /// Spreads one port over several by flow, both directions of a flow together
    Lb(cmd::lb::Args),
    /// A learning switch between ports of any kind; its names valeS:P; `switch ctl` controls it
    Switch(Box<cmd::switch::Args>),
    /// An OpenFlow 1.3 switch between ports of any kind, under a controller or not; `ofswitch ctl` asks and changes it
    Ofswitch(Box<cmd::ofswitch::Args>),
    /// Servers and a stateful load generator over Linerate's own TCP stack, on any port
    Tcp(Box<cmd::tcp::Args>),
    /// Lists the ports that can be opened here and what the others need, and the network cards of the PCI bus
    Ports(cmd::ports::Args),
    /// Checks this host for settings that cause packet loss
    Doctor(cmd::doctor::Args),
    /// Prints the script that completes this program's command lines in a shell
    Completions(cmd::completions::CompletionsArgs),
    /// Prints or writes man pages
    Man(cmd::completions::ManArgs),
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
