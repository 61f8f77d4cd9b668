//! What can go wrong with an open port.

use std::io;

/// Somebody wrote into the area what cannot be; in words that follow "the peer wrote".
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Corrupt(pub(crate) String);

/// Why a call failed.
#[derive(Debug)]
pub(crate) enum Fault {
    Corrupt(String),
    /// The interface was deleted, or the module unloaded.
    Gone,
    /// The interface is down or gone.
    NotUp,
    /// A packet is longer than the port takes.
    TooLong(usize),
    Io {
        operation: &'static str,
        source: io::Error,
    },
}

impl From<Corrupt> for Fault {
    fn from(Corrupt(what): Corrupt) -> Fault {
        Fault::Corrupt(what)
    }
}

impl Fault {
    /// The error of a sync: a descriptor whose interface went away says `ENXIO`, later `ENODEV` or `EBADF`.
    #[cold]
    pub(crate) fn of(operation: &'static str, source: io::Error) -> Fault {
        match source.raw_os_error() {
            Some(libc::ENXIO | libc::ENODEV) => Fault::Gone,
            _ => Fault::Io { operation, source },
        }
    }
}

/// A slot of a transmit ring names what cannot be written to.
#[cold]
pub(crate) fn wrong_buffer(index: u32, buffer: u32) -> Corrupt {
    Corrupt(format!("slot {index} with buffer {buffer}, which is not in the area"))
}
