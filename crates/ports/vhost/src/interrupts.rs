//! Interrupts of drivers: eventfds that their front-ends have as well.
//!
//! They are made so that a write never waits, but a front-end can undo that and fill the counter; whoever writes then waits
//! until somebody reads. So a thread of its own looks ten times a second for a port that hangs in a write, empties the counter, and
//! ends the connection. It takes no lock that the port could hold.

use std::fs::File;
use std::io::{self, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;

use linerate_sys::poll::{PollFor, poll};

use crate::device::Shared;
use crate::sys;

/// Between two looks.
const WATCH_MS: i32 = 100;

/// What a driver is interrupted by.
#[derive(Debug)]
pub(crate) struct Interrupt {
    file: File,
    /// Odd while the port writes.
    writes: AtomicU32,
}

impl Interrupt {
    /// By the eventfd behind `file`, and nothing else.
    pub(crate) fn new(file: &File) -> io::Result<Interrupt> {
        Ok(Interrupt { file: sys::own_eventfd(file)?, writes: AtomicU32::new(0) })
    }

    /// Interrupts the driver. One that has not looked since the last time needs nothing; so no error is of interest.
    #[cold]
    pub(crate) fn raise(&self) {
        self.writes.fetch_add(1, Ordering::Relaxed);
        let _ = (&self.file).write(&1u64.to_ne_bytes());
        self.writes.fetch_add(1, Ordering::Relaxed);
    }

    /// True when the port is in the write that it was in when there were `before` of them, and has to wait there.
    fn is_stuck(&self, before: u32) -> bool {
        let writes = self.writes.load(Ordering::Relaxed);
        let waits = || poll(self.file.as_fd(), PollFor::Writing, 0).is_ok_and(|found| !found.ready);
        writes % 2 == 1 && writes == before && waits()
    }
}

/// The interrupts of a connection, for who looks after them.
#[derive(Debug, Default)]
pub(crate) struct Interrupts {
    /// Each with its number of writes at the last look.
    all: Mutex<Vec<(Weak<Interrupt>, u32)>>,
    /// The port hung in one.
    jammed: AtomicBool,
}

impl Interrupts {
    pub(crate) fn add(&self, interrupt: &Arc<Interrupt>) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(interrupt, _)| interrupt.strong_count() > 0);
        all.push((Arc::downgrade(interrupt), 0));
    }

    /// True once after the port hung in an interrupt.
    pub(crate) fn take_jam(&self) -> bool {
        self.jammed.swap(false, Ordering::AcqRel)
    }

    /// Lets a port go on that hangs since the last look.
    fn free(&self) -> bool {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = false;
        for (interrupt, before) in all.iter_mut() {
            let Some(interrupt) = interrupt.upgrade() else { continue };
            if interrupt.is_stuck(*before) {
                sys::empty_eventfd(&interrupt.file);
                found = true;
            }
            *before = interrupt.writes.load(Ordering::Relaxed);
        }
        self.jammed.fetch_or(found, Ordering::AcqRel);
        found
    }
}

/// The thread that looks after the interrupts of one connection; it ends with this value.
#[derive(Debug)]
pub(crate) struct Watch {
    stop: Option<io::PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Closes `connection` when the port hung.
    pub(crate) fn start(shared: &Arc<Shared>, connection: UnixStream) -> io::Result<Watch> {
        let (stopped, stop) = io::pipe()?;
        let shared = Arc::clone(shared);
        let thread = std::thread::Builder::new().name("vhost watch".into()).spawn(move || {
            while matches!(sys::readable([stopped.as_fd()], WATCH_MS), Ok([false])) {
                if shared.interrupts.free() {
                    let _ = connection.shutdown(Shutdown::Both);
                }
            }
        })?;
        Ok(Watch { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
