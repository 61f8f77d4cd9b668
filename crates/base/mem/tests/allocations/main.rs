//! Once everything is there, nothing that packets do in a pool allocates. Of the switch over it, a test of its crate shows that.
#![cfg(not(miri))] // Counts, and takes the interpreter for ever; ownership.rs is what it checks.

mod sys;

use linerate_mem::{Batch, Pool, PoolConfig};
use sys::allocations;

fn pool() -> Pool {
    Pool::new(PoolConfig { frames: 4096, ..PoolConfig::default() }).unwrap()
}

#[test]
fn the_counter_counts() {
    assert_eq!(allocations(|| drop(vec![1u8, 2, 3])), 1);
    assert_eq!(allocations(|| ()), 0);
}

#[test]
fn pools_and_batches_do_not_allocate() {
    let mut pool = pool();
    let [mut a, mut b] = [(); 2].map(|()| Batch::with_times(&pool, 256));
    // Both magazines and the depot's lists have their size from the start; the first turn may still hand some out.
    let mut turn = || {
        pool.alloc(&mut a, 200, 60);
        pool.copy(&a, 0, &mut b);
        a.move_to(&mut b, 100);
        pool.free(&mut a);
        pool.free(&mut b);
    };
    turn();
    assert_eq!(allocations(|| (0..200).for_each(|_| turn())), 0);
}
