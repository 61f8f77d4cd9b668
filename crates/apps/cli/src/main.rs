//! The `linerate` command: which subcommand is asked for. Exit status: 0 done, 1 done but not as wished, 2 not started.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use linerate::cmd;

/// How many packets per second a path carries, where the others go, and what a packet costs
#[derive(Parser)]
#[command(version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measures the Linux kernel as a router, and accounts for every packet
    Bench(cmd::bench::Args),
    /// Checks this host for what costs packets
    Doctor(cmd::doctor::Args),
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Bench(args) => cmd::bench::run(&args),
        Command::Doctor(args) => cmd::doctor::run(&args),
    }
}
