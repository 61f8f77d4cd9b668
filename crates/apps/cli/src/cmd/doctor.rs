//! `linerate doctor`: what on this host costs packets, and the command that changes it.

use std::path::Path;
use std::process::ExitCode;

use super::status;
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
    status::of("linerate doctor", try_run(args))
}

fn try_run(args: &Args) -> Result<bool, String> {
    // A fact that cannot be read would be told as a good one.
    if !Path::new("/proc/self/stat").exists() {
        return Err("/proc is not mounted here, which has most of the facts: mount -t proc proc /proc".into());
    }
    let facts = gather::gather(&args.interfaces);
    let facts = facts.map_err(|error| format!("{error}; `ip link` lists the interfaces"))?;
    let findings = examine(&facts);
    let text = match args.json {
        true => show::json(&facts, &findings).map_err(|error| error.to_string())?,
        false => show::text(&facts, &findings),
    };
    print(&text);
    Ok(findings.iter().all(|finding| finding.severity != Severity::Problem))
}
