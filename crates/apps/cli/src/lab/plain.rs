//! One line for each thing that happens, for logs.

use std::io::Write;

use linerate_report::units;
use linerate_runner::Event;

use super::words;

/// Writes lines to stderr.
#[derive(Default)]
pub struct Plain {
    cell: String,
}

impl Plain {
    /// Writes the line of an event.
    pub fn see(&mut self, event: &Event<'_>) {
        if let Some(line) = self.line(event) {
            // Nobody reads: the measurement goes on.
            let _ = writeln!(std::io::stderr(), "{line}");
        }
    }

    fn line(&mut self, event: &Event<'_>) -> Option<String> {
        match event {
            Event::Begin { findings, found: 0, left_ns } => {
                Some(format!("{findings} findings to make, about {}", words::span(*left_ns)))
            }
            Event::Begin { findings, found, left_ns } => Some(format!(
                "going on: {found} of {findings} findings are there, about {} left",
                words::span(*left_ns)
            )),
            Event::Cell { number, cells, id } => {
                self.cell = (*id).to_owned();
                Some(format!("cell {number} of {cells}: {id}"))
            }
            Event::Phase(phase) => Some(format!("  {}", words::printable(phase))),
            Event::Trial { .. } => None,
            Event::Trialled(trial) => {
                let name = trial.trial.name.strip_prefix(&format!("{}: ", self.cell)).unwrap_or(&trial.trial.name);
                let load = units::pps(trial.trial.load_pps);
                Some(format!("  {name}, {load}: {}", words::trial(trial)))
            }
            Event::Again(trial) => Some(format!("  {}", words::not_used(trial))),
            Event::Found { finding, left_ns, .. } => {
                Some(format!("  => {}; about {} left", words::finding(finding), words::span(*left_ns)))
            }
            Event::Warning(warning) => Some(format!("warning: {}", words::printable(warning))),
        }
    }
}
