//! The two ends of a ring: indices kept here, checked against the other side's.
//!
//! Each end rereads the other side's index only when its copy says that the ring is full (or empty), as the kernel does, so a
//! batch costs one visit to the shared cache line. An index that cannot be (more than the ring's size apart) is an error.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::abi::{self, Descriptor};
use crate::fault::Corrupt;
use crate::sys::{Cell, DescriptorCell, RingMemory};

/// The end that puts in: fill and transmit ring.
pub(crate) struct ProducerEnd<C> {
    memory: RingMemory<C>,
    /// Next place to write; the kernel sees it after [`ProducerEnd::publish`].
    tail: u32,
    head_seen: u32,
}

impl<C: Cell> ProducerEnd<C> {
    pub(crate) fn new(memory: RingMemory<C>) -> ProducerEnd<C> {
        let tail = memory.producer().load(Ordering::Relaxed);
        let head_seen = memory.consumer().load(Ordering::Acquire);
        ProducerEnd { memory, tail, head_seen }
    }

    /// Places in the ring.
    pub(crate) fn entries(&self) -> u32 {
        self.memory.entries()
    }

    /// Places that are free; looks at the kernel's index when fewer than `wanted` seem to be.
    #[inline]
    pub(crate) fn room(&mut self, wanted: u32) -> Result<u32, Corrupt> {
        let room = self.entries() - self.tail.wrapping_sub(self.head_seen);
        if room >= wanted {
            return Ok(room);
        }
        let head = self.head()?;
        Ok(self.entries() - self.tail.wrapping_sub(head))
    }

    /// Index of the next place that the kernel takes out, as far as it tells.
    #[inline]
    pub(crate) fn head(&mut self) -> Result<u32, Corrupt> {
        let head = self.memory.consumer().load(Ordering::Acquire);
        if self.tail.wrapping_sub(head) > self.tail.wrapping_sub(self.head_seen) {
            return Err(wrong_index("consumer", head, self.head_seen, self.tail));
        }
        self.head_seen = head;
        Ok(head)
    }

    /// Index of the next place to write.
    #[inline]
    pub(crate) fn tail(&self) -> u32 {
        self.tail
    }

    /// Shows the kernel what was put in.
    #[inline]
    pub(crate) fn publish(&mut self) {
        self.memory.producer().store(self.tail, Ordering::Release);
    }

    /// True when the kernel asks to be told of new entries.
    #[inline]
    pub(crate) fn needs_wakeup(&self) -> bool {
        self.memory.flags().load(Ordering::Relaxed) & abi::NEED_WAKEUP != 0
    }
}

impl ProducerEnd<AtomicU64> {
    /// Puts an address in; the caller asked for [`ProducerEnd::room`].
    #[inline]
    pub(crate) fn put(&mut self, address: u64) {
        self.memory.cell(self.tail).store(address, Ordering::Relaxed);
        self.tail = self.tail.wrapping_add(1);
    }
}

impl ProducerEnd<DescriptorCell> {
    /// Puts a descriptor in; the caller asked for [`ProducerEnd::room`].
    #[inline]
    pub(crate) fn put(&mut self, descriptor: Descriptor) {
        self.memory.cell(self.tail).write(descriptor);
        self.tail = self.tail.wrapping_add(1);
    }

    /// What was put in at `index`.
    pub(crate) fn at(&self, index: u32) -> Descriptor {
        self.memory.cell(index).read()
    }
}

/// The end that takes out: receive and completion ring.
pub(crate) struct ConsumerEnd<C> {
    memory: RingMemory<C>,
    head: u32,
    tail_seen: u32,
}

impl<C: Cell> ConsumerEnd<C> {
    pub(crate) fn new(memory: RingMemory<C>) -> ConsumerEnd<C> {
        let head = memory.consumer().load(Ordering::Relaxed);
        ConsumerEnd { memory, head, tail_seen: head }
    }

    /// Places in the ring.
    pub(crate) fn entries(&self) -> u32 {
        self.memory.entries()
    }

    /// Entries that can be taken out; looks at the kernel's index when there seem to be none.
    #[inline]
    pub(crate) fn available(&mut self) -> Result<u32, Corrupt> {
        let available = self.tail_seen.wrapping_sub(self.head);
        if available > 0 {
            return Ok(available);
        }
        let tail = self.memory.producer().load(Ordering::Acquire);
        let available = tail.wrapping_sub(self.head);
        if available > self.entries() {
            return Err(wrong_index("producer", tail, self.head, self.head.wrapping_add(self.entries())));
        }
        self.tail_seen = tail;
        Ok(available)
    }

    /// Entries that the kernel has put there by now; at most all, whatever its index says.
    pub(crate) fn waiting(&self) -> u32 {
        self.memory.producer().load(Ordering::Acquire).wrapping_sub(self.head).min(self.entries())
    }

    /// Gives the first `count` places back to the kernel; the caller read them.
    #[inline]
    pub(crate) fn release(&mut self, count: u32) {
        self.head = self.head.wrapping_add(count);
        self.memory.consumer().store(self.head, Ordering::Release);
    }
}

impl ConsumerEnd<AtomicU64> {
    /// The address `offset` places after the first.
    #[inline]
    pub(crate) fn peek(&self, offset: u32) -> u64 {
        self.memory.cell(self.head.wrapping_add(offset)).load(Ordering::Relaxed)
    }
}

impl ConsumerEnd<DescriptorCell> {
    /// The descriptor `offset` places after the first.
    #[inline]
    pub(crate) fn peek(&self, offset: u32) -> Descriptor {
        self.memory.cell(self.head.wrapping_add(offset)).read()
    }
}

#[cold]
fn wrong_index(whose: &str, index: u32, first: u32, last: u32) -> Corrupt {
    Corrupt(format!("{whose} index {index} into a ring, outside {first} to {last}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRIES: u32 = 8;
    const STARTS: [u32; 5] = [0, 5, u32::MAX - 9, u32::MAX, 1 << 31];

    #[test]
    fn puts_in_as_much_as_fits_from_any_start() {
        for start in STARTS {
            let mut ring = ProducerEnd::<AtomicU64>::new(RingMemory::detached(ENTRIES, start));
            let mut taken = start;
            for round in 0..40 {
                let room = ring.room(ENTRIES).unwrap();
                for value in 0..room {
                    ring.put(u64::from(round * 10 + value));
                }
                ring.publish();
                assert_eq!(ring.room(1).unwrap(), 0);
                assert_eq!(ring.memory.producer().load(Ordering::Relaxed), taken.wrapping_add(ENTRIES));
                taken = taken.wrapping_add(3);
                ring.memory.consumer().store(taken, Ordering::Relaxed);
                assert_eq!(ring.room(1).unwrap(), 3);
            }
        }
    }

    #[test]
    fn takes_out_in_order_from_any_start() {
        for start in STARTS {
            let mut ring = ConsumerEnd::<DescriptorCell>::new(RingMemory::detached(ENTRIES, start));
            let (mut written, mut expected) = (0u32, 0u32);
            while expected < 100 {
                assert_eq!(ring.available().unwrap(), 0);
                for _ in 0..=expected % ENTRIES {
                    let cell = ring.memory.cell(start.wrapping_add(written));
                    cell.write(Descriptor { address: written.into(), len: written * 2, options: 1 });
                    written += 1;
                }
                ring.memory.producer().store(start.wrapping_add(written), Ordering::Relaxed);
                let available = ring.available().unwrap();
                assert_eq!((available, ring.waiting()), (written - expected, written - expected));
                for offset in 0..available {
                    let want = Descriptor { address: expected.into(), len: expected * 2, options: 1 };
                    assert_eq!(ring.peek(offset), want);
                    expected += 1;
                }
                ring.release(available);
                assert_eq!(ring.memory.consumer().load(Ordering::Relaxed), start.wrapping_add(written));
            }
        }
    }

    #[test]
    fn indices_that_cannot_be_are_refused() {
        for start in STARTS {
            let mut ring = ProducerEnd::<AtomicU64>::new(RingMemory::detached(ENTRIES, start));
            ring.put(1);
            ring.put(2);
            ring.publish();
            ring.memory.consumer().store(start.wrapping_add(1), Ordering::Relaxed);
            assert_eq!(ring.head().unwrap(), start.wrapping_add(1));
            // Beyond what was put in, and back before what was already taken out.
            for wrong in [start.wrapping_add(3), start, start.wrapping_sub(7)] {
                ring.memory.consumer().store(wrong, Ordering::Relaxed);
                assert!(ring.head().is_err() && ring.room(ENTRIES).is_err(), "{wrong} after {start}");
            }
            let mut ring = ConsumerEnd::<AtomicU64>::new(RingMemory::detached(ENTRIES, start));
            for wrong in [start.wrapping_add(ENTRIES + 1), start.wrapping_sub(1)] {
                ring.memory.producer().store(wrong, Ordering::Relaxed);
                assert!(ring.available().is_err() && ring.waiting() <= ENTRIES, "{wrong} after {start}");
            }
            ring.memory.producer().store(start.wrapping_add(ENTRIES), Ordering::Relaxed);
            assert_eq!(ring.available().unwrap(), ENTRIES);
        }
    }
}
