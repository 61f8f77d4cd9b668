//! A fence of all threads of this process, on Linux (membarrier(2)).
#![allow(unsafe_code)]

/// linux/membarrier.h; since Linux 4.14.
const MEMBARRIER_CMD_PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
const MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

/// Tells the kernel that this process will pass such fences; false if it has none.
pub(crate) fn register() -> bool {
    membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)
}

/// Passes the fence; false if that did not work.
pub(crate) fn of_all_threads() -> bool {
    membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)
}

fn membarrier(command: libc::c_int) -> bool {
    // SAFETY: the call takes numbers and touches no memory of the caller.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}
