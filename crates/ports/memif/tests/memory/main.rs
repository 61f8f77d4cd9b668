//! What a port costs: less than 8 MB with rings of the default size, and once it is up, nothing more.

#[path = "../common/mod.rs"]
mod common;
mod sys;

use std::time::Instant;

use common::{CONFIG, PATIENCE, Socket, connected, open, pool_of};
use linerate_mem::{Batch, Pool};
use linerate_port::{Interest, Port};
use linerate_port_memif::MemifPort;
use linerate_testkit::child::{self, Child, Signal};
use linerate_testkit::memory::resident_bytes;
use sys::allocations;

/// What a port may take in bytes, its share of the memory that it has with its peer included.
const MOST_BYTES: u64 = 8 << 20;

/// More packets than there are slots in both rings together, so that every page of them is touched.
const PACKETS: u32 = 3000;

/// Sends back what comes, until it is killed.
#[test]
fn child_port() {
    let Some(spec) = child::task() else { return };
    let mut pool = pool_of(&spec, CONFIG).unwrap();
    let mut port = open(&spec, &pool).unwrap();
    connected(&mut [&mut port]).unwrap();
    println!("testkit child is ready");
    let mut batch = Batch::new(&pool, 64);
    // Its parent kills it; should the parent die, it ends by itself.
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if port.receive(&mut batch).unwrap() == 0 && batch.is_empty() {
            port.wait(Interest::Receive, 1_000_000).unwrap();
        }
        port.transmit(&mut batch).unwrap();
        pool.flush();
    }
}

/// Packets that the peer sends back, with a sleep in between.
fn exchange(port: &mut MemifPort, pool: &mut Pool, batch: &mut Batch, deadline: Instant) {
    let (mut sent, mut back) = (0, 0);
    while back < PACKETS {
        assert!(Instant::now() < deadline, "{back} of {sent} packets came back");
        let count = (PACKETS - sent).min(32 + sent % 32) as usize;
        pool.alloc(batch, count, 1000);
        sent += port.transmit(batch).unwrap() as u32;
        pool.free(batch);
        if port.receive(batch).unwrap() == 0 {
            port.wait(Interest::Receive, 1_000_000).unwrap();
        }
        back += batch.len() as u32;
        pool.free(batch);
    }
    // Nothing more comes, so these sleep for a while, or could.
    for interest in [Interest::Receive, Interest::Transmit] {
        port.wait(interest, 1_000_000).unwrap();
    }
}

#[test]
fn a_port_takes_less_than_8_mb_and_then_nothing() {
    // The first opens what a process has once: the thread for control channels, a table of signals.
    for (ours, theirs, least_bytes) in [
        ("", ",role=client", 0),
        ("", ",role=client", 4 << 20),
        (",role=client", "", 4 << 20),
        (",role=client,zerocopy", "", 0),
    ] {
        let socket = Socket::new();
        let spec = |options: &str| format!("memif:{}{options}", socket.path());
        let mut pool = pool_of(&spec(ours), CONFIG).unwrap();
        let mut batch = Batch::new(&pool, 64);
        let before_bytes = resident_bytes().unwrap();
        let mut port = open(&spec(ours), &pool).unwrap();
        let child = Child::start("child_port", &spec(theirs)).unwrap();
        connected(&mut [&mut port]).unwrap();
        let deadline = Instant::now() + PATIENCE;
        exchange(&mut port, &mut pool, &mut batch, deadline);
        let up_bytes = resident_bytes().unwrap().saturating_sub(before_bytes);
        println!("{ours:25} {up_bytes} bytes");
        assert!((least_bytes..MOST_BYTES).contains(&up_bytes), "{up_bytes} bytes of a port {ours:?}");
        let before = allocations();
        exchange(&mut port, &mut pool, &mut batch, deadline);
        assert_eq!(allocations() - before, 0, "allocations of a port {ours:?} that is up");
        child.end(Signal::Kill).unwrap();
    }
}
