//! `zerocopy`: the buffers of netmap's area are the frames of the pool, and change places with those of the rings.
//!
//! ```text
//! receive    slot's buffer -> batch      a free frame   -> the slot      NS_BUF_CHANGED
//! transmit   batch's frame -> the slot   slot's buffer  -> free frames   NS_BUF_CHANGED
//! ```
//! The free frames are extra buffers of the area, which netmap hands out when a port is registered and takes back when that descriptor is
//! closed. A table in private memory says which buffers are this process's (`OwnershipTable`), so that no buffer is in two places, whatever
//! stands in the rings. A process that is killed leaves its buffers taken until nobody uses the area any more; netmap resets it then.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use linerate_mem::{Batch, InvalidFrame, LOANED, OwnershipTable, Pool, SlotFields};

use crate::abi::{BUFFER_CHANGED, FRAGMENTS_MAX, MORE_FRAGMENTS, SlotWord};
use crate::fault::Corrupt;
use crate::ring::Ring;
use crate::sys::ExtraBuffers;

/// Slots that are exchanged at a time, as many as a table takes.
pub(crate) const AT_ONCE: usize = 64;
/// The note of free frames that are about to take the places of buffers of the ring, which cannot name them yet.
const ON_THE_WAY: u16 = LOANED + 1;
/// Exchanges buffers between the rings of a port and its pool.
#[derive(Clone)]
pub(crate) struct Exchange {
    table: Arc<Mutex<OwnershipTable>>,
}

/// Packets that one exchange moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moved {
    pub slots: u32,
    pub packets: u64,
    pub bytes: u64,
}

impl Exchange {
    /// For a port in memory area `memory`, if that is what the pool is made of.
    pub(crate) fn of(pool: &Pool, memory: u16) -> Option<Exchange> {
        let extra = pool.region().companion()?.downcast_ref::<Arc<ExtraBuffers>>()?;
        (extra.memory == memory).then(|| pool.ownership().map(|table| Exchange { table: Arc::clone(table) })).flatten()
    }

    /// Which frames are this process's: bytes are copied from and to buffers of others alone.
    pub(crate) fn table(&self) -> MutexGuard<'_, OwnershipTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the packets at the head of a receive ring, whole ones, as many as there are and as there are free frames and room for, up to
    /// [`AT_ONCE`] slots. The slots are the kernel's again, with other buffers, once the caller has released them.
    ///
    /// # Errors
    /// A slot names a buffer that the ring cannot have, or a packet that is not inside its buffer.
    #[inline]
    pub(crate) fn receive(&self, ring: &Ring, batch: &mut Batch, pool: &mut Pool) -> Result<Moved, Corrupt> {
        let mut words = [0; AT_ONCE];
        let found = arrived(ring, &mut words[..AT_ONCE.min(batch.room())])?;
        if found.slots == 0 {
            return Ok(found);
        }
        let mut table = self.table();
        let mut free = [0; AT_ONCE];
        let frames = table.export_free(pool, found.slots as usize, ON_THE_WAY, |frames| copied(&mut free, frames));
        let (mut moved, before) = (Moved::default(), batch.len());
        let imported = table.import(batch, LOANED, |spare| {
            moved = whole_packets(&words[..frames.min(spare.len())], usize::MAX);
            copied(spare, &words[..moved.slots as usize])
        });
        let good = batch.len() - before;
        table.note_again(&free[..good], LOANED);
        let mut index = ring.head();
        for word in &free[..good] {
            let buffer = SlotFields::of(*word).frame;
            ring.memory.set_slot(index, SlotWord { buffer, len: 0, flags: BUFFER_CHANGED });
            index = ring.next(index);
        }
        if good < frames {
            // The other frames are free again.
            let _ = table.import_free(pool, |words| copied(words, &free[good..frames]), |_| true);
        }
        imported.map(|_| moved).map_err(|wrong| {
            // A part of a packet is none.
            pool.free_back(batch, good);
            corrupt(wrong)
        })
    }

    /// Puts packets from the front of the batch into a transmit ring, whole ones of up to `len_max` bytes that begin at the first byte of
    /// their frames, as many as there are and as there is room for, up to [`AT_ONCE`] slots: `put` writes each slot. The caller releases the
    /// slots.
    ///
    /// # Errors
    /// A slot of the ring names a buffer that it cannot have. Nothing was taken from the batch.
    #[inline]
    pub(crate) fn transmit(
        &self,
        ring: &Ring,
        batch: &mut Batch,
        pool: &mut Pool,
        len_max: usize,
        mut put: impl FnMut(u32, SlotWord),
    ) -> Result<Moved, Corrupt> {
        let most = AT_ONCE.min(ring.available() as usize);
        let mut moved = Moved::default();
        let mut table = self.table();
        table.export(
            batch,
            most,
            |_| LOANED,
            |words| {
                let plain = words.iter().take_while(|word| is_plain(**word, ring.memory.buffer_bytes())).count();
                moved = whole_packets(&words[..plain], len_max);
                // Looked at, and none taken yet.
                0
            },
        );
        let slots = moved.slots as usize;
        if slots == 0 {
            return Ok(moved);
        }
        let mut before = [0; AT_ONCE];
        let mut index = ring.head();
        for word in &mut before[..slots] {
            let frame = known(ring, ring.memory.slot(index).buffer)?;
            *word = SlotFields { frame, offset: 0, len: 0, more: false }.word();
            index = ring.next(index);
        }
        let loaned = table.loaned();
        if let Err(wrong) = table.import_free(pool, |words| copied(words, &before[..slots]), |note| note == LOANED) {
            // The slots whose buffers became free frames get others.
            let imported = loaned - table.loaned();
            let put = |frames: &[u64]| {
                let mut index = ring.head();
                for word in frames {
                    let buffer = SlotFields::of(*word).frame;
                    ring.memory.set_slot(index, SlotWord { buffer, len: 0, flags: BUFFER_CHANGED });
                    index = ring.next(index);
                }
                frames.len()
            };
            table.export_free(pool, imported, LOANED, put);
            return Err(corrupt(wrong));
        }
        table.export(
            batch,
            slots,
            |_| LOANED,
            |words| {
                let mut index = ring.head();
                for word in words {
                    let fields = SlotFields::of(*word);
                    let flags = BUFFER_CHANGED | if fields.more { MORE_FRAGMENTS } else { 0 };
                    ring.memory.set_offset(index, 0);
                    put(index, SlotWord { buffer: fields.frame, len: fields.len, flags });
                    index = ring.next(index);
                }
                words.len()
            },
        );
        Ok(moved)
    }
}

/// The packets at the head of a receive ring, as words of slots: whole ones, of at least a byte in each slot.
#[inline]
fn arrived(ring: &Ring, words: &mut [u64]) -> Result<Moved, Corrupt> {
    let mut index = ring.head();
    let (mut slots, left) = (0, (ring.available() as usize).min(words.len()));
    for word in &mut words[..left] {
        let SlotWord { buffer, len, flags } = ring.memory.slot(index);
        let Some(offset) = u16::try_from(ring.memory.offset(index)).ok().filter(|_| len > 0) else { break };
        *word = SlotFields { frame: known(ring, buffer)?, offset, len, more: flags & MORE_FRAGMENTS != 0 }.word();
        slots += 1;
        index = ring.next(index);
    }
    Ok(whole_packets(&words[..slots], usize::MAX))
}

/// The number of a buffer, if there is such a one.
#[inline]
fn known(ring: &Ring, buffer: u32) -> Result<u32, Corrupt> {
    if ring.memory.has_buffer(buffer) {
        Ok(buffer)
    } else {
        Err(Corrupt(format!("buffer {buffer}, which there is not")))
    }
}

/// As many of the first words as make whole packets of up to `len_max` bytes.
#[inline]
fn whole_packets(words: &[u64], len_max: usize) -> Moved {
    let (mut moved, mut len, mut begun) = (Moved::default(), 0, 0);
    for (word, slot) in words.iter().zip(1..) {
        let fields = SlotFields::of(*word);
        len += usize::from(fields.len);
        begun += 1;
        if begun > FRAGMENTS_MAX || len > len_max {
            break;
        }
        if !fields.more {
            moved = Moved { slots: slot, packets: moved.packets + 1, bytes: moved.bytes + len as u64 };
            (len, begun) = (0, 0);
        }
    }
    moved
}

/// True for a slot that a transmit ring takes as it is.
#[inline]
fn is_plain(word: u64, len_max: usize) -> bool {
    let fields = SlotFields::of(word);
    fields.offset == 0 && fields.len > 0 && usize::from(fields.len) <= len_max
}

fn copied(to: &mut [u64], from: &[u64]) -> usize {
    to[..from.len()].copy_from_slice(from);
    from.len()
}

#[cold]
fn corrupt(wrong: InvalidFrame) -> Corrupt {
    Corrupt(wrong.to_string())
}
