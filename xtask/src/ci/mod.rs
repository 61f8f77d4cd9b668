//! `cargo xtask ci`: every check that there is, one after the other; a failure does not stop the rest. The last line sums up.
//!
//! ```text
//! steps.rs        the steps
//! ahead.rs        builds and tests of later steps, made beside those before them
//! tools.rs        what a step needs and a machine may lack
//! process.rs      commands with a time limit
//! test_output.rs  the output of `cargo test`, read for what passed, failed, was skipped and died
//! verdict.rs      how a step with tests ended
//! lists.rs        the tests that may be skipped, and those that were unsteady before
//! ```

mod ahead;
mod lists;
mod process;
mod steps;
mod test_output;
mod tools;
mod verdict;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use ahead::Ahead;
use steps::{STEPS, begin_ahead};

/// What a step works with.
#[derive(Clone)]
pub struct Context {
    /// The workspace.
    root: PathBuf,
    /// Where cargo puts what it builds.
    target: PathBuf,
    /// When the step's commands are ended.
    deadline: Instant,
    /// Names of the steps that follow.
    later: Vec<&'static str>,
    /// What is done for them.
    ahead: Arc<Ahead>,
}

/// How a step ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All is well; a few words.
    Passed(String),
    /// These tests failed beside the others and passed by themselves, for the first time; all else is well.
    Unsteady(Vec<String>, String),
    /// Something is wrong, which the output above says.
    Failed(String),
    /// The step cannot run here; why, and what to do.
    Skipped(String),
}

/// One check.
pub struct Step {
    name: &'static str,
    about: &'static str,
    /// Minutes after which the step has failed. Several times what it takes on two cores, since machines are shared.
    limit_min: u64,
    run: fn(&Context) -> Result<Outcome>,
}

/// A step that was run.
struct Done {
    name: &'static str,
    outcome: Outcome,
    time: Duration,
}

/// Prints the steps.
pub fn list() {
    for step in STEPS {
        println!("{:<12} {} (at most {} min)", step.name, step.about, step.limit_min);
    }
}

/// Runs all steps, or those named; true when none failed.
pub fn run(root: &Path, names: &[&str]) -> Result<bool> {
    let steps = chosen(names)?;
    let mut metadata = cargo_metadata::MetadataCommand::new();
    let metadata = metadata.current_dir(root).no_deps().other_options(["--locked".to_owned()]).exec();
    let target = PathBuf::from(metadata.context("cargo metadata")?.target_directory);
    let (mut done, ahead) = (Vec::new(), Arc::<Ahead>::default());
    let context_of = |limit_min: u64, later: &[&Step]| Context {
        root: root.to_path_buf(),
        target: target.clone(),
        deadline: Instant::now() + Duration::from_secs(60 * limit_min),
        later: later.iter().map(|step| step.name).collect(),
        ahead: Arc::clone(&ahead),
    };
    begin_ahead(&context_of(steps.iter().map(|step| step.limit_min).sum(), &steps))?;
    for (number, step) in steps.iter().enumerate() {
        println!("\n== {}: {}", step.name, step.about);
        let start = Instant::now();
        let context = context_of(step.limit_min, &steps[number + 1..]);
        let outcome = (step.run)(&context).unwrap_or_else(|error| Outcome::Failed(format!("{error:#}")));
        let ended = Done { name: step.name, outcome, time: start.elapsed() };
        println!("{}", ended.line());
        done.push(ended);
    }
    ahead.end();
    println!("\n{}", summary(&done));
    Ok(!done.iter().any(|step| matches!(step.outcome, Outcome::Failed(_))))
}

fn chosen(names: &[&str]) -> Result<Vec<&'static Step>> {
    if names.is_empty() {
        return Ok(STEPS.iter().collect());
    }
    let find = |name: &&str| match STEPS.iter().find(|step| step.name == *name) {
        Some(step) => Ok(step),
        None => {
            bail!("no step {name}; there are {}", STEPS.iter().map(|step| step.name).collect::<Vec<_>>().join(", "))
        }
    };
    names.iter().map(find).collect()
}

impl Done {
    fn line(&self) -> String {
        let (word, text) = match &self.outcome {
            Outcome::Passed(text) => ("passed", text),
            Outcome::Unsteady(_, text) => ("UNSTEADY", text),
            Outcome::Failed(text) => ("FAILED", text),
            Outcome::Skipped(text) => ("skipped", text),
        };
        format!("{:<12} {word:<8} {:>7.1} s  {text}", self.name, self.time.as_secs_f64()).trim_end().to_string()
    }
}

/// A line for each step, and one for all of them.
fn summary(done: &[Done]) -> String {
    let mut lines: Vec<String> = done.iter().map(Done::line).collect();
    let count = |is: fn(&Outcome) -> bool| done.iter().filter(|step| is(&step.outcome)).count();
    let passed = count(|outcome| matches!(outcome, Outcome::Passed(_) | Outcome::Unsteady(..)));
    let failed = count(|outcome| matches!(outcome, Outcome::Failed(_)));
    let skipped = count(|outcome| matches!(outcome, Outcome::Skipped(_)));
    let minutes = done.iter().map(|step| step.time).sum::<Duration>().as_secs_f64() / 60.0;
    let mut last = format!("{passed} passed, {failed} failed, {skipped} skipped in {minutes:.1} min");
    let unsteady = done.iter().filter_map(|step| match &step.outcome {
        Outcome::Unsteady(names, _) => Some(names.join(", ")),
        _ => None,
    });
    let unsteady: Vec<String> = unsteady.collect();
    if !unsteady.is_empty() {
        last += &format!("; UNSTEADY: {}", unsteady.join(", "));
    }
    lines.push(last);
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_counts_every_step_and_names_what_was_unsteady() {
        let done = |name, outcome| Done { name, outcome, time: Duration::from_millis(2_040) };
        let mut all = vec![
            done("fmt", Outcome::Passed(String::new())),
            done("test", Outcome::Failed("3 tests".into())),
            done("miri", Outcome::Skipped("no nightly".into())),
            done("doc", Outcome::Passed(String::new())),
        ];
        let text = summary(&all);
        assert_eq!(text.lines().last(), Some("2 passed, 1 failed, 1 skipped in 0.1 min"));
        assert!(text.contains("miri         skipped      2.0 s  no nightly"), "{text}");
        all.push(done("loom", Outcome::Unsteady(vec!["x::a".into(), "b".into()], "9 tests passed".into())));
        let text = summary(&all);
        assert_eq!(text.lines().last(), Some("3 passed, 1 failed, 1 skipped in 0.2 min; UNSTEADY: x::a, b"));
    }

    #[test]
    fn steps_are_chosen_by_name_and_unknown_ones_refused() {
        let names: Vec<&str> = chosen(&["tidy", "fmt"]).unwrap().iter().map(|step| step.name).collect();
        assert_eq!(names, ["tidy", "fmt"]);
        assert_eq!(chosen(&[]).unwrap().len(), STEPS.len());
        assert!(chosen(&["nothing"]).err().unwrap().to_string().contains("no step nothing; there are fmt"));
    }

    #[test]
    fn a_failed_step_fails_the_run() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        let context = Context {
            root: root.into(),
            target: root.join("target"),
            deadline,
            later: Vec::new(),
            ahead: Arc::default(),
        };
        let is_failed = |outcome: Result<Outcome>| matches!(outcome, Ok(Outcome::Failed(_)));
        assert!(is_failed(context.outcome_of(&mut context.cargo(["no-such-command"]))));
        assert!(matches!(context.outcome_of(&mut context.cargo(["--version"])), Ok(Outcome::Passed(_))));
        let log = std::env::temp_dir().join(format!("xtask-{}.log", std::process::id()));
        let failed = context.outcome_logged(&mut context.cargo(["no-such-command"]), &log);
        let said = std::fs::read_to_string(&log).unwrap();
        std::fs::remove_file(&log).unwrap();
        assert!(is_failed(failed) && said.contains("no-such-command"));
        let late = Context { deadline: Instant::now(), ..context };
        assert!(is_failed(late.outcome_of(std::process::Command::new("sleep").arg("600"))));
    }
}
