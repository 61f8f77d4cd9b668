//! Links between two threads of one process, by rings whose indices can begin anywhere: one harness for all backends of that kind.

use linerate_mem::{Pool, PoolConfig};

use crate::{Facts, Harness, Link, Outcome, check_all};

/// A backend of that kind.
#[derive(Clone, Copy)]
pub struct Rings {
    /// Its name.
    pub backend: &'static str,
    /// Makes the pool for a link with so many slots in a ring.
    pub make_pool: fn(PoolConfig, usize) -> Result<Pool, String>,
    /// Opens both ends, with so many slots in a ring and indices that begin at a number.
    pub open: fn(&Pool, usize, u32) -> Result<Link, String>,
}

struct RingLink {
    rings: Rings,
    ring: usize,
    pool: PoolConfig,
}

impl Rings {
    /// Rings as users have them. Panics where the contract is broken, or where it was not looked at.
    pub fn check_default(self) {
        let pool = PoolConfig { frames: 4096, ..PoolConfig::default() };
        let report = check_all(&mut RingLink { rings: self, ring: 1024, pool });
        for check in ["packets of several slots", "end"] {
            assert!(matches!(report.outcome(check), Some(Outcome::Passed(_))), "{check}");
        }
    }

    /// Rings of 8 slots, frames of 1,024 bytes.
    pub fn check_small(self) {
        let pool = PoolConfig { frames: 2048, frame_size: 1024 };
        check_all(&mut RingLink { rings: self, ring: 8, pool });
    }

    /// Rings with more slots than a batch.
    pub fn check_long(self) {
        let pool = PoolConfig { frames: 8192, frame_size: 2048 };
        check_all(&mut RingLink { rings: self, ring: 2048, pool });
    }
}

impl Harness for RingLink {
    fn name(&self) -> String {
        let RingLink { rings: Rings { backend, .. }, ring, pool } = self;
        format!("{backend} with rings of {ring} slots, frames of {} bytes", pool.frame_size)
    }

    fn facts(&self) -> Facts {
        Facts {
            starts: vec![0, u32::MAX - 100, u32::MAX - 3, u32::MAX, 1 << 31],
            window: self.ring,
            lossless: true,
            ends: true,
            ..Facts::default()
        }
    }

    fn pool(&self) -> PoolConfig {
        self.pool
    }

    fn make_pool(&mut self) -> Result<Pool, String> {
        (self.rings.make_pool)(self.pool, self.ring)
    }

    fn open(&mut self, pool: &Pool, start: u32) -> Result<Link, String> {
        (self.rings.open)(pool, self.ring, start)
    }
}
