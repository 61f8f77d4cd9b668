//! Everything unsafe of this backend: the control device, and the memory that it shares.
#![allow(unsafe_code)]

mod area;
mod extra;
#[cfg_attr(target_os = "freebsd", path = "sys/freebsd.rs")]
#[cfg_attr(not(target_os = "freebsd"), path = "sys/linux.rs")]
mod system;

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use crate::abi::{self, Header, NAME_BYTES, PoolsInfo, Register};
use system::IOC_VOID;

pub(crate) use area::{Area, RingMemory};
pub(crate) use extra::ExtraBuffers;
pub(crate) use system::{BUFFER_SIZE_SETTING, BUFFERS_SETTING, INSTALL, let_wakers_finish};

/// A descriptor of `/dev/netmap`, which is bound to rings by [`Control::register`] once.
#[derive(Debug)]
pub(crate) struct Control {
    file: File,
}

impl Control {
    pub(crate) fn open() -> io::Result<Control> {
        OpenOptions::new().read(true).write(true).open(abi::DEVICE).map(|file| Control { file })
    }

    /// Binds the descriptor to rings of port `name`; `request` gets what the kernel chose.
    pub(crate) fn register(&self, name: &str, request: &mut Register) -> io::Result<()> {
        // SAFETY: the body of this request is a `Register` that can be written to.
        unsafe { self.control(abi::REGISTER, name, request) }
    }

    /// Where the buffers of the area of port `name` lie. `info` names the area, or 0 for the one that the port has.
    pub(crate) fn pools_info(&self, name: &str, info: &mut PoolsInfo) -> io::Result<()> {
        // SAFETY: the body of this request is a `PoolsInfo` that can be written to.
        unsafe { self.control(abi::POOLS_INFO, name, info) }
    }

    /// # Safety
    /// `body` is what the kernel reads and writes for this request.
    unsafe fn control<T>(&self, request: u16, name: &str, body: &mut T) -> io::Result<()> {
        let body = std::ptr::from_mut(body) as u64;
        let mut header = Header { version: abi::API, request, body, ..Header::EMPTY };
        // The last byte stays 0.
        let bytes = name.as_bytes();
        if bytes.len() >= NAME_BYTES {
            return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG));
        }
        header.name[..bytes.len()].copy_from_slice(bytes);
        // SAFETY: the header has the layout that the request is for, and its body is right by the caller's word.
        check(unsafe { libc::ioctl(self.file.as_raw_fd(), abi::CONTROL as _, &raw mut header) })
    }

    /// Hands over what was put into the transmit rings, and learns what was sent.
    #[inline]
    pub(crate) fn sync_transmit(&self) -> io::Result<()> {
        // SAFETY: the request has no argument.
        check(unsafe { libc::ioctl(self.file.as_raw_fd(), (IOC_VOID | abi::TX_SYNC) as _, 0) })
    }

    /// Gives back what was read in the receive rings, and learns what has arrived.
    #[inline]
    pub(crate) fn sync_receive(&self) -> io::Result<()> {
        // SAFETY: the request has no argument.
        check(unsafe { libc::ioctl(self.file.as_raw_fd(), (IOC_VOID | abi::RX_SYNC) as _, 0) })
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
