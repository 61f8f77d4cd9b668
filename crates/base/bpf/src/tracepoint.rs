//! A program at a tracepoint of the kernel, with the tracepoint's own arguments ("raw tracepoint").
//!
//! The link is a descriptor: the program is gone when it is dropped, and the kernel drops it when the process ends in any way.

use std::ffi::CStr;
use std::os::fd::{AsFd, OwnedFd};

use crate::error::BpfError;
use crate::insn::Insn;
use crate::program;
use crate::sys::{self, ProgramKind};

/// A program that runs each time the kernel passes a tracepoint. Its context is the arguments, 8 bytes each.
#[derive(Debug)]
pub struct Tracepoint {
    program: OwnedFd,
    _link: OwnedFd,
}

impl Tracepoint {
    /// Loads the program under the name `name`, of which the kernel keeps 15 bytes, and attaches it.
    ///
    /// # Errors
    /// [`BpfError::Permission`] without CAP_BPF and CAP_PERFMON; [`BpfError::Verifier`]; [`BpfError::System`] with ENOENT
    /// where the kernel has no such tracepoint.
    pub fn attach(tracepoint: &CStr, name: &str, insns: &[Insn]) -> Result<Tracepoint, BpfError> {
        let program = program::load(ProgramKind::RawTracepoint, name, insns, 0, "load a tracepoint program")?;
        let link = sys::raw_tracepoint_open(program.as_fd(), tracepoint);
        let link = link.map_err(|source| BpfError::system("attach a tracepoint program", source))?;
        Ok(Tracepoint { program, _link: link })
    }

    /// How often the program was left out: it does not run inside an interrupt of itself.
    ///
    /// # Errors
    /// [`BpfError::System`] on kernels before 5.12, which do not count it.
    pub fn misses(&self) -> Result<u64, BpfError> {
        sys::program_misses(self.program.as_fd()).map_err(|source| BpfError::system("ask about a BPF program", source))
    }
}
