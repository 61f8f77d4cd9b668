//! One packet over and over, as generators send it: it is written into each buffer of the transmit ring once and sent from there again and
//! again, so that a packet costs no more than a word of its slot.
//!
//! A switch of the kernel and the driver of a device read the buffers, and leave them as they are. A kernel that puts another buffer into a
//! slot sets `NS_BUF_CHANGED` (a monitor without copies, for example). The far end of a pipe or of a veth pair gets the buffer itself. Hardly
//! any reader writes to it and gives it back, but each may; so slots are looked at in turn, all of them in 61 rounds of the ring, and from the
//! first difference on every packet is written anew. A look at each would cost as much as writing it: buffers of a ring are too far apart for
//! the processor's caches and its TLB.

use crate::abi::{BUFFER_CHANGED, SlotWord};
use crate::fault::{Corrupt, wrong_buffer};
use crate::ring::{Ring, Taker};

/// The number of no buffer.
const NO_BUFFER: u32 = 0;
/// Slots from one that is looked at to the next: a prime, so that it is the turn of each slot of a ring some time.
const LOOK_EVERY: u32 = 61;

/// The packet, and where it is.
pub(crate) struct Repeated {
    packet: Box<[u8]>,
    /// A copy to look at.
    seen: Box<[u8]>,
    /// By slot, the buffer that the packet was written to.
    written: Box<[u32]>,
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
            written: vec![NO_BUFFER; slots as usize].into(),
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
        self.written.fill(NO_BUFFER);
    }

    /// Fills slot `index` with the packet.
    #[inline]
    pub(crate) fn put(&mut self, ring: &Ring, index: u32) -> Result<(), Corrupt> {
        let SlotWord { buffer, flags, .. } = ring.memory.slot(index);
        let Some(written) = self.written.get_mut(index as usize) else { return Err(wrong_buffer(index, buffer)) };
        let is_new = *written != buffer || flags & BUFFER_CHANGED != 0;
        if self.looks && !is_new {
            self.until_look = self.until_look.checked_sub(1).unwrap_or(LOOK_EVERY - 1);
            if self.until_look == LOOK_EVERY - 1 {
                let read = ring.memory.read(buffer, 0, &mut self.seen);
                self.always_writes |= !read || self.seen != self.packet;
            }
        }
        if is_new || self.always_writes {
            if !ring.memory.write(buffer, 0, &self.packet) {
                return Err(wrong_buffer(index, buffer));
            }
            ring.memory.set_offset(index, 0);
            *written = buffer;
        }
        ring.memory.set_slot(index, SlotWord { buffer, len: self.len(), flags: 0 });
        Ok(())
    }
}
