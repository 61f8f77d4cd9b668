//! Frames of the pool that lie in a ring, with the peer. They stay slots of a batch of this process, oldest first, so the peer says only
//! how many slots of the ring it is done with, and never which frame comes back.

use linerate_mem::{Batch, Pool};

use crate::link::POOL_REGION;
use crate::sys::Descriptor;

/// A part of the pool's frames that a ring may have at a time: with so many rings, half of them are lent at most.
const PARTS: usize = 4;

/// The frames that lie in a ring.
pub(crate) struct Lent {
    slots: Batch,
    /// Index in the ring of the oldest.
    first: u16,
    ring_slots: u16,
    share: u16,
}

impl Lent {
    /// For a ring of `ring_slots` slots, one of `rings` in each direction.
    pub(crate) fn new(pool: &Pool, ring_slots: u16, rings: u16) -> Lent {
        let part = pool.region().frames() as usize / (PARTS * usize::from(rings.max(1)));
        // Twice the room, so that the slots are seldom moved to the front.
        let slots = Batch::new(pool, 2 * usize::from(ring_slots));
        Lent { slots, first: 0, ring_slots, share: part.clamp(1, usize::from(ring_slots)) as u16 }
    }

    /// Index of the oldest.
    #[inline]
    pub(crate) fn first(&self) -> u16 {
        self.first
    }

    /// Index behind the newest.
    #[inline]
    pub(crate) fn next(&self) -> u16 {
        self.first.wrapping_add(self.count())
    }

    /// How many there are.
    #[inline]
    pub(crate) fn count(&self) -> u16 {
        self.slots.len() as u16
    }

    /// Slots of the ring that have none.
    #[inline]
    pub(crate) fn room(&self) -> u16 {
        self.ring_slots - self.count()
    }

    /// Frames that this ring should not have more of, where it may choose.
    #[inline]
    pub(crate) fn share(&self) -> u16 {
        self.share
    }

    /// Lends the first `count` slots of the batch, which has them, and for which there is room.
    #[inline]
    pub(crate) fn lend(&mut self, batch: &mut Batch, count: usize) {
        batch.move_to(&mut self.slots, count);
    }

    /// Lends up to `most` free frames, and returns how many.
    #[inline]
    pub(crate) fn lend_free(&mut self, pool: &mut Pool, most: u16) -> u16 {
        let most = most.min(self.room());
        pool.alloc(&mut self.slots, usize::from(most), usize::MAX) as u16
    }

    /// Notes that the packet in the `step`th slot from the oldest on has so many bytes, which its frame has room for, and whether it goes
    /// on in the next.
    #[inline]
    pub(crate) fn set(&mut self, step: u16, len: u16, more: bool) {
        self.slots.set_len(usize::from(step), usize::from(len));
        self.slots.set_more(usize::from(step), more);
    }

    /// Bytes of the oldest.
    #[inline]
    pub(crate) fn first_len(&self) -> usize {
        self.slots.packet(0).len()
    }

    /// Takes the oldest `count` back, at the end of the batch, which has room for them.
    #[inline]
    pub(crate) fn take_packets(&mut self, batch: &mut Batch, count: u16) {
        let moved = self.slots.move_to(batch, usize::from(count));
        self.first = self.first.wrapping_add(moved as u16);
    }

    /// Takes back the frames of the oldest `count` slots, whatever is in them.
    #[inline]
    pub(crate) fn take_free(&mut self, pool: &mut Pool, count: u16) {
        let count = count.min(self.count());
        pool.free_front(&mut self.slots, usize::from(count));
        self.first = self.first.wrapping_add(count);
    }

    /// The descriptor of the `step`th slot from the oldest on, of `length` bytes and without flags.
    #[inline]
    pub(crate) fn descriptor(&self, step: u16, length: u32) -> Descriptor {
        descriptor(&self.slots, usize::from(step), length)
    }
}

/// Where the packet in a slot of a batch lies, for the peer.
#[inline]
pub(crate) fn descriptor(batch: &Batch, index: usize, length: u32) -> Descriptor {
    // Pools that are lent have less than 4 GiB.
    Descriptor { flags: 0, region: POOL_REGION, length, offset: batch.region_offset(index) as u32 }
}
