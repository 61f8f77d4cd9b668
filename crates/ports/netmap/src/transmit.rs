//! Sending: packets are copied into the buffers of the ring, or their frames take the buffers' places, or one packet that is in the buffers
//! already is sent again (repeat.rs).

use linerate_mem::{Batch, OwnershipTable, Pool};

use crate::abi::{FRAGMENTS_MAX, MORE_FRAGMENTS, REPORT, SlotWord};
use crate::exchange::Exchange;
use crate::fault::{Corrupt, Fault, wrong_buffer};
use crate::repeat::Repeated;
use crate::ring::{Ring, Taker};

/// Slots that are filled before a sync of a device. A sync is a system call, which costs as much as some hundred packets; `flush` and `wait`
/// sync at once.
const SLOTS_PER_SYNC: u32 = 512;

/// Totals of what was put into the ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub packets: u64,
    pub bytes: u64,
}

/// What a slot of the ring holds: bytes, and whether the packet ends there.
#[derive(Clone, Copy, Debug, Default)]
struct Note {
    len: u16,
    ends: bool,
}

/// A transmit ring.
pub(crate) struct Sender {
    pub ring: Ring,
    /// All that was put into the ring.
    put: Totals,
    /// By slot, for the account of what is not sent yet.
    notes: Box<[Note]>,
    /// Slots that were filled since the last sync.
    pub unsynced: u32,
    pub taker: Taker,
    /// Packets without a byte, which were taken and not sent.
    pub empty: u64,
    pub frame_len_max: usize,
    /// Bytes of a packet in one slot, at most.
    slot_bytes: usize,
    /// Buffers change places with frames of the pool.
    exchange: Option<Exchange>,
    /// The packet that is sent over and over.
    repeated: Option<Repeated>,
}

impl Sender {
    /// A sender of packets of up to `len_max` bytes, as far as the slots of one packet hold them.
    pub(crate) fn new(ring: Ring, len_max: usize, taker: Taker, exchange: Option<Exchange>) -> Sender {
        let slot_bytes = ring.memory.buffer_bytes().min(usize::from(u16::MAX));
        let frame_len_max = len_max.min(slot_bytes * FRAGMENTS_MAX.min(ring.memory.slots() as usize - 1));
        let notes = vec![Note::default(); ring.memory.slots() as usize].into();
        Sender {
            ring,
            put: Totals::default(),
            notes,
            unsynced: 0,
            taker,
            empty: 0,
            frame_len_max,
            slot_bytes,
            exchange,
            repeated: None,
        }
    }

    /// Takes packets from the front of the batch, as many as there are slots for, and returns how many.
    ///
    /// # Errors
    /// A packet is too long and none was taken, or a slot names a buffer that there is not.
    #[inline]
    pub(crate) fn transmit(&mut self, batch: &mut Batch, pool: &mut Pool) -> Result<usize, Fault> {
        if let Some(repeated) = &mut self.repeated {
            repeated.forget_buffers();
        }
        let mut taken = 0;
        loop {
            taken += self.exchange(batch, pool)?;
            let plain = self.put_plain(batch)?;
            pool.free_front(batch, plain);
            taken += plain;
            if batch.is_empty() || self.ring.available() == 0 {
                break;
            }
            match self.put_other(batch, pool) {
                Ok(true) => taken += 1,
                Ok(false) => break,
                // The next call says it again.
                Err(Fault::TooLong(_)) if taken > 0 => break,
                Err(fault) => return Err(fault),
            }
        }
        Ok(taken)
    }

    /// Loads the packet that [`Sender::repeat`] sends. False if it takes several slots, or is longer than the port takes, or if the buffers
    /// change places with frames, so that they have other packets in them by and by.
    pub(crate) fn load(&mut self, packet: &[u8]) -> bool {
        let fits = (1..=self.slot_bytes.min(self.frame_len_max)).contains(&packet.len()) && self.exchange.is_none();
        self.repeated = fits.then(|| Repeated::new(packet, self.taker, self.ring.memory.slots()));
        fits
    }

    /// Puts the loaded packet into the ring up to `packets` times, as often as there are slots for, and returns how often; `None` if none is
    /// loaded.
    ///
    /// # Errors
    /// A slot names a buffer that there is not.
    #[inline]
    pub(crate) fn repeat(&mut self, packets: u64) -> Result<Option<u64>, Corrupt> {
        let Sender { ring, notes, repeated, .. } = &mut *self;
        let Some(repeated) = repeated else { return Ok(None) };
        let count = packets.min(u64::from(ring.available())) as u32;
        let len = repeated.len();
        let (mut index, mut last) = (ring.head(), ring.head());
        for _ in 0..count {
            repeated.put(ring, index)?;
            if let Some(note) = notes.get_mut(index as usize) {
                *note = Note { len, ends: true };
            }
            (last, index) = (index, ring.next(index));
        }
        if count > 0 {
            let packets = u64::from(count);
            self.publish(last, index, count, Totals { packets, bytes: packets * u64::from(len) });
        }
        Ok(Some(u64::from(count)))
    }

    /// Slots that are filled before a sync, if packets keep coming in large batches.
    pub(crate) fn slots_per_sync(&self) -> u32 {
        let slots = self.ring.memory.slots();
        match self.taker {
            Taker::Device => SLOTS_PER_SYNC.min(slots / 2),
            // The receiver gets the packets within the sync, so the ring is filled first.
            Taker::Switch | Taker::Reader => slots - 1,
        }
    }

    /// Puts packets into the ring whose frames take the places of its buffers, from the front of the batch on, and returns how many.
    #[inline]
    fn exchange(&mut self, batch: &mut Batch, pool: &mut Pool) -> Result<usize, Corrupt> {
        let mut packets = 0;
        while let Some(exchange) = self.exchange.as_ref().filter(|_| !batch.is_empty() && self.ring.available() > 0) {
            let (ring, notes, mut last) = (&self.ring, &mut self.notes, 0);
            let moved = exchange.transmit(ring, batch, pool, self.frame_len_max, |index, slot| {
                ring.memory.set_slot(index, slot);
                if let Some(note) = notes.get_mut(index as usize) {
                    *note = Note { len: slot.len, ends: slot.flags & MORE_FRAGMENTS == 0 };
                }
                last = index;
            })?;
            if moved.slots == 0 {
                break;
            }
            packets += moved.packets as usize;
            let totals = Totals { packets: moved.packets, bytes: moved.bytes };
            self.publish(last, self.ring.after(self.ring.head(), moved.slots), moved.slots, totals);
        }
        Ok(packets)
    }

    /// Puts packets of one frame and one slot into the ring, from the front of the batch on, and returns how many.
    #[inline]
    fn put_plain(&mut self, batch: &Batch) -> Result<usize, Corrupt> {
        let len_max = self.slot_bytes.min(self.frame_len_max);
        let (mut index, available) = (self.ring.head(), self.ring.available() as usize);
        let (mut last, mut bytes, mut count) = (index, 0, 0);
        let Sender { ring, notes, exchange, .. } = &mut *self;
        // Only what does not change places is left here.
        let table = exchange.as_ref().filter(|_| !batch.is_empty()).map(Exchange::table);
        for part in batch.parts().take(available) {
            let len = part.bytes.len();
            if part.more || len > len_max || len == 0 {
                break;
            }
            put_slot(ring, notes, table.as_deref(), (index, false), part.bytes)?;
            (last, index) = (index, ring.next(index));
            bytes += len as u64;
            count += 1;
        }
        drop(table);
        if count > 0 {
            self.publish(last, index, count as u32, Totals { packets: count as u64, bytes });
        }
        Ok(count)
    }

    /// Hands filled slots over, at the next sync; asks for a report about the last one.
    #[inline]
    fn publish(&mut self, last: u32, head: u32, slots: u32, totals: Totals) {
        let word = self.ring.memory.slot(last);
        self.ring.memory.set_slot(last, SlotWord { flags: word.flags | REPORT, ..word });
        self.ring.release(head);
        self.unsynced += slots;
        self.put.packets += totals.packets;
        self.put.bytes += totals.bytes;
    }

    /// Takes the packet at the front of the batch, which has several frames or needs several slots, or has no byte. False if there is no
    /// room for it now, or its last frame is not in the batch.
    #[cold]
    fn put_other(&mut self, batch: &mut Batch, pool: &mut Pool) -> Result<bool, Fault> {
        let Some(span) = batch.span(0) else { return Ok(false) };
        if span.len > self.frame_len_max {
            return Err(Fault::TooLong(span.len));
        }
        let slots = span.len.div_ceil(self.slot_bytes);
        if slots > self.ring.available() as usize {
            return Ok(false);
        }
        if slots == 0 {
            self.empty += 1;
            pool.free_front(batch, span.slots);
            return Ok(true);
        }
        let mut reader = batch.reader(0, span.slots);
        let (mut index, mut last) = (self.ring.head(), self.ring.head());
        let mut gathered = vec![0; self.slot_bytes];
        let Sender { ring, notes, exchange, .. } = &mut *self;
        let table = exchange.as_ref().map(Exchange::table);
        for slot in 1..=slots {
            let len = reader.read(&mut gathered);
            put_slot(ring, notes, table.as_deref(), (index, slot < slots), &gathered[..len])?;
            (last, index) = (index, ring.next(index));
        }
        drop(table);
        self.publish(last, index, slots as u32, Totals { packets: 1, bytes: span.len as u64 });
        pool.free_front(batch, span.slots);
        Ok(true)
    }

    /// What was put into the ring and not sent, as of the last sync.
    pub(crate) fn pending(&self) -> Totals {
        let slots = if self.taker == Taker::Device { self.ring.pending() } else { self.unsynced };
        let first = self.ring.after(self.ring.head(), self.ring.memory.slots() - slots);
        let notes = (0..slots).filter_map(|slot| self.notes.get(self.ring.after(first, slot) as usize));
        notes.fold(Totals::default(), |sum, note| Totals {
            packets: sum.packets + u64::from(note.ends),
            bytes: sum.bytes + u64::from(note.len),
        })
    }

    /// What was sent, as of the last sync.
    pub(crate) fn sent(&self) -> Totals {
        let pending = self.pending();
        Totals {
            packets: self.put.packets.saturating_sub(pending.packets),
            bytes: self.put.bytes.saturating_sub(pending.bytes),
        }
    }
}

/// Fills slot `index`, whose packet goes on in the next one if `more` says so. With a table, its buffer must be one that this process does not
/// own: a frame of the pool could be what is copied.
#[inline]
fn put_slot(
    ring: &Ring,
    notes: &mut [Note],
    table: Option<&OwnershipTable>,
    (index, more): (u32, bool),
    bytes: &[u8],
) -> Result<(), Corrupt> {
    let SlotWord { buffer, .. } = ring.memory.slot(index);
    if table.is_some_and(|table| !table.is_loaned(buffer)) || !ring.memory.write(buffer, 0, bytes) {
        return Err(wrong_buffer(index, buffer));
    }
    ring.memory.set_offset(index, 0);
    let (len, flags) = (bytes.len() as u16, if more { MORE_FRAGMENTS } else { 0 });
    ring.memory.set_slot(index, SlotWord { buffer, len, flags });
    if let Some(note) = notes.get_mut(index as usize) {
        *note = Note { len, ends: !more };
    }
    Ok(())
}
