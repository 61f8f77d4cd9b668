//! Frames that this layer sends on its own.

use linerate_mem::{Batch, Checksum, Pool, Scattered, Written};

/// Where frames go, and the time.
pub struct Output<'a> {
    /// Time in nanoseconds.
    pub now_ns: u64,
    /// Takes the frames.
    pub batch: &'a mut Batch,
    /// Has the memory.
    pub pool: &'a mut Pool,
}

impl Output<'_> {
    /// Appends a frame that consists of `parts`. False if the batch or the pool has no room.
    pub fn frame(&mut self, parts: &[&[u8]], checksum: Checksum) -> bool {
        let len = parts.iter().map(|part| part.len()).sum();
        if len > self.pool.packet_len_max() {
            return self.long_frame(parts, len, checksum);
        }
        let write = |bytes: &mut [u8]| {
            let mut at = 0;
            for part in parts {
                bytes[at..at + part.len()].copy_from_slice(part);
                at += part.len();
            }
            Some(Written { len, time_ns: 0, checksum })
        };
        self.pool.fill(self.batch, 1, write) == 1
    }

    /// A frame that needs several frames of the pool.
    fn long_frame(&mut self, parts: &[&[u8]], len: usize, checksum: Checksum) -> bool {
        let first = self.batch.len();
        let mut bytes = parts.iter().flat_map(|part| part.iter());
        let write = |frame: &mut [u8]| {
            for (place, byte) in frame.iter_mut().zip(&mut bytes) {
                *place = *byte;
            }
        };
        let is_done = self.pool.scatter(self.batch, len, 0, write) == Scattered::Done;
        if is_done {
            self.batch.set_checksum(first, checksum);
        }
        is_done
    }
}
