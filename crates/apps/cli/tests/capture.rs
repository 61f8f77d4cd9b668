//! `linerate capture` over a veth pair: what was sent is in the file, or counted as lost, to the packet.

mod common;

use common::{Ended, INTERFACE, Run, Wire};
use linerate_pcapng::CaptureReader;
use serde_json::Value;
use tempfile::TempDir;

const COUNT: u64 = 20_000;

/// Captures what `linerate send` sends, and ends by a signal.
fn capture(wire: &Wire, options: &str, sent: &str) -> Ended {
    let running = Run::start_in(&wire.right, &format!("capture -i {INTERFACE} {options}"));
    running.wait_for("ready", |text| text.contains("capturing on"));
    let sender = Run::start_in(&wire.left, &format!("send packet:{INTERFACE} --json -q {sent}")).end();
    sender.expect_code(0);
    running.signal("INT");
    running.end()
}

/// The last line of each port, without that of all.
fn ends(ended: &Ended) -> Vec<Value> {
    let lines = ended.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["end"] == true && line["scope"] == "port").collect()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

#[test]
fn what_was_sent_is_in_the_file_or_counted_as_lost() {
    let Some(wire) = Wire::new(1) else { return };
    let directory = TempDir::new().unwrap();
    for name in ["a.pcapng", "a.pcap", "a.pcapng.zst"] {
        let path = directory.path().join(name);
        let sent = format!("--count {COUNT} --rate 100kpps --size 64:1,1518:1");
        let ended = capture(&wire, &format!("-w {} --json", path.display()), &sent);
        ended.expect_code(0);
        let account = &ends(&ended)[0]["account"];
        assert_eq!(number(&account["offered"]), COUNT, "{account}");
        assert_eq!(number(&account["taken"]) + number(&account["dropped_by_ring"]), COUNT, "{account}");
        let written = number(&account["written"]);
        assert_eq!(written + number(&account["dropped_for_buffers"]), number(&account["taken"]), "{account}");
        let mut read = Run::start(&format!("read --flows --json {}", path.display())).end();
        read.expect_code(0);
        let flows: Value = serde_json::from_str(&std::mem::take(&mut read.stdout)).unwrap();
        assert_eq!(number(&flows["total"]["packets"]), written, "{name}");
        let stream = &flows["streams"][0];
        assert_eq!(number(&stream["delivered"]), written, "{stream}");
    }
    let mut reader = CaptureReader::new(std::fs::File::open(directory.path().join("a.pcapng")).unwrap()).unwrap();
    while reader.next().unwrap().is_some() {}
    let interface = &reader.interfaces()[0];
    let statistics = interface.statistics.as_ref().unwrap();
    assert_eq!((interface.name.as_str(), statistics.accepted), (INTERFACE, Some(COUNT)));
    assert!(statistics.comment.contains("= counted only 0 + dropped by writer"), "{}", statistics.comment);
    assert!(interface.comment.contains("CLOCK_REALTIME"));
}

#[test]
fn packets_are_counted_filtered_and_cut() {
    let Some(wire) = Wire::new(1) else { return };
    let ended = capture(&wire, "--interval 50ms", "--count 5000 --rate 50kpps");
    ended.expect_code(0);
    for words in ["5,000 packets", "counted only 5000", "lost 0", "ring "] {
        assert!(ended.stdout.contains(words), "{words}: {}", ended.stdout);
    }
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("a.pcapng");
    let options = format!("-w {} --snaplen 60 --filter tcp --json", path.display());
    let ended = capture(&wire, &options, "--count 5000 --rate 50kpps --layers ethernet/ipv4/udp");
    ended.expect_code(0);
    assert_eq!(number(&ends(&ended)[0]["account"]["offered"]), 0, "the kernel drops them before the ring");
    let options = options.replace("tcp", "udp");
    let ended = capture(&wire, &options, "--count 5000 --rate 50kpps --layers ethernet/ipv4/udp --size 1518");
    ended.expect_code(0);
    let mut reader = CaptureReader::new(std::fs::File::open(&path).unwrap()).unwrap();
    let head = reader.next().unwrap().unwrap();
    assert_eq!((head.len, head.original_len), (60, 1514));
    assert_eq!(reader.interfaces()[0].filter, "udp");
}

#[test]
fn two_interfaces_are_captured_at_once_into_rotating_files() {
    let Some(wire) = Wire::new(1) else { return };
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("a.pcapng");
    // The interface twice: two rings, each with all of its packets.
    let options = format!("-i {INTERFACE} -w {} --file-packets 3000 --json", path.display());
    let ended = capture(&wire, &options, "--count 5000 --rate 50kpps");
    ended.expect_code(0);
    let written: u64 = ends(&ended).iter().map(|end| number(&end["account"]["written"])).sum();
    assert_eq!(ends(&ended).len(), 2);
    let mut files: Vec<_> = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert_eq!(files.len() as u64, written.div_ceil(3000));
    let mut packets = [0; 2];
    for file in &files {
        let mut reader = CaptureReader::new(std::fs::File::open(file).unwrap()).unwrap();
        while let Some(head) = reader.next().unwrap() {
            packets[head.interface as usize] += 1;
        }
        assert_eq!(reader.interfaces().len(), 2);
    }
    assert_eq!(packets[0] + packets[1], written);
    let ended: Vec<u64> = ends(&ended).iter().map(|end| number(&end["account"]["written"])).collect();
    assert_eq!(packets.to_vec(), ended);
}

#[test]
fn what_cannot_be_captured_is_said() {
    let Some(wire) = Wire::new(1) else { return };
    for (options, words) in [
        ("-i nosuch".to_string(), "nosuch"),
        (format!("-i {INTERFACE} -w /no/such/folder/a.pcapng"), "/no/such/folder"),
        (format!("-i {INTERFACE} -f nonsense"), "filter"),
        (format!("-i {INTERFACE} -w a.pcapng --files 3"), "limit"),
        (format!("-i {INTERFACE} -w - --json"), "standard output"),
    ] {
        let ended = Run::start_in(&wire.right, &format!("capture {options}")).end();
        ended.expect_code(2);
        assert!(ended.stderr.contains(words), "{options}: {}", ended.stderr);
    }
}
