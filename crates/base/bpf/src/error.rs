//! What can go wrong with bpf(2), told with what to do about it.

use std::fs;
use std::io;

use crate::asm::AssembleError;

/// Why a map, program, link or run failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BpfError {
    /// The process may not do this.
    #[error("{action}: not permitted: {missing}")]
    Permission {
        /// What was tried.
        action: &'static str,
        /// What the process lacks.
        missing: String,
    },
    /// Another program holds the interface.
    #[error(
        "interface {ifindex}: another XDP program is attached; detach it first \
         (`ip link set dev IF xdp off`, or end the process that holds its link)"
    )]
    Busy {
        /// The interface's index.
        ifindex: u32,
    },
    /// The driver cannot run the program with frames this large.
    #[error(
        "interface {ifindex}: the MTU is too large for this program; lower the MTU, load the program \
         with `frags`, or attach in generic mode"
    )]
    MtuTooLarge {
        /// The interface's index.
        ifindex: u32,
    },
    /// The driver has no XDP in the mode asked for.
    #[error("interface {ifindex}: the driver cannot do XDP in this mode; attach in generic mode")]
    Unsupported {
        /// The interface's index.
        ifindex: u32,
    },
    /// There is no such interface in this network namespace.
    #[error("interface {ifindex}: not in this network namespace")]
    NoInterface {
        /// The interface's index.
        ifindex: u32,
    },
    /// The verifier refused the program.
    #[error("program {name} refused: {source}\n{log}")]
    Verifier {
        /// The program's name.
        name: String,
        /// The error number.
        source: io::Error,
        /// The end of the verifier's log, at most [`crate::program::LOG_BYTES_MAX`] bytes.
        log: String,
    },
    /// The program could not be assembled.
    #[error(transparent)]
    Assemble(#[from] AssembleError),
    /// An argument that cannot work, found before any system call.
    #[error("{0}")]
    Argument(String),
    /// Any other failure of a system call.
    #[error("{action}: {source}")]
    System {
        /// What was tried.
        action: &'static str,
        /// The error number.
        source: io::Error,
    },
}

impl BpfError {
    /// Wraps a system error, explaining `EPERM` and `EACCES` with what the process lacks.
    pub(crate) fn system(action: &'static str, source: io::Error) -> BpfError {
        match source.raw_os_error() {
            Some(libc::EPERM) => BpfError::Permission { action, missing: missing_capability() },
            _ => BpfError::System { action, source },
        }
    }

    /// The error number of the system call behind this error, if there is one.
    pub fn errno(&self) -> Option<i32> {
        match self {
            BpfError::Permission { .. } => Some(libc::EPERM),
            BpfError::Busy { .. } => Some(libc::EBUSY),
            BpfError::MtuTooLarge { .. } => Some(libc::ERANGE),
            BpfError::Unsupported { .. } => Some(libc::EOPNOTSUPP),
            BpfError::NoInterface { .. } => Some(libc::ENODEV),
            BpfError::Verifier { source, .. } | BpfError::System { source, .. } => source.raw_os_error(),
            BpfError::Assemble(_) | BpfError::Argument(_) => None,
        }
    }
}

/// Says which capability this thread lacks for bpf(2) (capabilities(7)).
fn missing_capability() -> String {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let users = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    describe_missing(&status, &users)
}

/// The text for `status` (as /proc/PID/status) and `users` (as /proc/PID/uid_map).
fn describe_missing(status: &str, users: &str) -> String {
    const CAPABILITIES: [(u32, &str); 2] = [(39, "CAP_BPF"), (12, "CAP_NET_ADMIN")];
    const CAP_SYS_ADMIN: u64 = 1 << 21;
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let held = line.and_then(|text| u64::from_str_radix(text.trim(), 16).ok()).unwrap_or(0);
    let lacks = |bit: &u32| held & (1 << bit) == 0 && held & CAP_SYS_ADMIN == 0;
    let missing: Vec<&str> = CAPABILITIES.iter().filter(|(bit, _)| lacks(bit)).map(|(_, name)| *name).collect();
    let whole_range = users.split_whitespace().eq(["0", "0", "4294967295"]);
    if !missing.is_empty() {
        format!("{} missing; run as root or grant it with setcap", missing.join(" and "))
    } else if !users.is_empty() && !whole_range {
        "capabilities inside a user namespace do not count for bpf(2); run as root outside it".into()
    } else {
        "a security module or a seccomp filter forbids it, or the memlock limit is too low".into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_missing_capability() {
        let none = describe_missing("Name:\tx\nCapEff:\t0000000000000000\n", "0 0 4294967295");
        assert!(none.starts_with("CAP_BPF and CAP_NET_ADMIN missing"), "{none}");
        let net = describe_missing("CapEff:\t0000000000001000\n", "0 0 4294967295");
        assert!(net.starts_with("CAP_BPF missing"), "{net}");
        let user = describe_missing("CapEff:\t000001ffffffffff\n", "0 1000 1\n");
        assert!(user.contains("user namespace"), "{user}");
        let other = describe_missing("CapEff:\t000001ffffffffff\n", "0 0 4294967295\n");
        assert!(other.contains("security module"), "{other}");
    }
}
