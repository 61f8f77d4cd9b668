//! Front-ends that write what cannot be, take away what they gave, stop, or are killed: each loses its own connection, says the
//! port why, and the next one finds a port that works.

mod common;

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use common::{
    Driver, EVENT_INDEX, GUEST, MERGEABLE, PATIENCE, PROTOCOL, Place, Shape, USER, VERSION_1, memory_file, packet,
    pool, receive, transmit, until,
};
use linerate_mem::{Batch, Pool};
use linerate_port::{Interest, Port, Readiness};
use linerate_port_vhost::VhostPort;
use linerate_testkit::child::{self, Child, Signal};
use vhost::vhost_user::VhostUserFrontend;
use vhost::{VhostBackend, VhostUserMemoryRegionInfo};
use vmm_sys_util::sock_ctrl_msg::ScmSocket;

/// What a driver receives and sends: all of the bodies below write to its rings.
const RX: usize = 0;
const TX: usize = 1;

/// Polls until the connection was given up `faults` times; the last reason.
fn fault(port: &mut VhostPort, pool: &mut Pool, faults: u64) -> String {
    let mut batch = Batch::new(pool, 64);
    until("giving up the connection", || {
        port.receive(&mut batch).unwrap();
        pool.free(&mut batch);
        assert!(pool.append(&mut batch, &packet(1, 60), 0));
        port.transmit(&mut batch).unwrap();
        pool.free(&mut batch);
        port.peers().faults >= faults
    });
    port.peers().last_fault.unwrap()
}

/// The port carries packets for a driver that behaves.
fn works(place: &Place, port: &mut VhostPort, pool: &mut Pool) {
    let mut driver = Driver::connect(&place.path(), Shape::default()).unwrap();
    for number in 0..300 {
        let there = packet(number, 60 + number);
        assert!(driver.send(0, &there));
        assert_eq!(receive(port, pool, 1), std::slice::from_ref(&there));
        transmit(port, pool, std::slice::from_ref(&there));
        assert_eq!(driver.receive(0), Some(there));
    }
}

type Attack = (&'static str, &'static str, fn(&mut Driver));

const ATTACKS: &[Attack] = &[
    ("index ahead", "available index 300 into a ring of 256", |driver| {
        driver.put16(driver.queues[TX].available + 2, 300);
    }),
    ("index back", "available index 65535 into a ring of 256", |driver| {
        driver.put16(driver.queues[TX].available + 2, 65_535);
    }),
    ("index of the other ring", "available index 1000 into a ring of 256", |driver| {
        driver.put16(driver.queues[RX].available + 2, 1000);
    }),
    ("head", "descriptor 256 into a table of 256", |driver| driver.make_available(TX, 256)),
    ("head far out", "descriptor 65535 into a table of 256", |driver| driver.make_available(TX, 65_535)),
    ("next", "descriptor 4000 into a table of 256", |driver| {
        driver.describe(driver.queues[TX].table, 0, GUEST, 60, 1, 4000);
        driver.make_available(TX, 0);
    }),
    ("loop of one", "a loop of descriptors", |driver| {
        driver.describe(driver.queues[TX].table, 0, GUEST, 1, 1, 0);
        driver.make_available(TX, 0);
    }),
    ("loop of empty ones", "a buffer without a byte", |driver| {
        driver.describe(driver.queues[TX].table, 0, GUEST, 0, 1, 1);
        driver.describe(driver.queues[TX].table, 1, GUEST, 0, 1, 0);
        driver.make_available(TX, 0);
    }),
    ("empty receive buffer", "a buffer without a byte", |driver| {
        driver.describe(driver.queues[RX].table, 0, GUEST, 0, 2, 0);
    }),
    ("chain too long", "a chain of more than 256", |driver| {
        let table = 0x3_0000;
        for number in 0..300 {
            driver.describe(table, number, GUEST, 1, 1, number + 1);
        }
        driver.describe(driver.queues[TX].table, 0, GUEST + table, 300 * 16, 4, 0);
        driver.make_available(TX, 0);
    }),
    ("address outside", "address 0x1000 (and 60 bytes) outside", |driver| {
        driver.describe(driver.queues[TX].table, 0, 0x1000, 60, 0, 0);
        driver.make_available(TX, 0);
    }),
    ("address of the front-end", "outside of its memory", |driver| {
        driver.describe(driver.queues[TX].table, 0, USER, 60, 0, 0);
        driver.make_available(TX, 0);
    }),
    ("end outside", "outside of its memory", |driver| {
        let end = GUEST + driver.memory.metadata().unwrap().len();
        driver.describe(driver.queues[TX].table, 0, end - 59, 60, 0, 0);
        driver.make_available(TX, 0);
    }),
    ("wrapping end", "outside of its memory", |driver| {
        driver.describe(driver.queues[TX].table, 0, u64::MAX - 3, 60, 0, 0);
        driver.make_available(TX, 0);
    }),
    ("length", "outside of its memory", |driver| {
        driver.describe(driver.queues[TX].table, 0, GUEST, u32::MAX, 0, 0);
        driver.make_available(TX, 0);
    }),
    ("buffer to be written", "a buffer to be written into a ring of buffers to be read", |driver| {
        driver.describe(driver.queues[TX].table, 0, GUEST, 80, 2, 0);
        driver.make_available(TX, 0);
    }),
    ("buffer to be read", "a buffer to be read into a ring of buffers to be written", |driver| {
        driver.describe(driver.queues[RX].table, 0, GUEST, 2048, 0, 0);
    }),
    ("receive buffer outside", "outside of its memory", |driver| {
        driver.describe(driver.queues[RX].table, 0, 0, 2048, 2, 0);
    }),
    ("table in a table", "a table of descriptors inside of another", |driver| {
        driver.describe(0x3_0000, 0, GUEST + 0x3_0000, 16, 4, 0);
        driver.describe(driver.queues[TX].table, 0, GUEST + 0x3_0000, 16, 4, 0);
        driver.make_available(TX, 0);
    }),
    ("length of a table", "of a length that no table has", |driver| {
        driver.describe(driver.queues[TX].table, 0, GUEST + 0x3_0000, 17, 4, 0);
        driver.make_available(TX, 0);
    }),
    ("empty table", "of a length that no table has", |driver| {
        driver.describe(driver.queues[TX].table, 0, GUEST + 0x3_0000, 0, 4, 0);
        driver.make_available(TX, 0);
    }),
    ("table and next", "with a next descriptor", |driver| {
        driver.describe(driver.queues[TX].table, 0, GUEST + 0x3_0000, 16, 4 | 1, 1);
        driver.make_available(TX, 0);
    }),
    ("table outside", "outside of its memory", |driver| {
        driver.describe(driver.queues[TX].table, 0, 16, 16, 4, 0);
        driver.make_available(TX, 0);
    }),
    ("next outside of a table", "descriptor 1 into a table of 1", |driver| {
        driver.describe(0x3_0000, 0, GUEST, 60, 1, 1);
        driver.describe(driver.queues[TX].table, 0, GUEST + 0x3_0000, 16, 4, 0);
        driver.make_available(TX, 0);
    }),
    ("memory cut short", "a memory region that it then cut short", |driver| {
        driver.memory.set_len(0).unwrap();
    }),
    ("memory cut short by a page", "a memory region that it then cut short", |driver| {
        let at = driver.memory.metadata().unwrap().len() - 4096;
        driver.describe(driver.queues[TX].table, 0, GUEST + at, 80, 0, 0);
        driver.memory.set_len(at).unwrap();
        driver.make_available(TX, 0);
    }),
];

#[test]
fn rings_that_cannot_be_cost_the_connection_and_nothing_else() {
    let (place, mut pool) = (Place::new(), pool());
    let mut port = place.open("", &pool);
    for (round, (name, words, attack)) in (1..).zip(ATTACKS) {
        let mut driver = Driver::connect(&place.path(), Shape::default()).unwrap();
        let before = packet(round as usize, 100);
        assert!(driver.send(0, &before));
        assert_eq!(receive(&mut port, &mut pool, 1), [before], "{name}");
        attack(&mut driver);
        let said = fault(&mut port, &mut pool, round);
        assert!(said.contains(words), "{name}: {said:?}, not {words:?}");
        assert!(driver.settle().is_err(), "{name}: still answered");
    }
    works(&place, &mut port, &mut pool);
    drop(port);
    pool.flush();
    assert!(pool.is_whole());
}

#[test]
fn tables_that_were_not_agreed_on() {
    let (place, mut pool) = (Place::new(), pool());
    let mut port = place.open("", &pool);
    let features = MERGEABLE | EVENT_INDEX | PROTOCOL | VERSION_1;
    let mut driver = Driver::connect(&place.path(), Shape { features, ..Shape::default() }).unwrap();
    driver.describe(driver.queues[TX].table, 0, GUEST + 0x3_0000, 16, 4, 0);
    driver.make_available(TX, 0);
    assert!(fault(&mut port, &mut pool, 1).contains("without having agreed"));
    works(&place, &mut port, &mut pool);
}

/// Rubbish that keeps within the rules of rings: packets that are none.
#[test]
fn packets_that_cannot_be_forwarded_are_counted() {
    let (place, pool) = (Place::new(), pool());
    let mut port = place.open("", &pool);
    let mut driver = Driver::connect(&place.path(), Shape::default()).unwrap();
    let header = |flags: u8, kind: u8| [&[flags, kind][..], &[0; 10]].concat();
    let with = |header: Vec<u8>, len: usize| [header, packet(7, len)].concat();
    assert!(driver.send_raw(0, &[0; 5]));
    assert!(driver.send_raw(0, &header(0, 0)));
    assert!(driver.send_raw(0, &with(header(0, 0), 13)));
    assert!(driver.send_raw(0, &with(header(1, 0), 60)));
    assert!(driver.send_raw(0, &with(header(0, 1), 60)));
    assert!(driver.send_raw(0, &with(header(0, 0), 1519)));
    assert!(driver.send_raw(0, &with(header(0, 0), 1518)));
    // A flag that says something about a packet that is complete.
    assert!(driver.send_raw(0, &with(header(2, 0), 60)));
    let mut batch = Batch::new(&pool, 64);
    until("all packets", || {
        port.receive(&mut batch).unwrap();
        driver.used_index(TX) == 8
    });
    assert_eq!(batch.iter().map(<[u8]>::len).collect::<Vec<_>>(), [1518, 60]);
    let stats = port.stats().unwrap();
    let drops: Vec<_> = stats.rx_drops.iter().map(|drops| (drops.cause.as_str(), drops.packets)).collect();
    let wanted = [
        ("shorter than an ethernet header", 3),
        ("longer than the mtu allows", 1),
        ("checksum or segments left to the device", 2),
    ];
    assert_eq!((drops.as_slice(), stats.rx_packets), (wanted.as_slice(), 2));
}

#[test]
fn buffers_of_any_length_take_what_they_can() {
    let (place, mut pool) = (Place::new(), pool());
    // One of 20 buffers and less takes nothing; many together do.
    for (features, buffer, fits) in [(0, 1024, 1014), (VERSION_1 | PROTOCOL, 11, 0), (MERGEABLE | PROTOCOL, 16, 1518)] {
        let mut port = place.open("", &pool);
        let shape = Shape { features, buffer, ..Shape::default() };
        let mut driver = Driver::connect(&place.path(), shape).unwrap();
        for len in [14, 60, 1014, 1015, 1518] {
            let sent = packet(len, len);
            let before = port.stats().unwrap();
            transmit(&mut port, &mut pool, std::slice::from_ref(&sent));
            let now = port.stats().unwrap();
            assert_eq!(now.tx_packets - before.tx_packets, u64::from(len <= fits), "{len} bytes, {shape:?}");
            assert_eq!(driver.receive(0), (len <= fits).then_some(sent), "{len} bytes, {shape:?}");
        }
        let drops = port.stats().unwrap().tx_drops;
        assert!(drops.is_empty() || drops[0].cause.contains("buffers are too short"), "{drops:?}");
    }
}

#[test]
fn requests_that_cannot_be_cost_the_connection_and_nothing_else() {
    let (place, mut pool) = (Place::new(), pool());
    let mut port = place.open("", &pool);
    type Request = fn(&mut Driver) -> bool;
    let requests: &[(&str, Request)] = &[
        ("which were not offered", |driver| driver.frontend.set_features(1 << 34).is_err()),
        ("a ring of 3 entries", |driver| driver.frontend.set_vring_num(0, 3).is_err()),
        ("a ring of 0 entries", |driver| driver.frontend.set_vring_num(0, 0).is_err()),
        ("outside of its memory", |driver| {
            driver.announce_memory().unwrap();
            driver.queues[0].used = 1 << 40;
            driver.start_queue(0).is_err()
        }),
        ("invalid message", |driver| {
            driver.announce_memory().unwrap();
            driver.queues[0].table += 8;
            driver.start_queue(0).is_err()
        }),
        ("up to byte", |driver| {
            let region = VhostUserMemoryRegionInfo { mmap_offset: 1 << 40, ..driver.region() };
            driver.frontend.set_mem_table(&[region]).is_err()
        }),
        ("neither a memfd", |driver| {
            driver.memory = std::fs::File::open("/proc/self/status").unwrap();
            let region = VhostUserMemoryRegionInfo { memory_size: 4096, ..driver.region() };
            driver.frontend.set_mem_table(&[region]).is_err()
        }),
        ("that there is not", |driver| driver.frontend.remove_mem_region(&driver.region()).is_err()),
    ];
    for (round, (words, request)) in (1..).zip(requests) {
        let mut driver = Driver::connect_only(&place.path(), Shape::default()).unwrap();
        assert!(request(&mut driver), "{words}");
        let said = fault(&mut port, &mut pool, round);
        assert!(said.contains(words), "{said:?}, not {words:?}");
    }
    works(&place, &mut port, &mut pool);
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

#[test]
fn messages_that_cannot_be_cost_the_connection_and_nothing_else() {
    let (place, mut pool) = (Place::new(), pool());
    let mut port = place.open("", &pool);
    let messages = [
        words(&[0, 1, 0]),
        words(&[999, 1, 0]),
        words(&[1, 1, u32::MAX]),
        words(&[2, 1, 4, 0]),
        words(&[1, 2, 0]),
        words(&[5, 1, 8, 1, 0]),
        words(&[5, 1, 40, 33, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        words(&[9, 1, 40, 0, 0xff, 0, 0, 0, 0, 0, 0, 0, 0]),
        words(&[12, 1, 8, 0, 0]),
        words(&[12, 1, 8, 0xff, 0]),
        words(&[18, 1, 8, 0, 2]),
        words(&[18, 9, 8, 99, 1]),
        words(&[20, 1, 8, 1500, 0]),
        words(&[37, 1, 40, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        vec![0xff; 64],
    ];
    for (round, message) in (1..).zip(&messages) {
        let mut stream = UnixStream::connect(place.path()).unwrap();
        stream.write_all(message).unwrap();
        assert!(!fault(&mut port, &mut pool, round).is_empty(), "{message:x?}");
    }
    works(&place, &mut port, &mut pool);
}

#[test]
fn only_eventfds_are_waited_for() {
    let (place, mut pool) = (Place::new(), pool());
    let mut port = place.open("", &pool);
    // A pipe that is full, or empty, could make this process wait.
    for (round, request) in (1..).zip([12, 13]) {
        let stream = UnixStream::connect(place.path()).unwrap();
        let (reader, writer) = std::io::pipe().unwrap();
        let fd = if request == 12 { reader.into() } else { std::os::fd::OwnedFd::from(writer) };
        stream.send_with_fd(words(&[request, 1, 8, 0, 0]).as_slice(), std::os::fd::AsRawFd::as_raw_fd(&fd)).unwrap();
        assert!(fault(&mut port, &mut pool, round).contains("no eventfd: pipe:"));
    }
    works(&place, &mut port, &mut pool);
}

/// A front-end whose eventfd has everybody wait who writes to it, and which has begun a message, so that nobody reads another.
#[test]
fn an_eventfd_that_is_jammed_keeps_nobody() {
    let (place, mut pool) = (Place::new(), pool());
    let mut port = place.open("", &pool);
    // Without event indices each packet is an interrupt.
    let shape = Shape { features: MERGEABLE | PROTOCOL | VERSION_1, ..Shape::default() };
    let stream = UnixStream::connect(place.path()).unwrap();
    let mut driver = Driver::on(stream.try_clone().unwrap(), shape).unwrap();
    driver.start().unwrap();
    let mut call = same_file(driver.queues[RX].call.as_raw_fd());
    transmit(&mut port, &mut pool, &[packet(1, 60)]);
    let _ = call.read(&mut [0; 8]).unwrap();
    // Any kind of descriptor can be made to wait by this.
    UnixStream::from(OwnedFd::from(call.try_clone().unwrap())).set_nonblocking(false).unwrap();
    call.write_all(&(u64::MAX - 1).to_ne_bytes()).unwrap();
    (&stream).write_all(&words(&[1])).unwrap();
    let (sender, returned) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        transmit(&mut port, &mut pool, &[packet(2, 60)]);
        // Whoever asked may be gone.
        let _ = sender.send((port, pool));
    });
    let (mut port, mut pool) = returned.recv_timeout(PATIENCE).expect("the port hangs");
    let said = fault(&mut port, &mut pool, 1);
    assert!(said.contains("makes whoever writes to it wait"), "{said}");
    works(&place, &mut port, &mut pool);
}

/// Another descriptor of the same open file.
fn same_file(fd: RawFd) -> File {
    let (there, here) = UnixStream::pair().unwrap();
    there.send_with_fd([0u8].as_slice(), fd).unwrap();
    here.recv_with_fd(&mut [0]).unwrap().1.unwrap()
}

#[test]
fn half_a_message_keeps_nobody() {
    let (place, mut pool) = (Place::new(), pool());
    let mut port = place.open("", &pool);
    let mut stream = UnixStream::connect(place.path()).unwrap();
    stream.write_all(&words(&[1, 1])).unwrap();
    until("the connection", || port.peers().connected);
    transmit(&mut port, &mut pool, &[packet(1, 60)]);
    assert_eq!(port.stats().unwrap().tx_drops[0].cause, "the guest's driver is not ready");
    // Closing the port does not wait for the rest.
    drop(port);
    assert!(!place.path().exists());
}

#[test]
fn one_front_end_at_a_time() {
    let (place, mut pool) = (Place::new(), pool());
    let mut port = place.open("", &pool);
    let mut first = Driver::connect(&place.path(), Shape::default()).unwrap();
    assert!(Driver::connect(&place.path(), Shape::default()).is_err());
    assert!(first.send(0, &packet(1, 60)));
    assert_eq!(receive(&mut port, &mut pool, 1).len(), 1);
    assert_eq!((port.peers().connections, port.peers().faults), (1, 0));
    drop(first);
    until("its end", || !port.peers().connected);
    works(&place, &mut port, &mut pool);
}

#[test]
fn a_guest_that_stops_fills_its_ring_and_no_more() {
    let (place, mut pool) = (Place::new(), pool());
    let mut port = place.open("", &pool);
    let other_place = Place::new();
    let mut other = other_place.open("", &pool);
    let _stopped = Driver::connect(&place.path(), Shape::default()).unwrap();
    transmit(&mut port, &mut pool, &vec![packet(1, 60); 256]);
    let mut batch = Batch::new(&pool, 8);
    assert!(pool.append(&mut batch, &packet(1, 60), 0));
    for _ in 0..3 {
        assert_eq!(port.transmit(&mut batch).unwrap(), 0);
        assert_eq!(port.wait(Interest::Transmit, 1_000_000).unwrap(), Readiness::TimedOut);
    }
    works(&other_place, &mut other, &mut pool);
}

#[test]
fn a_driver_that_goes_on_where_it_was_finds_its_packets_in_order() {
    let (place, mut pool) = (Place::new(), pool());
    let mut driver = {
        let mut port = place.open("", &pool);
        let mut driver = Driver::connect(&place.path(), Shape::default()).unwrap();
        assert!(driver.send(0, &packet(1, 60)) && driver.send(0, &packet(2, 60)));
        assert_eq!(receive(&mut port, &mut pool, 2), [packet(1, 60), packet(2, 60)]);
        transmit(&mut port, &mut pool, &[packet(3, 60)]);
        driver
    };
    // The port is gone. The driver sends on, and its front-end finds the next port; it says that the rings begin at 0.
    assert!(driver.send(0, &packet(4, 60)));
    let mut port = place.open("", &pool);
    driver.frontend = vhost::vhost_user::Frontend::connect(place.path(), 2).unwrap();
    common::negotiate(&mut driver.frontend, driver.shape.features).unwrap();
    driver.announce_memory().unwrap();
    driver.start_queue(RX).unwrap();
    driver.start_queue(TX).unwrap();
    assert_eq!(receive(&mut port, &mut pool, 1), [packet(4, 60)]);
    transmit(&mut port, &mut pool, &[packet(5, 60)]);
    assert_eq!((driver.receive(0), driver.receive(0)), (Some(packet(3, 60)), Some(packet(5, 60))));
    // A ring that is stopped tells where it is, and goes on from there.
    assert_eq!(driver.frontend.get_vring_base(TX).unwrap(), 3);
    assert!(driver.send(0, &packet(6, 60)));
    driver.start_queue(TX).unwrap();
    assert_eq!(receive(&mut port, &mut pool, 1), [packet(6, 60)]);
}

#[test]
fn memory_comes_and_goes_in_pieces() {
    let (place, mut pool) = (Place::new(), pool());
    let mut port = place.open("", &pool);
    let mut driver = Driver::connect(&place.path(), Shape::default()).unwrap();
    // A packet whose bytes lie in two regions that follow each other.
    let (more, start) = (memory_file(0x2000), driver.memory.metadata().unwrap().len());
    let region = VhostUserMemoryRegionInfo {
        guest_phys_addr: GUEST + start,
        memory_size: 0x2000,
        userspace_addr: USER + start,
        mmap_offset: 0,
        mmap_handle: std::os::fd::AsRawFd::as_raw_fd(&more),
    };
    driver.frontend.add_mem_region(&region).unwrap();
    let bytes = [vec![0; 12], packet(9, 60)].concat();
    driver.put(start - 40, &bytes[..40]);
    std::os::unix::fs::FileExt::write_all_at(&more, &bytes[40..], 0).unwrap();
    driver.describe(driver.queues[TX].table, 0, GUEST + start - 40, 72, 0, 0);
    driver.make_available(TX, 0);
    assert_eq!(receive(&mut port, &mut pool, 1), [packet(9, 60)]);
    driver.frontend.remove_mem_region(&region).unwrap();
    assert!(driver.send(0, &packet(10, 60)));
    assert_eq!(receive(&mut port, &mut pool, 1), [packet(10, 60)]);
    driver.describe(driver.queues[TX].table, 0, GUEST + start, 72, 0, 0);
    driver.make_available(TX, 0);
    assert!(fault(&mut port, &mut pool, 1).contains("outside of its memory"));
}

#[test]
fn a_port_that_sleeps_is_woken() {
    let (place, pool) = (Place::new(), pool());
    let mut port = place.open("", &pool);
    assert_eq!(port.wait(Interest::Receive, 1_000_000).unwrap(), Readiness::TimedOut);
    let path = place.path();
    for features in [MERGEABLE | EVENT_INDEX | PROTOCOL | VERSION_1, PROTOCOL | VERSION_1] {
        let path = path.clone();
        let driver = std::thread::spawn(move || {
            let mut driver = Driver::connect(&path, Shape { features, ..Shape::default() }).unwrap();
            for number in 0..200 {
                until("room", || driver.send(0, &packet(number, 60)));
                std::thread::sleep(Duration::from_micros(300));
            }
            until("the end", || driver.used_index(TX) == 200);
        });
        // Nothing but notifications ends these sleeps; one that is missed lasts for ever.
        let mut batch = Batch::new(&pool, 256);
        while batch.len() < 200 {
            assert_eq!(port.wait(Interest::Receive, u64::MAX).unwrap(), Readiness::Ready);
            port.receive(&mut batch).unwrap();
        }
        driver.join().unwrap();
        until("its end", || !port.peers().connected);
    }
}

#[test]
fn child_driver() {
    let Some(path) = child::task() else { return };
    let mut driver = Driver::connect(path.as_ref(), Shape::default()).unwrap();
    std::thread::spawn(move || {
        loop {
            driver.send(0, &packet(1, 60));
            driver.receive(0);
        }
    });
    child::ready_and_wait();
}

#[test]
fn a_driver_that_is_killed_under_load_is_followed_by_the_next() {
    let (place, mut pool) = (Place::new(), pool());
    let mut port = place.open("", &pool);
    let mut batch = Batch::new(&pool, 256);
    let mut spin = |port: &mut VhostPort, pool: &mut Pool| {
        port.receive(&mut batch).unwrap();
        pool.free(&mut batch);
        assert!(pool.append(&mut batch, &packet(1, 60), 0));
        port.transmit(&mut batch).unwrap();
        pool.free(&mut batch);
    };
    for round in 1..=10 {
        let child = Child::start("child_driver", place.path().to_str().unwrap()).unwrap();
        let before = port.stats().unwrap();
        until("traffic", || {
            spin(&mut port, &mut pool);
            let now = port.stats().unwrap();
            now.rx_packets > before.rx_packets + 10 * round && now.tx_packets > before.tx_packets + 10 * round
        });
        let end = std::thread::spawn(move || child.end(Signal::Kill).unwrap());
        until("its end", || {
            spin(&mut port, &mut pool);
            !port.peers().connected
        });
        end.join().unwrap();
        assert_eq!((port.peers().connections, port.peers().faults), (round, 0), "{:?}", port.peers());
    }
    works(&place, &mut port, &mut pool);
    drop(batch);
    drop(port);
    pool.flush();
    assert!(pool.is_whole());
}

#[test]
fn a_port_that_connects_finds_its_front_end_again() {
    let (place, mut pool) = (Place::new(), pool());
    // Nobody listens yet.
    let mut port = place.open(",role=client", &pool);
    for round in 1..=3 {
        let listener = std::os::unix::net::UnixListener::bind(place.path()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        let mut driver = Driver::on(stream, Shape::default()).unwrap();
        driver.start().unwrap();
        assert!(driver.send(0, &packet(round, 60)));
        assert_eq!(receive(&mut port, &mut pool, 1), [packet(round, 60)]);
        drop((driver, listener));
        std::fs::remove_file(place.path()).unwrap();
        until("its end", || !port.peers().connected);
    }
}
