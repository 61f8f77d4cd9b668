//! The output of `cargo test -- --show-output`: what failed is shown, what passed is counted, and tests that could not run on
//! this machine - they say `skipped: WHY` and pass - are listed.
//!
//! Many tests drive the real kernel with real deadlines, on machines that others use at the same time. One that fails beside the rest
//! is run again by itself, [`ALONE_RUNS`] times: passing each time it is *unsteady*, which the summary names and does not count as
//! passed; else, or when more than [`UNSTEADY_MAX`] failed, the step fails.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};

use super::Outcome;

/// How often a test that failed beside others has to pass by itself.
pub const ALONE_RUNS: u32 = 3;
/// Tests that may be unsteady in a run; more are no accident.
const UNSTEADY_MAX: usize = 2;

/// What came of the tests.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct TestRun {
    passed: u64,
    failed: u64,
    ignored: u64,
    /// Tests that could not run here, with their reasons.
    pub skipped: Vec<String>,
    /// Names of tests that failed.
    failures: Vec<String>,
    /// Of these, those that passed by themselves.
    unsteady: Vec<String>,
    succeeded: bool,
    /// Inside the output of tests that passed.
    in_successes: bool,
    current: String,
}

impl TestRun {
    /// Runs `cargo test`, shows what is of interest as it comes, and keeps the counts.
    pub fn watch(command: &mut Command) -> Result<TestRun> {
        let mut child = command.stdout(Stdio::piped()).spawn().context("running cargo test")?;
        let output = child.stdout.take().context("cargo test has no output")?;
        let mut run = TestRun::default();
        for line in BufReader::new(output).split(b'\n') {
            let line = line.context("reading the output of cargo test")?;
            let line = String::from_utf8_lossy(&line);
            if run.take(&line) {
                println!("{line}");
            }
        }
        run.succeeded = child.wait().context("waiting for cargo test")?.success();
        Ok(run)
    }

    /// Takes note of a line; true when it is to be shown.
    fn take(&mut self, line: &str) -> bool {
        if let Some(counts) = line.strip_prefix("test result: ") {
            self.in_successes = false;
            self.count(counts);
            return !counts.contains(" 0 passed; 0 failed; 0 ignored");
        }
        let result = line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED"));
        if let (false, Some(name)) = (self.in_successes, result) {
            self.failures.push(name.into());
        }
        match line {
            "successes:" => self.in_successes = true,
            "failures:" => self.in_successes = false,
            _ => {}
        }
        if self.in_successes {
            if let Some(name) = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----")) {
                self.current = name.into();
            }
            if let Some(why) = line.trim_start().strip_prefix("skipped: ") {
                self.skipped.push(format!("{}: {why}", self.current));
            }
            return false;
        }
        let is_noise = line.is_empty() || line.starts_with("running ") || line.ends_with(" ... ok");
        !is_noise
    }

    /// Adds "ok. 3 passed; 0 failed; 1 ignored; ...".
    fn count(&mut self, counts: &str) {
        for part in counts.split([';', '.']) {
            let mut words = part.split_whitespace();
            let (Some(Ok(number)), Some(word)) = (words.next().map(str::parse::<u64>), words.next()) else { continue };
            match word {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.ignored += number,
                _ => {}
            }
        }
    }

    /// Names of the tests that failed, if they are so few that it may be chance: worth a run by themselves.
    pub fn to_repeat(&self) -> &[String] {
        let all_known = self.failures.len() as u64 == self.failed;
        if all_known && self.failures.len() <= UNSTEADY_MAX { &self.failures } else { &[] }
    }

    /// Takes note of a run of the tests in [`TestRun::to_repeat`] alone; false when they have failed for good.
    pub fn repeated(&mut self, alone: &TestRun) -> bool {
        let passed = alone.succeeded && alone.failed == 0 && alone.passed >= self.failed && alone.skipped.is_empty();
        self.unsteady = if passed { self.failures.clone() } else { Vec::new() };
        passed
    }

    /// The step's outcome.
    pub fn outcome(&self) -> Outcome {
        let TestRun { passed, failed, ignored, skipped, unsteady, .. } = self;
        if *failed > unsteady.len() as u64 {
            return Outcome::Failed(format!("{failed} tests failed, {passed} passed"));
        }
        if !self.succeeded && unsteady.is_empty() {
            return Outcome::Failed(format!(
                "cargo test failed beside its tests: did everything build? {passed} passed"
            ));
        }
        // A test that says twice that it skips something is one test.
        let mut names: Vec<&str> = skipped.iter().filter_map(|line| line.split(": ").next()).collect();
        names.dedup();
        let skipped = names.len() as u64;
        let mut text =
            format!("{} tests passed, {skipped} could not run here, {ignored} ignored", passed - skipped.min(*passed));
        if !unsteady.is_empty() {
            let names = unsteady.join(", ");
            text += &format!(
                "; {} UNSTEADY: {names} (failed beside the others, passed {ALONE_RUNS} times alone)",
                unsteady.len()
            );
        }
        Outcome::Passed(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "running 3 tests
test a ... ok
test b ... ok
test c ... FAILED

successes:

---- a stdout ----
skipped: no network namespaces here: Operation not permitted
chatter

---- b stdout ----
more chatter

successes:
    a
    b

failures:

---- c stdout ----
thread 'c' panicked at src/lib.rs:1:1:
skipped: not a skip but a failure's words

failures:
    c

test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 7 filtered out; finished in 0.00s

running 0 tests

test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
";

    fn read(output: &str) -> (TestRun, Vec<&str>) {
        let mut run = TestRun { succeeded: true, ..TestRun::default() };
        let shown = output.lines().filter(|line| run.take(line)).collect();
        (run, shown)
    }

    #[test]
    fn skips_are_collected_and_failures_shown() {
        let (run, shown) = read(OUTPUT);
        assert_eq!((run.passed, run.failed, run.ignored), (2, 1, 0));
        assert_eq!(run.skipped, ["a: no network namespaces here: Operation not permitted"]);
        assert!(shown.contains(&"test c ... FAILED") && shown.contains(&"thread 'c' panicked at src/lib.rs:1:1:"));
        assert!(!shown.iter().any(|line| line.contains("chatter") || line.contains("0 passed")), "{shown:?}");
    }

    #[test]
    fn a_failed_test_or_command_fails_the_step() {
        let (mut run, _) = read(OUTPUT);
        assert!(matches!(run.outcome(), Outcome::Failed(_)));
        run.failed = 0;
        assert_eq!(run.outcome(), Outcome::Passed("1 tests passed, 1 could not run here, 0 ignored".into()));
        run.succeeded = false;
        assert!(matches!(run.outcome(), Outcome::Failed(_)));
    }

    #[test]
    fn a_test_that_fails_beside_others_is_unsteady_only_if_it_passes_alone() {
        let alone = |output: &str, succeeded| TestRun { succeeded, ..read(output).0 };
        let passes = alone(
            "test c ... ok\n\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 9 filtered out\n",
            true,
        );
        let fails =
            alone("test c ... FAILED\n\ntest result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured\n", false);
        let not_found = alone("test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 10 filtered out\n", true);
        let (mut run, _) = read(OUTPUT);
        run.succeeded = false;
        assert_eq!(run.to_repeat(), ["c"]);
        for other in [fails, not_found] {
            assert!(!run.repeated(&other) && matches!(run.outcome(), Outcome::Failed(_)));
        }
        assert!(run.repeated(&passes));
        let Outcome::Passed(text) = run.outcome() else { panic!("{:?}", run.outcome()) };
        assert!(text.starts_with("1 tests passed") && text.contains("1 UNSTEADY: c (failed"), "{text}");
        run.failures = ["c", "d", "e"].map(String::from).into();
        run.failed = 3;
        assert!(run.to_repeat().is_empty() && matches!(run.outcome(), Outcome::Failed(_)));
    }
}
