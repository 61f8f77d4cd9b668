//! Wireshark's view of built and patched frames, where tshark is installed.

use super::common;

use linerate_wire::*;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use std::io::Write;
use std::process::{Command, Stdio};

/// Fields whose value 0 is "bad" and 1 "good".
const STATUS_FIELDS: [&str; 5] = [
    "ip.checksum.status",
    "udp.checksum.status",
    "tcp.checksum.status",
    "icmp.checksum.status",
    "icmpv6.checksum.status",
];

/// A classic pcap file (Ethernet) of the frames.
fn pcap(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4, 0x0004_0002, 0, 0, 0x0004_0000, 1] {
        file.extend(u32::to_le_bytes(word));
    }
    for (second, frame) in (0u32..).zip(frames) {
        let len = frame.len() as u32;
        for word in [second, 0, len, len] {
            file.extend(word.to_le_bytes());
        }
        file.extend(frame);
    }
    file
}

/// For each frame all values of the status fields; `None` if tshark is not there.
fn tshark(frames: &[Vec<u8>]) -> Option<Vec<Vec<String>>> {
    let mut command = Command::new("tshark");
    command.args(["-n", "-r", "-", "-T", "fields", "-E", "separator=,"]);
    for protocol in ["ip", "udp", "tcp"] {
        command.args(["-o", &format!("{protocol}.check_checksum:TRUE")]);
    }
    for field in STATUS_FIELDS {
        command.args(["-e", field]);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let mut stdin = child.stdin.take().expect("stdin is piped");
    let file = pcap(frames);
    let writer = std::thread::spawn(move || stdin.write_all(&file));
    let output = child.wait_with_output().expect("tshark runs");
    writer.join().expect("the writer does not panic").expect("tshark reads the file");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("tshark prints UTF-8");
    let values = |line: &str| line.split(',').filter(|value| !value.is_empty()).map(str::to_owned).collect();
    Some(text.lines().map(values).collect())
}

/// Takes out what would make tshark see packets inside a payload, or skip a checksum.
fn plain(mut stack: Stack) -> Stack {
    for layer in &mut stack.layers {
        match layer {
            Layer::Ipv4(ip) => {
                // A source route would change the pseudo-header; a fragment has no checksum to see.
                ip.options = Options::NONE;
                (ip.more_fragments, ip.fragment_offset) = (false, 0);
            }
            Layer::Udp(udp) if udp.dst_port == vxlan::PORT => udp.src_port = 50000,
            Layer::Udp(udp) => (udp.src_port, udp.dst_port) = (50001, 50002),
            Layer::Tcp(tcp) => (tcp.src_port, tcp.dst_port) = (50001, 50002),
            // Errors quote packets.
            Layer::Icmpv4(icmp) => icmp.kind = icmpv4::ECHO_REQUEST,
            Layer::Icmpv6(icmp) => icmp.kind = icmpv6::ECHO_REQUEST,
            _ => {}
        }
    }
    stack
}

#[test]
fn tshark_finds_every_checksum_good() {
    let mut runner = TestRunner::deterministic();
    let strategy = common::stack_and_len();
    let mut built = Vec::new();
    for _ in 0..500 {
        let (stack, extra) = strategy
            .new_tree(&mut runner)
            .map(|tree| tree.current())
            .map(|(stack, len)| (plain(stack.clone()), len - stack.headers_len()))
            .expect("the strategy rejects nothing");
        built.push(stack.build(stack.headers_len() + extra).expect("a valid stack"));
    }
    let mut frames: Vec<_> = built.iter().map(|built| built.bytes.clone()).collect();
    // The same again with an IP source address and the last payload byte patched in place.
    for Built { bytes, layout } in &built {
        let mut bytes = bytes.clone();
        if let Some(ip) = layout.find_innermost(LayerKind::Ipv4) {
            layout.patch(&mut bytes, ip.offset + 12, &[198, 18, 7, 9]);
        }
        if !layout.payload.is_empty() {
            layout.patch(&mut bytes, layout.payload.end - 1, &[0x5a]);
        }
        frames.push(bytes);
    }
    let Some(rows) = tshark(&frames) else {
        eprintln!("skipped: tshark is not installed");
        return;
    };
    assert_eq!(rows.len(), frames.len());
    let layouts = built.iter().chain(&built).map(|built| &built.layout);
    let mut total = 0;
    for ((layout, frame), statuses) in layouts.zip(&frames).zip(rows) {
        let count = |status| statuses.iter().filter(|value| *value == status).count();
        let expected = layout.checksums.iter().filter(|field| field.present).count();
        assert_eq!((count("1"), count("0")), (expected, 0), "{}\n{}", Summary(frame), Hexdump(frame));
        total += expected;
    }
    assert!(total > 1000, "only {total} checksums seen");
}

#[test]
fn tshark_finds_a_wrong_checksum() {
    let stack =
        Stack::new().with(ethernet::Header::default()).with(ipv4::Header::default()).with(udp::Header::default());
    let mut frame = stack.build(60).expect("a valid stack").bytes;
    frame[59] ^= 1;
    let Some(rows) = tshark(&[frame]) else {
        eprintln!("skipped: tshark is not installed");
        return;
    };
    assert_eq!(rows, [["1", "0"]], "IP good, UDP bad");
}
