//! A switch that steers in software: the flows of ports of one queue go through the tables of all workers, in order, and one account holds.

use super::common;

use std::path::Path;

use common::{Station, ask, snapshot, start_in, wait_until};
use linerate_control::Command;
use linerate_mem::Batch;
use linerate_ofswitch::document::OfWorkerDocument;
use linerate_ofswitch::request::{Change, Request};
use linerate_ofswitch::{Config, Running};
use linerate_sys::affinity;
use linerate_testkit::under_load;
use linerate_wire::flow_entry;

const FLOWS: u16 = 64;

fn config(test: &str, ports: usize) -> Config {
    let allowed = affinity::allowed_cores();
    let cores = vec![allowed[0], *allowed.last().unwrap()];
    Config { cores, steer: true, ..common::config(test, ports) }
}

fn steering(folder: &Path, test: &str, ports: usize) -> Running {
    let running = start_in(folder, &config(test, ports));
    let flows = ["in_port=1,actions=output:2", "in_port=2,actions=output:1"].map(String::from).to_vec();
    ask(&running, &Request::Flow { action: Change::Add, flows }).unwrap();
    running
}

/// Writes UDP packet number `number` of a flow.
fn write(packet: &mut [u8], flow: u16, number: u64) {
    packet.fill(0);
    packet[..12].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
    packet[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17]);
    packet[26..34].copy_from_slice(&[198, 18, 5, 1, 198, 18, 5, 2]);
    packet[34..36].copy_from_slice(&(20_000 + flow).to_be_bytes());
    packet[36..38].copy_from_slice(&53_u16.to_be_bytes());
    packet[42..50].copy_from_slice(&number.to_be_bytes());
}

fn send(station: &mut Station, sent: u64, count: usize) -> u64 {
    station.pool.alloc(&mut station.batch, count, 60);
    for (at, packet) in station.batch.iter_mut().enumerate() {
        let number = sent + at as u64;
        write(packet, (number % u64::from(FLOWS)) as u16, number / u64::from(FLOWS));
    }
    let taken = station.port.transmit(&mut station.batch).unwrap();
    station.pool.free(&mut station.batch);
    taken as u64
}

/// Takes what has arrived, where the packets of each flow must be in order; returns how many.
fn receive(station: &mut Station, next: &mut [u64]) -> u64 {
    let mut arrived = Batch::new(&station.pool, 256);
    station.port.receive(&mut arrived).unwrap();
    for packet in arrived.iter() {
        let flow = usize::from(u16::from_be_bytes([packet[34], packet[35]]) - 20_000);
        assert_eq!(u64::from_be_bytes(packet[42..50].try_into().unwrap()), next[flow], "flow {flow} in order");
        next[flow] += 1;
    }
    let received = arrived.len() as u64;
    station.pool.free(&mut arrived);
    received
}

fn sum(workers: &[OfWorkerDocument], of: fn(&OfWorkerDocument) -> u64) -> u64 {
    workers.iter().map(of).sum()
}

#[test]
fn flows_of_a_port_of_one_queue_go_through_the_tables_of_all_workers_in_order() {
    const PACKETS: u64 = 64_000;
    let folder = tempfile::tempdir().unwrap();
    let running = steering(folder.path(), "ofst", 2);
    let [mut a, mut b] = [1, 2].map(|number| Station::join(&running, "ofst", number));
    let (mut sent, mut received) = (0, 0);
    let mut next = [0; FLOWS as usize];
    while received != PACKETS {
        // Less than a queue on the way, so that nothing is dropped.
        let count = (PACKETS - sent).min(128 - (sent - received).min(128)) as usize;
        sent += send(&mut a, sent, count);
        let arrived = receive(&mut b, &mut next);
        received += arrived;
        if arrived == 0 {
            std::thread::yield_now();
        }
    }
    assert_eq!(next, [PACKETS / u64::from(FLOWS); FLOWS as usize]);
    // Before the stations leave: their ports leave with them.
    wait_until("the ports have counted all", || {
        let ports = snapshot(&running).ports;
        (ports[0].counters.rx_packets, ports[1].counters.tx_packets) == (PACKETS, PACKETS)
    });
    drop((a, b));
    let last = common::stop(running);
    for (number, worker) in last.workers.iter().enumerate() {
        let is_own = |flow: &u16| {
            let mut packet = [0; 60];
            write(&mut packet, *flow, 0);
            usize::from(flow_entry(&packet)) % 2 == number
        };
        let own = (0..FLOWS).filter(is_own).count() as u64 * PACKETS / u64::from(FLOWS);
        assert!(own > PACKETS / 4, "{own}");
        assert_eq!(worker.received, own, "worker {number}");
        // Port 1 is the first worker's, and port 2 the second's.
        let steered = if number == 0 { (PACKETS - own, 0) } else { (0, own) };
        let handed = if number == 0 { (own, 0) } else { (0, PACKETS - own) };
        assert_eq!((worker.steered_out, worker.steered_in), steered, "worker {number}");
        assert_eq!((worker.handed_over, worker.handed_in), handed, "worker {number}");
    }
    assert_eq!((last.totals.dropped, last.totals.sent), (0, PACKETS));
}

/// What a port brought when the switch ends goes through the tables, also those of another worker, and leaves.
#[test]
fn nothing_that_is_on_its_way_between_workers_is_lost_at_the_end() {
    for round in 0..10 {
        let folder = tempfile::tempdir().unwrap();
        let test = format!("ofse{round}");
        let running = steering(folder.path(), &test, 2);
        let [mut a, mut b] = [1, 2].map(|number| Station::join(&running, &test, number));
        let mut sent = 0;
        let load = || sent += send(&mut a, sent, 64);
        let last = under_load(
            load,
            || _ = b.receive(),
            || {
                wait_until("packets are steered", || sum(&snapshot(&running).workers, |worker| worker.steered_out) > 0);
                running.stop().unwrap().snapshot
            },
        );
        drop((a, b));
        assert_eq!((&last.totals.unbalanced, last.totals.waiting), (&None, 0));
        let arrived: u64 = last.ports.iter().flat_map(|port| &port.queues).map(|queue| queue.received).sum();
        assert_eq!(last.totals.received, arrived, "what ports received went through the tables");
        assert!(sum(&last.workers, |worker| worker.steered_out) > 0);
        assert_eq!(sum(&last.workers, |worker| worker.steered_out), sum(&last.workers, |worker| worker.steered_in));
        assert_eq!(sum(&last.workers, |worker| worker.handed_over), sum(&last.workers, |worker| worker.handed_in));
    }
}

#[test]
fn a_port_goes_while_its_packets_are_on_the_way() {
    let folder = tempfile::tempdir().unwrap();
    let running = steering(folder.path(), "ofsg", 3);
    let [mut a, mut b, c] = [1, 2, 3].map(|number| Station::join(&running, "ofsg", number));
    let mut sent = 0;
    for _ in 0..200 {
        sent += send(&mut a, sent, 64);
        b.receive();
    }
    assert!(sent > 0);
    ask(&running, &Command::RemovePort { port: "1".into() }).unwrap();
    wait_until("it is gone", || {
        b.receive();
        snapshot(&running).workers.iter().all(|worker| !worker.ports.contains(&"1".into()))
    });
    wait_until("nothing is on its way", || {
        b.receive();
        let workers = snapshot(&running).workers;
        sum(&workers, |worker| worker.steered_out) == sum(&workers, |worker| worker.steered_in)
    });
    drop((a, b, c));
    common::stop(running);
}

#[test]
fn a_packet_goes_back_by_the_port_of_another_worker_that_it_came_by() {
    let folder = tempfile::tempdir().unwrap();
    let running = start_in(folder.path(), &config("ofsb", 2));
    let flows = vec!["actions=in_port".to_string()];
    ask(&running, &Request::Flow { action: Change::Add, flows }).unwrap();
    let [mut a, b] = [1, 2].map(|number| Station::join(&running, "ofsb", number));
    let mut next = [0; FLOWS as usize];
    assert_eq!(send(&mut a, 0, FLOWS.into()), u64::from(FLOWS));
    let mut received = 0;
    wait_until("all come back", || {
        received += receive(&mut a, &mut next);
        received == u64::from(FLOWS)
    });
    wait_until("the port has counted all", || snapshot(&running).ports[0].counters.tx_packets == u64::from(FLOWS));
    drop((a, b));
    common::stop(running);
}

#[test]
fn one_worker_has_nobody_to_steer_to() {
    let mut one = config("ofs1", 1);
    one.cores.truncate(1);
    assert!(one.check().unwrap_err().to_string().contains("--cores"));
    assert!(Config::parse("cores = [0, 1]\nsteer = true\n").unwrap().steer);
}
