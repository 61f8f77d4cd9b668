//! `linerate doctor`: what on this host costs packets, and the command that changes it.

use std::process::ExitCode;

use linerate_console::print;
use linerate_doctor::{Severity, examine, gather, show};

/// Arguments of `linerate doctor`.
#[derive(clap::Args)]
pub struct Args {
    /// Interfaces to look at; all but lo unless named
    #[arg(value_name = "INTERFACE")]
    interfaces: Vec<String>,
    /// Print one JSON document: findings, and the facts that they stand on
    #[arg(long)]
    json: bool,
}

/// Examines the host and prints what it found. Status 1 when something cannot work, 2 when it could not look.
pub fn run(args: &Args) -> ExitCode {
    let facts = match gather::gather(&args.interfaces) {
        Ok(facts) => facts,
        Err(error) => {
            linerate_console::tell!("linerate doctor: {error}; `ip link` lists the interfaces");
            return ExitCode::from(2);
        }
    };
    let findings = examine(&facts);
    if args.json {
        match show::json(&facts, &findings) {
            Ok(text) => print(&text),
            Err(error) => {
                linerate_console::tell!("linerate doctor: {error}");
                return ExitCode::from(2);
            }
        }
    } else {
        print(&show::text(&facts, &findings));
    }
    let problem = findings.iter().any(|finding| finding.severity == Severity::Problem);
    ExitCode::from(u8::from(problem))
}
