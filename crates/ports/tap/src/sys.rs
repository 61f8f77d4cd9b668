//! The requests of a descriptor of /dev/net/tun (linux/if_tun.h).
#![allow(unsafe_code)]

use linerate_sys::checked;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Makes `clone_device`, an open /dev/net/tun, the far end of TAP device `name`, which is made if there is none. Each packet has a note in
/// front (`struct virtio_net_hdr`) both ways.
pub(crate) fn attach(clone_device: &File, name: &str) -> io::Result<()> {
    // SAFETY: ifreq is a plain C structure of integers and pointers; all zeros is a value of it.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.len() >= request.ifr_name.len() {
        return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes one ifreq.
    checked(unsafe { libc::ioctl(clone_device.as_raw_fd(), libc::TUNSETIFF as _, &mut request) }).map(drop)
}

/// Sets the length of the notes, and what the kernel may leave to this side: with `offload`, checksums and the cutting of TCP segments.
pub(crate) fn set_up_notes(file: &File, note_bytes: libc::c_int, offload: bool) -> io::Result<()> {
    /// TUN_F_CSUM, TUN_F_TSO4, TUN_F_TSO6, TUN_F_TSO_ECN (linux/if_tun.h).
    const OFFLOADS: libc::c_ulong = 1 | 2 | 4 | 8;
    // SAFETY: TUNSETVNETHDRSZ reads one integer.
    checked(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETVNETHDRSZ as _, &note_bytes) })?;
    // SAFETY: TUNSETOFFLOAD takes a number.
    checked(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD as _, if offload { OFFLOADS } else { 0 }) })
        .map(drop)
}

/// The name that the device has now, in whatever namespace; waits for a deletion that is under way.
///
/// # Errors
/// `EBADFD` when the device is gone.
pub(crate) fn name(file: &File) -> io::Result<String> {
    // SAFETY: as in `attach`.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // SAFETY: TUNGETIFF writes one ifreq.
    checked(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNGETIFF as _, &mut request) })?;
    let bytes = request.ifr_name.iter().take_while(|byte| **byte != 0).map(|byte| *byte as u8).collect();
    String::from_utf8(bytes).map_err(io::Error::other)
}

/// The network namespace that the device is in now (Linux 5.2).
///
/// # Errors
/// `EPERM` without CAP_NET_ADMIN there, `EBADFD` when the device is gone.
pub(crate) fn namespace(file: &File) -> io::Result<OwnedFd> {
    // SAFETY: TUNGETDEVNETNS takes no argument and returns a new descriptor.
    let fd = checked(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNGETDEVNETNS as _, 0) })?;
    // SAFETY: `fd` was just made and belongs to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
