//! Rings in shared memory.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

use linerate_sys::shared::SharedMapping;

use super::{COOKIE, Descriptor};

const FLAGS_AT: usize = 4;
const HEAD_AT: usize = 6;
const TAIL_AT: usize = 64;
const CELLS_AT: usize = 128;
const CELL_BYTES: usize = 16;

/// A ring in shared memory, whose every byte the peer may change at any time.
///
/// ```text
///    0 cookie u32 | 4 flags u16 | 6 head u16 | 64 tail u16 | 128 descriptors, 16 bytes each
/// descriptor   0 flags u16 | 2 region u16 | 4 length u32 | 8 offset u32 | 12 metadata u32
/// ```
/// The client moves `head`, the server `tail`; whoever receives sets the flag.
pub(crate) struct Ring {
    start: NonNull<u8>,
    mask: u16,
    _memory: Arc<SharedMapping>,
}

// SAFETY: the memory stays mapped as long as the ring exists, and all access is atomic.
unsafe impl Send for Ring {}

impl Ring {
    /// Bytes of a ring.
    pub(crate) const fn bytes(log2_slots: u8) -> usize {
        CELLS_AT + (CELL_BYTES << log2_slots)
    }

    /// The ring at `offset`; `None` if that is no place for one. The offset is a multiple of 8: descriptors are read by eights.
    pub(crate) fn at(memory: &Arc<SharedMapping>, offset: usize, log2_slots: u8) -> Option<Ring> {
        let fits = log2_slots < 16 && offset.checked_add(Ring::bytes(log2_slots))? <= memory.bytes();
        if !fits || !offset.is_multiple_of(8) {
            return None;
        }
        // SAFETY: the offset lies inside the mapping.
        let start = unsafe { memory.start().add(offset) };
        Some(Ring { start, mask: ((1u32 << log2_slots) - 1) as u16, _memory: Arc::clone(memory) })
    }

    /// The same ring, once more.
    #[cfg(test)]
    pub(crate) fn another(&self) -> Ring {
        Ring { start: self.start, mask: self.mask, _memory: Arc::clone(&self._memory) }
    }

    /// Makes a ring of it, empty.
    pub(crate) fn format(&self, flags: u16) {
        self.head().store(0, Ordering::Relaxed);
        self.tail().store(0, Ordering::Relaxed);
        self.flags().store(flags, Ordering::Relaxed);
        self.cookie().store(COOKIE, Ordering::Release);
    }

    #[inline]
    pub(crate) fn slots(&self) -> u16 {
        self.mask.wrapping_add(1)
    }

    /// Which slot an index, which wraps, stands for.
    #[inline]
    pub(crate) fn slot(&self, index: u16) -> u16 {
        index & self.mask
    }

    pub(crate) fn cookie(&self) -> &AtomicU32 {
        // SAFETY: inside the ring's memory by `at`, aligned, and shared as an atomic.
        unsafe { self.start.cast().as_ref() }
    }

    #[inline]
    pub(crate) fn flags(&self) -> &AtomicU16 {
        // SAFETY: as in `cookie`.
        unsafe { self.start.add(FLAGS_AT).cast().as_ref() }
    }

    #[inline]
    pub(crate) fn head(&self) -> &AtomicU16 {
        // SAFETY: as in `cookie`.
        unsafe { self.start.add(HEAD_AT).cast().as_ref() }
    }

    #[inline]
    pub(crate) fn tail(&self) -> &AtomicU16 {
        // SAFETY: as in `cookie`.
        unsafe { self.start.add(TAIL_AT).cast().as_ref() }
    }

    #[inline]
    fn cell(&self, index: u16) -> &[AtomicU64; 2] {
        // SAFETY: the mask keeps the cell inside the ring's memory; it is aligned to eight bytes, and shared as atomics.
        unsafe { self.start.add(CELLS_AT + CELL_BYTES * usize::from(index & self.mask)).cast().as_ref() }
    }

    /// The descriptor, each byte of it read once.
    #[inline]
    pub(crate) fn read(&self, index: u16) -> Descriptor {
        #[cfg(test)]
        crate::hostile_tests::count_look();
        let [first, second] = self.cell(index);
        Descriptor::of_words(first.load(Ordering::Relaxed), second.load(Ordering::Relaxed))
    }

    #[inline]
    pub(crate) fn write(&self, index: u16, descriptor: Descriptor) {
        self.write_filled(index, descriptor);
        self.cell(index)[1].store(descriptor.second_word(), Ordering::Relaxed);
    }

    /// As [`Ring::write`], without the offset: what changes when a buffer is filled.
    #[inline]
    pub(crate) fn write_filled(&self, index: u16, descriptor: Descriptor) {
        self.cell(index)[0].store(descriptor.first_word(), Ordering::Relaxed);
    }
}
