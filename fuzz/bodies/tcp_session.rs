//! Body of the fuzz target `tcp_session`: bytes decide what peers send, what the program does, and how time passes. Also run by the tests of
//! `linerate-tcp`.
//!
//! Whatever happens, each segment that leaves is well formed and carries the bytes that the program sent, deadlines pass, and at the end
//! nothing is held.

use core::net::SocketAddr;

use linerate_ip::{AddressRange, IpConfig};
use linerate_mem::PoolConfig;
use linerate_tcp::{ConnectOptions, Io, Keepalive, ListenOptions, StackConfig};
use linerate_tcpscript::Event;
use linerate_wire::{LayerKind, MacAddress, Options, Parsed, Stack, Transport, ethernet, ipv4, tcp, verify_checksums};

use super::program::Program;
use linerate_tcp::machine::Machine;

const LOCAL: [u8; 4] = [192, 0, 2, 1];
const REMOTE: [u8; 4] = [192, 0, 2, 2];
const MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
const PEER: MacAddress = MacAddress([2, 0, 0, 0, 0, 2]);
/// Peers, each with one flow.
const FLOWS: usize = 4;
/// Events of one input, at most.
const EVENTS_MAX: usize = 300;
/// Time after which a stack that was left alone holds nothing.
const REST_NS: u64 = 4 * 3_600_000_000_000;

/// What a peer knows of its flow.
#[derive(Clone, Copy, Default)]
struct Flow {
    local_port: u16,
    remote_port: u16,
    /// Next number that the peer would send.
    next: u32,
    /// End of what the stack sent.
    end: u32,
    /// The stack's initial number.
    isn: u32,
}

struct Session<'a> {
    machine: Machine<Program>,
    flows: [Flow; FLOWS],
    rest: &'a [u8],
}

/// Lives through the events, and returns how many connections stood.
pub fn run(data: &[u8]) -> usize {
    let Some((choice, rest)) = data.split_first() else { return 0 };
    let config = config(*choice);
    let mut machine =
        Machine::new(config, PoolConfig { frames: 512, ..PoolConfig::default() }, 1_000_000_000, Program::default())
            .expect("a stack");
    let listen = ListenOptions { backlog: 2, ..ListenOptions::default() };
    machine.with(|_, io| io.listen((LOCAL, 80).into(), listen).map(drop)).expect("listening");
    let flow = |number: usize| {
        let active = number == FLOWS - 1;
        let (local_port, remote_port) = if active { (5000, 80) } else { (80, 40_000 + number as u16) };
        Flow { local_port, remote_port, next: 0xffff_ff00, ..Flow::default() }
    };
    let mut session = Session { machine, flows: std::array::from_fn(flow), rest };
    for _ in 0..EVENTS_MAX {
        if session.rest.is_empty() {
            break;
        }
        session.event();
        session.read();
    }
    session.end()
}

fn config(choice: u8) -> StackConfig {
    let ip = IpConfig {
        mac: MAC,
        addresses: vec![AddressRange::one(LOCAL.into(), 24)],
        ipv6: false,
        duplicate_detection: false,
        ..IpConfig::default()
    };
    let mut config = StackConfig {
        ip,
        connections_max: 1 + usize::from(choice & 7),
        time_wait_max: 1 + usize::from(choice >> 3 & 3),
        receive_budget_bytes: 1 << 16,
        receive_window_max: if choice & 32 != 0 { 4096 } else { 1 << 20 },
        output_packets: 64,
        ..StackConfig::default()
    };
    config.send.budget_bytes = 1 << 17;
    config.send.buffer_max = 1 << 15;
    config
}

impl Session<'_> {
    fn byte(&mut self) -> u8 {
        let Some((byte, rest)) = self.rest.split_first() else { return 0 };
        self.rest = rest;
        *byte
    }

    fn event(&mut self) {
        let what = self.byte();
        let number = usize::from(what) % FLOWS;
        match what / 4 {
            0..8 => self.syn(number),
            8..36 => self.segment(number),
            36..44 => self.acknowledge(number),
            44..54 => self.program(number),
            54..62 => {
                let passed_ns = 1 << (10 + u32::from(self.byte()) % 32);
                self.machine.advance_to(self.machine.now_ns + passed_ns);
            }
            _ => self.connect(),
        }
    }

    /// A SYN, with or without options.
    fn syn(&mut self, number: usize) {
        let options = self.options();
        let flow = &mut self.flows[number];
        flow.next = flow.next.wrapping_add(100_000);
        let seq = flow.next;
        flow.next = flow.next.wrapping_add(1);
        self.deliver(number, seq, 0, tcp::Flags::SYN, 65_535, &options, 0);
    }

    /// A segment near what fits.
    fn segment(&mut self, number: usize) {
        let (flags, seq, ack, scale) = (self.byte(), self.byte() as i8, self.byte() as i8, self.byte());
        let (window, len) = (u16::from(self.byte()) << 8, usize::from(self.byte()) * 6);
        let options = self.options();
        let flow = &mut self.flows[number];
        let far = |offset: i8, scale: u8| (i32::from(offset) << (scale & 15)) as u32;
        let (seq, ack) = (flow.next.wrapping_add(far(seq, scale)), flow.end.wrapping_add(far(ack, scale >> 4)));
        if seq == flow.next && flags & tcp::Flags::RST.0 == 0 {
            flow.next = flow.next.wrapping_add(len as u32 + u32::from(flags & 1));
        }
        self.deliver(number, seq, ack, tcp::Flags(flags), window, &options, len);
    }

    /// What a good peer says.
    fn acknowledge(&mut self, number: usize) {
        let Flow { next, end, .. } = self.flows[number];
        self.deliver(number, next, end, tcp::Flags::ACK, 60_000, &[], 0);
    }

    fn options(&mut self) -> Vec<u8> {
        let usual: [&[u8]; 4] =
            [&[], &[2, 4, 5, 0xb4], &[2, 4, 5, 0xb4, 4, 2, 1, 1, 1, 3, 3, 7], &[1, 1, 8, 10, 0, 0, 0, 9, 0, 0, 0, 0]];
        let kind = self.byte();
        if kind < 200 {
            return usual[usize::from(kind) % usual.len()].to_vec();
        }
        (0..usize::from(kind) % 41).map(|_| self.byte()).collect()
    }

    #[allow(clippy::too_many_arguments)]
    fn deliver(
        &mut self,
        number: usize,
        seq: u32,
        ack: u32,
        flags: tcp::Flags,
        window: u16,
        options: &[u8],
        len: usize,
    ) {
        let flow = self.flows[number];
        let options = Options::new(LayerKind::Tcp, options).unwrap_or_default();
        let header = tcp::Header {
            src_port: flow.remote_port,
            dst_port: flow.local_port,
            sequence: seq,
            acknowledgment: ack,
            flags,
            window,
            urgent: window,
            options,
            ..tcp::Header::default()
        };
        let stack = Stack::new()
            .with(ethernet::Header { dst: MAC, src: PEER, ..Default::default() })
            .with(ipv4::Header { src: REMOTE.into(), dst: LOCAL.into(), ttl: 64, ..Default::default() })
            .with(header);
        let frame = stack.build(54 + options.len() + len.min(1460)).expect("a segment").bytes;
        self.machine.deliver([frame.as_slice()]);
    }

    fn connect(&mut self) {
        let flow = self.flows[FLOWS - 1];
        let remote = SocketAddr::from((REMOTE, flow.remote_port));
        self.machine.with(|program, io| {
            let options = ConnectOptions { local_port: flow.local_port, ..ConnectOptions::new(remote) };
            if let Ok(conn) = io.connect(options) {
                program.began(conn, remote);
            }
        });
    }

    /// The program does something with a connection, if there is one.
    fn program(&mut self, number: usize) {
        let (what, amount) = (self.byte(), usize::from(self.byte()) * 64);
        let remote = SocketAddr::from((REMOTE, self.flows[number].remote_port));
        self.machine.with(|program, io: &mut Io<'_>| {
            let known = program.known(remote);
            let Some(conn) = known.conn else { return };
            match what % 8 {
                0..3 => {
                    let start = known.sent_total;
                    known.unsent.extend((start..start + amount as u64).map(linerate_tcpscript::stream_byte));
                    known.sent_total += amount as u64;
                    program.push(conn, io);
                }
                3 => io.close(conn),
                4 => io.abort(conn),
                5 => {
                    known.takes = if amount == 0 { None } else { Some(amount) };
                    io.resume(conn);
                }
                6 => io.set_nodelay(conn, amount & 64 != 0),
                _ => {
                    let keepalive = Keepalive { idle_ms: amount as u32, interval_ms: 1 + amount as u32, probes: 3 };
                    io.set_keepalive(conn, (amount != 0).then_some(keepalive));
                }
            }
        });
    }

    /// Reads what left: segments that are well formed, with the bytes that the program sent.
    fn read(&mut self) {
        while let Some(frame) = self.machine.take_left() {
            let parsed = Parsed::parse(&frame).expect("a frame");
            let Some(ip) = parsed.ip else {
                self.answer(&frame);
                continue;
            };
            let Some(Transport { kind: LayerKind::Tcp, offset, .. }) = ip.transport else { continue };
            verify_checksums(&frame).expect("right checksums");
            let segment = tcp::Packet::new_checked(&frame[offset..ip.end]).expect("a segment");
            let flow = self.flows.iter_mut().find(|flow| flow.remote_port == segment.dst_port());
            let Some(flow) = flow.filter(|flow| flow.local_port == segment.src_port()) else {
                panic!("a segment to nobody: {segment:?}");
            };
            let (flags, seq) = (segment.flags(), segment.sequence());
            if flags.contains(tcp::Flags::RST) {
                continue;
            }
            if flags.contains(tcp::Flags::SYN) {
                (flow.isn, flow.end) = (seq, seq.wrapping_add(1));
            }
            let data = segment.payload();
            let first = u64::from(seq.wrapping_sub(flow.isn).wrapping_sub(1));
            let is_right = |(at, byte): (usize, &u8)| *byte == linerate_tcpscript::stream_byte(first + at as u64);
            assert!(data.iter().enumerate().all(is_right), "wrong bytes at {first}");
            let end = seq.wrapping_add(data.len() as u32 + u32::from(flags.contains(tcp::Flags::FIN)));
            if (end.wrapping_sub(flow.end) as i32) > 0 {
                flow.end = end;
            }
        }
    }

    /// Answers the question for the peer's link address.
    fn answer(&mut self, question: &[u8]) {
        if question.len() < 42 || question[12..14] != [8, 6] || question[38..42] != REMOTE {
            return;
        }
        let mut reply = question.to_vec();
        reply[0..6].copy_from_slice(&question[6..12]);
        reply[6..12].copy_from_slice(&PEER.0);
        reply[21] = 2;
        reply[22..28].copy_from_slice(&PEER.0);
        reply[28..32].copy_from_slice(&REMOTE);
        reply[32..38].copy_from_slice(&MAC.0);
        reply[38..42].copy_from_slice(&LOCAL);
        self.machine.deliver([reply.as_slice()]);
    }

    /// Every connection is aborted, and time passes: nothing is held.
    fn end(mut self) -> usize {
        self.machine.with(|program, io| {
            let conns: Vec<_> = program.known.values().filter_map(|known| known.conn).collect();
            conns.into_iter().for_each(|conn| io.abort(conn));
        });
        let until_ns = self.machine.now_ns + REST_NS;
        while self.machine.next_frame(until_ns).is_some() {}
        let held = self.machine.with(|_, io| (io.connections(), io.time_waits(), io.memory_bytes()));
        assert_eq!(held, (0, 0, (0, 0)), "connections, TIME-WAIT records or bytes remain");
        let is_connected = |event: &&Event| **event == Event::Connected;
        let stood = self.machine.with(|program, _| {
            program.known.values().map(|known| known.events.iter().filter(is_connected).count()).sum()
        });
        self.machine.end().expect("every frame comes back");
        stood
    }
}
