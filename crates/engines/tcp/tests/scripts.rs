//! The scenarios of `tests/scripts`, each against a stack of its own in virtual time. docs/tcp-scripts.md describes the language.

mod support;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use linerate_tcpscript::{Scenario, Script, run};
use support::ScriptSubject;
use support::subject::MAC;

/// Scenarios that there are at least, so that a run that finds fewer does not pass.
const SCENARIOS_LEAST: usize = 319;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts")
}

/// The scripts, by file name.
fn scripts() -> Vec<(String, Script)> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let read = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let script =
            Script::parse(&fs::read_to_string(path).unwrap()).unwrap_or_else(|error| panic!("{name}: {error}"));
        (name, script)
    };
    paths.iter().filter(|path| path.extension().is_some_and(|end| end == "txt")).map(read).collect()
}

fn play(scenario: &Scenario) -> Result<(), String> {
    let mut subject = ScriptSubject::new(scenario)?;
    let played = catch_unwind(AssertUnwindSafe(|| run(scenario, &mut subject, MAC)));
    match played {
        Ok(outcome) => outcome.map_err(|failure| failure.to_string()),
        Err(panic) => {
            let words = panic.downcast_ref::<String>().map(String::as_str);
            let words = words.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a text");
            Err(format!("line {}, scenario {}: panic: {words}", scenario.line, scenario.name))
        }
    }
}

/// Every scenario, or those whose names contain `LINERATE_SCENARIO`.
#[test]
fn scenarios_hold() {
    let only = std::env::var("LINERATE_SCENARIO").ok();
    let (mut count, mut failures) = (0, Vec::new());
    for (file, script) in scripts() {
        for scenario in &script.scenarios {
            if only.as_ref().is_some_and(|only| !scenario.name.contains(only.as_str())) {
                continue;
            }
            count += 1;
            if let Err(failure) = play(scenario) {
                failures.push(format!("{file}: {failure}"));
            }
        }
    }
    assert!(failures.is_empty(), "{} of {count} scenarios failed:\n{}", failures.len(), failures.join("\n"));
    assert!(only.is_some() || count >= SCENARIOS_LEAST, "{count} scenarios; there are {SCENARIOS_LEAST} at least");
}

#[test]
fn names_are_unique_in_all_files() {
    let mut names: Vec<String> =
        scripts().iter().flat_map(|(_, script)| &script.scenarios).map(|scenario| scenario.name.clone()).collect();
    names.sort();
    let twice: Vec<&[String]> = names.windows(2).filter(|pair| pair[0] == pair[1]).collect();
    assert!(twice.is_empty(), "names that two scenarios have: {twice:?}");
}
