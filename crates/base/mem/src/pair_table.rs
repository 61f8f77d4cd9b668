//! The memory of a hash table of [`FourPairs`].
#![allow(unsafe_code)]

use std::alloc::{Layout, handle_alloc_error};
use std::ops::Deref;
use std::ptr::NonNull;

use crate::{FourPairs, pages};

/// Lines of four pairs in one mapping, all there before the first one is used; a table of 256 KiB or more lies on huge pages if the kernel has some, so that
/// a core finds the address of each line without a walk.
///
/// ```
/// let table = linerate_mem::PairTable::new(4);
/// table[3].set_key(0, 5);
/// assert_eq!((table.len(), table[3].position(5), table[0].position(5)), (4, Some(0), None));
/// ```
pub struct PairTable {
    first: NonNull<FourPairs>,
    lines: usize,
    /// Of the mapping.
    bytes: usize,
}

// SAFETY: the table owns its mapping, as a box does, and lines are atomic words.
unsafe impl Send for PairTable {}
// SAFETY: as above; the table hands out shared references only.
unsafe impl Sync for PairTable {}

impl PairTable {
    /// Makes a table of `lines` lines, whose keys and values are zero. As with a vector, the process ends if there is no memory.
    ///
    /// # Panics
    /// When there are no lines, or more than fit into the addresses that there are.
    pub fn new(lines: usize) -> PairTable {
        assert!(lines > 0, "a table without lines");
        let layout = Layout::array::<FourPairs>(lines).expect("a table is smaller than the address space");
        let Ok((base, bytes)) = pages::map_table(layout.size()) else { handle_alloc_error(layout) };
        PairTable { first: base.cast(), lines, bytes }
    }
}

impl Deref for PairTable {
    type Target = [FourPairs];

    #[inline]
    fn deref(&self) -> &[FourPairs] {
        // SAFETY: the mapping begins at a page, has room for so many lines, and lives as long as the table. Zeroes, with which it began, are valid words.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.lines) }
    }
}

impl Drop for PairTable {
    fn drop(&mut self) {
        // SAFETY: `new` made the mapping with this size, and nothing refers to it any more.
        unsafe { libc::munmap(self.first.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_every_size_are_empty_and_have_all_of_their_lines() {
        let most = if cfg!(miri) { 64 } else { 32 << 10 };
        for lines in [1, 2, 63, 64, 4095, 4096, most].into_iter().filter(|lines| *lines <= most) {
            let table = PairTable::new(lines);
            assert_eq!(table.len(), lines);
            assert!(table.iter().all(|line| (0..4).all(|at| (line.key(at), line.value(at)) == (0, 0))));
            for (number, line) in table.iter().enumerate() {
                line.set_key(number % 4, number as u64 + 1);
                line.set_value(number % 4, number as u64 + 2);
            }
            let found = |(number, line): (usize, &FourPairs)| {
                line.position(number as u64 + 1) == Some(number % 4) && line.value(number % 4) == number as u64 + 2
            };
            assert!(table.iter().enumerate().all(found));
        }
    }
}
