//! Reading a stored document: its version first, and why it cannot be read.

use serde::de::DeserializeOwned;
use std::io;
use std::path::{Path, PathBuf};

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
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file could not be read.
    #[error("{}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// The document is of another kind or version.
    #[error("{}: the document is `{schema}`, but `{expected}` is wanted here", path.display())]
    Schema {
        /// The file.
        path: PathBuf,
        /// What it says it is.
        schema: String,
        /// What this version reads there.
        expected: &'static str,
    },
    /// The file is not such a document, or its numbers do not balance.
    #[error("{}: {error}", path.display())]
    Document {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        #[source]
        error: serde_json::Error,
    },
    /// What was saved after the document does not fit it.
    #[error("{}: {what}", path.display())]
    Journal {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        what: String,
    },
}
