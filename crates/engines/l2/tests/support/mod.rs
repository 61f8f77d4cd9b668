//! What the tests of the switch share: frames, a rig of switch and pool, and the model.
#![allow(dead_code)]

pub mod model;

use linerate_l2::{PortIndex, Switch, SwitchConfig};
use linerate_mem::{Batch, Pool, PoolConfig};
use linerate_port::Datapath;
use linerate_wire::MacAddress;

/// Address `number`: 0 is broadcast, 1 a multicast address, 2 one that bridges keep, the others are stations.
pub fn mac(number: u8) -> MacAddress {
    match number {
        0 => MacAddress::BROADCAST,
        1 => MacAddress([0x01, 0, 0x5e, 0, 0, 1]),
        2 => MacAddress([0x01, 0x80, 0xc2, 0, 0, 0x0e]),
        number => MacAddress([2, 0, 0, 0, 0, number]),
    }
}

/// A frame from station `source + 3` (from a group address, when that is 0) with tags (EtherType, control information), cut to
/// `len` bytes.
pub fn frame(destination: u8, source: u8, tags: &[(u16, u16)], len: usize) -> Vec<u8> {
    let source = if source == 0 { mac(1) } else { mac(source + 2) };
    let mut bytes = [mac(destination).0, source.0].concat();
    for (kind, control) in tags {
        bytes.extend(kind.to_be_bytes());
        bytes.extend(control.to_be_bytes());
    }
    bytes.extend([0x88, 0xb5]);
    let filler = (0..).map(|n: usize| (n * 7 + len) as u8);
    bytes.extend(filler.take(len.saturating_sub(bytes.len())));
    bytes.truncate(len);
    bytes
}

/// A switch, its pool, and a batch for what arrives.
pub struct Rig {
    pub switch: Switch,
    pub pool: Pool,
    pub arrived: Batch,
    pub now_ns: u64,
}

impl Rig {
    pub fn new(frames: usize, queue_slots: usize) -> Rig {
        let pool = Pool::new(PoolConfig { frames, ..PoolConfig::default() }).unwrap();
        let config = SwitchConfig { queue_slots, mac_entries: 64, ..SwitchConfig::default() };
        let switch = Switch::new(config, &pool).unwrap();
        let arrived = Batch::new(&pool, 64);
        Rig { switch, pool, arrived, now_ns: 1_000 }
    }

    /// Appends a packet in so many slots; false when there are no frames.
    pub fn append(&mut self, bytes: &[u8], slots: usize) -> bool {
        append(&mut self.pool, &mut self.arrived, bytes, slots)
    }

    /// Forwards what was appended.
    pub fn forward(&mut self, port: PortIndex) {
        self.switch.forward(port, &mut self.arrived, &mut self.pool, self.now_ns);
        assert!(self.arrived.is_empty());
        self.now_ns += 1_000;
    }

    /// Appends and forwards one packet.
    pub fn send(&mut self, port: PortIndex, bytes: &[u8]) {
        assert!(self.append(bytes, 1));
        self.forward(port);
    }

    /// What a port of the switch sends, as a port that takes up to `count` packets.
    pub fn take(&mut self, port: PortIndex, count: usize) -> Vec<Vec<u8>> {
        let Some(batch) = self.switch.output(port) else { return Vec::new() };
        let mut packets = Vec::new();
        while packets.len() < count {
            let Some(span) = batch.span(0) else { break };
            packets.push((0..span.slots).flat_map(|slot| batch.packet(slot).to_vec()).collect());
            self.pool.free_front(batch, span.slots);
        }
        self.switch.tx_done(port, packets.len(), self.now_ns);
        packets
    }

    /// Slots in the egress queues.
    pub fn held(&mut self) -> usize {
        let ports: Vec<PortIndex> = self.switch.ports().collect();
        ports.into_iter().filter_map(|port| self.switch.output(port).map(|queue| queue.len())).sum()
    }

    /// Every equation holds.
    pub fn check(&self) {
        self.switch.totals().balances().unwrap();
        for port in self.switch.ports() {
            let counters = self.switch.port_counters(port).unwrap();
            let parts = counters.unicast + counters.flooded + counters.dropped.total();
            assert_eq!(counters.received_packets, parts, "port {port}: {counters:?}");
        }
        for vlan in self.switch.vlans() {
            let counters = self.switch.vlan_counters(vlan).unwrap();
            assert_eq!(counters.received_packets, counters.unicast + counters.flooded + counters.dropped.total());
        }
    }

    /// Ends; no frame is missing.
    pub fn close(self) {
        let Rig { switch, pool, arrived, .. } = self;
        drop((switch, arrived));
        assert!(pool.is_whole());
    }
}

/// Appends a packet in so many slots, the first of at least 40 bytes; false when there are no frames.
pub fn append(pool: &mut Pool, batch: &mut Batch, bytes: &[u8], slots: usize) -> bool {
    let first = batch.len();
    if pool.alloc(batch, slots, 2048) < slots {
        return false;
    }
    let mut rest = bytes;
    for slot in 0..slots {
        let left = slots - slot;
        let len = rest.len().div_ceil(left).max(40).min(rest.len());
        let (now, later) = rest.split_at(len);
        batch.set_len(first + slot, len);
        batch.packet_mut(first + slot).copy_from_slice(now);
        batch.set_more(first + slot, left > 1);
        rest = later;
    }
    assert!(rest.is_empty());
    true
}
