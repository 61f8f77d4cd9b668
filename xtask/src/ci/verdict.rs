//! How a step with tests ended.
//!
//! Many tests drive the real kernel with real deadlines, on machines that others use at the same time. One that fails beside the rest
//! is run again by itself, [`ALONE_RUNS`] times. If it passes each time, it is *unsteady*: the last line of the run names it, and its
//! name goes into a list in the tree. If it is on that list already, or does not pass, or if more than [`UNSTEADY_MAX`] failed, the
//! step fails. So it does when a binary ended otherwise than by its tests, when fewer tests ran than there are, and when root was
//! kept from a test by anything that is not on the list of permitted skips.

use super::Outcome;
use super::lists::{Lists, SKIPS, UNSTEADY};
use super::test_output::{Skip, TestOutput};

/// How often a test that failed beside others has to pass by itself.
pub const ALONE_RUNS: u32 = 3;
/// Tests that may be unsteady in a run; more are no accident.
const UNSTEADY_MAX: usize = 2;

impl TestOutput {
    /// Names of the tests that failed, if they are so few that it may be chance: worth a run by themselves.
    pub fn to_repeat(&self) -> &[String] {
        let all_known = self.failures.len() as u64 == self.failed;
        let by_chance = all_known && self.failures.len() <= UNSTEADY_MAX && self.broken.is_empty();
        if by_chance { &self.failures } else { &[] }
    }

    /// Whether a run of the tests in [`TestOutput::to_repeat`] by themselves passed all of them.
    pub fn passes_alone(&self, alone: &TestOutput) -> bool {
        let ran = alone.passed >= self.failed && alone.skipped.is_empty();
        alone.succeeded && alone.failed == 0 && alone.broken.is_empty() && ran
    }

    /// The outcome of a step that ought to run so many tests. `steady_alone`: those that failed passed by themselves.
    pub fn outcome(&self, steady_alone: bool, least: u64, lists: &Lists) -> Outcome {
        let TestOutput { passed, failed, ignored, .. } = self;
        let ran = passed + failed;
        if !self.broken.is_empty() {
            return Outcome::Failed(format!("{}; {failed} tests failed, {passed} passed", self.broken.join("; ")));
        }
        if *failed > 0 && !steady_alone {
            return Outcome::Failed(format!("{failed} tests failed, {passed} passed: {}", self.failures.join(", ")));
        }
        if !self.succeeded && *failed == 0 {
            return Outcome::Failed(format!(
                "cargo test failed beside its tests ({}): did everything build? {passed} passed",
                self.how
            ));
        }
        if ran < least {
            return Outcome::Failed(format!("only {ran} tests ran; there are {least} at least"));
        }
        let forbidden = lists.not_permitted(&self.skipped);
        if lists.lenient.is_none() && !forbidden.is_empty() {
            let said: Vec<String> = forbidden.iter().map(|skip| format!("{}: {}", skip.test, skip.why)).collect();
            let text = format!("{} tests may not be skipped here, by {SKIPS}: {}", names(&forbidden), said.join("; "));
            return Outcome::Failed(text);
        }
        if let Some(again) = self.failures.iter().find(|test| lists.was_unsteady(test)) {
            return Outcome::Failed(format!("UNSTEADY again, which {UNSTEADY} knows: mend {again}"));
        }
        let (in_part, whole): (Vec<&Skip>, Vec<&Skip>) = self.skipped.iter().partition(|skip| skip.in_part);
        let (whole, in_part) = (names(&whole), names(&in_part));
        let mut text = format!(
            "{} tests passed, {whole} could not run here, {in_part} in part, {ignored} ignored",
            passed.saturating_sub(whole)
        );
        if let Some(why) = lists.lenient.as_ref().filter(|_| !forbidden.is_empty()) {
            text += &format!(" ({why}: {} not held against {SKIPS})", names(&forbidden));
        }
        if self.failures.is_empty() { Outcome::Passed(text) } else { Outcome::Unsteady(self.failures.clone(), text) }
    }
}

/// How many tests these are. A test that says twice that it skips something is one test.
fn names(skipped: &[&Skip]) -> u64 {
    let mut names: Vec<&str> = skipped.iter().map(|skip| skip.test.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two tests passed, of which one was skipped and one ran in part.
    fn run() -> TestOutput {
        let skip = |test: &str, in_part| Skip { test: test.into(), why: "tshark is not installed".into(), in_part };
        let skipped = vec![skip("a", false), skip("b", true), skip("b", true)];
        TestOutput { passed: 3, succeeded: true, skipped, ..TestOutput::default() }
    }

    fn with_failures(names: &[&str]) -> TestOutput {
        let failures: Vec<String> = names.iter().map(|name| name.to_string()).collect();
        TestOutput { failed: names.len() as u64, failures, succeeded: false, ..run() }
    }

    fn lists() -> Lists {
        Lists::of("*: is not installed\n", None, &["known"])
    }

    fn why(outcome: Outcome) -> String {
        let Outcome::Failed(text) = outcome else { panic!("{outcome:?}") };
        text
    }

    #[test]
    fn skips_are_counted_whole_and_in_part() {
        let passed = Outcome::Passed("2 tests passed, 1 could not run here, 1 in part, 0 ignored".into());
        assert_eq!(run().outcome(false, 3, &lists()), passed);
    }

    #[test]
    fn a_failed_test_or_command_fails_the_step() {
        assert!(why(with_failures(&["c"]).outcome(false, 0, &lists())).contains("1 tests failed, 3 passed: c"));
        let not_built = TestOutput { succeeded: false, how: "exit status: 101".into(), ..run() };
        assert!(why(not_built.outcome(false, 0, &lists())).contains("beside its tests (exit status: 101)"));
    }

    #[test]
    fn a_run_of_few_tests_does_not_pass() {
        assert_eq!(why(run().outcome(false, 4, &lists())), "only 3 tests ran; there are 4 at least");
    }

    #[test]
    fn a_skip_that_is_not_permitted_is_a_failure_for_root() {
        let lists = |lenient: Option<&str>| Lists::of("a: is not installed", lenient, &[]);
        let text = why(run().outcome(false, 0, &lists(None)));
        assert!(text.starts_with("1 tests may not be skipped") && text.contains("b: tshark is not"), "{text}");
        let Outcome::Passed(text) = run().outcome(false, 0, &lists(Some("not run as root"))) else { panic!() };
        assert!(text.ends_with("(not run as root: 1 not held against xtask/skips.txt)"), "{text}");
    }

    #[test]
    fn a_binary_that_died_is_a_failure_whatever_else_was_unsteady() {
        let run = TestOutput { broken: vec!["x died of signal 11".into()], ..with_failures(&["c"]) };
        assert_eq!(run.to_repeat().len(), 0);
        assert!(why(run.outcome(true, 0, &lists())).starts_with("x died of signal 11; 1 tests failed"));
    }

    #[test]
    fn a_test_that_fails_beside_others_is_unsteady_if_it_passes_alone_and_fails_when_it_comes_back() {
        let failed = with_failures(&["c"]);
        assert_eq!(failed.to_repeat(), ["c"]);
        let alone = TestOutput { passed: 1, succeeded: true, ..TestOutput::default() };
        assert!(failed.passes_alone(&alone));
        for other in [
            TestOutput { passed: 0, ..TestOutput { succeeded: true, ..TestOutput::default() } },
            TestOutput { failed: 1, succeeded: false, ..TestOutput::default() },
            TestOutput { passed: 1, succeeded: true, broken: vec!["x".into()], ..TestOutput::default() },
            TestOutput { skipped: run().skipped, ..TestOutput { passed: 1, succeeded: true, ..TestOutput::default() } },
        ] {
            assert!(!failed.passes_alone(&other), "{other:?}");
        }
        assert!(matches!(failed.outcome(true, 0, &lists()), Outcome::Unsteady(names, _) if names == ["c"]));
        assert!(why(with_failures(&["known"]).outcome(true, 0, &lists())).contains("UNSTEADY again"));
        assert!(with_failures(&["c", "d", "e"]).to_repeat().is_empty());
    }
}
