//! `linerate send` and `linerate receive` over a veth pair: sent == received, to the packet.

use super::common;

use common::{Ended, INTERFACE, Run, Wire};
use linerate_sys::netdev::Netdev;
use linerate_sys::netns::NetNs;
use linerate_sys::veth::{self, VethEnd};
use linerate_testkit::program_or_skip;
use serde_json::Value;

fn json(ended: &Ended) -> Value {
    serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}\n{}\n{}", ended.stdout, ended.stderr))
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

fn dropped(list: &Value) -> u64 {
    list.as_array().unwrap().iter().map(|drop| number(&drop["packets"])).sum()
}

/// Two processes; the receiver knows nothing of the sender but its packets.
fn exchange(receiver: &str, sender: &str, more: &str) {
    let Some(wire) = Wire::new(1) else { return };
    let count = 20_000;
    let listening =
        Run::start_in(&wire.right, &format!("receive {receiver} --expect {count} --duration 120s --from-start --json"));
    listening.wait_for("ready", |text| text.contains("receiving on"));
    let sent =
        Run::start_in(&wire.left, &format!("send {sender} --count {count} --rate 50kpps --json -q {more}")).end();
    sent.expect_code(0);
    let received = listening.end();
    let (sent, received) = (json(&sent), json(&received));
    let port = &sent["ports"][0];
    assert_eq!((number(&port["sent"]), number(&port["unsent"])), (count, 0), "{port}");
    let stream = &received["received"]["streams"][0];
    let lost = dropped(&received["received"]["ports"][0]["drops"]);
    assert_eq!(number(&stream["delivered"]) + lost, count, "{received}");
    assert_eq!(number(&stream["duplicated"]) + number(&stream["reordered"]), 0, "{received}");
    assert!(number(&stream["latency"]["min_ns"]) > 0);
}

/// Several threads on both sides: sequence, loss and latency are those of the whole stream, and each flow stays in order.
fn exchange_over_queues(receiver: &str, sender: &str) {
    let Some(wire) = Wire::new(4) else { return };
    let count = 20_001;
    let receive =
        format!("receive {receiver} --expect {count} --duration 120s --from-start --queues 4 --cores none --json");
    let listening = Run::start_in(&wire.right, &receive);
    listening.wait_for("ready", |text| text.contains("receiving on"));
    let send = format!("send {sender} --count {count} --rate 50kpps --flows 500 --json -q");
    let sent = Run::start_in(&wire.left, &send).end();
    sent.expect_code(0);
    let received = listening.end();
    received.expect_code(0);
    let (sent, received) = (json(&sent), json(&received));
    let received = &received["received"];
    let streams = received["streams"].as_array().unwrap();
    for sent in sent["ports"][0]["streams"].as_array().unwrap() {
        let stream = streams.iter().find(|stream| stream["id"] == sent["id"]).unwrap();
        assert_eq!((&stream["delivered"], number(&stream["lost"])), (&sent["sent"], 0), "{stream}");
        assert_eq!(number(&stream["duplicated"]) + number(&stream["reordered"]), 0, "{stream}");
        assert_eq!(stream["latency"]["samples"], sent["sent"], "{stream}");
    }
    let of = |rows: &Value| rows.as_array().unwrap().iter().map(|row| number(&row["packets"])).collect::<Vec<u64>>();
    let (cores, queues) = (of(&received["cores"]), of(&received["ports"][0]["queues"]));
    assert_eq!((cores.len(), queues.len()), (4, 4), "{received}");
    assert_eq!((cores.iter().sum::<u64>(), &queues), (number(&received["packets"]), &cores), "{received}");
    assert!(cores.iter().filter(|packets| **packets > 1_000).count() > 1, "one thread got all: {cores:?}");
}

#[test]
fn four_threads_receive_the_flows_of_one() {
    exchange_over_queues(&format!("packet:{INTERFACE}"), &format!("packet:{INTERFACE}"));
}

#[test]
fn four_threads_receive_what_two_send() {
    let port = format!("packet:{INTERFACE}");
    exchange_over_queues(&port, &format!("{port} --queues 2 --cores none"));
    exchange_over_queues(&format!("xdp:{INTERFACE}"), &format!("xdp:{INTERFACE} --queues 4 --cores none"));
}

#[test]
fn af_packet_to_af_packet() {
    exchange(&format!("packet:{INTERFACE}"), &format!("packet:{INTERFACE}"), "--flows 100");
}

#[test]
fn a_bare_interface_to_af_packet() {
    exchange(&format!("packet:{INTERFACE}"), INTERFACE, "--size 64:7,594:4,1518:1");
}

#[test]
fn tagged_packets_arrive_with_their_tags() {
    exchange(
        &format!("packet:{INTERFACE}"),
        &format!("packet:{INTERFACE}"),
        "--layers ethernet/vlan/ipv6/tcp --set vlan.id=7",
    );
}

/// Packets that the kernel makes itself: paced and not, signed, with rules, counted by a receiver that knows nothing of it.
#[test]
fn live_frames_are_accounted_for() {
    let Some(wire) = Wire::new(1) else { return };
    let listening = Run::start_in(
        &wire.right,
        &format!("receive xdp:{INTERFACE} --expect 30000 --duration 120s --from-start --json"),
    );
    listening.wait_for("ready or refusal", |text| text.contains("receiving on") || text.contains("linerate receive:"));
    let flags = "--rate 50kpps --count 10000 --json --vary ipv4.source=198.18.1.1..198.18.1.50 \
                 --vary ethernet.source=02:00:00:00:01:00..02:00:00:00:01:10,cycle";
    let paced = Run::start_in(&wire.left, &format!("send xdplive:{INTERFACE} {flags}")).end();
    if paced.status.code() == Some(2) || listening.stderr().contains("linerate receive:") {
        eprintln!("skipped: {}{}", paced.stderr, listening.stderr());
        return;
    }
    let full = Run::start_in(&wire.left, &format!("send xdplive:{INTERFACE} --id 1 --count 10000 --json")).end();
    let made_here = "--id 2 --count 10000 --rate 20kpps --no-tx-generator --json";
    let made_here = Run::start_in(&wire.left, &format!("send xdplive:{INTERFACE} {made_here}")).end();
    listening.signal("INT");
    let received = json(&listening.end());
    let arrived = |id: u64| -> u64 {
        let streams = received["received"]["streams"].as_array().unwrap();
        streams.iter().find(|stream| number(&stream["id"]) == id).map_or(0, |stream| number(&stream["delivered"]))
    };
    for (id, ended, offloaded) in [(0, &paced, true), (1, &full, true), (2, &made_here, false)] {
        let port = &json(ended)["ports"][0];
        assert_eq!(port["offloaded"], offloaded, "{}", ended.stderr);
        assert_eq!((number(&port["intended"]), number(&port["sent"])), (10_000, 10_000), "{port}");
        let left = 10_000 - dropped(&port["drops"]);
        let lost = dropped(&received["received"]["ports"][0]["drops"]);
        assert!(arrived(id) <= left && arrived(id) + lost >= left, "stream {id}: {port}\n{received}");
    }
    assert!(arrived(0) > 0, "{received}");
}

#[test]
fn both_ends_in_one_process() {
    let Ok(namespace) = NetNs::anonymous() else {
        eprintln!("skipped: no network namespaces");
        return;
    };
    let end = |name| VethEnd { name, namespace: &namespace };
    if let Err(error) = veth::create(end("a"), end("b"), 1) {
        eprintln!("skipped: no veth pair: {error}");
        return;
    }
    namespace
        .run(|| {
            let [a, b] = ["a", "b"].map(|name| {
                let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1");
                Netdev::open(name).unwrap()
            });
            veth::bring_up(&a, &b).unwrap();
        })
        .unwrap();
    let ended =
        Run::start_in(&namespace, "send packet:a --receive packet:b --rate 20kpps --count 10000 --json -q").end();
    ended.expect_code(0);
    let document = json(&ended);
    let stream = &document["received"]["streams"][0];
    assert_eq!((number(&stream["sent"]), number(&stream["delivered"]), number(&stream["lost"])), (10_000, 10_000, 0));
    // Packets that the interface cannot take are refused with the numbers, before anything is sent.
    let ended = Run::start_in(&namespace, "send packet:a --size 9018").end();
    ended.expect_code(2);
    assert!(ended.stderr.contains("9014 without FCS") && ended.stderr.contains("mtu 9000"), "{}", ended.stderr);
}

#[test]
fn an_interface_that_goes_away_ends_the_run_with_its_totals() {
    let Some(wire) = Wire::new(1) else { return };
    let run = Run::start_in(&wire.left, &format!("send packet:{INTERFACE} --rate 10kpps --json"));
    run.wait_for("progress", |text| text.contains(" s  sent "));
    let device = wire.left.run(|| Netdev::open(INTERFACE).unwrap()).unwrap();
    device.set_up(false).unwrap();
    let ended = run.end();
    ended.expect_code(1);
    let port = &json(&ended)["ports"][0];
    assert!(port["error"].as_str().unwrap().contains("down"), "{port}");
    assert_eq!(number(&port["intended"]), number(&port["sent"]) + number(&port["unsent"]));
    assert!(number(&port["sent"]) > 0);
}

/// The kernel takes a frame of the full size with a tag on top, and a queue that is not there is refused.
#[test]
fn tagged_frames_of_full_size_are_sent() {
    let Some(wire) = Wire::new(1) else { return };
    for port in [format!("packet:{INTERFACE}"), format!("xdp:{INTERFACE}"), INTERFACE.to_string()] {
        let count = "--count 100 --rate 10kpps --json -q";
        let sent = format!("send {port} --size 1522 --layers ethernet/vlan/ipv4/udp {count}");
        let receiver =
            Run::start_in(&wire.right, &format!("receive packet:{INTERFACE} --expect 100 --duration 60s --json"));
        receiver.wait_for("receiving", |text| text.contains("receiving on"));
        Run::start_in(&wire.left, &sent).end().expect_code(0);
        let received = receiver.end();
        received.expect_code(0);
        let untagged = Run::start_in(&wire.left, &format!("send {port} --size 1522 {count}")).end();
        untagged.expect_code(2);
        assert!(untagged.stderr.contains("1518 (1514 without FCS)"), "{}", untagged.stderr);
    }
    let refused = Run::start_in(&wire.left, &format!("send {INTERFACE}@3 --count 1")).end();
    refused.expect_code(2);
    assert!(
        refused.stderr.contains("has one queue") && refused.stderr.contains("leave out @queue"),
        "{}",
        refused.stderr
    );
}

/// Runs a command; `None`, and a line that says why, if the program is missing.
fn run(namespace: &NetNs, line: &str) -> Option<std::process::Output> {
    let mut words = line.split_whitespace();
    let program = words.next().unwrap();
    let output = namespace.run(|| std::process::Command::new(program).args(words).output()).unwrap();
    program_or_skip(program, output)
}

/// The kernel on the right is the gateway: it is asked for its address, and gets answers for those that the streams come from.
#[test]
fn a_gateway_is_asked_for_and_gets_answers() {
    for (gateway, source, options) in [
        (
            "192.0.2.1/24",
            "192.0.2.7",
            "--layers ethernet/ipv4/udp --set ipv4.source=192.0.2.7 --set ipv4.destination=192.0.2.1",
        ),
        (
            "2001:db8::1/64",
            "2001:db8::7",
            "--layers ethernet/ipv6/udp --set ipv6.source=2001:db8::7 --set ipv6.destination=2001:db8::1",
        ),
    ] {
        let Some(wire) = Wire::new(1) else { return };
        wire.right
            .run(|| std::fs::write(format!("/proc/sys/net/ipv6/conf/{INTERFACE}/disable_ipv6"), "0"))
            .unwrap()
            .unwrap();
        let nodad = if gateway.contains(':') { "nodad" } else { "" };
        let added = run(&wire.right, &format!("ip address add {gateway} dev {INTERFACE} {nodad}"));
        let Some(added) = added else { return };
        assert!(added.status.success(), "{added:?}");
        let address = gateway.split('/').next().unwrap();
        let Some(mac) = run(&wire.right, &format!("cat /sys/class/net/{INTERFACE}/address")) else { return };
        let line = format!("send packet:{INTERFACE} --gateway {address} {options} --rate 100pps --duration 60s");
        let sender = Run::start_in(&wire.left, &line);
        sender.wait_for("the gateway's address", |text| text.contains(&format!("{address} is at ")));
        let mac = String::from_utf8(mac.stdout).unwrap();
        // /sys shows the namespace in which it was mounted.
        if !mac.trim().is_empty() {
            assert!(sender.stderr().contains(mac.trim()), "{mac}: {}", sender.stderr());
        }
        let Some(pinged) = run(&wire.right, &format!("ping -c 2 -W 20 {source}")) else { return };
        assert!(pinged.status.success(), "{pinged:?}\n{}", sender.stderr());
        sender.signal("INT");
        sender.end().expect_code(0);
        // Nobody there: it is said, and nothing is sent.
        let refused =
            Run::start_in(&wire.left, &line.replace(&format!("--gateway {address}"), &format!("--gateway {address}9")))
                .end();
        refused.expect_code(2);
        assert!(refused.stderr.contains("it answered no "), "{}", refused.stderr);
    }
}
