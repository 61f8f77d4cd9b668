//! What other implementations write is read, and what is written other implementations read: the crate `pcap-file`, and
//! Wireshark's tshark where it is installed.

use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use linerate_mem::{Batch, Pool};
use linerate_pcapng::CaptureReader;
use linerate_port::PortSpec;
use linerate_port_file::open;
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapReader, PcapWriter};
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption};
use pcap_file::pcapng::{Block, PcapNgBlock, PcapNgReader, PcapNgWriter};
use pcap_file::{DataLink, Endianness, TsResolution};
use proptest::prelude::*;
use tempfile::TempDir;

/// Time in nanoseconds, bytes that were kept, true length.
type Packet = (u64, Vec<u8>, u32);

fn packets() -> impl Strategy<Value = Vec<Packet>> {
    let packet = (0u64..4_000_000_000_000_000_000, proptest::collection::vec(any::<u8>(), 14..300), 0u32..2000);
    proptest::collection::vec(
        packet.prop_map(|(time, bytes, more)| {
            let len = bytes.len() as u32;
            (time, bytes, len + more)
        }),
        0..40,
    )
}

fn read(file: &[u8]) -> Vec<Packet> {
    let mut reader = CaptureReader::new(file).unwrap();
    let mut packets = Vec::new();
    while let Some(head) = reader.next().unwrap() {
        packets.push((head.time_ns, reader.packet().to_vec(), head.original_len));
    }
    packets
}

/// Transmits the packets, each as long as it was, into a file port of this name.
fn write(path: &Path, options: &str, packets: &[Packet]) {
    let mut pool = Pool::new(Default::default()).unwrap();
    let spec: PortSpec = format!("file:{},write{options}", path.display()).parse().unwrap();
    let mut port = open(spec, &pool).unwrap().into_port();
    let mut batch = Batch::with_times(&pool, 64);
    for (time_ns, bytes, _) in packets {
        pool.alloc(&mut batch, 1, bytes.len());
        batch.packet_mut(0).copy_from_slice(bytes);
        batch.set_time_ns(0, *time_ns);
        assert_eq!(port.transmit(&mut batch).unwrap(), 1);
    }
    assert_eq!(port.flush().unwrap(), 0);
    assert_eq!(port.stats().unwrap().tx_packets, packets.len() as u64);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn reads_the_pcap_of_another_writer(packets in packets(), big in any::<bool>(), nanoseconds in any::<bool>()) {
        let header = PcapHeader {
            datalink: DataLink::ETHERNET,
            endianness: if big { Endianness::Big } else { Endianness::Little },
            ts_resolution: if nanoseconds { TsResolution::NanoSecond } else { TsResolution::MicroSecond },
            ..PcapHeader::default()
        };
        let mut writer = PcapWriter::with_header(Vec::new(), header).unwrap();
        for (time_ns, bytes, len) in &packets {
            writer.write_packet(&PcapPacket::new(Duration::from_nanos(*time_ns), *len, bytes)).unwrap();
        }
        let unit_ns = if nanoseconds { 1 } else { 1000 };
        let expected: Vec<Packet> =
            packets.into_iter().map(|(time, bytes, len)| (time / unit_ns * unit_ns, bytes, len)).collect();
        prop_assert_eq!(read(&writer.into_writer()), expected);
    }

    #[test]
    fn reads_the_pcapng_of_another_writer(packets in packets(), big in any::<bool>()) {
        let order = if big { Endianness::Big } else { Endianness::Little };
        let mut writer = PcapNgWriter::with_endianness(Vec::new(), order).unwrap();
        let interface = InterfaceDescriptionBlock {
            linktype: DataLink::ETHERNET,
            snaplen: 0,
            options: vec![InterfaceDescriptionOption::IfTsResol(9)],
        };
        writer.write_block(&interface.into_block()).unwrap();
        for (time_ns, bytes, len) in &packets {
            let packet = EnhancedPacketBlock {
                interface_id: 0,
                timestamp: Duration::from_nanos(*time_ns),
                original_len: *len,
                data: bytes.into(),
                options: vec![],
            };
            writer.write_block(&packet.into_block()).unwrap();
        }
        prop_assert_eq!(read(&writer.into_inner()), packets);
    }

    #[test]
    fn another_reader_reads_what_is_written(packets in packets(), snaplen in 14usize..400) {
        // A time of 0 means "now" in a batch.
        let packets: Vec<Packet> = packets.into_iter().map(|(time, bytes, len)| (time.max(1), bytes, len)).collect();
        let directory = TempDir::new().unwrap();
        let expected: Vec<Packet> = packets
            .iter()
            .map(|(time, bytes, _)| (*time, bytes[..bytes.len().min(snaplen)].to_vec(), bytes.len() as u32))
            .collect();
        let path = directory.path().join("a.pcap");
        write(&path, &format!(",snaplen={snaplen}"), &packets);
        prop_assert_eq!(read(&std::fs::read(&path).unwrap()), expected.clone());
        // The other reader takes a packet for corrupt that was longer than the snaplen.
        if packets.iter().all(|(_, bytes, _)| bytes.len() <= snaplen) {
            prop_assert_eq!(pcap_of_other(&path), expected.clone());
        }
        let path = directory.path().join("a.pcapng");
        write(&path, &format!(",snaplen={snaplen}"), &packets);
        prop_assert_eq!(read(&std::fs::read(&path).unwrap()), expected.clone());
        prop_assert_eq!(pcapng_of_other(&path), expected);
    }
}

fn pcap_of_other(path: &Path) -> Vec<Packet> {
    let mut reader = PcapReader::new(File::open(path).unwrap()).unwrap();
    let mut packets = Vec::new();
    while let Some(packet) = reader.next_packet() {
        let packet = packet.unwrap();
        packets.push((packet.timestamp.as_nanos() as u64, packet.data.to_vec(), packet.orig_len));
    }
    packets
}

fn pcapng_of_other(path: &Path) -> Vec<Packet> {
    let mut reader = PcapNgReader::new(File::open(path).unwrap()).unwrap();
    let mut packets = Vec::new();
    while let Some(block) = reader.next_block() {
        if let Block::EnhancedPacket(packet) = block.unwrap() {
            packets.push((packet.timestamp.as_nanos() as u64, packet.data.to_vec(), packet.original_len));
        }
    }
    packets
}

#[test]
fn tshark_reads_what_is_written() {
    if Command::new("tshark").arg("--version").output().is_err() {
        eprintln!("skipped: tshark is not installed");
        return;
    }
    let directory = TempDir::new().unwrap();
    let packets: Vec<Packet> = (0..50u64)
        .map(|n| (1_700_000_000_123_456_789 + n, (0..60 + n as u8).collect::<Vec<u8>>(), 60 + n as u32))
        .collect();
    for name in ["a.pcap", "a.pcapng"] {
        let path = directory.path().join(name);
        write(&path, "", &packets);
        let output = Command::new("tshark")
            .args(["-n", "-T", "fields", "-e", "frame.time_epoch", "-e", "frame.len", "-e", "eth.type", "-r"])
            .arg(&path)
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), packets.len(), "{text} {}", String::from_utf8_lossy(&output.stderr));
        for (line, (time_ns, _, len)) in lines.iter().zip(&packets) {
            // Versions differ in how they print a time: seconds with a point, or ISO 8601. Both have the fraction.
            let fraction = format!(".{:09}", time_ns % 1_000_000_000);
            assert!(line.contains(&fraction) && line.contains(&format!("\t{len}\t0x0c0d")), "{line}");
        }
    }
}

#[test]
fn reads_what_editcap_writes() {
    if Command::new("editcap").arg("--version").output().is_err() {
        eprintln!("skipped: editcap is not installed");
        return;
    }
    let directory = TempDir::new().unwrap();
    let packets: Vec<Packet> = (0..50u64)
        .map(|n| (1_700_000_000_123_456_000 + n * 1000, vec![n as u8; 60 + n as usize], 60 + n as u32))
        .collect();
    let original = directory.path().join("a.pcapng");
    write(&original, "", &packets);
    for format in ["pcap", "nsecpcap", "pcapng"] {
        let path = directory.path().join(format);
        let status = Command::new("editcap").args(["-F", format]).arg(&original).arg(&path).status().unwrap();
        assert!(status.success());
        assert_eq!(read(&std::fs::read(&path).unwrap()), packets, "{format}");
    }
}
