//! Pages of packet memory on Linux: huge ones where there are some, all there before the first packet comes (mmap(2), madvise(2)).
#![allow(unsafe_code)]

use std::io;
use std::ptr::NonNull;

const HUGE_PAGE: usize = 2 << 20;
/// A table of so many bytes is worth a huge page: it has as many pages as cores keep addresses of in the nearest of their buffers, 64 or so.
const HUGE_FROM: usize = 256 << 10;

/// Maps memory of this process for `bytes` bytes, a multiple of 4,096: where it is, how much there is, and whether its pages are huge.
pub(crate) fn map_frames(bytes: usize) -> io::Result<(NonNull<u8>, usize, bool)> {
    match map_pages(bytes.next_multiple_of(HUGE_PAGE), libc::MAP_HUGETLB) {
        Ok(base) => Ok((base, bytes.next_multiple_of(HUGE_PAGE), true)),
        Err(_) => map_pages(bytes, 0).map(|base| (base, bytes, false)),
    }
}

/// Maps zeroed memory of this process for a table of `bytes` bytes: where it is, and how much there is. One that would take a good part of the addresses
/// that a core keeps translated lies on transparent huge pages if the kernel gives some; those of packet memory are not taken for it.
pub(crate) fn map_table(bytes: usize) -> io::Result<(NonNull<u8>, usize)> {
    let bytes = bytes.next_multiple_of(if bytes < HUGE_FROM { 4096 } else { HUGE_PAGE });
    Ok((map_pages(bytes, 0)?, bytes))
}

fn map_pages(bytes: usize, flags: i32) -> io::Result<NonNull<u8>> {
    if cfg!(miri) && flags != 0 {
        return Err(io::Error::other("the interpreter has no huge pages"));
    }
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags;
    // SAFETY: a fresh anonymous mapping at an address of the kernel's choice; touches no existing memory.
    let base = unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    touch_shared(base, bytes);
    NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mmap returned address 0"))
}

/// Asks for transparent huge pages, then for all pages at once, of a mapping that was just made. Both are wishes: a kernel that refuses them
/// faults the pages in one by one instead. The contents stay.
pub(crate) fn touch_shared(base: *mut libc::c_void, bytes: usize) {
    if cfg!(miri) {
        return;
    }
    // SAFETY: the range is the mapping that was just made, and madvise with these values changes no contents.
    unsafe {
        libc::madvise(base, bytes, libc::MADV_HUGEPAGE);
        libc::madvise(base, bytes, libc::MADV_POPULATE_WRITE);
    }
}
