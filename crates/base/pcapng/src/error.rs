//! What can be wrong with a capture file. Offsets are in bytes from the start of the file.

use std::io;

/// Why a capture file cannot be read (on).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// Reading failed.
    #[error("reading at byte {offset}: {source}")]
    Io {
        /// Where.
        offset: u64,
        /// What the system answered.
        source: io::Error,
    },
    /// The file is of another kind.
    #[error("{what}")]
    NotACapture {
        /// What it is, as far as its first bytes tell.
        what: String,
    },
    /// The file ends inside a record or a header.
    #[error("the file ends inside the {what} that begins at byte {offset}: {present} of its {wanted} bytes are there")]
    Truncated {
        /// Start of what is cut off.
        offset: u64,
        /// What it is.
        what: &'static str,
        /// Bytes that are there.
        present: usize,
        /// Bytes that it says it has.
        wanted: usize,
    },
    /// A field has a value that cannot be.
    #[error("the {what} at byte {offset} is corrupt: {problem}")]
    Corrupt {
        /// Start of the record.
        offset: u64,
        /// What it is.
        what: &'static str,
        /// The field and its value.
        problem: String,
    },
}

impl CaptureError {
    pub(crate) fn corrupt(offset: u64, what: &'static str, problem: impl Into<String>) -> CaptureError {
        CaptureError::Corrupt { offset, what, problem: problem.into() }
    }
}
