//! `linerate capture` over a veth pair: what was sent is in the file, or counted as lost, to the packet.

use super::common;

use std::io::{BufRead, BufReader};

use common::{Ended, INTERFACE, Run, Wire};
use linerate_pcapng::CaptureReader;
use linerate_sys::netdev::Netdev;
use linerate_sys::veth::{self, VethEnd};
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
fn who_names_no_port_is_told_how() {
    for (arguments, said) in
        [("capture lo", "linerate capture -i lo"), ("capture tcp port 80", "-i any"), ("capture", "-r FILE")]
    {
        let ended = Run::start(arguments).end();
        ended.expect_code(2);
        assert!(ended.stderr.contains(said), "{}", ended.stderr);
    }
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
    for words in ["5,000 packets", "lost 0", "ring "] {
        assert!(ended.stdout.contains(words), "{words}: {}", ended.stdout);
    }
    // The account is a table, with its numbers below each other.
    let rows: Vec<&str> = ended.stdout.lines().filter(|line| line.ends_with(" 5,000")).collect();
    for what in ["passed the interface", "offered to the ring", "taken out of the ring", "  counted, not stored"] {
        assert!(rows.iter().any(|row| row.contains(what)), "{what}: {}", ended.stdout);
    }
    assert!(rows.iter().all(|row| row.len() == rows[0].len()), "{}", ended.stdout);
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("a.pcapng");
    let options = format!("-w {} --snaplen 60 --filter tcp --json", path.display());
    let ended = capture(&wire, &options, "--count 5000 --rate 50kpps --layers ethernet/ipv4/udp");
    ended.expect_code(0);
    assert_eq!(number(&ends(&ended)[0]["account"]["offered"]), 0, "the kernel drops them before the ring");
    let options = options.replace("--filter tcp", "") + " udp and port 7";
    let ended = capture(&wire, &options, "--count 5000 --rate 50kpps --layers ethernet/ipv4/udp --size 1518");
    ended.expect_code(0);
    let mut reader = CaptureReader::new(std::fs::File::open(&path).unwrap()).unwrap();
    let head = reader.next().unwrap().unwrap();
    assert_eq!((head.len, head.original_len), (60, 1514));
    assert_eq!(reader.interfaces()[0].filter, "udp and port 7");
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

/// A number of packets is exact, over all rings and ports of a capture, whatever still comes.
#[test]
fn a_count_is_exact() {
    let Some(wire) = Wire::new(2) else { return };
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("a.pcapng");
    for options in ["", "--rings 2", "-i xdp:veth0"] {
        let line = format!("capture -i {INTERFACE} {options} -c 10 -w {} --json", path.display());
        let running = Run::start_in(&wire.right, &line);
        running.wait_for("ready", |text| text.contains("capturing on"));
        let sent = format!("send packet:{INTERFACE} --json -q --count {COUNT} --rate 100kpps --flows 100");
        Run::start_in(&wire.left, &sent).end().expect_code(0);
        let ended = running.end();
        ended.expect_code(0);
        let written: u64 = ends(&ended).iter().map(|end| number(&end["account"]["written"])).sum();
        assert_eq!(written, 10, "{options}: {}", ended.stdout);
        let mut reader = CaptureReader::new(std::fs::File::open(&path).unwrap()).unwrap();
        assert_eq!(std::iter::from_fn(|| reader.next().unwrap()).count(), 10, "{options}");
    }
    // A file is not looked at beyond the last packet.
    let again = Run::start(&format!("capture -r {} -c 3 --json", path.display())).end();
    again.expect_code(0);
    assert_eq!(number(&ends(&again)[0]["account"]["taken"]), 3);
}

/// As tcpdump: what an interface receives and what it sends, unless one direction is asked for.
#[test]
fn both_directions_are_captured_by_default() {
    let Some(wire) = Wire::new(1) else { return };
    for (options, packets) in [("", 30), ("-Q in", 10), ("-Q out", 20)] {
        let running = Run::start_in(&wire.right, &format!("capture -i {INTERFACE} --json {options}"));
        running.wait_for("ready", |text| text.contains("capturing on"));
        Run::start_in(&wire.left, &format!("send packet:{INTERFACE} -q --count 10")).end().expect_code(0);
        // Past the qdisc, nobody but the driver sees packets.
        Run::start_in(&wire.right, &format!("send packet:{INTERFACE},qdisc -q --count 20")).end().expect_code(0);
        running.signal("INT");
        let ended = running.end();
        ended.expect_code(0);
        assert_eq!(number(&ends(&ended)[0]["account"]["taken"]), packets, "{options}");
    }
}

/// An interface that comes up while all are captured is not, and a line says so, once.
#[test]
fn any_names_an_interface_that_comes_up_too_late() {
    let Some(wire) = Wire::new(1) else { return };
    let running = Run::start_in(&wire.right, "capture -i any --json");
    running.wait_for("ready", |text| text.contains("capturing on"));
    let end = |name| VethEnd { name, namespace: &wire.right };
    veth::create(end("late0"), end("late1"), 1).expect("a veth pair");
    wire.right.run(|| Netdev::open("late0")?.set_up(true)).expect("enter").expect("up");
    running.wait_for("the line", |text| text.contains("late0 has come up and is not captured"));
    running.signal("INT");
    let ended = running.end();
    ended.expect_code(0);
    assert_eq!(ended.stderr.matches("has come up").count(), 1, "{}", ended.stderr);
}

/// `any` is each interface that is up, by its name.
#[test]
fn any_is_every_interface_that_is_up() {
    let Some(wire) = Wire::new(1) else { return };
    let running = Run::start_in(&wire.right, "capture -i any --json");
    running.wait_for("ready", |text| text.contains("capturing on"));
    Run::start_in(&wire.left, &format!("send packet:{INTERFACE} -q --count 10")).end().expect_code(0);
    running.signal("INT");
    let ended = running.end();
    ended.expect_code(0);
    let ports = ends(&ended);
    let of_veth = ports.iter().find(|end| end["port"] == INTERFACE).unwrap();
    assert_eq!(number(&of_veth["account"]["taken"]), 10);
    // The loopback interface of a new namespace is down.
    assert_eq!(ports.len(), 1, "{}", ended.stdout);
}

/// `linerate capture -w - | linerate read - -l` shows packets while the capture goes on.
#[test]
fn packets_flow_through_a_pipe_while_the_capture_goes_on() {
    let Some(wire) = Wire::new(1) else { return };
    let program = || std::process::Command::new(env!("CARGO_BIN_EXE_linerate"));
    let (out, into) = std::io::pipe().unwrap();
    let capture = wire.right.run(|| {
        let mut command = program();
        command.args(["capture", "-i", INTERFACE, "-w", "-"]).stdout(into).stderr(std::process::Stdio::piped());
        command.spawn().unwrap()
    });
    let mut capture = Killed(capture.unwrap());
    let mut command = program();
    command.args(["read", "-", "-l", "--filter", "udp"]).stdin(out).stdout(std::process::Stdio::piped());
    let mut read = Killed(command.spawn().unwrap());
    let mut notes = BufReader::new(capture.0.stderr.take().unwrap()).lines();
    assert!(notes.any(|line| line.unwrap().contains("capturing on")));
    Run::start_in(&wire.left, &format!("send packet:{INTERFACE} -q --count 3")).end().expect_code(0);
    let shown = BufReader::new(read.0.stdout.take().unwrap()).lines().take(3);
    assert_eq!(shown.filter(|line| line.as_ref().unwrap().contains("UDP 49184 > 7")).count(), 3);
    assert!(capture.0.try_wait().unwrap().is_none(), "the capture goes on");
}

/// A process that does not outlive its test.
struct Killed(std::process::Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The kernel still hands over the block that it was filling, so the account closes.
#[test]
fn what_came_before_an_interface_was_deleted_is_written() {
    let Some(wire) = Wire::new(1) else { return };
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("a.pcapng");
    let options = format!("capture -i {INTERFACE} -w {} --json udp", path.display());
    let running = Run::start_in(&wire.right, &options);
    running.wait_for("ready", |text| text.contains("capturing on"));
    Run::start_in(&wire.left, &format!("send packet:{INTERFACE} -q --count 50")).end().expect_code(0);
    let delete = || std::process::Command::new("ip").args(["link", "delete", INTERFACE]).status();
    assert!(wire.right.run(delete).expect("enter").expect("ip").success());
    let ended = running.end();
    ended.expect_code(1);
    assert!(ended.stderr.contains("was deleted"), "{}", ended.stderr);
    let account = &ends(&ended)[0]["account"];
    assert_eq!((number(&account["offered"]), number(&account["written"])), (50, 50), "{account}");
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
