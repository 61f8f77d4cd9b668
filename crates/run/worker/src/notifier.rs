//! Wakes a thread that sleeps on descriptors from another thread.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// Wakes the thread that sleeps on the [`Wakeup`]. Clones wake the same thread.
#[derive(Clone, Debug)]
pub struct Notifier(Arc<UnixStream>);

/// A descriptor that becomes readable when a [`Notifier`] notifies.
#[derive(Debug)]
pub struct Wakeup(UnixStream);

/// Makes a notifier and its wakeup.
///
/// # Errors
/// The process has no descriptor left.
pub fn notifier() -> io::Result<(Notifier, Wakeup)> {
    let (far, near) = UnixStream::pair()?;
    far.set_nonblocking(true)?;
    near.set_nonblocking(true)?;
    Ok((Notifier(Arc::new(far)), Wakeup(near)))
}

impl Notifier {
    /// Wakes the thread, now or when it sleeps next.
    pub fn notify(&self) {
        // A full socket is readable already; if the other end is gone, there is nobody to wake.
        let _ = (&*self.0).write(&[1]);
    }
}

impl Wakeup {
    /// Forgets all notifications, so that the next sleep lasts until a new one.
    pub fn clear(&self) {
        let mut bytes = [0; 64];
        while matches!((&self.0).read(&mut bytes), Ok(read) if read == bytes.len()) {}
    }
}

impl AsFd for Wakeup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
