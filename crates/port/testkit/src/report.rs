//! The outcome of the suite, for people.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::Harness;
use crate::checks::{CHECKS, Check};
use crate::outcome::Outcome;

/// One check and its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Name of the check.
    pub check: &'static str,
    /// What it found.
    pub outcome: Outcome,
}

/// The outcome of every check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// [`Harness::name`].
    pub name: String,
    /// In the order in which they ran.
    pub lines: Vec<Line>,
}

impl Report {
    /// The checks that failed.
    pub fn failed(&self) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter(|line| matches!(line.outcome, Outcome::Failed(_)))
    }

    /// Outcome of one check.
    pub fn outcome(&self, check: &str) -> Option<&Outcome> {
        self.lines.iter().find(|line| line.check == check).map(|line| &line.outcome)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "conformance of {}:", self.name)?;
        for line in &self.lines {
            let (mark, text) = match &line.outcome {
                Outcome::Passed(text) => ("ok    ", text),
                Outcome::NotApplicable(text) => ("n/a   ", text),
                Outcome::Failed(text) => ("FAILED", text),
            };
            write!(out, "\n  {mark} {:<24} {text}", line.check)?;
        }
        Ok(())
    }
}

/// Runs every check, prints the report, and panics with it when one failed.
pub fn check_all(harness: &mut dyn Harness) -> Report {
    let report = run_all(harness);
    let failures = report.failed().count();
    assert!(failures == 0, "{failures} of {} checks failed\n{report}", report.lines.len());
    eprintln!("{report}");
    report
}

/// Runs every check and only reports.
pub fn run_all(harness: &mut dyn Harness) -> Report {
    let lines = CHECKS.iter().map(|(check, run)| Line { check, outcome: guarded(*run, harness) }).collect();
    Report { name: harness.name(), lines }
}

/// Runs one check; `None` when there is none of this name.
pub fn run_check(harness: &mut dyn Harness, name: &str) -> Option<Outcome> {
    let (_, run) = CHECKS.iter().find(|(check, _)| *check == name)?;
    Some(guarded(*run, harness))
}

/// A panic inside a port is a failure of the check during which it happened.
fn guarded(run: Check, harness: &mut dyn Harness) -> Outcome {
    match catch_unwind(AssertUnwindSafe(|| run(harness))) {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(message)) => Outcome::Failed(message),
        Err(panic) => Outcome::Failed(format!("panicked: {}", panic_text(&*panic))),
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a text")
}
