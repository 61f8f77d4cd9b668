//! Promiscuous mode for as long as somebody wants it (packet(7), PACKET_MR_PROMISC).
#![allow(unsafe_code)]

use crate::checked;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Holds an interface in promiscuous mode. The kernel counts the holders: the mode ends with the last of them, and a holder
/// ends with its process, however that ends.
#[derive(Debug)]
pub struct Promiscuous {
    _socket: OwnedFd,
}

impl Promiscuous {
    /// Holds the interface with this index in the calling thread's network namespace. Its socket receives nothing.
    ///
    /// # Errors
    /// `EPERM` without CAP_NET_RAW, `ENODEV` where there is no such interface.
    pub fn hold(index: u32) -> io::Result<Promiscuous> {
        // SAFETY: socket takes constants only. Protocol 0: no packet is ever received.
        let fd = checked(unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) })?;
        // SAFETY: `fd` was just made and belongs to nobody else.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        let request = libc::packet_mreq {
            mr_ifindex: index as libc::c_int,
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        let (from, len) = ((&raw const request).cast(), size_of_val(&request) as libc::socklen_t);
        // SAFETY: the request is valid for reading its own size.
        let result =
            unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, from, len) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(Promiscuous { _socket: socket }) }
    }
}
