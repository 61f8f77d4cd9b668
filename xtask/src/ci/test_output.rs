//! The output of `cargo test -- --show-output`, with cargo's own lines in it: what failed is shown, what passed is counted, and tests
//! that could not run on this machine are listed. Those say `skipped: WHY` or `skipped in part: WHY`, and pass.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result};

use super::process;

/// A test that said that it was skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skip {
    /// The test's name; that of the binary where tests have no names.
    pub test: String,
    /// What it said.
    pub why: String,
    /// The test ran, but for a part of it.
    pub in_part: bool,
}

/// What came of the tests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TestOutput {
    /// Tests that passed; those that were skipped are among them.
    pub passed: u64,
    /// Tests that failed.
    pub failed: u64,
    /// Tests that are marked so.
    pub ignored: u64,
    /// What could not run here.
    pub skipped: Vec<Skip>,
    /// Names of tests that failed.
    pub failures: Vec<String>,
    /// Binaries that ended otherwise than by passed and failed tests, and how.
    pub broken: Vec<String>,
    /// Cargo's exit status was 0.
    pub succeeded: bool,
    /// How cargo ended.
    pub how: String,
}

/// A run whose output is being read.
#[derive(Default)]
struct Reader {
    output: TestOutput,
    binary: Binary,
    part: Part,
    /// The test whose output this is.
    current: String,
}

/// The test binary that runs.
#[derive(Default)]
struct Binary {
    name: String,
    /// Rounds of tests that began, less those that ended. A test may start its own binary, whose output comes in between.
    open: i64,
    /// One of its tests failed.
    failed: bool,
    /// It is among the broken ones.
    broken: bool,
}

/// What a line is part of.
#[derive(Default, PartialEq, Eq)]
enum Part {
    #[default]
    Progress,
    /// The output of tests that passed; in it that of so many rounds of tests, which a test started and printed.
    Successes { nested: u64 },
    /// The output of tests that failed.
    Failures,
}

impl TestOutput {
    /// Runs `cargo test`, shows what is of interest as it comes, and keeps the counts.
    pub fn watch(command: &mut Command, deadline: Instant) -> Result<TestOutput> {
        Self::read(command, deadline, |line| println!("{line}"))
    }

    /// Runs `cargo test`, gives the lines that are of interest as they come, and keeps the counts.
    fn read(command: &mut Command, deadline: Instant, mut show: impl FnMut(&str)) -> Result<TestOutput> {
        let mut reader = Reader::default();
        let ended = process::watch(command, deadline, |line| reader.take_and_show(line, &mut show));
        let ended = ended.context("running cargo test")?;
        reader.end_binary();
        Ok(TestOutput { succeeded: ended.succeeded, how: ended.how, ..reader.output })
    }

    /// That of several runs together.
    pub fn all(runs: Vec<TestOutput>) -> TestOutput {
        let mut all = TestOutput { succeeded: true, ..TestOutput::default() };
        for run in runs {
            all.passed += run.passed;
            all.failed += run.failed;
            all.ignored += run.ignored;
            all.skipped.extend(run.skipped);
            all.failures.extend(run.failures);
            all.broken.extend(run.broken);
            if !run.succeeded {
                (all.succeeded, all.how) = (false, run.how);
            }
        }
        all
    }

    /// The same of the output of a run that has succeeded.
    pub fn of_log(log: &Path) -> Result<TestOutput> {
        let text = fs::read_to_string(log).with_context(|| format!("reading {}", log.display()))?;
        let mut reader = Reader::default();
        text.lines().for_each(|line| reader.take_and_show(line, |line| println!("{line}")));
        reader.end_binary();
        Ok(TestOutput { succeeded: true, ..reader.output })
    }
}

impl Reader {
    /// Takes note of a line, and gives it to `show` when it is of interest.
    fn take_and_show(&mut self, line: &str, mut show: impl FnMut(&str)) {
        if self.take(line) {
            // Which binary took how long.
            let is_result = line.starts_with("test result: ");
            show(&if is_result { format!("{}: {line}", self.binary.name) } else { line.to_owned() });
        }
    }

    /// Takes note of a line; true when it is to be shown.
    fn take(&mut self, line: &str) -> bool {
        if let Some(name) = binary_name(line) {
            self.end_binary();
            self.binary = Binary { name, ..Binary::default() };
            self.part = Part::Progress;
            return false;
        }
        if line.starts_with("error: test failed, to rerun") || line.starts_with("error: doctest failed, to rerun") {
            if !self.binary.failed {
                self.broken("failed, but none of its tests did");
            }
            return true;
        }
        if let Some((_, signal)) = line.split_once("(signal: ").filter(|_| line.contains("didn't exit successfully")) {
            // It says more than the line before, that the binary failed.
            if std::mem::take(&mut self.binary.broken) {
                self.output.broken.pop();
            }
            self.broken(&format!("died of signal {}", signal.trim_end_matches(')')));
            return true;
        }
        let begins = line.starts_with("running ") && (line.ends_with(" tests") || line.ends_with(" test"));
        match &mut self.part {
            Part::Successes { nested } if begins => *nested += 1,
            Part::Successes { nested } if *nested > 0 && line.starts_with("test result: ") => *nested -= 1,
            Part::Successes { .. } if !line.starts_with("test result: ") && line != "failures:" => {
                self.take_success(line)
            }
            _ => return self.take_progress(line, begins),
        }
        false
    }

    /// A line outside of the output of tests that passed.
    fn take_progress(&mut self, line: &str, begins: bool) -> bool {
        self.binary.open += i64::from(begins);
        if let Some(counts) = line.strip_prefix("test result: ") {
            self.part = Part::Progress;
            self.binary.open -= 1;
            self.binary.failed |= counts.starts_with("FAILED");
            self.count(counts);
            return !counts.contains(" 0 passed; 0 failed; 0 ignored");
        }
        match line {
            "successes:" => {
                self.part = Part::Successes { nested: 0 };
                return false;
            }
            "failures:" => self.part = Part::Failures,
            _ => {}
        }
        if let Some(name) = line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED")) {
            self.output.failures.push(name.into());
        }
        // A binary whose tests have no names writes as it goes.
        if self.part == Part::Progress {
            self.current.clone_from(&self.binary.name);
            self.take_skip(line);
        }
        let is_noise = line.is_empty() || begins || line.ends_with(" ... ok");
        !is_noise
    }

    fn take_success(&mut self, line: &str) {
        if let Some(name) = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----")) {
            self.current = name.into();
        }
        self.take_skip(line);
    }

    fn take_skip(&mut self, line: &str) {
        let line = line.trim_start();
        let (in_part, why) = match (line.strip_prefix("skipped: "), line.strip_prefix("skipped in part: ")) {
            (Some(why), _) => (false, why),
            (_, Some(why)) => (true, why),
            _ => return,
        };
        let skip = Skip { test: self.current.clone(), why: why.trim_end().into(), in_part };
        if !self.output.skipped.contains(&skip) {
            self.output.skipped.push(skip);
        }
    }

    /// A binary that began its tests and said nothing of how they ended did not live to say it.
    fn end_binary(&mut self) {
        if self.binary.open > 0 {
            self.broken("ended before its tests did");
        }
        self.binary = Binary::default();
    }

    fn broken(&mut self, how: &str) {
        if !self.binary.broken {
            self.output.broken.push(format!("{} {how}", self.binary.name));
        }
        self.binary.broken = true;
    }

    /// Adds "ok. 3 passed; 0 failed; 1 ignored; ...".
    fn count(&mut self, counts: &str) {
        for part in counts.split([';', '.']) {
            let mut words = part.split_whitespace();
            let (Some(Ok(number)), Some(word)) = (words.next().map(str::parse::<u64>), words.next()) else { continue };
            match word {
                "passed" => self.output.passed += number,
                "failed" => self.output.failed += number,
                "ignored" => self.output.ignored += number,
                _ => {}
            }
        }
    }
}

/// The name in cargo's line before a binary runs: `killed` of `     Running tests/killed.rs (target/debug/deps/killed-0123456789abcdef)`.
fn binary_name(line: &str) -> Option<String> {
    if let Some(name) = line.strip_prefix("   Doc-tests ") {
        return Some(format!("doc-tests of {name}"));
    }
    let file = line.strip_prefix("     Running ")?.strip_suffix(')')?.rsplit_once("/deps/")?.1;
    Some(file.rsplit_once('-').map_or(file, |(name, _)| name).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a crate whose binary `steady` has tests that pass, fail and are skipped, and `empty` none.
    const OUTPUT: &str = "   Compiling steady v0.1.0
     Running tests/steady.rs (target/debug/deps/steady-0123456789abcdef)

running 4 tests
test a ... ok
test b ... ok
test d ... ok
test c ... FAILED

successes:

---- a stdout ----
skipped: no network namespaces here: Operation not permitted
chatter

---- b stdout ----
running 1 test
test a ... ok
test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 7 filtered out; finished in 0.00s
more chatter

---- d stdout ----
skipped in part: tshark is not installed
skipped in part: tshark is not installed

successes:
    a
    b
    d

failures:

---- c stdout ----
thread 'c' panicked at src/lib.rs:1:1:
skipped: not a skip but a failure's words

failures:
    c

test result: FAILED. 3 passed; 1 failed; 0 ignored; 0 measured; 7 filtered out; finished in 0.00s

error: test failed, to rerun pass `-p steady --test steady`
     Running unittests src/main.rs (target/debug/deps/empty-0123456789abcdef)

running 0 tests

test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s

";

    fn read(output: &str) -> (TestOutput, Vec<&str>) {
        let mut reader = Reader::default();
        let shown = output.lines().filter(|line| reader.take(line)).collect();
        reader.end_binary();
        (reader.output, shown)
    }

    #[test]
    fn skips_are_collected_and_failures_shown() {
        let (run, shown) = read(OUTPUT);
        assert_eq!((run.passed, run.failed, run.ignored), (3, 1, 0));
        assert_eq!((&run.failures, &run.broken), (&vec!["c".to_owned()], &Vec::new()));
        let skip = |test: &str, why: &str, in_part| Skip { test: test.into(), why: why.into(), in_part };
        let whole = skip("a", "no network namespaces here: Operation not permitted", false);
        assert_eq!(run.skipped, [whole, skip("d", "tshark is not installed", true)]);
        assert!(shown.contains(&"test c ... FAILED") && shown.contains(&"thread 'c' panicked at src/lib.rs:1:1:"));
        assert!(!shown.iter().any(|line| line.contains("chatter") || line.contains("0 passed")), "{shown:?}");
    }

    #[test]
    fn runs_add_up_and_one_that_failed_fails_all() {
        let (one, _) = read(OUTPUT);
        let one = TestOutput { how: "exit status: 101".into(), ..one };
        let other = TestOutput { passed: 4, succeeded: true, ..TestOutput::default() };
        for runs in [[one.clone(), other.clone()], [other.clone(), one.clone()]] {
            let all = TestOutput::all(runs.into());
            assert_eq!((all.passed, all.failed, &all.failures), (7, 1, &vec!["c".to_owned()]));
            assert_eq!((all.succeeded, &*all.how, all.skipped.len()), (false, "exit status: 101", 2));
        }
        assert!(TestOutput::all(vec![other.clone(), other]).succeeded);
    }

    #[test]
    fn a_binary_without_names_of_tests_is_skipped_by_its_own() {
        let (run, shown) = read("     Running tests/killed.rs (/a/deps/killed-01)\nskipped: no namespace\n");
        let skip = Skip { test: "killed".into(), why: "no namespace".into(), in_part: false };
        assert_eq!((run.skipped, run.broken.len()), (vec![skip], 0));
        assert_eq!(shown, ["skipped: no namespace"]);
    }

    #[test]
    fn a_binary_that_dies_is_told_of_its_failed_tests() {
        let died = "     Running tests/x.rs (target/debug/deps/x-01)

running 2 tests
test a ... ok
error: test failed, to rerun pass `-p x --test x`

Caused by:
  process didn't exit successfully: `/target/debug/deps/x-01 --show-output` (signal: 11, SIGSEGV: invalid memory reference)
";
        let (run, _) = read(died);
        assert_eq!(run.broken, ["x died of signal 11, SIGSEGV: invalid memory reference"]);
        let (run, _) = read(&format!("{OUTPUT}{died}     Running tests/y.rs (target/debug/deps/y-01)\n"));
        assert_eq!(run.broken, ["x died of signal 11, SIGSEGV: invalid memory reference"]);
    }

    #[test]
    fn a_binary_that_ends_early_or_fails_without_a_test_is_broken_whatever_cargo_says() {
        let left = "     Running tests/x.rs (target/debug/deps/x-01)\n\nrunning 2 tests\ntest a ... ok\n";
        assert_eq!(read(left).0.broken, ["x ended before its tests did"]);
        let early = format!("{left}{OUTPUT}");
        assert_eq!(read(&early).0.broken, ["x ended before its tests did"]);
        let without =
            "     Running tests/x.rs (target/debug/deps/x-01)\nno\nerror: test failed, to rerun pass `--test x`\n";
        assert_eq!(read(without).0.broken, ["x failed, but none of its tests did"]);
    }

    /// A crate whose tests pass, fail, are skipped and die, as cargo itself tells of it.
    #[test]
    fn cargos_own_words_are_understood() {
        let folder = std::env::temp_dir().join(format!("xtask-{}-crate", std::process::id()));
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write(
            "Cargo.toml",
            "[package]\nname = \"made-up\"\nedition = \"2024\"\n[workspace]\n[[test]]\nname = \"plain\"\nharness = false\n",
        );
        write("src/lib.rs", "/// ```\n/// assert!(true);\n/// ```\npub fn nothing() {}\n");
        write("tests/dies.rs", "#[test] fn lives() {}\n#[test] fn dies() { std::process::abort() }\n");
        write("tests/leaves.rs", "#[test] fn leaves() { std::process::exit(0) }\n");
        write(
            "tests/mixed.rs",
            "#[test] fn skips() { eprintln!(\"skipped: a reason\") }\n#[test] fn fails() { panic!() }\n",
        );
        write(
            "tests/plain.rs",
            "fn main() { eprintln!(\"skipped in part: another reason\"); std::process::exit(3) }\n",
        );
        let mut command = Command::new("cargo");
        command.args(["test", "--offline", "--no-fail-fast", "--", "--show-output"]).current_dir(&folder);
        command.env("CARGO_TARGET_DIR", folder.join("target"));
        // Not shown: whoever reads the output of this test would take it for its own.
        let run = TestOutput::read(&mut command, Instant::now() + std::time::Duration::from_secs(300), |_| {}).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(!run.succeeded && run.how == "exit status: 101", "{run:?}");
        assert_eq!((run.passed, run.failed, &run.failures), (2, 1, &vec!["fails".to_owned()]), "{run:?}");
        let skips: Vec<(&str, bool)> = run.skipped.iter().map(|skip| (skip.test.as_str(), skip.in_part)).collect();
        assert_eq!(skips, [("skips", false), ("plain", true)]);
        let died = "dies died of signal 6, SIGABRT: process abort signal";
        assert_eq!(run.broken, [died, "leaves ended before its tests did", "plain failed, but none of its tests did"]);
    }
}
