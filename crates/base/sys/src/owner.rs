//! Which process something outlives it belongs to, in words that a file's name can hold: `PID`, or `PID.INODE` in a PID namespace that is not
//! the machine's first one (pid_namespaces(7)).
//!
//! Numbers of processes mean something in their namespace alone: two containers that share a folder have processes of the same
//! number, and neither sees those of the other. So only a process of the same namespace says that an owner is gone.
#![allow(unsafe_code)]

use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::str::FromStr;

/// Inode of the machine's first PID namespace (`PROC_PID_INIT_INO`, include/linux/proc_ns.h).
const FIRST: u64 = 0xeffffffc;

/// A process, by its number in its PID namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    pid: u32,
    namespace: u64,
}

impl Owner {
    /// This process. Where there is no `/proc` to say its namespace, that is taken for the first one.
    pub fn this() -> Owner {
        let namespace = std::fs::metadata("/proc/self/ns/pid").map_or(FIRST, |namespace| namespace.ino());
        Owner { pid: std::process::id(), namespace }
    }

    /// True if the process is known to be gone: it was of this process's namespace, and nobody has its number now.
    pub fn is_gone(&self) -> bool {
        self.namespace == Owner::this().namespace && !exists(self.pid)
    }
}

/// True if a process of this namespace has the number.
fn exists(pid: u32) -> bool {
    let Ok(pid) = libc::pid_t::try_from(pid) else { return false };
    // SAFETY: signal 0 is sent to nobody (kill(2)); 0 and negative numbers, which stand for groups, do no harm either.
    pid > 0 && (unsafe { libc::kill(pid, 0) } == 0 || io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH))
}

impl fmt::Display for Owner {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace {
            FIRST => write!(out, "{}", self.pid),
            namespace => write!(out, "{}.{namespace}", self.pid),
        }
    }
}

/// A text that names no process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoOwner;

impl FromStr for Owner {
    type Err = NoOwner;

    fn from_str(text: &str) -> Result<Owner, NoOwner> {
        let (pid, namespace) = match text.split_once('.') {
            Some((pid, namespace)) => (pid, namespace.parse().map_err(|_| NoOwner)?),
            None => (text, FIRST),
        };
        Ok(Owner { pid: pid.parse().map_err(|_| NoOwner)?, namespace })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No system has a process of such a number (PID_MAX_LIMIT, include/linux/threads.h).
    const NOBODY: u32 = 4_194_999;

    #[test]
    fn names_are_read_as_they_are_written() {
        let here = Owner::this();
        for owner in [here, Owner { pid: 7, namespace: FIRST }, Owner { pid: 7, namespace: 12 }] {
            assert_eq!(owner.to_string().parse(), Ok(owner));
        }
        assert_eq!(Owner { pid: 7, namespace: FIRST }.to_string(), "7");
        for wrong in ["", "x", "7.", "7.x", "-7", "7.8.9", "7-8"] {
            assert_eq!(wrong.parse::<Owner>(), Err(NoOwner), "{wrong}");
        }
    }

    #[test]
    fn only_processes_of_this_namespace_are_known_to_be_gone() {
        let here = Owner::this();
        assert!(!here.is_gone());
        assert!(!Owner { pid: 1, ..here }.is_gone(), "another user's process is there");
        for pid in [0, NOBODY, u32::MAX] {
            assert!(Owner { pid, ..here }.is_gone());
            assert!(!Owner { pid, namespace: here.namespace + 1 }.is_gone(), "nobody here can say");
        }
    }
}
