//! Receiving without a copy: a client lends empty frames of its pool to the server, and takes them back as slots.
//!
//! ```text
//! lent frames     | taken back ... | filled | filled | empty ... | not lent
//!                                  first    tail (the server)    head
//! ```
//! The server says how far it got, and of each slot a length and whether the packet goes on: each is read once and checked.
//! Which frame lies in a slot, and where in it a packet may begin, is in private memory.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use linerate_mem::{Batch, Pool};

use crate::lent::Lent;
use crate::link::PACKET_LEN_MAX;
use crate::link::{LentEnd, SLOTS_MAX};
use crate::receive::{Corrupt, Received};
use crate::sys::{Descriptor, Doorbell, NEXT, NO_INTERRUPT};

pub(crate) struct ZeroCopyRx {
    end: LentEnd,
    lent: Lent,
    /// Bytes that each lent frame has for a packet.
    room_bytes: u16,
    /// Slots up to here are filled, as far as was looked.
    filled: u16,
    /// The peer is gone: slots up to here are the last, whatever it writes from now on.
    last: Option<u16>,
}

/// What became of the packet at the front of a ring.
enum Front {
    /// It is in the batch, or was thrown away and counted; it took so many slots.
    Taken(u16),
    /// Not all of it is there yet, or there is no room for it now.
    Waits,
}

impl ZeroCopyRx {
    /// One of `rings` of the interface.
    pub(crate) fn new(end: LentEnd, pool: &mut Pool, rings: u16) -> ZeroCopyRx {
        let lent = Lent::new(pool, end.ring.slots(), rings);
        let mut side = ZeroCopyRx { end, lent, room_bytes: pool.packet_len_max() as u16, filled: 0, last: None };
        side.enable_interrupts(false);
        side.post(pool);
        side
    }

    /// Appends whole packets to the batch and returns how many.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        batch: &mut Batch,
        pool: &mut Pool,
        totals: &mut Received,
    ) -> Result<usize, Corrupt> {
        let before = totals.packets;
        let mut left = self.available()?;
        let (mut fault, mut walked) = (None, 0);
        while left > 0 && batch.room() > 0 && walked < SLOTS_MAX {
            let (taken, plain) = self.receive_plain(left, batch, totals);
            left -= taken;
            if plain {
                continue;
            }
            match self.receive_front(left, batch, pool, totals) {
                Ok(Front::Taken(slots)) => (left, walked) = (left - slots, walked + slots),
                Ok(Front::Waits) => {
                    // The next call looks at the peer's index again.
                    self.filled = self.lent.first();
                    break;
                }
                Err(corrupt) => {
                    fault = Some(corrupt);
                    break;
                }
            }
        }
        let received = (totals.packets - before) as usize;
        if self.lent.count() < self.lent.share() {
            self.post(pool);
        }
        match fault {
            // What was sound is handed out first; the fault shows again.
            Some(corrupt) if received == 0 => Err(corrupt),
            _ => Ok(received),
        }
    }

    /// Takes the packets of one slot each that lie in front; false when something else ended that.
    #[inline]
    fn receive_plain(&mut self, left: u16, batch: &mut Batch, totals: &mut Received) -> (u16, bool) {
        let (mut taken, mut plain, mut bytes) = (0, true, 0);
        let most = left.min(batch.room().try_into().unwrap_or(u16::MAX));
        while taken < most {
            let Descriptor { flags, length, .. } = self.end.ring.read(self.lent.first().wrapping_add(taken));
            plain = flags & NEXT == 0 && (1..=u32::from(self.room_bytes)).contains(&length);
            if !plain {
                break;
            }
            self.lent.set(taken, length as u16, false);
            bytes += u64::from(length);
            taken += 1;
        }
        self.lent.take_packets(batch, taken);
        totals.packets += u64::from(taken);
        totals.bytes += bytes;
        (taken, plain)
    }

    /// Takes the packet in front, whatever it is.
    #[inline]
    #[cold]
    fn receive_front(
        &mut self,
        left: u16,
        batch: &mut Batch,
        pool: &mut Pool,
        totals: &mut Received,
    ) -> Result<Front, Corrupt> {
        // Lengths are noted: what is done below is what was checked here.
        let (mut slots, mut parts, mut len) = (0u16, 0usize, 0usize);
        loop {
            if slots == left || slots == SLOTS_MAX {
                let all = slots == SLOTS_MAX || slots == self.lent.count() && slots >= self.lent.share();
                return if all { self.endless(slots) } else { Ok(Front::Waits) };
            }
            let index = self.lent.first().wrapping_add(slots);
            let descriptor = self.end.ring.read(index);
            if descriptor.length > self.room_bytes.into() {
                return Err(self.too_long(index, descriptor));
            }
            self.lent.set(slots, descriptor.length as u16, false);
            parts += usize::from(descriptor.length > 0);
            len += descriptor.length as usize;
            slots += 1;
            if descriptor.flags & NEXT == 0 {
                break;
            }
        }
        let fits = len <= PACKET_LEN_MAX && parts <= batch.capacity();
        if len == 0 || !fits {
            *(if len == 0 { &mut totals.empty } else { &mut totals.unfit }) += 1;
            self.lent.take_free(pool, slots);
            return Ok(Front::Taken(slots));
        }
        if parts > batch.room() {
            return Ok(Front::Waits);
        }
        for _ in 0..slots {
            if self.lent.first_len() == 0 {
                self.lent.take_free(pool, 1);
                continue;
            }
            parts -= 1;
            self.lent.set(0, self.lent.first_len() as u16, parts > 0);
            self.lent.take_packets(batch, 1);
        }
        totals.packets += 1;
        totals.bytes += len as u64;
        Ok(Front::Taken(slots))
    }

    /// Filled slots that were not taken back. The peer's index is read when those that it showed last are used up.
    #[inline]
    fn available(&mut self) -> Result<u16, Corrupt> {
        let known = self.filled.wrapping_sub(self.lent.first());
        if known > 0 { Ok(known) } else { self.look() }
    }

    /// As [`ZeroCopyRx::available`], with a look at the peer's index in any case.
    #[inline]
    pub(crate) fn look(&mut self) -> Result<u16, Corrupt> {
        let filled = self.last.unwrap_or_else(|| self.end.ring.tail().load(Ordering::Acquire));
        let available = filled.wrapping_sub(self.lent.first());
        if available > self.lent.count() {
            return Err(self.wrong_index(filled));
        }
        self.filled = filled;
        Ok(available)
    }

    /// The peer is gone: what is in the ring now is the last of it; nothing, if it makes no sense.
    pub(crate) fn freeze(&mut self) {
        self.last = Some(self.look().map_or(self.lent.first(), |_| self.filled));
    }

    /// Whole packets that were not taken back; 0 if the ring makes no sense.
    pub(crate) fn waiting(&mut self) -> u64 {
        let slots = self.look().unwrap_or(0);
        let ends = |step: &u16| self.end.ring.read(self.lent.first().wrapping_add(*step)).flags & NEXT == 0;
        (0..slots).filter(ends).count() as u64
    }

    /// Lends empty frames, as many as this ring should have and the pool has.
    #[inline]
    fn post(&mut self, pool: &mut Pool) {
        let missing = self.lent.share().saturating_sub(self.lent.count());
        let (before, ring) = (self.lent.count(), &self.end.ring);
        let lent = self.lent.lend_free(pool, missing);
        for step in before..before + lent {
            let descriptor = self.lent.descriptor(step, self.room_bytes.into());
            ring.write(self.lent.first().wrapping_add(step), descriptor);
        }
        ring.head().store(self.lent.next(), Ordering::Release);
    }

    /// Whether the peer shall ring when it fills a slot.
    #[inline]
    pub(crate) fn enable_interrupts(&self, wanted: bool) {
        let flags = if wanted && self.end.bell.is_some() { 0 } else { NO_INTERRUPT };
        self.end.ring.flags().store(flags, Ordering::SeqCst);
    }

    #[inline]
    pub(crate) fn bell(&self) -> Option<&Arc<Doorbell>> {
        self.end.bell.as_ref()
    }

    #[cold]
    fn wrong_index(&self, index: u16) -> Corrupt {
        let (count, first) = (self.lent.count(), self.lent.first());
        Corrupt(format!("the index {index} into a ring that was read up to {first} and has {count} buffers"))
    }

    #[cold]
    fn too_long(&self, index: u16, descriptor: Descriptor) -> Corrupt {
        let slot = self.end.ring.slot(index);
        Corrupt(format!("a packet of {} bytes into slot {slot}, which has {}", descriptor.length, self.room_bytes))
    }

    #[cold]
    fn endless(&self, slots: u16) -> Result<Front, Corrupt> {
        Err(Corrupt(format!("a packet without an end into {slots} of {} buffers of a ring", self.lent.count())))
    }
}
