//! The sending end of a ring: packets are copied out of frames into shared memory.
//!
//! ```text
//! client   fills the slots from head on, as far as the server's tail leaves room, and moves head
//! server   fills the slots from tail on that the client posted, up to its head, and moves tail
//! ```
//! One store of the index tells the peer of a whole batch; the peer's index is read when the room that it showed last is used up.

use std::sync::atomic::Ordering;

use linerate_mem::{Batch, Part, Pool, Span as Extent};

use crate::link::PACKET_LEN_MAX;
use crate::link::{Buffers, RingEnd, SLOTS_MAX, wake_peer};
use crate::receive::Corrupt;
use crate::sys::{Descriptor, NEXT, Span};

/// Most slots of a batch that one packet may be laid out in.
pub(crate) const SEGMENTS_MAX: usize = 1024;

pub(crate) struct TransmitSide {
    pub(crate) end: RingEnd,
    /// The next slot to fill, as an index that wraps.
    next: u16,
    /// Slots up to here can be filled, as far as was looked.
    limit: u16,
    /// Slots that the packet needs which did not fit: to wait for fewer would be in vain.
    wanted: u16,
}

/// What became of the packets that went into rings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    /// Packets longer than all buffers of the ring, or than as many as a packet may have.
    pub(crate) unfit: u64,
    /// Packets without a byte.
    pub(crate) empty: u64,
}

/// Why sending stopped, other than for want of room.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The packet in front has so many bytes.
    Long(usize),
    Corrupt(Corrupt),
}

/// What became of the packet at the front of a batch.
pub(crate) enum Front {
    /// Sent, or thrown away and counted, after so many slots of the peer's.
    Taken(u16),
    /// There is no room for it now, or not all of it is in the batch.
    Waits,
}

/// A side that sends what is plain many packets at a time, and anything else packet by packet.
pub(crate) trait Alternates {
    /// Sends the plain packets in front for which there is room, up to the first that is something else; returns how many.
    fn transmit_plain(&mut self, batch: &mut Batch, pool: &mut Pool, totals: &mut Sent) -> Result<usize, Corrupt>;

    /// Sends or throws away the packet in front, whatever it is.
    fn transmit_front(&mut self, batch: &mut Batch, pool: &mut Pool, totals: &mut Sent) -> Result<Front, Stop>;

    /// Sends packets from the front of the batch, and says why it stopped if that was not for want of room. Returns how many it
    /// took, whatever the reason. The peer is not told yet.
    #[inline]
    fn alternate(&mut self, batch: &mut Batch, pool: &mut Pool, totals: &mut Sent) -> (usize, Option<Stop>) {
        let (mut taken, mut walked) = (0, 0);
        while !batch.is_empty() && walked < SLOTS_MAX {
            match self.transmit_plain(batch, pool, totals) {
                Ok(plain) => taken += plain,
                Err(corrupt) => return (taken, Some(Stop::Corrupt(corrupt))),
            }
            if batch.is_empty() {
                break;
            }
            match self.transmit_front(batch, pool, totals) {
                Ok(Front::Taken(slots)) => (taken, walked) = (taken + 1, walked + slots),
                Ok(Front::Waits) => break,
                Err(reason) => return (taken, Some(reason)),
            }
        }
        (taken, None)
    }
}

impl TransmitSide {
    pub(crate) fn new(end: RingEnd) -> TransmitSide {
        match &end.buffers {
            Buffers::Peers(_) => end.ring.tail().store(0, Ordering::Release),
            Buffers::Own(_) => end.ring.head().store(0, Ordering::Release),
        }
        // A client's own slots are all free; a server waits for what the client posts.
        let limit = if matches!(end.buffers, Buffers::Own(_)) { end.ring.slots() } else { 0 };
        TransmitSide { end, next: 0, limit, wanted: 1 }
    }

    /// Sends packets from the front of the batch, and says why it stopped if that was not for want of room. Returns how many it
    /// took, whatever the reason.
    #[inline]
    pub(crate) fn transmit(&mut self, batch: &mut Batch, pool: &mut Pool, totals: &mut Sent) -> (usize, Option<Stop>) {
        let first = self.next;
        let (taken, stop) = self.alternate(batch, pool, totals);
        if self.next != first {
            self.publish();
        }
        (taken, stop)
    }

    /// Sends packets from slot `from` on that stay in the batch, up to the first that does not lie in one slot or does not fit into
    /// one buffer. Returns how many.
    #[inline]
    pub(crate) fn transmit_ref(&mut self, batch: &Batch, from: usize, totals: &mut Sent) -> Result<usize, Corrupt> {
        let room = self.room(batch.len().saturating_sub(from))?;
        let filled = self.fill_run::<true>(batch.parts().skip(from), room);
        if filled.0 > 0 {
            self.filled(filled, totals);
            self.publish();
        }
        Ok(filled.0)
    }

    /// Copies packets into the next `room` slots of the ring, one into each, up to the first that does not lie in one slot of the batch or does
    /// not fit into one buffer. Returns how many, and their bytes.
    #[inline(always)]
    fn fill_run<'a, const STAYS: bool>(&self, parts: impl Iterator<Item = Part<'a>>, room: u16) -> (usize, u64) {
        let (mut count, mut bytes) = (0, 0);
        for (step, part) in parts.take(usize::from(room)).enumerate() {
            let index = self.next.wrapping_add(step as u16);
            if part.bytes.is_empty() || part.more || !self.fill::<STAYS>(index, part.bytes) {
                break;
            }
            bytes += part.bytes.len() as u64;
            count += 1;
        }
        (count, bytes)
    }

    /// Counts what [`TransmitSide::fill_run`] filled.
    #[inline]
    fn filled(&mut self, (count, bytes): (usize, u64), totals: &mut Sent) {
        self.next = self.next.wrapping_add(count as u16);
        totals.packets += count as u64;
        totals.bytes += bytes;
    }

    /// Fills one slot with a whole packet; false if its buffer is too small, or none at all. Each of the two callers has it compiled for
    /// itself (does the packet stay in the batch?), because what one function alone calls becomes a part of it.
    #[inline]
    fn fill<const STAYS: bool>(&self, index: u16, bytes: &[u8]) -> bool {
        let length = bytes.len() as u32;
        match &self.end.buffers {
            Buffers::Peers(regions) => {
                let posted = self.end.ring.read(index);
                if length > posted.length {
                    return false;
                }
                let Some(place) = regions.span(posted.region, posted.offset, length) else { return false };
                place.write(0, bytes);
                self.end.ring.write_filled(index, Descriptor { flags: 0, length, ..posted });
            }
            Buffers::Own(own) => {
                let slot = self.end.ring.slot(index);
                let Some(place) = own.span(slot, length) else { return false };
                place.write(0, bytes);
                self.end.ring.write(index, Descriptor { flags: 0, region: 0, length, offset: own.offset(slot) });
            }
        }
        true
    }

    /// Slots whose buffers hold `len` bytes, of the next `room`; `None` if these, or the most that a packet may have, do not.
    #[inline]
    fn slots_for(&self, len: usize, room: u16) -> Result<Option<u16>, Corrupt> {
        let mut held = 0;
        for step in 0..room.min(SLOTS_MAX) {
            let index = self.next.wrapping_add(step);
            let posted = self.end.ring.read(index);
            held += self.buffer(index, posted).ok_or_else(|| self.out_of_place(index, posted))?.len();
            if held >= len {
                return Ok(Some(step + 1));
            }
        }
        Ok(None)
    }

    /// Copies the first packet of the batch into the next slots. Descriptors are read again: where they say something else by
    /// now, a peer that changes them gets less, and not all of its packet.
    #[inline]
    fn scatter(&self, batch: &Batch, extent: Extent, slots: u16) {
        let (mut rest, mut reader) = (extent.len, batch.reader(0, extent.slots));
        for step in 0..slots {
            let index = self.next.wrapping_add(step);
            let posted = self.end.ring.read(index);
            let mut filled = 0;
            if let Some(buffer) = self.buffer(index, posted) {
                loop {
                    let bytes = reader.chunk(buffer.len() - filled);
                    if bytes.is_empty() {
                        break;
                    }
                    buffer.write(filled, bytes);
                    filled += bytes.len();
                }
            }
            rest -= filled;
            let flags = if step + 1 < slots { NEXT } else { 0 };
            let (region, offset) = match &self.end.buffers {
                Buffers::Peers(_) => (posted.region, posted.offset),
                Buffers::Own(own) => (0, own.offset(self.end.ring.slot(index))),
            };
            self.end.ring.write(index, Descriptor { flags, region, length: filled as u32, offset });
        }
        debug_assert!(rest == 0 || matches!(self.end.buffers, Buffers::Peers(_)));
    }

    /// The whole buffer of a slot that can be filled; `None` if the peer named none.
    #[inline]
    fn buffer(&self, index: u16, posted: Descriptor) -> Option<Span<'_>> {
        match &self.end.buffers {
            Buffers::Peers(_) if posted.length == 0 => None,
            Buffers::Peers(regions) => regions.span(posted.region, posted.offset, posted.length),
            Buffers::Own(own) => own.span(self.end.ring.slot(index), own.bytes),
        }
    }

    /// Slots that can be filled, if fewer than `wanted` with a look at the peer's index.
    #[inline]
    pub(crate) fn room(&mut self, wanted: usize) -> Result<u16, Corrupt> {
        let known = self.limit.wrapping_sub(self.next);
        if usize::from(known) >= wanted {
            return Ok(known);
        }
        let slots = self.end.ring.slots();
        let (index, limit) = match &self.end.buffers {
            Buffers::Peers(_) => {
                let head = self.end.ring.head().load(Ordering::Acquire);
                (head, head)
            }
            Buffers::Own(_) => {
                let tail = self.end.ring.tail().load(Ordering::Acquire);
                (tail, tail.wrapping_add(slots))
            }
        };
        let room = limit.wrapping_sub(self.next);
        if room > slots {
            return Err(self.wrong_index(index));
        }
        self.limit = limit;
        Ok(room)
    }

    /// True when the packet that did not fit the last time may fit now.
    #[inline]
    pub(crate) fn has_room(&mut self) -> Result<bool, Corrupt> {
        let wanted = self.wanted.min(self.end.ring.slots());
        let room = self.room(usize::from(wanted))?;
        let ready = room >= wanted;
        if ready {
            self.wanted = 1;
        }
        Ok(ready)
    }

    /// Tells the peer of what was filled, and rings if it sleeps.
    #[inline]
    fn publish(&mut self) {
        let ring = &self.end.ring;
        match &self.end.buffers {
            Buffers::Peers(_) => ring.tail().store(self.next, Ordering::Release),
            Buffers::Own(_) => ring.head().store(self.next, Ordering::Release),
        }
        wake_peer(ring, self.end.bell.as_deref());
    }

    #[cold]
    fn wrong_index(&self, index: u16) -> Corrupt {
        let slots = self.end.ring.slots();
        Corrupt(format!("the index {index} into a ring of {slots} slots that was filled up to {}", self.next))
    }

    #[cold]
    fn out_of_place(&self, index: u16, posted: Descriptor) -> Corrupt {
        let Descriptor { region, length, offset, .. } = posted;
        let slot = self.end.ring.slot(index);
        Corrupt(format!(
            "a buffer of {length} bytes at {offset:#x} of region {region} into slot {slot}, where there is none"
        ))
    }
}

impl Alternates for TransmitSide {
    /// Plain is a packet of one slot that fits into one buffer.
    #[inline]
    fn transmit_plain(&mut self, batch: &mut Batch, pool: &mut Pool, totals: &mut Sent) -> Result<usize, Corrupt> {
        let room = self.room(batch.len())?;
        let filled = self.fill_run::<false>(batch.parts(), room);
        if filled.0 > 0 {
            pool.free_front(batch, filled.0);
            self.filled(filled, totals);
        }
        Ok(filled.0)
    }

    #[inline]
    #[cold]
    fn transmit_front(&mut self, batch: &mut Batch, pool: &mut Pool, totals: &mut Sent) -> Result<Front, Stop> {
        let Some(extent) = batch.span(0) else { return Ok(Front::Waits) };
        if extent.len > PACKET_LEN_MAX || extent.slots > SEGMENTS_MAX {
            return Err(Stop::Long(extent.len));
        }
        if extent.len == 0 {
            totals.empty += 1;
            pool.free_front(batch, extent.slots);
            return Ok(Front::Taken(0));
        }
        let all = self.end.ring.slots();
        let room = self.room(usize::from(all)).map_err(Stop::Corrupt)?;
        let Some(slots) = self.slots_for(extent.len, room).map_err(Stop::Corrupt)? else {
            if room >= all.min(SLOTS_MAX) {
                totals.unfit += 1;
                pool.free_front(batch, extent.slots);
                return Ok(Front::Taken(room.min(SLOTS_MAX)));
            }
            self.wanted = room + 1;
            return Ok(Front::Waits);
        };
        self.scatter(batch, extent, slots);
        pool.free_front(batch, extent.slots);
        self.next = self.next.wrapping_add(slots);
        totals.packets += 1;
        totals.bytes += extent.len as u64;
        Ok(Front::Taken(slots))
    }
}
