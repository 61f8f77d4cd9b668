//! Pages of packet memory on FreeBSD: the kernel makes superpages of aligned memory by itself (mmap(2)).
#![allow(unsafe_code)]

use std::io;
use std::ptr::NonNull;

/// The smallest page of any processor.
const PAGE: usize = 4096;

/// Maps memory of this process for `bytes` bytes, a multiple of 4,096: where it is, how much there is, and whether its pages are known to be
/// huge, which is not told here.
pub(crate) fn map_frames(bytes: usize) -> io::Result<(NonNull<u8>, usize, bool)> {
    let (protection, own) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANON);
    let flags = own | libc::MAP_ALIGNED_SUPER;
    // SAFETY: a fresh anonymous mapping at an address of the kernel's choice; touches no existing memory.
    let base = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let base = NonNull::new(base.cast::<u8>()).ok_or_else(|| io::Error::other("mmap returned address 0"))?;
    // A page is there once it was written to.
    for place in (0..bytes).step_by(PAGE) {
        // SAFETY: the byte is inside the mapping, which nobody else knows yet, and which is all zeros.
        unsafe { base.add(place).write_volatile(0) };
    }
    Ok((base, bytes, false))
}

/// Maps zeroed memory of this process for a table of `bytes` bytes: where it is, and how much there is.
pub(crate) fn map_table(bytes: usize) -> io::Result<(NonNull<u8>, usize)> {
    map_frames(bytes.next_multiple_of(PAGE)).map(|(base, bytes, _)| (base, bytes))
}

/// Asks for the pages of a mapping that was just made. A wish: the contents stay, and pages that are not there come when they are needed.
pub(crate) fn touch_shared(base: *mut libc::c_void, bytes: usize) {
    // SAFETY: the range is the mapping that was just made, and the advice changes no contents.
    unsafe { libc::madvise(base, bytes, libc::MADV_WILLNEED) };
}
