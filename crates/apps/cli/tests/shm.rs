//! `shm:` between processes: every packet counted, either side killed and started again, bridges and balancers on it.

use super::common;

use std::time::{Duration, Instant};

use common::{Ended, Run};
use serde_json::Value;

fn json(ended: &Ended) -> Value {
    serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}\n{}\n{}", ended.stdout, ended.stderr))
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    fn port(&self, name: &str) -> String {
        format!("shm:{}", self.0.path().join(name).display())
    }

    fn expect_empty(&self) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while std::fs::read_dir(self.0.path()).unwrap().count() > 0 {
            assert!(Instant::now() < deadline, "a socket is left behind");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn receiver(port: &str, more: &str) -> Run {
    let listening = Run::start(&format!("receive {port} --cores none --json {more}"));
    listening.wait_for("ready", |text| text.contains("receiving on"));
    listening
}

#[test]
fn two_processes_exchange_packets_and_every_one_is_counted() {
    let folder = Folder::new();
    let port = folder.port("a");
    let listening = receiver(&port, "--expect 50000 --from-start --duration 120s");
    let line = format!("send {port} --count 50000 --flows 100 --cores none --json -q --size 64:7,594:4,1518:1");
    let sent = Run::start(&line).end();
    sent.expect_code(0);
    let received = listening.end();
    received.expect_code(0);
    let stream = &json(&received)["received"]["streams"][0];
    assert_eq!((number(&stream["delivered"]), number(&stream["reordered"])), (50_000, 0), "{stream}");
    assert_eq!(number(&json(&sent)["ports"][0]["sent"]), 50_000);
    folder.expect_empty();
}

#[test]
fn pkt_gen_in_two_shells() {
    let folder = Folder::new();
    let port = folder.port("a");
    let listening = Run::start(&format!("pkt-gen -i {port} -f rx -n 50000"));
    listening.wait_until_ready();
    Run::start(&format!("pkt-gen -i {port} -f tx -n 50000 -l 60")).end().expect_code(0);
    let ended = listening.end();
    assert_eq!(ended.expect_code(0).totals("Received"), (50_000, 3_000_000));
    folder.expect_empty();
}

/// The receiver lives on while senders are killed under load, whichever side made the memory.
#[test]
fn a_killed_sender_is_followed_by_another() {
    let folder = Folder::new();
    let port = folder.port("a");
    let listening = receiver(&port, "");
    for round in 0..3 {
        let sending = Run::start(&format!("send {port} --id {round} --cores none --duration 60s --rate 200kpps"));
        sending.wait_for("traffic", |text| text.contains(" s  sent") && !text.contains("sent 0 "));
        sending.signal("KILL");
        sending.end();
    }
    let sent = Run::start(&format!("send {port} --id 7 --count 5000 --rate 200kpps --cores none -q --json")).end();
    sent.expect_code(0);
    listening.signal("INT");
    let ended = listening.end();
    ended.expect_code(0);
    let document = json(&ended);
    let streams = document["received"]["streams"].as_array().unwrap();
    let delivered = |id: u64| {
        let stream = streams.iter().find(|stream| number(&stream["id"]) == id);
        number(&stream.unwrap_or_else(|| panic!("no stream {id} in {document}"))["delivered"])
    };
    assert!((0..3).all(|id| delivered(id) > 0));
    assert_eq!(delivered(7), 5_000);
    folder.expect_empty();
}

#[test]
fn a_killed_receiver_is_followed_by_another() {
    let folder = Folder::new();
    let port = folder.port("a");
    let sending = Run::start(&format!("send {port} --cores none --duration 120s --rate 100kpps --json"));
    for round in 0..3 {
        let listening = Run::start(&format!("receive {port} --cores none"));
        listening.wait_for("traffic", |text| {
            text.lines().any(|line| line.contains("received ") && !line.contains("received 0 "))
        });
        listening.signal("KILL");
        listening.end();
        eprintln!("round {round}");
    }
    let ended = receiver(&port, "--expect 1000").end();
    ended.expect_code(0);
    sending.signal("INT");
    let sent = sending.end();
    let document = json(&sent);
    let port_row = &document["ports"][0];
    assert_eq!(number(&port_row["intended"]), number(&port_row["sent"]) + number(&port_row["unsent"]), "{port_row}");
    folder.expect_empty();
}

#[test]
fn a_bridge_joins_two_links_and_a_balancer_feeds_several() {
    let folder = Folder::new();
    let (a, b) = (folder.port("a"), folder.port("b"));
    let bridge = Run::start(&format!("bridge {a} {b} --json"));
    bridge.wait_for("both ports", |text| text.lines().filter(|line| line.contains(';')).count() >= 2);
    let listening = receiver(&b, "--expect 5000 --from-start --duration 120s");
    Run::start(&format!("send {a} --count 5000 --cores none -q")).end().expect_code(0);
    let received = json(&listening.end());
    assert_eq!(number(&received["received"]["streams"][0]["delivered"]), 5_000);
    bridge.signal("INT");
    let ended = bridge.end();
    let document = json(ended.expect_code(0));
    let lane = &document["lanes"][0];
    assert_eq!((number(&lane["received"]), number(&lane["forwarded"])), (5_000, 5_000), "{lane}");
    assert_eq!((&lane["zero_copy"], lane["unexplained"].as_i64()), (&false.into(), Some(0)), "two memories");

    let (input, group) = (folder.port("in"), folder.0.path().join("out").display().to_string());
    let lb = Run::start(&format!("lb -i {input} -p {group}:2 --json -B 100000"));
    lb.wait_for("all ports", |text| text.lines().filter(|line| line.contains(';')).count() >= 3);
    let listening = [0, 1].map(|output| receiver(&format!("shm:{group}}}{output}"), ""));
    Run::start(&format!("send {input} --count 5000 --flows 64 --cores none -q --rate 200kpps")).end().expect_code(0);
    // What was taken in is on its way until the balancer has ended.
    lb.signal("INT");
    let balanced = lb.end();
    let document = json(balanced.expect_code(0));
    assert_eq!((number(&document["received"]), document["unexplained"].as_i64()), (5_000, Some(0)), "{document}");
    for (output, listening) in listening.into_iter().enumerate() {
        listening.signal("INT");
        let received = json(&listening.end());
        let forwarded = number(&document["outputs"][output]["forwarded"]);
        assert_eq!(number(&received["received"]["packets"]), forwarded);
        assert!(forwarded > 0);
    }
    folder.expect_empty();
}
