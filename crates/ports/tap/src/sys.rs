//! The one request that ties a descriptor of /dev/net/tun to a device (linux/if_tun.h).
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Makes `clone_device`, an open /dev/net/tun, the far end of TAP device `name`, which is made if there is none.
pub(crate) fn attach(clone_device: &File, name: &str) -> io::Result<()> {
    // SAFETY: ifreq is a plain C structure of integers and pointers; all zeros is a value of it.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.len() >= request.ifr_name.len() {
        return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes one ifreq.
    match unsafe { libc::ioctl(clone_device.as_raw_fd(), libc::TUNSETIFF as _, &mut request) } {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
