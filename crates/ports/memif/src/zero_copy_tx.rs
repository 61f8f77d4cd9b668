//! Sending without a copy: a client's packets go to the server as they are, in frames of the pool that both map.
//!
//! ```text
//! frames of the ring    | back in the pool ... | with the server ... | free slots
//!                                              tail (the server)     head
//! ```
//! The server says how far it got, no more: which frames come back is in private memory.

use std::sync::atomic::Ordering;

use linerate_mem::{Batch, Pool, Span as Extent};

use crate::lent::{self, Lent};
use crate::link::LentEnd;
use crate::link::PACKET_LEN_MAX;
use crate::receive::Corrupt;
use crate::sys::{Descriptor, NEXT};
use crate::transmit::{Alternates, Front, Sent, Stop};

pub(crate) struct ZeroCopyTx {
    end: LentEnd,
    lent: Lent,
    /// With so many frames out, each call looks whether some can come back.
    many: u16,
    /// Slots that the packet needs which did not fit: to wait for fewer would be in vain.
    wanted: u16,
}

impl ZeroCopyTx {
    /// One of `rings` of the interface.
    pub(crate) fn new(end: LentEnd, pool: &Pool, rings: u16) -> ZeroCopyTx {
        end.ring.head().store(0, Ordering::Release);
        let lent = Lent::new(pool, end.ring.slots(), rings);
        let many = (lent.share() / 4).max(1);
        ZeroCopyTx { end, lent, many, wanted: 1 }
    }

    /// Hands over packets from the front of the batch, and says why it stopped if that was not for want of room. Returns how
    /// many it took, whatever the reason.
    #[inline]
    pub(crate) fn transmit(&mut self, batch: &mut Batch, pool: &mut Pool, totals: &mut Sent) -> (usize, Option<Stop>) {
        if (batch.is_empty() || batch.len() > usize::from(self.lent.room()) || self.lent.count() >= self.many)
            && let Err(corrupt) = self.take_back(pool)
        {
            return (0, Some(Stop::Corrupt(corrupt)));
        }
        let first = self.lent.next();
        let (taken, stop) = self.alternate(batch, pool, totals);
        if self.lent.next() != first {
            self.end.ring.head().store(self.lent.next(), Ordering::Release);
            self.end.wake_peer();
        }
        (taken, stop)
    }

    /// Puts the frames that the peer is done with back into the pool.
    #[inline]
    pub(crate) fn take_back(&mut self, pool: &mut Pool) -> Result<(), Corrupt> {
        let index = self.end.ring.tail().load(Ordering::Acquire);
        let done = index.wrapping_sub(self.lent.first());
        if done > self.lent.count() {
            return Err(self.wrong_index(index));
        }
        self.lent.take_free(pool, done);
        Ok(())
    }

    /// As [`ZeroCopyTx::take_back`], if there are many to come.
    #[inline]
    pub(crate) fn take_many_back(&mut self, pool: &mut Pool) -> Result<(), Corrupt> {
        if self.lent.count() >= self.many { self.take_back(pool) } else { Ok(()) }
    }

    /// True when the packet that did not fit the last time may fit now.
    #[inline]
    pub(crate) fn has_room(&mut self, pool: &mut Pool) -> Result<bool, Corrupt> {
        self.take_back(pool)?;
        let ready = self.lent.room() >= self.wanted;
        if ready {
            self.wanted = 1;
        }
        Ok(ready)
    }

    #[cold]
    fn wrong_index(&self, index: u16) -> Corrupt {
        let (slots, first, next) = (self.end.ring.slots(), self.lent.first(), self.lent.next());
        Corrupt(format!("the index {index} into a ring of {slots} slots that was filled from {first} up to {next}"))
    }
}

impl Alternates for ZeroCopyTx {
    /// Plain is a packet of one slot.
    #[inline]
    fn transmit_plain(&mut self, batch: &mut Batch, _: &mut Pool, totals: &mut Sent) -> Result<usize, Corrupt> {
        let (first, mut count, mut bytes) = (self.lent.next(), 0, 0);
        for (step, frag) in batch.parts().take(usize::from(self.lent.room())).enumerate() {
            if frag.more || frag.bytes.is_empty() {
                break;
            }
            let descriptor = lent::descriptor(batch, step, frag.bytes.len() as u32);
            self.end.ring.write(first.wrapping_add(step as u16), descriptor);
            bytes += frag.bytes.len() as u64;
            count += 1;
        }
        self.lent.lend(batch, count);
        totals.packets += count as u64;
        totals.bytes += bytes;
        Ok(count)
    }

    #[inline]
    #[cold]
    fn transmit_front(&mut self, batch: &mut Batch, pool: &mut Pool, totals: &mut Sent) -> Result<Front, Stop> {
        let Some(Extent { slots, len }) = batch.span(0) else { return Ok(Front::Waits) };
        if len > PACKET_LEN_MAX {
            return Err(Stop::Long(len));
        }
        // A part without a byte is of no use to anybody.
        let mut parts = batch.iter().take(slots).filter(|part| !part.is_empty()).count();
        if len == 0 || parts > usize::from(self.end.ring.slots()) {
            *(if len == 0 { &mut totals.empty } else { &mut totals.unfit }) += 1;
            pool.free_front(batch, slots);
            return Ok(Front::Taken(0));
        }
        if parts > usize::from(self.lent.room()) {
            self.take_back(pool).map_err(Stop::Corrupt)?;
        }
        if parts > usize::from(self.lent.room()) {
            self.wanted = parts as u16;
            return Ok(Front::Waits);
        }
        for _ in 0..slots {
            let len = batch.packet(0).len();
            if len == 0 {
                pool.free_front(batch, 1);
                continue;
            }
            parts -= 1;
            let flags = if parts > 0 { NEXT } else { 0 };
            let descriptor = Descriptor { flags, ..lent::descriptor(batch, 0, len as u32) };
            self.end.ring.write(self.lent.next(), descriptor);
            self.lent.lend(batch, 1);
        }
        totals.packets += 1;
        totals.bytes += len as u64;
        // Which slots these are is not the peer's to say, and how many is the batch's.
        Ok(Front::Taken(0))
    }
}
