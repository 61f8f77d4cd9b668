//! What `linerate switch` shows while it runs: a line a second, for people or as JSON.

use std::io::{IsTerminal, Write};

use linerate_switch::document::Snapshot;
use linerate_units::show::{count, pps};

use crate::running::print_json;

/// How it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Nothing.
    Quiet,
    /// Lines for people, on stderr.
    Lines,
    /// A JSON document a line, on stdout.
    Json,
}

/// Shows a snapshot a second.
pub struct Progress {
    form: Form,
    terminal: bool,
    before: Snapshot,
    /// A line without its end is on the terminal.
    open_line: bool,
}

impl Progress {
    /// Nothing has been shown yet.
    pub fn new(form: Form) -> Progress {
        Progress { form, terminal: std::io::stderr().is_terminal(), before: Snapshot::default(), open_line: false }
    }

    /// Whether snapshots are of use.
    pub fn wanted(&self) -> bool {
        self.form != Form::Quiet
    }

    /// Shows one.
    pub fn show(&mut self, snapshot: Snapshot) {
        match self.form {
            Form::Quiet => {}
            Form::Json => print_json(&snapshot),
            // Without a terminal, seconds without packets are not worth a line.
            Form::Lines if !self.terminal && snapshot.totals == self.before.totals => {}
            Form::Lines => {
                let line = line(&snapshot, &self.before);
                let text = if self.terminal { format!("\r{line}\x1b[K") } else { format!("{line}\n") };
                let mut stderr = std::io::stderr().lock();
                // A closed stderr is no reason to stop.
                let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
                self.open_line = self.terminal;
            }
        }
        self.before = snapshot;
    }

    /// Ends the line on the terminal, so that another can follow.
    pub fn end_line(&mut self) {
        if std::mem::take(&mut self.open_line) {
            linerate_console::note("");
        }
    }
}

fn line(now: &Snapshot, before: &Snapshot) -> String {
    let span = (now.seconds - before.seconds).max(1e-3);
    let (totals, earlier) = (&now.totals, &before.totals);
    let rate = |now: u64, before: u64| pps(now.saturating_sub(before) as f64 / span);
    let lost: u64 = totals.drops.values().sum();
    format!(
        "{:5.1} s  {} ports  received {} ({})  sent {} ({})  lost {}  {} addresses",
        now.seconds,
        now.ports.len(),
        count(totals.received),
        rate(totals.received, earlier.received),
        count(totals.sent),
        rate(totals.sent, earlier.sent),
        count(lost),
        count(now.table.used),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_rates_of_the_last_second() {
        let snapshot = |seconds: f64, received: u64| {
            let mut snapshot = Snapshot { seconds, ..Snapshot::default() };
            snapshot.totals.received = received;
            snapshot.totals.sent = received;
            snapshot
        };
        assert_eq!(
            line(&snapshot(2.0, 3_000), &snapshot(1.0, 1_000)),
            "  2.0 s  0 ports  received 3,000 (2.000 kpps)  sent 3,000 (2.000 kpps)  lost 0  0 addresses"
        );
    }
}
