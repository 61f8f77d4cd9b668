//! A veth pair with each end in a namespace of its own, and packets to send over it.
#![allow(dead_code)]

use linerate_mem::{Batch, Pool, PoolConfig};
use linerate_port::{Interest, OpenError, Port};
use linerate_port_packet::PacketPort;
use linerate_sys::netdev::Netdev;
use linerate_sys::netns::NetNs;
use linerate_sys::veth::{self, VethEnd};
use linerate_testkit::or_skip;

/// One end: interface `veth0` of its namespace.
pub struct End {
    pub namespace: NetNs,
    pub device: Netdev,
}

pub struct Wire {
    pub left: End,
    pub right: End,
}

pub const INTERFACE: &str = "veth0";

impl Wire {
    /// `None`, and a line that says why, where this machine does not allow namespaces.
    pub fn new(queues: u32) -> Option<Wire> {
        let namespace = || or_skip("no network namespace", NetNs::anonymous());
        let (left, right) = (namespace()?, namespace()?);
        let end = |namespace| VethEnd { name: INTERFACE, namespace };
        or_skip("no veth pair", veth::create(end(&left), end(&right), queues))?;
        let wire = Wire { left: End::new(left), right: End::new(right) };
        veth::bring_up(&wire.left.device, &wire.right.device).unwrap();
        Some(wire)
    }

    pub fn set_mtu(&self, mtu: u32) {
        self.left.device.set_mtu(mtu).unwrap();
        self.right.device.set_mtu(mtu).unwrap();
    }
}

impl End {
    fn new(namespace: NetNs) -> End {
        let device = namespace.run(|| {
            // Without IPv6 the kernel sends nothing by itself here.
            let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{INTERFACE}/disable_ipv6"), "1");
            Netdev::open(INTERFACE)
        });
        End { namespace, device: device.unwrap().unwrap() }
    }

    pub fn open(&self, options: &str, pool: &Pool) -> PacketPort {
        self.try_open(options, pool).unwrap()
    }

    pub fn try_open(&self, options: &str, pool: &Pool) -> Result<PacketPort, OpenError> {
        let spec = format!("packet:{INTERFACE}{options}").parse().unwrap();
        self.namespace.run(|| linerate_port_packet::open(spec, pool)).unwrap().map(|device| device.into_port())
    }
}

pub fn pool(frames: usize) -> Pool {
    Pool::new(PoolConfig { frames, ..PoolConfig::default() }).unwrap()
}

/// A broadcast packet of an experimental ethertype: number, then filler that depends on it.
pub fn packet(number: u32, len: usize) -> Vec<u8> {
    let mut bytes = vec![0xff; 6];
    bytes.extend([2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
    bytes.extend(number.to_be_bytes());
    bytes.extend((bytes.len()..len).map(|at| (at as u32 ^ number) as u8));
    bytes.truncate(len);
    bytes
}

/// `packet`, with a VLAN tag.
pub fn tagged(number: u32, len: usize, tag: [u8; 4]) -> Vec<u8> {
    let mut bytes = packet(number, len - 4);
    bytes.splice(12..12, tag);
    bytes
}

/// Appends a packet, over as many frames as it needs.
pub fn append(batch: &mut Batch, pool: &mut Pool, bytes: &[u8]) {
    let parts: Vec<&[u8]> = bytes.chunks(pool.packet_len_max()).collect();
    for (index, part) in parts.iter().enumerate() {
        assert_eq!(pool.alloc(batch, 1, part.len()), 1, "the pool is empty");
        let at = batch.len() - 1;
        batch.packet_mut(at).copy_from_slice(part);
        batch.set_more(at, index + 1 < parts.len());
    }
}

/// Sends one packet; true when the port took it.
pub fn send(port: &mut dyn Port, pool: &mut Pool, bytes: &[u8]) -> Result<bool, linerate_port::PortError> {
    let mut batch = Batch::new(pool, 64);
    append(&mut batch, pool, bytes);
    let taken = port.transmit(&mut batch);
    pool.free(&mut batch);
    taken.map(|count| count == 1)
}

/// Slots of a receiving batch.
const BATCH: usize = 64;

/// Receives until there are at least `count` packets or nothing has come for a minute.
pub fn receive(port: &mut dyn Port, pool: &mut Pool, count: usize) -> Vec<Vec<u8>> {
    receive_by(port, pool, count, |_| BATCH)
}

/// As `receive`, for packets of one slot, and never more than asked for: the others stay in the port.
pub fn receive_exactly(port: &mut dyn Port, pool: &mut Pool, count: usize) -> Vec<Vec<u8>> {
    receive_by(port, pool, count, |missing| missing.min(BATCH))
}

fn receive_by(port: &mut dyn Port, pool: &mut Pool, count: usize, room: fn(usize) -> usize) -> Vec<Vec<u8>> {
    let mut packets = vec![];
    let mut whole = vec![];
    let mut naps = 0;
    while packets.len() < count && naps < 1200 {
        let mut batch = Batch::new(pool, room(count - packets.len()));
        if port.receive(&mut batch).unwrap() == 0 {
            port.wait(Interest::Receive, 50_000_000).unwrap();
            naps += 1;
            continue;
        }
        naps = 0;
        for index in 0..batch.len() {
            whole.extend_from_slice(batch.packet(index));
            if !batch.more(index) {
                packets.push(std::mem::take(&mut whole));
            }
        }
        pool.free(&mut batch);
    }
    packets
}

/// `IFF_PROMISC` as sysfs shows it (the ioctl hides what sockets asked for); `None` where there is no sysfs to look into.
pub fn promiscuous(end: &End) -> Option<bool> {
    let path = format!("/sys/class/net/{}/flags", INTERFACE);
    let text = end.namespace.run_with_sysfs(|| std::fs::read_to_string(path)).ok()?.ok()?;
    let flags = u32::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok()?;
    Some(flags & libc::IFF_PROMISC as u32 != 0)
}
