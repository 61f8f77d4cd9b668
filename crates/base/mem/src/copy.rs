//! Copying packets into and out of memory that is shared with somebody, which slices cannot name.
#![allow(unsafe_code)]

/// Copies `len` bytes of a packet, no more: what lies behind it in its frame is of other packets. Short packets, the usual case where
/// time counts, go in pieces of 16 bytes of which the last ones overlap.
///
/// # Safety
/// Both ranges are valid and do not overlap.
#[inline(always)]
pub unsafe fn copy_bytes(from: *const u8, to: *mut u8, len: usize) {
    const PIECE: usize = 16;
    // SAFETY: pieces at 0, 16, and counted from the end, of ranges that are as long as the branch says.
    unsafe {
        let piece = |at: usize| std::ptr::copy_nonoverlapping(from.add(at), to.add(at), PIECE);
        match len {
            33..=64 => {
                piece(0);
                piece(PIECE);
                piece(len - 2 * PIECE);
                piece(len - PIECE);
            }
            PIECE..=32 => {
                piece(0);
                piece(len - PIECE);
            }
            _ => std::ptr::copy_nonoverlapping(from, to, len),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::copy_bytes;

    /// All bytes of a packet arrive, and none beside it changes, whatever its length.
    #[test]
    fn all_bytes_are_copied_and_no_others() {
        let from: Vec<u8> = (0..=255).collect();
        for len in 0..=200 {
            let mut to = [0xaa; 256];
            // SAFETY: both ranges have `len` bytes, and are of different allocations.
            unsafe { copy_bytes(from[8..].as_ptr(), to[16..].as_mut_ptr(), len) };
            assert!(to[16..16 + len] == from[8..8 + len], "{len}");
            assert!(to[..16] == [0xaa; 16] && to[16 + len..] == [0xaa; 256][16 + len..], "{len}");
        }
    }
}
