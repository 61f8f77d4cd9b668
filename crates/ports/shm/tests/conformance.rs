//! Both sides of a link keep the contract of ports.

use linerate_port_shm::{pair_from, pool_inside};
use linerate_testkit::{Link, Rings};

const SHM: Rings = Rings {
    backend: "shm",
    make_pool: pool_inside,
    open: |pool, _, start| {
        let (sender, receiver) = pair_from(pool, start).ok_or("the pool has a link already")?;
        Ok(Link::Pair { sender: Box::new(sender), receiver: Box::new(receiver) })
    },
};

#[test]
fn default_ring() {
    SHM.check_default();
}

#[test]
fn small_ring_and_small_frames() {
    SHM.check_small();
}

#[test]
fn ring_bigger_than_a_batch() {
    SHM.check_long();
}
