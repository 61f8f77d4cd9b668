//! Programs and external boxes as devices.

use super::support;

use std::collections::BTreeMap;
use std::path::Path as FilePath;
use std::time::{Duration, Instant};

use linerate_experiment::{DutKind, NextHop, PortEnd, TopologyKind};
use linerate_testbed::dut::command::Command;
use linerate_testbed::dut::external::External;
use linerate_testbed::dut::{self, Built, DutError, Path};
use linerate_testbed::topology::TopologySpec;
use linerate_testkit::{may_skip, or_skip};
use support::carry::{Direction, PACKETS, carry, carry_some, device, named};

/// Carries frames between two interfaces, drops every `drop`th, writes how many it carried into a file, and `ready` beside it.
const FORWARDER: &str = r#"
import os, select, socket, sys
names, folder, drop = sys.argv[1:3], sys.argv[3], int(sys.argv[4])
ends = []
for name in names:
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    end.bind((name, 0))
    ends.append(end)
open(folder + "/ready", "w").close()
carried = [0, 0]
seen = 0
while True:
    for end in select.select(ends, [], [])[0]:
        frame, address = end.recvfrom(65536)
        if address[2] == socket.PACKET_OUTGOING:
            continue
        seen += 1
        if drop and seen % drop == 0:
            continue
        way = ends.index(end)
        ends[1 - way].send(frame)
        carried[way] += 1
        with open(folder + "/new", "w") as file:
            file.write("carried there %d\ncarried back: %d\n" % tuple(carried))
        os.replace(folder + "/new", folder + "/counters")
"#;

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn forwarder(folder: &FilePath, drop: u32) -> Command {
    let folder = folder.to_str().expect("a path of text");
    Command {
        start: words(&["python3", "-u", "-c", FORWARDER, "{in}", "{out}", folder, &drop.to_string()]),
        ready: words(&["test", "-e", &format!("{folder}/ready")]),
        ready_ns: 120_000_000_000,
        counters: words(&["cat", &format!("{folder}/counters")]),
        version: words(&["python3", "--version"]),
        ..Command::default()
    }
}

#[test]
fn a_program_carries_packets_both_ways_counts_and_starts_anew() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(mut built) = device(DutKind::from(forwarder(folder.path(), 0))) else { return };
    carry_some(&mut built, Direction::Forward, PACKETS).all_delivered();
    carry_some(&mut built, Direction::Backward, PACKETS).all_delivered();
    let expected =
        [("carried back", PACKETS), ("carried there", PACKETS)].map(|(name, value)| (name.to_owned(), value));
    let expected = BTreeMap::from(expected);
    // It writes them down after it has sent a packet on.
    let mut counters = || built.device.counters().expect("counters");
    support::wait_until(|| counters() == expected);
    assert_eq!(counters(), expected);
    let description = built.device.describe();
    assert_eq!(description.name, "python3");
    assert!(description.version.is_some_and(|version| version.starts_with("Python 3")));
    assert!(description.configuration["command"].contains("lr-in lr-out"));
    std::fs::remove_file(folder.path().join("ready")).expect("it was there");
    let done = built.device.reset().expect("reset");
    assert_eq!(done, "python3 stopped and started anew");
    carry_some(&mut built, Direction::Forward, PACKETS).all_delivered();
}

#[test]
fn what_a_program_keeps_for_itself_is_its_own_row() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(mut built) = device(DutKind::from(forwarder(folder.path(), 3))) else { return };
    let ledger = carry_some(&mut built, Direction::Forward, PACKETS - PACKETS / 3).ledger;
    let account = &ledger.account;
    assert_eq!((account.delivered(), account.unexplained()), (PACKETS - PACKETS / 3, 0), "{ledger:?}");
    let [row] = account.lost() else { panic!("one row: {ledger:?}") };
    assert_eq!((row.place.as_str(), row.packets), ("python3", PACKETS / 3));
    assert!(row.cause.contains("did not send it on"), "{row:?}");
}

#[test]
fn a_program_that_dies_is_told_with_its_last_lines() {
    let script = "echo working; sleep 0.2; echo out of memory >&2; exit 7";
    let command = Command { start: words(&["sh", "-c", script, "{in}"]), ..Command::default() };
    let Some(mut built) = device(DutKind::from(command)) else { return };
    let error = until_error(&mut built);
    assert!(matches!(error, DutError::Died { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("sh died") && text.contains("exit status: 7") && text.contains("out of memory"), "{text}");
}

fn until_error(built: &mut Built) -> DutError {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        match built.device.check() {
            Err(error) => return error,
            Ok(()) => assert!(Instant::now() < deadline, "it goes on living"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_program_that_does_not_get_ready_dies_at_once_or_is_not_there_is_told() {
    let failure = |start: &[&str], ready: &[&str], ready_ms: u64| {
        let (start, ready) = (words(start), words(ready));
        let command = Command { start, ready, ready_ns: ready_ms * 1_000_000, ..Command::default() };
        dut::build(&named(DutKind::from(command)), &TopologySpec::default()).err().expect("an error")
    };
    let error = failure(&["sleep", "600"], &["false"], 200);
    if may_skip(&error) {
        return eprintln!("skipped: {error}");
    }
    assert!(error.to_string().contains("not ready in 200 ms"), "{error}");
    // Never ready, so that it is its death which ends the waiting, however long that takes to come.
    let error = failure(&["sh", "-c", "echo no card >&2; exit 1"], &["false"], 60_000);
    assert!(error.to_string().contains("sh died") && error.to_string().contains("no card"), "{error}");
    let error = failure(&["linerate-no-such-device"], &[], 200);
    assert!(matches!(&error, DutError::Missing { program, .. } if program == "linerate-no-such-device"), "{error}");
    assert!(matches!(failure(&[], &[], 200), DutError::Unsupported(_)));
}

#[test]
fn dropping_a_device_ends_all_that_it_started() {
    let folder = tempfile::tempdir().expect("a folder");
    let mark = folder.path().join("mark").to_str().expect("text").to_owned();
    std::fs::write(&mark, "").expect("written");
    // Both shells become a tail. For a moment of it, a process has no words at all; a tail becomes nothing else.
    let script = r#"tail -f "$0" & exec tail -f "$0""#;
    let command = Command { start: words(&["sh", "-c", script, &mark]), ..Command::default() };
    let Some(built) = device(DutKind::from(command)) else { return };
    let running = || tails_of(&mark);
    let deadline = Instant::now() + Duration::from_secs(60);
    while running() < 2 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(running(), 2, "it and its child");
    drop(built);
    while running() > 0 {
        assert!(Instant::now() < deadline, "{} are left", running());
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn tails_of(mark: &str) -> usize {
    let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
    let command = |entry: std::fs::DirEntry| std::fs::read_to_string(entry.path().join("cmdline")).ok();
    let is_tail = |command: &String| command.starts_with("tail\0") && command.split('\0').any(|word| word == mark);
    entries.filter_map(command).filter(is_tail).count()
}

#[test]
fn testpmd_over_packet_sockets_carries_packets_both_ways() {
    // It forwards on a core of its own, beside its main one; and needs no huge pages, and leaves no files.
    let eal = "--no-pci --no-huge --no-shconf --no-telemetry -m 256";
    let vdevs = "--vdev=net_af_packet0,iface={in} --vdev=net_af_packet1,iface={out}";
    let [main, other, ..] = linerate_sys::affinity::allowed_cores()[..] else {
        return eprintln!("skipped: testpmd needs two cores");
    };
    let line = format!(
        "dpdk-testpmd -l {main},{other} {eal} {vdevs} -- --total-num-mbufs=8192 --forward-mode=io --auto-start --stats-period=1"
    );
    let start: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    // Both sockets are bound when the kernel lists them.
    let ready = words(&["sh", "-c", "test $(grep -c . /proc/net/packet) -ge 3"]);
    let command = Command { start, ready, ready_ns: 120_000_000_000, ..Command::default() };
    let built = dut::build(&named(DutKind::from(command)), &TopologySpec::default());
    let Some(mut built) = or_skip("no testpmd", built) else { return };
    wait_until_forwarding(&mut built);
    carry_some(&mut built, Direction::Forward, PACKETS).all_delivered();
    carry_some(&mut built, Direction::Backward, PACKETS).all_delivered();
}

/// testpmd binds its sockets some time before its forwarding begins; what waited in them until then comes in a later round.
fn wait_until_forwarding(built: &mut Built) {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let account = carry(built, Direction::Forward).ledger.account;
        if (account.delivered(), account.unexplained()) == (PACKETS, 0) {
            return;
        }
        built.device.check().expect("testpmd runs");
        assert!(Instant::now() < deadline, "testpmd does not forward: {account:?}");
    }
}

#[test]
fn an_external_box_has_its_description_and_what_its_command_counts() {
    let port = |name: &str| PortEnd { port: name.into(), next_hop: NextHop::OtherEnd };
    let ports = TopologyKind::Ports { a: port("packet:east"), b: port("packet:west") };
    let path = TopologySpec { ends: ports, ..TopologySpec::default() };
    let external = |counters: &[&str]| {
        named(DutKind::from(External { description: "switch in rack 3".into(), counters: words(counters) }))
    };
    let mut built = dut::build(&external(&["printf", "in 12\\nout 11\\n"]), &path).expect("nothing to build");
    assert!(matches!(&built.path, Path::Ports { a, b } if a.port == "packet:east" && b.port == "packet:west"));
    assert_eq!(built.device.counters().expect("counters")["out"], 11);
    assert_eq!(built.device.describe().name, "switch in rack 3");
    assert!(matches!(built.device.reset(), Err(DutError::NoReset(_))));
    let mut built = dut::build(&external(&["sh", "-c", "echo no route to host >&2; exit 255"]), &path).expect("built");
    let error = built.device.check().expect_err("it does not answer").to_string();
    assert!(error.contains("no route to host"), "{error}");
    assert!(dut::build(&external(&[]), &TopologySpec::default()).is_err(), "it has no namespaces");
}
