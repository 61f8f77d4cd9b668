//! Slots as words for a library that moves packets itself (DPDK's drivers), many with one call.
#![allow(unsafe_code)]

use crate::Batch;

impl Batch {
    /// Appends slots. `write` gets the free words behind the last slot, at least one if the batch has room, writes words of slots
    /// into the first of them and returns their number. Returns that number.
    ///
    /// # Safety
    /// Each word that `write` counts names a frame of this batch's region that the caller owns and nothing else does, and a packet
    /// inside it.
    #[inline]
    pub unsafe fn append_words(&mut self, write: impl FnOnce(&mut [u64]) -> usize) -> usize {
        let spare = self.spare_words();
        let count = write(spare).min(spare.len());
        // SAFETY: the caller vouches for the first `count` words.
        unsafe { self.grow(count) };
        count
    }

    /// Takes slots out. `take` gets the words of all slots, and returns how many of the first it took: it owns their frames now.
    /// Returns that number.
    #[inline]
    pub fn take_words(&mut self, take: impl FnOnce(&[u64]) -> usize) -> usize {
        let words = self.words();
        let count = take(words).min(words.len());
        self.drain_words(count);
        count
    }
}

#[cfg(test)]
mod tests {
    use crate::{Batch, Pool, PoolConfig, Slot};

    #[test]
    fn slots_go_out_as_words_and_come_back() {
        let mut pool = Pool::new(PoolConfig { frames: 64, ..PoolConfig::default() }).unwrap();
        let mut batch = Batch::new(&pool, 16);
        assert_eq!(pool.alloc(&mut batch, 6, 60), 6);
        let mut library = Vec::new();
        let taken = batch.take_words(|words| {
            library.extend_from_slice(&words[..4]);
            4
        });
        assert_eq!((taken, batch.len(), pool.available()), (4, 2, 58));
        // SAFETY: the words were taken out a moment ago, and go back once.
        let back = unsafe {
            batch.append_words(|words| {
                words[..3].copy_from_slice(&library[..3]);
                3
            })
        };
        assert_eq!((back, batch.len(), batch.packet(4).len()), (3, 5, 60));
        // SAFETY: as above, for the last word.
        unsafe { pool.free_slot(Slot::from_word(library[3])) };
        pool.free(&mut batch);
        assert!(pool.is_whole());
    }
}
