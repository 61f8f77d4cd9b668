//! The switch: its tables, its ports, its account. How packets go through it is in `forward.rs`.

use linerate_measure::CoarseHistogram;
use linerate_mem::{Batch, Pool};
use linerate_wire::MacAddress;

use crate::binding::{Binding, BindingKind, SharedPorts};
use crate::counters::{DropReason, PortCounters, Totals, VlanCounters};
use crate::member::{Gate, Limits, Member, Mirrored, PortBitmap};
use crate::mirror::{MirrorTap, Mirrors, TAPS_MAX};
use crate::packet::{CHUNK, Packet, UNCLASSIFIED};
use crate::queue::{EgressQueue, Run};
use crate::settings::{ConfigError, PORTS_MAX, PortIndex, PortSettings, SettingsError, SwitchConfig};
use crate::table::{Key, MacCounters, MacEntry, MacTable, Table, tick};
use crate::vlan::VLANS;

/// A learning switch, or the part of one that one of several workers serves (`workers.rs`). It has no clock and no sockets: a worker gives it packets and the time, and takes packets from its egress
/// queues.
pub struct Switch {
    pub(crate) config: SwitchConfig,
    /// For making batches; packets come and go through the caller's handle.
    pool: Pool,
    pub(crate) table: Table,
    /// What the ports of the worker are to the switch, by the worker's numbers.
    pub(crate) bindings: Vec<Option<Binding>>,
    /// The ports of all workers by name.
    pub(crate) names: SharedPorts,
    /// By number of the port in the switch, as `counters` and `gates`.
    pub(crate) members: Vec<Option<Member>>,
    pub(crate) counters: Vec<PortCounters>,
    pub(crate) gates: Box<[Gate; PORTS_MAX]>,
    pub(crate) retired: PortCounters,
    pub(crate) vlans: Box<[VlanCounters]>,
    pub(crate) mirrors: Mirrors,
    /// Ports for which packets may wait.
    pub(crate) busy: PortBitmap,
    /// Verdicts on the packets of the batch in hand.
    pub(crate) packets: Vec<Packet>,
    pub(crate) now_ns: u64,
    /// Addresses of the table that this one is becoming.
    pub(crate) resizing_to: usize,
    /// Mirrors without a copy of the batch in hand.
    pub(crate) taps: Vec<MirrorTap>,
    /// When a part of the MAC table is searched next for addresses that are too old.
    pub(crate) age_at_ns: u64,
    /// When the last tick was.
    pub(crate) ticked_ns: u64,
    /// Several workers decide on what arrives at each port.
    pub(crate) is_steered: bool,
}

impl Switch {
    /// A switch without ports. Every batch that is given to it later is of `pool`'s region.
    pub fn new(config: SwitchConfig, pool: &Pool) -> Result<Switch, ConfigError> {
        config.check()?;
        Ok(Switch {
            pool: pool.clone(),
            table: Table::new(MacTable::new(config.mac_entries, config.age_s, config.hash_seed)),
            bindings: Vec::with_capacity(config.ports_max),
            names: SharedPorts::default(),
            members: Vec::with_capacity(config.ports_max),
            counters: Vec::with_capacity(config.ports_max),
            gates: Box::new([Gate::Restricted; PORTS_MAX]),
            retired: PortCounters::default(),
            vlans: vec![VlanCounters::default(); VLANS + 1].into(),
            mirrors: Mirrors::default(),
            busy: PortBitmap::default(),
            packets: vec![Packet::default(); CHUNK],
            now_ns: 0,
            resizing_to: config.mac_entries,
            taps: Vec::with_capacity(TAPS_MAX),
            age_at_ns: 0,
            ticked_ns: u64::MAX,
            is_steered: false,
            config,
        })
    }

    /// Adds a port under the lowest number that is free, for the worker and for the switch. All memory of the port is allocated here.
    ///
    /// # Errors
    /// A setting is wrong, or the switch has as many ports as it was made for.
    pub fn add_port(&mut self, settings: PortSettings) -> Result<PortIndex, SettingsError> {
        settings.check()?;
        let free = self.members.iter().position(Option::is_none).unwrap_or(self.members.len());
        self.add_member(free, settings)?;
        self.bind(Binding { port: free as u16, kind: BindingKind::Port });
        Ok(PortIndex(free as u16))
    }

    /// Adds the queue of a port of this or of another worker.
    pub(crate) fn add_member(&mut self, free: usize, settings: PortSettings) -> Result<(), SettingsError> {
        if free >= self.config.ports_max {
            return Err(SettingsError::Full { ports_max: self.config.ports_max });
        }
        while free >= self.members.len() {
            self.members.push(None);
            self.counters.push(PortCounters::default());
        }
        self.gates[free] = Gate::of(&settings);
        self.table.set_learn_limit(free as u16, settings.learn_limit);
        let count = self.members.len();
        for member in self.members.iter_mut().flatten() {
            member.latency.resize_with(count, CoarseHistogram::default);
            member.latency[free].clear();
        }
        self.members[free] = Some(Member {
            limits: Limits::new(&settings),
            settings,
            queue: EgressQueue::new(&self.pool, self.config.queue_slots),
            latency: (0..count).map(|_| CoarseHistogram::default()).collect(),
            mirrored: Mirrored::default(),
        });
        self.table.set_ports(self.members.iter().flatten().count());
        self.note_mirrors();
        Ok(())
    }

    /// Changes a port's settings. Its counters, addresses and waiting packets stay; its limits start afresh.
    pub fn set_port(&mut self, port: PortIndex, settings: PortSettings) -> Result<(), SettingsError> {
        settings.check()?;
        if self.is_divided(port) {
            settings.check_divided()?;
        }
        let member = self.member_mut(port).ok_or(SettingsError::NoPort { port })?;
        let gate = Gate::of(&settings);
        member.limits = Limits::new(&settings);
        let learn_limit = settings.learn_limit;
        member.settings = settings.clone();
        if self.index_of(port).is_some() {
            self.note_settings(port, &settings);
        }
        self.table.set_learn_limit(port.0, learn_limit);
        if let Some(known) = self.gates.get_mut(usize::from(port.0)) {
            *known = gate;
        }
        Ok(())
    }

    /// A port's settings.
    pub fn settings(&self, port: PortIndex) -> Option<&PortSettings> {
        self.member(port).map(|member| &member.settings)
    }

    /// Removes a port: packets that wait there are dropped and counted, its addresses are forgotten (static ones, too), mirrors
    /// from or to it end. Returns its last counters, which stay in [`Switch::retired`]; `None` if there is no such port.
    pub fn remove_port(&mut self, port: PortIndex, pool: &mut Pool) -> Option<PortCounters> {
        let last = self.remove_member(port, pool)?;
        self.table.flush(Some(port.0), true);
        self.unbind(port);
        Some(last)
    }

    /// Removes the queue of a port of this or of another worker.
    pub(crate) fn remove_member(&mut self, port: PortIndex, pool: &mut Pool) -> Option<PortCounters> {
        self.member(port)?;
        self.discard(port, DropReason::PortRemoved, pool);
        self.mirrors.remove_port(port);
        let index = usize::from(port.0);
        *self.members.get_mut(index)? = None;
        self.table.set_learn_limit(port.0, None);
        self.table.set_ports(self.members.iter().flatten().count());
        *self.gates.get_mut(index)? = Gate::Restricted;
        for member in self.members.iter_mut().flatten() {
            let runs = member.queue.runs.iter_mut().filter(|run| run.ingress == port.0);
            runs.for_each(|run| run.ingress = Run::GONE);
        }
        self.note_mirrors();
        let last = std::mem::take(self.counters.get_mut(index)?);
        self.retired.merge(&last);
        Some(last)
    }

    /// The pool that it was made with.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The ports that there are.
    pub fn ports(&self) -> impl Iterator<Item = PortIndex> + '_ {
        let members = self.members.iter().enumerate();
        members.filter(|(_, member)| member.is_some()).map(|(index, _)| PortIndex(index as u16))
    }

    /// The first port from `from` on for which packets wait.
    #[inline]
    pub fn next_waiting(&self, from: u16) -> Option<PortIndex> {
        let mut from = from;
        loop {
            let port = PortIndex(self.busy.next(from)?);
            if self.member(port).is_some_and(|member| !member.queue.batch.is_empty()) {
                return Some(port);
            }
            from = port.0 + 1;
        }
    }

    /// As [`linerate_port::Datapath::tx_done`]; without a time, nothing is noted of the latency.
    #[inline]
    pub fn tx_done_at(&mut self, port: PortIndex, taken: usize, now_ns: Option<u64>) {
        let index = usize::from(port.0);
        let (Some(Some(member)), Some(counters)) = (self.members.get_mut(index), self.counters.get_mut(index)) else {
            return;
        };
        let latency = &mut member.latency;
        member.queue.take(taken as u64, |run| {
            counters.sent_packets += u64::from(run.packets);
            if let (Some(now_ns), Some(histogram)) = (now_ns, latency.get_mut(usize::from(run.ingress))) {
                histogram.record_many(now_ns.saturating_sub(run.arrival_ns), u64::from(run.packets));
            }
        });
        let mut waiting_bytes = 0;
        if member.queue.batch.is_empty() {
            self.busy.clear(port.0);
        } else {
            waiting_bytes = member.queue.batch.totals().bytes;
        }
        counters.sent_bytes = counters.queued_bytes - counters.discarded_bytes - waiting_bytes;
    }

    /// Drops the packets that wait for a port, and counts them under `reason`; returns their number.
    pub fn discard(&mut self, port: PortIndex, reason: DropReason, pool: &mut Pool) -> u64 {
        let index = usize::from(port.0);
        let (Some(Some(member)), Some(counters)) = (self.members.get_mut(index), self.counters.get_mut(index)) else {
            return 0;
        };
        let packets = member.queue.packets();
        counters.discarded.add(reason, packets);
        counters.discarded_bytes += member.queue.batch.totals().bytes;
        member.queue.take(packets, |_| ());
        pool.free(&mut member.queue.batch);
        self.busy.clear(port.0);
        packets
    }

    /// Forgets addresses that were silent for too long, in a part of the table, once a millisecond at most; to be called
    /// now and then. An address that is too old is not found, whether it was removed already or not.
    pub fn age(&mut self, now_ns: u64) {
        self.age_parts(now_ns, 1);
    }

    pub(crate) fn age_parts(&mut self, now_ns: u64, parts: usize) {
        self.now_ns = now_ns;
        self.table.sweep(now_ns, parts);
    }

    /// Makes an entry of the MAC table that neither ages nor moves.
    pub fn add_static(&mut self, vlan: u16, mac: MacAddress, port: PortIndex) -> Result<(), SettingsError> {
        if usize::from(vlan) >= VLANS - 1 {
            return Err(SettingsError::Vlan { vlan });
        }
        self.member(port).ok_or(SettingsError::NoPort { port })?;
        let key = Key::new(vlan, mac.to_u64());
        self.table.add_static(key, port.0, tick(self.now_ns)).map_err(|_| SettingsError::TableFull)
    }

    /// Removes an address, static or learned; false when it was not in the table.
    pub fn forget(&mut self, vlan: u16, mac: MacAddress) -> bool {
        self.table.forget(Key::new(vlan, mac.to_u64()))
    }

    /// Removes all learned addresses, or those of one port.
    pub fn flush_macs(&mut self, port: Option<PortIndex>) {
        self.table.flush(port.map(|port| port.0), false);
    }

    /// The MAC table, in no order.
    pub fn macs(&self) -> impl Iterator<Item = MacEntry> + '_ {
        self.table.entries(tick(self.now_ns))
    }

    /// Counters of the MAC table.
    pub fn mac_counters(&self) -> MacCounters {
        self.table.counters()
    }

    /// The totals of a port.
    pub fn port_counters(&self, port: PortIndex) -> Option<&PortCounters> {
        self.member(port)?;
        self.counters.get(usize::from(port.0))
    }

    /// The totals of all ports that were removed.
    pub fn retired(&self) -> &PortCounters {
        &self.retired
    }

    /// The totals of a VLAN; 0 stands for packets without a VLAN. `None` if the id is not a VLAN ID.
    pub fn vlan_counters(&self, vlan: u16) -> Option<&VlanCounters> {
        self.vlans[..UNCLASSIFIED].get(usize::from(vlan))
    }

    /// The totals of packets that were dropped before they were put into a VLAN.
    pub fn unclassified(&self) -> &VlanCounters {
        &self.vlans[UNCLASSIFIED]
    }

    /// Ids of the VLANs in which packets came in.
    pub fn vlans(&self) -> impl Iterator<Item = u16> + '_ {
        (0..VLANS as u16).filter(|vlan| self.vlans[usize::from(*vlan)].received_packets > 0)
    }

    /// Lost packets by reason: packets dropped, copies refused, and queued packets discarded, of present and removed ports.
    pub fn drops(&self) -> impl Iterator<Item = (DropReason, u64)> {
        let ports = self.port_totals();
        let lost = move |reason| ports.dropped.of(reason) + ports.refused.of(reason) + ports.discarded.of(reason);
        DropReason::ALL.into_iter().map(move |reason| (reason, lost(reason))).filter(|(_, packets)| *packets > 0)
    }

    /// The account of the whole switch, with the ports that are gone.
    pub fn totals(&self) -> Totals {
        let mut vlans = VlanCounters::default();
        self.vlans.iter().filter(|vlan| vlan.received_packets > 0).for_each(|vlan| vlans.merge(vlan));
        let waiting = self.members.iter().flatten().map(|member| member.queue.packets()).sum();
        Totals { ports: self.port_totals(), vlans, waiting }
    }

    fn port_totals(&self) -> PortCounters {
        let mut ports = self.retired;
        self.counters.iter().for_each(|counters| ports.merge(counters));
        ports
    }

    /// Time from the arrival at one port to the departure at another, in nanoseconds.
    pub fn latency(&self, ingress: PortIndex, egress: PortIndex) -> Option<&CoarseHistogram> {
        self.member(ingress)?;
        self.member(egress)?.latency.get(usize::from(ingress.0))
    }

    /// Tells the members which of them are mirrored.
    pub(crate) fn note_mirrors(&mut self) {
        for (index, member) in self.members.iter_mut().enumerate() {
            if let Some(member) = member {
                member.mirrored = self.mirrors.of(PortIndex(index as u16));
            }
        }
    }

    /// True if a limit applies to ingress packets of the port.
    #[inline]
    pub fn is_limited(&self, port: PortIndex) -> bool {
        self.member(port).is_some_and(|member| member.limits.any())
    }

    #[inline]
    pub(crate) fn member(&self, port: PortIndex) -> Option<&Member> {
        self.members.get(usize::from(port.0))?.as_ref()
    }

    #[inline]
    pub(crate) fn member_mut(&mut self, port: PortIndex) -> Option<&mut Member> {
        self.members.get_mut(usize::from(port.0))?.as_mut()
    }

    /// Drops a batch that came from a port that was removed.
    #[cold]
    pub(crate) fn drop_all(&mut self, arrived: &mut Batch, pool: &mut Pool) {
        // A packet whose last slot is missing is one, too.
        let cut_off = !arrived.is_empty() && arrived.more(arrived.len() - 1);
        let totals = arrived.totals();
        let packets = totals.packets + u64::from(cut_off);
        let vlan = &mut self.vlans[UNCLASSIFIED];
        vlan.received_packets += packets;
        vlan.received_bytes += totals.bytes;
        vlan.dropped.add(DropReason::PortRemoved, packets);
        self.retired.received_packets += packets;
        self.retired.received_bytes += totals.bytes;
        self.retired.drop(DropReason::PortRemoved, packets, totals.bytes);
        pool.free(arrived);
    }
}
