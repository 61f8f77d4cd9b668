//! A bell between two threads: one rings, the other sleeps on its descriptor among others.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// Rings. Clones ring the same bell.
#[derive(Clone, Debug)]
pub(crate) struct Bell(Arc<UnixStream>);

/// Hears it.
#[derive(Debug)]
pub(crate) struct Ear(UnixStream);

pub(crate) fn bell() -> io::Result<(Bell, Ear)> {
    let (far, near) = UnixStream::pair()?;
    far.set_nonblocking(true)?;
    near.set_nonblocking(true)?;
    Ok((Bell(Arc::new(far)), Ear(near)))
}

impl Bell {
    pub(crate) fn ring(&self) {
        // A full socket rings already; without a far end there is nobody to wake.
        let _ = (&*self.0).write(&[1]);
    }
}

impl Ear {
    /// Makes it quiet again.
    pub(crate) fn hush(&self) {
        let mut bytes = [0; 64];
        while matches!((&self.0).read(&mut bytes), Ok(read) if read == bytes.len()) {}
    }
}

impl AsFd for Ear {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
