//! FreeBSD has no epoll(7).

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// A set of descriptors, of which there is none.
#[derive(Debug)]
pub enum Epoll {}

impl Epoll {
    /// No set.
    ///
    /// # Errors
    /// Always.
    pub fn new(_: usize) -> io::Result<Epoll> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Is never called.
    ///
    /// # Errors
    /// None.
    pub fn add(&self, _: BorrowedFd<'_>, _: u64) -> io::Result<()> {
        match *self {}
    }

    /// Is never called.
    ///
    /// # Errors
    /// None.
    pub fn remove(&self, _: BorrowedFd<'_>) -> io::Result<()> {
        match *self {}
    }

    /// Is never called.
    ///
    /// # Errors
    /// None.
    pub fn ready(&mut self, _: &mut Vec<u64>) -> io::Result<()> {
        match *self {}
    }
}

impl AsFd for Epoll {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match *self {}
    }
}
