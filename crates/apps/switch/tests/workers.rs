//! A switch on several cores, between threads of this process: what one worker learns the other one knows, and sums are right to the packet.

use super::common;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use common::{Station, ask, show, snapshot, start_in, wait_until};
use linerate_control::{Command, SettingValue};
use linerate_mem::Batch;
use linerate_switch::config::{Config, MirrorConfig};
use linerate_switch::document::Snapshot;
use linerate_switch::request::{Request, What};
use linerate_switch::{Running, config};
use linerate_sys::affinity;

/// Two workers, on two cores where there are two.
fn on_two_cores(folder: &std::path::Path, ports: &[&str]) -> Running {
    let allowed = affinity::allowed_cores();
    let cores = vec![allowed[0], *allowed.last().unwrap()];
    let mut config = Config { ports_max: Some(ports.len() + 4), cores, ..Config::default() };
    ports.iter().for_each(|port| config.add_port(port).unwrap());
    start_in(folder, &config)
}

fn received(snapshot: &Snapshot, name: &str) -> u64 {
    snapshot.ports.iter().find(|port| port.name == name).unwrap().counters.received
}

fn end(running: Running) -> Snapshot {
    let ended = running.stop().unwrap();
    assert_eq!((ended.frames_missing, &ended.snapshot.totals.unbalanced), (0, &None));
    assert_eq!(ended.snapshot.totals.waiting, 0);
    ended.snapshot
}

#[test]
fn stations_of_two_workers_find_each_other_and_a_move_is_seen_by_both() {
    let folder = tempfile::tempdir().unwrap();
    let running = on_two_cores(folder.path(), &["a=pipe:w-a", "b=pipe:w-b", "c=pipe:w-c", "d=pipe:w-d"]);
    let mut stations =
        ["a", "b", "c", "d"].map(|name| Station::join(&running, &format!("w-{name}"), name.as_bytes()[0]));
    for (at, station) in stations.iter_mut().enumerate() {
        assert_eq!(station.send(0xff, 1), 1);
        wait_until("it is flooded to all others", || snapshot(&running).totals.sent == 3 * (at as u64 + 1));
    }
    let seen = snapshot(&running);
    let ports: Vec<Vec<&str>> =
        seen.workers.iter().map(|worker| worker.ports.iter().map(String::as_str).collect()).collect();
    assert_eq!(ports, [["a", "c"], ["b", "d"]]);
    let handed = |worker: usize| (seen.workers[worker].handed_over, seen.workers[worker].handed_in);
    assert_eq!((handed(0), handed(1)), ((4, 4), (4, 4)));
    assert_eq!(show(&running, What::Macs)["macs"].as_array().unwrap().len(), 4);
    let [a, b, c, d] = &mut stations;
    for station in [&mut *a, &mut *b, &mut *c, &mut *d] {
        wait_until("the floods arrive", || station.receive() + station.received as usize >= 3);
        station.received = 0;
    }
    for (from, to) in [(b'a', b'b'), (b'b', b'c'), (b'c', b'd')] {
        let before = snapshot(&running).totals.sent;
        let station = [&mut *a, &mut *b, &mut *c].into_iter().find(|station| station.number == from).unwrap();
        assert_eq!(station.send(to, 10), 10);
        wait_until("they leave", || snapshot(&running).totals.sent == before + 10);
    }
    for station in [&mut *b, &mut *c, &mut *d] {
        wait_until("they arrive", || {
            station.receive();
            station.received == 10
        });
    }
    // The station of a comes up behind d.
    d.number = b'a';
    assert_eq!(d.send(b'c', 1), 1);
    wait_until("the move is learned", || snapshot(&running).table.moved == 1);
    assert_eq!(c.send(b'a', 5), 5);
    wait_until("they go to the new port", || {
        d.receive();
        d.received == 15
    });
    assert_eq!(a.receive(), 0);
    drop(stations);
    assert_eq!(end(running).totals.flooded, 4);
}

#[test]
fn packets_of_a_port_stay_in_order_over_the_rings() {
    const PACKETS: u64 = 100_000;
    let folder = tempfile::tempdir().unwrap();
    let running = on_two_cores(folder.path(), &["a=pipe:o-a", "b=pipe:o-b"]);
    let [mut a, mut b] = ["a", "b"].map(|name| Station::join(&running, &format!("o-{name}"), name.as_bytes()[0]));
    assert_eq!(b.send(0xff, 1), 1);
    wait_until("it is known where b is", || snapshot(&running).totals.sent == 1);
    let (mut sent, mut next) = (0u64, 0u64);
    let mut arrived = Batch::new(&b.pool, 256);
    while next < sent || sent < PACKETS {
        // Less than a queue on the way, so that nothing is dropped.
        let count = (PACKETS - sent).min(128 - (sent - next).min(128)) as usize;
        a.pool.alloc(&mut a.batch, count, 60);
        for (at, packet) in a.batch.iter_mut().enumerate() {
            packet.fill(0);
            packet[..12].copy_from_slice(&[2, 0, 0, 0, 0, b'b', 2, 0, 0, 0, 0, b'a']);
            packet[20..28].copy_from_slice(&(sent + at as u64).to_be_bytes());
        }
        sent += a.port.transmit(&mut a.batch).unwrap() as u64;
        a.pool.free(&mut a.batch);
        b.port.receive(&mut arrived).unwrap();
        for packet in arrived.iter_mut() {
            assert_eq!(u64::from_be_bytes(packet[20..28].try_into().unwrap()), next);
            next += 1;
        }
        if arrived.is_empty() {
            std::thread::yield_now();
        }
        b.pool.free(&mut arrived);
    }
    drop((a, b, arrived));
    let last = end(running);
    assert_eq!((last.workers[0].handed_over, last.workers[1].handed_in), (PACKETS, PACKETS));
    assert_eq!(last.totals.dropped, 0);
}

/// All send to all, faster than they receive, while ports of both workers come and go, and a mirror copies.
#[test]
fn the_account_balances_over_workers_while_ports_come_and_go() {
    let folder = tempfile::tempdir().unwrap();
    let running = on_two_cores(folder.path(), &["a=pipe:x-a", "b=pipe:x-b", "m=pipe:x-m"]);
    let copies = Station::join(&running, "x-m", b'm');
    let mirror = MirrorConfig { from: Some("b".into()), to: "m".into(), ..MirrorConfig::default() };
    ask(&running, &Request::AddMirror { mirror }).unwrap();
    let done = AtomicBool::new(false);
    let sent = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for (mine, other) in [(b'a', b'b'), (b'b', b'a')] {
            let (running, done, sent) = (&running, &done, &sent);
            scope.spawn(move || {
                let mut station = Station::join(running, &format!("x-{}", char::from(mine)), mine);
                let mut turn = 0u8;
                while !done.load(Ordering::Acquire) {
                    turn = turn.wrapping_add(1);
                    station.send(if turn.is_multiple_of(16) { turn } else { other }, 32);
                    if station.receive() == 0 {
                        std::thread::yield_now();
                    }
                }
                station.receive();
                station.flush();
                sent.fetch_add(station.sent, Ordering::Relaxed);
            });
        }
        for round in 0..15 {
            for number in [1, 2] {
                let (name, spec) = (format!("g{number}"), format!("pipe:x-{round}-{number}"));
                ask(&running, &Command::AddPort { name: Some(name), spec, settings: BTreeMap::new() }).unwrap();
            }
            let mut guests = [1, 2].map(|number| Station::join(&running, &format!("x-{round}-{number}"), number));
            for turn in 0..20 {
                for guest in &mut guests {
                    guest.send([b'a', b'b', 1, 2, 99][turn % 5], 32);
                    guest.receive();
                }
                let seen = snapshot(&running);
                assert_eq!(seen.totals.unbalanced, None, "also while packets move");
            }
            ask(&running, &Command::RemovePort { port: "g1".into() }).unwrap();
            let settings = [("isolated".to_string(), SettingValue("yes".into()))].into();
            let _ = ask(&running, &Command::Set { port: Some("b".into()), settings });
            let [mut first, second] = guests;
            sent.fetch_add(second.sent, Ordering::Relaxed);
            drop(second);
            wait_until("the ports are gone", || snapshot(&running).ports.len() == 3);
            while first.receive() > 0 {}
            sent.fetch_add(first.sent, Ordering::Relaxed);
        }
        // Its port goes with the station.
        assert!(received(&snapshot(&running), "a") > 0);
        done.store(true, Ordering::Release);
    });
    wait_until("all has come in", || snapshot(&running).totals.received == sent.load(Ordering::Relaxed));
    drop(copies);
    let last = end(running);
    assert_eq!(last.totals.received, last.totals.unicast + last.totals.flooded + last.totals.dropped);
    assert!(last.totals.mirror_copies > 0);
    assert!(last.workers.iter().all(|worker| worker.handed_over > 0 && worker.handed_in > 0));
}

#[test]
fn settings_of_a_port_hold_for_packets_from_other_workers() {
    let folder = tempfile::tempdir().unwrap();
    let running = on_two_cores(folder.path(), &["a=pipe:s-a", "b=pipe:s-b"]);
    let [mut a, mut b] = ["a", "b"].map(|name| Station::join(&running, &format!("s-{name}"), name.as_bytes()[0]));
    for port in ["a", "b"] {
        let settings = [("isolated".to_string(), SettingValue("yes".into()))].into();
        ask(&running, &Command::Set { port: Some(port.into()), settings }).unwrap();
    }
    assert_eq!(b.send(0xff, 1), 1);
    wait_until("it comes in", || snapshot(&running).totals.received == 1);
    assert_eq!(a.send(b'b', 3), 3);
    wait_until("they are dropped", || snapshot(&running).totals.dropped == 4);
    let drops = show(&running, What::Drops);
    assert!(drops.as_array().unwrap().iter().any(|row| row["port"] == "a" && row["reason"] == "isolated"), "{drops}");
    let settings = [("isolated".to_string(), SettingValue("default".into()))].into();
    ask(&running, &Command::Set { port: Some("b".into()), settings }).unwrap();
    assert_eq!(a.send(b'b', 3), 3);
    wait_until("they arrive", || {
        b.receive();
        b.received == 3
    });
    drop((a, b));
    end(running);
}

#[test]
fn a_file_names_cores() {
    assert_eq!(config::Config::parse("cores = [0, 1]\n[[port]]\nspec = \"null:\"\n").unwrap().cores, [0, 1]);
    assert_eq!(config::Config::parse("queues = 4\n").unwrap().queues.map(std::num::NonZeroU32::get), Some(4));
    assert!(config::Config::parse("queues = 0\n").is_err());
}
