//! Hosts under a clock that the test sets, and the link between them.
#![allow(dead_code, reason = "each test uses a part")]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use linerate_ip::{AddressRange, Datagram, Event, HopId, Inbound, Ip, IpConfig, NoRoute, Output, Udp, UdpId};
use linerate_mem::{Batch, Checksum, Pool};
use linerate_wire::{MacAddress, Stack, ethernet, ipv4, ipv6, tcp, udp, verify_checksums};

/// A second in nanoseconds.
pub const SECOND: u64 = 1_000_000_000;

pub fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

pub fn v4(text: &str) -> Ipv4Addr {
    text.parse().unwrap()
}

pub fn v6(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

pub fn mac(last: u8) -> MacAddress {
    MacAddress([2, 0, 0, 0, 0, last])
}

/// Addresses, no duplicate detection.
pub fn config(last: u8, addresses: &[&str]) -> IpConfig {
    IpConfig {
        mac: mac(last),
        addresses: addresses.iter().map(|text| text.parse::<AddressRange>().unwrap()).collect(),
        duplicate_detection: false,
        secret: [last; 16],
        ..IpConfig::default()
    }
}

/// One host.
pub struct Host {
    pub ip: Ip,
    pub udp: Udp,
    pub out: Batch,
    pub pool: Pool,
    pub now_ns: u64,
}

impl Host {
    pub fn new(config: IpConfig) -> Host {
        let pool = Pool::new(linerate_mem::PoolConfig { frames: 1024, frame_size: 2048 }).unwrap();
        let out = Batch::new(&pool, 512);
        let udp = Udp::of_shard(100_000, config.secret, config.shard);
        let mut host = Host { ip: Ip::new(config).unwrap(), udp, out, pool, now_ns: 1 };
        host.tick();
        host
    }

    /// A host that has announced itself, so that its next frames are about the test.
    pub fn quiet(config: IpConfig) -> Host {
        let mut host = Host::new(config);
        host.run_until(30 * SECOND);
        host.sent();
        host
    }

    pub fn tick(&mut self) {
        if self.now_ns >= self.ip.next_deadline_ns() {
            self.ip.tick(self.now_ns, &mut self.out, &mut self.pool);
        }
    }

    /// Does all that is due until a time, each at its time.
    pub fn run_until(&mut self, until_ns: u64) {
        for _ in 0..100_000 {
            let next = self.ip.next_deadline_ns();
            if next > until_ns {
                self.now_ns = until_ns;
                return;
            }
            self.now_ns = self.now_ns.max(next);
            self.ip.tick(self.now_ns, &mut self.out, &mut self.pool);
        }
        panic!("deadlines that never end");
    }

    pub fn receive(&mut self, frame: &[u8]) -> Inbound {
        let inbound = self.ip.receive(frame, Checksum::Unknown, self.now_ns, &mut self.out, &mut self.pool);
        assert!(self.ip.counters().balance(), "{:?}", self.ip.counters());
        inbound
    }

    /// Frames that were sent since the last call. Each is right.
    pub fn sent(&mut self) -> Vec<Vec<u8>> {
        let frames: Vec<Vec<u8>> = self.out.iter().map(<[u8]>::to_vec).collect();
        self.pool.free(&mut self.out);
        for frame in &frames {
            let is_partial_or_part = verify_checksums(frame);
            assert!(is_partial_or_part.is_ok(), "{is_partial_or_part:?} {frame:02x?}");
        }
        frames
    }

    pub fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.ip.next_event()).collect()
    }

    pub fn hop(&mut self, dst: &str) -> Result<(HopId, IpAddr), NoRoute> {
        self.ip.hop(None, ip(dst), self.now_ns, &mut self.out, &mut self.pool)
    }

    pub fn bind(&mut self, local: &str) -> UdpId {
        self.udp.bind(local.parse().unwrap(), &self.ip).unwrap()
    }

    pub fn connect(&mut self, local: &str, remote: &str) -> UdpId {
        let mut out = Output { now_ns: self.now_ns, batch: &mut self.out, pool: &mut self.pool };
        let (local, remote) = (local.parse().ok(), remote.parse().unwrap());
        self.udp.connect(local, remote, &mut self.ip, &mut out).unwrap()
    }

    pub fn send(&mut self, socket: UdpId, to: &str, data: &[u8]) -> Result<(), linerate_ip::SendError> {
        let mut out = Output { now_ns: self.now_ns, batch: &mut self.out, pool: &mut self.pool };
        let to: SocketAddr = to.parse().unwrap();
        self.udp.send(socket, None, Some(to), data, false, &mut self.ip, &mut out)
    }

    /// Takes a frame in as a stack does: the fast paths, then the general one.
    pub fn take(&mut self, frame: &[u8]) -> Option<(Datagram, Vec<u8>)> {
        if let Some(datagram) = self.udp.receive_usual4(&self.ip, frame, Checksum::Unknown) {
            self.ip.count_fast(0, 1);
            let data = frame[datagram.data.clone()].to_vec();
            return Some((datagram, data));
        }
        if let Some(fast) = self.ip.fast4(frame, Checksum::Unknown) {
            self.ip.count_fast(0, 1);
            let datagram = self.udp.receive4(&fast, frame, Checksum::Unknown)?;
            let data = frame[datagram.data.clone()].to_vec();
            return Some((datagram, data));
        }
        if let Some(fast) = self.ip.fast6(frame) {
            self.ip.count_fast(0, 1);
            let datagram = self.udp.receive6(&fast, frame, Checksum::Unknown)?;
            let data = frame[datagram.data.clone()].to_vec();
            return Some((datagram, data));
        }
        let Inbound::Udp(packet) = self.receive(frame) else { return None };
        let bytes = self.ip.bytes(&packet, frame).to_vec();
        let datagram = self.udp.receive(&packet, &bytes)?;
        let data = bytes[datagram.data.clone()].to_vec();
        Some((datagram, data))
    }
}

/// Carries frames between two hosts until both are silent; returns the datagrams that the first and the second received.
pub fn exchange(one: &mut Host, other: &mut Host) -> [Vec<(Datagram, Vec<u8>)>; 2] {
    let mut received = [Vec::new(), Vec::new()];
    for _ in 0..100 {
        let (forth, back) = (one.sent(), other.sent());
        if forth.is_empty() && back.is_empty() {
            return received;
        }
        received[1].extend(forth.iter().filter_map(|frame| other.take(frame)));
        received[0].extend(back.iter().filter_map(|frame| one.take(frame)));
    }
    panic!("the hosts never fall silent");
}

/// A frame from host `from` to host `to` with IPv4 and whatever follows.
pub fn frame4(from: u8, to: u8, header: ipv4::Header, next: impl FnOnce(Stack) -> Stack, len: usize) -> Vec<u8> {
    let ethernet = ethernet::Header { src: mac(from), dst: mac(to), ..Default::default() };
    next(Stack::new().with(ethernet).with(header)).build(len).unwrap().bytes
}

/// As [`frame4`], with IPv6.
pub fn frame6(from: u8, to: u8, header: ipv6::Header, next: impl FnOnce(Stack) -> Stack, len: usize) -> Vec<u8> {
    let ethernet = ethernet::Header { src: mac(from), dst: mac(to), ..Default::default() };
    next(Stack::new().with(ethernet).with(header)).build(len).unwrap().bytes
}

pub const NET: &[&str] = &["10.0.0.1/24", "fd00::1/64"];

pub fn header4() -> ipv4::Header {
    ipv4::Header { src: v4("10.0.0.2"), dst: v4("10.0.0.1"), ..Default::default() }
}

pub fn header6() -> ipv6::Header {
    ipv6::Header { src: v6("fd00::2"), dst: v6("fd00::1"), ..Default::default() }
}

pub fn datagram(stack: Stack) -> Stack {
    stack.with(udp::Header { src_port: 999, dst_port: 7, ..Default::default() })
}

pub fn segment(stack: Stack) -> Stack {
    stack.with(tcp::Header { src_port: 999, dst_port: 80, ..Default::default() })
}

/// The frame with its IPv4 header changed, and the header's checksum made right again.
pub fn changed4(mut frame: Vec<u8>, change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    change(&mut frame[14..]);
    ipv4::Packet::new_unchecked(&mut frame[14..]).fill_checksum();
    frame
}

pub fn changed(mut frame: Vec<u8>, change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    change(&mut frame);
    frame
}
