//! Errors of ports: one for opening, which says what to do, and one for a port that broke.

use std::fmt;
use std::io;

/// Why a port could not be opened, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenError {
    /// The spec as the user wrote it.
    pub spec: String,
    /// What is wrong: "needs CAP_NET_RAW".
    pub cause: String,
    /// What to do: "run with sudo, or try pipe:a". May be empty when the cause says it all.
    pub hint: String,
}

impl OpenError {
    /// An error with a cause and a hint.
    pub fn new(spec: impl fmt::Display, cause: impl Into<String>, hint: impl Into<String>) -> OpenError {
        OpenError { spec: spec.to_string(), cause: cause.into(), hint: hint.into() }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "cannot open {}: {}", self.spec, self.cause)?;
        if !self.hint.is_empty() {
            write!(out, ": {}", self.hint)?;
        }
        Ok(())
    }
}

impl std::error::Error for OpenError {}

/// The port is broken, or was asked for what it cannot do. A full or an empty ring is never an error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PortError {
    /// What the port stood on is gone: the interface was deleted, the device unplugged.
    #[error("{port}: gone: {what}")]
    Gone {
        /// The port's name.
        port: String,
        /// What went away, in words.
        what: String,
    },
    /// The interface was set down. It may come up again; the port says `Down` until it does.
    #[error(
        "{port}: the interface is down; `ip link set {interface} up` (FreeBSD: `ifconfig {interface} up`) brings it back"
    )]
    Down {
        /// The port's name.
        port: String,
        /// The interface's name.
        interface: String,
    },
    /// The other side of shared memory wrote something that cannot be.
    #[error("{port}: the peer wrote {what}; the port is closed to protect this process")]
    PeerCorrupt {
        /// The port's name.
        port: String,
        /// The value that cannot be, in words.
        what: String,
    },
    /// A packet is longer than the port can send; it and all behind it are still in the batch.
    #[error("{port}: a packet of {len} bytes (without FCS) is longer than the {max} that this port takes")]
    FrameTooLong {
        /// The port's name.
        port: String,
        /// The packet's length in bytes.
        len: usize,
        /// [`crate::Caps::frame_len_max`].
        max: usize,
    },
    /// The batch's frames are of another pool than the port's.
    #[error("{port}: the packets are of another pool than the one that the port was opened on")]
    ForeignPool {
        /// The port's name.
        port: String,
    },
    /// A request that this kind of port never fulfils.
    #[error("{port}: {what}")]
    Unsupported {
        /// The port's name.
        port: String,
        /// What it cannot do, in words.
        what: String,
    },
    /// A system call failed in a way that has no better name here.
    #[error("{port}: {operation}: {source}")]
    Io {
        /// The port's name.
        port: String,
        /// What was being done.
        operation: &'static str,
        /// What the kernel answered.
        source: io::Error,
    },
}
