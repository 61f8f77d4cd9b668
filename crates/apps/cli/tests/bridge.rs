//! `linerate bridge` from the outside: captures, which need no rights, and a chain of two veth pairs.

use super::common;

use std::collections::HashMap;
use std::path::Path;

use common::{Chain, Ended, Run, dropped_sending};
use linerate_gen::Signature;
use linerate_pcapng::CaptureReader;
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

/// Every packet that came is forwarded, dropped with a cause, or said to be under way.
fn check_account(document: &Value) {
    assert_eq!(document["schema"], "linerate.bridge/1");
    for lane in document["lanes"].as_array().unwrap() {
        let gone = number(&lane["forwarded"]) + sum(&lane["drops"]) + number(&lane["tx_pending"]);
        assert_eq!((number(&lane["received"]), lane["unexplained"].as_i64()), (gone, Some(0)), "{lane}");
    }
}

/// A capture of `packets` packets of 60 to 1,514 bytes.
fn capture(path: &str, packets: u32) {
    Run::start(&format!("send file:{path} --count {packets} --size 64:7,594:4,1518:1 --rate 1Mpps -q"))
        .end()
        .expect_code(0);
}

#[test]
fn a_capture_is_carried_over_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    capture(&path("in.pcapng"), 5000);
    let ways = [
        ("", true),
        ("--copy", false),
        ("-c -b 16", false),
        ("--one-way -b 4096 --core 0", true),
        ("--cores none", true),
        ("--cores none --copy -b 16", false),
        ("--queues 3 --cores none", true),
    ];
    for (flags, zero_copy) in ways {
        let line = format!("bridge file:{} file:{} {flags} --json", path("in.pcapng"), path("out.pcapng"));
        let ended = Run::start(&line).end();
        ended.expect_code(0);
        let document = json(&ended);
        check_account(&document);
        assert_eq!((&document["ended_by"], document["lanes"].as_array().unwrap().len()), (&"ports".into(), 1));
        let lane = &document["lanes"][0];
        assert_eq!((number(&lane["received"]), number(&lane["forwarded"])), (5000, 5000), "{flags}");
        assert_eq!(lane["zero_copy"], zero_copy, "{flags}");
        let bytes = |name: &str| std::fs::read(path(name)).unwrap();
        if flags == "--queues 3 --cores none" {
            assert!(ended.stderr.contains("in.pcapng has one queue"), "{}", ended.stderr);
            assert_eq!(document["cores"].as_array().unwrap().len(), 1, "{document}");
        }
        if flags.contains("--cores") && !flags.contains("--queues") {
            // Timestamps do not cross the ring between two workers.
            assert_eq!(bytes("in.pcapng").len(), bytes("out.pcapng").len(), "{flags}");
        } else {
            assert!(bytes("in.pcapng") == bytes("out.pcapng"), "{flags}: times and bytes are kept");
        }
    }
}

#[test]
fn the_words_of_netmaps_bridge_do_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("in.pcap").display().to_string();
    capture(&path, 300);
    let ended = Run::start(&format!("bridge -i file:{path} -i null: -b 64 -c -w 0s -v")).end();
    ended.expect_code(0);
    for words in ["bridged for", "(copied)", "received", "300", "packets a batch"] {
        assert!(ended.stdout.contains(words), "{words}\n{}", ended.stdout);
    }
    assert!(ended.stderr.contains("discards everything"), "{}", ended.stderr);
}

#[test]
fn what_cannot_be_is_refused_in_words() {
    for (line, words) in [
        ("bridge null:", "two ports"),
        ("bridge -i eth9", "tap:NAME"),
        ("bridge null: null: -i null:", "two ports"),
        ("bridge null: null:", "nothing can go"),
        ("bridge file:/nonexistent.pcap null:", "/nonexistent.pcap"),
        ("bridge null: piep:a", "no backend piep"),
        ("bridge null: null: -b 0", "0"),
        ("bridge null: null: --core 4000", "core 4000"),
        ("bridge null: null: --duration soon", "--duration"),
        ("bridge null: null: --queues 2 --cores 0,0,0", "3 workers for 2 queue pairs"),
        ("bridge null: null: --queues 0", "--queues"),
        ("bridge null: null: --queues 2 --monitor null:", "--monitor"),
    ] {
        let ended = Run::start(line).end();
        ended.expect_code(2);
        assert!(ended.stderr.contains(words), "{line}\n{}", ended.stderr);
    }
}

fn packets(rows: &Value) -> Vec<u64> {
    rows.as_array().unwrap_or_else(|| panic!("no rows: {rows}")).iter().map(|row| number(&row["packets"])).collect()
}

/// The rows of queues and workers say what the direction does, and each of `workers` workers had packets.
fn check_queues(document: &Value, queues: [usize; 2], workers: usize) {
    for lane in document["lanes"].as_array().unwrap() {
        let (rx, tx) = (packets(&lane["rx_queues"]), packets(&lane["tx_queues"]));
        assert_eq!(
            (rx.iter().sum::<u64>(), tx.iter().sum::<u64>()),
            (number(&lane["received"]), number(&lane["forwarded"])),
            "{lane}"
        );
    }
    let forward = &document["lanes"][0];
    assert_eq!([&forward["rx_queues"], &forward["tx_queues"]].map(|rows| packets(rows).len()), queues, "{forward}");
    let cores = packets(&document["cores"]);
    assert!(cores.len() == workers && cores.iter().all(|packets| *packets > 0), "{document}");
}

#[test]
fn each_queue_pair_of_memif_has_its_worker_and_flows_stay_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let socket = |name: &str| folder.path().join(name).display().to_string();
    for (round, cores) in ["none", "0,0", "0"].into_iter().enumerate() {
        let (near, far) = (socket(&format!("near-{round}")), socket(&format!("far-{round}")));
        let line = format!("bridge memif:{near} memif:{far} --queues 2 --cores {cores} --json");
        let bridge = Run::start(&line);
        bridge.wait_for("all queues", |text| text.lines().filter(|line| line.contains(';')).count() >= 4);
        let line =
            format!("receive memif:{far},role=client --queues 2 --cores none --duration 120s --from-start --json");
        let listening = Run::start(&line);
        listening.wait_for("ready", |text| text.lines().filter(|line| line.contains("receiving on")).count() == 2);
        let line =
            format!("send memif:{near},role=client --queues 2 --cores none --flows 40 --rate 50kpps --count 20000 -q");
        Run::start(&line).end().expect_code(0);
        std::thread::sleep(std::time::Duration::from_millis(500));
        listening.signal("INT");
        let received = json(&listening.end());
        for stream in received["received"]["streams"].as_array().unwrap() {
            assert_eq!(number(&stream["duplicated"]) + number(&stream["reordered"]), 0, "{received}");
        }
        bridge.signal("INT");
        let document = json(bridge.end().expect_code(0));
        check_account(&document);
        check_queues(&document, [2, 2], if cores == "0" { 1 } else { 2 });
        let carried = number(&document["lanes"][0]["forwarded"]);
        assert_eq!(number(&received["received"]["packets"]), carried, "{document}");
    }
}

#[test]
fn one_queue_that_gets_nearly_all_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let socket = |name: &str| folder.path().join(name).display().to_string();
    let bridge = Run::start(&format!("bridge memif:{} null: --queues 2", socket("near")));
    bridge.wait_for("both queues", |text| text.lines().filter(|line| line.contains("memif server")).count() == 2);
    let line = format!("send memif:{},role=client,rings=2 --count 3000 --rate 100kpps -q", socket("near"));
    Run::start(&line).end().expect_code(0);
    std::thread::sleep(std::time::Duration::from_millis(300));
    bridge.signal("INT");
    let ended = bridge.end();
    ended.expect_code(0);
    let named = format!("memif:{}: queue 0 got 100.0 % of the packets of 2 queues: ", socket("near"));
    assert!(ended.stderr.contains(&named), "{}", ended.stderr);
    for part in ["rx queue 0           3,000    100 %", "rx queue 1               0"] {
        assert!(ended.stdout.contains(part), "{part}: {}", ended.stdout);
    }
}

/// Who waits for an answer through a bridge waits for its packets, so none is kept until a block of the ring is full; unless the user wrote so.
#[test]
fn packets_cross_a_bridge_at_once() {
    let Some(chain) = Chain::new() else { return };
    for (option, how) in
        [("", "each packet at once"), (",prompt=no", "retired after"), (",retire=4", "retired after 4 ms")]
    {
        let line = format!("bridge packet:near{option} packet:far{option} --duration 100ms -q --json");
        let document = json(Run::start_in(&chain.middle, &line).end().expect_code(0));
        for port in document["ports"].as_array().unwrap() {
            assert!(port["detail"].as_str().unwrap().contains(how), "{option}: {port}");
        }
    }
}

/// Flows of `left` reach `right` through queue pairs of the bridge, in order.
fn over_queues(sender: &str, ports: [&str; 2], flags: &str, queues: [usize; 2], workers: usize) {
    let Some(chain) = Chain::with_queues(4) else { return };
    let count = 20_000;
    let bridge = Run::start_in(&chain.middle, &format!("bridge {} {} --json {flags}", ports[0], ports[1]));
    bridge.wait_for("all queues or a refusal", |text| {
        text.lines().filter(|line| line.contains(';')).count() >= queues[0] + queues[1]
            || text.contains("linerate bridge:")
    });
    assert!(!bridge.stderr().contains("linerate bridge:"), "{}", bridge.stderr());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("arrived.pcapng");
    let line = format!("capture -i packet:veth0 --rings 1 -w {} --json", path.display());
    let capture = Run::start_in(&chain.right, &line);
    capture.wait_for("ready", |text| text.contains("capturing on"));
    let line = format!("send {sender} --count {count} --rate 20kpps --flows 200 -q");
    Run::start_in(&chain.left, &line).end().expect_code(0);
    std::thread::sleep(std::time::Duration::from_millis(500));
    bridge.signal("INT");
    let document = json(bridge.end().expect_code(0));
    check_account(&document);
    check_queues(&document, queues, workers);
    capture.signal("INT");
    capture.end().expect_code(0);
    let mut flows: HashMap<String, Vec<u64>> = HashMap::new();
    for packet in packets_of(&path) {
        let signature = Signature::read(&packet).expect("signed");
        flows.entry(FlowKey::from_frame(&packet).expect("a flow").to_string()).or_default().push(signature.sequence);
    }
    assert_eq!(flows.len(), 200);
    assert!(flows.values().all(|numbers| numbers.is_sorted()), "a flow is out of order");
    let lane = &document["lanes"][0];
    let lost = sum(&lane["drops"]) + number(&lane["tx_pending"]) + sum(&lane["rx_missed"]);
    // Those that a busy machine's link lost on the way are the sender's.
    let count = count - dropped_sending(&chain.left);
    assert_eq!(number(&lane["received"]) + sum(&lane["rx_missed"]), count, "{document}");
    assert_eq!(flows.values().map(|numbers| numbers.len() as u64).sum::<u64>() + lost, count, "{document}");
}

/// The packets of a capture file.
fn packets_of(path: &Path) -> Vec<Vec<u8>> {
    let mut reader = CaptureReader::new(std::fs::File::open(path).unwrap()).unwrap();
    let mut packets = Vec::new();
    while reader.next().unwrap().is_some() {
        packets.push(reader.packet().to_vec());
    }
    packets
}

#[test]
fn af_packet_rings_by_flow_each_on_a_worker() {
    over_queues("packet:veth0", ["packet:near", "packet:far"], "--queues 4 --cores none", [4, 4], 4);
}

#[test]
fn af_xdp_queues_on_two_workers() {
    let sender = "xdp:veth0 --queues 4 --cores none";
    over_queues(sender, ["xdp:near", "xdp:far"], "--queues 4 --cores 0,0", [4, 4], 2);
    // Packets of a queue that the far port does not have cross to the worker that has the queue of the remainder.
    over_queues(sender, ["xdp:near,queues=4", "xdp:far,queues=1"], "--queues 4 --cores none", [4, 1], 4);
}

#[test]
fn the_sender_of_a_veth_is_named_where_one_queue_gets_all() {
    let Some(chain) = Chain::with_queues(2) else { return };
    let bridge = Run::start_in(&chain.middle, "bridge xdp:near packet:far --queues 2");
    bridge.wait_for("all queues", |text| text.lines().filter(|line| line.contains(';')).count() >= 4);
    Run::start_in(&chain.left, "send packet:veth0 --count 2000 --rate 20kpps --flows 50 -q").end().expect_code(0);
    std::thread::sleep(std::time::Duration::from_millis(300));
    bridge.signal("INT");
    let ended = bridge.end();
    ended.expect_code(0);
    // Which one the kernel sends by is its choice.
    let named = "got 100.0 % of the packets of 2 queues: a veth has no RSS";
    assert!(ended.stderr.contains("xdp:near: queue ") && ended.stderr.contains(named), "{}", ended.stderr);
}

/// left -- [near  bridge  far] -- right, both ways, and the counts of all four agree.
fn both_ways(ports: [&str; 2], flags: &str) {
    let Some(chain) = Chain::new() else { return };
    let count = 5_000;
    let bridge = Run::start_in(&chain.middle, &format!("bridge {} {} --json {flags}", ports[0], ports[1]));
    bridge.wait_for("both ports or a refusal", |text| {
        text.lines().filter(|line| line.contains(';')).count() >= 2 || text.contains("linerate bridge:")
    });
    if bridge.stderr().contains("linerate bridge:") {
        eprintln!("skipped: {}", bridge.stderr());
        return;
    }
    let mut delivered = Vec::new();
    for (from, to, id) in [(&chain.left, &chain.right, 1), (&chain.right, &chain.left, 2)] {
        let listening =
            Run::start_in(to, &format!("receive packet:veth0 --expect {count} --duration 120s --from-start --json"));
        listening.wait_for("ready", |text| text.contains("receiving on"));
        let line =
            format!("send packet:veth0 --count {count} --rate 20kpps --id {id} --size 64:7,594:4,1518:1 -q --json");
        Run::start_in(from, &line).end().expect_code(0);
        let received = json(&listening.end());
        let stream = &received["received"]["streams"][0];
        assert_eq!(number(&stream["duplicated"]) + number(&stream["reordered"]), 0, "{received}");
        let missed = sum(&received["received"]["ports"][0]["drops"]);
        delivered.push((number(&stream["delivered"]), missed));
    }
    bridge.signal("INT");
    let ended = bridge.end();
    ended.expect_code(0);
    let document = json(&ended);
    check_account(&document);
    assert_eq!(document["ended_by"], "signal");
    for (lane, (delivered, missed)) in document["lanes"].as_array().unwrap().iter().zip(delivered) {
        let lost = sum(&lane["drops"]) + number(&lane["tx_pending"]) + sum(&lane["rx_missed"]) + missed;
        assert_eq!(delivered + lost, count, "{lane}");
    }
}

#[test]
fn af_packet_both_ways() {
    both_ways(["packet:near", "packet:far"], "");
}

#[test]
fn af_packet_both_ways_by_copying() {
    both_ways(["packet:near", "packet:far"], "--copy -b 32");
}

#[test]
fn bare_interfaces_both_ways() {
    both_ways(["near", "far"], "");
}

#[test]
fn af_xdp_to_af_packet() {
    both_ways(["xdp:near", "packet:far"], "--core 0");
}

#[test]
fn af_packet_both_ways_with_a_worker_for_each_port() {
    both_ways(["packet:near", "packet:far"], "--cores none");
}

#[test]
fn af_xdp_to_af_packet_with_a_worker_for_each_port() {
    both_ways(["xdp:near", "packet:far"], "--cores none --copy");
}

#[test]
fn what_passes_is_watched() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    capture(&path("in.pcapng"), 3000);
    let line = |monitor: &str| format!("bridge file:{} null: --json -q --monitor {monitor}", path("in.pcapng"));
    let ended = Run::start(&line(&path("seen.pcapng"))).end();
    let document = json(ended.expect_code(0));
    check_account(&document);
    let monitor = &document["monitor"];
    assert_eq!(
        (number(&monitor["seen"]), number(&monitor["copied"]) + sum(&monitor["drops"])),
        (3000, 3000),
        "{monitor}"
    );
    assert_eq!(sum(&monitor["drops"]), 0, "a file takes everything");
    assert!(std::fs::read(path("in.pcapng")).unwrap() == std::fs::read(path("seen.pcapng")).unwrap());
    // Nothing leaves by a file that is read; an interface that cannot be opened is said so.
    let document = json(Run::start(&line("null:,tx")).end().expect_code(0));
    assert_eq!(number(&document["monitor"]["seen"]), 0);
    Run::start(&line("piep:a")).end().expect_code(2);
}

#[test]
fn a_file_has_the_times_at_which_it_got_packets_of_a_live_port() {
    let Some(chain) = Chain::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    for line in [
        format!("bridge packet:near file:{}", path("taken.pcapng")),
        format!("bridge packet:near packet:far --monitor {}", path("seen.pcapng")),
        format!("lb --input packet:near --output file:{}", path("balanced.pcapng")),
    ] {
        let began = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64;
        let running = Run::start_in(&chain.middle, &line);
        running.wait_for("a line of progress", |text| text.contains("pps)"));
        Run::start_in(&chain.left, "send packet:veth0 --count 20 --rate 1kpps -q").end().expect_code(0);
        running.signal("INT");
        running.end().expect_code(0);
        let file = line.rsplit([' ', ':']).next().unwrap();
        let mut reader = CaptureReader::new(std::fs::File::open(file).unwrap()).unwrap();
        let mut packets = 0;
        while let Some(head) = reader.next().unwrap() {
            assert!((0..600_000_000_000).contains(&head.time_ns.wrapping_sub(began)), "{line}: {}", head.time_ns);
            packets += 1;
        }
        assert!(packets >= 20, "{line}: {packets}");
    }
}

#[test]
fn what_the_far_port_cannot_take_is_counted() {
    let Some(chain) = Chain::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("long.pcapng").display().to_string();
    Run::start(&format!("send file:{path} --count 100 --size 64:1,3000:1 --rate 1Mpps -q")).end().expect_code(0);
    let ended = Run::start_in(&chain.middle, &format!("bridge file:{path} packet:far --json -q")).end();
    ended.expect_code(0);
    let document = json(&ended);
    check_account(&document);
    let lane = &document["lanes"][0];
    assert_eq!((number(&lane["received"]), number(&lane["forwarded"])), (100, 50), "{lane}");
    assert!(lane["drops"][0]["cause"].as_str().unwrap().starts_with("longer than the"), "{lane}");
}

#[test]
fn an_interface_that_goes_away_ends_it_with_the_account() {
    let Some(chain) = Chain::new() else { return };
    let bridge = Run::start_in(&chain.middle, "bridge packet:near packet:far --json");
    bridge.wait_for("both ports", |text| text.lines().filter(|line| line.contains(';')).count() >= 2);
    Run::start_in(&chain.left, "send packet:veth0 --count 1000 --rate 20kpps -q").end().expect_code(0);
    chain.delete_far();
    let ended = bridge.end();
    ended.expect_code(1);
    let document = json(&ended);
    check_account(&document);
    assert_eq!(document["ended_by"], "error");
    assert!(document["error"].as_str().unwrap().contains("packet:far"), "{document}");
}
