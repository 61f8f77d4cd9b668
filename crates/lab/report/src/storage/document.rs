//! Reading a stored document: its version first, and why it cannot be read.

use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};
use std::{fmt, io};

pub(super) const RESULT_FILE: &str = "result.json";

/// Reads the text of `file`, if it is of the version `expected`.
pub(super) fn parse<T: DeserializeOwned>(file: &Path, text: &str, expected: &'static str) -> Result<T, LoadError> {
    let document = |error| LoadError::Document { path: file.to_owned(), error };
    let head: Head = serde_json::from_str(text).map_err(document)?;
    if head.schema != expected {
        return Err(LoadError::Schema { path: file.to_owned(), schema: head.schema, expected });
    }
    serde_json::from_str(text).map_err(document)
}

/// What every version of the document has.
#[derive(serde::Deserialize)]
struct Head {
    schema: String,
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
        /// What this version reads there.
        expected: &'static str,
    },
    /// The file is not such a document, or its numbers do not balance.
    Document {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        error: serde_json::Error,
    },
    /// What was saved after the document does not fit it.
    Journal {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        what: String,
    },
}

impl fmt::Display for LoadError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { path, error } => write!(formatter, "{}: {error}", path.display()),
            Self::Schema { path, schema, expected } => {
                write!(formatter, "{}: the document is `{schema}`, but `{expected}` is wanted here", path.display())
            }
            Self::Document { path, error } => write!(formatter, "{}: {error}", path.display()),
            Self::Journal { path, what } => write!(formatter, "{}: {what}", path.display()),
        }
    }
}

impl std::error::Error for LoadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Read { error, .. } => Some(error),
            Self::Schema { .. } | Self::Journal { .. } => None,
            Self::Document { error, .. } => Some(error),
        }
    }
}
