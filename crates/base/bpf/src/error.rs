//! What can go wrong with bpf(2), told with what to do about it.

use std::io;

use linerate_sys::capability::{Capabilities, Capability};

use crate::assemble_error::AssembleError;
use crate::btf::BtfError;

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
    /// The kernel's types are not what a program needs to know of them.
    #[error(transparent)]
    Types(#[from] BtfError),
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
    /// Wraps a system error, explaining `EPERM` with what the process lacks.
    pub(crate) fn system(action: &'static str, source: io::Error) -> BpfError {
        match source.raw_os_error() {
            Some(libc::EPERM) => BpfError::permission(action),
            _ => BpfError::System { action, source },
        }
    }

    /// The error of an action that needs more capabilities.
    pub(crate) fn permission(action: &'static str) -> BpfError {
        BpfError::Permission { action, missing: missing_capability() }
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
            BpfError::Types(_) | BpfError::Assemble(_) | BpfError::Argument(_) => None,
        }
    }
}

/// What this thread lacks for bpf(2). Loading an XDP program takes CAP_BPF and CAP_NET_ADMIN; those here also compute
/// with packet pointers, which takes CAP_PERFMON (capabilities(7)). CAP_SYS_ADMIN stands for all.
fn missing_capability() -> String {
    let missing = missing_capabilities();
    let initial = Capabilities::read().is_ok_and(|held| held.in_initial_user_namespace());
    if !missing.is_empty() {
        format!("{} missing; run as root or grant it with setcap", missing.join(" and "))
    } else if !initial {
        "capabilities inside a user namespace do not count for bpf(2); run as root outside it".into()
    } else {
        "a security module or a seccomp filter forbids it, or the memlock limit is too low".into()
    }
}

/// The names of the capabilities that bpf(2) needs and this thread has not.
pub(crate) fn missing_capabilities() -> Vec<&'static str> {
    const NEEDED: [Capability; 3] = [Capability::Bpf, Capability::NetAdmin, Capability::Perfmon];
    let Ok(held) = Capabilities::read() else { return Vec::new() };
    let lacks = |capability: &Capability| !held.has(*capability) && !held.has(Capability::SysAdmin);
    NEEDED.into_iter().filter(lacks).map(Capability::name).collect()
}
