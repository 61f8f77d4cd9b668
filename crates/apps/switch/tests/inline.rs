//! The in-process switch: threads that send through each other, ports that come and go meanwhile, owners that outlive a port.

#[path = "../../../engines/l2/tests/support/mod.rs"]
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use linerate_l2::{DropReason, PortSettings, SwitchConfig};
use linerate_mem::{Batch, Pool, PoolConfig};
use linerate_port::{Interest, Port, PortError, Readiness};
use linerate_switch::{Clocks, InlinePort, InlineSwitch};
use support::{append, frame};

fn pool(frames: usize) -> Pool {
    Pool::new(PoolConfig { frames, ..PoolConfig::default() }).unwrap()
}

fn switch(pool: &Pool) -> InlineSwitch {
    InlineSwitch::new(SwitchConfig::default(), pool, Clocks::one(|| 5_000)).unwrap()
}

fn transmit(port: &mut InlinePort, pool: &mut Pool, bytes: &[u8]) {
    let mut batch = Batch::new(pool, 8);
    assert!(append(pool, &mut batch, bytes, 1));
    assert_eq!(port.transmit(&mut batch).unwrap(), 1);
}

#[test]
fn a_sleeper_wakes_when_something_comes() {
    let mut pool = pool(64);
    let switch = switch(&pool);
    let [mut a, mut b] = ["a", "b"].map(|name| switch.attach(name).unwrap());
    assert_eq!(b.wait(Interest::Receive, 1_000_000).unwrap(), Readiness::TimedOut);
    let (sleeps, slept) = std::sync::mpsc::channel();
    let sleeper = thread::spawn(move || {
        sleeps.send(()).unwrap();
        let found = b.wait(Interest::Receive, 600_000_000_000).unwrap();
        let mut batch = Batch::new(&pool_of(&b), 8);
        (found, b.receive(&mut batch).unwrap())
    });
    slept.recv().unwrap();
    transmit(&mut a, &mut pool, &frame(0, 2, &[], 60));
    assert_eq!(sleeper.join().unwrap(), (Readiness::Ready, 1));
    drop((a, switch));
    assert!(pool.is_whole());
}

/// A handle on the pool that the tests of one port share.
fn pool_of(port: &InlinePort) -> Pool {
    port.pool().clone()
}

#[test]
fn isolated_ports_and_shared_ones_reach_each_other() {
    let (mut shared, mut own) = (pool(256), pool(256));
    let switch = switch(&shared);
    let mut a = switch.attach("a").unwrap();
    let mut b = switch.attach_isolated("b", PortSettings::default(), 16, &own).unwrap();
    transmit(&mut a, &mut shared, &frame(0, 2, &[], 60));
    let mut batch = Batch::new(&own, 8);
    assert_eq!(b.receive(&mut batch).unwrap(), 1);
    assert_eq!(batch.packet(0), frame(0, 2, &[], 60));
    own.free(&mut batch);
    transmit(&mut b, &mut own, &frame(4, 3, &[], 77));
    let mut batch = Batch::new(&shared, 8);
    assert!(matches!(b.receive(&mut batch), Err(PortError::ForeignPool { .. })));
    assert_eq!((a.receive(&mut batch).unwrap(), batch.packet(0)), (1, &frame(4, 3, &[], 77)[..]));
    shared.free(&mut batch);
    drop((a, b, switch));
    assert!(shared.is_whole() && own.is_whole());
}

#[test]
fn an_owner_is_told_that_its_port_is_gone_and_may_not_use_its_number() {
    let mut pool = pool(64);
    let switch = switch(&pool);
    let mut old = switch.attach("old").unwrap();
    let mut handle = pool.clone();
    switch.with(|switch| switch.remove_port(old.index(), &mut handle));
    let new = switch.attach("new").unwrap();
    assert_eq!(new.index(), old.index());
    let mut batch = Batch::new(&pool, 8);
    assert!(append(&mut pool, &mut batch, &frame(0, 2, &[], 60), 1));
    assert!(matches!(old.transmit(&mut batch), Err(PortError::Gone { .. })));
    assert_eq!(batch.len(), 1);
    assert!(matches!(old.wait(Interest::Receive, 1), Err(PortError::Gone { .. })));
    drop(old);
    assert_eq!(switch.with(|switch| switch.ports().count()), 1);
    drop((new, switch, batch, handle));
    assert!(pool.is_whole());
}

#[test]
fn a_reader_that_does_not_read_loses_and_holds_up_nobody() {
    let mut pool = pool(256);
    let switch = switch(&pool);
    let mut a = switch.attach("a").unwrap();
    let [mut slow, mut quick] =
        ["slow", "quick"].map(|name| switch.attach_with(name, PortSettings::default(), 8).unwrap());
    let mut batch = Batch::new(&pool, 8);
    for _ in 0..20 {
        transmit(&mut a, &mut pool, &frame(0, 2, &[], 60));
        assert_eq!(quick.receive(&mut batch).unwrap(), 1);
        pool.free(&mut batch);
    }
    let stats = slow.stats().unwrap();
    assert_eq!((stats.rx_dropped(), stats.rx_drops[0].cause.as_str()), (12, "egress-full"));
    assert_eq!((slow.receive(&mut batch).unwrap(), quick.stats().unwrap().rx_dropped()), (8, 0));
    switch.with(|switch| {
        switch.totals().balances().unwrap();
        assert_eq!(switch.drops().collect::<Vec<_>>(), [(DropReason::EgressFull, 12)]);
        assert!(switch.latency(a.index(), quick.index()).unwrap().count() >= 1);
    });
}

/// Packets that each thread sends at least.
const PACKETS: u64 = if cfg!(debug_assertions) { 60_000 } else { 1_000_000 };

/// Sends to the other stations, receives, and goes away and comes back now and then; returns what it took in and sent.
fn station(switch: InlineSwitch, mut pool: Pool, number: u8, done: Arc<AtomicU64>) -> (u64, u64) {
    let (mut sent, mut received) = (0, 0);
    let mut out = Batch::new(&pool, 32);
    let mut into = Batch::new(&pool, 64);
    let deadline = Instant::now() + Duration::from_secs(300);
    while sent < PACKETS {
        let mut port = switch.attach("station").unwrap();
        let until = sent + PACKETS / 20;
        while sent < until {
            assert!(Instant::now() < deadline, "the others hold the frames");
            for packet in 0..16u8 {
                let destination = if packet == 0 { 0 } else { 3 + (number + packet) % 5 };
                let tags: &[(u16, u16)] = if packet % 5 == 4 { &[(0x8100, 7)] } else { &[] };
                append(&mut pool, &mut out, &frame(destination, number, tags, 60), 1);
            }
            sent += port.transmit(&mut out).unwrap() as u64;
            assert!(out.is_empty());
            received += port.receive(&mut into).unwrap() as u64;
            pool.free(&mut into);
        }
    }
    done.fetch_add(1, Ordering::Release);
    (sent, received)
}

#[test]
fn four_threads_send_to_each_other_while_their_ports_come_and_go() {
    let pool = pool(16_384);
    let switch = switch(&pool);
    let done = Arc::new(AtomicU64::new(0));
    let threads: Vec<_> = (1..=4u8)
        .map(|number| {
            let (switch, pool, done) = (switch.clone(), pool.clone(), Arc::clone(&done));
            thread::spawn(move || station(switch, pool, number, done))
        })
        .collect();
    while done.load(Ordering::Acquire) < 4 && !threads.iter().all(|thread| thread.is_finished()) {
        switch.with(|switch| switch.totals().balances()).unwrap();
        thread::sleep(Duration::from_millis(1));
    }
    let counts: Vec<(u64, u64)> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    let totals = switch.with(|switch| switch.totals());
    totals.balances().unwrap();
    assert_eq!(totals.ports.received_packets, counts.iter().map(|(sent, _)| sent).sum::<u64>());
    assert!(counts.iter().map(|(_, received)| received).sum::<u64>() <= totals.ports.sent_packets);
    drop(switch);
    assert!(pool.is_whole());
}
