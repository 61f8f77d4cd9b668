//! A system call that the tests need: capset(2).
#![allow(unsafe_code)]

use std::io;

/// Gives up all capabilities of this thread (capset(2), version 3).
pub fn drop_capabilities() -> io::Result<()> {
    let header: [u32; 2] = [0x2008_0522, 0];
    let data = [0u32; 6];
    // SAFETY: the header and the data have the layouts and lengths of version 3.
    let result = unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), data.as_ptr()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
