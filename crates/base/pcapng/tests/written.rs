//! Everything that is written of a file, read by the reader of this crate and by Wireshark's tools, whole and cut.

use std::process::{Command, Output, Stdio};

use linerate_pcapng::{
    CaptureError, CaptureReader, Direction, FileFormat, InterfaceHead, PacketHead, SectionHead, Statistics, file_start,
    interface, padding, padding_len, record, record_len, section, statistics,
};

const TIME_NS: u64 = 1_700_000_000_123_456_789;
const DIRECTIONS: [Direction; 3] = [Direction::Unknown, Direction::Inbound, Direction::Outbound];

fn packet(out: &mut Vec<u8>, format: FileFormat, number: u64) {
    let direction = DIRECTIONS[number as usize % 3];
    let (kept, start) = (60 + number as usize, out.len());
    let head = PacketHead { interface: number as u32 % 2, time_ns: TIME_NS + number, original_len: 1514, direction };
    out.resize(start + record_len(format, kept, direction), 0);
    record(format, &mut out[start..], &head, kept).unwrap().fill(number as u8);
}

/// A file with all kinds of blocks, two interfaces and ten packets; the ends of its blocks.
fn file() -> (Vec<u8>, Vec<usize>) {
    let mut out = Vec::new();
    let mut ends = Vec::new();
    section(&mut out, &SectionHead { os: "Linux".into(), application: "linerate".into(), ..SectionHead::default() });
    ends.push(out.len());
    for name in ["veth0", "veth1"] {
        let head = InterfaceHead {
            name: name.into(),
            description: "one of two".into(),
            filter: "udp port 53".into(),
            comment: "timestamps by the kernel".into(),
            mac: Some([2, 0, 0, 0, 0, 1]),
            speed_bps: Some(10_000_000_000),
            snaplen: 1000,
            ..InterfaceHead::default()
        };
        interface(&mut out, &head);
        ends.push(out.len());
    }
    for number in 0..10 {
        packet(&mut out, FileFormat::Pcapng, number);
        ends.push(out.len());
    }
    let start = out.len();
    out.resize(start + padding_len(start, 4096), 0);
    padding(&mut out[start..]);
    ends.push(out.len());
    for interface in 0..2 {
        let counts = Statistics {
            interface,
            time_ns: TIME_NS + 100,
            start_ns: Some(TIME_NS),
            end_ns: Some(TIME_NS + 99),
            received: Some(1000),
            dropped_by_interface: Some(1),
            accepted: Some(7),
            dropped_by_system: Some(2),
            delivered: Some(5),
            comment: "it adds up".into(),
        };
        statistics(&mut out, &counts);
        ends.push(out.len());
    }
    (out, ends)
}

#[test]
fn what_is_written_of_interfaces_is_read() {
    let (file, _) = file();
    let mut reader = CaptureReader::new(&file[..]).unwrap();
    for number in 0..10u64 {
        let head = reader.next().unwrap().unwrap();
        assert_eq!((head.time_ns, head.interface, head.original_len), (TIME_NS + number, number as u32 % 2, 1514));
        assert_eq!(head.direction, DIRECTIONS[number as usize % 3]);
        assert_eq!(reader.packet(), vec![number as u8; 60 + number as usize]);
    }
    assert!(reader.interfaces()[0].statistics.is_none());
    assert!(reader.next().unwrap().is_none());
    let second = &reader.interfaces()[1];
    assert_eq!((second.name.as_str(), second.description.as_str(), second.snaplen), ("veth1", "one of two", 1000));
    assert_eq!((second.filter.as_str(), second.comment.as_str()), ("udp port 53", "timestamps by the kernel"));
    let counts = second.statistics.as_ref().unwrap();
    assert_eq!((counts.received, counts.dropped_by_interface, counts.accepted), (Some(1000), Some(1), Some(7)));
    assert_eq!((counts.dropped_by_system, counts.delivered), (Some(2), Some(5)));
    assert_eq!(counts.comment, "it adds up");
}

#[test]
fn a_file_that_is_cut_anywhere_reads_up_to_its_last_whole_block() {
    let (file, ends) = file();
    for len in ends[0]..file.len() {
        let mut reader = CaptureReader::new(&file[..len]).unwrap();
        let mut packets = 0;
        let error = loop {
            match reader.next() {
                Ok(Some(_)) => packets += 1,
                Ok(None) => break None,
                Err(error) => break Some(error),
            }
        };
        let last_end = *ends.iter().rfind(|end| **end <= len).unwrap();
        let whole = ends[3..].iter().filter(|end| **end <= len).count();
        assert_eq!(packets, whole.min(10), "{len}");
        match error {
            None => assert_eq!(len, last_end),
            Some(CaptureError::Truncated { offset, .. }) => assert_eq!(offset as usize, last_end, "{len}"),
            Some(other) => panic!("{len}: {other}"),
        }
    }
}

/// What a tool says of a file on its standard input or by name; `None`, and a line that says why, without the tool.
fn tool(name: &str, arguments: &[&str], file: &[u8], extension: &str) -> Option<Output> {
    let directory = std::env::temp_dir().join(format!("linerate-pcapng-{}-{name}-{extension}", std::process::id()));
    if Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
        eprintln!("skipped: {name} is not installed");
        return None;
    }
    std::fs::write(&directory, file).unwrap();
    let output = Command::new(name).args(arguments).arg(&directory).output().unwrap();
    std::fs::remove_file(&directory).unwrap();
    Some(output)
}

#[test]
fn tshark_reads_everything() {
    let fields = ["-n", "-T", "fields", "-e", "frame.interface_name", "-e", "frame.packet_flags_direction", "-r"];
    let (whole, _) = file();
    let Some(output) = tool("tshark", &fields, &whole, "pcapng") else { return };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 10, "{text}");
    for (number, line) in lines.iter().enumerate() {
        let mut fields = line.split('\t');
        assert_eq!(fields.next(), Some(["veth0", "veth1"][number % 2]));
        let direction = fields.next().unwrap_or_default().trim_start_matches("0x").trim_start_matches('0');
        assert_eq!(direction, ["", "1", "2"][number % 3], "{line}");
    }
}

#[test]
fn capinfos_reads_everything() {
    let (whole, _) = file();
    let Some(output) = tool("capinfos", &["-M"], &whole, "pcapng") else { return };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let says =
        |words: &str| text.lines().any(|line| line.split_whitespace().collect::<Vec<_>>().join(" ").contains(words));
    for words in [
        "Number of packets: 10",
        "Number of interfaces in file: 2",
        "Name = veth1",
        "Time resolution = 0x09",
        "Filter string = udp port 53",
        "Comment = timestamps by the kernel",
        "Number of stat entries = 1",
    ] {
        assert!(says(words), "{words}:\n{text}");
    }
    let mut classic = Vec::new();
    file_start(&mut classic, FileFormat::Pcap, 1000);
    (0..10).for_each(|number| packet(&mut classic, FileFormat::Pcap, number));
    let output = tool("capinfos", &["-M"], &classic, "pcap").unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    assert!(text.contains("nanosecond") && text.lines().any(|line| line.ends_with("  10")), "{text}");
}
