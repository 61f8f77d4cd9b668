//! From a word of the command line to a plan: a path, or the name of a shipped experiment.

use std::path::Path;

use linerate_experiment::{Experiment, Search, TEXT_LEN_MAX, TestKind};
use linerate_testbed::dut::parse;

use super::shipped;

/// A plan and the text that it was read from.
pub struct Plan {
    /// What to measure.
    pub experiment: Experiment,
    /// The file, whole, with what the command line changed as a comment at its end: a run is resumed with the same text only.
    pub text: String,
    /// Whether the file is one of the shipped ones, to the letter.
    pub is_shipped: bool,
}

/// What the command line changes.
#[derive(Debug, Default)]
pub struct Changes {
    /// Repetitions of each test.
    pub repetitions: Option<u32>,
    /// Length of every trial.
    pub trial_ns: Option<u64>,
    /// Cells left in.
    pub only: Option<String>,
}

/// Reads and checks the experiment that `word` names.
///
/// # Errors
/// What is wrong, with the lines of the file.
pub fn plan(word: &str, changes: &Changes) -> Result<Plan, String> {
    let (text, name) = read(word)?;
    let mut experiment = parse(&text, &name).map_err(|errors| errors.to_string())?;
    if let Some(repetitions) = changes.repetitions {
        (experiment.repetitions, experiment.cell_time_ns) = (repetitions, None);
    }
    if let Some(trial_ns) = changes.trial_ns {
        shorten_all(&mut experiment, trial_ns);
    }
    let is_shipped = shipped::SHIPPED.iter().any(|(_, known)| *known == text);
    Ok(Plan { text: text + &changes.as_comment(), experiment, is_shipped })
}

/// The text that `word` names, and what to call it. A file goes before a shipped experiment.
///
/// # Errors
/// There is neither; or the file cannot be read.
pub fn read(word: &str) -> Result<(String, String), String> {
    let path = Path::new(word);
    if !path.exists() {
        let known = shipped::text(word).map(|text| (text.to_owned(), format!("{word}.toml (shipped)")));
        let names: Vec<&str> = shipped::SHIPPED.iter().map(|(name, _)| *name).collect();
        return known.ok_or_else(|| {
            format!("{word}: there is no such file, and no shipped experiment of that name ({})", names.join(", "))
        });
    }
    let length = std::fs::metadata(path).map_err(|error| format!("{word}: {error}"))?.len();
    if length > TEXT_LEN_MAX as u64 {
        return Err(format!("{word}: {length} bytes; an experiment file has at most {TEXT_LEN_MAX}"));
    }
    let text = std::fs::read_to_string(path).map_err(|error| format!("{word}: {error}"))?;
    Ok((text, word.to_owned()))
}

/// Every trial of every test is this long.
pub fn shorten_all(experiment: &mut Experiment, trial_ns: u64) {
    experiment.tests.iter_mut().for_each(|test| shorten(&mut test.kind, &mut test.trial_ns, trial_ns));
}

/// All trials of a test are this long, those of its goals too; their sums keep their number of trials.
fn shorten(kind: &mut TestKind, of_test_ns: &mut u64, trial_ns: u64) {
    *of_test_ns = trial_ns;
    if let TestKind::Throughput { search: Search::Mlr { goals }, .. } = kind {
        for goal in goals {
            let trials = (goal.duration_sum_ns / goal.final_trial_ns.max(1)).max(1);
            goal.initial_trial_ns = trial_ns.min(goal.initial_trial_ns);
            goal.final_trial_ns = trial_ns;
            goal.duration_sum_ns = trial_ns.saturating_mul(trials);
        }
    }
    if let TestKind::BackToBack { burst_max_ns, .. } = kind {
        *burst_max_ns = trial_ns;
    }
}

impl Changes {
    fn as_comment(&self) -> String {
        let words = [
            self.repetitions.map(|repetitions| format!(" --repetitions {repetitions}")),
            self.trial_ns.map(|trial_ns| format!(" --trial {}", linerate_units::show::nanoseconds(trial_ns as f64))),
            self.only.as_ref().map(|only| format!(" --only {}", only.escape_default())),
        ];
        let words: String = words.into_iter().flatten().collect();
        if words.is_empty() { words } else { format!("\n# linerate lab run{words}\n") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_experiment_is_a_plan() {
        for (name, _) in shipped::SHIPPED {
            let plan = plan(name, &Changes::default()).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(plan.experiment.name, name, "a run's folder is named as the experiment is asked for");
            assert!(!plan.experiment.cells().is_empty());
        }
    }

    #[test]
    fn changes_are_kept_with_the_text() {
        let changes = Changes { repetitions: Some(3), trial_ns: Some(50_000_000), only: Some("a\nb".into()) };
        let plan = plan("quick", &changes).unwrap_or_else(|error| panic!("{error}"));
        assert!(
            plan.text.ends_with("\n# linerate lab run --repetitions 3 --trial 50.0 ms --only a\\nb\n"),
            "{}",
            plan.text
        );
        assert_eq!(plan.experiment.repetitions, 3);
        assert!(plan.experiment.tests.iter().all(|test| test.trial_ns == 50_000_000));
        assert!(parse(&plan.text, "again").is_ok(), "still the same file");
    }

    #[test]
    fn what_is_not_there_is_told_with_what_is() {
        let error = read("no-such-experiment").expect_err("not there");
        assert!(error.contains("quick") && error.contains("linux-router-2019"), "{error}");
    }
}
