//! System calls that the tests need: a packet socket (packet(7)), capset(2).
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Gives up all capabilities of this thread (capset(2), version 3).
pub fn drop_capabilities() -> io::Result<()> {
    let header: [u32; 2] = [0x2008_0522, 0];
    let data = [0u32; 6];
    // SAFETY: the header and the data have the layouts and lengths of version 3.
    let result = unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), data.as_ptr()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// What arrives on one interface, as its stack sees it.
pub struct PacketSocket {
    fd: OwnedFd,
}

impl PacketSocket {
    /// On interface `ifindex` of the calling thread's namespace.
    pub fn open(ifindex: u32) -> io::Result<PacketSocket> {
        let every = (libc::ETH_P_ALL as u16).to_be();
        // SAFETY: socket takes constants only.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_NONBLOCK, every.into()) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `fd` was just made and belongs to nobody else.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let bytes: libc::c_int = 64 << 20;
        let value = (&raw const bytes).cast();
        // SAFETY: the value is a live int; a smaller buffer is no error.
        unsafe { libc::setsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, value, 4) };
        // SAFETY: a structure of integers, for which all zeros is a value.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = every;
        address.sll_ifindex = ifindex as i32;
        let len = size_of_val(&address) as libc::socklen_t;
        // SAFETY: the address is a valid sockaddr_ll of the length given.
        match unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len) } {
            0 => Ok(PacketSocket { fd }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// The next packet, if one has arrived.
    pub fn receive(&self) -> io::Result<Option<Vec<u8>>> {
        let mut packet = vec![0; 10_000];
        // SAFETY: the buffer is valid for writing its length.
        let len = unsafe { libc::recv(self.fd.as_raw_fd(), packet.as_mut_ptr().cast(), packet.len(), 0) };
        if let Ok(len) = usize::try_from(len) {
            packet.truncate(len);
            return Ok(Some(packet));
        }
        match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            // The interface went down; what comes after may still be received.
            error if error.raw_os_error() == Some(libc::ENETDOWN) => Ok(None),
            error => Err(error),
        }
    }
}
