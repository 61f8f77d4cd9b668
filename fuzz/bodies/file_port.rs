//! Body of the fuzz target `file_port`: any bytes as a capture file behind a port. Also run by the tests of `linerate-port-file`.

use std::cell::RefCell;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use linerate_mem::{Batch, Pool, PoolConfig};
use linerate_pcapng::{CaptureReader, ETHERNET};
use linerate_port::{Interest, Port, PortSpec, Readiness};
use linerate_port_file::{FileReceiver, ReceiveOptions};

/// Calls of `receive` after which a file that is read for ever has been read for long enough.
const CALLS_MAX: usize = 64;
const PACKET_LEN_MIN: usize = 14;

thread_local!(static BENCH: RefCell<(File, Pool)> = RefCell::new((
    file(),
    Pool::new(PoolConfig { frames: 256, frame_size: 2048 }).expect("a pool"),
)));

/// The first byte says how the file is read, the others are the file. It ends, and each of its packets is handed out or counted as lost.
pub fn run(data: &[u8]) {
    let Some((how, capture)) = data.split_first() else { return };
    let passes = [Some(1), Some(3), None][usize::from(how % 3)];
    let options = ReceiveOptions { passes, pad: how & 0x80 != 0 };
    BENCH.with_borrow_mut(|(file, pool)| {
        file.set_len(0).and_then(|()| file.write_all_at(capture, 0)).expect("written");
        let spec: PortSpec = format!("file:/proc/self/fd/{}", file.as_raw_fd()).parse().expect("a name");
        match FileReceiver::open(&spec, pool, options) {
            Ok(port) => read(port, pool, options, capture),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    });
}

fn read(mut port: FileReceiver, pool: &mut Pool, options: ReceiveOptions, capture: &[u8]) {
    let mut batch = Batch::new(pool, 32);
    let (mut received, mut bytes, mut ended) = (0, 0, None);
    for _ in 0..CALLS_MAX {
        match port.receive(&mut batch) {
            Ok(0) if port.wait(Interest::Receive, 0).ok() == Some(Readiness::Closed) => ended = Some(true),
            Ok(count) => received += count as u64,
            Err(error) => {
                assert!(port.receive(&mut batch).is_err(), "an error stays: {error}");
                ended = Some(false);
            }
        }
        for packet in 0..batch.len() {
            bytes += batch.packet(packet).len() as u64;
        }
        pool.free(&mut batch);
        if ended.is_some() {
            break;
        }
    }
    let stats = port.stats().expect("counts");
    assert_eq!((stats.rx_packets, stats.rx_bytes), (received, bytes));
    let lost: u64 = stats.rx_drops.iter().map(|drops| drops.packets).sum();
    if let (Some(whole), Some(1)) = (ended, options.passes) {
        let (packets, good, all_read) = packets_of(capture, options.pad);
        assert_eq!(all_read, whole);
        assert_eq!(received + lost, packets);
        assert!(received <= good);
    }
}

/// Packets up to the end or the first error, those of them that are frames, and whether it was the end.
fn packets_of(capture: &[u8], pad: bool) -> (u64, u64, bool) {
    let mut reader = CaptureReader::new(capture).expect("it was opened");
    let (mut packets, mut good) = (0, 0);
    loop {
        match reader.next() {
            Ok(Some(head)) => {
                let len = if pad { head.len.max(head.original_len as usize) } else { head.len };
                packets += 1;
                good += u64::from(head.link_type == ETHERNET && len >= PACKET_LEN_MIN);
            }
            end => return (packets, good, end.is_ok()),
        }
    }
}

/// A file without a name.
fn file() -> File {
    let path = format!("/dev/shm/linerate-fuzz-file-{}-{:?}", std::process::id(), std::thread::current().id());
    let file = File::options().read(true).write(true).create_new(true).open(&path).expect("a file in /dev/shm");
    std::fs::remove_file(&path).expect("removing its name");
    file
}
