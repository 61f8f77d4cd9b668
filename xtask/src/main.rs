//! Checks and chores of the workspace: `cargo xtask tidy` holds the invariants of ARCHITECTURE.md against the sources,
//! `cargo xtask ci` runs every check that there is.
#![forbid(unsafe_code)]

mod ci;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

const USAGE: &str = "\
usage: cargo xtask COMMAND

  tidy            checks the layers, the sources and the files of the workspace
  ci [STEP...]    runs all checks, or those named; the last line sums them up
  ci --list       names the steps
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Runs the command; false when what it checks is not as it should be.
fn run(arguments: &[String]) -> Result<bool> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["tidy"] => tidy::run(&root()?),
        ["ci", "--list"] => {
            ci::list();
            Ok(true)
        }
        ["ci", steps @ ..] => ci::run(&root()?, steps),
        [] | ["help" | "--help" | "-h"] => {
            print!("{USAGE}");
            Ok(true)
        }
        other => bail!("unknown command {:?}\n{USAGE}", other.join(" ")),
    }
}

/// Folder of the workspace that this program was built from.
fn root() -> Result<PathBuf> {
    let parent = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    parent.map(Path::to_path_buf).context("xtask is not in a workspace")
}
