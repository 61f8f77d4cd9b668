//! How many descriptors this process may have open.
#![allow(unsafe_code)]

use crate::checked;
use std::io;

/// Raises the number of descriptors that this process may have open to `wanted` (getrlimit(2), `RLIMIT_NOFILE`): as far as its hard limit allows,
/// and beyond that with CAP_SYS_RESOURCE, up to `fs.nr_open`. Returns how many it may have open now, which may be fewer, or more.
///
/// # Errors
/// As getrlimit(2); there is no error for a limit that cannot be raised.
pub fn raise_open_files(wanted: libc::rlim_t) -> io::Result<libc::rlim_t> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is valid for the call.
    checked(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) })?;
    for hard in [limit.rlim_max.max(wanted), limit.rlim_max] {
        let raised = libc::rlimit { rlim_cur: wanted.clamp(limit.rlim_cur, hard), rlim_max: hard };
        // SAFETY: `raised` is valid for the call.
        if checked(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raised) }).is_ok() {
            return Ok(raised.rlim_cur);
        }
    }
    Ok(limit.rlim_cur)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_files_may_be_open_than_before_and_never_fewer() {
        let before = raise_open_files(0).expect("a limit");
        let after = raise_open_files(before + 1).expect("a limit");
        assert!(after == before || after == before + 1, "{before} and {after}");
        assert!(raise_open_files(libc::rlim_t::MAX).expect("a limit") >= after, "what cannot be had harms nothing");
    }
}
