//! The packets of the benches: 60 bytes without FCS, UDP over IPv4, both checksums right.

use std::net::Ipv4Addr;

use linerate_gen::{Advance, Arrival, CatchUp, Rule, Schedule, SenderPlan, Stream, StreamPlan, StreamSpec, Values};
use linerate_wire::{Stack, ethernet, ipv4, udp, verify_checksums};

/// Bytes of a packet, without FCS.
pub const PACKET_LEN: usize = 60;

/// What varies from packet to packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// Nothing: one packet, over and over.
    Fixed,
    /// 100 source by 100 destination addresses, the sources first.
    Flows,
    /// One flow, with a signature: number and time in the last 16 bytes.
    Signed,
    /// 10,000 flows with signatures.
    SignedFlows,
}

impl Traffic {
    /// With a signature in each packet?
    pub fn is_signed(self) -> bool {
        matches!(self, Traffic::Signed | Traffic::SignedFlows)
    }

    /// With 10,000 flows?
    pub fn has_flows(self) -> bool {
        matches!(self, Traffic::Flows | Traffic::SignedFlows)
    }

    /// The stream, as the product plans it.
    pub fn plan(self) -> StreamPlan {
        let addresses = ipv4::Header {
            src: Ipv4Addr::new(198, 18, 0, 1),
            dst: Ipv4Addr::new(198, 19, 0, 1),
            ttl: 64,
            ..ipv4::Header::default()
        };
        let stack = Stack::new().with(ethernet::Header::default()).with(addresses).with(udp::Header::default());
        let mut spec = StreamSpec::fixed(stack, PACKET_LEN, self.is_signed().then_some(1));
        if self.has_flows() {
            spec.rules = vec![
                hundred("ipv4.source", addresses.src, Advance::EachPacket),
                hundred("ipv4.destination", addresses.dst, Advance::WhenPreviousWraps),
            ];
        }
        spec.plan().expect("the layers make a packet of this length")
    }

    /// `packets` of them, as fast as the port takes them, in batches of `batch`.
    pub fn send(self, packets: u64, batch: usize) -> SenderPlan {
        let schedule = Schedule {
            rate_pps: None,
            arrival: Arrival::Constant,
            packets: Some(packets),
            duration_ns: None,
            catch_up: CatchUp::Burst,
        };
        SenderPlan { streams: vec![(self.plan(), 1)], schedule, batch, first_sequence: 0, in_turn: false }
    }

    /// Panics unless the packets are what the benches say they are: a bench of wrong packets would be worth nothing.
    pub fn check(self) {
        let mut stream = Stream::new(&self.plan());
        let mut seen = std::collections::HashSet::new();
        for _ in 0..10_000 {
            let mut packet = [0; PACKET_LEN];
            stream.write(0, &mut packet, 7);
            verify_checksums(&packet).expect("right checksums");
            assert_ne!(packet[40..42], [0, 0], "a UDP checksum is there");
            seen.insert(packet[26..34].to_vec());
        }
        let flows = if self.has_flows() { 10_000 } else { 1 };
        assert_eq!(seen.len(), flows);
    }
}

fn hundred(field: &str, first: Ipv4Addr, advance: Advance) -> Rule {
    let values = Values::Range { first: u64::from(first.to_bits()), step: 1, count: 100 };
    Rule { field: field.into(), values, advance }
}
