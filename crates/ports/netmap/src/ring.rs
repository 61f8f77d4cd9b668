//! The indices of a ring, which the kernel and this process move in turn.
//!
//! ```text
//!        head            tail
//! | ...... | ours ....... | the kernel's ... |      slots head to tail - 1 are ours, the others are the kernel's
//! ```
//! Slots that were read may be kept for some time: `cur` then stands where packets were read to, and `head` behind it.
//! This process moves both and the kernel moves `tail`, within a sync only. `head` and `tail` are kept in private memory; what stands in
//! the area is written, and read back after a sync alone.

use crate::fault::Corrupt;
use crate::sys::RingMemory;

/// Who takes the packets out of a transmit ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taker {
    /// The hardware of an interface, in its own time.
    Device,
    /// A switch of the kernel, which copies them within the sync.
    Switch,
    /// The far end of a pipe or a veth pair: it has the packets, in the buffers that they were written to, once the sync is over, and gives
    /// the slots back when it has read them.
    Reader,
}

/// One ring, with indices of this process's own.
pub(crate) struct Ring {
    pub memory: RingMemory,
    head: u32,
    tail: u32,
    /// First slot that the kernel does not have, from the next sync on: `head` as it stands in the area.
    released: u32,
}

impl Ring {
    /// A ring that was just bound.
    ///
    /// # Errors
    /// Its indices cannot be.
    pub(crate) fn new(memory: RingMemory) -> Result<Ring, Corrupt> {
        let mut ring = Ring { head: memory.head(), tail: 0, released: memory.head(), memory };
        if ring.head >= ring.memory.slots() {
            return Err(ring.impossible("head", ring.head));
        }
        ring.look()?;
        Ok(ring)
    }

    /// Takes over the kernel's index, after a sync.
    ///
    /// # Errors
    /// It is not below the number of slots, or somebody else moved ours.
    #[inline]
    pub(crate) fn look(&mut self) -> Result<(), Corrupt> {
        let (head, tail) = (self.memory.head(), self.memory.tail());
        if tail >= self.memory.slots() {
            return Err(self.impossible("tail", tail));
        }
        if head != self.released {
            return Err(self.moved(head));
        }
        self.tail = tail;
        Ok(())
    }

    #[cold]
    fn impossible(&self, name: &str, index: u32) -> Corrupt {
        Corrupt(format!("{name} {index} to a ring of {} slots", self.memory.slots()))
    }

    /// The kernel moves `head` only if it found it, or a slot, wrong; another process has no business with it.
    #[cold]
    fn moved(&self, head: u32) -> Corrupt {
        Corrupt(format!("head {head} to a ring that this port left at {} (is the ring open twice?)", self.released))
    }

    /// First slot of ours.
    #[inline]
    pub(crate) fn head(&self) -> u32 {
        self.head
    }

    /// Slots of ours.
    #[inline]
    pub(crate) fn available(&self) -> u32 {
        let distance = self.tail.wrapping_sub(self.head);
        if self.tail < self.head { distance.wrapping_add(self.memory.slots()) } else { distance }
    }

    /// Slots of a transmit ring that the kernel has not sent yet: a ring keeps one slot free.
    #[inline]
    pub(crate) fn pending(&self) -> u32 {
        self.memory.slots() - 1 - self.available()
    }

    /// The slot behind slot `index`.
    #[inline]
    pub(crate) fn next(&self, index: u32) -> u32 {
        if index + 1 >= self.memory.slots() { 0 } else { index + 1 }
    }

    /// The slot `distance` slots behind slot `index`; `distance` is at most the number of slots.
    #[inline]
    pub(crate) fn after(&self, index: u32, distance: u32) -> u32 {
        let (slots, sum) = (self.memory.slots(), u64::from(index) + u64::from(distance));
        (if sum >= u64::from(slots) { sum - u64::from(slots) } else { sum }) as u32
    }

    /// Hands the slots before `head` to the kernel, at the next sync.
    #[inline]
    pub(crate) fn release(&mut self, head: u32) {
        (self.head, self.released) = (head, head);
        self.memory.set_head(head);
    }

    /// Passes the slots before `head` and keeps them.
    #[inline]
    pub(crate) fn pass(&mut self, head: u32) {
        self.head = head;
        self.memory.set_cur(head);
    }

    /// Lets a sleep of the caller go on until more arrives than is there: it is a part of a packet.
    #[cold]
    pub(crate) fn await_more(&mut self) {
        self.memory.set_cur(self.tail);
    }

    /// Slots that were passed and kept.
    #[inline]
    pub(crate) fn kept(&self) -> u32 {
        let distance = self.head.wrapping_sub(self.released);
        if self.head < self.released { distance.wrapping_add(self.memory.slots()) } else { distance }
    }
}
