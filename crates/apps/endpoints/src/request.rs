//! The requests of the control socket that only a program over TCP has. docs/tcp.md describes them.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Most connections in one reply; `next` of the reply says where to go on.
pub const CONNECTIONS_MAX: u32 = 1024;

/// The requests that only a program over TCP answers. [`linerate_control::Command`] has the others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// A table.
    Show {
        /// Which.
        what: What,
        /// Of `connections`: where to go on, from `next` of the reply before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<u32>,
    },
    /// Frames are written to a file from now on, or not any more.
    Capture {
        /// The file, by its absolute path; none: the capture ends.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        file: Option<PathBuf>,
    },
}

/// A table that can be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// Connections, as `ss -ti` shows them.
    Connections,
    /// Counters, as `nstat` shows them.
    Counters,
    /// The program, its port and its worker.
    Stats,
}
