//! A switch with one forwarder and ports 1 to n.

use linerate_mem::{Batch, Pool};
use linerate_openflow::*;
use linerate_pipeline::{BindingKind, Event, Forwarder, PortSettings, QueueSettings, Switch, SwitchOptions};
use linerate_port::{Context, Datapath, PortIndex};

/// A packet that left: port and bytes.
pub type Sent = (u32, Vec<u8>);

pub struct Rig {
    pub switch: Switch,
    pub forwarder: Forwarder,
    pub pool: Pool,
    pub now_ns: u64,
    pub ports: Vec<u32>,
}

pub const SECOND: u64 = 1_000_000_000;

impl Rig {
    pub fn new(ports: u32) -> Rig {
        Rig::with(ports, SwitchOptions::default())
    }

    pub fn with(ports: u32, options: SwitchOptions) -> Rig {
        let pool = Pool::new(linerate_mem::PoolConfig { frames: 4096, frame_size: 2048 }).unwrap();
        let mut switch = Switch::new(options, SECOND);
        let forwarder = switch.forwarder(&pool, Box::new(|| ()), Box::new(|| ())).unwrap();
        let mut rig = Rig { switch, forwarder, pool, now_ns: SECOND, ports: Vec::new() };
        (1..=ports).for_each(|port| rig.add_port(port));
        rig.events();
        rig
    }

    pub fn add_port(&mut self, port: u32) {
        self.add_port_with_queues(port, Vec::new());
    }

    pub fn add_port_with_queues(&mut self, port: u32, queues: Vec<QueueSettings>) {
        let settings = port_settings(port, queues);
        self.switch.add_port(settings, true, self.now_ns).unwrap();
        assert!(self.forwarder.bind(PortIndex(self.ports.len() as u16), PortNumber(port), BindingKind::Port));
        self.ports.push(port);
    }

    /// Packets arrive together by a port; returns what leaves.
    pub fn send_all(&mut self, port: u32, packets: &[Vec<u8>]) -> Vec<Sent> {
        let index = self.ports.iter().position(|known| *known == port).unwrap();
        let mut batch = Batch::new(&self.pool, 256);
        packets.iter().for_each(|packet| assert!(self.pool.append(&mut batch, packet, 0)));
        let mut context = Context { now_ns: self.now_ns, pool: &mut self.pool, ports: &mut () };
        self.forwarder.input(PortIndex(index as u16), &mut batch, &mut context);
        assert!(batch.is_empty());
        self.collect()
    }

    /// A packet arrives by a port in two frames, of which the first has `first` bytes.
    pub fn send_in_frames(&mut self, port: u32, packet: &[u8], first: usize) -> Vec<Sent> {
        let index = self.ports.iter().position(|known| *known == port).unwrap();
        let mut batch = Batch::new(&self.pool, 2);
        assert_eq!(self.pool.alloc(&mut batch, 2, packet.len()), 2);
        for (slot, bytes) in [&packet[..first], &packet[first..]].into_iter().enumerate() {
            batch.set_len(slot, bytes.len());
            batch.packet_mut(slot).copy_from_slice(bytes);
        }
        batch.set_more(0, true);
        let mut context = Context { now_ns: self.now_ns, pool: &mut self.pool, ports: &mut () };
        self.forwarder.input(PortIndex(index as u16), &mut batch, &mut context);
        assert!(batch.is_empty());
        self.collect()
    }

    pub fn send(&mut self, port: u32, packet: &[u8]) -> Vec<Sent> {
        self.send_all(port, &[packet.to_vec()])
    }

    /// A round without received packets: packet-outs go their way.
    pub fn round(&mut self) -> Vec<Sent> {
        if self.forwarder.next_deadline_ns() <= self.now_ns {
            let mut context = Context { now_ns: self.now_ns, pool: &mut self.pool, ports: &mut () };
            self.forwarder.tick(&mut context);
        }
        self.collect()
    }

    pub fn collect(&mut self) -> Vec<Sent> {
        let mut sent = Vec::new();
        for (index, port) in self.ports.iter().enumerate() {
            let index = PortIndex(index as u16);
            let Some(batch) = self.forwarder.output(index) else { continue };
            let mut count = 0;
            while let Some(span) = batch.span(0) {
                let bytes: Vec<u8> = (0..span.slots).flat_map(|slot| batch.packet(slot).to_vec()).collect();
                sent.push((*port, bytes));
                self.pool.free_front(batch, span.slots);
                count += 1;
            }
            if count > 0 {
                self.forwarder.tx_done(index, count, self.now_ns);
            }
        }
        sent
    }

    pub fn add(&mut self, request: FlowMod) {
        self.flow_mod(request).unwrap();
    }

    pub fn flow_mod(&mut self, request: FlowMod) -> Result<(), OfError> {
        let done = self.switch.flow_mod(request, self.now_ns);
        // In force for the next packet.
        self.switch.version();
        done
    }

    pub fn events(&mut self) -> Vec<Event> {
        self.switch.drain_events(1000, self.now_ns)
    }

    pub fn packet_ins(&mut self) -> Vec<PacketIn> {
        let of = |event| if let Event::PacketIn(packet) = event { Some(packet) } else { None };
        self.events().into_iter().filter_map(of).collect()
    }

    pub fn flows(&mut self) -> Vec<FlowStats> {
        let all = FlowFilter {
            table: TABLE_ALL,
            out_port: PortNumber::ANY,
            out_group: GROUP_ANY,
            cookie: 0,
            cookie_mask: 0,
            matching: Match::default(),
        };
        match self.switch.multipart(MultipartRequest::Flow(all), self.now_ns) {
            Ok(MultipartReply::Flow(flows)) => flows,
            other => panic!("{other:?}"),
        }
    }

    /// The account balances.
    pub fn check(&mut self) {
        let totals = self.switch.totals();
        assert_eq!(
            totals.received + totals.packet_outs + totals.copies,
            totals.queued + totals.to_controller + totals.dropped + totals.held_fragments + totals.joined_fragments,
            "{totals:?} {:?}",
            self.switch.drops()
        );
        assert_eq!(totals.queued, totals.sent);
    }
}

pub fn port_settings(port: u32, queues: Vec<QueueSettings>) -> PortSettings {
    PortSettings {
        number: PortNumber(port),
        name: format!("p{port}"),
        hw_addr: [2, 0, 0, 0, 0, port as u8],
        physical: None,
        tunnel_id: 0,
        tunnel_keys: false,
        len_max: 1514,
        config: PortConfig(0),
        current: 0,
        current_kbps: 0,
        max_kbps: 0,
        queues,
    }
}

pub fn add(priority: u16, matching: Match, instructions: Vec<Instruction>) -> FlowMod {
    FlowMod {
        cookie: 0,
        cookie_mask: 0,
        table: 0,
        command: FlowCommand::Add,
        idle_timeout_s: 0,
        hard_timeout_s: 0,
        priority,
        buffer_id: NO_BUFFER,
        out_port: PortNumber::ANY,
        out_group: GROUP_ANY,
        flags: FlowFlags(0),
        matching,
        instructions,
    }
}

pub fn output(port: u32) -> Action {
    Action::Output { port: PortNumber(port), max_len: 0xffff }
}

pub fn apply(actions: Vec<Action>) -> Vec<Instruction> {
    vec![Instruction::ApplyActions(actions)]
}

pub fn in_port(port: u32) -> Match {
    Match::default().with(Field::InPort, port.into())
}

/// A packet of UDP.
pub fn udp(source: u8, destination: u8, ports: [u16; 2]) -> Vec<u8> {
    let mut packet = vec![2, 0, 0, 0, 0, destination, 2, 0, 0, 0, 0, source, 8, 0];
    let mut ip = vec![0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, source, 10, 0, 0, destination];
    let sum = ip.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum::<u32>();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend(ip);
    packet.extend(ports[0].to_be_bytes());
    packet.extend(ports[1].to_be_bytes());
    packet.extend([0, 26, 0, 0]);
    packet.extend([0; 18]);
    packet
}
