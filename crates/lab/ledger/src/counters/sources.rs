//! Where the counters are read: the open files, sockets and programs of one path.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use linerate_experiment::IpVersion;
use linerate_sys::netdev::Netdev;
use linerate_sys::netns::NetNs;

use super::agreeing::agreeing;
use super::{CountersError, DutCounters, HostCounters, InterfaceCounters, SideCounters, Snapshot, nic};
use crate::drops::DropSource;
use crate::hooks::HookReader;
use linerate_testbed::napi::NetdevFamily;
use linerate_testbed::netlink::{ERROR_FIELDS, Netlink};
use linerate_testbed::proc_net::{Counters, ProcFile, ProcNet, has_packet_socket, parse_softnet};
use linerate_testbed::topology::{Forwarding, Interface, Topology};

/// The open files and sockets from which snapshots of one topology are read, from any thread.
#[derive(Debug)]
pub struct CounterSources {
    generator: SideSource,
    dut: Option<DutSource>,
    receiver: SideSource,
    softnet: ProcFile,
    /// Every interface's other end is among these.
    joined: bool,
    reasons: Reasons,
}

impl CounterSources {
    /// Opens them, the kernel's drop reasons among them where they may be read.
    ///
    /// # Errors
    /// When a namespace cannot be entered or `/proc` is not there.
    pub fn open(topology: &Topology) -> Result<Self, CountersError> {
        Ok(Self { reasons: Reasons::of(topology), ..Self::without_drop_reasons(topology)? })
    }

    /// As [`CounterSources::open`] without the kernel's drop reasons, which cost time for each packet (docs/ledger.md).
    ///
    /// # Errors
    /// As [`CounterSources::open`].
    pub fn without_drop_reasons(topology: &Topology) -> Result<Self, CountersError> {
        let side = |namespace, interface: &Interface| SideSource::open(namespace, interface.name, interface.index);
        let dut = topology.dut.as_ref().map(|dut| -> Result<DutSource, CountersError> {
            Ok(DutSource {
                forwarding: dut.forwarding.clone(),
                ingress: InterfaceSource::open(&dut.namespace, dut.ingress.name, dut.ingress.index)?,
                egress: InterfaceSource::open(&dut.namespace, dut.egress.name, dut.egress.index)?,
                protocols: dut.namespace.run(ProcNet::of_this_thread)??,
                hooks: HookReader::open(&dut.namespace).ok(),
                legacy: dut.namespace.run(|| ProcFile::of_this_thread("ip_tables_names"))?.ok(),
                legacy_6: dut.namespace.run(|| ProcFile::of_this_thread("ip6_tables_names"))?.ok(),
                packet_sockets: match dut.forwarding.may_copy {
                    true => dut.namespace.run(|| ProcFile::of_this_thread("packet"))?.ok(),
                    false => None,
                },
            })
        });
        Ok(Self {
            generator: side(&topology.generator.namespace, &topology.generator.interface)?,
            dut: dut.transpose()?,
            receiver: side(&topology.receiver.namespace, &topology.receiver.interface)?,
            softnet: ProcFile::of_this_thread("softnet_stat")?,
            joined: true,
            reasons: Reasons::LeftOut,
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
            joined: false,
            reasons: Reasons::Refused("the path is not inside this machine".to_owned()),
        })
    }

    /// Whether what one interface sends is received by another one of them, so that [`Snapshot::in_flight`] means something.
    pub fn is_joined(&self) -> bool {
        self.joined
    }

    /// Reads the kernel's drop reasons from now on, where they had been left out. Whether it does.
    pub fn read_drop_reasons(&mut self, topology: &Topology) -> bool {
        match std::mem::replace(&mut self.reasons, Reasons::LeftOut) {
            Reasons::LeftOut => {
                self.reasons = Reasons::of(topology);
                matches!(self.reasons, Reasons::Read(_))
            }
            Reasons::ReadForNow(source) => {
                self.reasons = Reasons::Read(source);
                false
            }
            other => {
                self.reasons = other;
                false
            }
        }
    }

    /// Reads the kernel's drop reasons in the next trial, if that `is_cheap`; not in trials where it is not, unless they were needed.
    pub fn ask_where_cheap(&mut self, topology: &Topology, is_cheap: bool) {
        match (&self.reasons, is_cheap) {
            (Reasons::LeftOut, true) => {
                self.reasons = match Reasons::of(topology) {
                    Reasons::Read(source) => Reasons::ReadForNow(source),
                    other => other,
                }
            }
            (Reasons::ReadForNow(_), false) => self.reasons = Reasons::LeftOut,
            _ => {}
        }
    }

    /// Why the kernel's drop reasons are not read, if so.
    pub fn blind_spot(&self) -> Option<&str> {
        match &self.reasons {
            Reasons::Read(_) | Reasons::ReadForNow(_) => None,
            Reasons::LeftOut => Some("left out, for what they cost"),
            Reasons::Refused(why) => Some(why),
        }
    }

    /// Reads all of them, in path order.
    ///
    /// # Errors
    /// When an interface is gone.
    pub fn snapshot(&mut self) -> Result<Snapshot, CountersError> {
        let generator = self.generator.read()?;
        let dut = self.dut.as_mut().map(DutSource::read).transpose()?;
        let receiver = self.receiver.read()?;
        let host = HostCounters { softnet: parse_softnet(&self.softnet.read()?) };
        let drops = match &mut self.reasons {
            Reasons::Read(source) | Reasons::ReadForNow(source) => source.read().ok(),
            Reasons::LeftOut | Reasons::Refused(_) => None,
        };
        Ok(Snapshot {
            generator,
            dut,
            receiver,
            host,
            outside: !self.joined,
            drops,
            blind_spot: self.blind_spot().map(str::to_owned),
        })
    }

    /// Reads again, after a reading that was made `last`: until two readings one after the other agree, a few times at most.
    ///
    /// # Errors
    /// As [`CounterSources::snapshot`].
    pub fn snapshot_after(&mut self, last: &Snapshot) -> Result<Snapshot, CountersError> {
        agreeing(last, || self.snapshot())
    }

    /// Reads until no packet has moved for `quiet` and none waits in a queueing discipline, for `at_most` in all: a packet in a ring is
    /// in no counter. The last reading, and whether the path had come to rest.
    ///
    /// # Errors
    /// As [`CounterSources::snapshot`].
    pub fn snapshot_at_rest(&mut self, quiet: Duration, at_most: Duration) -> Result<(Snapshot, bool), CountersError> {
        self.read_at_rest(quiet, at_most).map(|reading| (reading.snapshot, reading.is_quiet))
    }

    /// As [`CounterSources::snapshot_at_rest`], with what tells how unsure a reading without rest is.
    pub fn read_at_rest(&mut self, quiet: Duration, at_most: Duration) -> Result<Reading, CountersError> {
        let start = Instant::now();
        let mut last = self.snapshot()?;
        let mut since = Instant::now();
        // What had reached the ends at each reading of the last `quiet`, and at the one before.
        let mut reached = VecDeque::from([(since, last.reached())]);
        loop {
            std::thread::sleep((quiet / 4).max(Duration::from_millis(1)));
            let next = self.snapshot()?;
            let now = Instant::now();
            reached.push_back((now, next.reached()));
            while reached.get(1).is_some_and(|(then, _)| now - *then >= quiet) {
                reached.pop_front();
            }
            if next.movement() != last.movement() || next.queued() > 0 {
                since = now;
            } else if now - since >= quiet {
                return Ok(Reading { snapshot: next, is_quiet: true, lately: [0; 2] });
            }
            if now - start >= at_most {
                let earlier = reached.front().map_or_else(|| next.reached(), |(_, reached)| *reached);
                let lately = std::array::from_fn(|end| next.reached()[end].saturating_sub(earlier[end]));
                return Ok(Reading { snapshot: next, is_quiet: false, lately });
            }
            last = next;
        }
    }
}

/// A reading of the counters, on a path that was to come to rest.
#[derive(Debug)]
pub struct Reading {
    /// The counters.
    pub snapshot: Snapshot,
    /// Whether it had.
    pub is_quiet: bool,
    /// Packets that had reached the receiving and the sending end's interface in the `quiet` time before, if it had not. They can still be in
    /// a ring, or in a block that the kernel has not handed over, so that the end has not counted them.
    pub lately: [u64; 2],
}

/// Whether the kernel's drop reasons are read.
#[derive(Debug)]
enum Reasons {
    Read(Box<DropSource>),
    /// As long as loads are small.
    ReadForNow(Box<DropSource>),
    /// Though nothing is known to hinder it.
    LeftOut,
    /// What hinders it, in words.
    Refused(String),
}

impl Reasons {
    fn of(topology: &Topology) -> Self {
        DropSource::open(topology).map_or_else(Self::Refused, |source| Self::Read(Box::new(source)))
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
        // First, as of the device: what is between two readings of the interfaces is then in it (agreeing.rs).
        let protocols = self.protocols.read()?;
        Ok(SideCounters { interface: self.interface.read()?, protocols })
    }
}

#[derive(Debug)]
struct DutSource {
    forwarding: Forwarding,
    ingress: InterfaceSource,
    egress: InterfaceSource,
    protocols: ProcNet,
    hooks: Option<HookReader>,
    legacy: Option<ProcFile>,
    legacy_6: Option<ProcFile>,
    /// Of a program, which can take its packets by packet sockets.
    packet_sockets: Option<ProcFile>,
}

impl DutSource {
    fn read(&mut self) -> Result<DutCounters, CountersError> {
        let netlink = &mut self.egress.netlink;
        let unresolved_neighbours = netlink.unresolved_neighbours()?;
        let refusing_route = netlink.has_refusing_route(IpVersion::V4)?;
        let refusing_route_6 = netlink.has_refusing_route(IpVersion::V6)?;
        let known = [self.ingress.index, self.egress.index];
        let others = netlink.links()?.into_iter().filter(|(index, ..)| !known.contains(index));
        let elsewhere = others.map(|(_, name, tx_packets)| (name, tx_packets)).collect();
        let [legacy_tables, legacy_tables_6] = [&mut self.legacy, &mut self.legacy_6].map(|file| {
            let text = file.as_mut().and_then(|file| file.read().ok()).unwrap_or_default();
            text.lines().map(str::to_owned).collect()
        });
        let protocols = self.protocols.read()?;
        let sockets = self.packet_sockets.as_mut().and_then(|file| file.read().ok()).unwrap_or_default();
        // "Ip.Forwarding" of /proc/net/snmp: 1 it forwards, 2 it does not (RFC 1213, ipForwarding).
        let forwards = protocols.get("Ip.Forwarding") == Some(&1);
        Ok(DutCounters {
            forwarding: self.forwarding.clone(),
            ingress: self.ingress.read()?,
            egress: self.egress.read()?,
            reads_packet_sockets: !forwards && has_packet_socket(&sockets, known),
            protocols,
            elsewhere,
            legacy_tables,
            legacy_tables_6,
            chains: self.hooks.as_mut().and_then(|hooks| hooks.chains().ok()).unwrap_or_default(),
            unresolved_neighbours,
            refusing_route,
            refusing_route_6,
            // After the interfaces: what they have counted it has had the time to take.
            switch: self.forwarding.switch.as_ref().and_then(|switch| switch.read().ok()),
        })
    }
}

#[derive(Debug)]
struct InterfaceSource {
    index: u32,
    netlink: Netlink,
    device: Netdev,
    driver_name: String,
    driver_names: Vec<String>,
    netdev_family: Option<NetdevFamily>,
}

impl InterfaceSource {
    fn open(namespace: &NetNs, interface: &str, index: u32) -> Result<Self, CountersError> {
        let device = namespace.run(|| Netdev::open(interface))??;
        Ok(Self {
            index,
            netlink: Netlink::open_in(namespace)?,
            driver_name: device.driver_info()?.map(|info| info.driver).unwrap_or_default(),
            driver_names: device.statistic_names()?,
            device,
            netdev_family: NetdevFamily::open(namespace).ok(),
        })
    }

    fn read(&mut self) -> Result<InterfaceCounters, CountersError> {
        // First: what leaves the queue between the two readings is then still in it, and not missing.
        let queue = self.netlink.queue_counts(self.index)?;
        if nic::has_table(&self.driver_name) {
            // Many drivers bring the kernel's fields up to date when they are asked for their own, and otherwise once in seconds.
            self.device.statistic_values(self.driver_names.len())?;
        }
        let link = self.netlink.link_statistics(self.index)?;
        let values = self.device.statistic_values(self.driver_names.len())?;
        let fields = ERROR_FIELDS.into_iter().zip(link.counters.errors);
        let mut driver = Counters::new();
        for (name, value) in self.driver_names.iter().zip(values) {
            *driver.entry(name.clone()).or_default() += value;
        }
        Ok(InterfaceCounters {
            name: self.device.name().to_owned(),
            rx_packets: link.counters.rx_packets,
            tx_packets: link.counters.tx_packets,
            rx_dropped: link.counters.rx_dropped,
            tx_dropped: link.counters.tx_dropped,
            rx_otherhost_dropped: link.counters.rx_otherhost_dropped,
            fields: fields.map(|((name, _), value)| (name.to_owned(), value)).collect(),
            queue_drops: queue.drops,
            queued: queue.queued,
            queued_before: 0,
            carrier_losses: link.carrier_losses.into(),
            away_before: false,
            running: link.running,
            napi: self.has_napi()?,
            xdp: link.xdp,
            driver_name: self.driver_name.clone(),
            driver,
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
