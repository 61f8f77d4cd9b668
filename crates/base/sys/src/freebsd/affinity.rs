//! Cores: which there are for this process, and on which one a thread runs (cpuset_getaffinity(2)).
#![allow(unsafe_code)]

use crate::checked;
use std::io;

/// Numbers of cores, at most (`CPU_MAXSIZE` of sys/_cpuset.h, since FreeBSD 14).
const CORES_MAX: usize = 1024;

/// `cpuset_t` as the kernel has it since FreeBSD 14, which is longer than that of the libc crate.
#[repr(C)]
struct Set([u64; CORES_MAX / 64]);

/// Its bytes, and those of a kernel before FreeBSD 14 (256 cores), which takes no other number.
const BYTES: usize = size_of::<Set>();
const BYTES_BEFORE_14: usize = 32;
const _: () = assert!(BYTES == 128);

impl Set {
    const EMPTY: Set = Set([0; CORES_MAX / 64]);

    fn has(&self, core: usize) -> bool {
        self.0.get(core / 64).is_some_and(|word| word >> (core % 64) & 1 == 1)
    }
}

/// The calling thread, for the calls below.
const THIS_THREAD: libc::id_t = -1;

/// The cores that this thread may run on, in rising order.
pub fn allowed_cores() -> Vec<usize> {
    let mut set = Set::EMPTY;
    let (which, place) = ((libc::CPU_LEVEL_WHICH, libc::CPU_WHICH_TID), (&raw mut set).cast());
    // SAFETY: the set is valid for writing its own size, and less.
    let get = |bytes| unsafe { libc::cpuset_getaffinity(which.0, which.1, THIS_THREAD, bytes, place) };
    if of_kernel_size(get).is_err() {
        return vec![0];
    }
    (0..CORES_MAX).filter(|core| set.has(*core)).collect()
}

/// Ties the calling thread to one core.
///
/// # Errors
/// As [`pin_thread`].
pub fn pin_to_core(core: usize) -> io::Result<()> {
    pin_thread(0, &[core])
}

/// Ties the thread `thread_id` (0 = the calling one) to the given cores.
///
/// # Errors
/// `InvalidInput` for a core that no machine has, `EDEADLK` or `EINVAL` for one that this process may not use.
pub fn pin_thread(thread_id: i32, cores: &[usize]) -> io::Result<()> {
    let mut set = Set::EMPTY;
    for core in cores {
        let Some(word) = set.0.get_mut(core / 64) else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("there is no core {core}")));
        };
        *word |= 1 << (core % 64);
    }
    let thread = if thread_id == 0 { THIS_THREAD } else { libc::id_t::from(thread_id) };
    let (which, place) = ((libc::CPU_LEVEL_WHICH, libc::CPU_WHICH_TID), (&raw const set).cast());
    // SAFETY: the set is valid for reading its own size, and less. Cores that a short set has no room for are refused as those that are
    // not there: the set is empty then.
    of_kernel_size(|bytes| unsafe { libc::cpuset_setaffinity(which.0, which.1, thread, bytes, place) })
}

/// Makes a call with the size that the kernel takes.
fn of_kernel_size(mut call: impl FnMut(usize) -> libc::c_int) -> io::Result<()> {
    match checked(call(BYTES)) {
        Err(error) if error.raw_os_error() == Some(libc::ERANGE) => checked(call(BYTES_BEFORE_14)).map(drop),
        made => made.map(drop),
    }
}
