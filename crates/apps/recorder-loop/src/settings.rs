//! What a recorder is asked for.

use std::io;

use linerate_capture::{FileHead, PolicyError, RotationPolicy};
use linerate_pcapng::FileFormat;

/// Bytes of one buffer, and so of one write: with the padding behind it, a huge page.
pub const BUFFER_BYTES_DEFAULT: usize = (2 << 20) - 2 * linerate_capture::ALIGNMENT;
/// A packet of any length fits into a buffer of at least this.
pub const BUFFER_BYTES_MIN: usize = 512 << 10;
/// Bytes of all buffers together.
pub const QUEUE_BYTES_DEFAULT: usize = 64 << 20;

/// How long packets of a ring that pauses wait for others before a file gets them, nanoseconds: short enough for somebody who looks at the
/// file, long enough for full buffers at a megabyte in that time.
pub const SETTLE_NS_FILE: u64 = 250_000_000;

/// How bytes get to the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// Past the page cache where the file system allows it and the format can be padded (pcapng, not compressed), else through
    /// it.
    #[default]
    Best,
    /// Through the page cache.
    Buffered,
}

/// A recorder to be started.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The file, or what the names of rotated files are made of; `-` is standard output.
    pub path: String,
    /// Its format.
    pub format: FileFormat,
    /// What each file begins with.
    pub head: FileHead,
    /// When files end, and which are kept.
    pub policy: RotationPolicy,
    /// zstd level, 1 or 2 (`.cargo/config.toml` leaves the compressors of others out); each buffer becomes a frame of its own.
    pub zstd_level: Option<i32>,
    /// Bytes of one buffer.
    pub buffer_bytes: usize,
    /// Bytes of all buffers; at least two buffers for each intake.
    pub queue_bytes: usize,
    /// How bytes get to the disk.
    pub method: Method,
    /// Call fsync(2) when a file is closed. Without it a crash of the system (not of the program) loses what the system had not
    /// written yet.
    pub sync: bool,
    /// How long packets of a ring that pauses wait for others before they are written, nanoseconds.
    pub settle_ns: u64,
}

impl Settings {
    /// The usual settings for a file at `path`.
    pub fn new(path: impl Into<String>, head: FileHead) -> Settings {
        let path = path.into();
        Settings {
            format: FileFormat::of(&path),
            zstd_level: path.ends_with(".zst").then_some(1),
            // Whoever reads a pipe is there now.
            settle_ns: if is_file(&path) { SETTLE_NS_FILE } else { 0 },
            path,
            head,
            policy: RotationPolicy::default(),
            buffer_bytes: BUFFER_BYTES_DEFAULT,
            queue_bytes: QUEUE_BYTES_DEFAULT,
            method: Method::Best,
            sync: false,
        }
    }
}

/// False for standard output that is no file, and for a FIFO or device that is there already.
fn is_file(path: &str) -> bool {
    let path = if path == "-" { "/proc/self/fd/1" } else { path };
    std::fs::metadata(path).map_or(true, |metadata| metadata.is_file())
}

/// Why a recorder could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecorderError {
    /// Limits that do not go together.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The first file could not be made.
    #[error("{path}: {source}")]
    File {
        /// Its name.
        path: String,
        /// What the system answered.
        source: io::Error,
    },
    /// Standard output is one file only.
    #[error("standard output cannot be rotated; give a file's name with -w")]
    RotatedOutput,
    /// No thread.
    #[error("cannot start the writer's thread: {0}")]
    Thread(io::Error),
}
