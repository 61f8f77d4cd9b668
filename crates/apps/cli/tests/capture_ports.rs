//! `linerate capture` on ports of each kind: to the packet, also when the ring was too small.

use super::common;

use std::path::Path;

use common::{Ended, INTERFACE, Run, Wire};
use linerate_pcapng::CaptureReader;
use serde_json::Value;
use tempfile::TempDir;

const COUNT: u64 = 20_000;

/// Lines of the end that are about `scope`.
fn ends(ended: &Ended, scope: &str) -> Vec<Value> {
    let lines = ended.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["end"] == true && line["scope"] == scope).collect()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

fn send(wire: &Wire, options: &str) {
    Run::start_in(&wire.left, &format!("send packet:{INTERFACE} --json -q {options}")).end().expect_code(0);
}

/// Starts a capture in the namespace on the right; `None`, and a line that says why, where this machine does not allow it.
fn start(wire: &Wire, port: &str, options: &str) -> Option<Run> {
    let backend = port.split(':').next().unwrap_or_default();
    let probe = linerate_ports::list().into_iter().find(|entry| entry.name == backend);
    if let Some(Err(unusable)) = probe.map(|entry| entry.usable) {
        eprintln!("skipped: {port}: {}", unusable.cause);
        return None;
    }
    let running = Run::start_in(&wire.right, &format!("capture -i {port} --json {options}"));
    running.wait_for("ready", |text| text.contains("capturing on"));
    Some(running)
}

/// Packets of a file: timestamp and bytes.
fn packets(path: &Path) -> Vec<(u64, Vec<u8>)> {
    let mut reader = CaptureReader::new(std::fs::File::open(path).unwrap()).unwrap();
    let mut packets = Vec::new();
    while let Some(head) = reader.next().unwrap() {
        packets.push((head.time_ns, reader.packet().to_vec()));
    }
    packets
}

#[test]
fn one_that_never_sleeps_captures_the_same_and_ends_when_asked() {
    for kind in ["packet", "pcap", "xdp"] {
        let Some(wire) = Wire::new(1) else { return };
        let Some(running) = start(&wire, &format!("{kind}:{INTERFACE}"), "--poll") else { continue };
        send(&wire, &format!("--count {COUNT} --rate 50kpps"));
        running.signal("INT");
        let ended = running.end();
        ended.expect_code(0);
        let line = ends(&ended, "port").remove(0);
        assert_eq!(number(&line["packets"]) + number(&line["account"]["dropped_by_ring"]), COUNT, "{kind}: {line}");
        assert!(number(&line["packets"]) > 0 && number(&line["cpu_ns"]) > 0, "{kind}: {line}");
    }
}

#[test]
fn every_kind_of_port_is_captured_to_the_packet() {
    let directory = TempDir::new().unwrap();
    for kind in ["packet", "pcap", "xdp"] {
        let Some(wire) = Wire::new(1) else { return };
        let path = directory.path().join(format!("{kind}.pcapng"));
        let port = format!("{kind}:{INTERFACE}");
        let Some(running) = start(&wire, &port, &format!("-w {}", path.display())) else { continue };
        send(&wire, &format!("--count {COUNT} --rate 50kpps --size 64:1,1518:1"));
        running.signal("INT");
        let ended = running.end();
        ended.expect_code(0);
        let end = &ends(&ended, "port")[0];
        let account = &end["account"];
        assert_eq!(end["port"], port.as_str());
        assert_eq!(number(&account["offered"]), COUNT, "{kind}: {account}");
        assert_eq!(number(&account["taken"]) + number(&account["dropped_by_ring"]), COUNT, "{kind}: {account}");
        assert_eq!(packets(&path).len() as u64, number(&account["written"]), "{kind}: {account}");
        let now_ns = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64;
        for (time_ns, _) in packets(&path) {
            assert!(time_ns <= now_ns && now_ns - time_ns < 600_000_000_000, "{kind}: {time_ns}");
        }
    }
}

#[test]
fn what_a_small_ring_loses_is_counted() {
    for kind in ["packet", "pcap", "xdp"] {
        let Some(wire) = Wire::new(1) else { return };
        let Some(running) = start(&wire, &format!("{kind}:{INTERFACE}"), "--ring 65536") else { continue };
        // Nobody reads while packets come.
        running.signal("STOP");
        send(&wire, "--count 5000 --rate 50kpps --size 1518");
        running.signal("CONT");
        running.signal("INT");
        let ended = running.end();
        ended.expect_code(0);
        let end = &ends(&ended, "port")[0];
        let account = &end["account"];
        assert_eq!(number(&account["taken"]) + number(&account["dropped_by_ring"]), 5000, "{kind}: {account}");
        assert!(number(&account["dropped_by_ring"]) > 4000, "{kind}: {account}");
        let capture_ratio = end["capture_ratio"].as_f64().unwrap();
        assert!((capture_ratio - number(&account["taken"]) as f64 / 5000.0).abs() < 1e-9, "{kind}: {end}");
        let ring = &end["ring"];
        if kind == "pcap" {
            assert!(ring.is_null(), "libpcap does not tell: {end}");
        } else {
            assert!(number(&ring["highest"]) > number(&ring["capacity"]) / 2, "{kind}: {end}");
            assert!(number(&ring["overflows"]) > 0 && ring["projection"]["says"] == "overflowed", "{kind}: {end}");
        }
    }
}

/// One flow stays in one ring; many are spread over both; the port's account is the sum, and so is the file.
#[test]
fn rings_share_a_port_by_flow() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("a.pcapng");
    for (kind, rings, queues) in [("packet", "2", 1), ("xdp", "queues", 2)] {
        for flows in [1, 64] {
            let Some(wire) = Wire::new(queues) else { return };
            let options = format!("--rings {rings} -w {}", path.display());
            let Some(running) = start(&wire, &format!("{kind}:{INTERFACE}"), &options) else { continue };
            send(&wire, &format!("--count 6400 --rate 50kpps --flows {flows}"));
            running.signal("INT");
            let ended = running.end();
            ended.expect_code(0);
            let taken: Vec<u64> = ends(&ended, "queue").iter().map(|end| number(&end["account"]["taken"])).collect();
            let queues: Vec<u64> = ends(&ended, "queue").iter().map(|end| number(&end["queue"])).collect();
            assert_eq!(queues, [0, 1], "{kind}");
            let port = &ends(&ended, "port")[0];
            let of = |rows: &str| {
                let rows = port[rows].as_array().unwrap_or_else(|| panic!("no {rows}: {port}"));
                rows.iter().map(|row| number(&row["packets"])).collect::<Vec<u64>>()
            };
            assert_eq!((of("queues"), of("cores")), (taken.clone(), taken.clone()), "{port}");
            assert!(port["cores"].as_array().unwrap().iter().all(|row| row["cpu_seconds"].is_f64()), "{port}");
            let account = &port["account"];
            assert_eq!(
                (number(&account["offered"]), number(&account["dropped_by_ring"])),
                (6400, 0),
                "{kind}: {account}"
            );
            assert_eq!(taken.iter().sum::<u64>(), 6400, "{kind}: {taken:?}");
            assert_eq!(packets(&path).len() as u64, number(&account["written"]), "{kind}: {account}");
            if flows == 1 {
                assert!(taken.contains(&0), "{kind}: one flow in two rings: {taken:?}");
            } else if kind == "packet" {
                assert!(taken.iter().all(|taken| *taken > 0 && taken % 100 == 0), "{kind}: flows are whole: {taken:?}");
            }
            let mut reader = CaptureReader::new(std::fs::File::open(&path).unwrap()).unwrap();
            while reader.next().unwrap().is_some() {}
            let interfaces = reader.interfaces();
            assert_eq!(interfaces.len(), 1);
            assert_eq!(interfaces[0].statistics.as_ref().unwrap().accepted, Some(6400));
        }
    }
}

/// Filters of every kind of port, and the end after so many packets.
#[test]
fn ports_filter_and_end_after_so_many() {
    for kind in ["packet", "pcap", "xdp"] {
        let Some(wire) = Wire::new(1) else { return };
        let port = format!("{kind}:{INTERFACE}");
        if start(&wire, &port, "").is_none() {
            continue;
        }
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_linerate"));
        command.args(["capture", "-i", &port, "--json", "-c", "500", "--filter", "udp and dst port 1024"]);
        let running = wire.right.run(|| Run::from(&mut command)).unwrap();
        running.wait_for("ready", |text| text.contains("capturing on"));
        let varied = "--layers ethernet/ipv4/udp --vary udp.destination=1024..1027";
        send(&wire, &format!("--count 2000 --rate 50kpps {varied}"));
        let ended = running.end();
        ended.expect_code(0);
        let account = &ends(&ended, "port")[0]["account"];
        assert_eq!((number(&account["offered"]), number(&account["taken"])), (500, 500), "{kind}: {account}");
    }
}

/// The interface's own counts, in the line and in the file: what the filter refused was received all the same.
#[test]
fn what_the_interface_received_is_told() {
    let Some(wire) = Wire::new(1) else { return };
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("a.pcapng");
    for (options, offered) in [("--rings 2", 3000), ("--filter tcp", 0), ("--cores 0", 3000)] {
        let allowed = linerate_sys::affinity::allowed_cores();
        let options = options.replace("--cores 0", &format!("--cores {}", allowed[0]));
        let Some(running) = start(&wire, INTERFACE, &format!("{options} -w {}", path.display())) else { return };
        send(&wire, "--count 3000 --rate 50kpps --layers ethernet/ipv4/udp");
        running.signal("INT");
        let ended = running.end();
        ended.expect_code(0);
        let end = &ends(&ended, "port")[0];
        let account = &end["account"];
        assert_eq!((number(&account["received"]), number(&account["offered"])), (3000, offered), "{account}");
        assert_eq!(number(&account["filtered"]), 3000 - offered, "{account}");
        assert_eq!(number(&end["dropped_by_interface"]), 0, "{end}");
        assert!(number(&end["cpu_ns"]) > 0, "{end}");
        let mut reader = CaptureReader::new(std::fs::File::open(&path).unwrap()).unwrap();
        while reader.next().unwrap().is_some() {}
        let statistics = reader.interfaces()[0].statistics.clone().unwrap();
        assert_eq!((statistics.received, statistics.dropped_by_interface), (Some(3000), Some(0)));
        assert!(statistics.comment.starts_with("received 3000 = filtered out"), "{}", statistics.comment);
    }
    // A veth has no clock: the timestamps are the kernel's, the file says so, and nobody claims others.
    for timestamps in ["auto", "kernel"] {
        let options = format!("--timestamps {timestamps} -w {}", path.display());
        let Some(running) = start(&wire, INTERFACE, &options) else { return };
        send(&wire, "--count 10 --rate 50kpps");
        running.signal("INT");
        let ended = running.end();
        assert!(ends(&ended, "port")[0]["timestamped_by_nic"].is_null(), "{timestamps}");
        let mut reader = CaptureReader::new(std::fs::File::open(&path).unwrap()).unwrap();
        while reader.next().unwrap().is_some() {}
        let comment = &reader.interfaces()[0].comment;
        assert!(comment.starts_with("timestamps: the kernel's receive path, CLOCK_REALTIME"), "{comment}");
    }
    let refused = Run::start_in(&wire.right, &format!("capture -i {INTERFACE} --timestamps nic")).end();
    refused.expect_code(2);
    assert!(refused.stderr.contains("does not timestamp every packet"), "{}", refused.stderr);

    // What this host sends is received by captures of both directions and of that one, and what it receives by the first of them alone.
    let captures = [("inout", 3500), ("out", 3000)].map(|(direction, count)| {
        let options = format!("--json --direction {direction} --count {count}");
        let capture = Run::start_in(&wire.left, &format!("capture -i {INTERFACE} {options}"));
        capture.wait_for("ready", |text| text.contains("capturing on"));
        capture
    });
    for (from, count) in [(&wire.left, 3000), (&wire.right, 500)] {
        let sender = format!("send packet:{INTERFACE},qdisc --json -q --count {count} --rate 50kpps");
        Run::start_in(from, &sender).end().expect_code(0);
    }
    for (capture, expected) in captures.into_iter().zip([3500, 3000]) {
        let ended = capture.end();
        let account = &ends(&ended, "port")[0]["account"];
        assert_eq!((number(&account["received"]), number(&account["offered"])), (expected, expected), "{account}");
    }
}

#[test]
fn a_file_is_captured_to_its_end_and_all_ports_are_summed() {
    let directory = TempDir::new().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    for (name, count) in [("a.pcapng", 500), ("b.pcapng", 300)] {
        let stream = "--layers ethernet/ipv4/udp --size 64:1,1518:1";
        let sent = Run::start(&format!("send file:{} --json -q --count {count} {stream}", path(name))).end();
        sent.expect_code(0);
    }
    let from = format!("-i file:{} -i file:{}", path("a.pcapng"), path("b.pcapng"));
    let ended = Run::start(&format!("capture {from} -w {} --json", path("c.pcapng"))).end();
    ended.expect_code(0);
    let ports: Vec<u64> = ends(&ended, "port").iter().map(|end| number(&end["account"]["written"])).collect();
    assert_eq!(ports, [500, 300]);
    let sum = &ends(&ended, "sum")[0];
    assert_eq!(number(&sum["account"]["written"]), 800, "{sum}");
    assert_eq!((number(&sum["packets"]), number(&sum["writer"]["files"])), (800, 1), "{sum}");
    let bytes: u64 = ends(&ended, "port").iter().map(|end| number(&end["bytes"])).sum();
    assert_eq!(number(&sum["bytes"]), bytes);
    // The same packets, with their timestamps.
    let mut expected =
        [packets(directory.path().join("a.pcapng").as_path()), packets(directory.path().join("b.pcapng").as_path())]
            .concat();
    let mut found = packets(directory.path().join("c.pcapng").as_path());
    expected.sort();
    found.sort();
    assert!(expected == found, "the packets differ");

    let ended = Run::start(&format!("capture {from} --json --filter tcp")).end();
    ended.expect_code(0);
    assert_eq!(number(&ends(&ended, "sum")[0]["packets"]), 0);
    let ended = Run::start(&format!("capture {from} -w {} --json --filter udp --snaplen 60", path("d.pcapng"))).end();
    ended.expect_code(0);
    assert_eq!(number(&ends(&ended, "sum")[0]["packets"]), 800);
    assert!(packets(directory.path().join("d.pcapng").as_path()).iter().all(|(_, bytes)| bytes.len() == 60));
    let ended = Run::start(&format!("capture {from}")).end();
    ended.expect_code(0);
    for words in ["sum: 800 packets", "capture ratio 100 %", "  cpu "] {
        assert!(ended.stdout.contains(words), "{words}: {}", ended.stdout);
    }
}

#[test]
fn what_a_port_cannot_do_is_said() {
    for (options, words) in [
        ("-i file:/no/such.pcapng", "/no/such.pcapng"),
        ("-i null:", "cannot receive"),
        ("-i nosuch:a", "no backend"),
        ("-i pipe:a --direction out", "--direction"),
        ("-i pipe:a --rings 2", "one queue, fewer than the 2 threads"),
        ("-i pipe:a --filter nonsense", "nonsense"),
        ("-i pipe:a --rings many", "--rings many"),
        ("-i pipe:a --timestamps nic", "--timestamps nic"),
        ("-i pipe:a --cores 4095", "--cores 4095"),
    ] {
        let ended = Run::start(&format!("capture {options}")).end();
        ended.expect_code(2);
        assert!(ended.stderr.contains(words), "{options}: {}", ended.stderr);
    }
}
