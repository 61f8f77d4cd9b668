//! The runs in a results folder.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use linerate_report::{LoadError, Results, ResultsFolder, load_results};

/// A run of an experiment.
pub struct Run {
    /// Its folder.
    pub folder: PathBuf,
    /// What was found.
    pub results: Results,
    /// Whether a process writes it now.
    pub running: bool,
}

/// The runs in `dir`, the oldest first. Folders that hold something else are passed over.
///
/// # Errors
/// `dir` cannot be read. That it does not exist is no error.
pub fn all(dir: &Path) -> std::io::Result<Vec<Run>> {
    let entries = match std::fs::read_dir(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut runs: Vec<Run> = entries.flatten().filter_map(|entry| run(entry.path())).collect();
    runs.sort_by_key(|run| run.results.started);
    Ok(runs)
}

fn run(folder: PathBuf) -> Option<Run> {
    let results = load_results(&folder).ok()?;
    let running = match ResultsFolder::open(&folder) {
        Err(LoadError::Read { error, .. }) => error.kind() == ErrorKind::WouldBlock,
        _ => false,
    };
    Some(Run { folder, results, running })
}

impl Run {
    /// `complete`, `running`, `stopped`, with how far it came.
    pub fn state(&self) -> String {
        let done = |finding: &&linerate_report::Finding| finding.result.is_some() || finding.error.is_some();
        let findings = self.results.cells.iter().flat_map(|cell| &cell.findings).filter(done).count();
        let cells = self.results.cells.len();
        match (self.results.complete, self.running) {
            (true, _) => format!("complete, {findings} findings in {cells} cells"),
            (false, true) => format!("running, {findings} findings so far"),
            (false, false) => format!("stopped after {findings} findings; `lab run` goes on"),
        }
    }
}
