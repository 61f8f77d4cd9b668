//! A link of rings and a pool of default size takes less than 8 MB beside its frames, and packets that pass allocate nothing.

#[path = "../../../base/mem/tests/allocations/sys.rs"]
mod sys;

use linerate_mem::{Batch, PoolConfig};
use linerate_port::{Interest, Port};
use linerate_port_shm::{pair_from, pool_inside};
use linerate_testkit::memory::resident_bytes;
use sys::allocations;

/// What a port may take in bytes.
const MOST_BYTES: u64 = 8 << 20;

#[test]
fn a_link_takes_less_than_8_mb_beside_its_frames_and_then_nothing() {
    let config = PoolConfig::default();
    let before_bytes = resident_bytes().unwrap();
    let mut pool = pool_inside(config, 1024).unwrap();
    let (mut a, mut b) = pair_from(&pool, 0).unwrap();
    let mut batch = Batch::new(&pool, 64);
    let mut turn = || {
        for number in 0..4 {
            pool.alloc(&mut batch, 64, 1000);
            let (from, to) = if number % 2 == 0 { (&mut a, &mut b) } else { (&mut b, &mut a) };
            assert_eq!(from.transmit(&mut batch).unwrap(), 64);
            to.wait(Interest::Receive, 1000).unwrap();
            assert_eq!(to.receive(&mut batch).unwrap(), 64);
            pool.free(&mut batch);
            from.flush().unwrap();
        }
    };
    (0..200).for_each(|_| turn());
    let frames_bytes = (config.frames * config.frame_size) as u64;
    let up_bytes = resident_bytes().unwrap().saturating_sub(before_bytes);
    println!("{up_bytes} bytes, of which frames {frames_bytes}");
    assert!((frames_bytes..frames_bytes + MOST_BYTES).contains(&up_bytes), "{up_bytes} bytes, frames {frames_bytes}");
    assert_eq!(allocations(|| (0..200).for_each(|_| turn())), 0);
}
