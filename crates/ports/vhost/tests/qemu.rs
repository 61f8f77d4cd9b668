//! Virtual machines at both ends: a guest pings another one and sends it a file, through two ports of this process.

mod common;
#[path = "common/machine.rs"]
mod machine;
#[path = "common/program.rs"]
mod program;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use common::{Place, pool};
use linerate_mem::{Batch, Pool};
use linerate_port::{Interest, Port, Stats};
use linerate_port_vhost::VhostPort;
use machine::{Card, guest, talk};

/// Moves what waits at one port to the other.
fn carry(from: &mut VhostPort, to: &mut VhostPort, batch: &mut Batch) -> usize {
    let moved = from.receive(batch).unwrap();
    while !batch.is_empty() {
        if to.transmit(batch).unwrap() == 0 {
            let _ = to.wait(Interest::Transmit, 1_000_000).unwrap();
        }
    }
    moved
}

/// Joins two ports until told to stop; their totals.
fn join(mut ports: [VhostPort; 2], pool: &Pool, stop: &AtomicBool) -> [Stats; 2] {
    let mut batch = Batch::new(pool, 256);
    while !stop.load(Ordering::Relaxed) {
        let [first, second] = &mut ports;
        let moved = carry(first, second, &mut batch) + carry(second, first, &mut batch);
        if moved == 0 {
            let _ = first.wait(Interest::Receive, 1_000_000).unwrap();
        }
    }
    ports.map(|mut port| port.stats().unwrap())
}

/// Two machines, and what they say.
fn between(guest: &Path, options: [&str; 2], cards: [Card; 2], orders: &str) -> [Stats; 2] {
    let (places, pool) = ([Place::new(), Place::new()], pool());
    let ports = [0, 1].map(|n| places[n].open(options[n], &pool));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let joined = scope.spawn(|| join(ports, &pool, &stop));
        let sockets = [places[0].path(), places[1].path()];
        let said = talk(guest, [&sockets[0], &sockets[1]], cards, orders);
        stop.store(true, Ordering::Relaxed);
        let stats = joined.join().unwrap();
        said.check(&stats);
        stats
    })
}

#[test]
fn a_guest_pings_another_and_sends_it_a_file() {
    let Some(guest) = guest() else { return };
    let plain = Card { more: ",mrg_rxbuf=off", ..Card::default() };
    let stats = between(&guest, ["", ""], [Card::default(), plain], "");
    for end in 0..2 {
        assert_eq!(
            (stats[end].rx_dropped(), stats[end].rx_packets),
            (0, stats[1 - end].tx_packets + stats[1 - end].tx_dropped())
        );
        assert!(stats[end].tx_packets > 100, "{stats:?}");
    }
}

#[test]
fn guests_with_jumbo_packets_queues_and_a_listening_qemu() {
    let Some(guest) = guest() else { return };
    let first = Card { pairs: 2, ..Card::default() };
    let second = Card { server: true, more: ",event_idx=off,indirect_desc=off", ..Card::default() };
    between(&guest, [",queues=2,mtu=4000", ",role=client,mtu=4000"], [first, second], "mtu=4000");
}
