//! The `linerate` command: which subcommand is asked for. Exit status: 0 done, 1 done but not as wished, 2 not started, or its results could
//! not be written.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, FromArgMatches, Parser};
use linerate::commands::Command;
use linerate::{cmd, help};

/// How many packets per second a path carries, where the others go, and what a packet costs
#[derive(Parser)]
#[command(name = "linerate", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    let status = run();
    let Some(error) = linerate_console::lost_output() else { return status };
    linerate_console::note(&format!("linerate: standard output: {error}"));
    ExitCode::from(2)
}

fn run() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    if let Some(words) = cmd::pkt_gen::wanted(&arguments) {
        return cmd::pkt_gen::run_words(words);
    }
    help::fit_terminal();
    let definition = || help::fitted(Arguments::command());
    let matches = definition().try_get_matches_from(&arguments).unwrap_or_else(|error| refuse(&arguments, &error));
    let arguments =
        Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.format(&mut definition()).exit());
    help::as_written();
    arguments.command.run(Arguments::command)
}

/// Says what is wrong with the arguments and ends, with what to write where somebody gave a switch its ports as `bridge` has them. Help
/// comes this way as well.
fn refuse(arguments: &[OsString], error: &clap::Error) -> ! {
    let is_to_run = arguments.iter().all(|word| word != "ctl");
    let command = arguments.get(1).filter(|_| is_to_run).and_then(|command| command.to_str()).unwrap_or_default();
    if let (Some(ContextValue::String(port)), "switch" | "ofswitch") =
        (error.get(ContextKind::InvalidSubcommand), command)
    {
        linerate_console::note(&format!(
            "linerate {command}: is {port} a port? Ports are given with -p: linerate {command} -p {port}"
        ));
    }
    error.exit()
}
