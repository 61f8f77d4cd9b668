//! The steps: the cheapest, then those that wait for much of their time, then those whose work can be done beside these (`ahead.rs`).

use std::fs;
use std::num::NonZero;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Context as _, Result, bail};

use super::lists::{Lists, UNSTEADY};
use super::process::watch;
use super::test_output::TestOutput;
use super::tools::{component, is_installed, line_of, nightly};
use super::verdict::ALONE_RUNS;
use super::{Context, Outcome, Step};

/// In the order in which they run.
pub const STEPS: &[Step] = &[
    Step { name: "fmt", about: "the sources are formatted, those of the fuzz targets too", limit_min: 2, run: fmt },
    Step { name: "tidy", about: "the invariants of ARCHITECTURE.md hold", limit_min: 3, run: tidy },
    Step { name: "test", about: "the tests; those that cannot run here say why", limit_min: 60, run: test },
    Step {
        name: "openflow",
        about: "a quarter of os-ken's certification suite for OpenFlow 1.3 passes",
        limit_min: 15,
        run: openflow,
    },
    Step {
        name: "address",
        about: "memory that is shared with peers, under AddressSanitizer: no access out of bounds or after free",
        limit_min: 20,
        run: address,
    },
    Step {
        name: "clippy",
        about: "no warnings, of the compiler or of clippy, in any target; tests have the bodies of fuzz targets",
        limit_min: 20,
        run: clippy,
    },
    Step {
        name: "dpdk",
        about: "the backend over libdpdk has no warnings and passes its tests, and `ports/all` has none with it",
        limit_min: 5,
        run: dpdk,
    },
    Step {
        name: "freebsd",
        about: "what there is for FreeBSD compiles without warnings: `pkt-gen`, `bridge`, `send`, `receive` and more over netmap (it is not run)",
        limit_min: 5,
        run: freebsd,
    },
    Step {
        name: "doc",
        about: "the documentation builds without warnings, that of the examples too",
        limit_min: 15,
        run: doc,
    },
    Step {
        name: "loom",
        about: "interleavings of a short exchange over a ring, of a peer that writes during a call, of the classifier's writer and worker",
        limit_min: 15,
        run: loom,
    },
    Step {
        name: "miri",
        about: "rings, pools and classifiers under the interpreter: no undefined behaviour",
        limit_min: 30,
        run: miri,
    },
    Step {
        name: "fuzz",
        about: "each fuzz target for six seconds or more, under AddressSanitizer",
        limit_min: 30,
        run: fuzz,
    },
    Step {
        name: "instructions",
        about: "instructions per packet of the hot loops, within 3 % of those recorded",
        limit_min: 20,
        run: instructions,
    },
];

/// Tests of the workspace, at least, so that a run that leaves most of them out does not pass. Raise it as tests are added.
const TESTS_LEAST: u64 = 1_700;
/// Tests of the other steps, at least.
const DPDK_LEAST: u64 = 14;
const LOOM_LEAST: u64 = 14;
const MIRI_LEAST: u64 = 36;
const ADDRESS_LEAST: u64 = 120;
/// Fuzz targets, at least.
const FUZZ_LEAST: usize = 22;
/// Seconds for each fuzz target.
const FUZZ_TIME_S: u32 = 6;
/// Seconds for targets whose crates are not optimized (fuzz/Cargo.toml), in which they run as many inputs as they otherwise would in
/// [`FUZZ_TIME_S`]: compiling them costs so much less that all in all this is cheaper.
const FUZZ_LONGER_S: [(&str, u32); 1] = [("results", 15)];
/// Inputs for each fuzz target, at least.
const FUZZ_RUNS_LEAST: u64 = 100;

/// Crates whose tests miri runs, in parts that take about as long as each other.
const MIRI_PARTS: [&[&str]; 2] = [&["linerate-mem"], &["linerate-ring", "linerate-classify"]];
/// Crates with memory that a peer, a guest or another process writes, and those below them.
const SHARED_MEMORY: [&str; 5] =
    ["linerate-ring", "linerate-mem", "linerate-port-memif", "linerate-port-vhost", "linerate-port-shm"];
/// Their tests but for those that start other programs and those that measure how much memory is in use.
const SHARED_MEMORY_TESTS: [&str; 7] = ["oracle", "ownership", "loans", "conformance", "hostile", "peers", "link"];

fn fmt(context: &Context) -> Result<Outcome> {
    if let Err(why) = component(context.cargo(["fmt", "--version"]), &["rustfmt"], None) {
        return Ok(Outcome::Skipped(why));
    }
    let fuzz = ["fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"];
    context.each(&mut [context.cargo(["fmt", "--all", "--check"]), context.cargo(fuzz)])
}

fn tidy(context: &Context) -> Result<Outcome> {
    let tidy = crate::tidy::run(&context.root)?;
    Ok(if tidy { Outcome::Passed(String::new()) } else { Outcome::Failed("see the complaints above".into()) })
}

fn clippy(context: &Context) -> Result<Outcome> {
    if let Err(why) = component(context.cargo(["clippy", "--version"]), &["clippy"], None) {
        return Ok(Outcome::Skipped(why));
    }
    context.outcome_of(&mut lints(context))
}

fn lints(context: &Context) -> Command {
    context.cargo(["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"])
}

/// `-D warnings` in the form in which `cargo clippy` gives it to the compiler.
const CLIPPY_ARGS: &str = "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__";

fn test(context: &Context) -> Result<Outcome> {
    let built = context.outcome_of(&mut context.cargo(["test", "--workspace", "--no-run", "--locked"]))?;
    if let Outcome::Failed(_) = built {
        return Ok(built);
    }
    context.ahead.add(context, commands_beside_tests(context)?);
    context.tests(|| context.cargo(["test", "--workspace", "--locked"]), TESTS_LEAST)
}

/// Begins what needs nothing of the tests' build, and has a target folder of its own: builds, those first that take longest. The steps for one
/// core and the gaps of the tests' build have room for them. Nothing if the tests are not among the steps.
pub fn begin_ahead(context: &Context) -> Result<()> {
    if !context.later.contains(&"test") {
        return Ok(());
    }
    let is_later = |name: &str| context.later.contains(&name);
    let mut builds = Vec::new();
    if is_later("fuzz")
        && why_no_fuzzing().is_none()
        && let Ok(triple) = sanitizer()
    {
        builds.push(fuzz_build(context, triple));
    }
    if is_later("instructions") && why_no_counts(context)?.is_none() {
        let mut script = instructions_script(context);
        script.arg("--build");
        builds.push(script);
    }
    context.ahead.add(context, builds);
    Ok(())
}

/// What later steps need, once the tests are built: builds, then tests in which nothing waits for a deadline, and counts.
fn commands_beside_tests(context: &Context) -> Result<Vec<Command>> {
    let is_later = |name: &str| context.later.contains(&name);
    let (mut builds, mut tests, mut counts) = (Vec::new(), Vec::new(), Vec::new());
    if is_later("instructions") && why_no_counts(context)?.is_none() {
        counts.push(instructions_script(context));
    }
    // Before documentation, dpdk and freebsd, which find what it has checked.
    if is_later("clippy") {
        builds.push(lints(context));
    }
    if is_later("address")
        && let Ok(triple) = sanitizer()
    {
        let mut build = address_tests(context, triple);
        build.arg("--no-run");
        builds.push(build);
    }
    if is_later("loom") {
        let mut build = loom_tests(context);
        build.arg("--no-run");
        builds.push(build);
        tests.push(all_of(loom_tests(context)));
    }
    if is_later("miri") && why_no_miri(context).is_none() {
        let mut build = miri_tests(context, &MIRI_PARTS.concat());
        build.arg("--no-run");
        builds.push(build);
        tests.extend(MIRI_PARTS.map(|packages| all_of(miri_tests(context, packages))));
    }
    if is_later("doc") {
        builds.push(documentation(context));
    }
    if is_later("dpdk") && why_no_dpdk().is_none() {
        let (port, all) = dpdk_lints(context);
        let mut build = dpdk_tests(context);
        build.arg("--no-run");
        builds.extend([port, all, build]);
    }
    if is_later("freebsd") && why_no_freebsd(context).is_none() {
        builds.push(freebsd_check(context));
    }
    Ok([builds, tests, counts].into_iter().flatten().collect())
}

/// A command with `cargo test` for all tests, whose output [`TestOutput`] reads.
fn all_of(mut command: Command) -> Command {
    command.args(["--no-fail-fast", "--", "--show-output"]);
    command
}

fn dpdk(context: &Context) -> Result<Outcome> {
    if let Some(why) = why_no_dpdk() {
        return Ok(Outcome::Skipped(why));
    }
    let (port, all) = dpdk_lints(context);
    if let failed @ Outcome::Failed(_) = context.each(&mut [port, all])? {
        return Ok(failed);
    }
    context.tests(|| dpdk_tests(context), DPDK_LEAST)
}

fn why_no_dpdk() -> Option<String> {
    match Command::new("pkg-config").args(["--atleast-version=22.11", "libdpdk"]).status() {
        Ok(status) if status.success() => None,
        Ok(_) => Some("libdpdk 22.11 or later is not installed".into()),
        Err(error) => Some(format!("pkg-config, which finds libdpdk: {error}")),
    }
}

const DPDK_PACKAGE: [&str; 5] = ["--package", "linerate-port-dpdk", "--features", "libdpdk", "--locked"];

/// The second finds what the first has checked; a plain `cargo check` would check all of it again.
fn dpdk_lints(context: &Context) -> (Command, Command) {
    let mut port = context.cargo(["clippy", "--all-targets"]);
    port.args(DPDK_PACKAGE).args(["--", "-D", "warnings"]);
    let all = ["clippy", "--package", "linerate-ports", "--features", "dpdk", "--locked", "--", "-D", "warnings"];
    (port, context.cargo(all))
}

fn dpdk_tests(context: &Context) -> Command {
    let mut command = context.cargo(["test"]);
    command.args(DPDK_PACKAGE);
    command
}

const FREEBSD: &str = "x86_64-unknown-freebsd";

fn freebsd(context: &Context) -> Result<Outcome> {
    match why_no_freebsd(context) {
        Some(why) => Ok(Outcome::Skipped(why)),
        None => context.outcome_of(&mut freebsd_check(context)),
    }
}

/// Whether the standard library of that target is installed, for the compiler that cargo uses in the workspace.
fn why_no_freebsd(context: &Context) -> Option<String> {
    let mut libraries = Command::new("rustc");
    libraries.args(["--print", "target-libdir", "--target", FREEBSD]).current_dir(&context.root);
    let output = libraries.output().ok().map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let is_there = output.is_some_and(|folder| !folder.is_empty() && Path::new(&folder).is_dir());
    (!is_there).then(|| format!("no standard library for FreeBSD; `rustup target add {FREEBSD}` adds it"))
}

fn freebsd_check(context: &Context) -> Command {
    context.cargo(["clippy", "--target", FREEBSD, "--package", "linerate", "--locked", "--", "-D", "warnings"])
}

fn doc(context: &Context) -> Result<Outcome> {
    context.outcome_of(&mut documentation(context))
}

/// Examples need the features that tests need, so with them cargo chooses the same features here as for the lints. Where this names the
/// compiler and the arguments of `cargo clippy`, too, cargo finds what the lints have checked, and checks nothing a second time.
fn documentation(context: &Context) -> Command {
    let mut command = context.cargo(["doc", "--workspace", "--no-deps", "--lib", "--bins", "--examples", "--locked"]);
    command.env("RUSTDOCFLAGS", "-D warnings");
    if let Some(driver) = context.clippy_driver() {
        command.env("RUSTC_WORKSPACE_WRAPPER", driver).env("CLIPPY_ARGS", CLIPPY_ARGS);
    }
    command
}

fn loom(context: &Context) -> Result<Outcome> {
    context.tests(|| loom_tests(context), LOOM_LEAST)
}

fn loom_tests(context: &Context) -> Command {
    let packages =
        ["linerate-ring", "linerate-classify", "linerate-port-shm", "linerate-port-memif", "linerate-port-vhost"];
    let mut command = context.cargo(["test", "--test", "loom", "--profile", "loom", "--locked"]);
    command
        .args(packages.iter().flat_map(|name| ["--package", name]))
        .env("RUSTFLAGS", "--cfg loom")
        .env("CARGO_TARGET_DIR", context.target.join("loom"));
    command
}

fn miri(context: &Context) -> Result<Outcome> {
    if let Some(why) = why_no_miri(context) {
        return Ok(Outcome::Skipped(why));
    }
    // Miri runs on one core, whatever it interprets.
    let parts = MIRI_PARTS.map(|packages| miri_tests(context, packages)).into();
    context.tests_at_once(parts, || miri_tests(context, &MIRI_PARTS.concat()), MIRI_LEAST)
}

fn why_no_miri(context: &Context) -> Option<String> {
    let probe = context.nightly_cargo(["miri", "--version"]);
    nightly().and_then(|()| component(probe, &["miri", "rust-src"], Some("nightly"))).err()
}

fn miri_tests(context: &Context, packages: &[&str]) -> Command {
    let mut command = context.nightly_cargo(["miri", "test", "--locked"]);
    command.args(packages.iter().flat_map(|name| ["--package", name]));
    command
}

fn address(context: &Context) -> Result<Outcome> {
    let triple = match sanitizer() {
        Ok(triple) => triple,
        Err(why) => return Ok(Outcome::Skipped(why)),
    };
    context.tests(|| address_tests(context, triple), ADDRESS_LEAST)
}

fn address_tests(context: &Context, triple: &str) -> Command {
    // With a target named, the flags are not for build scripts and macros, which run under the compiler.
    let mut command = context.nightly_cargo(["test", "--locked", "--lib", "--target", triple]);
    command.args(SHARED_MEMORY.iter().flat_map(|name| ["--package", name]));
    command.args(SHARED_MEMORY_TESTS.iter().flat_map(|name| ["--test", name]));
    command.env("RUSTFLAGS", "-Zsanitizer=address").env("CARGO_TARGET_DIR", context.target.join("address"));
    // Threads that outlive a test are no error, and looking for leaks takes rights that a container may lack.
    command.env("ASAN_OPTIONS", "detect_leaks=0");
    command
}

fn fuzz(context: &Context) -> Result<Outcome> {
    if let Some(why) = why_no_fuzzing() {
        return Ok(Outcome::Skipped(why));
    }
    let triple = match sanitizer() {
        Ok(triple) => triple,
        Err(why) => return Ok(Outcome::Skipped(why)),
    };
    let targets = fuzz_targets(context)?;
    if targets.len() < FUZZ_LEAST {
        return Ok(Outcome::Failed(format!("{} targets; there are {FUZZ_LEAST} at least", targets.len())));
    }
    let mut build = fuzz_build(context, triple);
    if let failed @ Outcome::Failed(_) = context.outcome_logged(&mut build, &context.target.join("fuzz-build.log"))? {
        return Ok(failed);
    }
    let mut inputs = 0;
    for outcome in at_once(&targets, |target| fuzz_target(context, target, triple)) {
        match outcome? {
            Ok(made) => inputs += made,
            Err(failed) => return Ok(Outcome::Failed(failed)),
        }
    }
    Ok(Outcome::Passed(format!("{} targets, {FUZZ_TIME_S} s or more each, {inputs} inputs", targets.len())))
}

fn why_no_fuzzing() -> Option<String> {
    let is_there = ["c++", "g++", "clang++"].iter().any(is_installed);
    (!is_there).then(|| "no C++ compiler for libFuzzer".into())
}

/// What cargo-fuzz 0.13 builds with: the counters of libFuzzer (clang's SanitizerCoverage) in optimized code with its assertions. One unit for
/// each crate, because none of what is counted is inlined from one unit into another.
const FUZZ_FLAGS: &str = "--cfg fuzzing -Zsanitizer=address -Cdebug-assertions -Ccodegen-units=1 -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Cllvm-args=-sanitizer-coverage-stack-depth -Cllvm-args=-simplifycfg-branch-fold-threshold=0";

/// All targets in one build, which keeps all cores busy.
fn fuzz_build(context: &Context, triple: &str) -> Command {
    let mut build = context.nightly_cargo(["build", "--manifest-path", "fuzz/Cargo.toml", "--release", "--locked"]);
    build.args(["--bins", "--target", triple, "--target-dir"]).arg(context.target.join("fuzz"));
    // Who looks for what an input has found runs it with `cargo fuzz run`, which has the lines.
    build.env("RUSTFLAGS", FUZZ_FLAGS).env("CARGO_PROFILE_RELEASE_DEBUG", "0");
    build
}

/// Does the same with each of them, as many at a time as there are cores.
fn at_once<Item: Sync, Made: Send>(items: &[Item], make: impl Fn(&Item) -> Made + Sync) -> Vec<Made> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mine = std::iter::from_fn(|| items.get(next.fetch_add(1, Ordering::Relaxed)));
        mine.map(&make).collect::<Vec<Made>>()
    };
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        let joined = threads.into_iter().flat_map(|thread| match thread.join() {
            Ok(made) => made,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        joined.collect()
    })
}

/// Fuzzes one target; how many inputs it got, or why it failed.
fn fuzz_target(context: &Context, target: &str, triple: &str) -> Result<Result<u64, String>> {
    let log = context.target.join(format!("fuzz-{target}.log"));
    if let Outcome::Failed(why) = context.outcome_logged(&mut fuzz_command(context, target, triple)?, &log)? {
        return Ok(Err(why));
    }
    let made = fuzz_runs(&fs::read_to_string(&log)?);
    Ok(if made < FUZZ_RUNS_LEAST {
        Err(format!("{target}: {made} inputs in {} s, see {}", fuzz_time_s(target), log.display()))
    } else {
        Ok(made)
    })
}

/// Seconds for the target.
fn fuzz_time_s(target: &str) -> u32 {
    FUZZ_LONGER_S.iter().find(|(longer, _)| *longer == target).map_or(FUZZ_TIME_S, |(_, time_s)| *time_s)
}

/// What `cargo fuzz run` runs.
fn fuzz_command(context: &Context, target: &str, triple: &str) -> Result<Command> {
    let mut command = Command::new(context.target.join("fuzz").join(triple).join("release").join(target));
    // New inputs go to the first folder; the second holds the seeds.
    let (corpus, seeds, artifacts) =
        (format!("fuzz/corpus/{target}"), format!("fuzz/seeds/{target}"), format!("fuzz/artifacts/{target}/"));
    for folder in [&corpus, &artifacts] {
        fs::create_dir_all(context.root.join(folder)).with_context(|| format!("making {folder}"))?;
    }
    command.arg(&corpus).current_dir(&context.root);
    if context.root.join(&seeds).is_dir() {
        command.arg(&seeds);
    }
    command.arg(format!("-artifact_prefix={artifacts}")).arg(format!("-max_total_time={}", fuzz_time_s(target)));
    // The sanitizer keeps what was freed for a while, which counts as memory in use.
    command.args(["-timeout=10", "-rss_limit_mb=2048", "-verbosity=0", "-print_final_stats=1"]);
    // As cargo-fuzz has it: what is defined twice says nothing of the target.
    command.env("ASAN_OPTIONS", "detect_odr_violation=0");
    Ok(command)
}

/// Inputs that libFuzzer says it has run.
fn fuzz_runs(log: &str) -> u64 {
    let count = log.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or_default()
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

/// The target of this machine, for which nightly has AddressSanitizer.
fn sanitizer() -> Result<&'static str, String> {
    nightly()?;
    match std::env::consts::ARCH {
        "x86_64" => Ok("x86_64-unknown-linux-gnu"),
        "aarch64" => Ok("aarch64-unknown-linux-gnu"),
        other => Err(format!("no AddressSanitizer for {other}")),
    }
}

fn instructions(context: &Context) -> Result<Outcome> {
    match why_no_counts(context)? {
        Some(why) => Ok(Outcome::Skipped(why)),
        None => context.outcome_or_ahead(&mut instructions_script(context)),
    }
}

fn why_no_counts(context: &Context) -> Result<Option<String>> {
    if !is_installed("valgrind") {
        let why = "valgrind is not installed; `apt-get install valgrind`, or the like, adds it";
        return Ok(Some(why.into()));
    }
    let recorded = fs::read_to_string(context.root.join("benches/instructions.csv")).context("reading the counts")?;
    let compiler = context.rustc_version()?;
    let Some(by) = recorded.lines().find_map(|line| line.strip_prefix("# ")) else {
        bail!("benches/instructions.csv does not say which compiler it is of");
    };
    let why = format!("recorded with {by}, this is {compiler}: `benches/instructions.sh --record` counts anew");
    Ok((by != compiler).then_some(why))
}

fn instructions_script(context: &Context) -> Command {
    let mut script = Command::new("benches/instructions.sh");
    script.current_dir(&context.root).env("CARGO_TARGET_DIR", &context.target);
    script
}

fn openflow(context: &Context) -> Result<Outcome> {
    // The program as the tests have built it, if they ran: what is built of one package alone has other features, and would be built anew.
    let built = context.outcome_of(&mut context.cargo(["test", "--workspace", "--no-run", "--locked"]))?;
    if let Outcome::Failed(_) = &built {
        return Ok(built);
    }
    let mut script = Command::new("conformance/of13.py");
    script.args(["--quick", "--linerate"]).arg(context.target.join("debug/linerate")).current_dir(&context.root);
    println!("$ {}", line_of(&script));
    let mut skipped = None;
    let ended = watch(&mut script, context.deadline, |line| {
        println!("{line}");
        skipped = skipped.take().or_else(|| line.strip_prefix("skipped: ").map(str::to_string));
    })?;
    Ok(match skipped {
        Some(why) => Outcome::Skipped(why),
        None if ended.succeeded => Outcome::Passed(String::new()),
        None => Outcome::Failed(format!("{}: {}", line_of(&script), ended.how)),
    })
}

impl Context {
    /// One command after the other, until one fails.
    fn each(&self, commands: &mut [Command]) -> Result<Outcome> {
        for command in commands {
            if let failed @ Outcome::Failed(_) = self.outcome_of(command)? {
                return Ok(failed);
            }
        }
        Ok(Outcome::Passed(String::new()))
    }

    /// Runs `cargo test` and, if few tests failed, those again by themselves. `command` is the command without what says how.
    fn tests(&self, command: impl Fn() -> Command, least: u64) -> Result<Outcome> {
        self.tests_at_once(vec![command()], command, least)
    }

    /// The same, with the tests in several parts that run at the same time. `command` is for all of them.
    fn tests_at_once(&self, parts: Vec<Command>, command: impl Fn() -> Command, least: u64) -> Result<Outcome> {
        let lists = Lists::read(&self.root)?;
        let outputs = thread::scope(|scope| {
            let threads: Vec<_> = parts.into_iter().map(|part| scope.spawn(|| self.all_tests(part))).collect();
            let join = |thread: thread::ScopedJoinHandle<'_, _>| match thread.join() {
                Ok(output) => output,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            threads.into_iter().map(join).collect::<Result<Vec<TestOutput>>>()
        })?;
        let run = TestOutput::all(outputs);
        let failed = run.to_repeat();
        let mut steady_alone = !failed.is_empty();
        for _ in 0..if failed.is_empty() { 0 } else { ALONE_RUNS } {
            println!("\nfailed beside the others, again alone: {}", failed.join(", "));
            // By name, in every binary: names of tests are unlike enough.
            let mut alone = command();
            alone.args(["--no-fail-fast", "--", "--show-output", "--test-threads=1", "--exact"]).args(failed);
            steady_alone = run.passes_alone(&TestOutput::watch(&mut alone, self.deadline)?);
            if !steady_alone {
                break;
            }
        }
        for skip in &run.skipped {
            println!("not run here{}: {}: {}", if skip.in_part { " in part" } else { "" }, skip.test, skip.why);
        }
        let outcome = run.outcome(steady_alone, least, &lists);
        if let Outcome::Unsteady(names, _) = &outcome {
            lists.add_unsteady(names).with_context(|| format!("adding {} to {UNSTEADY}", names.join(", ")))?;
            println!("{UNSTEADY} has these now, to be committed: {}", names.join(", "));
        }
        Ok(outcome)
    }

    /// The output of a run of all tests of a command, which may have been made ahead.
    fn all_tests(&self, command: Command) -> Result<TestOutput> {
        let mut all = all_of(command);
        println!("$ {}", line_of(&all));
        match self.ahead.output_of(&all) {
            Some(log) => TestOutput::of_log(&log),
            None => TestOutput::watch(&mut all, self.deadline),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fuzzers_own_count_of_inputs_is_read() {
        let log = "INFO: Seed: 1\nstat::number_of_executed_units: 8123\nstat::average_exec_per_sec: 738\n";
        assert_eq!((fuzz_runs(log), fuzz_runs("Done 0 runs")), (8123, 0));
    }

    #[test]
    fn each_item_is_worked_on_once() {
        let items: Vec<u64> = (0..100).collect();
        let mut made = at_once(&items, |item| item * 2);
        made.sort_unstable();
        assert_eq!(made, (0..100).map(|item| item * 2).collect::<Vec<u64>>());
    }

    #[test]
    fn the_sum_of_the_limits_is_bounded() {
        // What is shared with others may take several times as long as alone, where all steps take less than half an hour.
        assert!(STEPS.iter().map(|step| step.limit_min).sum::<u64>() <= 240);
    }
}
