//! Ctrl-C as a flag: work stops at the next batch, totals are printed, and everything that was set up is taken down.
#![allow(unsafe_code)]

use crate::checked;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

static SEEN: AtomicUsize = AtomicUsize::new(0);

extern "C" fn note(_signal: libc::c_int) {
    if SEEN.fetch_add(1, Ordering::Relaxed) >= 2 {
        // SAFETY: _exit is async-signal-safe. The third Ctrl-C means that the orderly way hangs.
        unsafe { libc::_exit(130) };
    }
}

/// From now on SIGINT, SIGTERM and SIGHUP set [`stop_requested`]; the third one ends the process at once. System calls that
/// sleep return early.
pub fn catch_stop_signals() -> io::Result<()> {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: a zeroed sigaction is valid; the handler only touches an atomic and calls _exit.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = note as *const () as usize;
        // SAFETY: both pointers are valid or null; the handler is async-signal-safe.
        checked(unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) })?;
    }
    Ok(())
}

/// True once a stop signal has arrived.
#[inline]
pub fn stop_requested() -> bool {
    SEEN.load(Ordering::Relaxed) > 0
}

/// As if a stop signal had arrived (a time limit, a peer that is gone).
pub fn request_stop() {
    SEEN.fetch_max(1, Ordering::Relaxed);
}
