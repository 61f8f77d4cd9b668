//! Wishes about this process's own memory.
#![allow(unsafe_code)]

/// A page; larger ones are a multiple of it.
const PAGE_BYTES: usize = 4096;

/// Asks the kernel to back this memory with huge pages where it can (madvise(2), MADV_HUGEPAGE; of x86-64 those of 2 MiB, on bounds
/// of 2 MiB). Only a wish: nothing happens where it cannot, and the contents stay.
pub fn prefer_huge_pages(bytes: &mut [u8]) {
    let before = bytes.as_ptr().align_offset(PAGE_BYTES).min(bytes.len());
    let inside = &mut bytes[before..];
    let len = inside.len() / PAGE_BYTES * PAGE_BYTES;
    if len > 0 {
        // SAFETY: whole pages inside of memory that is borrowed here, and MADV_HUGEPAGE changes no contents.
        unsafe { libc::madvise(inside.as_mut_ptr().cast(), len, libc::MADV_HUGEPAGE) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_stay_whatever_the_place() {
        let mut bytes: Vec<u8> = (0..5_000_000u32).map(|number| number as u8).collect();
        for start in [0, 1, 4095, 4096, 4_999_999, 5_000_000] {
            prefer_huge_pages(&mut bytes[start..]);
        }
        assert!(bytes.iter().enumerate().all(|(number, byte)| *byte == number as u8));
    }
}
