//! One queue pair: packets between batches and the driver, with one call of the shim a batch.

use std::ffi::c_uint;

use linerate_mem::{Batch, Pool, Slot};
use linerate_wire::Merge;

use super::abi::{self, BURST, DeviceInfo, RawQueue};
use super::memory::FrameStore;

/// Bytes of an Ethernet header.
const ETHERNET_BYTES: usize = 14;

/// Packets, and their bytes, that one call moved.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moved {
    pub packets: usize,
    pub bytes: u64,
}

/// A queue pair of a device that is open. Whoever has it keeps the device and the store.
pub(crate) struct Queue {
    raw: Box<RawQueue>,
    copies: bool,
    /// Free slots that packets are copied into, as words, where packets are copied.
    spare: Vec<u64>,
    pool: Pool,
}

// SAFETY: a queue may be used by any one thread at a time (rte_ethdev.h), and the pointers are to memory that all threads see.
unsafe impl Send for Queue {}

impl Queue {
    pub fn new(info: &DeviceInfo, queue: u16, store: &FrameStore, pool: &Pool, limits: (usize, usize)) -> Queue {
        // SAFETY: the store's memory exists.
        let memory = unsafe { &*store.raw() };
        let copies = info.copies != 0;
        let (len_max, frags_max) = limits;
        let raw = Box::new(RawQueue {
            base: memory.base,
            bytes: pool.region().frames() as u64 * pool.region().frame_size() as u64,
            mbufs: memory.mbufs,
            stride: memory.stride,
            frame_shift: memory.frame_shift,
            mempool: if copies { info.mempool } else { memory.mempool },
            port: info.port,
            queue,
            frags_max: frags_max as u8,
            rx_flags: info.rx_flags,
            verifies: info.is_hardware,
            offloads: info.offloads,
            len_max: len_max as u32,
            held: 0,
            moved_bytes: 0,
            foreign: 0,
            too_long: 0,
            not_left: 0,
            holding: [std::ptr::null_mut(); BURST],
        });
        Queue { raw, copies, spare: Vec::new(), pool: pool.clone() }
    }

    /// Packets that were dropped because they are longer than a batch takes, and because no frame was free for a copy.
    pub fn dropped(&self) -> (u64, u64) {
        (self.raw.too_long, self.raw.foreign)
    }

    /// Appends packets that have arrived, which are of the pool's frames.
    #[inline]
    pub fn receive(&mut self, batch: &mut Batch) -> Moved {
        if self.copies {
            return self.receive_copies(batch);
        }
        let mut packets: c_uint = 0;
        let queue = &mut *self.raw;
        // SAFETY: the shim writes at most as many words as there is room for. Each is of a frame whose mbuf the driver handed over,
        // so that nobody else owns it, and with a packet inside it: the shim checks both.
        unsafe {
            batch.append_words(|words| {
                abi::ln_receive(queue, words.as_mut_ptr(), words.len() as c_uint, &mut packets) as usize
            });
        }
        Moved { packets: packets as usize, bytes: self.raw.moved_bytes }
    }

    fn receive_copies(&mut self, batch: &mut Batch) -> Moved {
        let room = batch.room();
        while self.spare.len() < BURST {
            let Some(slot) = self.pool.alloc_slot(usize::MAX) else { break };
            self.spare.push(slot.into_word());
        }
        let (queue, spare, mut packets) = (&mut *self.raw, &mut self.spare, 0);
        let count = room.min(spare.len());
        // SAFETY: the shim writes into frames of slots that are this queue's, and shortens these. The first ones go to the batch, and
        // leave the list.
        unsafe {
            batch.append_words(|words| {
                let count = count.min(words.len());
                let used = abi::ln_receive_copy(queue, spare.as_mut_ptr(), count as c_uint, &mut packets) as usize;
                for (word, slot) in words.iter_mut().zip(spare.drain(..used)) {
                    *word = slot;
                }
                used
            });
        }
        Moved { packets: packets as usize, bytes: self.raw.moved_bytes }
    }

    /// Sends packets from the front of the batch, of its first `slots` slots at most, as many as the driver takes. Partial checksums are left to the
    /// device; see [`Queue::has_refused`].
    #[inline]
    pub fn transmit(&mut self, batch: &mut Batch, slots: usize) -> Moved {
        let mut packets: c_uint = 0;
        let (queue, copies) = (&mut *self.raw, self.copies);
        let mut taken = 0;
        batch.take_words(|words| {
            let count = words.len().min(slots) as c_uint;
            // SAFETY: the words are slots of the pool that the queue was made for, which are the batch's. Those that the shim took
            // leave it, and their mbufs are the driver's; where it copied them, they stay, to be freed.
            taken = unsafe {
                match copies {
                    false => abi::ln_transmit(queue, words.as_ptr(), count, &mut packets),
                    true => abi::ln_transmit_copy(queue, words.as_ptr(), count, &mut packets),
                }
            } as usize;
            if copies { 0 } else { taken }
        });
        if copies {
            self.pool.free_front(batch, taken);
        }
        Moved { packets: packets as usize, bytes: self.raw.moved_bytes }
    }

    /// True if the last `transmit` stopped at a packet whose partial checksum the device does not compute.
    pub fn has_refused(&self) -> bool {
        self.raw.not_left != 0
    }

    /// Sends the TCP segments in the first slots of the batch as one packet, which the device cuts again: the first has the headers of the merged
    /// packet. False if the driver does not take it now, or never; the batch is then as it was.
    pub fn transmit_merged(&mut self, batch: &mut Batch, merge: &Merge) -> bool {
        let (segments, ip_len) = (merge.segments(), merge.transport_at() - ETHERNET_BYTES);
        let [slots, ip_len, headers_len, size] =
            [segments, ip_len, merge.headers_len(), merge.size()].map(|number| number as c_uint);
        let send = if self.copies { abi::ln_transmit_merged_copy } else { abi::ln_transmit_merged };
        let (queue, copies, mut sent) = (&mut *self.raw, self.copies, false);
        batch.take_words(|words| {
            if words.len() < segments {
                return 0;
            }
            // SAFETY: as in `transmit`, for the first `segments` slots, each of which has `headers_len` bytes at least.
            sent = unsafe { send(queue, words.as_ptr(), slots, ip_len, headers_len, size) } != 0;
            if sent && !copies { segments } else { 0 }
        });
        if sent && copies {
            self.pool.free_front(batch, segments);
        }
        sent
    }

    /// Hands packets that have arrived on to a queue of another device with the same store, as mbufs; returns how many. The others wait here for
    /// the next `receive`.
    #[inline]
    pub fn hand_on(&mut self, to: &mut Queue) -> usize {
        // SAFETY: both devices are open, and the drivers own the mbufs that they give and take.
        unsafe { abi::ln_hand_on(&mut *self.raw, &mut *to.raw) as usize }
    }

    /// Whether packets have arrived. They wait here for the next `receive`.
    pub fn has_packets(&mut self) -> bool {
        // SAFETY: the device is open.
        unsafe { abi::ln_queue_poll(&mut *self.raw) > 0 }
    }

    /// Frees the packets that nobody received: those that wait here, and those in the receive queue, if `drain` says so.
    pub fn close(&mut self, drain: bool) {
        let most = if drain { self.pool.region().frames() } else { 0 };
        // SAFETY: the device is open.
        unsafe { abi::ln_queue_drain(&mut *self.raw, most) };
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        for word in self.spare.drain(..) {
            // SAFETY: a slot of this pool, which leaves the list here.
            unsafe { self.pool.free_slot(Slot::from_word(word)) };
        }
    }
}
