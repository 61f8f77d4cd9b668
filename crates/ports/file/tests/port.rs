//! What file ports do beside the contract: passes, padding, cuts, losses, broken files, full disks.

#[path = "../../../base/pcapng/tests/make/mod.rs"]
mod make;

use std::path::{Path, PathBuf};

use linerate_mem::{Batch, Pool, PoolConfig};
use linerate_pcapng::CaptureReader;
use linerate_port::{Interest, OpenError, Port, PortError, Readiness};
use linerate_port_file::open;
use make::{Order, enhanced, interface, packet, pcap_header, pcap_record, section};
use tempfile::TempDir;

fn pool() -> Pool {
    Pool::new(PoolConfig { frames: 256, ..PoolConfig::default() }).unwrap()
}

fn try_open(path: &Path, options: &str, pool: &Pool) -> Result<Box<dyn Port>, OpenError> {
    open(format!("file:{}{options}", path.display()).parse().unwrap(), pool).map(|device| device.into_port())
}

/// A pcap file with packets of these lengths.
fn file(directory: &TempDir, lens: &[usize]) -> PathBuf {
    let order = Order::Little;
    let mut bytes = pcap_header(order, 0xa1b2_3c4d, 1);
    for (number, len) in lens.iter().enumerate() {
        bytes.extend(pcap_record(order, 1, number as u32, &packet(number, *len), *len as u32));
    }
    let path = directory.path().join("in.pcap");
    std::fs::write(&path, bytes).unwrap();
    path
}

/// Receives until the end; the packets, joined, with their times.
fn receive_all(port: &mut dyn Port, pool: &mut Pool, capacity: usize) -> Vec<(u64, Vec<u8>)> {
    let mut batch = Batch::with_times(pool, capacity);
    let mut packets = Vec::new();
    while port.wait(Interest::Receive, 0).unwrap() != Readiness::Closed {
        port.receive(&mut batch).unwrap();
        let mut at = 0;
        while let Some(span) = batch.span(at) {
            let bytes = (at..at + span.slots).flat_map(|index| batch.packet(index).to_vec()).collect();
            packets.push((batch.time_ns(at).unwrap(), bytes));
            at += span.slots;
        }
        assert_eq!(at, batch.len(), "no packet is split");
        pool.free(&mut batch);
    }
    packets
}

#[test]
fn a_file_can_be_received_several_times_over() {
    let directory = TempDir::new().unwrap();
    let path = file(&directory, &[60, 61, 62]);
    let mut pool = pool();
    for (options, count) in [("", 3), (",loop=no", 3), (",loop=4", 12)] {
        let mut port = try_open(&path, options, &pool).unwrap();
        let packets = receive_all(&mut *port, &mut pool, 5);
        assert_eq!(packets.len(), count, "{options}");
        assert!(packets.iter().enumerate().all(|(n, (_, bytes))| *bytes == packet(n % 3, 60 + n % 3)));
        assert_eq!(port.stats().unwrap().rx_packets, count as u64);
    }
    let mut port = try_open(&path, ",loop", &pool).unwrap();
    let mut batch = Batch::new(&pool, 100);
    assert_eq!(port.receive(&mut batch).unwrap(), 100);
    // A file without packets has an end also in a loop that has none.
    let empty = file(&directory, &[]);
    let mut port = try_open(&empty, ",loop", &pool).unwrap();
    assert_eq!(port.wait(Interest::Receive, 0).unwrap(), Readiness::Closed);
}

#[test]
fn long_packets_span_slots_and_those_longer_than_a_batch_are_counted() {
    let directory = TempDir::new().unwrap();
    let path = file(&directory, &[9000, 60, 100_000, 1600, 1601, 60]);
    let mut pool = pool();
    let mut port = try_open(&path, "", &pool).unwrap();
    let packets = receive_all(&mut *port, &mut pool, 8);
    let lens: Vec<usize> = packets.iter().map(|(_, bytes)| bytes.len()).collect();
    assert_eq!(lens, [9000, 60, 1600, 1601, 60]);
    assert_eq!(packets[0].1, packet(0, 9000));
    let stats = port.stats().unwrap();
    assert_eq!((stats.rx_packets, stats.rx_dropped(), stats.rx_drops[0].cause.as_str()), (5, 1, "longer than a batch"));
    drop(port);
    assert!(pool.is_whole());
}

#[test]
fn without_frames_packets_wait() {
    let directory = TempDir::new().unwrap();
    let path = file(&directory, &[60, 5000, 60]);
    let mut pool = pool();
    let mut port = try_open(&path, "", &pool).unwrap();
    let mut hoard = Batch::new(&pool, 256);
    pool.alloc(&mut hoard, 256, 60);
    let mut batch = Batch::new(&pool, 16);
    assert_eq!(port.receive(&mut batch).unwrap(), 0);
    // Frames for the first packet and for a part of the second.
    pool.free_front(&mut hoard, 3);
    pool.flush();
    assert_eq!(port.receive(&mut batch).unwrap(), 1);
    assert_eq!(batch.len(), 1);
    pool.free(&mut hoard);
    pool.flush();
    assert_eq!(port.receive(&mut batch).unwrap(), 2);
    assert_eq!(port.stats().unwrap().rx_dropped(), 0);
    drop((port, batch, hoard));
    assert!(pool.is_whole());
}

#[test]
fn packets_that_were_cut_short_are_handed_out_as_they_are_or_padded() {
    let directory = TempDir::new().unwrap();
    let order = Order::Big;
    let path = directory.path().join("cut.pcapng");
    let bytes = [section(order), interface(order, 1, 96, &[]), enhanced(order, 0, 1, &packet(1, 96), 3000)].concat();
    std::fs::write(&path, bytes).unwrap();
    let mut pool = pool();
    let mut port = try_open(&path, "", &pool).unwrap();
    assert_eq!(receive_all(&mut *port, &mut pool, 8), [(1000, packet(1, 96))]);
    let mut port = try_open(&path, ",pad", &pool).unwrap();
    let padded = [packet(1, 96), vec![0; 3000 - 96]].concat();
    assert_eq!(receive_all(&mut *port, &mut pool, 8), [(1000, padded)]);
}

#[test]
fn what_is_no_ethernet_packet_is_lost_with_its_cause() {
    let directory = TempDir::new().unwrap();
    let order = Order::Little;
    let path = directory.path().join("mixed.pcapng");
    let bytes = [
        section(order),
        interface(order, 1, 0, &[]),
        interface(order, 101, 0, &[]),
        enhanced(order, 0, 1, &packet(1, 60), 60),
        enhanced(order, 1, 2, &packet(2, 40), 40),
        enhanced(order, 0, 3, &packet(3, 13), 13),
        enhanced(order, 1, 4, &packet(4, 40), 40),
        enhanced(order, 0, 5, &packet(5, 14), 14),
    ];
    std::fs::write(&path, bytes.concat()).unwrap();
    let mut pool = pool();
    let mut port = try_open(&path, "", &pool).unwrap();
    assert_eq!(receive_all(&mut *port, &mut pool, 8).len(), 2);
    let drops = port.stats().unwrap().rx_drops;
    let causes: Vec<(&str, u64)> = drops.iter().map(|drop| (drop.cause.as_str(), drop.packets)).collect();
    assert_eq!(causes, [("shorter than an Ethernet header", 1), ("link type 101 is not Ethernet", 2)]);

    std::fs::write(&path, pcap_header(order, 0xa1b2_3c4d, 113)).unwrap();
    assert!(try_open(&path, "", &pool).err().unwrap().to_string().contains("link type 113"));
}

#[test]
fn a_torn_record_is_an_error_with_its_place_after_all_that_came_before() {
    let directory = TempDir::new().unwrap();
    let path = file(&directory, &[60, 60, 60]);
    let len = std::fs::metadata(&path).unwrap().len();
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(len - 10).unwrap();
    let pool = pool();
    let mut port = try_open(&path, "", &pool).unwrap();
    let mut batch = Batch::new(&pool, 16);
    assert_eq!(port.receive(&mut batch).unwrap(), 2);
    for _ in 0..3 {
        assert_eq!(port.wait(Interest::Receive, 0).unwrap(), Readiness::Ready);
        let text = port.receive(&mut batch).unwrap_err().to_string();
        assert!(text.contains("record that begins at byte 176: 66 of its 76 bytes are there"), "{text}");
        assert_eq!(port.stats().unwrap().rx_packets, 2);
    }
    // In a loop, too: it does not go round over a torn file.
    let mut port = try_open(&path, ",loop", &pool).unwrap();
    let mut batch = Batch::new(&pool, 16);
    assert_eq!(port.receive(&mut batch).unwrap(), 2);
    assert!(port.receive(&mut batch).is_err());
}

#[test]
fn a_full_disk_is_an_error_and_every_packet_is_accounted_for() {
    if !Path::new("/dev/full").exists() {
        eprintln!("skipped: no /dev/full");
        return;
    }
    let mut pool = pool();
    // The header is written at once.
    let refused = try_open(Path::new("/dev/full"), ",write", &pool).err().unwrap();
    assert!(refused.to_string().contains("os error 28"), "{refused}");
    // A limit on the size of files is not at hand without unsafe code; a closed pipe fails at any place as well.
    let directory = TempDir::new().unwrap();
    let fifo = directory.path().join("fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    if !made.is_ok_and(|status| status.success()) {
        eprintln!("skipped: no mkfifo");
        return;
    }
    let reader = std::thread::spawn({
        let fifo = fifo.clone();
        move || {
            let mut reader = CaptureReader::new(std::fs::File::open(fifo).unwrap()).unwrap();
            (0..100).filter(|_| reader.next().unwrap().is_some()).count()
        }
    });
    let mut port = try_open(&fifo, ",write", &pool).unwrap();
    let mut batch = Batch::new(&pool, 32);
    let mut taken = 0;
    let error = loop {
        pool.alloc(&mut batch, 32, 1000);
        let before = batch.len();
        let result = port.transmit(&mut batch);
        taken += before - batch.len();
        if let Err(error) = result {
            break error;
        }
        assert!(taken < 10_000_000, "the closed pipe is not noticed");
    };
    assert_eq!(reader.join().unwrap(), 100);
    assert!(matches!(error, PortError::Io { .. }), "{error}");
    assert!(port.flush().is_err() && port.transmit(&mut batch).is_err());
    let stats = port.stats().unwrap();
    assert_eq!(stats.tx_packets + stats.tx_dropped(), taken as u64);
    assert!(stats.tx_dropped() > 0 && stats.tx_drops[0].cause.contains("os error 32"), "{stats:?}");
    drop((port, batch));
    assert!(pool.is_whole());
}

#[test]
fn a_packet_without_a_time_gets_the_present() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("out.pcapng");
    let mut pool = pool();
    let mut port = try_open(&path, ",write", &pool).unwrap();
    let mut batch = Batch::new(&pool, 4);
    let before = linerate_sys::clock::realtime_ns();
    pool.alloc(&mut batch, 1, 60);
    port.transmit(&mut batch).unwrap();
    let after = linerate_sys::clock::realtime_ns();
    drop(port);
    let mut reader = CaptureReader::new(std::fs::File::open(&path).unwrap()).unwrap();
    let time_ns = reader.next().unwrap().unwrap().time_ns;
    assert!((before..=after).contains(&time_ns));
}

#[test]
fn names_that_mean_nothing_are_refused() {
    let directory = TempDir::new().unwrap();
    let path = file(&directory, &[60]);
    let pool = pool();
    let refusal = |path: &Path, options: &str| try_open(path, options, &pool).err().unwrap().to_string();
    assert!(refusal(&path, ",snaplen=9").contains("unknown option snaplen; file knows loop, pad, write"));
    assert!(refusal(&path, ",write,loop").contains("unknown option loop; file knows snaplen, write"));
    assert!(refusal(&path, ",loop=0").contains("loop=0"));
    assert!(refusal(&path, ",write,snaplen=0").contains("snaplen=0"));
    assert!(refusal(&path, "@3").contains("no queue to choose"));
    assert!(refusal(&directory.path().join("none.pcap"), "").contains("add ,write"));
    assert!(refusal(Path::new("/dev/null"), ",loop").contains("no regular file"));
    assert!(refusal(Path::new(""), "").contains("needs a path"));
    assert!(refusal(&directory.path().join("no/such/out.pcap"), ",write").contains("directory"));
}

#[test]
fn each_direction_refuses_the_other() {
    let directory = TempDir::new().unwrap();
    let path = file(&directory, &[60]);
    let mut pool = pool();
    let mut reading = try_open(&path, "", &pool).unwrap();
    let mut batch = Batch::new(&pool, 4);
    pool.alloc(&mut batch, 1, 60);
    assert!(matches!(reading.transmit(&mut batch), Err(PortError::Unsupported { .. })));
    assert_eq!((batch.len(), reading.wait(Interest::Transmit, 0).unwrap()), (1, Readiness::Closed));
    let mut writing = try_open(&directory.path().join("o.pcap"), ",write", &pool).unwrap();
    assert_eq!((writing.receive(&mut batch).unwrap(), batch.len()), (0, 1));
    assert!(!writing.caps().receives && !reading.caps().transmits);
}

#[test]
fn a_file_bigger_than_the_window_is_streamed() {
    let directory = TempDir::new().unwrap();
    let lens: Vec<usize> = (0..3000).map(|n| 14 + n * 7919 % 4000).collect();
    let path = file(&directory, &lens);
    assert!(std::fs::metadata(&path).unwrap().len() > 4_000_000);
    let mut pool = pool();
    let mut port = try_open(&path, "", &pool).unwrap();
    let packets = receive_all(&mut *port, &mut pool, 64);
    assert_eq!(packets.len(), lens.len());
    assert!(packets.iter().enumerate().all(|(n, (_, bytes))| *bytes == packet(n, lens[n])));
}

#[test]
fn a_file_of_packets_that_are_none_ends_and_keeps_nobody() {
    let directory = TempDir::new().unwrap();
    let mut pool = pool();
    let path = file(&directory, &[10; 10_000]);
    for options in ["", ",loop", ",loop=1000000"] {
        let mut port = try_open(&path, options, &pool).unwrap();
        let mut batch = Batch::new(&pool, 32);
        let mut calls = 0;
        while port.wait(Interest::Receive, 0).unwrap() != Readiness::Closed {
            assert_eq!(port.receive(&mut batch).unwrap(), 0);
            calls += 1;
        }
        assert_eq!(calls, 3, "a call passes over some thousands of them");
        assert_eq!(port.stats().unwrap().rx_dropped(), 10_000);
    }
    // One that is a packet is enough to go round.
    let path = file(&directory, &[10, 60]);
    let mut port = try_open(&path, ",loop=3", &pool).unwrap();
    assert_eq!(receive_all(&mut *port, &mut pool, 8).len(), 3);
}

#[test]
fn the_writer_of_a_named_pipe_is_not_waited_for() {
    use std::io::Write;
    let directory = TempDir::new().unwrap();
    let (fifo, whole) = (directory.path().join("fifo"), file(&directory, &[60, 70, 10, 80]));
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    if !made.is_ok_and(|status| status.success()) {
        eprintln!("skipped: no mkfifo");
        return;
    }
    let mut pool = pool();
    let mut batch = Batch::with_times(&pool, 8);
    let mut port = try_open(&fifo, "", &pool).unwrap();
    assert_eq!(port.receive(&mut batch).unwrap(), 0, "nobody writes yet");
    assert_eq!(port.wait(Interest::Receive, 1000).unwrap(), Readiness::TimedOut);
    let bytes = std::fs::read(&whole).unwrap();
    let mut writer = std::fs::OpenOptions::new().write(true).open(&fifo).unwrap();
    // A packet and a half.
    let cut = 24 + (16 + 60) + 20;
    writer.write_all(&bytes[..cut]).unwrap();
    assert_eq!(port.wait(Interest::Receive, u64::MAX).unwrap(), Readiness::Ready);
    assert_eq!(port.receive(&mut batch).unwrap(), 1);
    assert_eq!(batch.packet(0), packet(0, 60));
    assert_eq!(port.receive(&mut batch).unwrap(), 0);
    pool.free(&mut batch);
    writer.write_all(&bytes[cut..]).unwrap();
    drop(writer);
    let mut lens = Vec::new();
    while port.wait(Interest::Receive, u64::MAX).unwrap() != Readiness::Closed {
        port.receive(&mut batch).unwrap();
        lens.extend((0..batch.len()).map(|index| batch.packet(index).len()));
        pool.free(&mut batch);
    }
    assert_eq!(lens, [70, 80]);
    assert_eq!(port.stats().unwrap().rx_dropped(), 1);
    // One that nobody ever writes into is closed at once; one that holds something else says so.
    drop(try_open(&fifo, "", &pool).unwrap());
    let mut port = try_open(&fifo, "", &pool).unwrap();
    std::fs::OpenOptions::new().write(true).open(&fifo).unwrap().write_all(b"no capture at all").unwrap();
    assert_eq!(port.wait(Interest::Receive, u64::MAX).unwrap(), Readiness::Ready);
    assert!(port.receive(&mut batch).unwrap_err().to_string().contains("neither pcap nor pcapng"));
    assert!(try_open(&fifo, ",loop", &pool).err().unwrap().to_string().contains("no regular file"));
}

#[test]
fn a_new_file_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("out.pcap");
    drop(try_open(&path, ",write", &pool()).unwrap());
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}
