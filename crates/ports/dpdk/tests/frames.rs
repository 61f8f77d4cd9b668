//! Frames between a pool and DPDK: none is lost, whoever frees them.
#![cfg(feature = "libdpdk")]

use std::sync::{Mutex, PoisonError};

use linerate_mem::{Batch, Pool, PoolConfig};
use linerate_port::Port;

/// DPDK has one list of devices a process.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn small_pools_can_be_opened_on() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for frames in [1, 64, 500] {
        let mut pool = Pool::new(PoolConfig { frames, frame_size: 2048 }).unwrap();
        let mut port = linerate_port_dpdk::open("dpdk:net_null1".parse().unwrap(), &pool).unwrap().into_port();
        let mut batch = Batch::new(&pool, 64);
        assert_eq!(pool.alloc(&mut batch, 1, 60), 1);
        assert_eq!(port.transmit(&mut batch).unwrap(), 1);
        pool.flush();
        drop(port);
        assert!(pool.is_whole(), "{} of {frames} frames", pool.available());
    }
}

#[test]
fn frames_come_back_from_the_caches_of_threads() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
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
