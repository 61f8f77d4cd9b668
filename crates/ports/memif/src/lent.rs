//! Frames of the pool that are with the peer. Which slot of a ring has which is kept in private memory, so the peer says only
//! how many slots it is done with, and never which frame comes back.

use std::sync::Arc;

use linerate_mem::{Batch, Border, Pool, Region, Trespass};

use crate::offer::POOL_REGION;
use crate::sys::Descriptor;

/// Mark of a slot (`linerate_mem::Slot`) whose packet goes on in the next.
pub(crate) const MORE: u64 = 1 << 56;

/// Frames that cross the border of the pool at a time.
const AT_ONCE: usize = 64;

/// A part of the pool's frames that a ring may have at a time: with so many rings, half of them are lent at most.
const PARTS: usize = 4;

/// The frames that lie in a ring, oldest first.
pub(crate) struct Lent {
    border: Border,
    region: Arc<Region>,
    /// Of its own, so that the frames come back whenever this goes.
    pool: Pool,
    /// The slots' words, by place in the ring.
    words: Box<[u64]>,
    /// Index in the ring of the oldest.
    first: u16,
    /// Index in the ring behind the newest.
    next: u16,
    share: u16,
}

impl Lent {
    /// For a ring of `slots` slots, one of `rings` in each direction; `None` if the pool is not one that can be shared.
    pub(crate) fn new(pool: &Pool, slots: u16, rings: u16) -> Option<Lent> {
        let part = pool.region().frames() as usize / (PARTS * usize::from(rings.max(1)));
        Some(Lent {
            border: pool.border()?,
            region: Arc::clone(pool.region()),
            pool: pool.clone(),
            words: vec![0; usize::from(slots)].into(),
            first: 0,
            next: 0,
            share: part.clamp(1, usize::from(slots)) as u16,
        })
    }

    /// Index of the oldest.
    #[inline]
    pub(crate) fn first(&self) -> u16 {
        self.first
    }

    /// Index behind the newest.
    #[inline]
    pub(crate) fn next(&self) -> u16 {
        self.next
    }

    /// How many there are.
    #[inline]
    pub(crate) fn count(&self) -> u16 {
        self.next.wrapping_sub(self.first)
    }

    /// Slots of the ring that have none.
    #[inline]
    pub(crate) fn room(&self) -> u16 {
        self.words.len() as u16 - self.count()
    }

    /// Frames that this ring should not have more of, where it may choose.
    #[inline]
    pub(crate) fn share(&self) -> u16 {
        self.share
    }

    /// Bytes of the packet in the oldest one, as noted.
    #[inline]
    pub(crate) fn first_len(&mut self) -> u16 {
        *place(&mut self.words, self.first) as u16
    }

    /// Notes how long the packet in a slot is.
    #[inline]
    pub(crate) fn set_len(&mut self, index: u16, len: u16) {
        let word = place(&mut self.words, index);
        *word = *word & !0xffff | u64::from(len);
    }

    /// Lends slots from the front of the batch, `most` at most and as many as there is room for. `write` is told index, word
    /// and descriptor of each, which says `length` bytes and has no flags; it ends the lending with `false`.
    #[inline]
    pub(crate) fn lend(
        &mut self,
        batch: &mut Batch,
        most: usize,
        mut write: impl FnMut(u16, u64, Descriptor) -> bool,
    ) -> usize {
        let room = usize::from(self.room());
        let Lent { border, region, words, next, .. } = self;
        border.hand_out(batch, most.min(room), |given| {
            let mut count = 0;
            for word in given {
                if !write(*next, *word, descriptor(region, *word, *word as u16)) {
                    break;
                }
                *place(words, *next) = *word;
                *next = next.wrapping_add(1);
                count += 1;
            }
            count
        })
    }

    /// Lends up to `most` free frames; `write` is told index and descriptor of each, which says `len` bytes. Returns how many.
    pub(crate) fn lend_free(
        &mut self,
        pool: &mut Pool,
        most: u16,
        len: u16,
        mut write: impl FnMut(u16, Descriptor),
    ) -> u16 {
        let most = most.min(self.room());
        let Lent { border, region, words, next, .. } = self;
        let mut lent = 0;
        while lent < most {
            let count = border.hand_out_free(pool, AT_ONCE.min(usize::from(most - lent)), |given| {
                for word in given {
                    write(*next, descriptor(region, *word, len));
                    *place(words, *next) = *word;
                    *next = next.wrapping_add(1);
                }
                given.len()
            });
            if count == 0 {
                break;
            }
            lent += count as u16;
        }
        lent
    }

    /// Takes packets back, oldest first, at the end of the batch: `make` gets index and word, and returns the word with the
    /// packet's length and mark, or `None` to end. Returns how many slots came.
    #[inline]
    pub(crate) fn take_packets(
        &mut self,
        batch: &mut Batch,
        most: u16,
        mut make: impl FnMut(u16, u64) -> Option<u64>,
    ) -> Result<u16, Trespass> {
        let most = usize::from(most.min(self.count()));
        let Lent { border, words, first, .. } = self;
        let taken = border.take_in(batch, |into| {
            let mut count = 0;
            for slot in into.iter_mut().take(most) {
                let index = first.wrapping_add(count as u16);
                let Some(word) = make(index, *place(words, index)) else { break };
                *slot = word;
                count += 1;
            }
            count
        })?;
        *first = first.wrapping_add(taken as u16);
        Ok(taken as u16)
    }

    /// Takes back the frames of the oldest `count` slots, whatever is in them.
    pub(crate) fn take_free(&mut self, pool: &mut Pool, count: u16) -> Result<(), Trespass> {
        let mut left = count.min(self.count());
        let Lent { border, words, first, .. } = self;
        while left > 0 {
            let taken = border.take_in_free(pool, |into| {
                let count = usize::from(left).min(into.len());
                for (step, slot) in into[..count].iter_mut().enumerate() {
                    *slot = *place(words, first.wrapping_add(step as u16));
                }
                count
            })?;
            *first = first.wrapping_add(taken as u16);
            left -= taken as u16;
        }
        Ok(())
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let mut pool = self.pool.clone();
        // Each frame went out once, so each comes back.
        let result = self.take_free(&mut pool, u16::MAX);
        debug_assert!(result.is_ok(), "{result:?}");
    }
}

/// The word in the slot of an index, which wraps.
#[inline]
fn place(words: &mut [u64], index: u16) -> &mut u64 {
    let mask = words.len() - 1;
    &mut words[usize::from(index) & mask]
}

/// Where a slot's packet lies, for the peer.
#[inline]
fn descriptor(region: &Region, word: u64, length: u16) -> Descriptor {
    let frame = (word >> 32) as u32 & 0x00ff_ffff;
    let offset = region.frame_start(frame) + (word >> 16 & 0xffff) as usize;
    // Pools that are lent have less than 4 GiB.
    Descriptor { flags: 0, region: POOL_REGION, length: length.into(), offset: offset as u32 }
}
