//! Times as system calls take them.

/// A time in nanoseconds.
pub(crate) fn timespec(ns: u64) -> libc::timespec {
    libc::timespec {
        tv_sec: i64::try_from(ns / 1_000_000_000).unwrap_or(i64::MAX) as _,
        tv_nsec: (ns % 1_000_000_000) as libc::c_long,
    }
}
