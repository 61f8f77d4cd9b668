//! The pipe keeps the contract of ports.

use linerate_mem::Pool;
use linerate_port_pipe::pair_from;
use linerate_testkit::{Link, Rings};

const PIPE: Rings = Rings {
    backend: "pipe",
    make_pool: |config, _| Pool::new(config).map_err(|error| error.to_string()),
    open: |pool, ring, start| {
        let (sender, receiver) = pair_from("conformance", pool, ring, start);
        Ok(Link::Pair { sender: Box::new(sender), receiver: Box::new(receiver) })
    },
};

#[test]
fn default_ring() {
    PIPE.check_default();
}

#[test]
fn small_ring_and_small_frames() {
    PIPE.check_small();
}

#[test]
fn ring_bigger_than_a_batch() {
    PIPE.check_long();
}
