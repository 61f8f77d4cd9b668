//! Sleeping on one descriptor, or on several (ppoll(2)), with the timeout in nanoseconds.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::registered::Registered;
use crate::timespec::timespec;

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
    let timeout = timespec(timeout_ns);
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

/// Descriptors to sleep on together. Its memory is kept from one sleep to the next.
#[derive(Debug, Default)]
pub struct PollSet {
    entries: Vec<libc::pollfd>,
    registered: Registered,
}

impl PollSet {
    /// Forgets all descriptors.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.registered.forget();
    }

    /// Adds a descriptor; returns its place, for [`PollSet::result`]. One that is closed before the sleep counts as failed
    /// (`POLLNVAL`), or as whatever has its number then.
    pub fn add(&mut self, fd: BorrowedFd<'_>, reading: bool, writing: bool) -> usize {
        let events = if reading { libc::POLLIN } else { 0 } | if writing { libc::POLLOUT } else { 0 };
        self.entries.push(libc::pollfd { fd: fd.as_raw_fd(), events, revents: 0 });
        self.entries.len() - 1
    }

    /// Number of descriptors.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True without descriptors.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Sleeps until one of them is ready or has an error, `timeout_ns` is over, or a signal arrived; returns how many are.
    ///
    /// # Errors
    /// As ppoll(2); never `EINTR`.
    pub fn wait(&mut self, timeout_ns: u64) -> io::Result<usize> {
        let timeout = timespec(timeout_ns);
        let count = self.entries.len() as libc::nfds_t;
        self.entries.iter_mut().for_each(|entry| entry.revents = 0);
        // SAFETY: the entries and the time are valid for the call; there is no signal mask.
        match unsafe { libc::ppoll(self.entries.as_mut_ptr(), count, &timeout, std::ptr::null()) } {
            ready @ 0.. => Ok(ready as usize),
            _ => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => Ok(0),
                error => Err(error),
            },
        }
    }

    /// As [`PollSet::wait`], for a thread that has slept for some time when it wakes up: descriptors are registered first (epoll(7)), which takes a
    /// system call each, but a thread that wakes up does not look at all of them, whose files are in no cache by then. They are registered anew for
    /// each sleep, because a registration outlives a descriptor whose file somebody else has open, too; [`PollSet::clear`] forgets it. Where that
    /// does not go, it is [`PollSet::wait`].
    ///
    /// # Errors
    /// As ppoll(2); never `EINTR`.
    pub fn wait_long(&mut self, timeout_ns: u64) -> io::Result<usize> {
        self.registered.sleep(&mut self.entries, timeout_ns).or_else(|_| self.wait(timeout_ns))
    }

    /// What the last sleep found at the descriptor in place `index`: to read, to write, or failed.
    pub fn result(&self, index: usize) -> SetPolled {
        let revents = self.entries.get(index).map_or(0, |entry| entry.revents);
        SetPolled {
            readable: revents & libc::POLLIN != 0,
            writable: revents & libc::POLLOUT != 0,
            failed: revents & (libc::POLLERR | libc::POLLHUP | libc::POLLNVAL) != 0,
        }
    }
}

/// What a sleep on several descriptors found at one of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetPolled {
    /// There is something to read.
    pub readable: bool,
    /// There is room to write.
    pub writable: bool,
    /// It has an error or hung up: the next call on it tells which.
    pub failed: bool,
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

    /// Both ways to sleep.
    const WAYS: [fn(&mut PollSet, u64) -> io::Result<usize>; 2] = [PollSet::wait, PollSet::wait_long];

    #[test]
    fn several_are_slept_on_together() {
        for wait in WAYS {
            let (first, mut first_end) = io::pipe().unwrap();
            let (second, second_end) = io::pipe().unwrap();
            let mut set = PollSet::default();
            assert_eq!((set.add(first.as_fd(), true, false), set.add(second.as_fd(), true, false)), (0, 1));
            assert_eq!(wait(&mut set, 0).unwrap(), 0);
            first_end.write_all(b"x").unwrap();
            drop(second_end);
            assert_eq!(wait(&mut set, u64::MAX).unwrap(), 2);
            assert!(set.result(0).readable && !set.result(0).failed && set.result(1).failed);
            assert_eq!(set.result(2), SetPolled::default());
            set.clear();
            set.add(first_end.as_fd(), false, true);
            assert!(wait(&mut set, u64::MAX).unwrap() == 1 && set.result(0).writable && set.len() == 1);
        }
    }

    #[test]
    fn what_cannot_be_registered_is_slept_on_all_the_same() {
        let (reader, mut writer) = io::pipe().unwrap();
        let file = std::fs::File::open("/").unwrap();
        let mut set = PollSet::default();
        // One that is there twice, and one of a kind that is always ready.
        set.add(reader.as_fd(), true, false);
        set.add(reader.as_fd(), true, false);
        assert_eq!(set.wait_long(0).unwrap(), 0);
        writer.write_all(b"x").unwrap();
        assert_eq!(set.wait_long(u64::MAX).unwrap(), 2);
        assert!(set.result(0).readable && set.result(1).readable);
        set.add(file.as_fd(), true, false);
        assert_eq!(set.wait_long(u64::MAX).unwrap(), 3);
    }

    #[test]
    fn a_long_sleep_knows_only_the_descriptors_that_are_in_the_set_now() {
        let (first, mut first_end) = io::pipe().unwrap();
        let (second, _second_end) = io::pipe().unwrap();
        let mut set = PollSet::default();
        set.add(first.as_fd(), true, false);
        assert_eq!(set.wait_long(1_000_000).unwrap(), 0);
        // The file stays open with another number, as that of a bell that a peer has, too.
        let _kept = first.try_clone().unwrap();
        first_end.write_all(b"x").unwrap();
        drop(first);
        set.clear();
        set.add(second.as_fd(), true, false);
        assert_eq!(set.wait_long(1_000_000).unwrap(), 0);
        assert_eq!(set.result(0), SetPolled::default());
    }
}
