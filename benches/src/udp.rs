//! UDP between two stacks of one process: each answers what the other sent, in batches. A packet is a cycle: a receive and a send.

use linerate_ip::{Ip, IpConfig, Output, Udp, UdpId};
use linerate_mem::{Batch, Pool, PoolConfig};
use linerate_sys::affinity;
use linerate_wire::MacAddress;

use crate::measure::{Run, Stopwatch};

/// Datagrams in flight: as many as a batch.
const BATCH: usize = 32;
const DATA: [u8; 1] = [7];

/// Which socket takes the datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sockets {
    /// One on each side, connected to the other.
    Connected,
    /// One of all addresses on each side; it answers whoever sent.
    Bound,
}

struct Host {
    ip: Ip,
    udp: Udp,
    socket: UdpId,
    sockets: Sockets,
    out: Batch,
    trusted: bool,
}

impl Host {
    fn new(number: u8, sockets: Sockets, trusted: bool, pool: &Pool) -> Host {
        let address = [format!("10.0.0.{number}/24").parse().expect("an address")];
        let config = IpConfig {
            mac: MacAddress([2, 0, 0, 0, 0, number]),
            addresses: address.to_vec(),
            duplicate_detection: false,
            ipv6: false,
            ..IpConfig::default()
        };
        let ip = Ip::new(config).expect("a configuration");
        let mut udp = Udp::new(16, [number; 16]);
        let socket = udp.bind("0.0.0.0:7".parse().expect("an address"), &ip).expect("a socket");
        Host { ip, udp, socket, sockets, out: Batch::new(pool, 2 * BATCH), trusted }
    }

    /// Connects to the other host and sends one datagram, so that both hosts know each other.
    fn connect(&mut self, other: &str, pool: &mut Pool) {
        let mut out = Output { now_ns: 1, batch: &mut self.out, pool };
        if self.sockets == Sockets::Connected {
            self.udp.close(self.socket);
            let local = "0.0.0.0:7".parse().ok();
            let remote = other.parse().expect("an address");
            self.socket = self.udp.connect(local, remote, &mut self.ip, &mut out).expect("a socket");
        }
        let to = other.parse().ok();
        self.udp.send(self.socket, None, to, &DATA, self.trusted, &mut self.ip, &mut out).expect("room");
    }

    /// Sends one more datagram, to a neighbour that is known.
    fn send(&mut self, pool: &mut Pool) {
        let mut out = Output { now_ns: 1, batch: &mut self.out, pool };
        let (from, to) = match self.sockets {
            Sockets::Connected => (None, None),
            Sockets::Bound => ("10.0.0.1".parse().ok(), "10.0.0.2:7".parse().ok()),
        };
        self.udp.send(self.socket, from, to, &DATA, self.trusted, &mut self.ip, &mut out).expect("room");
    }

    /// Answers every datagram of a batch with its data; other frames go the general way.
    fn answer(&mut self, batch: &mut Batch, pool: &mut Pool) -> u64 {
        let Host { ip, udp, out, trusted, sockets, .. } = self;
        let mut answered = 0;
        for index in 0..batch.len() {
            let (frame, checksum) = (batch.packet(index), batch.checksum(index));
            let Some(datagram) = udp.receive_usual4(ip, frame, checksum) else {
                ip.receive(frame, checksum, 1, out, pool);
                continue;
            };
            let data = &frame[datagram.data.clone()];
            let mut output = Output { now_ns: 1, batch: out, pool };
            let (from, to) = match sockets {
                Sockets::Connected => (None, None),
                Sockets::Bound => (Some(datagram.to.ip()), Some(datagram.from)),
            };
            let sent = udp.send(datagram.socket, from, to, data, *trusted, ip, &mut output);
            answered += u64::from(sent.is_ok());
        }
        ip.count_fast(0, answered);
        pool.free(batch);
        answered
    }
}

/// Two stacks on one core; `trusted` leaves the checksums of UDP out, as between ports of one process.
pub fn cycles(core: usize, sockets: Sockets, trusted: bool, packets: u64) -> Run {
    let _ = affinity::pin_to_core(core);
    let mut pool = Pool::new(PoolConfig { frames: 1024, frame_size: 2048 }).expect("2 MiB of packet memory");
    let mut hosts = [1, 2].map(|number| Host::new(number, sockets, trusted, &pool));
    let mut batch = Batch::new(&pool, 2 * BATCH);
    hosts[0].connect("10.0.0.2:7", &mut pool);
    hosts[1].connect("10.0.0.1:7", &mut pool);
    for _ in 0..4 {
        for at in 0..2 {
            core::mem::swap(&mut hosts[at].out, &mut batch);
            hosts[1 - at].answer(&mut batch, &mut pool);
        }
    }
    hosts.iter_mut().for_each(|host| pool.free(&mut host.out));
    for _ in 0..BATCH {
        hosts[0].send(&mut pool);
    }
    let watch = Stopwatch::start();
    let mut cycles = 0;
    while cycles < packets {
        for at in 0..2 {
            core::mem::swap(&mut hosts[at].out, &mut batch);
            let answered = hosts[1 - at].answer(&mut batch, &mut pool);
            assert_eq!(answered, BATCH as u64, "no datagram is lost");
            cycles += answered;
        }
    }
    watch.stop(cycles)
}
