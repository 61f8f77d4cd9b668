//! A network interface by name, as far as all systems have it alike: the socket that asks the kernel about it (netdevice(7), netintro(4)).
#![allow(unsafe_code)]

use crate::checked;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Longest interface name, without the terminator (`IFNAMSIZ - 1`, net/if.h).
pub const NAME_LEN_MAX: usize = libc::IFNAMSIZ - 1;

/// What became of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// There, and administratively up.
    Up,
    /// There, and set down.
    Down,
    /// Deleted, renamed or moved to another namespace.
    Gone,
}

/// An interface of one network namespace: that in which it was opened (on FreeBSD, of that network stack).
#[derive(Debug)]
pub struct Netdev {
    socket: OwnedFd,
    name: String,
}

impl Netdev {
    /// The interface `name` of the calling thread's namespace.
    ///
    /// # Errors
    /// `NotFound` when there is no such interface, `InvalidInput` when it cannot be a name.
    pub fn open(name: &str) -> io::Result<Self> {
        check_name(name)?;
        // SAFETY: socket takes constants only.
        let fd = checked(unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) })?;
        let device = Self {
            // SAFETY: `fd` was just made and belongs to nobody else.
            socket: unsafe { OwnedFd::from_raw_fd(fd) },
            name: name.to_owned(),
        };
        device.index().map_err(|error| no_such_device(name, error))?;
        Ok(device)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is administratively up.
    ///
    /// # Errors
    /// `ENODEV` (on FreeBSD `ENXIO`) when the interface is gone.
    pub fn is_up(&self) -> io::Result<bool> {
        Ok(self.flags()? & libc::IFF_UP as u16 != 0)
    }

    /// What the kernel answers to a command that only asks.
    pub(crate) fn ask(&self, command: libc::c_ulong) -> io::Result<libc::ifreq> {
        let mut request = self.request();
        self.ioctl(command, &mut request).map(|()| request)
    }

    /// A request about it, in which nothing else is filled in.
    pub(crate) fn request(&self) -> libc::ifreq {
        // SAFETY: ifreq is a plain C structure of integers and pointers; all zeros is a value of it.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(self.name.bytes()) {
            *to = from as libc::c_char;
        }
        request
    }

    pub(crate) fn ioctl(&self, command: libc::c_ulong, request: &mut libc::ifreq) -> io::Result<()> {
        // SAFETY: the commands of this crate read and write one ifreq; those of Linux's `ioctl_on` also the memory behind its
        // pointer, for which its caller vouches.
        checked(unsafe { libc::ioctl(self.socket.as_raw_fd(), command as _, &raw mut *request) }).map(drop)
    }
}

/// Says which interface is not there, if that is the error: `ENODEV` on Linux, `ENXIO` on FreeBSD.
pub(crate) fn no_such_device(name: &str, error: io::Error) -> io::Error {
    if matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ENXIO)) {
        let text = format!("there is no interface `{name}` in this network namespace");
        return io::Error::new(io::ErrorKind::NotFound, text);
    }
    error
}

/// Refuses what cannot be the name of an interface.
fn check_name(name: &str) -> io::Result<()> {
    let forbidden = |c: char| c == '/' || c == ':' || c == '\0' || c.is_whitespace();
    if name.is_empty() || name.len() > NAME_LEN_MAX || name.contains(forbidden) {
        let text = format!("`{name}` is not an interface name (1 to {NAME_LEN_MAX} bytes)");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    Ok(())
}
