//! A sleep whose descriptors are registered before it (epoll(7)), so that a thread that wakes up does not look at all of them.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::BorrowedFd;

use crate::epoll::Epoll;

/// What the descriptors of the last sleep are registered in.
#[derive(Debug, Default)]
pub(crate) struct Registered(Option<Epoll>);

impl Registered {
    /// Sleeps as ppoll(2) does.
    ///
    /// # Errors
    /// A descriptor cannot be registered, or is there twice; or the kernel is older than 5.11. Nobody slept then.
    pub(crate) fn sleep(&mut self, entries: &mut [libc::pollfd], timeout_ns: u64) -> io::Result<usize> {
        let mut registered = Epoll::new(entries.len())?;
        for (place, entry) in entries.iter_mut().enumerate() {
            entry.revents = 0;
            // SAFETY: the number is only handed to the kernel, which refuses one that is not open.
            let fd = unsafe { BorrowedFd::borrow_raw(entry.fd) };
            let (reading, writing) = (entry.events & libc::POLLIN != 0, entry.events & libc::POLLOUT != 0);
            registered.add_for(fd, place as u64, reading, writing)?;
        }
        let mut ready = 0;
        for (place, revents) in registered.wait(timeout_ns)? {
            if let Some(entry) = entries.get_mut(place as usize) {
                entry.revents = revents;
                ready += 1;
            }
        }
        self.0 = Some(registered);
        Ok(ready)
    }

    /// Forgets the descriptors, which takes a system call; to be called once what woke the thread is done.
    pub(crate) fn forget(&mut self) {
        self.0 = None;
    }
}
