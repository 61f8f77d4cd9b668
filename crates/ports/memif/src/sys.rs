//! Everything unsafe of this backend: the sockets and the descriptors that they carry, and the memory shared with the peer.
#![allow(unsafe_code)]

mod bell;
mod descriptor;
mod pool_file;
mod regions;
mod ring;
mod socket;

use std::io;

pub(crate) use bell::{Doorbell, RingWatch};
pub(crate) use descriptor::{COOKIE, Descriptor, NEXT, NO_INTERRUPT};
pub(crate) use pool_file::PoolFile;
pub(crate) use regions::{Regions, Span};
pub(crate) use ring::Ring;
pub(crate) use socket::{Channel, ListeningSocket, NAME_BYTES_MAX, Received};

/// The user that this process acts as.
pub(crate) fn own_uid() -> u32 {
    // SAFETY: no arguments, never fails.
    unsafe { libc::geteuid() }
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
