//! Why a queue broke.

use std::io;

use linerate_mem::InvalidFrame;

/// What the kernel wrote that cannot be.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Corrupt(pub(crate) String);

impl From<InvalidFrame> for Corrupt {
    fn from(invalid: InvalidFrame) -> Corrupt {
        Corrupt(invalid.to_string())
    }
}

/// Why a queue broke.
#[derive(Debug)]
pub(crate) enum Fault {
    Corrupt(String),
    Down,
    Gone,
    Io { operation: &'static str, source: io::Error },
}

impl From<Corrupt> for Fault {
    fn from(corrupt: Corrupt) -> Fault {
        Fault::Corrupt(corrupt.0)
    }
}

impl Fault {
    /// Reads the answer to a kick: the kernel says there whether the interface is still there and up.
    pub(crate) fn from_kick(operation: &'static str, source: io::Error) -> Fault {
        match source.raw_os_error() {
            Some(libc::ENETDOWN) => Fault::Down,
            Some(libc::ENXIO | libc::ENODEV) => Fault::Gone,
            _ => Fault::Io { operation, source },
        }
    }
}
