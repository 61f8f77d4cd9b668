//! What a port sleeps on: eventfds (eventfd(2)), which the peer has, too; and the timer (timerfd_create(2)) of the thread that watches ports.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use linerate_sys::poll::{PollFor, poll};

use super::check;

/// An eventfd: what one side rings and the other sleeps on.
#[derive(Debug)]
pub(crate) struct Doorbell {
    fd: OwnedFd,
    /// Odd while a thread is about to ring.
    ringing: AtomicU32,
}

/// Whether the control thread looks now and then for a port that hangs while it rings its peer. It does as long as ports ring, so that a
/// process at rest sleeps.
#[derive(Debug)]
pub(crate) struct RingWatch {
    looks: AtomicBool,
    /// Wakes the thread at once, and a moment after a port began to ring.
    bells: OnceLock<(Doorbell, Alarm)>,
}

/// How long after a port began to ring the thread looks first. The thread is not woken for it: that would take time from the packet for
/// which the port rings.
const FIRST_LOOK_NS: u64 = 10_000_000;

impl RingWatch {
    pub(crate) const fn new() -> RingWatch {
        RingWatch { looks: AtomicBool::new(false), bells: OnceLock::new() }
    }

    /// What the thread sleeps on, from the first [`RingWatch::prepare`] on.
    pub(crate) fn bells(&self) -> Option<&(Doorbell, Alarm)> {
        self.bells.get()
    }

    /// Wakes the thread.
    pub(crate) fn wake(&self) {
        if let Some((bell, _)) = self.bells.get() {
            bell.ring();
        }
    }

    /// Forgets what woke the thread, which asks [`RingWatch::looks`] after that: a port that began to ring before is seen so, and one that
    /// begins later sets the alarm again.
    pub(crate) fn silence(&self) {
        if let Some((bell, alarm)) = self.bells.get() {
            bell.silence();
            alarm.set(0);
        }
    }

    pub(crate) fn prepare(&self) -> io::Result<()> {
        if self.bells.get().is_none() {
            // Second ones, made at the same time by another thread, are closed again.
            let _ = self.bells.set((Doorbell::new()?, Alarm::new()?));
        }
        Ok(())
    }

    pub(crate) fn looks(&self) -> bool {
        self.looks.load(Ordering::SeqCst)
    }

    /// The thread looks from now on, or no longer. In the latter case it looks once more after this: who began to ring before does not
    /// wake it, who begins later does.
    pub(crate) fn set(&self, looks: bool) {
        self.looks.store(looks, Ordering::SeqCst);
    }

    /// A port that has counted that it rings begins to.
    #[inline]
    fn begin(&self) {
        if !self.looks.load(Ordering::SeqCst)
            && !self.looks.swap(true, Ordering::SeqCst)
            && let Some((_, alarm)) = self.bells.get()
        {
            alarm.set(FIRST_LOOK_NS);
        }
    }
}

impl Doorbell {
    pub(crate) fn new() -> io::Result<Doorbell> {
        // SAFETY: takes constants only.
        let fd = check(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
        // SAFETY: `fd` was just made and belongs to nobody else.
        Ok(Doorbell { fd: unsafe { OwnedFd::from_raw_fd(fd) }, ringing: AtomicU32::new(0) })
    }

    /// One that a peer made. It must be an eventfd: to ring anything else might block, or do harm.
    pub(crate) fn of_peer(fd: OwnedFd) -> io::Result<Doorbell> {
        let kind = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()))?;
        if kind.as_os_str() != "anon_inode:[eventfd]" {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no eventfd"));
        }
        let bell = Doorbell { fd, ringing: AtomicU32::new(0) };
        bell.keep_from_blocking()?;
        Ok(bell)
    }

    /// Neither [`Doorbell::ring`] nor [`Doorbell::silence`] waits. The peer can undo this: it is a property of what both have.
    fn keep_from_blocking(&self) -> io::Result<()> {
        // SAFETY: takes a descriptor, a command and a number.
        check(unsafe { libc::fcntl(self.fd.as_raw_fd(), libc::F_SETFL, libc::O_RDWR | libc::O_NONBLOCK) })?;
        Ok(())
    }

    /// Rings at a peer, which may make that hang.
    #[inline]
    #[cold]
    pub(crate) fn ring_peer(&self, watch: &RingWatch) {
        self.ringing.fetch_add(1, Ordering::SeqCst);
        watch.begin();
        self.write();
        self.ringing.fetch_add(1, Ordering::Relaxed);
    }

    /// Rings at a thread of this process.
    pub(crate) fn ring(&self) {
        self.write();
    }

    /// One that rings already needs nothing; so no error is of interest.
    #[inline]
    fn write(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: eight live bytes.
        unsafe { libc::write(self.fd.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    /// Changes each time that a thread begins or ends to ring; odd in between.
    pub(crate) fn rings(&self) -> u32 {
        self.ringing.load(Ordering::SeqCst)
    }

    /// True when whoever rings would have to wait: a counter that no honest peer ever fills.
    pub(crate) fn is_full(&self) -> bool {
        poll(self.fd.as_fd(), PollFor::Writing, 0).is_ok_and(|found| !found.ready)
    }

    /// Lets go on who hangs in [`Doorbell::ring`], because the peer has made the call wait and filled the counter.
    pub(crate) fn free(&self) {
        // If the flag cannot be set, the counter is emptied all the same.
        let _ = self.keep_from_blocking();
        self.silence();
    }

    /// What a peer can do to it: whoever rings then waits.
    #[cfg(test)]
    pub(crate) fn jam(&self) {
        let most = (u64::MAX - 1).to_ne_bytes();
        self.silence();
        // SAFETY: a descriptor, a command and a number; eight live bytes.
        unsafe {
            libc::fcntl(self.fd.as_raw_fd(), libc::F_SETFL, libc::O_RDWR);
            libc::write(self.fd.as_raw_fd(), most.as_ptr().cast(), most.len());
        }
    }

    /// Takes the ringing away, if there is some.
    #[inline]
    pub(crate) fn silence(&self) {
        let mut count = [0u8; 8];
        let part = libc::iovec { iov_base: count.as_mut_ptr().cast(), iov_len: count.len() };
        // SAFETY: one live buffer of eight bytes. RWF_NOWAIT holds whatever the peer did to the descriptor's flags.
        let read = unsafe { libc::preadv2(self.fd.as_raw_fd(), &part, 1, -1, libc::RWF_NOWAIT) };
        if read < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EOPNOTSUPP) {
            // SAFETY: as above.
            unsafe { libc::read(self.fd.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
        }
    }
}

impl AsFd for Doorbell {
    #[inline]
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A clock that becomes readable.
#[derive(Debug)]
pub(crate) struct Alarm {
    fd: OwnedFd,
}

impl Alarm {
    pub(crate) fn new() -> io::Result<Alarm> {
        let flags = libc::TFD_CLOEXEC | libc::TFD_NONBLOCK;
        // SAFETY: takes constants only.
        let fd = check(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, flags) })?;
        // SAFETY: `fd` was just made and belongs to nobody else.
        Ok(Alarm { fd: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    /// Sets it to ring once in `delay_ns`, or with 0 never. It no longer rings for what was before.
    #[inline]
    pub(crate) fn set(&self, delay_ns: u64) {
        let part = |ns: u64| libc::timespec {
            tv_sec: (ns / 1_000_000_000) as _,
            tv_nsec: (ns % 1_000_000_000) as libc::c_long,
        };
        let setting = libc::itimerspec { it_interval: part(0), it_value: part(delay_ns) };
        // SAFETY: the setting is live; the one before is not asked for.
        unsafe { libc::timerfd_settime(self.fd.as_raw_fd(), 0, &setting, std::ptr::null_mut()) };
    }
}

impl AsFd for Alarm {
    #[inline]
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
