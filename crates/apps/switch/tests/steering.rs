//! A switch that steers in software: the flows of ports of one queue are decided on by all workers, in order, and one account holds.

use super::common;

use std::collections::BTreeMap;
use std::path::Path;

use common::{Station, ask, snapshot, start_in, wait_until};
use linerate_control::{Command, SettingValue};
use linerate_mem::Batch;
use linerate_switch::config::{Config, MirrorConfig};
use linerate_switch::document::Snapshot;
use linerate_switch::request::Request;
use linerate_switch::{Options, Running, start};
use linerate_sys::affinity;
use linerate_testkit::under_load;
use linerate_wire::flow_entry;

const FLOWS: u16 = 64;

fn config(ports: &[&str]) -> Config {
    let allowed = affinity::allowed_cores();
    let cores = vec![allowed[0], *allowed.last().unwrap()];
    let mut config = Config { ports_max: Some(ports.len() + 4), cores, steer: true, ..Config::default() };
    ports.iter().for_each(|port| config.add_port(port).unwrap());
    config
}

fn steering(folder: &Path, ports: &[&str]) -> Running {
    start_in(folder, &config(ports))
}

/// Writes UDP packet number `number` of a flow, from station a to station b, or back.
fn write(packet: &mut [u8], flow: u16, number: u64, back: bool) {
    packet.fill(0);
    let (mut ends, mut hosts, mut ports) = ([b'b', b'a'], [1, 2], [20_000 + flow, 53]);
    if back {
        ends.reverse();
        hosts.reverse();
        ports.reverse();
    }
    packet[..12].copy_from_slice(&[2, 0, 0, 0, 0, ends[0], 2, 0, 0, 0, 0, ends[1]]);
    packet[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17]);
    packet[26..34].copy_from_slice(&[198, 18, 5, hosts[0], 198, 18, 5, hosts[1]]);
    packet[34..36].copy_from_slice(&ports[0].to_be_bytes());
    packet[36..38].copy_from_slice(&ports[1].to_be_bytes());
    packet[42..50].copy_from_slice(&number.to_be_bytes());
}

/// The worker, of two, that decides on a flow.
fn worker_of(flow: u16) -> usize {
    let mut packet = [0; 60];
    write(&mut packet, flow, 0, false);
    usize::from(flow_entry(&packet)) % 2
}

/// Sends `count` packets of all flows in turn, from packet number `sent` on; returns how many the pipe took.
fn send(station: &mut Station, sent: u64, count: usize) -> u64 {
    station.pool.alloc(&mut station.batch, count, 60);
    let back = station.number == b'b';
    for (at, packet) in station.batch.iter_mut().enumerate() {
        let number = sent + at as u64;
        write(packet, (number % u64::from(FLOWS)) as u16, number / u64::from(FLOWS), back);
    }
    let taken = station.port.transmit(&mut station.batch).unwrap();
    station.pool.free(&mut station.batch);
    taken as u64
}

/// Takes what has arrived, where the packets of each flow must be in order; returns how many.
fn receive(station: &mut Station, next: &mut [u64]) -> u64 {
    let mut arrived = Batch::new(&station.pool, 256);
    station.port.receive(&mut arrived).unwrap();
    let port = if station.number == b'b' { 34 } else { 36 };
    for packet in arrived.iter() {
        let flow = usize::from(u16::from_be_bytes([packet[port], packet[port + 1]]) - 20_000);
        assert_eq!(u64::from_be_bytes(packet[42..50].try_into().unwrap()), next[flow], "flow {flow} in order");
        next[flow] += 1;
    }
    let received = arrived.len() as u64;
    station.pool.free(&mut arrived);
    received
}

/// Takes all that is on its way to a station: workers have it from each other, and then the station's port.
fn arrive(running: &Running, station: &mut Station) {
    wait_until("what is on the way arrives", || {
        station.receive();
        let seen = snapshot(running);
        let sum = |of: fn(&linerate_switch::document::SwitchWorkerDocument) -> u64| -> u64 {
            seen.workers.iter().map(of).sum()
        };
        let passed = |out, into| sum(out) == sum(into);
        let steered = passed(|worker| worker.steered_out, |worker| worker.steered_in);
        steered && passed(|worker| worker.handed_over, |worker| worker.handed_in) && seen.totals.waiting == 0
    });
    while station.receive() > 0 {}
}

/// Makes the addresses of both known.
fn learn(running: &Running, stations: [&mut Station; 2]) {
    let [a, b] = stations;
    let mut stations = [a, b];
    for _ in 0..2 {
        let before = snapshot(running).totals.flooded;
        assert_eq!(stations[0].send(0xff, 1), 1);
        wait_until("it is flooded", || snapshot(running).totals.flooded == before + 1);
        wait_until("it arrives", || stations[1].receive() == 1);
        stations.swap(0, 1);
    }
}

fn end(running: Running) -> Snapshot {
    let ended = running.stop().unwrap();
    let totals = &ended.snapshot.totals;
    assert_eq!((ended.frames_missing, &totals.unbalanced, totals.waiting), (0, &None, 0));
    let steered = |of: fn(&linerate_switch::document::SwitchWorkerDocument) -> u64| -> u64 {
        ended.snapshot.workers.iter().map(of).sum()
    };
    assert_eq!(steered(|worker| worker.steered_out), steered(|worker| worker.steered_in), "nothing is lost between");
    ended.snapshot
}

#[test]
fn flows_of_a_port_of_one_queue_are_decided_on_by_all_workers_in_order() {
    const PACKETS: u64 = 64_000;
    let folder = tempfile::tempdir().unwrap();
    let running = steering(folder.path(), &["a=pipe:st-a", "b=pipe:st-b"]);
    let [mut a, mut b] = ["a", "b"].map(|name| Station::join(&running, &format!("st-{name}"), name.as_bytes()[0]));
    learn(&running, [&mut a, &mut b]);
    let before = snapshot(&running);
    let (mut sent, mut received) = ([0; 2], [0; 2]);
    let mut next = [[0; FLOWS as usize]; 2];
    while received != [PACKETS; 2] {
        for (at, station) in [&mut a, &mut b].into_iter().enumerate() {
            // Less than a queue on the way, so that nothing is dropped.
            let on_the_way: u64 = sent[at] - received[1 - at];
            let count = (PACKETS - sent[at]).min(64 - on_the_way.min(64)) as usize;
            sent[at] += send(station, sent[at], count);
            received[at] += receive(station, &mut next[at]);
        }
        std::thread::yield_now();
    }
    assert_eq!(next, [[PACKETS / u64::from(FLOWS); FLOWS as usize]; 2]);
    // Before the stations leave: their ports leave with them.
    let ports = snapshot(&running).ports;
    assert_eq!(ports.iter().map(|port| port.queues.len()).collect::<Vec<_>>(), [1, 1]);
    drop((a, b));
    let last = end(running);
    let flows_of = |worker| (0..FLOWS).filter(|flow| worker_of(*flow) == worker).count() as u64;
    for (number, (worker, before)) in last.workers.iter().zip(&before.workers).enumerate() {
        // Both directions of its flows, of which one arrived at the port of the other worker.
        let own = flows_of(number) * PACKETS / u64::from(FLOWS);
        assert!(own > PACKETS / 4, "{own}");
        assert_eq!(worker.received - before.received, 2 * own, "worker {number}");
        assert_eq!(worker.steered_in - before.steered_in, own, "worker {number}");
        assert_eq!(worker.steered_out - before.steered_out, PACKETS - own, "worker {number}");
    }
    assert_eq!((last.totals.dropped, last.totals.discarded, last.totals.received), (0, 0, 2 * PACKETS + 2));
}

/// What a port brought when the switch ends is decided on, also what another worker decides on, and leaves.
#[test]
fn nothing_that_is_on_its_way_between_workers_is_lost_at_the_end() {
    for round in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        let pipes = ["a", "b"].map(|name| format!("{name}=pipe:se{round}-{name}"));
        let running = steering(folder.path(), &[&pipes[0], &pipes[1]]);
        let join = |name: &str| Station::join(&running, &format!("se{round}-{name}"), name.as_bytes()[0]);
        let [mut a, mut b] = ["a", "b"].map(join);
        learn(&running, [&mut a, &mut b]);
        let mut sent = 0;
        let load = || sent += send(&mut a, sent, 64);
        let last = under_load(
            load,
            || _ = b.receive(),
            || {
                wait_until("packets are steered", || {
                    snapshot(&running).workers.iter().any(|worker| worker.steered_out > 0)
                });
                running.stop().unwrap().snapshot
            },
        );
        drop((a, b));
        assert_eq!(last.totals.unbalanced, None);
        let arrived: u64 = last.ports.iter().flat_map(|port| &port.queues).map(|queue| queue.received).sum();
        assert_eq!(last.totals.received, arrived, "what ports received, the switch decided on");
        let of = |of: fn(&linerate_switch::document::SwitchWorkerDocument) -> u64| -> u64 {
            last.workers.iter().map(of).sum()
        };
        assert!(of(|worker| worker.steered_out) > 0);
        assert_eq!(of(|worker| worker.steered_out), of(|worker| worker.steered_in));
        assert_eq!(of(|worker| worker.handed_over), of(|worker| worker.handed_in));
    }
}

#[test]
fn ports_go_and_come_while_their_packets_are_on_the_way() {
    let folder = tempfile::tempdir().unwrap();
    let running = steering(folder.path(), &["a=pipe:sg-a", "b=pipe:sg-b", "c=pipe:sg-c"]);
    let [mut a, mut b, c] =
        ["a", "b", "c"].map(|name| Station::join(&running, &format!("sg-{name}"), name.as_bytes()[0]));
    learn(&running, [&mut a, &mut b]);
    for round in 0..10 {
        let mut sent = 0;
        for _ in 0..20 {
            sent += send(&mut a, sent, 64);
        }
        assert!(sent > 0);
        ask(&running, &Command::RemovePort { port: "a".into() }).unwrap();
        wait_until("it is gone", || {
            b.receive();
            snapshot(&running).workers.iter().all(|worker| !worker.ports.contains(&"a".into()))
        });
        drop(a);
        let spec = format!("pipe:sg-a{round}");
        let add = Command::AddPort { name: Some("a".into()), spec, settings: BTreeMap::new() };
        wait_until("it is added again", || ask(&running, &add).is_ok());
        a = Station::join(&running, &format!("sg-a{round}"), b'a');
        // Its packets pass again, those of both workers.
        arrive(&running, &mut b);
        learn(&running, [&mut a, &mut b]);
        let (mut count, mut arrived) = (0, 0);
        wait_until("all flows pass", || {
            if count < u64::from(FLOWS) {
                count += send(&mut a, count, FLOWS as usize - count as usize);
            }
            arrived += b.receive() as u64;
            arrived == u64::from(FLOWS)
        });
    }
    drop((a, b, c));
    end(running);
}

#[test]
fn a_mirror_copies_what_either_worker_decides_on() {
    let folder = tempfile::tempdir().unwrap();
    let running = steering(folder.path(), &["a=pipe:sm-a", "b=pipe:sm-b", "m=pipe:sm-m"]);
    let [mut a, mut b, mut m] =
        ["a", "b", "m"].map(|name| Station::join(&running, &format!("sm-{name}"), name.as_bytes()[0]));
    learn(&running, [&mut a, &mut b]);
    wait_until("the floods arrive", || {
        m.receive();
        m.received == 2
    });
    let mirror = MirrorConfig::parse("from=a,direction=ingress,to=m").unwrap();
    ask(&running, &Request::AddMirror { mirror }).unwrap();
    let mut next = [0; FLOWS as usize];
    assert_eq!(send(&mut a, 0, FLOWS.into()), u64::from(FLOWS));
    let mut received = 0;
    wait_until("they arrive, and their copies", || {
        received += receive(&mut b, &mut next);
        m.receive();
        (received, m.received) == (u64::from(FLOWS), 2 + u64::from(FLOWS))
    });
    drop((a, b, m));
    end(running);
}

#[test]
fn limits_of_rates_and_one_worker_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut one = config(&["a=null:"]);
    one.cores.truncate(1);
    let refused = |config: &Config| {
        let options = Options { folder: Some(folder.path().into()), ..Options::default() };
        start(config, options).err().expect("it is refused").to_string()
    };
    assert!(refused(&one).contains("--cores"), "{}", refused(&one));
    let mut limited = config(&["a=pipe:sl-a"]);
    limited.set("a.rate=10M").unwrap();
    assert!(refused(&limited).contains("--steer"), "{}", refused(&limited));
    let running = steering(folder.path(), &["a=pipe:sl-b"]);
    let set = |key: &str, value: &str| {
        let settings = [(key.to_string(), SettingValue(value.into()))].into();
        ask(&running, &Command::Set { port: Some("a".into()), settings })
    };
    assert!(set("rate", "10M").unwrap_err().to_string().contains("--steer"));
    // Other settings reach the worker that has only rings of the port.
    set("access", "10").unwrap();
    end(running);
}
