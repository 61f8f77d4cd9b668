//! The steps, cheapest first.

use std::fs;

use anyhow::{Context as _, Result};

use super::test_output::{ALONE_RUNS, TestRun};
use super::tools::{component, is_installed, line_of, nightly, outcome_logged, outcome_of, works};
use super::{Context, Outcome, Step};

/// In the order in which they run.
pub const STEPS: &[Step] = &[
    Step { name: "fmt", about: "the sources are formatted", run: fmt },
    Step { name: "tidy", about: "the invariants of ARCHITECTURE.md hold", run: tidy },
    Step { name: "clippy", about: "no warnings, of the compiler or of clippy, in any target", run: clippy },
    Step { name: "test", about: "the tests; those that cannot run here say why", run: test },
    Step { name: "doc", about: "the documentation builds without warnings", run: doc },
    Step { name: "loom", about: "every interleaving of a short exchange over a ring", run: loom },
    Step { name: "miri", about: "rings and pools under the interpreter: no undefined behaviour", run: miri },
    Step { name: "fuzz", about: "each fuzz target for ten seconds", run: fuzz },
];

/// Seconds for each fuzz target.
const FUZZ_TIME_S: u32 = 10;

fn fmt(context: &Context) -> Result<Outcome> {
    if let Err(why) = component(context.cargo(["fmt", "--version"]), &["rustfmt"], None) {
        return Ok(Outcome::Skipped(why));
    }
    outcome_of(&mut context.cargo(["fmt", "--all", "--check"]))
}

fn tidy(context: &Context) -> Result<Outcome> {
    let tidy = crate::tidy::run(&context.root)?;
    Ok(if tidy { Outcome::Passed(String::new()) } else { Outcome::Failed("see the complaints above".into()) })
}

fn clippy(context: &Context) -> Result<Outcome> {
    if let Err(why) = component(context.cargo(["clippy", "--version"]), &["clippy"], None) {
        return Ok(Outcome::Skipped(why));
    }
    outcome_of(&mut context.cargo(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
}

fn test(context: &Context) -> Result<Outcome> {
    let mut command = context.cargo(["test", "--workspace", "--no-fail-fast", "--", "--show-output"]);
    println!("$ {}", line_of(&command));
    let mut run = TestRun::watch(&mut command)?;
    let failed = run.to_repeat().to_vec();
    for _ in 0..if failed.is_empty() { 0 } else { ALONE_RUNS } {
        // By name, in every binary: names of tests are unlike enough.
        let words = ["test", "--workspace", "--no-fail-fast", "--", "--show-output", "--test-threads=1", "--exact"];
        let mut command = context.cargo(words.into_iter().chain(failed.iter().map(String::as_str)));
        println!("\nfailed beside the others, again alone: {}", failed.join(", "));
        if !run.repeated(&TestRun::watch(&mut command)?) {
            break;
        }
    }
    for skipped in &run.skipped {
        println!("not run here: {skipped}");
    }
    Ok(run.outcome())
}

fn doc(context: &Context) -> Result<Outcome> {
    let mut command = context.cargo(["doc", "--workspace", "--no-deps"]);
    outcome_of(command.env("RUSTDOCFLAGS", "-D warnings"))
}

fn loom(context: &Context) -> Result<Outcome> {
    let mut command = context.cargo(["test", "--package", "linerate-ring", "--test", "loom", "--release"]);
    command.env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", context.target.join("loom"));
    outcome_of(&mut command)
}

fn miri(context: &Context) -> Result<Outcome> {
    let probe = context.nightly_cargo(["miri", "--version"]);
    if let Err(why) = nightly().and_then(|()| component(probe, &["miri", "rust-src"], Some("nightly"))) {
        return Ok(Outcome::Skipped(why));
    }
    outcome_of(&mut context.nightly_cargo(["miri", "test", "--package", "linerate-ring", "--package", "linerate-mem"]))
}

fn fuzz(context: &Context) -> Result<Outcome> {
    if let Err(why) = nightly() {
        return Ok(Outcome::Skipped(why));
    }
    if !works(&mut context.cargo(["fuzz", "--version"])) {
        return Ok(Outcome::Skipped("cargo-fuzz is not installed; `cargo install cargo-fuzz` adds it".into()));
    }
    if !is_installed("c++") && !is_installed("g++") && !is_installed("clang++") {
        return Ok(Outcome::Skipped("no C++ compiler for libFuzzer".into()));
    }
    let targets = fuzz_targets(context)?;
    let target_dir = context.target.join("fuzz").to_string_lossy().into_owned();
    for target in &targets {
        // New inputs go to the first folder; the second holds the seeds.
        let (corpus, seeds) = (format!("fuzz/corpus/{target}"), format!("fuzz/seeds/{target}"));
        fs::create_dir_all(context.root.join(&corpus)).context("making the corpus folder")?;
        let time = format!("-max_total_time={FUZZ_TIME_S}");
        // Nothing that is fuzzed is unsafe code, so there is nothing for a sanitizer to find.
        let mut words = vec!["fuzz", "run", "--sanitizer", "none", "--target-dir", &target_dir, target, &corpus];
        if context.root.join(&seeds).is_dir() {
            words.push(&seeds);
        }
        words.extend(["--", &time, "-timeout=10", "-rss_limit_mb=1024", "-verbosity=0"]);
        let log = context.target.join(format!("fuzz-{target}.log"));
        if let failed @ Outcome::Failed(_) = outcome_logged(&mut context.nightly_cargo(words), &log)? {
            return Ok(failed);
        }
    }
    Ok(Outcome::Passed(format!("{} targets, {FUZZ_TIME_S} s each", targets.len())))
}

/// Names of the fuzz targets.
fn fuzz_targets(context: &Context) -> Result<Vec<String>> {
    let folder = context.root.join("fuzz/fuzz_targets");
    let mut targets = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        targets.extend(name.strip_suffix(".rs").map(str::to_string));
    }
    targets.sort();
    Ok(targets)
}
