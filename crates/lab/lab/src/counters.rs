//! Every counter on the path of a packet, read at once, and the difference of two readings.
//!
//! What each counter counts, and which of them count the same packet twice, was found by experiment; the table is in
//! docs/ledger.md. How they add up to a list of losses is in [`crate::places`].

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use linerate_sys::netdev::Netdev;
use linerate_sys::netns::NetNs;

use crate::drops::{DropCounts, DropSource};
use crate::hooks::{Chain, HookReader};
use crate::napi::NetdevFamily;
use crate::netlink::{Netlink, NetlinkError};
use crate::proc_net::{Counters, ProcFile, ProcNet, Softnet, parse_softnet, sum_columns};
use crate::topology::{Carrier, Interface, Topology};

/// Why the counters could not be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the counters of the path: {0}")]
pub struct CountersError(#[from] io::Error);

impl From<NetlinkError> for CountersError {
    fn from(error: NetlinkError) -> Self {
        Self(io::Error::new(error.source.kind(), error.to_string()))
    }
}

/// The counters of one interface. In a [`Snapshot`] they are totals, in a [`Difference`] what was added.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InterfaceCounters {
    /// Its name.
    pub name: String,
    /// Packets received; on a veth exactly those that its peer counts as transmitted.
    pub rx_packets: u64,
    /// Packets transmitted.
    pub tx_packets: u64,
    /// Packets dropped on reception; on a veth partly the same that its peer counts as `tx_dropped`.
    pub rx_dropped: u64,
    /// Packets dropped on transmission.
    pub tx_dropped: u64,
    /// Packets that IPv4 dropped because their destination MAC address is another's.
    pub rx_otherhost_dropped: u64,
    /// Packets that its queueing discipline dropped; in no other counter.
    pub queue_drops: u64,
    /// Times that its carrier went away.
    pub carrier_losses: u64,
    /// Whether it is up and has a carrier now.
    pub running: bool,
    /// Whether it receives by NAPI, through a ring of its own.
    pub napi: bool,
    /// Whether an XDP program is attached.
    pub xdp: bool,
    /// The driver's own counters.
    pub driver: Counters,
}

impl InterfaceCounters {
    /// The sum of the driver's counters of one kind over all queues: `rx`, `xdp_drops` is `rx_queue_0_xdp_drops` and so on.
    pub fn driver_sum(&self, direction: &str, counter: &str) -> u64 {
        let prefix = format!("{direction}_queue_");
        let of_kind = |name: &str| {
            let rest = name.strip_prefix(&prefix)?;
            let (queue, kind) = rest.split_once('_')?;
            Some(kind == counter && queue.bytes().all(|byte| byte.is_ascii_digit()))
        };
        self.driver.iter().filter(|(name, _)| of_kind(name) == Some(true)).map(|(_, value)| value).sum()
    }

    fn since(&self, earlier: &Self) -> Self {
        Self {
            name: self.name.clone(),
            rx_packets: self.rx_packets.saturating_sub(earlier.rx_packets),
            tx_packets: self.tx_packets.saturating_sub(earlier.tx_packets),
            rx_dropped: self.rx_dropped.saturating_sub(earlier.rx_dropped),
            tx_dropped: self.tx_dropped.saturating_sub(earlier.tx_dropped),
            rx_otherhost_dropped: self.rx_otherhost_dropped.saturating_sub(earlier.rx_otherhost_dropped),
            queue_drops: self.queue_drops.saturating_sub(earlier.queue_drops),
            carrier_losses: self.carrier_losses.saturating_sub(earlier.carrier_losses),
            running: self.running,
            napi: self.napi || earlier.napi,
            xdp: self.xdp || earlier.xdp,
            driver: added(&self.driver, &earlier.driver),
        }
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
    pub carrier: Carrier,
    /// Towards the generator.
    pub ingress: InterfaceCounters,
    /// Towards the receiver.
    pub egress: InterfaceCounters,
    /// `/proc/net` of the namespace.
    pub protocols: Counters,
    /// nftables chains that packets can meet.
    pub chains: Vec<Chain>,
    /// Next hops that do not answer.
    pub unresolved_neighbours: Vec<Ipv4Addr>,
    /// Whether a blackhole, unreachable or prohibit route exists.
    pub refusing_route: bool,
}

/// Counters of the whole machine, to which others add too.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostCounters {
    /// By core.
    pub softnet: BTreeMap<usize, Softnet>,
    /// Packets dropped because too many waited for one neighbour; `None` where it cannot be read (only the first network
    /// namespace shows it).
    pub neighbour_discards: Option<u64>,
    /// Packets dropped because the neighbour table had no room for their next hop; read as `neighbour_discards` is.
    pub neighbour_table_fulls: Option<u64>,
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
    /// What the kernel says about its drops; none where it may not be asked.
    pub drops: Option<DropCounts>,
    /// Why it may not be asked.
    pub blind_spot: Option<String>,
}

/// What was added between two readings. The lists (chains, neighbours, routes) are those of the later one.
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
        joined.into_iter().map(|(one, other)| between(one, other) + between(other, one)).sum()
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
                ..later.clone()
            }
        });
        Difference {
            generator: side(&self.generator, &earlier.generator),
            dut,
            receiver: side(&self.receiver, &earlier.receiver),
            host: self.host.since(&earlier.host),
            drops: self.drops.as_ref().zip(earlier.drops.as_ref()).map(|(later, earlier)| later.since(earlier)),
            blind_spot: self.blind_spot.clone(),
        }
    }

    /// Packets that all interfaces have counted: while this moves, packets are still under way.
    fn movement(&self) -> u64 {
        let dut = self.dut.iter().flat_map(|dut| [&dut.ingress, &dut.egress]);
        let interfaces = dut.chain([&self.generator.interface, &self.receiver.interface]);
        interfaces.map(|i| i.rx_packets + i.tx_packets + i.rx_dropped + i.tx_dropped + i.queue_drops).sum()
    }
}

impl HostCounters {
    fn since(&self, earlier: &Self) -> Self {
        let core = |(core, later): (&usize, &Softnet)| {
            let earlier = earlier.softnet.get(core).copied().unwrap_or_default();
            let dropped = later.dropped.saturating_sub(earlier.dropped);
            (*core, Softnet { dropped, time_squeeze: later.time_squeeze.saturating_sub(earlier.time_squeeze) })
        };
        let added = |later: Option<u64>, earlier: Option<u64>| {
            later.zip(earlier).map(|(later, earlier)| later.saturating_sub(earlier))
        };
        Self {
            softnet: self.softnet.iter().map(core).collect(),
            neighbour_discards: added(self.neighbour_discards, earlier.neighbour_discards),
            neighbour_table_fulls: added(self.neighbour_table_fulls, earlier.neighbour_table_fulls),
        }
    }

    /// Packets that all cores dropped because their backlog was full.
    pub fn backlog_drops(&self) -> u64 {
        self.softnet.values().map(|core| core.dropped).sum()
    }
}

fn added(later: &Counters, earlier: &Counters) -> Counters {
    let value = |(name, value): (&String, &u64)| {
        (name.clone(), value.saturating_sub(earlier.get(name).copied().unwrap_or_default()))
    };
    later.iter().map(value).collect()
}

/// Why drop reasons are not read when nothing hinders it.
const LEFT_OUT: &str = "left out, for what they cost";

/// The open files and sockets from which snapshots of one topology are read, from any thread.
#[derive(Debug)]
pub struct CounterSources {
    generator: SideSource,
    dut: Option<DutSource>,
    receiver: SideSource,
    softnet: ProcFile,
    neighbours: Option<ProcFile>,
    /// Every interface's other end is among these.
    joined: bool,
    drops: Result<DropSource, String>,
}

impl CounterSources {
    /// Opens them.
    ///
    /// # Errors
    /// When a namespace cannot be entered or `/proc` is not there.
    pub fn open(topology: &Topology) -> Result<Self, CountersError> {
        let side = |namespace, interface: &Interface| SideSource::open(namespace, interface.name, interface.index);
        let dut = topology.dut.as_ref().map(|dut| -> Result<DutSource, CountersError> {
            Ok(DutSource {
                carrier: dut.carrier.clone(),
                ingress: InterfaceSource::open(&dut.namespace, dut.ingress.name, dut.ingress.index)?,
                egress: InterfaceSource::open(&dut.namespace, dut.egress.name, dut.egress.index)?,
                protocols: dut.namespace.run(ProcNet::of_this_thread)??,
                hooks: HookReader::open(&dut.namespace).ok(),
            })
        });
        Ok(Self {
            generator: side(&topology.generator.namespace, &topology.generator.interface)?,
            dut: dut.transpose()?,
            receiver: side(&topology.receiver.namespace, &topology.receiver.interface)?,
            softnet: ProcFile::of_this_thread("softnet_stat")?,
            neighbours: ProcFile::of_this_thread("stat/arp_cache").ok(),
            joined: true,
            drops: DropSource::open(topology),
        })
    }

    /// Opens those of two interfaces of one namespace, each by name and index, with something outside the lab between them.
    ///
    /// # Errors
    /// As [`CounterSources::open`].
    pub fn of_ports(namespace: &NetNs, a: (&str, u32), b: (&str, u32)) -> Result<Self, CountersError> {
        Ok(Self {
            generator: SideSource::open(namespace, a.0, a.1)?,
            dut: None,
            receiver: SideSource::open(namespace, b.0, b.1)?,
            softnet: ProcFile::of_this_thread("softnet_stat")?,
            neighbours: None,
            joined: false,
            drops: Err("the path is not inside this machine".to_owned()),
        })
    }

    /// Whether what one interface sends is received by another one of them, so that [`Snapshot::in_flight`] means something.
    pub fn is_joined(&self) -> bool {
        self.joined
    }

    /// Leaves the kernel's drop reasons out, as where they may not be read: to compare, and to measure what they cost.
    pub fn without_drop_reasons(mut self) -> Self {
        self.drops = Err(LEFT_OUT.to_owned());
        self
    }

    /// Reads them again from now on, where they had been left out.
    pub(crate) fn read_drop_reasons(&mut self, topology: &Topology) {
        if self.blind_spot() == Some(LEFT_OUT) {
            self.drops = DropSource::open(topology);
        }
    }

    /// Why the kernel's drop reasons are not read, if so.
    pub fn blind_spot(&self) -> Option<&str> {
        self.drops.as_ref().err().map(String::as_str)
    }

    /// Reads all of them, in path order.
    ///
    /// # Errors
    /// When an interface is gone.
    pub fn snapshot(&mut self) -> Result<Snapshot, CountersError> {
        let generator = self.generator.read()?;
        let dut = self.dut.as_mut().map(DutSource::read).transpose()?;
        let receiver = self.receiver.read()?;
        let neighbours = self.neighbours.as_mut().and_then(|file| file.read().ok());
        let neighbours = neighbours.map(|text| sum_columns(&text)).unwrap_or_default();
        let host = HostCounters {
            softnet: parse_softnet(&self.softnet.read()?),
            neighbour_discards: neighbours.get("unresolved_discards").copied(),
            neighbour_table_fulls: neighbours.get("table_fulls").copied(),
        };
        let drops = self.drops.as_mut().ok().and_then(|drops| drops.read().ok());
        Ok(Snapshot { generator, dut, receiver, host, drops, blind_spot: self.blind_spot().map(str::to_owned) })
    }

    /// Reads until no packet has moved for `quiet`, for `at_most` in all: a packet in a ring is in no counter. The last
    /// reading, and whether the path had come to rest.
    ///
    /// # Errors
    /// As [`CounterSources::snapshot`].
    pub fn snapshot_at_rest(&mut self, quiet: Duration, at_most: Duration) -> Result<(Snapshot, bool), CountersError> {
        let start = Instant::now();
        let mut last = self.snapshot()?;
        let mut since = Instant::now();
        loop {
            std::thread::sleep((quiet / 4).max(Duration::from_millis(1)));
            let next = self.snapshot()?;
            if next.movement() != last.movement() {
                since = Instant::now();
            } else if since.elapsed() >= quiet {
                return Ok((next, true));
            }
            if start.elapsed() >= at_most {
                return Ok((next, false));
            }
            last = next;
        }
    }
}

#[derive(Debug)]
struct SideSource {
    interface: InterfaceSource,
    protocols: ProcNet,
}

impl SideSource {
    fn open(namespace: &NetNs, interface: &str, index: u32) -> Result<Self, CountersError> {
        Ok(Self {
            interface: InterfaceSource::open(namespace, interface, index)?,
            protocols: namespace.run(ProcNet::of_this_thread)??,
        })
    }

    fn read(&mut self) -> Result<SideCounters, CountersError> {
        Ok(SideCounters { interface: self.interface.read()?, protocols: self.protocols.read()? })
    }
}

#[derive(Debug)]
struct DutSource {
    carrier: Carrier,
    ingress: InterfaceSource,
    egress: InterfaceSource,
    protocols: ProcNet,
    hooks: Option<HookReader>,
}

impl DutSource {
    fn read(&mut self) -> Result<DutCounters, CountersError> {
        let netlink = &mut self.egress.netlink;
        let unresolved_neighbours = netlink.unresolved_neighbours(self.egress.index)?;
        let refusing_route = netlink.has_refusing_route()?;
        Ok(DutCounters {
            carrier: self.carrier.clone(),
            ingress: self.ingress.read()?,
            egress: self.egress.read()?,
            protocols: self.protocols.read()?,
            chains: self.hooks.as_mut().and_then(|hooks| hooks.chains().ok()).unwrap_or_default(),
            unresolved_neighbours,
            refusing_route,
        })
    }
}

#[derive(Debug)]
struct InterfaceSource {
    index: u32,
    netlink: Netlink,
    device: Netdev,
    driver_names: Vec<String>,
    netdev_family: Option<NetdevFamily>,
}

impl InterfaceSource {
    fn open(namespace: &NetNs, interface: &str, index: u32) -> Result<Self, CountersError> {
        let device = namespace.run(|| Netdev::open(interface))??;
        Ok(Self {
            index,
            netlink: Netlink::open_in(namespace)?,
            driver_names: device.statistic_names()?,
            device,
            netdev_family: NetdevFamily::open(namespace).ok(),
        })
    }

    fn read(&mut self) -> Result<InterfaceCounters, CountersError> {
        let link = self.netlink.link_statistics(self.index)?;
        let values = self.device.statistic_values(self.driver_names.len())?;
        Ok(InterfaceCounters {
            name: self.device.name().to_owned(),
            rx_packets: link.counters.rx_packets,
            tx_packets: link.counters.tx_packets,
            rx_dropped: link.counters.rx_dropped,
            tx_dropped: link.counters.tx_dropped,
            rx_otherhost_dropped: link.counters.rx_otherhost_dropped,
            queue_drops: self.netlink.queue_drops(self.index)?,
            carrier_losses: link.carrier_losses.into(),
            running: link.running,
            napi: self.has_napi()?,
            xdp: link.xdp,
            driver: self.driver_names.iter().cloned().zip(values).collect(),
        })
    }

    fn has_napi(&mut self) -> io::Result<bool> {
        match &mut self.netdev_family {
            Some(family) => Ok(!family.napi_of(self.index)?.is_empty()),
            // Kernels before 6.8: a veth has NAPI when GRO is on (or an XDP program is attached, which is not seen here).
            None => Ok(self.device.feature("rx-gro")? == Some(true)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn driver_counters_are_summed_over_the_queues_of_one_direction() {
        let driver = [
            ("rx_queue_0_xdp_drops", 3),
            ("rx_queue_1_xdp_drops", 4),
            ("rx_queue_0_drops", 100),
            ("tx_queue_0_xdp_drops", 1000),
            ("peer_ifindex", 7),
        ];
        let driver = driver.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let interface = InterfaceCounters { driver, ..InterfaceCounters::default() };
        assert_eq!(interface.driver_sum("rx", "xdp_drops"), 7);
        assert_eq!(interface.driver_sum("rx", "drops"), 100);
        assert_eq!(interface.driver_sum("rx", "nothing"), 0);
    }

    #[test]
    fn a_difference_is_what_was_added_and_keeps_the_later_state() {
        let interface = |rx_packets, napi| InterfaceCounters { rx_packets, napi, running: true, ..Default::default() };
        let earlier = Snapshot {
            receiver: SideCounters { interface: interface(10, true), protocols: Counters::from([("a".to_owned(), 1)]) },
            host: HostCounters {
                softnet: BTreeMap::from([(1, Softnet { dropped: 2, time_squeeze: 0 })]),
                neighbour_discards: Some(5),
                neighbour_table_fulls: None,
            },
            ..Snapshot::default()
        };
        let mut later = earlier.clone();
        later.receiver.interface = interface(17, false);
        later.receiver.protocols.insert("a".to_owned(), 4);
        later.host.softnet.insert(1, Softnet { dropped: 12, time_squeeze: 1 });
        later.host.neighbour_discards = Some(6);
        let difference = later.since(&earlier);
        assert_eq!(difference.receiver.interface.rx_packets, 7);
        assert!(difference.receiver.interface.napi, "it had NAPI for a part of the time");
        assert_eq!(difference.receiver.protocols["a"], 3);
        assert_eq!((difference.host.backlog_drops(), difference.host.neighbour_discards), (10, Some(1)));
        // An interface that was made anew starts at 0: no huge number comes of it.
        assert_eq!(earlier.since(&later).receiver.interface.rx_packets, 0);
    }
}
