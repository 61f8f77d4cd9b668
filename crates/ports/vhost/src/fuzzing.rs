//! For fuzzing: any bytes as a guest's memory with two rings in it.

use std::fs::File;
use std::os::unix::fs::FileExt;

use linerate_mem::{Batch, Pool, PoolConfig};

use crate::memory::{GuestMemory, RegionAt};
use crate::receive::{Receiver, Refused};
use crate::ring::{Budget, Ring};
use crate::sys::SplitRing;
use crate::transmit::{Layout, send};
use crate::virtio::{self, feature};

/// Bytes of the memory, in two regions of the same size that follow each other.
const MEMORY_BYTES: u64 = 0x4000;
/// Where the guest receives: table, available ring, used ring; and where it transmits.
const RECEIVING: [u64; 3] = [0, 0x200, 0x300];
const TRANSMITTING: [u64; 3] = [0x400, 0x600, 0x700];
/// Bytes in front of the memory's: features, size of the rings, next index of both.
const HEAD_BYTES: usize = 4;
const FRAME_LEN_MAX: usize = 3000;

/// A guest's memory, and the frames on this side.
pub struct Rings {
    file: File,
    memory: GuestMemory,
    pool: Pool,
    batch: Batch,
}

impl Rings {
    /// Uses the file, which is of /dev/shm, as the memory; `None` when that cannot be.
    pub fn new(file: File) -> Option<Rings> {
        file.set_len(MEMORY_BYTES).ok()?;
        let bytes = MEMORY_BYTES / 2;
        let regions = [0, bytes].map(|at| RegionAt { guest: at, user: at, bytes, file_offset: at });
        let files = [file.try_clone().ok()?, file.try_clone().ok()?];
        let memory = GuestMemory::map(regions.into_iter().zip(files)).ok()?;
        let config = PoolConfig { frames: 128, frame_size: 1024 };
        let pool = Pool::new(config).ok()?;
        let batch = Batch::new(&pool, 32);
        Some(Rings { file, memory, pool, batch })
    }

    /// Receives from and transmits to rings in that memory; true when the guest wrote nothing that cannot be.
    ///
    /// # Panics
    /// When what was moved does not add up.
    pub fn run(&mut self, data: &[u8]) -> bool {
        let (head, image) = data.split_at(data.len().min(HEAD_BYTES));
        let &[features, size, low, high] = head else { return false };
        let features = [feature::MERGEABLE_BUFFERS, feature::INDIRECT, feature::EVENT_INDEX, feature::VERSION_1]
            .into_iter()
            .enumerate()
            .fold(0, |all, (bit, feature)| if features & 1 << bit != 0 { all | feature } else { all });
        let (size, next) = (1 << (size % 6), u16::from_le_bytes([low, high]));
        let mut bytes = image[..image.len().min(MEMORY_BYTES as usize)].to_vec();
        bytes.resize(MEMORY_BYTES as usize, 0);
        if self.file.write_all_at(&bytes, 0).is_err() {
            return false;
        }
        let received = self.ring(TRANSMITTING, size, next, features).is_some_and(|ring| self.receive(ring, features));
        let sent = self.ring(RECEIVING, size, next, features).is_some_and(|ring| self.transmit(ring, features));
        assert_eq!(self.pool.available(), self.pool.region().frames() as usize, "a frame is missing");
        assert!(!self.memory.is_broken());
        received && sent
    }

    fn ring(&self, at: [u64; 3], size: u16, next: u16, features: u64) -> Option<Ring> {
        let lens = SplitRing::part_bytes(size);
        let place = |part: usize| self.memory.place(at[part], lens[part]);
        let split = SplitRing::new(size, [place(0)?, place(1)?, place(2)?])?;
        Some(Ring::new(split, next, features))
    }

    fn receive(&mut self, mut ring: Ring, features: u64) -> bool {
        let mut receiver = Receiver {
            pool: &mut self.pool,
            batch: &mut self.batch,
            frame_len_max: FRAME_LEN_MAX,
            header_bytes: virtio::header_bytes(features),
            packets: 0,
            bytes: 0,
            refused: Refused::default(),
            budget: Budget::new(),
        };
        let good = receiver.receive(&mut ring, &self.memory).is_ok();
        let (packets, bytes) = (receiver.packets, receiver.bytes);
        ring.finish(None);
        let totals = self.batch.totals();
        assert_eq!((totals.packets, totals.bytes), (packets, bytes));
        assert!(packets <= u64::from(ring.size()) && bytes <= packets * FRAME_LEN_MAX as u64);
        self.pool.free(&mut self.batch);
        good
    }

    fn transmit(&mut self, mut ring: Ring, features: u64) -> bool {
        for len in [14, 60, 61, 300, 1500, 2999] {
            self.pool.append(&mut self.batch, &vec![len as u8; len], 0);
        }
        let slots = self.batch.len();
        let layout = Layout::new(features, FRAME_LEN_MAX);
        let (sent, result) = send(&mut ring, &self.memory, layout, &self.batch, 0..slots, &mut Budget::new());
        ring.finish(None);
        let packets = sent.packets + sent.unfitting;
        assert!(sent.slots <= slots && packets == self.batch.totals_of(sent.slots).packets);
        self.pool.free(&mut self.batch);
        result.is_ok()
    }
}
