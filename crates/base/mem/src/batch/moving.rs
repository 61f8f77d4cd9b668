//! Slots that move between batches and change on the way: those that are written, and frames that are used again.
#![allow(unsafe_code)]

use std::sync::Arc;

use super::Batch;
use crate::Checksum;
use crate::slot::CHECKSUM_FLAGS;

/// A slot on its way from the front of a batch to the end of another one. It stays where it was unless it is finished.
#[derive(Debug)]
pub struct Moving<'a> {
    bytes: &'a mut [u8],
    word: u64,
    place: &'a mut u64,
    head: &'a mut usize,
    tail: &'a mut usize,
}

impl Moving<'_> {
    /// Bytes of the packet, to write.
    #[inline(always)]
    pub fn bytes(&mut self) -> &mut [u8] {
        self.bytes
    }

    /// Moves the slot, as a packet of `len` bytes (cut to the length that it has) of whose checksum this is known.
    #[inline(always)]
    pub fn finish(self, len: usize, checksum: Checksum) {
        let len = len.min(self.word as u16 as usize) as u64;
        *self.place = self.word & !(0xffff | CHECKSUM_FLAGS) | len | checksum.flags();
        *self.head += 1;
        *self.tail += 1;
    }
}

impl Batch {
    /// The first slot, to be written and moved to the end of `other`; `None`, and nothing has happened, if there is none, or no place behind the last
    /// slot of `other`, or `other` keeps times or is of another region.
    #[inline(always)]
    pub fn begin_move<'a>(&'a mut self, other: &'a mut Batch) -> Option<Moving<'a>> {
        if self.is_empty() || !other.times_ns.is_empty() || !Arc::ptr_eq(&other.region, &self.region) {
            return None;
        }
        let word = *self.words.get(self.head)?;
        let place = other.words.get_mut(other.tail)?;
        // SAFETY: as in `packet_mut`.
        let bytes = unsafe { self.region.packet_mut(word) };
        Some(Moving { bytes, word, place, head: &mut self.head, tail: &mut other.tail })
    }

    /// Puts the only slot of `other` before the first one, as the word that `renew` makes for its frame. False, and nothing has happened, if `other`
    /// has not one slot, is of another region, or no slot was taken out here, whose place is free.
    ///
    /// # Safety
    /// The word that `renew` returns names the frame that it got, and a packet inside it.
    #[inline(always)]
    pub(crate) unsafe fn reuse_only(&mut self, other: &mut Batch, renew: impl FnOnce(u32) -> u64) -> bool {
        let is_one = (other.tail - other.head == 1) & (self.head != 0) & self.times_ns.is_empty();
        if !is_one || !Arc::ptr_eq(&other.region, &self.region) {
            return false;
        }
        let Some(place) = self.words.get_mut(self.head - 1) else { return false };
        *place = renew(crate::slot::frame_of(other.words[other.head]));
        self.head -= 1;
        (other.head, other.tail) = (0, 0);
        true
    }

    /// Puts the last slots of `other`, as many as there is room for, behind those of this batch, each as the word that `renew` makes for its frame.
    /// Nothing happens if `other` is of another region, or this batch keeps times.
    ///
    /// # Safety
    /// As for `reuse_only`.
    #[inline]
    pub(crate) unsafe fn renew_from(&mut self, other: &mut Batch, renew: impl Fn(u32) -> u64) {
        if !self.times_ns.is_empty() || !Arc::ptr_eq(&other.region, &self.region) {
            return;
        }
        let count = other.len().min(self.room());
        let at = self.make_room(count);
        let words = &other.words[other.tail - count..other.tail];
        for (place, word) in self.words[at..at + count].iter_mut().zip(words) {
            *place = renew(crate::slot::frame_of(*word));
        }
        self.tail += count;
        other.tail -= count;
        if other.is_empty() {
            (other.head, other.tail) = (0, 0);
        }
    }
}
