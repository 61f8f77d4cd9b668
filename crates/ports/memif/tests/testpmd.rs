//! DPDK at the other end: dpdk-testpmd's net_memif in both roles, counted to the packet.

mod common;
#[path = "common/testpmd.rs"]
mod testpmd;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use common::{CONFIG, Socket, connected, pool, until};
use linerate_mem::{Batch, Pool};
use linerate_port::{Interest, Port};
use linerate_port_memif::MemifPort;
use testpmd::Testpmd;

const PATIENCE: Duration = Duration::from_secs(120);

/// Huge pages (2 MiB each) that one testpmd takes at most.
const HUGE_PAGES: u32 = 110;

/// One testpmd at a time: each spins on a core. `None`, and said so, where there is none.
fn turn() -> Option<MutexGuard<'static, ()>> {
    static TURN: Mutex<()> = Mutex::new(());
    if let Some(why) = testpmd::missing() {
        eprintln!("skipped: {why}");
        return None;
    }
    Some(TURN.lock().unwrap_or_else(PoisonError::into_inner))
}

/// A testpmd, and a port of ours in the other role, connected.
struct Rig {
    /// The port of the first queue pair.
    port: MemifPort,
    /// Those of the others.
    others: Vec<MemifPort>,
    pool: Pool,
    testpmd: Testpmd,
    _socket: Socket,
}

impl Rig {
    /// `vdev` and `port` are options of the two ends; testpmd is the client if we are the server.
    fn start(serves: bool, vdev: &str, mode: &str, more: &[&str], port: &str, huge: bool) -> Rig {
        let socket = Socket::new();
        let pool = if port.contains("zerocopy") { socket.pool(CONFIG).unwrap() } else { pool() };
        let (ours, theirs) = if serves { ("server", "client") } else { ("client", "server") };
        let arguments = format!("net_memif0,role={theirs},socket={},socket-abstract=no{vdev}", socket.path());
        let open = || socket.open_all(&format!(",role={ours}{port}"), &pool).unwrap();
        let start = || Testpmd::start(&arguments, mode, more, huge).unwrap();
        let (mut ports, mut testpmd) = if serves {
            let ports = open();
            (ports, start())
        } else {
            let testpmd = start();
            (open(), testpmd)
        };
        testpmd.tell("start");
        let (port, others) = (ports.remove(0), ports);
        let mut rig = Rig { port, others, pool, testpmd, _socket: socket };
        connected(&mut [&mut rig.port]).unwrap();
        rig
    }

    /// Sends so many packets of `len` bytes, each with its number; they are all taken.
    fn send(&mut self, count: u32, len: usize) {
        let mut batch = Batch::new(&self.pool, 64);
        let (mut made, mut sent) = (0, 0);
        let deadline = Instant::now() + PATIENCE;
        while sent < count {
            assert!(Instant::now() < deadline, "{sent} of {count} packets were taken");
            while made < count && self.pool.append(&mut batch, &packet(made, len), 0) {
                made += 1;
            }
            let taken = self.port.transmit(&mut batch).unwrap();
            if taken == 0 {
                self.port.wait(Interest::Transmit, 10_000_000).unwrap();
            }
            sent += taken as u32;
        }
    }

    /// Sends packets that testpmd sends back, at most 200 at a time, and compares them.
    fn exchange(&mut self, count: u32, len: usize) {
        let (mut incoming, mut back) = (Batch::new(&self.pool, 256), 0);
        let mut outgoing = Batch::new(&self.pool, 64);
        let deadline = Instant::now() + PATIENCE;
        let mut made = 0u32;
        while back < count {
            if Instant::now() > deadline {
                let (counted, stats) = (self.testpmd.counters(), self.port.stats());
                panic!("{back} of {count} packets came back; testpmd counted {counted:?}, we {stats:?}");
            }
            while made < count && made - back < 200 && self.pool.append(&mut outgoing, &packet(made, len), 0) {
                made += 1;
            }
            self.port.transmit(&mut outgoing).unwrap();
            if self.port.receive(&mut incoming).unwrap() == 0 {
                self.port.wait(Interest::Receive, 1_000_000).unwrap();
            }
            let mut bytes = Vec::new();
            for part in incoming.parts() {
                bytes.extend_from_slice(part.bytes);
                if !part.more {
                    assert!(bytes == packet(back, len), "packet {back} of {len} bytes came back changed");
                    back += 1;
                    bytes.clear();
                }
            }
            self.pool.free(&mut incoming);
        }
    }

    /// Takes the packets that wait in all queues; how many came since the start.
    fn take(&mut self) -> u64 {
        let mut batch = Batch::new(&self.pool, 64);
        let mut received = 0;
        for port in std::iter::once(&mut self.port).chain(&mut self.others) {
            // A testpmd that sends does not end: each queue has its turn.
            for _ in 0..100 {
                if port.receive(&mut batch).unwrap() == 0 {
                    break;
                }
                assert!(batch.totals().bytes.is_multiple_of(64), "testpmd sends packets of 64 bytes");
                self.pool.free(&mut batch);
            }
            received += port.stats().unwrap().rx_packets;
        }
        received
    }

    /// Everything that testpmd sent, after it was stopped.
    fn drain(&mut self) -> u64 {
        self.testpmd.tell("stop");
        let deadline = Instant::now() + PATIENCE;
        loop {
            let (_, sent) = self.testpmd.counters().unwrap();
            let again = self.testpmd.counters().unwrap().1;
            let received = self.take();
            if sent == again && received >= sent {
                assert_eq!(received, sent);
                return sent;
            }
            assert!(Instant::now() < deadline, "testpmd sent {sent}, {received} came");
        }
    }
}

fn packet(number: u32, len: usize) -> Vec<u8> {
    let mut bytes = vec![number as u8; len];
    bytes[..12].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
    bytes[14..18].copy_from_slice(&number.to_be_bytes());
    bytes
}

fn receives(serves: bool, vdev: &str, more: &[&str], port: &str, huge: bool) {
    let mut rig = Rig::start(serves, vdev, "txonly", more, port, huge);
    until("packets", || rig.take() > 20_000).unwrap();
    assert!(rig.drain() > 20_000);
}

fn sends(serves: bool, vdev: &str, more: &[&str], port: &str, huge: bool) {
    let mut rig = Rig::start(serves, vdev, "rxonly", more, port, huge);
    rig.send(20_000, 60);
    until("all packets at testpmd", || rig.testpmd.counters().unwrap().0 >= 20_000).unwrap();
    assert_eq!(rig.testpmd.counters().unwrap().0, 20_000);
    assert_eq!(rig.port.stats().unwrap().tx_packets, 20_000);
}

#[test]
fn a_server_receives_from_and_sends_to_testpmd() {
    let Some(_turn) = turn() else { return };
    receives(true, "", &[], "", false);
    sends(true, "", &[], "", false);
}

#[test]
fn a_client_receives_from_and_sends_to_testpmd() {
    let Some(_turn) = turn() else { return };
    receives(false, "", &[], "", false);
    sends(false, "", &[], ",slots=256", false);
}

#[test]
fn every_byte_comes_back_in_both_roles_and_all_lengths() {
    let Some(_turn) = turn() else { return };
    for serves in [true, false] {
        let mut rig = Rig::start(serves, "", "io", &[], "", false);
        for len in [60, 64, 65, 128, 1514, 2048] {
            rig.exchange(500, len);
        }
    }
}

/// Longer than a buffer, so over several: testpmd chains mbufs.
#[test]
fn long_packets_go_over_several_buffers() {
    let Some(_turn) = turn() else { return };
    for serves in [true, false] {
        let mut rig = Rig::start(serves, "", "io", &["--tx-offloads=0x8000"], "", false);
        for len in [4000, 9014, 60, 2049, 100] {
            rig.exchange(200, len);
        }
    }
}

#[test]
fn a_testpmd_that_copies_nothing() {
    let Some(_turn) = turn() else { return };
    if testpmd::free_huge_pages() < HUGE_PAGES {
        return eprintln!("skipped: zero-copy in DPDK needs {HUGE_PAGES} free huge pages");
    }
    receives(true, ",zero-copy=yes", &[], "", true);
    sends(true, ",zero-copy=yes", &[], "", true);
    let mut rig = Rig::start(true, ",zero-copy=yes", "io", &[], "", true);
    for len in [60, 1514] {
        rig.exchange(500, len);
    }
}

/// Our frames, in testpmd's hands.
#[test]
fn a_client_that_copies_nothing_receives_from_and_sends_to_testpmd() {
    let Some(_turn) = turn() else { return };
    receives(false, "", &[], ",zerocopy", false);
    sends(false, "", &[], ",zerocopy", false);
    let mut rig = Rig::start(false, "", "io", &["--tx-offloads=0x8000"], ",zerocopy", false);
    for len in [60, 64, 65, 1514, 1600, 2048, 4000, 9014, 60] {
        rig.exchange(300, len);
    }
}

/// A testpmd that had our frames is killed with them; the next one gets them.
#[test]
fn a_testpmd_with_our_frames_is_killed_and_comes_again() {
    let Some(_turn) = turn() else { return };
    let socket = Socket::new();
    let mut pool = socket.pool(CONFIG).unwrap();
    let vdev = format!("net_memif0,role=server,socket={},socket-abstract=no", socket.path());
    let mut port = socket.open(",role=client,zerocopy", &pool).unwrap();
    for _ in 0..2 {
        let mut testpmd = Testpmd::start(&vdev, "rxonly", &[], false).unwrap();
        connected(&mut [&mut port]).unwrap();
        testpmd.tell("start");
        let mut batch = Batch::new(&pool, 64);
        let mut sent = 0;
        until("packets to go", || {
            pool.alloc(&mut batch, 64, 60);
            batch.iter_mut().for_each(|bytes| bytes.fill(2));
            sent += port.transmit(&mut batch).unwrap();
            sent > 20_000
        })
        .unwrap();
        testpmd.kill();
        // It left its socket behind.
        let _ = std::fs::remove_file(socket.path());
        until("end", || !port.is_connected().unwrap()).unwrap();
    }
    drop(port);
    pool.flush();
    assert!(pool.is_whole());
}

#[test]
fn several_queues_of_testpmd() {
    let Some(_turn) = turn() else { return };
    for serves in [true, false] {
        receives(serves, "", &["--rxq=2", "--txq=2"], ",rings=2", false);
        sends(serves, "", &["--rxq=2", "--txq=2"], ",rings=2", false);
    }
}

#[test]
fn a_testpmd_with_a_secret_that_is_killed_and_comes_again() {
    let Some(_turn) = turn() else { return };
    let (socket, pool) = (Socket::new(), pool());
    let mut port = socket.open(",secret=abc", &pool).unwrap();
    let vdev =
        |secret: &str| format!("net_memif0,role=client,socket={},socket-abstract=no,secret={secret}", socket.path());
    let wrong = Testpmd::start(&vdev("abd"), "io", &[], false).unwrap();
    assert!(!port.is_connected().unwrap());
    drop(wrong);
    let testpmd = Testpmd::start(&vdev("abc"), "io", &[], false).unwrap();
    connected(&mut [&mut port]).unwrap();
    testpmd.kill();
    until("end", || !port.is_connected().unwrap()).unwrap();
    let mut testpmd = Testpmd::start(&vdev("abc"), "io", &[], false).unwrap();
    connected(&mut [&mut port]).unwrap();
    testpmd.tell("start");
    let mut rig = Rig { port, others: Vec::new(), pool, testpmd, _socket: socket };
    rig.exchange(500, 60);
}
