//! Wakes the thread that sleeps until its side of a pipe receives something. A sender pays for a look at one flag a batch, and for
//! a system call only if the other side sleeps. The fence that both need is the sleeper's to pay for.

use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use linerate_sys::fence;

/// The end of the side that sleeps, and shared by both.
pub(crate) struct Wakeup {
    is_armed: AtomicBool,
    /// What is written to and what is slept on; made when a side sleeps for the first time.
    line: OnceLock<Option<[UnixStream; 2]>>,
}

/// The end of the side that sends. Notifies when it is dropped, too.
pub(crate) struct Notifier(pub(crate) Arc<Wakeup>);

impl Wakeup {
    pub(crate) fn new() -> Wakeup {
        fence::prepare();
        Wakeup { is_armed: AtomicBool::new(false), line: OnceLock::new() }
    }

    /// The descriptor that becomes readable when the other side notifies. What was sent before may not notify. `None` if the process has no
    /// descriptor left, or the kernel refuses the fence.
    pub(crate) fn arm(&self) -> Option<BorrowedFd<'_>> {
        let [_, near] = self.line.get_or_init(|| line().ok()).as_ref()?;
        if !self.is_armed.swap(true, Ordering::Relaxed) {
            let _ = (&*near).read(&mut [0; 8]);
        }
        // Beside the fence of `notify`: the sender sees the flag, or the caller sees what it sent.
        fence::heavy().then(|| near.as_fd())
    }
}

impl Notifier {
    /// Wakes the other side if it sleeps. To be called behind what it shall see.
    #[inline]
    pub(crate) fn notify(&self) {
        fence::light();
        if self.0.is_armed.load(Ordering::Relaxed) {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        if let Some(Some([far, _])) = self.0.line.get() {
            // The byte comes before the flag falls, so that arming again takes it away. A full line is readable already.
            let _ = (&*far).write(&[1]);
            self.0.is_armed.store(false, Ordering::Release);
        }
    }
}

impl Drop for Notifier {
    fn drop(&mut self) {
        self.notify();
    }
}

fn line() -> std::io::Result<[UnixStream; 2]> {
    let (far, near) = UnixStream::pair()?;
    far.set_nonblocking(true)?;
    near.set_nonblocking(true)?;
    Ok([far, near])
}
