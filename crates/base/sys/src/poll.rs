//! Sleeping on one descriptor (ppoll(2)), with the timeout in nanoseconds.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// What to sleep for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollFor {
    /// Something to read.
    Reading,
    /// Room to write.
    Writing,
}

/// What ended the sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Polled {
    /// What was slept for is there.
    pub ready: bool,
    /// The descriptor has an error or hung up: the next call on it tells which.
    pub failed: bool,
}

/// Sleeps until `fd` is ready or has an error, `timeout_ns` is over, or a signal arrived (then neither field is set).
///
/// # Errors
/// As ppoll(2); never `EINTR`.
pub fn poll(fd: BorrowedFd<'_>, wanted: PollFor, timeout_ns: u64) -> io::Result<Polled> {
    let events = match wanted {
        PollFor::Reading => libc::POLLIN,
        PollFor::Writing => libc::POLLOUT,
    };
    let mut entry = libc::pollfd { fd: fd.as_raw_fd(), events, revents: 0 };
    let timeout = libc::timespec {
        tv_sec: i64::try_from(timeout_ns / 1_000_000_000).unwrap_or(i64::MAX) as libc::time_t,
        tv_nsec: (timeout_ns % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: one valid pollfd, a valid timespec, no signal mask.
    match unsafe { libc::ppoll(&mut entry, 1, &timeout, std::ptr::null()) } {
        0.. => {
            let failed = entry.revents & (libc::POLLERR | libc::POLLHUP | libc::POLLNVAL) != 0;
            Ok(Polled { ready: entry.revents & events != 0, failed })
        }
        _ => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => Ok(Polled { ready: false, failed: false }),
            error => Err(error),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn tells_readiness_time_out_and_hang_up_apart() {
        let (reader, mut writer) = io::pipe().unwrap();
        let none = Polled { ready: false, failed: false };
        assert_eq!(poll(reader.as_fd(), PollFor::Reading, 0).unwrap(), none);
        assert!(poll(writer.as_fd(), PollFor::Writing, u64::MAX).unwrap().ready);
        writer.write_all(b"x").unwrap();
        assert_eq!(poll(reader.as_fd(), PollFor::Reading, u64::MAX).unwrap(), Polled { ready: true, failed: false });
        drop(reader);
        assert!(poll(writer.as_fd(), PollFor::Writing, u64::MAX).unwrap().failed);
    }
}
