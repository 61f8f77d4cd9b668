//! Two stacks that hand frames to each other under a virtual clock, and a program that notes what it is told.
#![allow(dead_code)]

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use linerate_ip::{AddressRange, IpConfig};
use linerate_mem::{Batch, Pool, PoolConfig};
use linerate_port::{Context, Datapath, PortIndex};
use linerate_tcp::{
    App, CloseReason, Conn, ConnectOptions, Counters, ErrorKind, Io, ListenOptions, Stack, StackConfig, UdpId,
};
use linerate_wire::MacAddress;

pub const PORT: PortIndex = PortIndex(0);

/// What a program was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    Connected(Conn),
    Sendable(Conn),
    PeerClosed(Conn),
    Closed(Conn, CloseReason),
}

/// A program that notes what it is told.
#[derive(Default)]
pub struct Recorder {
    pub told: Vec<Told>,
    pub data: HashMap<Conn, Vec<u8>>,
    /// Sends back what it receives.
    pub echoes: bool,
    /// Closes when the peer does.
    pub closes: bool,
    /// Bytes that it takes at a time; all if there is no limit.
    pub takes: Option<usize>,
    /// Datagrams that arrived: socket and length.
    pub datagrams: Vec<(UdpId, usize)>,
    /// Sockets of which a datagram was refused.
    pub undelivered: Vec<(UdpId, ErrorKind)>,
    /// How far urgent bytes reached.
    pub urgent: Vec<u32>,
    /// It has nothing left to do.
    pub done: bool,
}

impl App for Recorder {
    fn connected(&mut self, conn: Conn, _: &mut Io<'_>) {
        self.told.push(Told::Connected(conn));
    }

    fn received(&mut self, conn: Conn, data: &[u8], io: &mut Io<'_>) -> usize {
        let taken = self.takes.unwrap_or(usize::MAX).min(data.len());
        self.data.entry(conn).or_default().extend_from_slice(&data[..taken]);
        if self.echoes {
            assert_eq!(io.send(conn, &data[..taken]), taken);
        }
        taken
    }

    fn datagram(&mut self, socket: UdpId, from: SocketAddr, to: SocketAddr, data: &[u8], io: &mut Io<'_>) {
        self.datagrams.push((socket, data.len()));
        if self.echoes {
            io.udp_send(socket, Some(to.ip()), Some(from), data).unwrap();
        }
    }

    fn undelivered(&mut self, socket: UdpId, why: ErrorKind, _: &mut Io<'_>) {
        self.undelivered.push((socket, why));
    }

    fn urgent(&mut self, _: Conn, ahead: u32, _: &mut Io<'_>) {
        self.urgent.push(ahead);
    }

    fn sendable(&mut self, conn: Conn, _: &mut Io<'_>) {
        self.told.push(Told::Sendable(conn));
    }

    fn peer_closed(&mut self, conn: Conn, io: &mut Io<'_>) {
        self.told.push(Told::PeerClosed(conn));
        if self.closes {
            io.close(conn);
        }
    }

    fn closed(&mut self, conn: Conn, why: CloseReason, _: &mut Io<'_>) {
        self.told.push(Told::Closed(conn, why));
    }

    fn is_done(&self) -> bool {
        self.done
    }
}

impl Recorder {
    pub fn connections(&self) -> Vec<Conn> {
        let connected = |told: &Told| if let Told::Connected(conn) = told { Some(*conn) } else { None };
        self.told.iter().filter_map(connected).collect()
    }

    pub fn closed(&self) -> Vec<CloseReason> {
        let closed = |told: &Told| if let Told::Closed(_, why) = told { Some(*why) } else { None };
        self.told.iter().filter_map(closed).collect()
    }

    pub fn bytes(&self) -> Vec<u8> {
        self.data.values().flatten().copied().collect()
    }
}

/// A frame on the way: to the second stack (true) or to the first, and what becomes of it.
pub type Filter = Box<dyn FnMut(bool, &[u8]) -> bool>;

/// Two stacks and the two links between them.
pub struct Pair {
    pub pool: Pool,
    pub a: Stack<Recorder>,
    pub b: Stack<Recorder>,
    pub now_ns: u64,
    /// True for a frame that passes; all pass without it.
    pub filter: Option<Filter>,
    /// Frames that passed, with their direction.
    pub frames: Vec<(bool, Vec<u8>)>,
}

pub const A: &str = "198.18.0.1";
pub const B: &str = "198.18.0.2";
pub const A6: &str = "2001:db8::1";
pub const B6: &str = "2001:db8::2";

/// Configuration of a stack: `number` 1 or 2.
pub fn config(number: u8) -> StackConfig {
    let addresses = [if number == 1 { (A, 24) } else { (B, 24) }, if number == 1 { (A6, 64) } else { (B6, 64) }];
    let range = |(text, len): (&str, u8)| AddressRange::one(text.parse::<IpAddr>().unwrap(), len);
    let ip = IpConfig {
        mac: MacAddress([2, 0, 0, 0, 0, number]),
        addresses: addresses.map(range).to_vec(),
        duplicate_detection: false,
        secret: [number; 16],
        ..IpConfig::default()
    };
    StackConfig { ip, connections_max: 1000, time_wait_max: 1000, secret: [number; 16], ..StackConfig::default() }
}

pub fn address(text: &str, port: u16) -> SocketAddr {
    SocketAddr::new(text.parse().unwrap(), port)
}

impl Pair {
    pub fn new() -> Pair {
        Pair::with(config(1), config(2))
    }

    pub fn with(a: StackConfig, b: StackConfig) -> Pair {
        let pool = Pool::new(PoolConfig { frames: 4096, frame_size: 2048 }).unwrap();
        let (a, b) = (Stack::new(a, &pool, Recorder::default()), Stack::new(b, &pool, Recorder::default()));
        let (a, b) = (a.unwrap(), b.unwrap());
        Pair { pool, a, b, now_ns: 1_000_000_000, filter: None, frames: Vec::new() }
    }

    /// Listens with the second stack, connects with the first, and runs until both know it. Returns the connection of each.
    pub fn connected(&mut self, options: ListenOptions) -> (Conn, Conn) {
        self.connected_by(B, options)
    }

    pub fn connected_by(&mut self, remote: &str, options: ListenOptions) -> (Conn, Conn) {
        let remote = address(remote, 80);
        self.b.with(self.now_ns, |_, io| io.listen(remote, options)).unwrap();
        let conn = self.connect(remote);
        self.settle();
        assert_eq!(self.a.app().told, [Told::Connected(conn)]);
        (conn, self.b.app().connections()[0])
    }

    pub fn connect(&mut self, remote: SocketAddr) -> Conn {
        self.a.with(self.now_ns, |_, io| io.connect(ConnectOptions::new(remote))).unwrap()
    }

    pub fn send_a(&mut self, conn: Conn, bytes: &[u8]) -> usize {
        self.a.with(self.now_ns, |_, io| io.send(conn, bytes))
    }

    pub fn send_b(&mut self, conn: Conn, bytes: &[u8]) -> usize {
        self.b.with(self.now_ns, |_, io| io.send(conn, bytes))
    }

    /// Hands frames over until there are none. No time passes.
    pub fn settle(&mut self) {
        for round in 0.. {
            assert!(round < 100_000, "the stacks never stop to answer each other");
            let there = self.pass(true);
            if !self.pass(false) && !there {
                return;
            }
        }
    }

    /// Lets time pass, and frames, in steps of the deadlines.
    pub fn run(&mut self, ms: u64) {
        let end = self.now_ns + ms * 1_000_000;
        self.settle();
        while self.now_ns < end {
            let next = self.a.next_deadline_ns().min(self.b.next_deadline_ns());
            self.now_ns = next.clamp(self.now_ns + 1_000, end);
            self.tick();
            self.settle();
        }
    }

    pub fn tick(&mut self) {
        let (now_ns, pool) = (self.now_ns, &mut self.pool);
        if self.a.next_deadline_ns() <= now_ns {
            self.a.tick(&mut Context { now_ns, pool, ports: &mut () });
        }
        if self.b.next_deadline_ns() <= now_ns {
            self.b.tick(&mut Context { now_ns, pool, ports: &mut () });
        }
    }

    /// Hands over what one stack has to send; false if that is nothing.
    pub fn pass(&mut self, to_b: bool) -> bool {
        let mut batch = Batch::new(&self.pool, 64);
        let (now_ns, pool) = (self.now_ns, &mut self.pool);
        let sender: &mut dyn Datapath = if to_b { &mut self.a } else { &mut self.b };
        let Some(output) = sender.output(PORT) else { return false };
        let count = output.len().min(64);
        output.move_to(&mut batch, count);
        sender.tx_done(PORT, count, now_ns);
        if count == 0 {
            return false;
        }
        let mut passing = Batch::new(pool, 64);
        for _ in 0..count {
            let passes = self.filter.as_mut().is_none_or(|filter| filter(to_b, batch.packet(0)));
            if passes {
                self.frames.push((to_b, batch.packet(0).to_vec()));
                batch.move_to(&mut passing, 1);
            } else {
                pool.free_front(&mut batch, 1);
            }
        }
        if !passing.is_empty() {
            let receiver: &mut dyn Datapath = if to_b { &mut self.b } else { &mut self.a };
            receiver.input(PORT, &mut passing, &mut Context { now_ns, pool, ports: &mut () });
        }
        true
    }

    /// Takes a frame into one of the stacks.
    pub fn inject(&mut self, to_b: bool, frame: &[u8]) {
        let mut batch = Batch::new(&self.pool, 1);
        assert_eq!(self.pool.alloc(&mut batch, 1, frame.len()), 1);
        batch.packet_mut(0).copy_from_slice(frame);
        let (now_ns, pool) = (self.now_ns, &mut self.pool);
        let receiver: &mut dyn Datapath = if to_b { &mut self.b } else { &mut self.a };
        receiver.input(PORT, &mut batch, &mut Context { now_ns, pool, ports: &mut () });
    }

    pub fn counters_a(&mut self) -> Counters {
        self.a.with(self.now_ns, |_, io| io.counters())
    }

    pub fn counters_b(&mut self) -> Counters {
        self.b.with(self.now_ns, |_, io| io.counters())
    }

    /// Nothing is left of any connection, and no frame is lost.
    pub fn assert_clean(mut self) {
        for stack in [&mut self.a, &mut self.b] {
            let (connections, memory) = stack.with(self.now_ns, |_, io| (io.connections(), io.memory_bytes()));
            assert_eq!((connections, memory), (0, (0, 0)));
        }
        drop((self.a, self.b));
        assert!(self.pool.is_whole());
    }
}
