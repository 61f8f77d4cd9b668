//! A system call that the tests need: capset(2).
#![allow(unsafe_code)]

use std::io;

/// Keeps only the capabilities of this thread whose bits are in `kept` (capset(2), version 3).
pub fn keep_capabilities(kept: u64) -> io::Result<()> {
    let header: [u32; 2] = [0x2008_0522, 0];
    let (low, high) = (kept as u32, (kept >> 32) as u32);
    let data = [low, low, 0, high, high, 0];
    // SAFETY: the header and the data have the layouts and lengths of version 3.
    let result = unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), data.as_ptr()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
