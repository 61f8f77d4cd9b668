//! Cores: which there are for this process, and on which one a thread runs (sched_setaffinity(2)).
#![allow(unsafe_code)]

use crate::checked;
use std::io;

/// The cores that this thread may run on, in rising order.
pub fn allowed_cores() -> Vec<usize> {
    // SAFETY: a cpu_set_t of zeroes is a valid, empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is valid for writing its own size.
    if unsafe { libc::sched_getaffinity(0, size_of_val(&set), &mut set) } != 0 {
        return vec![0];
    }
    // SAFETY: CPU_ISSET only reads bit `core`, which is below the set's size.
    (0..libc::CPU_SETSIZE as usize).filter(|core| unsafe { libc::CPU_ISSET(*core, &set) }).collect()
}

/// Ties the calling thread to one core.
pub fn pin_to_core(core: usize) -> io::Result<()> {
    pin_thread(0, &[core])
}

/// Ties the thread `thread_id` (0 = the calling one) to the given cores. Threads of others need CAP_SYS_NICE.
pub fn pin_thread(thread_id: i32, cores: &[usize]) -> io::Result<()> {
    // SAFETY: as above.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for core in cores {
        if *core >= libc::CPU_SETSIZE as usize {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("there is no core {core}")));
        }
        // SAFETY: the core is below the set's size.
        unsafe { libc::CPU_SET(*core, &mut set) };
    }
    // SAFETY: the set is valid for reading its own size.
    checked(unsafe { libc::sched_setaffinity(thread_id, size_of_val(&set), &set) }).map(drop)
}

/// Gives the thread `thread_id` (0 = the calling one) this nice value, -20 to 19 (setpriority(2), per thread on Linux). Less than
/// the present one needs CAP_SYS_NICE.
pub fn set_nice(thread_id: i32, nice: i32) -> io::Result<()> {
    // SAFETY: plain numbers; touches no memory.
    checked(unsafe { libc::setpriority(libc::PRIO_PROCESS, thread_id as libc::id_t, nice) }).map(drop)
}

/// Puts the thread `thread_id` (0 = the calling one) into the real-time class SCHED_FIFO at `priority`, 1 to 99, or with 0 back into the
/// class of ordinary threads (sched_setscheduler(2)). Needs CAP_SYS_NICE.
pub fn set_fifo(thread_id: i32, priority: i32) -> io::Result<()> {
    let policy = if priority == 0 { libc::SCHED_OTHER } else { libc::SCHED_FIFO };
    // SAFETY: plain numbers; all zeros is a value. The musl library has more of them than the kernel.
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    parameters.sched_priority = priority;
    // SAFETY: the kernel reads one `sched_param`, which lives across the call.
    checked(unsafe { libc::sched_setscheduler(thread_id, policy, &parameters) }).map(drop)
}

/// The kernel's number of the calling thread.
pub fn thread_id() -> i32 {
    // SAFETY: no arguments, no failure.
    unsafe { libc::gettid() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_may_run_on_that_core_only() {
        let core = *allowed_cores().last().unwrap();
        std::thread::spawn(move || {
            pin_to_core(core).unwrap();
            assert_eq!(allowed_cores(), [core]);
        })
        .join()
        .unwrap();
        assert!(pin_to_core(100_000).is_err());
    }
}
