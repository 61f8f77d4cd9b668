//! What is Linux's own: numbers of requests, the scheduler, and what its users are told.

/// What `_IO` adds to the number of a request (asm-generic/ioctl.h): nothing.
pub(super) const IOC_VOID: libc::c_ulong = 0;

/// How netmap gets into the kernel.
pub(crate) const INSTALL: &str = "load its module: `modprobe netmap`; docs/netmap.md says how to build it";
/// Where the number of buffers and their size are set.
pub(crate) const BUFFERS_SETTING: &str = "buf_num in /sys/module/netmap/parameters";
pub(crate) const BUFFER_SIZE_SETTING: &str = "buf_size in /sys/module/netmap/parameters";

/// Makes the calling thread one of those that wait for the turn of the thread that wakes them, instead of taking its core away at once
/// (SCHED_BATCH, sched(7)), unless it is in another class than ordinary threads already. It then finds more to do. Nothing happens if the
/// kernel refuses.
pub(crate) fn let_wakers_finish() {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the calls take numbers, and parameters that live as long as the call.
    unsafe {
        if libc::sched_getscheduler(0) == libc::SCHED_OTHER {
            libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const parameters);
        }
    }
}
