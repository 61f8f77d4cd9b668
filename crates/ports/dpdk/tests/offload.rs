//! Checksums that are left to a device on transmit, and those that its far side left to others.
#![cfg(feature = "libdpdk")]

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use linerate_mem::{Batch, Checksum, Pool};
use linerate_port::{LinkState, Port, complete_checksums};
use linerate_sys::netdev::Netdev;
use linerate_sys::netns::NetNs;
use linerate_testkit::{append_partial, or_skip, tcp_segments};
use linerate_wire::{Protocol, Stack, ethernet, ipv4, ipv6, tcp, udp, verify_checksums, vlan};

const PATIENCE: Duration = Duration::from_secs(20);
/// DPDK has one list of devices a process.
static ALONE: Mutex<()> = Mutex::new(());

fn open(text: &str, pool: &Pool) -> Result<Box<dyn Port>, linerate_port::OpenError> {
    linerate_port_dpdk::open(text.parse().unwrap(), pool).map(|device| device.boxed().into_port())
}

/// A complete packet, and where its IP header begins.
struct Sample {
    whole: Vec<u8>,
    network_at: usize,
}

/// Packets of each kind that a device is asked to complete, and of others.
fn samples() -> Vec<Sample> {
    let link = || {
        let dst = linerate_wire::MacAddress([0xff; 6]);
        Stack::new().with(ethernet::Header { dst, ..Default::default() })
    };
    let v4 = || ipv4::Header { src: [192, 0, 2, 1].into(), dst: [192, 0, 2, 2].into(), ..Default::default() };
    let tagged = || link().with(vlan::Header::default());
    let mut samples = Vec::new();
    for len in [90, 91, 300, 1514] {
        let stacks = [
            (link().with(v4()).with(udp::Header::default()), 14),
            (link().with(v4()).with(tcp::Header::default()), 14),
            (link().with(ipv6::Header::default()).with(udp::Header::default()), 14),
            (link().with(ipv6::Header::default()).with(tcp::Header::default()), 14),
            (tagged().with(v4()).with(tcp::Header::default()), 18),
            (tagged().with(ipv6::Header::default()).with(udp::Header::default()), 18),
        ];
        samples.extend(stacks.map(|(stack, network_at)| Sample { whole: stack.build(len).unwrap().bytes, network_at }));
    }
    samples
}

impl Sample {
    /// The packet with a partial checksum.
    fn partial(&self) -> Vec<u8> {
        let network = &self.whole[self.network_at..];
        let is_ipv6 = network[0] >> 4 == 6;
        let (protocol, header) = if is_ipv6 { (network[6], 40) } else { (network[9], 20) };
        let len = network.len() - header;
        let pseudo = if is_ipv6 {
            ipv6::Packet::new_unchecked(network).pseudo_sum(Protocol(protocol), len as u32)
        } else {
            ipv4::Packet::new_unchecked(network).pseudo_sum(len as u16)
        };
        let field = self.network_at + header + if Protocol(protocol) == Protocol::TCP { 16 } else { 6 };
        let mut bytes = self.whole.clone();
        bytes[field..field + 2].copy_from_slice(&pseudo.fold().to_be_bytes());
        assert!(verify_checksums(&self.whole).is_ok() && verify_checksums(&bytes).is_err());
        bytes
    }
}

/// Appends a packet with a partial checksum in frames of at most `part` bytes.
fn append(batch: &mut Batch, pool: &mut Pool, bytes: &[u8], part: usize) {
    let first = batch.len();
    for now in bytes.chunks(part) {
        assert!(pool.append(batch, now, 0));
        batch.set_more(batch.len() - 1, true);
    }
    batch.set_more(batch.len() - 1, false);
    batch.set_checksum(first, Checksum::Partial);
}

/// Sends the batch, and returns what arrives with what is known of its checksums, `count` packets of broadcast addresses.
fn pass(
    from: &mut dyn Port,
    to: &mut dyn Port,
    pool: &mut Pool,
    mut batch: Batch,
    count: usize,
) -> Vec<(Vec<u8>, Checksum)> {
    let (mut found, mut incoming) = (Vec::new(), Batch::new(pool, 64));
    let deadline = Instant::now() + PATIENCE;
    while found.len() < count {
        assert!(
            Instant::now() < deadline,
            "{} of {count} packets came: {:?} {:?}",
            found.len(),
            from.stats(),
            to.stats()
        );
        from.transmit(&mut batch).unwrap();
        from.flush().unwrap();
        to.receive(&mut incoming).unwrap();
        let mut at = 0;
        while let Some(span) = incoming.span(at) {
            let mut bytes = vec![0; span.len];
            incoming.reader(at, span.slots).read(&mut bytes);
            if bytes[..6] == [0xff; 6] && bytes[6..12] == [0; 6] {
                found.push((bytes, incoming.checksum(at)));
            }
            at += span.slots;
        }
        pool.free(&mut incoming);
    }
    found
}

fn wait_for_links(ports: &mut [&mut dyn Port]) {
    let deadline = Instant::now() + PATIENCE;
    while ports.iter_mut().any(|port| port.link().unwrap() == LinkState::Down) {
        assert!(Instant::now() < deadline, "no link");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// All samples, in one frame and in several, then one with bytes behind what IP carries, one that is complete; what has to arrive of them.
fn all(pool: &mut Pool) -> (Batch, Vec<Vec<u8>>) {
    let (mut batch, mut wholes) = (Batch::new(pool, 256), Vec::new());
    for part in [2000, 600, 40] {
        for sample in samples().iter().filter(|sample| sample.whole.len() <= 8 * part) {
            append(&mut batch, pool, &sample.partial(), part);
            wholes.push(sample.whole.clone());
        }
    }
    let sample = &samples()[1];
    append(&mut batch, pool, &[&sample.partial()[..], &[7; 9]].concat(), 2000);
    wholes.push([&sample.whole[..], &[7; 9]].concat());
    assert!(pool.append(&mut batch, &sample.whole, 0));
    wholes.push(sample.whole.clone());
    (batch, wholes)
}

#[test]
fn net_tap_completes_what_is_left_to_it() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(namespace) = or_skip("no network namespace", NetNs::anonymous()) else { return };
    let mut pool = Pool::new(Default::default()).unwrap();
    let opened = namespace.run(|| open("dpdk:net_tap0,iface=dtap0", &pool)).unwrap();
    let Some(mut dpdk) = or_skip("net_tap", opened) else { return };
    let detail = dpdk.caps().detail.clone();
    assert!(detail.contains("left to the device: UDP checksums, TCP checksums"), "{detail}");
    let up = || {
        let _ = std::fs::write("/proc/sys/net/ipv6/conf/dtap0/disable_ipv6", "1");
        let device = Netdev::open("dtap0")?;
        device.set_up(true)?;
        device.wait_until_running(PATIENCE)
    };
    assert!(namespace.run(up).unwrap().unwrap(), "no carrier");
    let spec = "packet:dtap0".parse().unwrap();
    let mut other = namespace.run(|| linerate_port_packet::open(spec, &pool)).unwrap().unwrap().boxed().into_port();
    let (batch, wholes) = all(&mut pool);
    let found = pass(&mut *dpdk, &mut *other, &mut pool, batch, wholes.len());
    assert!(found.iter().map(|(bytes, _)| bytes).eq(&wholes));
    // Segments that could leave as one packet leave by themselves: this driver would cut with mbufs that share a buffer.
    let segments = tcp_segments(false, 20, 1400);
    let mut batch = Batch::new(&pool, 64);
    segments.iter().for_each(|segment| append_partial(&mut batch, &mut pool, segment));
    let found = pass(&mut *dpdk, &mut *other, &mut pool, batch, segments.len());
    assert!(found.iter().map(|(bytes, _)| bytes).eq(&segments));
    drop((dpdk, other));
    assert!(pool.is_whole());
}

#[test]
fn what_virtio_leaves_to_its_far_side_stays_partial_there() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (folder, mut pool) = (tempfile::tempdir().unwrap(), Pool::new(Default::default()).unwrap());
    let socket = folder.path().join("s").display().to_string();
    let mut vhost = open(&format!("dpdk:net_vhost0,iface={socket}"), &pool).unwrap();
    let mut virtio = open(&format!("dpdk:net_virtio_user0,path={socket}"), &pool).unwrap();
    wait_for_links(&mut [&mut *vhost, &mut *virtio]);
    for port in [&virtio, &vhost] {
        let detail = &port.caps().detail;
        assert!(detail.contains("left to the device: UDP checksums, TCP checksums"), "{detail}");
    }
    for is_to_vhost in [true, false] {
        let (from, to) = if is_to_vhost { (&mut virtio, &mut vhost) } else { (&mut vhost, &mut virtio) };
        let (batch, wholes) = all(&mut pool);
        let found = pass(&mut **from, &mut **to, &mut pool, batch, wholes.len());
        let mut partial = 0;
        for ((bytes, checksum), whole) in found.iter().zip(&wholes) {
            let mut batch = Batch::new(&pool, 8);
            assert!(pool.append(&mut batch, bytes, 0));
            batch.set_checksum(0, *checksum);
            partial += usize::from(*checksum == Checksum::Partial);
            complete_checksums(&mut batch);
            assert_eq!(batch.packet(0), whole);
            pool.free(&mut batch);
        }
        assert!(partial >= samples().len(), "{partial} of {} are partial", found.len());
    }
    drop((vhost, virtio));
    assert!(pool.is_whole());
}

#[test]
fn segments_leave_as_one_packet_where_the_device_cuts() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (folder, mut pool) = (tempfile::tempdir().unwrap(), Pool::new(Default::default()).unwrap());
    let socket = folder.path().join("s").display().to_string();
    // The far side takes merged packets, and hands them out as they are.
    let mut vhost = open(&format!("dpdk:net_vhost0,iface={socket},tso=1"), &pool).unwrap();
    let mut virtio = open(&format!("dpdk:net_virtio_user0,path={socket}"), &pool).unwrap();
    let detail = virtio.caps().detail.clone();
    assert!(detail.ends_with("left to the device: UDP checksums, TCP checksums, TCP segmentation"), "{detail}");
    wait_for_links(&mut [&mut *vhost, &mut *virtio]);
    for is_ipv6 in [false, true] {
        let segments = tcp_segments(is_ipv6, 5, 1400);
        let mut batch = Batch::new(&pool, 64);
        segments.iter().for_each(|segment| append_partial(&mut batch, &mut pool, segment));
        let found = pass(&mut *virtio, &mut *vhost, &mut pool, batch, 1);
        let (bytes, checksum) = &found[0];
        let headers = if is_ipv6 { 74 } else { 54 };
        let data: Vec<u8> = segments.iter().flat_map(|segment| &segment[headers..]).copied().collect();
        assert_eq!((bytes.len(), *checksum), (headers + data.len(), Checksum::Partial));
        assert_eq!(bytes[headers..], data);
        let mut batch = Batch::new(&pool, 64);
        assert!(pool.append(&mut batch, bytes, 0));
        batch.set_checksum(0, Checksum::Partial);
        complete_checksums(&mut batch);
        let mut whole = vec![0; bytes.len()];
        batch.reader(0, batch.len()).read(&mut whole);
        assert!(verify_checksums(&whole).is_ok());
        pool.free(&mut batch);
    }
    assert_eq!(virtio.stats().unwrap().tx_packets, 10, "segments are what is counted");
    drop((vhost, virtio));
    assert!(pool.is_whole());
}
