//! DPDK's net_virtio_user as the front-end: counts to the packet, in both directions.

mod common;
#[path = "common/program.rs"]
mod program;

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use common::{Place, packet, pool, receive, transmit, until};
use linerate_mem::{Batch, Pool};
use linerate_port::Port;
use linerate_port_vhost::VhostPort;
use program::{Program, installed};

const TESTPMD: &str = "dpdk-testpmd";

fn ready() -> bool {
    if installed(TESTPMD) && installed("stdbuf") {
        return true;
    }
    eprintln!("skipped: {TESTPMD} is not installed (apt install dpdk)");
    false
}

/// A testpmd that waits for commands, on ordinary pages and any cores.
fn testpmd(socket: &Path, device: &str, more: &[&str]) -> Program {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let last_core = std::thread::available_parallelism().map_or(1, usize::from) - 1;
    let prefix = format!("linerate-vhost-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let vdev = format!("net_virtio_user0,path={}{device}", socket.display());
    let mut command = Command::new("stdbuf");
    command.args(["-oL", TESTPMD, "--no-pci", "--no-huge", "-m", "256", "--no-telemetry"]);
    command.args([format!("--lcores=(0,1)@(0-{last_core})"), format!("--file-prefix={prefix}")]);
    command.args(["--vdev", &vdev, "--", "-i", "--total-num-mbufs=8192"]).args(more);
    let mut program = Program::start(&mut command);
    program.tell("show port info 0");
    program.hear(|line| line.contains("MAC address:").then_some(()));
    program
}

/// Packets that port 0 has received and sent, by its own count.
fn counts(program: &mut Program) -> (u64, u64) {
    program.tell("show port stats 0");
    let number = |line: &str, key: &str| {
        let (_, rest) = line.split_once(key)?;
        rest.split_whitespace().next()?.parse::<u64>().ok()
    };
    let received = program.hear(|line| number(line, "RX-packets:"));
    let sent = program.hear(|line| number(line, "TX-packets:"));
    (received, sent)
}

/// Waits until the driver has started its rings.
fn connected(port: &mut VhostPort, pool: &mut Pool) {
    // Until then packets are lost.
    until("the driver's start", || {
        let before = port.stats().unwrap().tx_packets;
        transmit(port, pool, &[packet(0, 60)]);
        port.stats().unwrap().tx_packets > before
    });
}

#[test]
fn what_testpmd_sends_arrives_to_the_packet() {
    if !ready() {
        return;
    }
    let (place, mut pool) = (Place::new(), pool());
    let mut port = place.open("", &pool);
    let mut theirs = testpmd(&place.path(), "", &["--forward-mode=txonly"]);
    theirs.tell("start");
    let mut batch = Batch::new(&pool, 256);
    let mut take = |port: &mut VhostPort, pool: &mut Pool| {
        let count = port.receive(&mut batch).unwrap();
        assert!(batch.iter().all(|packet| packet.len() == 64 && packet[12..14] == [0x08, 0x00]));
        pool.free(&mut batch);
        count as u64
    };
    let mut taken = 0;
    until("a million packets", || {
        for _ in 0..1000 {
            taken += take(&mut port, &mut pool);
        }
        taken > 1_000_000
    });
    theirs.tell("stop");
    // What it still sends must have room.
    let mut stopped = false;
    until("its end", || {
        taken += take(&mut port, &mut pool);
        stopped = stopped
            || theirs
                .hear_within(std::time::Duration::from_millis(1), |line| line.contains("Done.").then_some(()))
                .is_some();
        stopped
    });
    let (_, sent) = counts(&mut theirs);
    until("the last packets", || {
        taken += take(&mut port, &mut pool);
        taken >= sent
    });
    let stats = port.stats().unwrap();
    assert_eq!((taken, stats.rx_packets, stats.rx_bytes, stats.rx_dropped()), (sent, sent, 64 * sent, 0));
}

#[test]
fn testpmd_receives_what_is_sent_to_the_packet() {
    if !ready() {
        return;
    }
    for device in ["", ",mrg_rxbuf=0", ",in_order=0", ",in_order=0,mrg_rxbuf=0", ",packed_vq=0,queue_size=512"] {
        let (place, mut pool) = (Place::new(), pool());
        let mut port = place.open("", &pool);
        let mut theirs = testpmd(&place.path(), device, &["--forward-mode=rxonly"]);
        connected(&mut port, &mut pool);
        theirs.tell("start");
        for round in 0..100 {
            let packets: Vec<_> = (0..100).map(|n| packet(round * 100 + n, 60 + 14 * n)).collect();
            transmit(&mut port, &mut pool, &packets);
        }
        let stats = port.stats().unwrap();
        until("its count", || counts(&mut theirs).0 >= stats.tx_packets);
        assert_eq!(counts(&mut theirs).0, stats.tx_packets, "{device}");
        assert!(stats.tx_packets > 10_000, "{stats:?}");
    }
}

#[test]
fn testpmd_returns_every_packet_unchanged() {
    if !ready() {
        return;
    }
    for device in ["", ",mrg_rxbuf=0,in_order=0", ",queues=2"] {
        let (place, mut pool) = (Place::new(), pool());
        let mut port = place.open(",queues=2", &pool);
        let queues = if device.contains("queues") { ["--rxq=2", "--txq=2"].as_slice() } else { &[] };
        let more = [&["--forward-mode=io", "--auto-start"], queues].concat();
        let _theirs = testpmd(&place.path(), device, &more);
        connected(&mut port, &mut pool);
        let before = port.stats().unwrap().tx_packets as usize;
        receive(&mut port, &mut pool, before);
        for round in 0..200 {
            let mut packets: Vec<_> = (0..100).map(|n| packet(round * 100 + n, 60 + n * 14)).collect();
            transmit(&mut port, &mut pool, &packets);
            let mut returned = receive(&mut port, &mut pool, packets.len());
            // Queues may overtake each other.
            packets.sort();
            returned.sort();
            assert!(packets == returned, "{device}: round {round}");
        }
        let stats = port.stats().unwrap();
        assert_eq!(stats.tx_packets, stats.rx_packets, "{device}");
    }
}

#[test]
fn a_killed_testpmd_is_followed_by_the_next() {
    if !ready() {
        return;
    }
    let (place, mut pool) = (Place::new(), pool());
    let mut port = place.open("", &pool);
    for round in 1..=3 {
        let mut theirs = testpmd(&place.path(), "", &["--forward-mode=txonly", "--auto-start"]);
        let before = port.stats().unwrap().rx_packets;
        // Under load in both directions.
        until("traffic", || {
            receive(&mut port, &mut pool, 1);
            transmit(&mut port, &mut pool, &[packet(1, 60)]);
            port.stats().unwrap().rx_packets > before + 10_000
        });
        theirs.kill();
        let mut batch = Batch::new(&pool, 256);
        until("the end of the connection", || {
            port.receive(&mut batch).unwrap();
            pool.free(&mut batch);
            !port.peers().connected
        });
        let peers = port.peers();
        assert_eq!((peers.connections, peers.faults), (round, 0), "{peers:?}");
    }
    drop(port);
    pool.flush();
    assert!(pool.is_whole());
}
