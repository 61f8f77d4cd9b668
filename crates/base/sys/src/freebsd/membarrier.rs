//! A fence of all threads of this process, on FreeBSD: not used, since a kernel before 14 ends a process that asks for it (SIGSYS).

/// There is none, so that both fences are full ones.
pub(crate) fn register() -> bool {
    false
}

/// Does not work.
pub(crate) fn of_all_threads() -> bool {
    false
}
