//! Both sides of a link keep the contract of ports.

use linerate_mem::{Pool, PoolConfig};
use linerate_port_shm::{pair_from, pool_inside};
use linerate_testkit::{Facts, Harness, Link, Outcome, check_all};

struct Shm {
    ring: usize,
    pool: PoolConfig,
}

impl Harness for Shm {
    fn name(&self) -> String {
        format!("shm with rings of {} slots, frames of {} bytes", self.ring, self.pool.frame_size)
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
        pool_inside(self.pool, self.ring)
    }

    fn open(&mut self, pool: &Pool, start: u32) -> Result<Link, String> {
        let (sender, receiver) = pair_from(pool, start).ok_or("the pool has a link already")?;
        Ok(Link::Pair { sender: Box::new(sender), receiver: Box::new(receiver) })
    }
}

#[test]
fn default_ring() {
    let pool = PoolConfig { frames: 4096, ..PoolConfig::default() };
    let report = check_all(&mut Shm { ring: 1024, pool });
    assert!(matches!(report.outcome("packets of several slots"), Some(Outcome::Passed(_))));
    assert!(matches!(report.outcome("end"), Some(Outcome::Passed(_))));
}

#[test]
fn small_ring_and_small_frames() {
    check_all(&mut Shm { ring: 8, pool: PoolConfig { frames: 2048, frame_size: 1024, headroom: 64 } });
}

#[test]
fn ring_bigger_than_a_batch() {
    check_all(&mut Shm { ring: 2048, pool: PoolConfig { frames: 8192, frame_size: 2048, headroom: 128 } });
}
