//! FreeBSD has no epoll(7).

use std::io;

/// Nothing.
#[derive(Debug, Default)]
pub(crate) struct Registered;

impl Registered {
    /// Sleeps never.
    ///
    /// # Errors
    /// Always.
    pub(crate) fn sleep(&mut self, _: &mut [libc::pollfd], _: u64) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn forget(&mut self) {}
}
