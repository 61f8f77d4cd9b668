//! Promiscuous mode for as long as somebody wants it (bpf(4), BIOCPROMISC).
#![allow(unsafe_code)]

use crate::checked;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;

/// `BIOCSETIF` and `BIOCPROMISC`, net/bpf.h.
const BIOCSETIF: libc::c_ulong = 0x8020_426c;
const BIOCPROMISC: libc::c_ulong = 0x2000_4269;

/// Holds an interface in promiscuous mode. The kernel counts the holders: the mode ends with the last of them, and a holder
/// ends with its process, however that ends.
#[derive(Debug)]
pub struct Promiscuous {
    _bpf: File,
}

impl Promiscuous {
    /// Holds the interface with this index. The kernel gives no packet to its descriptor, which can only write.
    ///
    /// # Errors
    /// `NotFound` or `PermissionDenied` where /dev/bpf cannot be opened, `ENXIO` where there is no such interface.
    pub fn hold(index: u32) -> io::Result<Promiscuous> {
        let bpf = OpenOptions::new().write(true).open("/dev/bpf")?;
        // SAFETY: ifreq is a plain C structure of integers and pointers; all zeros is a value of it.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        // SAFETY: the name in the request has room for IFNAMSIZ bytes.
        if unsafe { libc::if_indextoname(index, request.ifr_name.as_mut_ptr()) }.is_null() {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the request is valid for reading.
        checked(unsafe { libc::ioctl(bpf.as_raw_fd(), BIOCSETIF, &raw const request) })?;
        // SAFETY: this one has no argument.
        checked(unsafe { libc::ioctl(bpf.as_raw_fd(), BIOCPROMISC, 0) })?;
        Ok(Promiscuous { _bpf: bpf })
    }
}
