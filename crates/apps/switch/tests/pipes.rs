//! The whole switch, between threads of this process: packets arrive, accounts balance, ports come and go.

use super::common;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use common::{Station, ask, show, snapshot, switch, wait_until};
use linerate_control::{Command, SettingValue};
use linerate_switch::document::{PortDocument, Snapshot};
use linerate_switch::request::{Request, What};

fn find<'a>(snapshot: &'a Snapshot, name: &str) -> &'a PortDocument {
    snapshot.ports.iter().find(|port| port.name == name).unwrap()
}

#[test]
fn stations_find_each_other_and_every_packet_is_accounted_for() {
    let folder = tempfile::tempdir().unwrap();
    let running = switch(folder.path(), &["a=pipe:learn-a", "b=pipe:learn-b", "c=pipe:learn-c"]);
    let mut stations =
        ["a", "b", "c"].map(|name| Station::join(&running, &format!("learn-{name}"), name.as_bytes()[0]));
    // Each says where it is; these are flooded.
    for station in &mut stations {
        assert_eq!(station.send(0xff, 1), 1);
    }
    wait_until("three packets are flooded", || snapshot(&running).totals.sent == 6);
    let [a, b, c] = &mut stations;
    for _ in 0..100 {
        wait_until("the pipe takes it", || a.send(b'b', 10) == 10);
        wait_until("it arrives", || {
            b.receive();
            b.received >= a.sent - 1
        });
    }
    wait_until("all of it has arrived", || {
        b.receive();
        c.receive();
        b.received == a.sent + 1
    });
    assert_eq!(c.received, 2, "nothing but what was flooded");
    let seen = snapshot(&running);
    assert_eq!((seen.totals.received, seen.totals.flooded, seen.totals.dropped), (a.sent + b.sent + c.sent, 3, 0));
    assert_eq!((find(&seen, "a").counters.received, find(&seen, "b").counters.sent), (a.sent, b.received));
    assert_eq!(seen.totals.unbalanced, None);
    let macs = show(&running, What::Macs);
    assert_eq!(macs["macs"].as_array().unwrap().len(), 3, "{macs}");
    let latency = show(&running, What::Latency);
    assert!(latency.as_array().unwrap().iter().any(|row| row["from"] == "a" && row["to"] == "b"), "{latency}");
    drop(stations);
    let ended = running.stop().unwrap();
    assert_eq!((ended.frames_missing, ended.snapshot.totals.unbalanced, ended.port_lost), (0, None, false));
    assert_eq!(std::fs::read_dir(folder.path().join("linerate")).unwrap().count(), 0, "no socket stays");
}

/// Two stations send to each other all the time; two others come, send, and go. At the end all sums are right to the packet.
#[test]
fn the_account_balances_while_ports_come_and_go() {
    const PACKETS: u64 = 1_000_000;
    let folder = tempfile::tempdir().unwrap();
    let running = switch(folder.path(), &["a=pipe:go-a", "b=pipe:go-b"]);
    let done = AtomicBool::new(false);
    let (sent, received) = (AtomicU64::new(0), AtomicU64::new(0));
    let count = |station: &Station| {
        sent.fetch_add(station.sent, Ordering::Relaxed);
        received.fetch_add(station.received, Ordering::Relaxed);
    };
    std::thread::scope(|scope| {
        for (mine, other) in [(b'a', b'b'), (b'b', b'a')] {
            let (running, done, count) = (&running, &done, &count);
            scope.spawn(move || {
                let mut station = Station::join(running, &format!("go-{}", char::from(mine)), mine);
                while station.sent < PACKETS {
                    if station.send(other, 64) + station.receive() == 0 {
                        std::thread::yield_now();
                    }
                }
                while !done.load(Ordering::Acquire) {
                    if station.receive() == 0 {
                        std::thread::yield_now();
                    }
                }
                station.receive();
                station.flush();
                count(&station);
            });
        }
        for round in 0..20 {
            for number in [1, 2] {
                let name = format!("g{number}");
                let spec = format!("pipe:go-{round}-{number}");
                ask(&running, &Command::AddPort { name: Some(name), spec, settings: BTreeMap::new() }).unwrap();
            }
            let mut guests = [1, 2].map(|number| Station::join(&running, &format!("go-{round}-{number}"), number));
            for turn in 0..50 {
                let to = [b'a', b'b', 1, 2, 99][turn % 5];
                for guest in &mut guests {
                    guest.send(to, 64);
                    guest.receive();
                }
            }
            // One goes in order; the other's far side just ends.
            ask(&running, &Command::RemovePort { port: "g1".into() }).unwrap();
            let [first, second] = guests;
            count(&second);
            drop(second);
            wait_until("the ports are gone", || snapshot(&running).ports.len() == 2);
            let mut first = first;
            while first.receive() > 0 {}
            count(&first);
        }
        wait_until("the stations have sent all", || {
            let seen = snapshot(&running);
            ["a", "b"].iter().all(|name| find(&seen, name).counters.received >= PACKETS) && seen.totals.waiting == 0
        });
        done.store(true, Ordering::Release);
    });
    let seen = snapshot(&running);
    assert_eq!(seen.totals.unbalanced, None);
    assert_eq!(seen.totals.received, sent.load(Ordering::Relaxed), "what all stations sent");
    assert!(seen.totals.received >= 2 * PACKETS);
    // A pipe whose far side is gone takes what it gets and counts it as lost; all else has arrived, or is still in a pipe of one
    // that went.
    assert!(received.load(Ordering::Relaxed) <= seen.totals.sent);
    let ended = running.stop().unwrap();
    let totals = &ended.snapshot.totals;
    assert_eq!((ended.frames_missing, &totals.unbalanced, totals.waiting), (0, &None, 0));
    assert_eq!(totals.received, totals.unicast + totals.flooded + totals.dropped);
    assert_eq!(totals.queued, totals.unicast + totals.flood_copies + totals.mirror_copies);
    assert_eq!(totals.queued, totals.sent + totals.discarded);
}

#[test]
fn a_station_that_takes_nothing_loses_its_own_packets_only() {
    let folder = tempfile::tempdir().unwrap();
    let running = switch(folder.path(), &["a=pipe:hang-a", "b=pipe:hang-b", "c=pipe:hang-c,ring=64"]);
    let [mut a, mut b, mut hung] =
        ["a", "b", "c"].map(|name| Station::join(&running, &format!("hang-{name}"), name.as_bytes()[0]));
    for station in [&mut a, &mut b, &mut hung] {
        station.send(0xff, 1);
    }
    wait_until("all are known", || snapshot(&running).table.used == 3);
    // From now on the third takes nothing, and gets more than its ring and its queue hold.
    for _ in 0..200 {
        a.send(b'c', 64);
        wait_until("it is through", || snapshot(&running).totals.received == a.sent + b.sent + hung.sent);
    }
    let before = b.received;
    for _ in 0..100 {
        let sent = a.send(b'b', 32) as u64;
        let wanted = b.received + sent;
        wait_until("the others go on", || {
            b.receive();
            b.received >= wanted
        });
    }
    assert!(b.received >= before + 3200 - 2);
    let seen = snapshot(&running);
    assert_eq!(find(&seen, "b").counters.refused, BTreeMap::new());
    assert!(find(&seen, "a").counters.dropped["egress-full"] > 0, "{:?}", find(&seen, "a"));
    assert_eq!(seen.totals.unbalanced, None);
    drop((a, b, hung));
    assert_eq!(running.stop().unwrap().frames_missing, 0);
}

#[test]
fn settings_change_while_packets_pass() {
    let folder = tempfile::tempdir().unwrap();
    let running = switch(folder.path(), &["a=pipe:set-a", "b=pipe:set-b"]);
    let [mut a, mut b] = ["a", "b"].map(|name| Station::join(&running, &format!("set-{name}"), name.as_bytes()[0]));
    let set = |port: &str, key: &str, value: &str| {
        let settings = [(key.to_string(), SettingValue(value.to_string()))].into();
        ask(&running, &Command::Set { port: Some(port.into()), settings })
    };
    a.send(b'b', 1);
    wait_until("it passes", || b.receive() > 0);
    set("a", "access", "10").unwrap();
    set("b", "access", "20").unwrap();
    a.send(b'b', 1);
    wait_until("it is dropped", || snapshot(&running).totals.dropped == 1);
    set("b", "access", "10").unwrap();
    a.send(b'b', 1);
    wait_until("it passes again", || b.receive() > 0);
    assert!(set("a", "trunk", "all").unwrap_err().cause.contains("exclude"));
    assert!(set("a", "colour", "red").is_err() && set("z", "access", "1").unwrap_err().hint.contains("a, b"));
    let ports = show(&running, What::Ports);
    assert_eq!((&ports[0]["settings"]["access"], &ports[1]["settings"]["access"]), (&"10".into(), &"10".into()));
    let vlans = show(&running, What::Vlans);
    assert!(vlans.as_array().unwrap().iter().any(|row| row["vlan"] == 10 && row["received"] == 2), "{vlans}");
}

#[test]
fn a_monitor_sees_both_ways_without_a_copy_where_its_port_can() {
    let folder = tempfile::tempdir().unwrap();
    let ports = ["a=pipe:zero-a", "b=pipe:zero-b", "z=null:", "p=pipe:zero-p"];
    let running = switch(folder.path(), &ports);
    let [mut a, mut b] = ["a", "b"].map(|name| Station::join(&running, &format!("zero-{name}"), name.as_bytes()[0]));
    let mut watcher = Station::join(&running, "zero-p", 1);
    for to in ["z", "p"] {
        let settings = [("monitor".to_string(), SettingValue("yes".to_string()))].into();
        ask(&running, &Command::Set { port: Some(to.into()), settings }).unwrap();
        let mirror = linerate_switch::config::MirrorConfig::parse(&format!("from=a,to={to}")).unwrap();
        ask(&running, &Request::AddMirror { mirror }).unwrap();
    }
    a.send(b'b', 1);
    b.send(b'a', 1);
    for _ in 0..100 {
        let (from_a, from_b) = (a.send(b'b', 16) as u64, b.send(b'a', 8) as u64);
        let wanted = (a.received + from_b, b.received + from_a);
        wait_until("they arrive", || {
            a.receive();
            b.receive();
            watcher.receive();
            a.received >= wanted.0 && b.received >= wanted.1
        });
    }
    let all = a.sent + b.sent;
    wait_until("all are seen", || {
        a.receive();
        b.receive();
        watcher.receive();
        watcher.received == all
    });
    let shown = show(&running, What::Mirrors);
    let number = |mirror: usize, key: &str| shown[mirror][key].as_u64().unwrap();
    // One port sends what it is shown; a pipe needs packets of its own.
    assert_eq!((number(0, "zero_copy"), number(0, "copied")), (all, 0), "{shown}");
    assert_eq!((number(1, "zero_copy"), number(1, "copied")), (0, all), "{shown}");
    let seen = snapshot(&running);
    assert_eq!((find(&seen, "z").counters.sent, seen.totals.mirror_copies), (all, 2 * all));
    assert_eq!(seen.totals.unbalanced, None);
    drop((a, b, watcher));
    assert_eq!(running.stop().unwrap().frames_missing, 0);
}

#[test]
fn mirrors_copy_to_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let running = switch(folder.path(), &["a=pipe:mirror-a", "b=pipe:mirror-b"]);
    let [mut a, mut b] = ["a", "b"].map(|name| Station::join(&running, &format!("mirror-{name}"), name.as_bytes()[0]));
    let path = folder.path().join("copy.pcapng");
    let words = format!("from=a,direction=ingress,to=file:{}", path.display());
    let mirror = linerate_switch::config::MirrorConfig::parse(&words).unwrap();
    ask(&running, &Request::AddMirror { mirror }).unwrap();
    a.send(b'b', 3);
    b.send(b'a', 5);
    wait_until("all have passed", || {
        a.receive();
        b.receive();
        a.received == 5 && b.received == 3
    });
    wait_until("the copies are counted", || show(&running, What::Mirrors)[0]["packets"] == 3);
    let shown = show(&running, What::Mirrors);
    assert_eq!((&shown[0]["zero_copy"], &shown[0]["copied"]), (&3.into(), &0.into()), "a file sends what it is shown");
    ask(&running, &Request::RemoveMirror { mirror: 0 }).unwrap();
    wait_until("its port is gone", || snapshot(&running).ports.len() == 2);
    assert!(std::fs::metadata(&path).unwrap().len() > 3 * 60);
    drop((a, b));
    assert_eq!(running.stop().unwrap().frames_missing, 0);
}
