//! `cargo xtask ci`: every check that there is, one after the other; a failure does not stop the rest. The last line sums up.
//!
//! ```text
//! steps.rs        the steps
//! tools.rs        what a step needs and a machine may lack
//! test_output.rs  the output of `cargo test`, read for tests that could not run here
//! ```

mod steps;
mod test_output;
mod tools;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use steps::STEPS;

/// What the steps work with.
pub struct Context {
    /// The workspace.
    root: PathBuf,
    /// Where cargo puts what it builds.
    target: PathBuf,
}

/// How a step ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All is well; a few words.
    Passed(String),
    /// Something is wrong, which the output above says.
    Failed(String),
    /// The step cannot run here; why, and what to do.
    Skipped(String),
}

/// One check.
pub struct Step {
    name: &'static str,
    about: &'static str,
    run: fn(&Context) -> Result<Outcome>,
}

/// Prints the steps.
pub fn list() {
    for step in STEPS {
        println!("{:<8} {}", step.name, step.about);
    }
}

/// Runs all steps, or those named; true when none failed.
pub fn run(root: &Path, names: &[&str]) -> Result<bool> {
    let steps = chosen(names)?;
    let metadata =
        cargo_metadata::MetadataCommand::new().current_dir(root).no_deps().exec().context("cargo metadata")?;
    let context = Context { root: root.to_path_buf(), target: metadata.target_directory.into() };
    let mut done = Vec::new();
    for step in steps {
        println!("\n== {}: {}", step.name, step.about);
        let start = Instant::now();
        let outcome = (step.run)(&context).unwrap_or_else(|error| Outcome::Failed(format!("{error:#}")));
        if let Outcome::Skipped(why) = &outcome {
            println!("skipped: {why}");
        }
        done.push((step.name, outcome, start.elapsed()));
    }
    println!("\n{}", summary(&done));
    Ok(!done.iter().any(|(_, outcome, _)| matches!(outcome, Outcome::Failed(_))))
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

/// A line for each step, and one for all of them.
fn summary(done: &[(&'static str, Outcome, Duration)]) -> String {
    let mut counts = [0; 3];
    let mut lines = Vec::new();
    for (name, outcome, time) in done {
        let (kind, word, text) = match outcome {
            Outcome::Passed(text) => (0, "passed", text),
            Outcome::Failed(text) => (1, "FAILED", text),
            Outcome::Skipped(text) => (2, "skipped", text),
        };
        counts[kind] += 1;
        lines.push(format!("{name:<8} {word:<8} {:>5.0} s  {text}", time.as_secs_f64()).trim_end().to_string());
    }
    lines.push(format!("{} passed, {} failed, {} skipped", counts[0], counts[1], counts[2]));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_counts_every_step() {
        let time = Duration::from_secs(2);
        let done = [
            ("fmt", Outcome::Passed(String::new()), time),
            ("test", Outcome::Failed("3 tests".into()), time),
            ("miri", Outcome::Skipped("no nightly".into()), time),
            ("doc", Outcome::Passed(String::new()), time),
        ];
        let text = summary(&done);
        assert_eq!(text.lines().last(), Some("2 passed, 1 failed, 1 skipped"));
        assert!(text.contains("miri     skipped      2 s  no nightly"), "{text}");
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
        let context = Context { root: root.into(), target: root.join("target") };
        assert!(
            tools::outcome_of(&mut context.cargo(["no-such-command"]))
                .is_ok_and(|outcome| matches!(outcome, Outcome::Failed(_)))
        );
        assert!(matches!(tools::outcome_of(&mut context.cargo(["--version"])), Ok(Outcome::Passed(_))));
        let log = std::env::temp_dir().join(format!("xtask-{}.log", std::process::id()));
        let failed = tools::outcome_logged(&mut context.cargo(["no-such-command"]), &log);
        let said = std::fs::read_to_string(&log).unwrap();
        std::fs::remove_file(&log).unwrap();
        assert!(failed.is_ok_and(|outcome| matches!(outcome, Outcome::Failed(_))) && said.contains("no-such-command"));
    }
}
