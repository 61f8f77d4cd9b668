//! Packets by flow, and the loss of signed streams.

use std::collections::HashMap;

use linerate_gen::{Receiver, ReceiverConfig, StreamReport};
use linerate_wire::FlowKey;
use serde::Serialize;

/// Flows that are told apart, unless asked otherwise; a flow takes some 100 bytes.
pub const FLOWS_MAX_DEFAULT: usize = 262_144;

/// Numbers back for which late packets of a signed stream are told from duplicates. A stream with gaps takes an eighth of
/// this in bytes.
const WINDOW: u64 = 1 << 16;

/// Packets of one flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Flow {
    /// Number of packets.
    pub packets: u64,
    /// Bytes that they had, without FCS.
    pub bytes: u64,
    /// Time of the earliest, nanoseconds since 1970.
    pub first_ns: u64,
    /// Time of the latest.
    pub last_ns: u64,
}

impl Flow {
    fn note(&mut self, time_ns: u64, len: u64) {
        self.first_ns = if self.packets == 0 { time_ns } else { self.first_ns.min(time_ns) };
        self.last_ns = self.last_ns.max(time_ns);
        self.packets += 1;
        self.bytes += len;
    }
}

/// Counts packets by 5-tuple, in one direction each; memory is bounded.
pub struct FlowTable {
    flows: HashMap<FlowKey, Flow>,
    flows_max: usize,
    others: Flow,
    without_key: Flow,
    total: Flow,
    streams: Receiver,
}

impl FlowTable {
    /// A table of at most `flows_max` flows. Packets of further ones are counted together.
    pub fn new(flows_max: usize) -> FlowTable {
        let config = ReceiverConfig { window: WINDOW, same_clock: false, ..ReceiverConfig::default() };
        FlowTable {
            flows: HashMap::new(),
            flows_max,
            others: Flow::default(),
            without_key: Flow::default(),
            total: Flow::default(),
            streams: Receiver::new(config),
        }
    }

    /// Counts a packet that had `original_len` bytes, of which `packet` was kept.
    pub fn note(&mut self, packet: &[u8], original_len: u32, time_ns: u64) {
        let len = u64::from(original_len);
        self.total.note(time_ns, len);
        // The signature is at the end, so a packet that was cut has none.
        if packet.len() as u64 == len {
            self.streams.record_packet(packet, packet.len(), time_ns);
        }
        let Some(key) = FlowKey::from_frame(packet) else {
            return self.without_key.note(time_ns, len);
        };
        let room = self.flows.len() < self.flows_max;
        match self.flows.get_mut(&key) {
            Some(flow) => flow.note(time_ns, len),
            None if room => self.flows.entry(key).or_default().note(time_ns, len),
            None => self.others.note(time_ns, len),
        }
    }

    /// The flows, those with the most bytes first.
    pub fn sorted(&self) -> Vec<(FlowKey, Flow)> {
        let mut flows: Vec<_> = self.flows.iter().map(|(key, flow)| (*key, *flow)).collect();
        // Flows that are alike stand in the order of their addresses, so that the same file gives the same text.
        flows.sort_by_key(|(key, flow)| {
            (std::cmp::Reverse(flow.bytes), flow.first_ns, key.src, key.dst, key.src_port, key.dst_port, key.protocol.0)
        });
        flows
    }

    /// Packets of flows for which there was no room.
    pub fn others(&self) -> &Flow {
        &self.others
    }

    /// Packets that are not IP, or whose headers are cut or malformed.
    pub fn without_key(&self) -> &Flow {
        &self.without_key
    }

    /// All packets.
    pub fn total(&self) -> &Flow {
        &self.total
    }

    /// Signed streams (see `linerate_gen::Signature`): what was delivered, lost, duplicated, reordered.
    pub fn streams(&self) -> &[StreamReport] {
        self.streams.streams()
    }
}

#[cfg(test)]
mod tests {
    use linerate_gen::Signature;
    use linerate_wire::{Stack, ethernet, ipv4, udp};

    use super::*;

    fn packet(port: u16, sequence: Option<u64>) -> Vec<u8> {
        let stack = Stack::new()
            .with(ethernet::Header::default())
            .with(ipv4::Header { src: [10, 0, 0, 1].into(), dst: [10, 0, 0, 2].into(), ..Default::default() })
            .with(udp::Header { src_port: port, dst_port: 9, ..Default::default() });
        let mut bytes = stack.build(64).unwrap().bytes;
        if let Some(sequence) = sequence {
            Signature { stream: 3, sequence, time_ns: sequence }.write(&mut bytes);
        }
        bytes
    }

    #[test]
    fn counts_by_flow_and_finds_what_streams_lost() {
        let mut table = FlowTable::new(10);
        for (number, sequence) in [0, 1, 4, 5].into_iter().enumerate() {
            table.note(&packet(1, Some(sequence)), 64, 1000 + number as u64);
        }
        table.note(&packet(2, None), 64, 900);
        table.note(&packet(2, Some(9))[..60], 64, 800);
        table.note(&[0; 20], 1500, 1);
        let flows = table.sorted();
        let tell = |at: usize| (flows[at].0.src_port, flows[at].1);
        assert_eq!(tell(0), (1, Flow { packets: 4, bytes: 256, first_ns: 1000, last_ns: 1003 }));
        assert_eq!(tell(1), (2, Flow { packets: 2, bytes: 128, first_ns: 800, last_ns: 900 }));
        assert_eq!((table.without_key().packets, table.without_key().bytes), (1, 1500));
        assert_eq!((table.total().packets, table.total().first_ns), (7, 1));
        let counts = table.streams()[0].counts();
        assert_eq!((table.streams().len(), counts.delivered, counts.lost), (1, 4, 2));
    }

    #[test]
    fn a_flood_of_flows_is_counted_together() {
        let mut table = FlowTable::new(100);
        (0..1000).for_each(|port| table.note(&packet(port, None), 64, 5));
        assert_eq!((table.sorted().len(), table.others().packets, table.total().packets), (100, 900, 1000));
        table.note(&packet(7, None), 64, 5);
        assert_eq!(table.others().packets, 900, "a flow that is known stays known");
    }
}
