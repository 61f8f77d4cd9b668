//! The folder of an experiment's run: saved after every trial, resumed after a kill, reports at the end.
//!
//! ```text
//! <dir>/<time>-<name>/result.json       the document, whole
//!                     trials.jsonl      what came after it; only while a long run goes on
//!                     experiment.toml   the experiment file; locked while a process writes here
//!                     shown/<cell>/<trial>.txt   what a switch showed before and after a trial
//!                     report.html report.md report.txt results.csv trials.csv ledger.csv metrics.txt
//! ```
//!
//! While the document is small it is written anew after every trial. Above [`WHOLE_BYTES_MAX`] only what is new is appended to the
//! journal, until that is as long as the document: so all writing together is a few times the size of the final document.

use super::document::{LoadError, RESULT_FILE, parse};
use super::files::{Unfinished, at, file_name, folder_name, replace, write_synced};
use super::journal::{Line, Saved, hash_text, replay};
use crate::{EXPERIMENT_SCHEMA, Results};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

const JOURNAL_FILE: &str = "trials.jsonl";
const EXPERIMENT_FILE: &str = "experiment.toml";
const SHOWN_FOLDER: &str = "shown";
/// Up to this many bytes the document is written whole: a few milliseconds.
const WHOLE_BYTES_MAX: u64 = 512 * 1024;

/// The folder of a run. One process at a time has it.
#[derive(Debug)]
pub struct ResultsFolder {
    path: PathBuf,
    /// Locks the experiment file until it is dropped.
    _lock: File,
    /// `None`: the next save writes the whole document.
    saved: Option<Saved>,
    document_bytes: u64,
    document_hash: String,
    journal_bytes: u64,
}

impl ResultsFolder {
    /// Makes `dir/<time>-<name>/` with the document and its experiment file in it. It appears when both are on disk.
    ///
    /// # Errors
    /// Whatever the file system refuses, with the path in the message.
    pub fn create(dir: &Path, results: &Results) -> io::Result<Self> {
        let unfinished = Unfinished::create(dir)?;
        let text = results_json(results);
        write_synced(&unfinished.0.join(RESULT_FILE), &text)?;
        write_synced(&unfinished.0.join(EXPERIMENT_FILE), &results.file)?;
        let path = unfinished.put(dir, &format!("{}-{}", results.started.compact(), folder_name(&results.name)))?;
        let mut folder = Self::locked(path)?;
        folder.whole_is(results, &text);
        Ok(folder)
    }

    /// Opens the folder of a run to go on with it.
    ///
    /// # Errors
    /// It cannot be read, is of another version, or another process is writing it.
    pub fn open(path: &Path) -> Result<(Self, Results), LoadError> {
        let folder = Self::locked(path.to_owned()).map_err(|error| LoadError::Read { path: path.to_owned(), error })?;
        let results = load_results(path)?;
        Ok((folder, results))
    }

    /// Opens the newest incomplete run in `dir` that was made with this experiment file, if there is one. Folders that cannot be read
    /// or that another process has are passed over.
    ///
    /// # Errors
    /// `dir` cannot be read. That it does not exist is no error.
    pub fn resume(dir: &Path, file: &str) -> io::Result<Option<(Self, Results)>> {
        let entries = match fs::read_dir(dir) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            entries => entries.map_err(|error| at(dir, error))?,
        };
        let mut folders: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        let is_same = |path: &PathBuf| fs::read_to_string(path.join(EXPERIMENT_FILE)).is_ok_and(|text| text == file);
        folders.retain(is_same);
        let opened = folders.iter().filter_map(|path| Self::open(path).ok());
        let incomplete = opened.filter(|(_, results)| !results.complete && results.file == file);
        Ok(incomplete.max_by_key(|(_, results)| results.started))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Saves the run; call it after every trial. Trials that were saved are expected not to change; all else may.
    ///
    /// # Errors
    /// Whatever the file system refuses (a full disk, a folder that is gone), with the path in the message. What was saved before
    /// is still there, and the next call tries again.
    pub fn save(&mut self, results: &Results) -> io::Result<()> {
        let journal_full = self.journal_bytes > self.document_bytes;
        if self.document_bytes > WHOLE_BYTES_MAX
            && !journal_full
            && let Some(lines) = self.saved.as_ref().and_then(|saved| saved.lines_to(results))
        {
            self.append(&lines)?;
            self.saved = Some(Saved::all(results));
            return Ok(());
        }
        self.save_whole(results)
    }

    /// Keeps what the device of a cell showed around a trial, in a file of its own that is named after both.
    ///
    /// # Errors
    /// As [`ResultsFolder::save`].
    pub fn keep_shown(&mut self, cell: &str, trial: &str, text: &str) -> io::Result<()> {
        let folder = self.path.join(SHOWN_FOLDER).join(file_name(cell));
        fs::create_dir_all(&folder).map_err(|error| at(&folder, error))?;
        replace(&folder.join(format!("{}.txt", file_name(trial))), text)
    }

    /// Saves the whole document and writes every report beside it.
    ///
    /// # Errors
    /// As [`ResultsFolder::save`]. The document is saved first.
    pub fn finish(&mut self, results: &Results) -> io::Result<()> {
        self.save_whole(results)?;
        write_reports(&self.path, results)
    }

    fn locked(path: PathBuf) -> io::Result<Self> {
        let file = path.join(EXPERIMENT_FILE);
        let lock = File::open(&file).map_err(|error| at(&file, error))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let words = format!("{}: another process is writing this run", path.display());
                return Err(io::Error::new(ErrorKind::WouldBlock, words));
            }
            Err(TryLockError::Error(error)) => return Err(at(&file, error)),
        }
        let (document_bytes, journal_bytes) = (0, 0);
        Ok(Self { path, _lock: lock, saved: None, document_bytes, document_hash: String::new(), journal_bytes })
    }

    fn save_whole(&mut self, results: &Results) -> io::Result<()> {
        let text = results_json(results);
        replace(&self.path.join(RESULT_FILE), &text)?;
        // If it cannot be removed it is still not read: it continues another document.
        let _ = fs::remove_file(self.path.join(JOURNAL_FILE));
        self.whole_is(results, &text);
        Ok(())
    }

    fn whole_is(&mut self, results: &Results, text: &str) {
        self.document_bytes = text.len() as u64;
        self.document_hash = hash_text(text);
        self.journal_bytes = 0;
        self.saved = Some(Saved::all(results));
    }

    fn append(&mut self, lines: &[Line]) -> io::Result<()> {
        let path = self.path.join(JOURNAL_FILE);
        let first = (self.journal_bytes == 0).then(|| Line::Continues(self.document_hash.clone()));
        let mut text = String::new();
        for line in first.iter().chain(lines) {
            // Nothing is written but memory, and no map has keys other than strings: this cannot fail.
            text.push_str(&serde_json::to_string(line).unwrap_or_default());
            text.push('\n');
        }
        let mut file = OpenOptions::new().create(true).append(true).open(&path).map_err(|error| at(&path, error))?;
        let cut = file.set_len(self.journal_bytes);
        if let Err(error) = cut.and_then(|()| file.write_all(text.as_bytes())).and_then(|()| file.sync_all()) {
            let _ = file.set_len(self.journal_bytes); // half a line is not read, but it takes room
            return Err(at(&path, error));
        }
        self.journal_bytes += text.len() as u64;
        Ok(())
    }
}

/// Loads a run from its folder, with what came after the document was written, or from a file.
///
/// # Errors
/// The file cannot be read, is of another version, or holds an account that does not balance.
pub fn load_results(path: &Path) -> Result<Results, LoadError> {
    let is_folder = path.is_dir();
    let file = if is_folder { path.join(RESULT_FILE) } else { path.to_owned() };
    let failed = |path: &Path, error| LoadError::Read { path: path.to_owned(), error };
    let text = fs::read_to_string(&file).map_err(|error| failed(&file, error))?;
    let journal = path.join(JOURNAL_FILE);
    let bytes = match is_folder && journal.exists() {
        true => Some(fs::read(&journal).map_err(|error| failed(&journal, error))?),
        false => None,
    };
    read_results(&file, &text, bytes.as_deref())
}

/// A run from its document and its journal, where it has one. `file` is the document's name in errors.
///
/// # Errors
/// As [`load_results`].
pub fn read_results(file: &Path, document: &str, journal: Option<&[u8]>) -> Result<Results, LoadError> {
    let mut results: Results = parse(file, document, EXPERIMENT_SCHEMA)?;
    if let Some(journal) = journal {
        // A line cut short may end within a letter.
        replay(&mut results, document, &String::from_utf8_lossy(journal))
            .map_err(|what| LoadError::Journal { path: file.with_file_name(JOURNAL_FILE), what })?;
    }
    Ok(results)
}

/// Every report of a run, for the folder that it is in.
fn write_reports(path: &Path, results: &Results) -> io::Result<()> {
    for (name, text) in crate::reports(results) {
        replace(&path.join(name), &text)?;
    }
    Ok(())
}

/// The document as JSON: indented, one line end at the end. Numbers that are not finite become `null`.
pub fn results_json(results: &Results) -> String {
    let mut text = serde_json::to_string_pretty(results).unwrap_or_default();
    text.push('\n');
    text
}
