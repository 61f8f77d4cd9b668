//! Packets copied into frames of another pool.

use linerate_mem::{Batch, Pool};

/// A batch of one pool, filled from batches of another (or of the same one, where a copy is wished for).
pub struct Copier {
    pool: Pool,
    /// What has been copied and waits to be sent.
    pub copies: Batch,
}

impl Copier {
    /// Copies into frames of `pool`, at most `capacity` slots at a time.
    pub fn new(pool: &Pool, capacity: usize) -> Copier {
        Copier { pool: pool.clone(), copies: Batch::with_times(pool, capacity) }
    }

    /// Copies packets from the front of `batch`, as many as there are room and frames for, gives their frames back to `home`,
    /// and returns how many packets that were.
    pub fn copy(&mut self, batch: &mut Batch, home: &mut Pool) -> usize {
        let (mut slots, mut packets) = (0, 0);
        while let Some(span) = batch.span(slots)
            && self.pool.copy(batch, slots, &mut self.copies)
        {
            slots += span.slots;
            packets += 1;
        }
        home.free_front(batch, slots);
        packets
    }

    /// Gives back the first `slots` of what was not sent.
    pub fn drop_front(&mut self, slots: usize) {
        self.pool.free_front(&mut self.copies, slots);
    }

    /// Gives back what was not sent.
    pub fn clear(&mut self) {
        self.pool.free(&mut self.copies);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_mem::PoolConfig;

    fn pool(frames: usize, frame_size: usize) -> Pool {
        Pool::new(PoolConfig { frames, frame_size }).unwrap()
    }

    fn whole(batch: &Batch) -> Vec<Vec<u8>> {
        let mut packets = vec![Vec::new()];
        for part in batch.parts() {
            packets.last_mut().unwrap().extend_from_slice(part.bytes);
            if !part.more {
                packets.push(Vec::new());
            }
        }
        packets.pop();
        packets
    }

    #[test]
    fn packets_arrive_unchanged_in_frames_of_any_size() {
        for (from_size, to_size) in [(2048, 2048), (512, 2048), (2048, 512), (512, 512)] {
            let (mut near, far) = (pool(256, from_size), pool(256, to_size));
            let mut batch = Batch::with_times(&near, 128);
            let lens = [60, 1400, 0, 63, 9, 3000, 60, 64];
            let sent: Vec<Vec<u8>> = lens.iter().enumerate().map(|(n, len)| vec![n as u8; *len]).collect();
            for (index, packet) in sent.iter().enumerate() {
                assert!(near.append(&mut batch, packet, index as u64 + 1));
            }
            let mut copier = Copier::new(&far, 128);
            assert_eq!(copier.copy(&mut batch, &mut near), lens.len(), "{from_size} to {to_size}");
            assert_eq!(whole(&copier.copies), sent);
            assert_eq!(copier.copies.time_ns(0), Some(1));
            assert!(batch.is_empty() && near.is_whole());
            copier.clear();
            drop(copier);
            assert!(far.is_whole());
        }
    }

    #[test]
    fn what_has_no_room_or_no_frame_waits() {
        let (mut near, far) = (pool(64, 512), pool(8, 512));
        let mut batch = Batch::new(&near, 64);
        near.alloc(&mut batch, 20, 60);
        let mut copier = Copier::new(&far, 16);
        assert_eq!(copier.copy(&mut batch, &mut near), 8, "so many frames there are");
        assert_eq!((batch.len(), copier.copy(&mut batch, &mut near)), (12, 0));
        copier.clear();
        assert_eq!((copier.copy(&mut batch, &mut near), batch.len()), (8, 4));
    }
}
