//! `linerate read`, on files that the tests make, with Wireshark's tools where they are installed.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use linerate_gen::Signature;
use linerate_pcapng::{
    Direction, FileFormat, InterfaceHead, PacketHead, SectionHead, file_start, interface, record, record_len, section,
};
use linerate_wire::{Stack, ethernet, ipv4, ipv6, tcp, udp, vlan, vxlan};
use tempfile::TempDir;

const TIME_NS: u64 = 1_795_258_743_000_000_000;
const SECOND_NS: u64 = 1_000_000_000;

/// A packet of 80 bytes: UDP from port 1000 if `number` is even, else TCP; signed with its number.
fn packet(number: u64) -> Vec<u8> {
    let stack = Stack::new().with(ethernet::Header::default()).with(ipv4::Header {
        src: [10, 0, 0, 1].into(),
        dst: [10, 0, 0, 2].into(),
        ..Default::default()
    });
    let stack = match number % 2 {
        0 => stack.with(udp::Header { src_port: 1000, dst_port: 53, ..Default::default() }),
        _ => stack.with(tcp::Header { src_port: 2000, dst_port: 80, ..Default::default() }),
    };
    let mut bytes = stack.build(80).unwrap().bytes;
    Signature { stream: 7, sequence: number, time_ns: number }.write(&mut bytes);
    bytes
}

/// A file with these packets, one each second by their numbers, on the interface of that name.
fn file(directory: &TempDir, name: &str, interface_name: &str, numbers: impl IntoIterator<Item = u64>) -> PathBuf {
    let format = FileFormat::of(name);
    let mut out = Vec::new();
    if format == FileFormat::Pcap {
        file_start(&mut out, format, 0);
    } else {
        section(&mut out, &SectionHead::default());
        interface(&mut out, &InterfaceHead { name: interface_name.into(), ..InterfaceHead::default() });
    }
    for number in numbers {
        let (bytes, start) = (packet(number), out.len());
        let direction = Direction::Inbound;
        out.resize(start + record_len(format, bytes.len(), direction), 0);
        let head =
            PacketHead { time_ns: TIME_NS + number * SECOND_NS, original_len: 80, direction, ..PacketHead::default() };
        record(format, &mut out[start..], &head, bytes.len()).unwrap().copy_from_slice(&bytes);
    }
    let path = directory.path().join(name);
    fs::write(&path, out).unwrap();
    path
}

fn read(files: &[&Path], options: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_linerate")).arg("read").args(files).args(options).output().unwrap()
}

/// The lines on stdout of a run that is to end with this status.
fn lines(files: &[&Path], options: &[&str], status: i32) -> Vec<String> {
    let output = read(files, options);
    assert_eq!(output.status.code(), Some(status), "{options:?} {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_string).collect()
}

/// Numbers of the packets that `--json` shows, from their times.
fn numbers(files: &[&Path], options: &[&str], status: i32) -> Vec<u64> {
    let options: Vec<&str> = options.iter().copied().chain(["--json"]).collect();
    let number = |line: &String| {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        (value["time_ns"].as_u64().unwrap() - TIME_NS) / SECOND_NS
    };
    lines(files, &options, status).iter().map(number).collect()
}

#[test]
fn packets_are_printed_for_people_and_for_programs() {
    let directory = TempDir::new().unwrap();
    let path = file(&directory, "a.pcapng", "veth0", 0..3);
    let text = lines(&[&path], &[], 0);
    assert_eq!(text.len(), 3);
    let words = ["      2 2026-11-21T10:59:04.000000000Z veth0 in 80 B ", "10.0.0.1 > 10.0.0.2", "TCP 2000 > 80"];
    assert!(words.iter().all(|words| text[1].contains(words)), "{text:?}");
    let json: serde_json::Value = serde_json::from_str(&lines(&[&path], &["--json"], 0)[2]).unwrap();
    assert_eq!((json["number"].as_u64(), json["time_ns"].as_u64()), (Some(3), Some(TIME_NS + 2 * SECOND_NS)));
    assert_eq!((json["interface"].as_str(), json["direction"].as_str()), (Some("veth0"), Some("in")));
    assert_eq!((json["length"].as_u64(), json["kept"].as_u64()), (Some(80), Some(80)));
    assert_eq!(lines(&[&path], &["--hex"], 0).len(), 3 + 3 * 5);
    // pcap has neither names nor directions.
    let classic = file(&directory, "a.pcap", "", 0..3);
    assert!(
        lines(&[&classic], &[], 0)[0].contains("00.000000000Z 80 B")
            || lines(&[&classic], &[], 0)[0].contains("03.000000000Z 80 B")
    );
}

/// A packet with every layer that can be shown.
fn tunnelled() -> Vec<u8> {
    let outer = Stack::new()
        .with(ethernet::Header { src: [2, 0, 0, 0, 0, 1].into(), dst: [2, 0, 0, 0, 0, 2].into(), ..Default::default() })
        .with(vlan::Header { vid: 5, pcp: 3, ..Default::default() })
        .with(vlan::Header { vid: 6, ..Default::default() })
        .with(ipv4::Header { src: [10, 0, 0, 1].into(), dst: [10, 0, 0, 2].into(), ttl: 9, ..Default::default() })
        .with(udp::Header { src_port: 1, dst_port: vxlan::PORT, ..Default::default() })
        .with(vxlan::Header { vni: 77 })
        .with(ethernet::Header::default())
        .with(ipv6::Header { src: "fd00::1".parse().unwrap(), hop_limit: 4, ..Default::default() })
        .with(tcp::Header { src_port: 2000, dst_port: 80, flags: tcp::Flags::SYN, sequence: 8, ..Default::default() });
    outer.build(200).unwrap().bytes
}

#[test]
fn every_field_of_every_header_is_in_the_json() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("a.pcap");
    let written = |packets: &[Vec<u8>]| {
        let mut out = Vec::new();
        file_start(&mut out, FileFormat::Pcap, 0);
        for bytes in packets {
            let start = out.len();
            out.resize(start + record_len(FileFormat::Pcap, bytes.len(), Direction::Unknown), 0);
            let head = PacketHead { time_ns: TIME_NS, original_len: bytes.len() as u32, ..PacketHead::default() };
            record(FileFormat::Pcap, &mut out[start..], &head, bytes.len()).unwrap().copy_from_slice(bytes);
        }
        fs::write(&path, out).unwrap();
        let lines = lines(&[&path], &["--json"], 0);
        lines.iter().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()).collect::<Vec<_>>()
    };
    let packet = &written(&[tunnelled()])[0];
    assert_eq!(
        (&packet["schema"], &packet["time"]),
        (&"linerate.packet/1".into(), &"2026-11-21T10:59:03.000000000Z".into())
    );
    let layers = &packet["layers"];
    let names = ["ethernet", "vlan", "vlan#2", "ipv4", "udp", "vxlan", "ethernet#2", "ipv6", "tcp"];
    let places: Vec<usize> =
        names.iter().map(|name| layers.to_string().find(&format!("\"{name}\":{{")).unwrap()).collect();
    assert_eq!(layers.as_object().unwrap().len(), names.len());
    let line = lines(&[&path], &["--json"], 0).remove(0);
    let in_line: Vec<usize> = names.iter().map(|name| line.find(&format!("\"{name}\":{{")).unwrap()).collect();
    assert!(in_line.is_sorted() && places.len() == names.len(), "in the order of the packet: {line}");
    for (layer, field, value) in [
        ("ethernet", "destination", serde_json::json!("02:00:00:00:00:02")),
        ("vlan", "id", 5.into()),
        ("vlan", "priority", 3.into()),
        ("vlan#2", "id", 6.into()),
        ("ipv4", "source", "10.0.0.1".into()),
        ("ipv4", "ttl", 9.into()),
        ("udp", "destination", vxlan::PORT.into()),
        ("vxlan", "vni", 77.into()),
        ("ipv6", "hop_limit", 4.into()),
        ("tcp", "flags", "SYN".into()),
        ("tcp", "sequence", 8.into()),
    ] {
        assert_eq!(layers[layer][field], value, "{layer}.{field}");
    }
    let data = (packet["data"]["offset"].as_u64().unwrap(), packet["data"]["length"].as_u64().unwrap());
    assert_eq!(data.0 + data.1, 200);
    let schema: serde_json::Value =
        serde_json::from_str(include_str!("../../../../docs/schema/packet-1.json")).unwrap();
    assert!(packet.as_object().unwrap().keys().all(|name| schema["properties"][name].is_object()));
    for (layer, fields) in layers.as_object().unwrap() {
        let described = &schema["$defs"][layer.split('#').next().unwrap()];
        assert!(fields.as_object().unwrap().keys().all(|name| described["properties"][name].is_object()), "{layer}");
        assert!(described["required"].as_array().unwrap().iter().all(|name| !fields[name.as_str().unwrap()].is_null()));
    }
    // Cut anywhere: as many layers as are whole, and an error instead of a panic.
    let whole = tunnelled();
    let cut: Vec<Vec<u8>> = (1..whole.len()).map(|len| whole[..len].to_vec()).collect();
    let headers = written(&cut).iter().map(|packet| packet["layers"].as_object().unwrap().len()).collect::<Vec<_>>();
    assert!(headers.is_sorted() && headers[0] == 0 && headers.last() == Some(&names.len()), "{headers:?}");
    assert!(written(&cut)[20]["error"].as_str().unwrap().contains("needs"), "the second tag is cut");
}

#[test]
fn packets_are_filtered_and_cut() {
    let directory = TempDir::new().unwrap();
    let path = file(&directory, "a.pcapng", "veth0", 0..20);
    let numbers = |options: &[&str]| numbers(&[&path], options, 0);
    assert_eq!(numbers(&["--filter", "udp port 53"]), (0..20).step_by(2).collect::<Vec<_>>());
    assert!(numbers(&["-f", "not ip"]).is_empty());
    assert_eq!(numbers(&["--cut", "3..5"]), [2, 3, 4]);
    assert_eq!(numbers(&["--cut", "19.."]), [18, 19]);
    assert_eq!(numbers(&["--cut", "+5s..+7s", "--filter", "tcp"]), [5, 7]);
    assert_eq!(numbers(&["--cut", "+0s..+3ms"]), [0]);
    assert_eq!(numbers(&["-c", "2", "--filter", "tcp"]), [1, 3]);
    assert_eq!(numbers(&["--cut", "..2026-11-21T10:59:04Z"]), [0, 1]);
    for (options, words) in
        [(["--filter", "tcp and"], "filter"), (["--cut", "5..3"], "--cut"), (["--cut", "x"], "FROM..TO")]
    {
        let output = read(&[&path], &options);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && text.contains(words), "{options:?}: {text}");
    }
}

#[test]
fn files_are_merged_by_time_into_one() {
    let directory = TempDir::new().unwrap();
    let even = file(&directory, "even.pcapng", "veth0", (0..40).step_by(2));
    let odd = file(&directory, "odd.pcapng", "veth1", (1..40).step_by(2));
    let more = file(&directory, "more.pcapng", "veth0", 40..50);
    assert_eq!(numbers(&[&even, &odd], &[], 0)[..3], [0, 2, 4]);
    let all: Vec<u64> = (0..50).collect();
    assert_eq!(numbers(&[&more, &even, &odd], &["--merge"], 0), all);
    for name in ["both.pcapng", "both.pcap", "both.pcapng.zst"] {
        let both = directory.path().join(name);
        assert!(lines(&[&more, &even, &odd], &["--merge", "-w", both.to_str().unwrap()], 0).is_empty());
        assert_eq!(numbers(&[&both], &[], 0), all, "{name}");
        let Ok(output) = Command::new("capinfos").arg("-M").arg(&both).output() else {
            eprintln!("skipped: capinfos is not installed");
            continue;
        };
        let text = String::from_utf8_lossy(&output.stdout);
        let says = |words: &str| {
            text.lines().any(|line| line.split_whitespace().collect::<Vec<_>>().join(" ").contains(words))
        };
        if name.ends_with("zst") && !output.status.success() {
            eprintln!("skipped: capinfos without zstd: {}", String::from_utf8_lossy(&output.stderr));
            continue;
        }
        assert!(says("Number of packets: 50") && says("Strict time order: True"), "{name}: {text}");
        // Interfaces that are alike become one.
        assert!(name == "both.pcap" || says("Number of interfaces in file: 2"), "{text}");
    }
    let output = read(&[&even], &["-w", even.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(numbers(&[&even], &[], 0).len(), 20, "the file is as it was");
}

#[test]
fn flows_are_counted_and_streams_followed() {
    let directory = TempDir::new().unwrap();
    let path = file(&directory, "a.pcapng", "veth0", (0..10).chain(12..20));
    let text = lines(&[&path], &["--flows", "--json"], 0).join("\n");
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (document["schema"].as_str(), document["total"]["packets"].as_u64()),
        (Some("linerate.flows/1"), Some(18))
    );
    let flows = document["flows"].as_array().unwrap();
    assert_eq!(flows.len(), 2);
    let udp = flows.iter().find(|flow| flow["src_port"] == 1000).unwrap();
    assert_eq!(
        (udp["packets"].as_u64(), udp["bytes"].as_u64(), udp["protocol"].as_u64()),
        (Some(9), Some(720), Some(17))
    );
    assert_eq!(udp["last_ns"].as_u64(), Some(TIME_NS + 18 * SECOND_NS));
    let stream = &document["streams"][0];
    assert_eq!(
        (stream["id"].as_u64(), stream["delivered"].as_u64(), stream["lost"].as_u64()),
        (Some(7), Some(18), Some(2))
    );
    let text = lines(&[&path], &["--flows", "--top", "1"], 0).join("\n");
    for words in
        ["10.0.0.1:1000 > 10.0.0.2:53 UDP", "and 1 more flows", "all, 2 flows", "stream 7: delivered 18, lost 2"]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
    let text = lines(&[&path], &["--flows", "--flows-max", "1"], 0).join("\n");
    assert!(text.contains("no room"), "{text}");
}

#[test]
fn what_is_broken_is_read_as_far_as_it_goes_with_the_offset() {
    let directory = TempDir::new().unwrap();
    let path = file(&directory, "a.pcapng", "veth0", 0..10);
    let other = file(&directory, "b.pcapng", "veth0", 10..12);
    let whole = fs::read(&path).unwrap();
    // Each record has 32 + 12 + 80 bytes.
    let last = whole.len() - 124;
    for len in [last + 1, last + 60, whole.len() - 1] {
        fs::write(&path, &whole[..len]).unwrap();
        assert_eq!(numbers(&[&path, &other], &[], 1), (0..9).chain(10..12).collect::<Vec<_>>());
        let text = String::from_utf8_lossy(&read(&[&path], &["--merge"]).stderr).into_owned();
        assert!(text.contains("a.pcapng") && text.contains(&format!("byte {last}")), "{text}");
    }
    let mut corrupt = whole.clone();
    corrupt[last + 4] = 0xff;
    fs::write(&path, corrupt).unwrap();
    assert_eq!(numbers(&[&path], &[], 1).len(), 9);
    let part = directory.path().join("part.pcapng");
    assert_eq!(read(&[&path], &["-w", part.to_str().unwrap()]).status.code(), Some(1));
    assert_eq!(numbers(&[&part], &[], 0).len(), 9, "what was whole is a whole file now");
    fs::write(&path, b"no capture at all").unwrap();
    assert_eq!(numbers(&[&path, &other], &[], 1), [10, 11]);
    let missing = directory.path().join("missing.pcap");
    assert!(String::from_utf8_lossy(&read(&[&missing], &[]).stderr).contains("missing.pcap"));
    if Path::new("/dev/full").exists() {
        let output = read(&[&other], &["-w", "/dev/full"]);
        assert!(
            output.status.code() == Some(1) && String::from_utf8_lossy(&output.stderr).contains("os error 28"),
            "{output:?}"
        );
    }
}

#[test]
fn a_filter_in_the_place_of_a_file_is_pointed_out_before_anything_is_printed() {
    let directory = tempfile::tempdir().unwrap();
    let whole = file(&directory, "a.pcap", "a", 0..10);
    let run = read(&[&whole, Path::new("tcp")], &[]);
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    assert!(run.status.code() == Some(2) && run.stdout.is_empty(), "{said}");
    assert!(said.contains("--filter 'tcp'"), "{said}");
}

#[test]
fn whoever_has_seen_enough_may_go() {
    let directory = TempDir::new().unwrap();
    let path = file(&directory, "a.pcapng", "veth0", 0..5000);
    let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
    let mut child = command.arg("read").arg(&path).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = [0; 100];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}
