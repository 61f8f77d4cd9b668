//! Loading programs.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::error::{BpfError, missing_capabilities};
use crate::insn::Insn;
use crate::map::object_name;
use crate::sys::{self, ProgramKind};

/// The most of the verifier's log that an error carries: its end, where the reason stands.
pub const LOG_BYTES_MAX: usize = 4096;

/// Room for the whole log of a failed load.
const LOG_BUFFER_BYTES: usize = 1 << 20;

/// `BPF_F_XDP_HAS_FRAGS`: the program can take frames in several buffers.
const BPF_F_XDP_HAS_FRAGS: u32 = 1 << 5;

/// How to load a program.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProgramOptions {
    /// The program takes frames in several buffers (large MTUs).
    pub frags: bool,
}

/// A loaded XDP program. Unloaded when this and all links to it are dropped.
#[derive(Debug)]
pub struct Program {
    fd: OwnedFd,
}

impl Program {
    /// Loads an XDP program under the name `name`, of which the kernel keeps 15 bytes.
    ///
    /// # Errors
    /// [`BpfError::Permission`] with what the process lacks; [`BpfError::Verifier`] with the end
    /// of the verifier's log if it has something to say; else [`BpfError::System`].
    pub fn load_xdp(name: &str, insns: &[Insn], options: ProgramOptions) -> Result<Program, BpfError> {
        let flags = if options.frags { BPF_F_XDP_HAS_FRAGS } else { 0 };
        Ok(Program { fd: load(ProgramKind::Xdp, name, insns, flags, "load an XDP program")? })
    }
}

/// Loads a program of any kind.
pub(crate) fn load(
    kind: ProgramKind,
    name: &str,
    insns: &[Insn],
    flags: u32,
    action: &'static str,
) -> Result<OwnedFd, BpfError> {
    let field = object_name(name);
    sys::program_load(kind, insns, flags, field, &mut []).map_err(|source| {
        match failure_log(kind, insns, flags, field) {
            // Without CAP_PERFMON the verifier refuses what it lets root do.
            Some(_) if !missing_capabilities().is_empty() => BpfError::permission(action),
            Some(log) => BpfError::Verifier { name: name.to_owned(), source, log },
            None => BpfError::system(action, source),
        }
    })
}

impl AsFd for Program {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Loads once more for the verifier's log alone; none if it never got to the verifier.
fn failure_log(kind: ProgramKind, insns: &[Insn], flags: u32, name: [u8; 16]) -> Option<String> {
    let mut log = vec![0; LOG_BUFFER_BYTES];
    drop(sys::program_load(kind, insns, flags, name, &mut log));
    let written = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
    let text = log[..written].trim_ascii();
    if text.is_empty() { None } else { Some(last_bytes(text)) }
}

/// The end of `text`, cut at a line.
fn last_bytes(text: &[u8]) -> String {
    let start = text.len().saturating_sub(LOG_BYTES_MAX);
    let mut tail = &text[start..];
    if start > 0 {
        let line = tail.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        tail = &tail[line..];
    }
    String::from_utf8_lossy(tail).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_logs_keep_their_end() {
        let text: Vec<u8> = (0..1000).flat_map(|n| format!("line {n}\n").into_bytes()).collect();
        let tail = last_bytes(&text);
        assert!(tail.len() <= LOG_BYTES_MAX && tail.starts_with("line "));
        assert!(tail.ends_with("line 999\n"));
        assert_eq!(last_bytes(b"short"), "short");
    }
}
