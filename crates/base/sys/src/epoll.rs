//! Many descriptors at once: which of them have something to read (epoll(7)), at a cost that does not grow with their number.
#![allow(unsafe_code)]

use crate::checked;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// A set of descriptors.
#[derive(Debug)]
pub struct Epoll {
    fd: OwnedFd,
    events: Vec<libc::epoll_event>,
}

impl Epoll {
    /// An empty set, of which at most `events_max` descriptors are told at a time.
    ///
    /// # Errors
    /// As epoll_create1(2).
    pub fn new(events_max: usize) -> io::Result<Epoll> {
        // SAFETY: no memory is passed.
        let fd = checked(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: the kernel has just made it, and nobody else has it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Epoll { fd, events: vec![libc::epoll_event { events: 0, u64: 0 }; events_max.max(1)] })
    }

    /// Adds a descriptor under a number. It leaves the set when it is closed.
    ///
    /// # Errors
    /// As epoll_ctl(2).
    pub fn add(&self, fd: BorrowedFd<'_>, number: u64) -> io::Result<()> {
        self.add_for(fd, number, true, false)
    }

    /// Takes a descriptor out.
    ///
    /// # Errors
    /// As epoll_ctl(2): `ENOENT` if it is not in the set.
    pub fn remove(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, fd, 0, 0)
    }

    /// As [`Epoll::add`], for something to read, room to write, or both.
    ///
    /// # Errors
    /// As epoll_ctl(2).
    pub fn add_for(&self, fd: BorrowedFd<'_>, number: u64, reading: bool, writing: bool) -> io::Result<()> {
        let events = if reading { libc::EPOLLIN } else { 0 } | if writing { libc::EPOLLOUT } else { 0 };
        self.control(libc::EPOLL_CTL_ADD, fd, events, number)
    }

    fn control(&self, operation: libc::c_int, fd: BorrowedFd<'_>, events: libc::c_int, number: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events: events as u32, u64: number };
        // SAFETY: both descriptors are open, and `event` is valid for the call.
        checked(unsafe { libc::epoll_ctl(self.fd.as_raw_fd(), operation, fd.as_raw_fd(), &mut event) }).map(drop)
    }

    /// Sleeps until a descriptor is ready or has an error, `timeout_ns` is over, or a signal arrived. Returns the number of each that is, and
    /// what it is ready for as poll(2) says it.
    ///
    /// # Errors
    /// As epoll_pwait2(2), which is of Linux 5.11; never `EINTR`.
    pub fn wait(&mut self, timeout_ns: u64) -> io::Result<impl Iterator<Item = (u64, libc::c_short)> + '_> {
        let timeout = crate::timespec::timespec(timeout_ns);
        let most = self.events.len().min(i32::MAX as usize);
        let (events, no_mask) = (self.events.as_mut_ptr(), std::ptr::null::<libc::sigset_t>());
        // SAFETY: the kernel writes at most `most` events into memory that holds as many; the time is valid for the call, there is no signal mask.
        let told = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.fd.as_raw_fd(),
                events,
                most as libc::c_int,
                &timeout,
                no_mask,
                0,
            )
        };
        let count = match told {
            0.. => told as usize,
            _ => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => 0,
                error => return Err(error),
            },
        };
        // EPOLLIN, EPOLLOUT, EPOLLERR and EPOLLHUP are the same bits as those of poll(2).
        Ok(self.events.iter().take(count).map(|event| (event.u64, event.events as libc::c_short)))
    }

    /// Appends the numbers of descriptors that can be read now, or have ended, without waiting.
    ///
    /// # Errors
    /// As epoll_wait(2); never `EINTR`.
    pub fn ready(&mut self, numbers: &mut Vec<u64>) -> io::Result<()> {
        let most = self.events.len().min(i32::MAX as usize) as i32;
        // SAFETY: the kernel writes at most `most` events into memory that holds as many.
        match unsafe { libc::epoll_wait(self.fd.as_raw_fd(), self.events.as_mut_ptr(), most, 0) } {
            count @ 0.. => {
                numbers.extend(self.events.iter().take(count as usize).map(|event| event.u64));
                Ok(())
            }
            _ => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => Ok(()),
                error => Err(error),
            },
        }
    }
}

impl AsFd for Epoll {
    /// A descriptor that can be read while one of the set's is ready.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn one_that_is_taken_out_is_told_no_more() {
        let (reader, mut writer) = io::pipe().expect("a pipe");
        let mut set = Epoll::new(2).expect("a set");
        set.add(reader.as_fd(), 7).expect("added");
        writer.write_all(b"x").expect("written");
        let is_ready =
            |set: &Epoll| crate::poll::poll(set.as_fd(), crate::poll::PollFor::Reading, 0).expect("polled").ready;
        assert!(is_ready(&set));
        set.remove(reader.as_fd()).expect("removed");
        let mut told = Vec::new();
        set.ready(&mut told).expect("told");
        assert!(told.is_empty() && !is_ready(&set) && set.remove(reader.as_fd()).is_err());
    }

    #[test]
    fn those_that_can_be_read_are_told_by_their_numbers() {
        let pipes: Vec<_> = (0..5).map(|_| io::pipe().expect("a pipe")).collect();
        let mut set = Epoll::new(2).expect("a set");
        pipes.iter().zip(10..).for_each(|((reader, _), number)| set.add(reader.as_fd(), number).expect("added"));
        let mut told = Vec::new();
        set.ready(&mut told).expect("told");
        assert_eq!(told, []);
        for index in [1, 3] {
            (&pipes[index].1).write_all(b"x").expect("written");
        }
        set.ready(&mut told).expect("told");
        told.sort_unstable();
        assert_eq!(told, [11, 13]);
    }
}
