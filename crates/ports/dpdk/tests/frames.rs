//! Frames between a pool and DPDK: none is lost, whoever frees them.
#![cfg(feature = "libdpdk")]

use linerate_mem::{Batch, Pool, PoolConfig};
use linerate_port::Port;

#[test]
fn frames_come_back_from_the_caches_of_threads() {
    let mut pool = Pool::new(PoolConfig { frames: 4096, frame_size: 2048 }).unwrap();
    let port = linerate_port_dpdk::open("dpdk:net_null0".parse().unwrap(), &pool).unwrap().into_port();
    assert_eq!(pool.available(), 4096);
    drop(port);
    assert!(pool.is_whole(), "{} of 4096 frames", pool.available());
    let mut port = linerate_port_dpdk::open("dpdk:net_null0".parse().unwrap(), &pool).unwrap().into_port();
    let mut batch = Batch::new(&pool, 64);
    for _ in 0..1000 {
        assert_eq!(pool.alloc(&mut batch, 64, 60), 64);
        assert_eq!(port.transmit(&mut batch).unwrap(), 64);
        assert_eq!(port.receive(&mut batch).unwrap(), 64);
        pool.free(&mut batch);
    }
    // Frames that a thread's cache holds come back when the thread ends.
    let port = std::thread::scope(|scope| {
        let work = || {
            let mut batch = Batch::new(&pool, 64);
            assert_eq!(port.receive(&mut batch).unwrap(), 64);
            port
        };
        scope.spawn(work).join().unwrap()
    });
    drop(port);
    pool.flush();
    assert!(pool.is_whole(), "{} of 4096 frames", pool.available());
}
