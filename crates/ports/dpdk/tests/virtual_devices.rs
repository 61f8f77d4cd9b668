//! Packets through DPDK's virtual devices, with something else than DPDK at their far side where there can be.
#![cfg(feature = "libdpdk")]

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use linerate_mem::{Batch, Pool};
use linerate_port::{Caps, Device, Interest, LinkState, OpenError, Port};
use linerate_sys::netdev::Netdev;
use linerate_sys::netns::NetNs;
use linerate_sys::veth::{self, VethEnd};
use linerate_testkit::or_skip;

/// Longest time that something may take which must happen.
const PATIENCE: Duration = Duration::from_secs(20);

fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn pool() -> Pool {
    Pool::new(Default::default()).unwrap()
}

fn try_open(text: &str, pool: &Pool) -> Result<Box<dyn Port>, OpenError> {
    linerate_port_dpdk::open(text.parse().unwrap(), pool).map(|device| device.boxed().into_port())
}

fn open(text: &str, pool: &Pool) -> Box<dyn Port> {
    try_open(text, pool).unwrap_or_else(|error| panic!("{error}"))
}

/// A broadcast packet of an experimental ethertype: number, then filler that depends on it.
fn packet(number: u32, len: usize) -> Vec<u8> {
    let mut bytes = vec![0xff; 6];
    bytes.extend([2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
    bytes.extend(number.to_be_bytes());
    bytes.extend((bytes.len()..len).map(|at| (at as u32 ^ number) as u8));
    bytes
}

/// The packets that were sent so, among those that arrived.
fn ours(batch: &Batch, found: &mut Vec<Vec<u8>>) {
    found.extend(batch.iter().filter(|bytes| bytes.get(12..14) == Some(&[0x88, 0xb5])).map(<[u8]>::to_vec));
}

/// Sends packets of several lengths, each of which must arrive as it is, and returns what the receiver says of itself.
fn exchange(pool: &Pool, sender: &mut dyn Port, receiver: &mut dyn Port) -> Caps {
    let sent: Vec<Vec<u8>> = (0..600).map(|number| packet(number, [60, 61, 128, 1514][number as usize % 4])).collect();
    let (mut pool, mut found) = (pool.clone(), Vec::new());
    let (mut outgoing, mut incoming) = (Batch::new(&pool, 32), Batch::new(&pool, 64));
    let (mut next, deadline) = (0, Instant::now() + PATIENCE);
    while found.len() < sent.len() {
        // At most one batch is under way, so that no ring overflows.
        if outgoing.is_empty() && found.len() == next && next < sent.len() {
            for bytes in sent[next..].iter().take(24) {
                assert!(pool.append(&mut outgoing, bytes, 0));
            }
            next += outgoing.len();
        }
        sender.transmit(&mut outgoing).unwrap();
        sender.flush().unwrap();
        receiver.receive(&mut incoming).unwrap();
        ours(&incoming, &mut found);
        pool.free(&mut incoming);
        if Instant::now() > deadline {
            panic!(
                "{} of {} packets came; sender {:?}, receiver {:?}",
                found.len(),
                next,
                sender.stats(),
                receiver.stats()
            );
        }
    }
    assert_eq!(found, sent);
    let (sent, received) = (sender.stats().unwrap(), receiver.stats().unwrap());
    assert!(sent.tx_packets >= 600 && received.rx_packets >= 600, "{sent:?} {received:?}");
    receiver.caps().clone()
}

/// Waits until packets can pass.
fn wait_for_link(pool: &Pool, ports: &mut [&mut dyn Port]) {
    let deadline = Instant::now() + PATIENCE;
    let mut batch = Batch::new(pool, 32);
    loop {
        let mut names = Vec::new();
        for port in ports.iter_mut() {
            if port.link().unwrap() == LinkState::Down {
                names.push(port.caps().name.clone());
            }
        }
        // A side that has never received may not have given buffers to the other.
        for port in ports.iter_mut() {
            port.receive(&mut batch).unwrap();
            port.wait(Interest::Receive, 1_000_000).unwrap();
        }
        if names.is_empty() {
            return;
        }
        assert!(Instant::now() < deadline, "no link: {names:?}");
    }
}

/// A veth pair in a namespace: DPDK opens `left`.
fn wire(queues: u32) -> Option<NetNs> {
    let namespace = or_skip("no network namespace", NetNs::anonymous())?;
    let end = |name| VethEnd { name, namespace: &namespace };
    or_skip("no veth pair", veth::create(end("left"), end("right"), queues))?;
    let up = || {
        for name in ["left", "right"] {
            let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1");
        }
        veth::bring_up(&Netdev::open("left")?, &Netdev::open("right")?)
    };
    namespace.run(up).unwrap().unwrap();
    Some(namespace)
}

fn packet_port(namespace: &NetNs, interface: &str, pool: &Pool) -> Box<dyn Port> {
    let spec = format!("packet:{interface}").parse().unwrap();
    let opened = namespace.run(|| linerate_port_packet::open(spec, pool)).unwrap();
    opened.unwrap().boxed().into_port()
}

/// A driver on one end of a veth pair, AF_PACKET on the other.
fn over_veth(device: &str, zero_copy: bool) {
    let _alone = alone();
    let Some(namespace) = wire(1) else { return };
    let pool = pool();
    let opened = namespace.run(|| try_open(device, &pool)).unwrap();
    let mut dpdk = opened.unwrap_or_else(|error| panic!("{error}"));
    let mut other = packet_port(&namespace, "right", &pool);
    assert_eq!(dpdk.caps().zero_copy, zero_copy, "{:?}", dpdk.caps());
    exchange(&pool, &mut *dpdk, &mut *other);
    exchange(&pool, &mut *other, &mut *dpdk);
    drop((dpdk, other));
    assert!(pool.is_whole());
}

#[test]
fn net_af_packet() {
    over_veth("dpdk:net_af_packet0,iface=left", true);
}

#[test]
fn net_af_xdp() {
    over_veth("dpdk:net_af_xdp0,iface=left", false);
}

#[test]
fn net_tap() {
    let _alone = alone();
    let Some(namespace) = or_skip("no network namespace", NetNs::anonymous()) else { return };
    let pool = pool();
    let Some(mut dpdk) = or_skip("net_tap", namespace.run(|| try_open("dpdk:net_tap0,iface=dtap0", &pool)).unwrap())
    else {
        return;
    };
    let up = || {
        let _ = std::fs::write("/proc/sys/net/ipv6/conf/dtap0/disable_ipv6", "1");
        let device = Netdev::open("dtap0")?;
        device.set_up(true)?;
        device.wait_until_running(PATIENCE)
    };
    assert!(namespace.run(up).unwrap().unwrap(), "no carrier");
    let mut other = packet_port(&namespace, "dtap0", &pool);
    exchange(&pool, &mut *dpdk, &mut *other);
    exchange(&pool, &mut *other, &mut *dpdk);
    drop((dpdk, other));
    assert!(pool.is_whole());
}

#[test]
fn net_pcap_writes_a_file_and_reads_it() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.pcap");
    let pool = pool();
    let mut batch = Batch::new(&pool, 32);
    let packets: Vec<Vec<u8>> = (0..20).map(|number| packet(number, 60 + number as usize)).collect();
    let mut writer = open(&format!("dpdk:net_pcap0,tx_pcap={}", file.display()), &pool);
    for bytes in &packets {
        assert!(pool.clone().append(&mut batch, bytes, 0));
    }
    assert_eq!(writer.transmit(&mut batch).unwrap(), 20);
    drop(writer);
    let mut reader = open(&format!("dpdk:net_pcap1,rx_pcap={}", file.display()), &pool);
    reader.receive(&mut batch).unwrap();
    let mut found = Vec::new();
    ours(&batch, &mut found);
    assert_eq!(found, packets);
    drop((reader, batch));
    assert!(pool.is_whole());
}

/// Linerate's own port at a socket, and a device of DPDK that connects to it.
fn beside(own: Device<impl Port + 'static>, device: &str, pool: &Pool) -> (Box<dyn Port>, Box<dyn Port>) {
    let mut own: Box<dyn Port> = own.boxed().into_port();
    // The device may wait for answers while it is made.
    let mut dpdk = std::thread::scope(|scope| {
        let opening = scope.spawn(|| try_open(device, pool));
        let mut batch = Batch::new(pool, 32);
        while !opening.is_finished() {
            own.receive(&mut batch).unwrap();
            own.wait(Interest::Receive, 1_000_000).unwrap();
        }
        opening.join().unwrap().unwrap_or_else(|error| panic!("{error}"))
    });
    wait_for_link(pool, &mut [&mut *own, &mut *dpdk]);
    (own, dpdk)
}

/// Whether the EAL has huge pages here.
fn huge_pages() -> bool {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    text.lines().any(|line| line.starts_with("HugePages_Total:") && !line.ends_with(" 0"))
}

fn socket(folder: &Path) -> String {
    folder.join("s").display().to_string()
}

#[test]
fn net_memif() {
    let _alone = alone();
    let pool = pool();
    for (number, zero_copy) in ["no", "yes"].iter().enumerate() {
        let folder = tempfile::tempdir().unwrap();
        let socket = socket(folder.path());
        let own = linerate_port_memif::open(format!("memif:{socket}").parse().unwrap(), &pool).unwrap();
        let device =
            format!("dpdk:net_memif{number},role=client,socket={socket},socket-abstract=no,zero-copy={zero_copy}");
        if number == 1 && !huge_pages() {
            eprintln!("skipped in part: net_memif with zero-copy=yes: no huge pages");
            break;
        }
        let (mut own, mut dpdk) = beside(own, &device, &pool);
        // DPDK shows a peer its own memory only.
        assert_eq!(dpdk.caps().zero_copy, number == 0, "{:?}", dpdk.caps());
        exchange(&pool, &mut *own, &mut *dpdk);
        exchange(&pool, &mut *dpdk, &mut *own);
        drop((own, dpdk));
        assert!(pool.is_whole());
    }
}

#[test]
fn net_virtio_user() {
    let _alone = alone();
    let (folder, pool) = (tempfile::tempdir().unwrap(), pool());
    let socket = socket(folder.path());
    let own = linerate_port_vhost::open(format!("vhost:{socket}").parse().unwrap(), &pool).unwrap();
    let (mut own, mut dpdk) = beside(own, &format!("dpdk:net_virtio_user0,path={socket}"), &pool);
    assert!(!dpdk.caps().zero_copy, "the peer has mbufs of DPDK's own memory only");
    exchange(&pool, &mut *own, &mut *dpdk);
    exchange(&pool, &mut *dpdk, &mut *own);
    drop((own, dpdk));
    assert!(pool.is_whole());
}

#[test]
fn queues_and_two_pools() {
    let _alone = alone();
    let (pool, other) = (pool(), pool());
    let device = linerate_port_dpdk::open("dpdk:net_null0,queues=3".parse().unwrap(), &pool).unwrap();
    assert_eq!(device.queues(), 3);
    let mut ports = device.into_ports();
    assert_eq!(ports[2].caps().name, "dpdk:net_null0@2");
    let mut batch = Batch::new(&pool, 64);
    for port in &mut ports {
        assert_eq!(port.receive(&mut batch).unwrap(), 64);
        assert_eq!(port.transmit(&mut batch).unwrap(), 64);
    }
    // A second pool has mbufs of its own.
    let mut second = open("dpdk:net_null1", &other);
    let mut foreign = Batch::new(&other, 64);
    assert_eq!(second.receive(&mut foreign).unwrap(), 64);
    assert!(ports[0].transmit(&mut foreign).is_err());
    drop((ports, second, batch, foreign));
    assert!(pool.is_whole() && other.is_whole());
}

#[test]
fn what_cannot_be_opened_says_why() {
    let _alone = alone();
    let pool = pool();
    let held = open("dpdk:net_null7", &pool);
    let cases = [
        ("dpdk:net_null7", "open already"),
        ("dpdk:net_no_such_driver0", "driver"),
        ("dpdk:net_null8,nonsense=1", "nonsense"),
        ("dpdk:0000:ff:1f.6", "vfio-pci"),
        ("dpdk:net_null8,queues=5000", "queue"),
        ("dpdk:net_af_packet0,iface=linerate-none", "linerate-none"),
    ];
    for (text, word) in cases {
        let error = try_open(text, &pool).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(word) && !error.contains('\n'), "{text}: {error}");
    }
    drop(held);
    assert!(pool.is_whole());
}

#[test]
fn a_link_that_stays_down_is_told() {
    let (_alone, pool, folder) = (alone(), pool(), tempfile::tempdir().unwrap());
    let note = |text: &str| {
        let device = linerate_port_dpdk::open(text.parse().unwrap(), &pool).unwrap_or_else(|error| panic!("{error}"));
        device.note().map(str::to_owned)
    };
    // Nobody is at its far side.
    let socket = folder.path().join("s").display().to_string();
    let alone = note(&format!("dpdk:net_memif7,role=server,socket={socket},socket-abstract=no,linkwait=30"));
    assert!(alone.as_ref().is_some_and(|note| note.contains("no link after 0.03 s")), "{alone:?}");
    assert_eq!(note("dpdk:net_null7,linkwait=30"), None);
}

#[test]
fn only_cards_are_taken_from_a_kernel_driver() {
    let (_alone, pool) = (alone(), pool());
    let error = |text: &str| try_open(text, &pool).map(drop).unwrap_err().to_string();
    let vdev = error("dpdk:net_null0,bind");
    assert!(vdev.contains("`bind` is for PCI devices") && vdev.contains("dpdk:0000:01:00.0,bind"), "{vdev}");
    let missing = error("dpdk:ffff:ff:1f.6,bind=force");
    assert!(missing.contains("there is no PCI device ffff:ff:1f.6"), "{missing}");
    // No kernel driver is asked about a device that is opened without `bind`.
    assert!(error("dpdk:ffff:ff:1f.6").contains("`bind`"));
}

/// Sends packets of 60 bytes with these numbers; returns how many were taken.
fn send(pool: &mut Pool, port: &mut dyn Port, numbers: std::ops::Range<u32>) -> usize {
    let mut batch = Batch::new(pool, 64);
    numbers.for_each(|number| assert!(pool.append(&mut batch, &packet(number, 60), 0)));
    let taken = port.transmit(&mut batch).unwrap();
    pool.free(&mut batch);
    taken
}

/// The numbers of all packets that wait in a port.
fn drain(pool: &mut Pool, port: &mut dyn Port) -> Vec<u32> {
    let (mut batch, mut numbers) = (Batch::new(pool, 64), Vec::new());
    while port.receive(&mut batch).unwrap() > 0 {
        numbers.extend(batch.iter().map(|bytes| u32::from_be_bytes(bytes[14..18].try_into().unwrap())));
        pool.free(&mut batch);
    }
    numbers
}

#[test]
fn packets_are_handed_on_unseen_between_rings() {
    let _alone = alone();
    let mut pool = pool();
    let [mut near, mut far, mut counting] = ["net_ring11,bytes=no", "net_ring12,bytes=no", "net_ring13"]
        .map(|device| open(&format!("dpdk:{device}"), &pool));
    assert!(near.caps().hands_on && near.caps().detail.contains("unseen") && !counting.caps().hands_on);
    assert_eq!(send(&mut pool, &mut *near, 0..60), 60);
    // Neither to a port that counts bytes, nor from one.
    assert_eq!((near.hand_on(&mut *counting), counting.hand_on(&mut *far)), (0, 0));
    assert_eq!((near.hand_on(&mut *far), near.hand_on(&mut *far)), (60, 0));
    assert_eq!(drain(&mut pool, &mut *far), (0..60).collect::<Vec<_>>());
    // A ring that is nearly full takes a part. What it does not take is what the near port returns next, once.
    let mut filled = 0;
    loop {
        let taken = send(&mut pool, &mut *far, filled..filled + 50) as u32;
        filled += taken;
        if taken < 50 {
            break;
        }
    }
    let mut batch = Batch::new(&pool, 20);
    assert_eq!((far.receive(&mut batch).unwrap(), send(&mut pool, &mut *near, 2000..2050)), (20, 50));
    pool.free(&mut batch);
    assert_eq!((near.hand_on(&mut *far), near.hand_on(&mut *far)), (20, 0));
    assert_eq!(drain(&mut pool, &mut *near), (2020..2050).collect::<Vec<_>>());
    assert_eq!(drain(&mut pool, &mut *far), (20..filled).chain(2000..2020).collect::<Vec<_>>());
    let (near, far) = (near.stats().unwrap(), far.stats().unwrap());
    assert_eq!((near.rx_packets, near.rx_unsized, near.rx_bytes), (110, 80, 30 * 60));
    assert_eq!((far.tx_packets, far.tx_unsized, far.tx_bytes_of_all()), (80 + u64::from(filled), 80, None));
}
