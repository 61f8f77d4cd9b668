//! A watched port is a port as it was, and every packet that passes is copied or counted.

use linerate_mem::{Batch, Pool, PoolConfig};
use linerate_port::{Interest, Monitor, Port, Watched};
use linerate_ports::open;

fn pool() -> Pool {
    Pool::new(PoolConfig { frames: 512, frame_size: 2048 }).unwrap()
}

/// A batch of numbered packets; each third goes over two slots.
fn packets(pool: &mut Pool, count: u8) -> Batch {
    let mut batch = Batch::new(pool, 2 * usize::from(count));
    for number in 0..count {
        let bytes = vec![number; if number % 3 == 0 { 1700 } else { 60 }];
        assert!(pool.append(&mut batch, &bytes, 0));
    }
    batch
}

fn numbers(batch: &Batch) -> Vec<u8> {
    (0..batch.len()).filter(|index| !batch.more(*index)).map(|index| batch.packet(index)[0]).collect()
}

/// A watched port on one pipe, whose watcher is on another; their far ends.
fn watched(name: &str, watched: Watched, pool: &Pool, ring: usize) -> (Monitor, Box<dyn Port>, Box<dyn Port>) {
    let open = |suffix: &str, ring: usize| open(&format!("pipe:{name}-{suffix},ring={ring}"), pool).unwrap();
    let (near, far, watcher, seen) = (open("port", 8), open("port", 8), open("watcher", ring), open("watcher", ring));
    (Monitor::new(near, watcher, watched, pool), far, seen)
}

#[test]
fn what_was_taken_is_copied_and_what_stayed_is_not() {
    let mut pool = pool();
    let (mut port, mut far, mut seen) = watched("partial", Watched::Both, &pool, 1024);
    let mut batch = packets(&mut pool, 9);
    let mut into = Batch::new(&pool, 64);
    let mut passed = Vec::new();
    let mut copied = Vec::new();
    while !batch.is_empty() {
        port.transmit(&mut batch).unwrap();
        far.receive(&mut into).unwrap();
        passed.extend(numbers(&into));
        pool.free(&mut into);
        seen.receive(&mut into).unwrap();
        copied.extend(numbers(&into));
        assert_eq!(passed, copied);
        pool.free(&mut into);
    }
    assert_eq!(passed, (0..9).collect::<Vec<u8>>());
    // The other direction.
    far.transmit(&mut packets(&mut pool, 4)).unwrap();
    assert_eq!(port.receive(&mut into).unwrap(), 4);
    let mut copies = Batch::new(&pool, 64);
    seen.receive(&mut copies).unwrap();
    assert_eq!((numbers(&into), numbers(&copies)), (vec![0, 1, 2, 3], vec![0, 1, 2, 3]));
    assert_eq!(port.counts().seen, 13);
    assert_eq!(port.watcher_stats().unwrap().tx_dropped(), 0);
    drop((port, far, seen, batch, into, copies));
    assert!(pool.is_whole());
}

#[test]
fn one_direction_only() {
    let mut pool = pool();
    for (direction, expected) in [(Watched::Received, 2), (Watched::Transmitted, 3)] {
        let (mut port, mut far, mut seen) = watched(&format!("{direction:?}"), direction, &pool, 64);
        port.transmit(&mut packets(&mut pool, 3)).unwrap();
        far.transmit(&mut packets(&mut pool, 2)).unwrap();
        let mut into = Batch::new(&pool, 64);
        port.receive(&mut into).unwrap();
        pool.free(&mut into);
        assert_eq!(seen.receive(&mut into).unwrap(), expected);
        assert_eq!(port.counts().seen, expected as u64);
    }
}

#[test]
fn a_watcher_that_stands_still_or_ends_costs_nothing_but_its_copies() {
    let mut pool = pool();
    let (mut port, mut far, seen) = watched("slow", Watched::Transmitted, &pool, 4);
    let mut into = Batch::new(&pool, 64);
    let mut sent = 0;
    for _ in 0..10 {
        sent += port.transmit(&mut packets(&mut pool, 3)).unwrap() as u64;
        far.receive(&mut into).unwrap();
        pool.free(&mut into);
    }
    let counts = port.counts();
    assert_eq!((counts.seen, counts.taken + counts.refused + counts.no_frame), (sent, sent));
    assert!(counts.refused > 0);
    let stats = port.watcher_stats().unwrap();
    let counts = port.counts();
    assert_eq!(stats.tx_packets + stats.tx_dropped(), counts.seen);
    assert_eq!(port.wait(Interest::Transmit, 0).unwrap(), linerate_port::Readiness::Ready);
    drop((port, far, seen, into));
    assert!(pool.is_whole());
}

#[test]
fn without_a_frame_there_is_no_copy_and_the_port_goes_on() {
    let mut pool = pool();
    let small = Pool::new(PoolConfig { frames: 1, frame_size: 2048 }).unwrap();
    let (near, mut far) = (open("pipe:small", &pool).unwrap(), open("pipe:small", &pool).unwrap());
    let (watcher, mut seen) = (open("pipe:watcher", &small).unwrap(), open("pipe:watcher", &small).unwrap());
    let mut port = Monitor::new(near, watcher, Watched::Both, &small);
    assert_eq!(port.transmit(&mut packets(&mut pool, 5)).unwrap(), 5);
    let mut into = Batch::new(&pool, 16);
    assert_eq!(far.receive(&mut into).unwrap(), 5);
    let mut copies = Batch::new(&small, 16);
    seen.receive(&mut copies).unwrap();
    assert_eq!((numbers(&copies), port.counts().no_frame), (vec![1], 4), "0 is longer than the only frame");
    port.stats().unwrap();
    let account = port.account().lock().unwrap().clone();
    assert_eq!((account.counts.seen, account.stats.tx_packets + account.stats.tx_dropped()), (5, 5));
}

/// Watching begins and ends while the port is in use: nothing is copied before and after.
#[test]
fn watching_is_switched_on_and_off() {
    let mut pool = pool();
    let handle = pool.clone();
    let open = |suffix: &str| open(&format!("pipe:switched-{suffix},ring=64"), &handle).unwrap();
    let (near, mut far) = (open("port"), open("port"));
    let mut port = Monitor::switched(near, Watched::Both, &handle);
    let switch = port.switch();
    let mut into = Batch::new(&pool, 64);
    for round in 0..3 {
        let (watcher, mut seen) = (open(&format!("watcher{round}")), open(&format!("watcher{round}")));
        let mut pass = |port: &mut Monitor, pool: &mut Pool| {
            assert_eq!(port.transmit(&mut packets(pool, 5)).unwrap(), 5);
            far.receive(&mut into).unwrap();
            pool.free(&mut into);
        };
        pass(&mut port, &mut pool);
        switch.begin(watcher);
        port.flush().unwrap();
        pass(&mut port, &mut pool);
        let mut copies = Batch::new(&pool, 64);
        assert_eq!(seen.receive(&mut copies).unwrap(), 5);
        pool.free(&mut copies);
        switch.end();
        port.flush().unwrap();
        let account = switch.take_account().unwrap();
        assert_eq!((account.counts.seen, account.counts.taken, account.stats.tx_packets), (5, 5, 5));
        pass(&mut port, &mut pool);
        assert!(switch.take_account().is_none() && !switch.withdraw());
        assert_eq!(port.counts().seen, 0);
    }
    drop((port, far, handle));
    assert!(pool.is_whole());
}
