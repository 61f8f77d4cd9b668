//! The receiving end of a ring: packets are copied out of shared memory into frames of the pool.
//!
//! ```text
//! server   the client fills slots and moves head; they are read up to it, and tail moves after them
//! client   it posts empty buffers up to head; the server fills them and moves tail; they are read up to it, and posted again
//! ```
//! Indices and descriptors are the peer's word: each is read once and checked, and its range is what is copied.

use std::sync::atomic::Ordering;

use linerate_mem::{Batch, Pool, Scattered, Written};

use crate::link::PACKET_LEN_MAX;
use crate::link::{Buffers, Own, RingEnd, SLOTS_MAX};
use crate::sys::{Descriptor, NEXT, NO_INTERRUPT, Span};

/// Descriptors read, and packets asked for from the other core's cache, before the first is copied.
const AHEAD: usize = 32;

/// What the peer wrote that cannot be, in words.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Corrupt(pub(crate) String);

pub(crate) struct ReceiveSide {
    pub(crate) end: RingEnd,
    /// The next slot to read, as an index that wraps.
    next: u16,
    /// Slots up to here are filled, as far as was looked.
    filled: u16,
    /// The peer is gone: slots up to here are the last, whatever it writes from now on.
    last: Option<u16>,
}

/// What became of the packets that came out of rings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    /// Packets that no batch of the caller's size has room for, or longer than any port takes.
    pub(crate) unfit: u64,
    /// Packets without a byte.
    pub(crate) empty: u64,
}

/// The port's part in receiving.
pub(crate) struct Store<'a> {
    pub(crate) pool: &'a mut Pool,
    pub(crate) totals: &'a mut Received,
}

/// Packets of one slot each at the front of a ring.
struct Run {
    /// Slots looked at.
    looked: u16,
    /// Those that are such packets.
    found: u16,
    /// Those that are in the batch now.
    taken: u16,
}

/// What became of the packet at the front of a ring.
enum Front {
    /// It is in the batch, or was thrown away and counted; it took so many slots.
    Taken(u16),
    /// Not all of it is there yet, or there is no room for it now.
    Waits,
}

impl ReceiveSide {
    pub(crate) fn new(end: RingEnd, interrupts_wanted: bool) -> ReceiveSide {
        let side = ReceiveSide { end, next: 0, filled: 0, last: None };
        side.enable_interrupts(interrupts_wanted);
        match &side.end.buffers {
            Buffers::Peers(_) => side.end.ring.tail().store(0, Ordering::Release),
            Buffers::Own(own) => side.post(own, 0, side.end.ring.slots()),
        }
        side
    }

    /// Appends whole packets to the batch and returns how many.
    #[inline]
    pub(crate) fn receive(&mut self, batch: &mut Batch, store: &mut Store) -> Result<usize, Corrupt> {
        let mut left = self.available()?;
        let first = self.next;
        let before = store.totals.packets;
        let (mut fault, mut walked) = (None, 0);
        while left > 0 && batch.room() > 0 && walked < SLOTS_MAX {
            let run = self.receive_plain(left, batch, store);
            left -= run.taken;
            if run.taken < run.found {
                // There are no frames.
                break;
            }
            if run.found == run.looked {
                continue;
            }
            match self.receive_front(left, batch, store) {
                Ok(Front::Taken(slots)) => (left, walked) = (left - slots, walked + slots),
                Ok(Front::Waits) => {
                    // The next call looks at the peer's index again.
                    self.filled = self.next;
                    break;
                }
                Err(corrupt) => {
                    fault = Some(corrupt);
                    break;
                }
            }
        }
        self.finish(first, store.totals.packets - before, fault).map(|packets| packets as usize)
    }

    /// Gives the slots from `first` on back to the peer that were read. What was sound is handed out before a fault, which shows again.
    #[inline]
    fn finish(&self, first: u16, packets: u64, fault: Option<Corrupt>) -> Result<u64, Corrupt> {
        if self.next != first {
            self.release(first);
        }
        match fault {
            Some(corrupt) if packets == 0 => Err(corrupt),
            _ => Ok(packets),
        }
    }

    /// Takes the packets of one slot each that lie in front, up to the first that is something else.
    #[inline]
    fn receive_plain(&mut self, left: u16, batch: &mut Batch, store: &mut Store) -> Run {
        let len_max = store.pool.packet_len_max() as u32;
        let mut spans = [Span::NONE; AHEAD];
        let (mut found, mut bytes, mut differences) = (0, 0, 0);
        let looked = usize::from(left).min(AHEAD).min(batch.room());
        let first = self.end.ring.read(self.next).length;
        for span in &mut spans[..looked] {
            let index = self.next.wrapping_add(found);
            let descriptor = self.end.ring.read(index);
            let plain = descriptor.flags & NEXT == 0 && (1..=len_max).contains(&descriptor.length);
            let Some(place) = self.place(index, descriptor).filter(|_| plain) else { break };
            place.prefetch();
            bytes += u64::from(descriptor.length);
            differences |= descriptor.length ^ first;
            *span = place;
            found += 1;
        }
        let spans = &spans[..usize::from(found)];
        let taken = if differences == 0 {
            let taken = copy_equal(spans, batch, store.pool);
            bytes = taken as u64 * u64::from(first);
            taken
        } else {
            let taken = copy_each(spans, batch, store.pool);
            bytes -= spans[taken..].iter().map(|span| span.len() as u64).sum::<u64>();
            taken
        };
        self.next = self.next.wrapping_add(taken as u16);
        store.totals.packets += taken as u64;
        store.totals.bytes += bytes;
        Run { looked: looked as u16, found, taken: taken as u16 }
    }

    /// Takes the packet in front, whatever it is.
    #[inline]
    #[cold]
    fn receive_front(&mut self, left: u16, batch: &mut Batch, store: &mut Store) -> Result<Front, Corrupt> {
        let Some((slots, len)) = self.front(left)? else { return Ok(Front::Waits) };
        if len == 0 {
            store.totals.empty += 1;
        } else if len > PACKET_LEN_MAX {
            store.totals.unfit += 1;
        } else {
            match self.gather(slots, len, batch, store.pool) {
                Scattered::NotNow => return Ok(Front::Waits),
                Scattered::TooLong => store.totals.unfit += 1,
                Scattered::Done => {
                    store.totals.packets += 1;
                    store.totals.bytes += len as u64;
                }
            }
        }
        self.clear_marks(slots);
        self.next = self.next.wrapping_add(slots);
        Ok(Front::Taken(slots))
    }

    /// Slots and bytes of the packet in front; `None` if not all of it is there yet.
    #[inline]
    fn front(&self, left: u16) -> Result<Option<(u16, usize)>, Corrupt> {
        let (mut slots, mut len) = (0, 0usize);
        loop {
            if slots == left || slots == SLOTS_MAX {
                // The rest may come; but not if the packet is longer than any may be.
                let all = self.end.ring.slots().min(SLOTS_MAX);
                return if slots < all { Ok(None) } else { Err(self.endless(slots)) };
            }
            let index = self.next.wrapping_add(slots);
            let descriptor = self.end.ring.read(index);
            let Some(place) = self.place(index, descriptor) else { return Err(self.out_of_place(index, descriptor)) };
            slots += 1;
            len += place.len();
            if descriptor.flags & NEXT == 0 {
                return Ok(Some((slots, len)));
            }
        }
    }

    /// Counts whole packets in the totals, at most `packets` of them, and gives their slots back: none is copied, and their bytes are not
    /// touched. Returns how many it counted.
    #[inline]
    pub(crate) fn count(&mut self, packets: u64, totals: &mut Received) -> Result<u64, Corrupt> {
        let mut left = self.available()?;
        let first = self.next;
        let before = totals.packets;
        let (mut fault, mut walked) = (None, 0);
        while left > 0 && totals.packets - before < packets && walked < SLOTS_MAX {
            let plain = self.count_plain(left, packets - (totals.packets - before), totals);
            left -= plain;
            if left == 0 || plain > 0 {
                continue;
            }
            match self.count_front(left, totals) {
                Ok(Front::Taken(slots)) => (left, walked) = (left - slots, walked + slots),
                Ok(Front::Waits) => {
                    // The next call looks at the peer's index again.
                    self.filled = self.next;
                    break;
                }
                Err(corrupt) => {
                    fault = Some(corrupt);
                    break;
                }
            }
        }
        self.finish(first, totals.packets - before, fault)
    }

    /// Counts the packets of one slot each that lie in front, up to the first that is something else; returns how many those are.
    #[inline]
    fn count_plain(&mut self, left: u16, packets: u64, totals: &mut Received) -> u16 {
        let (mut count, mut bytes) = (0u16, 0);
        let most = packets.min(left.into()) as u16;
        while count < most {
            let index = self.next.wrapping_add(count);
            let descriptor = self.end.ring.read(index);
            let plain = descriptor.flags & NEXT == 0 && (1..=PACKET_LEN_MAX as u32).contains(&descriptor.length);
            if !plain || self.place(index, descriptor).is_none() {
                break;
            }
            bytes += u64::from(descriptor.length);
            count += 1;
        }
        self.next = self.next.wrapping_add(count);
        totals.packets += u64::from(count);
        totals.bytes += bytes;
        count
    }

    /// Counts the packet in front, whatever it is.
    #[inline]
    #[cold]
    fn count_front(&mut self, left: u16, totals: &mut Received) -> Result<Front, Corrupt> {
        let Some((slots, len)) = self.front(left)? else { return Ok(Front::Waits) };
        match len {
            0 => totals.empty += 1,
            1..=PACKET_LEN_MAX => {
                totals.packets += 1;
                totals.bytes += len as u64;
            }
            _ => totals.unfit += 1,
        }
        self.clear_marks(slots);
        self.next = self.next.wrapping_add(slots);
        Ok(Front::Taken(slots))
    }

    /// Copies a packet of `len` bytes out of the next slots to the end of the batch. The descriptors are read again: where they say
    /// something else by now, less is copied, and zeros follow. What was in the frames before is of others, and must not get out.
    #[inline]
    fn gather(&self, slots: u16, len: usize, batch: &mut Batch, pool: &mut Pool) -> Scattered {
        let (mut steps, mut place, mut done) = (0..slots, Span::NONE, 0);
        pool.scatter(batch, len, 0, |frame| {
            let mut at = 0;
            while at < frame.len() {
                if done == place.len() {
                    let Some(step) = steps.next() else { break };
                    let index = self.next.wrapping_add(step);
                    (place, done) = (self.place(index, self.end.ring.read(index)).unwrap_or(Span::NONE), 0);
                    continue;
                }
                let step = (frame.len() - at).min(place.len() - done);
                place.read(done, &mut frame[at..at + step]);
                (done, at) = (done + step, at + step);
            }
            frame[at..].fill(0);
        })
    }

    /// DPDK's client sets the mark of a packet that goes on and does not take it away when it fills the slot again; so whoever
    /// reads it does.
    #[inline]
    fn clear_marks(&self, slots: u16) {
        for slot in 0..slots {
            let index = self.next.wrapping_add(slot);
            let descriptor = self.end.ring.read(index);
            if descriptor.flags & NEXT != 0 {
                self.end.ring.write_filled(index, Descriptor { flags: descriptor.flags & !NEXT, ..descriptor });
            }
        }
    }

    /// Where the bytes of a filled slot are; `None` if that cannot be.
    #[inline]
    fn place(&self, index: u16, descriptor: Descriptor) -> Option<Span<'_>> {
        match &self.end.buffers {
            Buffers::Peers(regions) => regions.span(descriptor.region, descriptor.offset, descriptor.length),
            Buffers::Own(own) => own.span(self.end.ring.slot(index), descriptor.length),
        }
    }

    /// Filled slots that were not read. The peer's index is read when those that it showed last are used up.
    #[inline]
    fn available(&mut self) -> Result<u16, Corrupt> {
        let known = self.filled.wrapping_sub(self.next);
        if known > 0 {
            return Ok(known);
        }
        self.look()
    }

    /// As [`ReceiveSide::available`], with a look at the peer's index in any case.
    #[inline]
    pub(crate) fn look(&mut self) -> Result<u16, Corrupt> {
        let index = match &self.end.buffers {
            Buffers::Peers(_) => self.end.ring.head(),
            Buffers::Own(_) => self.end.ring.tail(),
        };
        let filled = self.last.unwrap_or_else(|| index.load(Ordering::Acquire));
        let available = filled.wrapping_sub(self.next);
        // Of its own buffers, all are posted but those that wait here.
        if available > self.end.ring.slots() {
            return Err(self.wrong_index(filled));
        }
        self.filled = filled;
        Ok(available)
    }

    /// The peer is gone: what is in the ring now is the last of it; nothing, if it makes no sense.
    pub(crate) fn freeze(&mut self) {
        self.last = Some(self.look().map_or(self.next, |_| self.filled));
    }

    /// Whole packets that were not read; 0 if the ring makes no sense.
    pub(crate) fn waiting(&mut self) -> u64 {
        let slots = self.look().unwrap_or(0);
        let ends = |step: &u16| self.end.ring.read(self.next.wrapping_add(*step)).flags & NEXT == 0;
        (0..slots).filter(ends).count() as u64
    }

    /// Gives the slots from `first` up to the next one back to the peer.
    #[inline]
    fn release(&self, first: u16) {
        match &self.end.buffers {
            Buffers::Peers(_) => self.end.ring.tail().store(self.next, Ordering::Release),
            Buffers::Own(own) => self.post(own, first, self.next.wrapping_sub(first)),
        }
    }

    /// Posts the buffers of `count` slots from index `first` on. All slots but those that were read since are posted then.
    #[inline]
    fn post(&self, own: &Own, first: u16, count: u16) {
        let ring = &self.end.ring;
        for step in 0..count {
            let index = first.wrapping_add(step);
            let offset = own.offset(ring.slot(index));
            ring.write(index, Descriptor { flags: 0, region: 0, length: own.bytes, offset });
        }
        ring.head().store(self.next.wrapping_add(ring.slots()), Ordering::Release);
    }

    /// Whether the peer shall ring when it fills a slot.
    #[inline]
    pub(crate) fn enable_interrupts(&self, wanted: bool) {
        let flags = if wanted && self.end.bell.is_some() { 0 } else { NO_INTERRUPT };
        self.end.ring.flags().store(flags, Ordering::SeqCst);
    }

    #[cold]
    fn wrong_index(&self, index: u16) -> Corrupt {
        let slots = self.end.ring.slots();
        Corrupt(format!("the index {index} into a ring of {slots} slots that was read up to {}", self.next))
    }

    #[cold]
    fn out_of_place(&self, index: u16, descriptor: Descriptor) -> Corrupt {
        let Descriptor { region, length, offset, .. } = descriptor;
        let slot = self.end.ring.slot(index);
        Corrupt(format!(
            "a packet of {length} bytes at {offset:#x} of region {region} into slot {slot}, where no buffer is"
        ))
    }

    #[cold]
    fn endless(&self, slots: u16) -> Corrupt {
        Corrupt(format!("a packet without an end into {slots} of {} slots of a ring", self.end.ring.slots()))
    }
}

/// Appends copies of packets that are all as long as the first, as many as there are frames; returns how many.
#[inline]
fn copy_equal(spans: &[Span], batch: &mut Batch, pool: &mut Pool) -> usize {
    let before = batch.len();
    let taken = pool.alloc(batch, spans.len(), spans.first().map_or(0, Span::len));
    for (frame, span) in batch.iter_mut().skip(before).zip(spans) {
        span.read(0, frame);
    }
    taken
}

/// As [`copy_equal`], of packets of different lengths.
#[inline]
fn copy_each(spans: &[Span], batch: &mut Batch, pool: &mut Pool) -> usize {
    let mut rest = spans.iter();
    pool.fill(batch, spans.len(), |frame| {
        let span = rest.next()?;
        let len = span.len();
        span.read(0, frame.get_mut(..len)?);
        Some(Written { len, ..Written::default() })
    })
}
