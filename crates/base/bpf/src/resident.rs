//! Keeping a program in the kernel's XDP dispatcher, so that runs start at once.
//!
//! A run with more than one repetition enters its program into the dispatcher (a patched chain of direct
//! calls) and takes it out again, and each change waits for all CPUs: 16 to 32 ms in which nothing runs
//! (`bpf_test_run()` and `bpf_prog_change_xdp()`, Linux `net/bpf/test_run.c`, `kernel/bpf/dispatcher.c`).
//! A program that is attached to some interface is in the dispatcher already and a run starts in
//! some 15 us. So this attaches it where no frame ever comes: to the loopback interface, which is down,
//! of a network namespace of its own.

use linerate_sys::netns::NetNs;

use crate::error::BpfError;
use crate::link::{AttachMode, XdpLink};
use crate::program::Program;

/// The loopback interface's index, the same in every namespace (`LOOPBACK_IFINDEX`).
const LOOPBACK: u32 = 1;

/// A program's place in the dispatcher, given up on drop.
#[derive(Debug)]
pub struct Resident {
    _link: XdpLink,
    /// Its interface goes with the namespace.
    _namespace: NetNs,
}

impl Resident {
    /// Gives `program` a place.
    ///
    /// # Errors
    /// [`BpfError::System`] where no namespace can be made (CAP_SYS_ADMIN); else
    /// as [`XdpLink::attach`].
    pub fn new(program: &Program) -> Result<Resident, BpfError> {
        let failed = |source| BpfError::System { action: "make a network namespace", source };
        let namespace = NetNs::anonymous().map_err(failed)?;
        let link = namespace.run(|| XdpLink::attach(program, LOOPBACK, AttachMode::Generic)).map_err(failed)??;
        Ok(Resident { _link: link, _namespace: namespace })
    }
}
