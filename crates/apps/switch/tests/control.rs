//! The control socket, and clients that mean no good.

use super::common;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;

use common::{Station, ask, show, snapshot, switch, wait_until};
use linerate_control::{Command, Connection, ErrorKind, SettingValue, Settings};
use linerate_switch::request::{MACS_MAX, Request, What};

#[test]
fn hostile_clients_hurt_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let running = switch(folder.path(), &["a=pipe:hostile-a", "b=pipe:hostile-b"]);
    let path = running.dir().control();
    assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    // Lines that are none, and lines that are too long.
    for garbage in [&b"\n"[..], b"{}\n", b"\0\xff\xfe\n", b"{\"v\":1,\"command\":\"show\"}\n", b"[[[[[[[[[[[[[[[\n"] {
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.write_all(garbage).unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        assert!(line.contains("\"error\""), "{line}");
    }
    let mut long = UnixStream::connect(&path).unwrap();
    let writing = std::thread::spawn(move || {
        let _ = long.write_all(&vec![b'x'; 1 << 20]);
        let mut answer = Vec::new();
        let _ = long.read_to_end(&mut answer);
    });
    // Many that say nothing, many that ask and do not read.
    let silent: Vec<UnixStream> = (0..150).map(|_| UnixStream::connect(&path).unwrap()).collect();
    let deaf: Vec<UnixStream> = (0..20)
        .map(|_| {
            let mut stream = UnixStream::connect(&path).unwrap();
            stream.set_nonblocking(true).unwrap();
            while stream.write(b"{\"v\":1,\"command\":\"show\",\"what\":\"stats\"}\n").is_ok_and(|len| len > 0) {}
            stream
        })
        .collect();
    // Packets pass, and honest clients are served.
    let [mut a, mut b] = ["a", "b"].map(|name| Station::join(&running, &format!("hostile-{name}"), name.as_bytes()[0]));
    for _ in 0..100 {
        let sent = a.send(b'b', 8);
        let wanted = b.received + sent as u64;
        wait_until("packets pass", || {
            b.receive();
            b.received >= wanted
        });
        assert_eq!(show(&running, What::Ports).as_array().unwrap().len(), 2);
    }
    drop((silent, deaf));
    writing.join().unwrap();
    assert_eq!(snapshot(&running).totals.unbalanced, None);
}

#[test]
fn a_request_has_one_answer_and_an_id() {
    let folder = tempfile::tempdir().unwrap();
    let running = switch(folder.path(), &[]);
    let mut stream = UnixStream::connect(running.dir().control()).unwrap();
    stream
        .write_all(
            b"{\"v\":1,\"id\":1,\"command\":\"show\",\"what\":\"ports\"}\n{\"v\":1,\"id\":\"x\",\"command\":\"fly\"}\n",
        )
        .unwrap();
    let mut lines = BufReader::new(stream).lines();
    let (first, second) = (lines.next().unwrap().unwrap(), lines.next().unwrap().unwrap());
    assert_eq!(first, "{\"id\":1,\"ok\":[],\"v\":1}");
    assert!(second.starts_with("{\"error\":{") && second.contains("\"id\":\"x\""), "{second}");
}

#[test]
fn ports_are_named_opened_and_refused_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let running = switch(folder.path(), &["a=null:"]);
    let add = |name: &str, spec: &str| {
        ask(&running, &Command::AddPort { name: Some(name.into()), spec: spec.into(), settings: Default::default() })
    };
    assert_eq!(add("a", "null:").unwrap_err().kind, Some(ErrorKind::InUse));
    assert!(add("a b", "null:").unwrap_err().hint.contains("letters"));
    assert!(add("x", "piep:x").unwrap_err().hint.contains("pipe:NAME"));
    add("b", "null:").unwrap();
    ask(&running, &Command::RemovePort { port: "b".into() }).unwrap();
    wait_until("it is gone", || snapshot(&running).ports.len() == 1);
    assert!(ask(&running, &Command::RemovePort { port: "b".into() }).unwrap_err().hint.contains("there are a"));
    let mac =
        |mac: &str, port: &str| ask(&running, &Request::AddMac { mac: mac.into(), port: port.into(), vlan: None });
    mac("02:00:00:00:00:07", "a").unwrap();
    assert!(mac("02:00:00:00:00:zz", "a").is_err() && mac("02:00:00:00:00:07", "z").is_err());
    let macs = show(&running, What::Macs);
    assert_eq!((&macs["macs"][0]["port"], &macs["macs"][0]["static"]), (&"a".into(), &true.into()));
    ask(&running, &Request::FlushMacs { port: None }).unwrap();
    assert_eq!(show(&running, What::Macs)["macs"].as_array().unwrap().len(), 1, "static ones stay");
    ask(&running, &Request::RemoveMac { mac: "02:00:00:00:00:07".into(), vlan: None }).unwrap();
    assert_eq!(show(&running, What::Macs)["macs"].as_array().unwrap().len(), 0);
}

#[test]
fn addresses_come_in_pages_each_of_them_once() {
    let folder = tempfile::tempdir().unwrap();
    let running = switch(folder.path(), &["a=null:"]);
    let mut control = Connection::to(running.dir()).unwrap();
    let count = 2 * MACS_MAX + 3;
    for number in 0..count {
        let mac = format!("02:00:00:00:{:02x}:{:02x}", number >> 8, number & 255);
        control.ask(&Request::AddMac { mac, port: "a".into(), vlan: None }).unwrap();
    }
    let (mut after, mut lens, mut seen) = (None, Vec::new(), BTreeSet::new());
    loop {
        let page = control.ask(&Request::Show { what: What::Macs, after }).unwrap();
        let macs = page["macs"].as_array().unwrap();
        assert!(macs.iter().all(|shown| shown["port"] == "a"), "{page}");
        lens.push(macs.len());
        seen.extend(macs.iter().map(|shown| shown["mac"].as_str().unwrap().to_owned()));
        after = page["next"].as_u64();
        if after.is_none() {
            break;
        }
    }
    assert_eq!((lens, seen.len()), (vec![MACS_MAX, MACS_MAX, 3], count));
}

#[test]
fn two_switches_have_two_names_and_stop_is_obeyed() {
    let folder = tempfile::tempdir().unwrap();
    let running = switch(folder.path(), &["a=null:"]);
    let config = linerate_switch::Config::default();
    let options = || linerate_switch::Options { folder: Some(folder.path().into()), ..Default::default() };
    let error = linerate_switch::start(&config, options()).err().unwrap();
    assert!(error.to_string().contains("is running already"), "{error}");
    let other = linerate_switch::Config { name: Some("other".into()), ..config };
    let other = linerate_switch::start(&other, options()).unwrap_or_else(|error| panic!("{error}"));
    Connection::to(other.dir()).unwrap().ask(&Command::Stop {}).unwrap();
    wait_until("it has ended", || other.has_ended());
    let place = other.dir().clone();
    drop(other);
    assert!(Connection::to(&place).unwrap_err().cause.contains("\"other\" is not running"));
    assert!(!running.has_ended());
}

#[test]
fn one_that_nobody_uses_ends() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = linerate_switch::Config::default();
    config.add_port("a=null:").unwrap();
    let options = linerate_switch::Options {
        folder: Some(folder.path().into()),
        idle_exit_ns: Some(50_000_000),
        ..Default::default()
    };
    let running = linerate_switch::start(&config, options).unwrap_or_else(|error| panic!("{error}"));
    ask(&running, &Command::RemovePort { port: "a".into() }).unwrap();
    wait_until("it has ended", || running.has_ended());
}

#[test]
fn ageing_and_table_size_change_while_packets_pass() {
    let folder = tempfile::tempdir().unwrap();
    let running = switch(folder.path(), &["a=pipe:size-a", "b=pipe:size-b"]);
    let [mut a, mut b] = ["a", "b"].map(|name| Station::join(&running, &format!("size-{name}"), name.as_bytes()[0]));
    let set = |words: &[(&str, &str)]| {
        let settings: Settings =
            words.iter().map(|(key, value)| (key.to_string(), SettingValue(value.to_string()))).collect();
        ask(&running, &Command::Set { port: None, settings })
    };
    let mac = Request::AddMac { mac: "02:00:00:00:01:07".into(), port: "a".into(), vlan: Some(3) };
    ask(&running, &mac).unwrap();
    // 200 stations behind one port, and one behind the other.
    for number in 1..=200 {
        a.number = number;
        wait_until("the pipe takes it", || {
            b.receive();
            a.send(201, 1) == 1
        });
    }
    b.number = 201;
    b.send(200, 1);
    wait_until("all are known", || {
        b.receive();
        show(&running, What::Stats)["table"]["used"] == 202
    });
    let flooded = snapshot(&running).totals.flooded;
    std::thread::scope(|scope| {
        let sizes = scope.spawn(|| {
            for words in [[("table-size", "1048576")], [("table-size", "512")], [("table-size", "64k")]] {
                set(&words).unwrap();
            }
        });
        // Known addresses stay known at every moment: nothing is flooded.
        while !sizes.is_finished() {
            a.send(201, 16);
            b.send(200, 16);
            a.receive();
            b.receive();
        }
        sizes.join().unwrap();
    });
    wait_until("all has passed", || {
        a.receive();
        b.receive();
        snapshot(&running).totals.received == a.sent + b.sent
    });
    let seen = snapshot(&running);
    assert_eq!((seen.totals.flooded, &seen.totals.unbalanced), (flooded, &None));
    assert_eq!((seen.table.used, seen.table.evicted, seen.table.size, seen.table.ageing_s), (202, 0, 64_000, 300));
    // All or nothing, and in words.
    assert!(set(&[("ageing", "60s"), ("table-size", "2000000")]).unwrap_err().cause.contains("1048576"));
    assert!(set(&[("ageing", "60s"), ("colour", "red")]).unwrap_err().hint.contains("table-size"));
    assert_eq!(snapshot(&running).table.ageing_s, 300);
    set(&[("ageing", "60s"), ("table-size", "16")]).unwrap();
    let table = snapshot(&running).table;
    assert_eq!((table.size, table.ageing_s, table.used + table.evicted), (16, 60, 202));
    assert!(table.used <= 32 && table.used > 16, "{table:?}");
    let macs = show(&running, What::Macs);
    let is_there = |mac: &str| macs["macs"].as_array().unwrap().iter().any(|shown| shown["mac"] == mac);
    assert!(is_there("02:00:00:00:01:07"), "the static one stays: {macs}");
    drop((a, b));
    assert_eq!(running.stop().unwrap().frames_missing, 0);
}
