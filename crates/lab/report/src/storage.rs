//! Results on disk: one folder a run, complete or absent.

use crate::{Document, SCHEMA, json, terminal};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

const RESULT_FILE: &str = "result.json";
const REPORT_FILE: &str = "report.txt";
const REPORT_COLUMNS: usize = 120;
const NAME_CHARACTERS_MAX: usize = 64;
/// So many runs of one name in one second have a folder each.
const SAME_NAME_MAX: u32 = 1_000;

/// Stores a document as `dir/<time>-<name>/result.json` with a readable `report.txt` beside it, and returns that folder.
///
/// The folder appears under its name only when both files are complete and on disk. An existing folder is never touched: a
/// second run of the same name in the same second gets `-2` appended.
///
/// # Errors
/// Whatever the file system refuses, with the path in the message.
pub fn store(dir: &Path, document: &Document) -> io::Result<PathBuf> {
    fs::create_dir_all(dir).map_err(|error| at(dir, error))?;
    let unfinished = Unfinished::create(dir)?;
    write_synced(&unfinished.0.join(RESULT_FILE), &json(document))?;
    write_synced(&unfinished.0.join(REPORT_FILE), &terminal(document, REPORT_COLUMNS, false))?;
    let name = format!("{}-{}", document.started.compact(), folder_name(&document.name));
    for number in 1..=SAME_NAME_MAX {
        let folder = if number == 1 { dir.join(&name) } else { dir.join(format!("{name}-{number}")) };
        match fs::rename(&unfinished.0, &folder) {
            Ok(()) => return Ok(folder),
            Err(error) if is_taken(&error) => {}
            Err(error) => return Err(at(&folder, error)),
        }
    }
    Err(at(&dir.join(&name), ErrorKind::AlreadyExists.into()))
}

/// Loads a document from a folder that [`store`] made, or from a file.
///
/// # Errors
/// The file cannot be read, is of another version, or holds an account that does not balance.
pub fn load(path: &Path) -> Result<Document, LoadError> {
    let file = if path.is_dir() { path.join(RESULT_FILE) } else { path.to_owned() };
    let text = fs::read_to_string(&file).map_err(|error| LoadError::Read { path: file.clone(), error })?;
    let document = |error| LoadError::Document { path: file.clone(), error };
    let head: Head = serde_json::from_str(&text).map_err(document)?;
    if head.schema != SCHEMA {
        return Err(LoadError::Schema { path: file, schema: head.schema });
    }
    serde_json::from_str(&text).map_err(document)
}

/// What every version of the document has.
#[derive(serde::Deserialize)]
struct Head {
    schema: String,
}

/// A folder that is removed unless it was renamed.
struct Unfinished(PathBuf);

impl Unfinished {
    fn create(dir: &Path) -> io::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = dir.join(format!(".unfinished-{}-{number}", std::process::id()));
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(at(&path, error)),
            }
        }
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // After the rename there is nothing under this name, and the error says so.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A folder of that name exists (the system calls a folder with files in it "not empty"), or a file does.
fn is_taken(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::DirectoryNotEmpty | ErrorKind::NotADirectory)
}

fn write_synced(path: &Path, text: &str) -> io::Result<()> {
    let write = || -> io::Result<()> {
        let mut file = File::create_new(path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    };
    write().map_err(|error| at(path, error))
}

fn at(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// The name with everything but letters, digits, dots, dashes and underscores replaced.
fn folder_name(name: &str) -> String {
    let keep = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '_');
    let name: String =
        name.chars().take(NAME_CHARACTERS_MAX).map(|letter| if keep(letter) { letter } else { '-' }).collect();
    if name.is_empty() { "run".to_owned() } else { name }
}

/// Why a document could not be loaded.
#[derive(Debug)]
pub enum LoadError {
    /// The file could not be read.
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The document is of another kind or version.
    Schema {
        /// The file.
        path: PathBuf,
        /// What it says it is.
        schema: String,
    },
    /// The file is not such a document, or its numbers do not balance.
    Document {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        error: serde_json::Error,
    },
}

impl fmt::Display for LoadError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { path, error } => write!(formatter, "{}: {error}", path.display()),
            Self::Schema { path, schema } => {
                write!(formatter, "{}: the document is `{schema}`, this version reads `{SCHEMA}`", path.display())
            }
            Self::Document { path, error } => write!(formatter, "{}: {error}", path.display()),
        }
    }
}

impl std::error::Error for LoadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Read { error, .. } => Some(error),
            Self::Schema { .. } => None,
            Self::Document { error, .. } => Some(error),
        }
    }
}
