//! An experiment file in a folder of its own, and the binary on it. Shared by the tests of `linerate lab`.
#![allow(dead_code)] // Each test binary uses its own part.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Two cells, two tests, short trials. Never disturbed: how quiet the machine is decides no test.
pub const TINY: &str = "\
name = \"tiny\"
title = \"Tiny\"
[[dut]]
name = \"plain\"
kind = \"router\"
[matrix]
sizes = [64]
flows = [1, 100]
[[test]]
kind = \"throughput\"
search = \"bisection\"
resolution = 0.3
trial = \"50ms\"
[[test]]
kind = \"load\"
rate = \"1000pps\"
trial = \"50ms\"
[noise]
steal_max = 1.0
gap_max = \"60s\"
";

/// Longer than any run of these tests takes on a busy machine; reaching it is a failure.
const PATIENCE: Duration = Duration::from_secs(120);

/// A folder with an experiment file and results.
pub struct Experiment {
    folder: tempfile::TempDir,
}

/// How a command ended.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }
}

impl Experiment {
    pub fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("tiny.toml"), text).expect("the file");
        Self { folder }
    }

    pub fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    pub fn file(&self) -> String {
        self.path("tiny.toml")
    }

    /// A command with the folder as its working directory: results go to `results` in it.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
        command.args(arguments).current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }

    pub fn linerate(&self, arguments: &[&str]) -> Ended {
        Ended::from(self.command(arguments).output().expect("the binary starts"))
    }

    pub fn lab(&self, arguments: &[&str]) -> Ended {
        self.linerate(&[&["lab"], arguments].concat())
    }

    /// Starts a run, in a process that a test can stop.
    pub fn start(&self) -> Child {
        self.start_as(|command| command)
    }

    /// As [`Experiment::start`], of a command that is changed before.
    pub fn start_as(&self, change: fn(&mut Command) -> &mut Command) -> Child {
        let mut command = self.command(&["lab", "run", &self.file(), "--plain", "--yes", "--json"]);
        change(&mut command).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts")
    }

    /// A run that is stopped by Ctrl-C once so many trials are kept.
    pub fn stop_after_trials(&self, trials: usize) -> Ended {
        let already = self.runs().iter().map(|run| assert_accounts(&load(run))).sum::<usize>();
        let mut child = self.start();
        let deadline = Instant::now() + PATIENCE;
        let kept = || self.runs().iter().map(|run| assert_accounts(&load(run))).sum::<usize>();
        while kept() < already + trials && child.try_wait().expect("own child").is_none() {
            assert!(Instant::now() < deadline, "no trial");
            std::thread::sleep(Duration::from_millis(5));
        }
        signal(&child, "INT");
        Ended::from(child.wait_with_output().expect("own child"))
    }

    /// Folders of runs.
    pub fn runs(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.folder.path().join("results")).into_iter().flatten().flatten();
        let visible = entries.filter(|entry| !entry.file_name().to_string_lossy().starts_with('.'));
        visible.map(|entry| entry.path()).filter(|path| path.join("result.json").exists()).collect()
    }

    pub fn only_run(&self) -> PathBuf {
        let runs = self.runs();
        assert_eq!(runs.len(), 1, "{runs:?}");
        runs[0].clone()
    }

    /// No namespace, no process in the folder, no half-written file; the kernel takes interfaces down in the background.
    pub fn assert_nothing_left(&self) {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let left = self.left();
            if left.is_empty() {
                return;
            }
            assert!(Instant::now() < deadline, "left behind: {left:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn left(&self) -> Vec<String> {
        let mut left = Vec::new();
        let here = self.folder.path().canonicalize().expect("the folder");
        for process in std::fs::read_dir("/proc").expect("/proc").flatten() {
            let at = std::fs::read_link(process.path().join("cwd"));
            if at.is_ok_and(|at| at.starts_with(&here)) {
                left.push(format!("process {}", process.file_name().to_string_lossy()));
            }
        }
        let results = std::fs::read_dir(self.folder.path().join("results")).into_iter().flatten().flatten();
        let unfinished = results.filter(|entry| entry.file_name().to_string_lossy().starts_with(".unfinished"));
        left.extend(unfinished.map(|entry| entry.path().display().to_string()));
        left
    }
}

/// Sends a signal by its name.
pub fn signal(child: &Child, name: &str) {
    // The shell's own kill, which is there on every system. The process may be gone already.
    let _ = Command::new("sh").args(["-c", &format!("kill -{name} {} 2>/dev/null", child.id())]).status();
}

/// The document of a run.
pub fn load(run: &Path) -> Value {
    let loaded = linerate_report::load_results(run).unwrap_or_else(|error| panic!("{error}"));
    serde_json::to_value(loaded).expect("JSON")
}

/// The name of a device that forwards nothing.
pub const NO_FORWARDER: &str = "program";

/// Checks that every trial explains every packet, and returns how many trials there are.
pub fn assert_accounts(results: &Value) -> usize {
    let mut trials = 0;
    for cell in results["cells"].as_array().expect("cells") {
        for finding in cell["findings"].as_array().expect("findings") {
            for trial in finding["trials"].as_array().expect("trials") {
                assert_explained(&trial["trial"], cell["dut_name"] != NO_FORWARDER);
                trials += 1;
            }
        }
    }
    trials
}

/// What was sent arrived or was lost where a counter says so, and some arrived; of a device that forwards nothing, none did.
fn assert_explained(trial: &Value, forwards: bool) {
    let count = |name: &str| trial[name].as_i64().unwrap_or_else(|| panic!("{name} of {trial}"));
    let rows = trial["lost"].as_array().expect("rows");
    let packets = |row: &Value| row["packets"].as_i64().unwrap_or_else(|| panic!("packets of {row}"));
    assert_eq!(count("intended"), count("unsent") + count("sent"), "{trial}");
    assert_eq!(
        count("sent"),
        count("delivered") + rows.iter().map(packets).sum::<i64>() + count("unexplained"),
        "{trial}"
    );
    assert_eq!(count("unexplained"), 0, "{trial}");
    // Where others use all cores, a sending thread can be without one for a whole trial.
    assert_eq!(count("delivered") > 0, forwards && count("sent") > 0, "{trial}");
    assert!(!forwards || rows.iter().all(|row| row["inferred_from"].is_null() || packets(row) == 0), "{trial}");
}

/// Whether namespaces can be made here; says so where not.
pub fn can_measure(ended: &Ended) -> bool {
    let why = ended.stderr.lines().find(|line| line.contains("no network namespace can be made"));
    if let Some(why) = why {
        eprintln!("skipped: {why}");
    }
    why.is_none()
}
