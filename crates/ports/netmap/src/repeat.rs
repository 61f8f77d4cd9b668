//! One packet over and over, as generators send it: it is written into each buffer of the transmit ring once and sent from there again and
//! again, so that a packet costs no more than a word of its slot.
//!
//! A switch of the kernel and the driver of a device read the buffers, and leave them as they are. A kernel that puts another buffer into a
//! slot sets `NS_BUF_CHANGED` (a monitor without copies, for example). The far end of a pipe or of a veth pair gets the buffer itself. Hardly
//! any reader writes to it and gives it back, but each may; so slots are looked at in turn, all of them in 61 rounds of the ring, and from the
//! first difference on every packet is written anew. A look at each would cost as much as writing it: buffers of a ring are too far apart for
//! the processor's caches and its TLB. So the buffer that is looked at next is asked for ahead, and slots that need no change are not written.

use crate::abi::{BUFFER_CHANGED, SlotWord};
use crate::fault::{Corrupt, wrong_buffer};
use crate::ring::{Ring, Taker};

/// A slot that the packet was not written to.
const NOT_WRITTEN: SlotWord = SlotWord { buffer: 0, len: 0, flags: BUFFER_CHANGED };
/// Slots from one that is looked at to the next: a prime, so that it is the turn of each slot of a ring some time.
const LOOK_EVERY: u32 = 61;

/// The packet, and where it is.
pub(crate) struct Repeated {
    packet: Box<[u8]>,
    /// A copy to look at.
    seen: Box<[u8]>,
    /// By slot, what it was when the packet had been written to its buffer: no flag is set then.
    written: Box<[SlotWord]>,
    /// Readers may write to the buffers.
    looks: bool,
    /// One did.
    always_writes: bool,
    until_look: u32,
}

impl Repeated {
    /// A packet that fits a slot.
    pub(crate) fn new(packet: &[u8], taker: Taker, slots: u32) -> Repeated {
        Repeated {
            packet: packet.into(),
            seen: packet.into(),
            written: vec![NOT_WRITTEN; slots as usize].into(),
            looks: taker == Taker::Reader,
            always_writes: false,
            until_look: 0,
        }
    }

    /// Bytes of the packet.
    #[inline]
    pub(crate) fn len(&self) -> u16 {
        self.packet.len() as u16
    }

    /// Other packets were written into the buffers.
    pub(crate) fn forget_buffers(&mut self) {
        self.written.fill(NOT_WRITTEN);
    }

    /// Fills slot `index` with the packet, or leaves it as it is, if the packet is there.
    #[inline]
    pub(crate) fn put(&mut self, ring: &Ring, index: u32) -> Result<(), Corrupt> {
        let slot = ring.memory.slot(index);
        let written = self.written.get(index as usize).copied().unwrap_or(NOT_WRITTEN);
        if self.looks && slot.buffer == written.buffer && slot.flags & BUFFER_CHANGED == 0 {
            match self.until_look.checked_sub(1) {
                Some(left) => self.until_look = left,
                None => self.look(ring, index, slot.buffer),
            }
        }
        if slot.word() == written.word() && slot.flags == 0 && !self.always_writes {
            return Ok(());
        }
        self.write(ring, index, slot)
    }

    /// Looks for the packet in the buffer of slot `index`, where it was written before, and asks for the buffer that is looked at next.
    #[cold]
    fn look(&mut self, ring: &Ring, index: u32, buffer: u32) {
        self.until_look = LOOK_EVERY - 1;
        let read = ring.memory.read(buffer, 0, &mut self.seen);
        self.always_writes |= !read || self.seen != self.packet;
        let next = ring.after(index, LOOK_EVERY % ring.memory.slots());
        ring.memory.prefetch(ring.memory.slot(next).buffer);
    }

    /// Writes slot `index`, and the packet if it is not in the slot's buffer.
    fn write(&mut self, ring: &Ring, index: u32, slot: SlotWord) -> Result<(), Corrupt> {
        let ready = SlotWord { buffer: slot.buffer, len: self.len(), flags: 0 };
        let Some(written) = self.written.get_mut(index as usize) else { return Err(wrong_buffer(index, slot.buffer)) };
        if *written != ready || slot.flags & BUFFER_CHANGED != 0 || self.always_writes {
            if !ring.memory.write(slot.buffer, 0, &self.packet) {
                return Err(wrong_buffer(index, slot.buffer));
            }
            ring.memory.set_offset(index, 0);
            *written = ready;
        }
        ring.memory.set_slot(index, ready);
        Ok(())
    }
}
