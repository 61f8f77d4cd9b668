//! Every counter on the path of a packet, read at once, and the difference of two readings.
//!
//! What each counter counts, and which of them count the same packet twice, was found by experiment; the table is in
//! docs/ledger.md. How they are read is in `sources`; how they add up to a list of losses is in [`crate::attribution`].

mod agreeing;
mod interface;
pub mod nic;
mod sources;

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;

use crate::drops::DropCounts;
use crate::hooks::Chain;
use linerate_testbed::netlink::NetlinkError;
use linerate_testbed::proc_net::{Counters, Softnet};
use linerate_testbed::switches::SwitchCounters;
use linerate_testbed::topology::Forwarding;

pub use interface::InterfaceCounters;
pub use sources::CounterSources;
pub use sources::Reading;

/// Why the counters could not be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the counters of the path: {0}")]
pub struct CountersError(#[from] io::Error);

impl From<NetlinkError> for CountersError {
    fn from(error: NetlinkError) -> Self {
        Self(io::Error::new(error.source.kind(), error.to_string()))
    }
}

/// A tester's interface and its namespace's protocol counters.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SideCounters {
    /// The interface.
    pub interface: InterfaceCounters,
    /// `/proc/net` of the namespace.
    pub protocols: Counters,
}

/// The DUT's interfaces and its namespace's protocol counters.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DutCounters {
    /// What carries packets between its interfaces.
    pub forwarding: Forwarding,
    /// Towards the generator.
    pub ingress: InterfaceCounters,
    /// Towards the receiver.
    pub egress: InterfaceCounters,
    /// `/proc/net` of the namespace.
    pub protocols: Counters,
    /// What its other interfaces transmitted, by name.
    pub elsewhere: Counters,
    /// nftables chains that packets can meet.
    pub chains: Vec<Chain>,
    /// Tables of iptables (legacy) that are in use.
    pub legacy_tables: Vec<String>,
    /// Tables of ip6tables (legacy) that are in use.
    pub legacy_tables_6: Vec<String>,
    /// Next hops that did not answer when the counters were read first, or last.
    pub unresolved_neighbours: Vec<IpAddr>,
    /// Whether a blackhole, unreachable or prohibit route of IPv4 exists.
    pub refusing_route: bool,
    /// The same of IPv6.
    pub refusing_route_6: bool,
    /// Whether programs read packet sockets on its interfaces and the kernel does not forward: what the kernel drops are copies.
    pub reads_packet_sockets: bool,
    /// What Linerate's own switch says of itself; none of other devices, and while it does not answer.
    pub switch: Option<SwitchCounters>,
}

/// Counters of the whole machine, to which others add too.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostCounters {
    /// By core.
    pub softnet: BTreeMap<usize, Softnet>,
}

/// One reading: totals since the interfaces were made.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Snapshot {
    /// Where frames are sent.
    pub generator: SideCounters,
    /// The device under test, when there is one.
    pub dut: Option<DutCounters>,
    /// Where frames are received.
    pub receiver: SideCounters,
    /// The machine.
    pub host: HostCounters,
    /// Whether a device outside the lab is between the two interfaces.
    pub outside: bool,
    /// What the kernel says about its drops; none where it may not be asked.
    pub drops: Option<DropCounts>,
    /// Why it may not be asked.
    pub blind_spot: Option<String>,
}

/// What was added between two readings. The lists (chains, neighbours, routes) have what either of them had.
pub type Difference = Snapshot;

impl Snapshot {
    /// Of a difference that began at rest: packets that one end of a link has sent and the other has not received, so they
    /// are in its ring. A path whose NAPI thread waits for its core looks still while there are some.
    pub fn in_flight(&self) -> u64 {
        let between = |from: &InterfaceCounters, to: &InterfaceCounters| from.tx_packets.saturating_sub(to.rx_packets);
        let (generator, receiver) = (&self.generator.interface, &self.receiver.interface);
        let joined = match &self.dut {
            Some(dut) => vec![(generator, &dut.ingress), (&dut.egress, receiver)],
            None => vec![(generator, receiver)],
        };
        let in_rings: u64 = joined.into_iter().map(|(one, other)| between(one, other) + between(other, one)).sum();
        let switch = self.dut.as_ref().and_then(|dut| dut.switch.as_ref());
        in_rings + switch.map_or(0, |switch| switch.waiting)
    }

    /// Of a difference that began at rest: packets that wait in rings of NAPI where no counter has them, of those that the ports handed to
    /// their interfaces (`sent`, forward first). A veth counts such a packet on both ends when NAPI takes it out, so what a port has sent
    /// and its interface has not counted is in the ring, as far as that has room, unless the interface was down.
    pub fn in_uncounted_rings(&self, sent: [u64; 2]) -> u64 {
        let (generator, receiver) = (&self.generator.interface, &self.receiver.interface);
        let (first, last) = self.dut.as_ref().map_or((receiver, generator), |dut| (&dut.ingress, &dut.egress));
        let by_port = |sent: u64, from: &InterfaceCounters, to: &InterfaceCounters| {
            let counted = from.tx_packets + from.tx_dropped + from.queue_drops + from.queued;
            let missing = sent.saturating_sub(counted);
            if to.napi && to.running && to.carrier_losses == 0 { missing.min(to.ring_slots()) } else { 0 }
        };
        // What an XDP program sent over a veth, the veth counts when it is put into the ring, too.
        let by_program = |from: &InterfaceCounters, to: &InterfaceCounters| {
            let put = from.driver_sum("tx", "xdp_xmit").saturating_sub(to.driver_sum("rx", "xdp_packets"));
            if to.napi && to.running && to.carrier_losses == 0 { put.min(to.ring_slots()) } else { 0 }
        };
        let from_dut = self.dut.as_ref().map_or(0, |_| by_program(last, receiver) + by_program(first, generator));
        by_port(sent[0], generator, first) + by_port(sent[1], receiver, last) + from_dut
    }

    /// What was added since `earlier`.
    pub fn since(&self, earlier: &Self) -> Difference {
        let side = |later: &SideCounters, earlier: &SideCounters| SideCounters {
            interface: later.interface.since(&earlier.interface),
            protocols: added(&later.protocols, &earlier.protocols),
        };
        let dut = self.dut.as_ref().map(|later| {
            let earlier = earlier.dut.clone().unwrap_or_default();
            DutCounters {
                ingress: later.ingress.since(&earlier.ingress),
                egress: later.egress.since(&earlier.egress),
                protocols: added(&later.protocols, &earlier.protocols),
                elsewhere: added(&later.elsewhere, &earlier.elsewhere),
                unresolved_neighbours: either(&later.unresolved_neighbours, &earlier.unresolved_neighbours),
                chains: either(&later.chains, &earlier.chains),
                legacy_tables: either(&later.legacy_tables, &earlier.legacy_tables),
                legacy_tables_6: either(&later.legacy_tables_6, &earlier.legacy_tables_6),
                refusing_route: later.refusing_route || earlier.refusing_route,
                reads_packet_sockets: later.reads_packet_sockets || earlier.reads_packet_sockets,
                refusing_route_6: later.refusing_route_6 || earlier.refusing_route_6,
                switch: later.switch.as_ref().zip(earlier.switch.as_ref()).map(|(later, earlier)| later.since(earlier)),
                ..later.clone()
            }
        });
        Difference {
            generator: side(&self.generator, &earlier.generator),
            dut,
            receiver: side(&self.receiver, &earlier.receiver),
            host: self.host.since(&earlier.host),
            outside: self.outside,
            drops: self.drops.as_ref().zip(earlier.drops.as_ref()).map(|(later, earlier)| later.since(earlier)),
            blind_spot: self.blind_spot.clone(),
        }
    }

    /// Packets that wait in queueing disciplines and in the switch.
    pub(super) fn queued(&self) -> u64 {
        let dut = self.dut.iter().flat_map(|dut| [&dut.ingress, &dut.egress]);
        let interfaces = dut.chain([&self.generator.interface, &self.receiver.interface]);
        let switch = self.dut.as_ref().and_then(|dut| dut.switch.as_ref());
        interfaces.map(|interface| interface.queued).sum::<u64>() + switch.map_or(0, |switch| switch.waiting)
    }

    /// Packets that had reached the interfaces of the ends: of the receiving one, and of the sending one.
    pub fn reached(&self) -> [u64; 2] {
        [self.receiver.interface.rx_packets, self.generator.interface.rx_packets]
    }

    /// Packets that all interfaces, and the switch, have counted: while this moves, packets are still under way.
    fn movement(&self) -> u64 {
        let dut = self.dut.iter().flat_map(|dut| [&dut.ingress, &dut.egress]);
        let interfaces = dut.chain([&self.generator.interface, &self.receiver.interface]);
        let counted = interfaces.map(|i| i.rx_packets + i.tx_packets + i.rx_dropped + i.tx_dropped + i.queue_drops);
        // A switch answers between two rounds, in each of which it would have taken what waited for it.
        let switch = self.dut.as_ref().and_then(|dut| dut.switch.as_ref());
        counted.sum::<u64>() + switch.map_or(0, SwitchCounters::movement)
    }
}

impl HostCounters {
    fn since(&self, earlier: &Self) -> Self {
        let core = |(core, later): (&usize, &Softnet)| {
            let earlier = earlier.softnet.get(core).copied().unwrap_or_default();
            let dropped = later.dropped.saturating_sub(earlier.dropped);
            (*core, Softnet { dropped, time_squeeze: later.time_squeeze.saturating_sub(earlier.time_squeeze) })
        };
        Self { softnet: self.softnet.iter().map(core).collect() }
    }

    /// Packets that all cores dropped because their backlog was full.
    pub fn backlog_drops(&self) -> u64 {
        self.softnet.values().map(|core| core.dropped).sum()
    }
}

/// What is in one list or in the other.
fn either<T: Clone + PartialEq>(later: &[T], earlier: &[T]) -> Vec<T> {
    let mut all = earlier.to_vec();
    all.extend(later.iter().filter(|one| !earlier.contains(one)).cloned());
    all
}

fn added(later: &Counters, earlier: &Counters) -> Counters {
    let value = |(name, value): (&String, &u64)| {
        (name.clone(), value.saturating_sub(earlier.get(name).copied().unwrap_or_default()))
    };
    later.iter().map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_what_was_added_and_keeps_the_later_state() {
        let interface = |rx_packets, napi| InterfaceCounters { rx_packets, napi, running: true, ..Default::default() };
        let earlier = Snapshot {
            receiver: SideCounters { interface: interface(10, true), protocols: Counters::from([("a".to_owned(), 1)]) },
            host: HostCounters { softnet: BTreeMap::from([(1, Softnet { dropped: 2, time_squeeze: 0 })]) },
            ..Snapshot::default()
        };
        let mut later = earlier.clone();
        later.receiver.interface = interface(17, false);
        later.receiver.protocols.insert("a".to_owned(), 4);
        later.host.softnet.insert(1, Softnet { dropped: 12, time_squeeze: 1 });
        let difference = later.since(&earlier);
        assert_eq!(difference.receiver.interface.rx_packets, 7);
        assert!(difference.receiver.interface.napi, "it had NAPI for a part of the time");
        assert_eq!(difference.receiver.protocols["a"], 3);
        assert_eq!(difference.host.backlog_drops(), 10);
        // An interface that was made anew starts at 0: no huge number comes of it.
        assert_eq!(earlier.since(&later).receiver.interface.rx_packets, 0);
    }
}
