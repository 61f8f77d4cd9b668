//! Cells that are addressed by index, of which there are ever more and which never move: chunks, each as large as all before it.

use std::sync::OnceLock;

use linerate_mem::prefetch;

use crate::memory::{Array, Cell};

/// Cells of the first chunk, as a power of two. The model checker keeps an account of each cell, so it gets few.
const FIRST_BITS: u32 = if cfg!(loom) { 1 } else { 6 };
/// Chunks that a `u32` needs.
const CHUNKS: usize = (u32::BITS - FIRST_BITS) as usize + 1;

pub(crate) struct Chunks<T: Cell>(Box<[OnceLock<Array<T>>; CHUNKS]>);

impl<T: Cell> Chunks<T> {
    pub(crate) fn new() -> Chunks<T> {
        Chunks(Box::new(std::array::from_fn(|_| OnceLock::new())))
    }

    /// Sees that there is a cell `index`; on one thread at a time.
    pub(crate) fn reserve(&self, index: u32) {
        let (chunk, _) = place(index);
        self.0[chunk].get_or_init(|| Array::new(cells(chunk)));
    }

    /// Cell `index`, if it was reserved.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        let (chunk, offset) = place(index);
        self.0[chunk].get()?.get(offset)
    }

    /// Asks for the line of cell `index`.
    #[inline]
    pub(crate) fn prefetch(&self, index: u32) {
        let (chunk, offset) = place(index);
        if let Some(array) = self.0[chunk].get() {
            prefetch(array, offset);
        }
    }

    /// The cells of all chunks.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().filter_map(OnceLock::get).flat_map(|array| array.iter())
    }

    /// Bytes of the chunks.
    pub(crate) fn bytes(&self) -> usize {
        self.0.iter().filter_map(OnceLock::get).map(Array::bytes).sum()
    }
}

/// Cells of a chunk.
pub(crate) fn cells(chunk: usize) -> usize {
    1 << (FIRST_BITS as usize + chunk.saturating_sub(1))
}

/// Chunk of a cell, and where it lies there.
#[inline]
pub(crate) fn place(index: u32) -> (usize, usize) {
    let chunk = (u32::BITS - (index >> FIRST_BITS).leading_zeros()) as usize;
    let start = (1u64 << (FIRST_BITS as usize + chunk) >> 1) & !((1 << FIRST_BITS) - 1);
    (chunk, index as usize - start as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_follow_one_another_without_a_gap() {
        let mut index = 0u32;
        // Each is twice the one before it, and takes the interpreter twice as long.
        for chunk in 0..if cfg!(miri) { 6 } else { 12 } {
            for offset in 0..cells(chunk) {
                assert_eq!(place(index), (chunk, offset));
                index += 1;
            }
        }
        let (chunk, offset) = place(u32::MAX);
        assert!(chunk < CHUNKS && offset < cells(chunk));
    }
}
