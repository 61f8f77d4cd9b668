//! The subcommands on FreeBSD: those that need nothing of Linux's network stack.

use std::process::ExitCode;

use clap::Subcommand;

use crate::cmd;
use crate::deferred::Deferred;

/// A subcommand, with its arguments.
#[derive(Subcommand)]
pub enum Command {
    /// Sends streams, paced and accounted for
    Send(Deferred<cmd::send::Args>),
    /// Counts what arrives, by stream: loss, duplicates, order, latency
    Receive(Deferred<cmd::receive::Args>),
    /// Prints, filters, merges and cuts capture files; counts their flows
    Read(Deferred<cmd::read::Args>),
    /// netmap's pkt-gen, for every kind of port
    #[command(disable_help_flag = true)]
    PktGen(Deferred<cmd::pkt_gen::Args>),
    /// Joins two ports: what arrives on either leaves by the other
    Bridge(Deferred<cmd::bridge::Args>),
    /// Spreads one port over several by flow, both directions of a flow together
    Lb(Deferred<cmd::lb::Args>),
    /// Prints the script that completes this program's command lines in a shell
    Completions(Deferred<cmd::completions::CompletionsArgs>),
    /// Prints or writes man pages
    Man(Deferred<cmd::completions::ManArgs>),
}

impl Command {
    /// Does it; `definition` is the whole command line's.
    pub fn run(self, definition: fn() -> clap::Command) -> ExitCode {
        match self {
            Command::PktGen(args) => cmd::pkt_gen::run_args(&args),
            Command::Send(args) => cmd::send::run(&args),
            Command::Receive(args) => cmd::receive::run(&args),
            Command::Read(args) => cmd::read::run(&args),
            Command::Bridge(args) => cmd::bridge::run(&args),
            Command::Lb(args) => cmd::lb::run(&args),
            Command::Completions(args) => cmd::completions::completions(&args, definition()),
            Command::Man(args) => cmd::completions::man(&args, definition()),
        }
    }
}
