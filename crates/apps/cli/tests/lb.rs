//! `linerate lb` from the outside: captures, which need no rights, and interfaces.

use super::common;

use std::collections::{HashMap, HashSet};

use common::{Chain, Ended, Run};
use linerate_units::show::count;
use linerate_wire::FlowKey;
use serde_json::Value;

fn json(ended: &Ended) -> Value {
    serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}\n{}\n{}", ended.stdout, ended.stderr))
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

fn sum(drops: &Value) -> u64 {
    drops.as_array().unwrap().iter().map(|drop| number(&drop["packets"])).sum()
}

/// Every group has every packet, and every packet of an output is forwarded, dropped with a cause, or under way.
fn check_account(document: &Value) {
    assert_eq!((&document["schema"], document["unexplained"].as_i64()), (&"linerate.lb/1".into(), Some(0)));
    let mut groups: HashMap<u64, u64> = HashMap::new();
    for output in document["outputs"].as_array().unwrap() {
        *groups.entry(number(&output["group"])).or_default() += number(&output["assigned"]);
        let gone = number(&output["forwarded"]) + sum(&output["drops"]) + number(&output["tx_pending"]);
        assert_eq!((number(&output["assigned"]), output["unexplained"].as_i64()), (gone, Some(0)), "{output}");
    }
    assert!(groups.values().all(|assigned| *assigned == number(&document["received"])), "{document}");
}

/// The packets of a pcap file with nanoseconds, in the byte order of this machine.
fn packets(path: &str) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(path).unwrap();
    let mut rest = &bytes[24..];
    let mut packets = Vec::new();
    while !rest.is_empty() {
        let len = u32::from_ne_bytes(rest[8..12].try_into().unwrap()) as usize;
        packets.push(rest[16..16 + len].to_vec());
        rest = &rest[16 + len..];
    }
    packets
}

fn flow(packet: &[u8]) -> [String; 2] {
    let key = FlowKey::from_frame(packet).unwrap();
    let mut both = [key.to_string(), key.reversed().to_string()];
    both.sort();
    both
}

#[test]
fn a_capture_is_split_by_flow_and_nothing_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let there = "--vary ipv4.source=198.18.1.1..198.18.1.50 --set ipv4.destination=198.19.0.9";
    let back = "--vary ipv4.destination=198.18.1.1..198.18.1.50 --set ipv4.source=198.19.0.9";
    for (name, how) in [("a.pcap", there), ("b.pcap", back)] {
        let ports = "--set udp.source=4000 --set udp.destination=4000";
        Run::start(&format!("send file:{} --count 1000 --rate 1Mpps -q {how} {ports}", path(name)))
            .end()
            .expect_code(0);
    }
    let mut of_flow: HashMap<[String; 2], usize> = HashMap::new();
    for name in ["a.pcap", "b.pcap"] {
        let pattern = path("out-{}.pcap");
        let ended = Run::start(&format!("lb -i file:{} -p file:{pattern}:4 --json -b 64", path(name))).end();
        ended.expect_code(0);
        let document = json(&ended);
        check_account(&document);
        assert_eq!((number(&document["received"]), &document["ended_by"]), (1000, &"ports".into()));
        let mut total = 0;
        for output in 0..4 {
            let packets = packets(&path(&format!("out-{output}.pcap")));
            total += packets.len();
            for packet in packets {
                assert_eq!(
                    *of_flow.entry(flow(&packet)).or_insert(output),
                    output,
                    "in both directions the same output"
                );
            }
        }
        assert_eq!(total, 1000);
    }
    assert_eq!(of_flow.len(), 50);
    assert_eq!(of_flow.values().collect::<HashSet<_>>().len(), 4);
}

#[test]
fn several_workers_lose_nothing_and_keep_flows_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let flags = "--flows 60 --size 64:7,594:4,1518:1,4000:1 --rate 1Mpps -q";
    Run::start(&format!("send file:{} --count 9000 {flags}", path("in.pcap"))).end().expect_code(0);
    let sent = packets(&path("in.pcap"));
    let pipes = format!("-p file:{}:3 -p file:{}:2", path("three-{}.pcap"), path("two-{}.pcap"));
    let line = format!("lb -i file:{} {pipes} --cores 0,0,0 -B 100000 --json", path("in.pcap"));
    let document = json(Run::start(&line).end().expect_code(0));
    check_account(&document);
    assert_eq!((number(&document["received"]), &document["ended_by"]), (9000, &"ports".into()));
    let received: Vec<u64> =
        document["cores"].as_array().unwrap().iter().map(|core| number(&core["packets"])).collect();
    assert_eq!((received, document["queues"].as_array().unwrap().len()), (vec![9000, 0, 0], 1));
    for (name, count) in [("three", 3), ("two", 2)] {
        let arrived: Vec<Vec<u8>> =
            (0..count).flat_map(|number| packets(&path(&format!("{name}-{number}.pcap")))).collect();
        let mut flows: HashMap<[String; 2], [Vec<&[u8]>; 2]> = HashMap::new();
        for (side, packets) in [&sent, &arrived].into_iter().enumerate() {
            packets.iter().for_each(|packet| flows.entry(flow(packet)).or_default()[side].push(packet));
        }
        assert!(flows.len() == 60 && flows.values().all(|[sent, arrived]| sent == arrived), "{name}");
    }
}

#[test]
fn every_group_gets_every_packet() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    Run::start(&format!(
        "send file:{} --count 700 --flows 40 --size 64:7,594:4,1518:1,4000:1 --rate 1Mpps -q",
        path("in.pcap")
    ))
    .end()
    .expect_code(0);
    let line = format!(
        "lb -i file:{} -o file:{} -p file:{}:2 -p file:{}:3 --json -B 100000 -w 0s",
        path("in.pcap"),
        path("all.pcap"),
        path("two-{}.pcap"),
        path("three-{}.pcap")
    );
    let document = json(Run::start(&line).end().expect_code(0));
    check_account(&document);
    let mut sent = packets(&path("in.pcap"));
    sent.sort();
    for (name, count) in [("all", 0), ("two", 2), ("three", 3)] {
        let names =
            (0..count.max(1)).map(|n| if count == 0 { path("all.pcap") } else { path(&format!("{name}-{n}.pcap")) });
        let mut arrived: Vec<_> = names.flat_map(|name| packets(&name)).collect();
        arrived.sort();
        assert!(arrived == sent, "{name}");
    }
}

#[test]
fn what_cannot_wait_is_counted_by_output() {
    let Some(chain) = Chain::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("in.pcap").display().to_string();
    let flags = "--flows 500 --size 64:9,3000:1 --rate 1Mpps -q";
    Run::start(&format!("send file:{path} --count 50000 {flags}")).end().expect_code(0);
    for extra in [0, 10, 100_000] {
        let line = format!("lb -i file:{path} -o packet:near -o packet:far -o null: -B {extra} --json -q");
        let ended = Run::start_in(&chain.middle, &line).end();
        ended.expect_code(0);
        let document = json(&ended);
        check_account(&document);
        assert_eq!(number(&document["received"]), 50_000);
        let outputs = document["outputs"].as_array().unwrap();
        assert_eq!(sum(&outputs[2]["drops"]), 0, "null: takes everything");
        let too_long = |output: &Value| {
            let drops = output["drops"].as_array().unwrap().iter();
            drops.filter(|drop| drop["cause"].as_str().unwrap().starts_with("longer than")).count()
        };
        assert_eq!(outputs[..2].iter().map(too_long).sum::<usize>(), 2, "{document}");
    }
}

#[test]
fn interfaces_are_balanced_until_they_are_stopped() {
    let Some(chain) = Chain::new() else { return };
    let lb = Run::start_in(&chain.middle, "lb -i packet:near -o packet:far -o null: --json");
    lb.wait_for("all ports", |text| text.lines().filter(|line| line.contains(';')).count() >= 3);
    let listening = Run::start_in(&chain.right, "receive packet:veth0 --json");
    listening.wait_for("ready", |text| text.contains("receiving on"));
    Run::start_in(&chain.left, "send packet:veth0 --count 4000 --flows 100 --rate 20kpps -q").end().expect_code(0);
    // A packet that was sent may still wait in the backlog of a busy core, where no port counts it. The rings hold all of them.
    lb.wait_for("packets", |text| text.contains("packet:near -> 4,000 ("));
    lb.signal("INT");
    let ended = lb.end();
    ended.expect_code(0);
    let document = json(&ended);
    check_account(&document);
    assert!(document["detail"].as_str().unwrap().contains("each packet at once"), "{document}");
    assert_eq!((number(&document["received"]), sum(&document["rx_missed"])), (4000, 0));
    let forwarded = number(&document["outputs"][0]["forwarded"]);
    listening.wait_for("packets", |text| text.contains(&format!("received {} (", count(forwarded))));
    listening.signal("INT");
    let received = json(&listening.end());
    let missed = sum(&received["received"]["ports"][0]["drops"]);
    assert_eq!((number(&received["received"]["packets"]), missed), (forwarded, 0));
}

#[test]
fn what_cannot_be_is_refused_in_words() {
    for (line, words) in [
        ("lb -i null: -o null:", "cannot receive"),
        ("lb -i pipe:a", "no output"),
        ("lb -i pipe:a -p x:0", "COUNT"),
        ("lb -i pipe:a -o piep:b", "no backend piep"),
        ("lb -o null:", "--input"),
    ] {
        let ended = Run::start(line).end();
        ended.expect_code(2);
        assert!(ended.stderr.contains(words), "{line}\n{}", ended.stderr);
    }
    let ended = Run::start("lb -i pipe:a -o null: -d 50ms").end();
    assert!(ended.expect_code(0).stdout.contains("balanced for"));
}
