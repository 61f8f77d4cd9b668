//! `linerate pkt-gen`, and the program under the name `pkt-gen`: its arguments follow getopt(3), so they come here raw.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

use linerate_pktgen::parse::{Request, parse};
use linerate_pktgen::run;
use linerate_pktgen::usage::USAGE;

/// The subcommand's name, and the program's when it is called by it.
const NAME: &str = "pkt-gen";

/// Arguments of the subcommand, as clap lists them; see [`wanted`] for who reads them.
#[derive(clap::Args)]
pub struct Args {
    /// Options of netmap's pkt-gen; -h lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTIONS")]
    words: Vec<OsString>,
}

/// The words for `pkt-gen` if the command line is one of its own: by the program's name, or by the subcommand's.
pub fn wanted(arguments: &[OsString]) -> Option<&[OsString]> {
    let (program, rest) = arguments.split_first()?;
    if Path::new(program).file_name() == Some(OsStr::new(NAME)) {
        return Some(rest);
    }
    let (first, rest) = rest.split_first()?;
    (first == NAME).then_some(rest)
}

/// Runs with the arguments that clap collected.
pub fn run_args(args: &Args) -> ExitCode {
    run_words(&args.words)
}

/// Runs with these words. Status 0: done, 1: a port failed during the run, 2: not started.
pub fn run_words(words: &[OsString]) -> ExitCode {
    let Some(words) = words.iter().map(|word| word.to_str().map(str::to_string)).collect::<Option<Vec<_>>>() else {
        return refuse("an argument is not UTF-8; write names in UTF-8");
    };
    match parse(&words) {
        Err(error) => refuse(&error.to_string()),
        Ok(Request::Help) => {
            linerate_console::out(USAGE.trim_end());
            ExitCode::SUCCESS
        }
        Ok(Request::Run(options)) => match run::run(*options) {
            Ok(well) => ExitCode::from(u8::from(!well)),
            Err(error) => refuse(&error.to_string()),
        },
    }
}

fn refuse(text: &str) -> ExitCode {
    linerate_console::tell!("{NAME}: {text}");
    ExitCode::from(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn the_name_or_the_subcommand_decides() {
        let found = |line: &str| wanted(&words(line)).map(<[OsString]>::to_vec);
        assert_eq!(found("/usr/bin/pkt-gen -i eth1"), Some(words("-i eth1")));
        assert_eq!(found("linerate pkt-gen -h"), Some(words("-h")));
        assert_eq!(found("linerate doctor pkt-gen"), None);
        assert_eq!(found("linerate"), None);
        assert_eq!(found(""), None);
    }
}
