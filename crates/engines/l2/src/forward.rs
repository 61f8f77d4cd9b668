//! A batch on its way through the switch, in passes over at most 64 packets:
//!
//! ```text
//! parse       addresses and VLAN out of each packet, asking for the lines of the MAC table that will be wanted
//! police      the ingress port's rate limits (if it has any)
//! decide      learn the source, look the destination up; neighbours with the same addresses cost a comparison
//! distribute  packets of one verdict in a row move as one: handed over, copied (flood.rs), or back to the pool
//! ```

use linerate_mem::{Batch, Compare, Pass, Pool, compare_widely};

use crate::counters::DropReason;
use crate::flood;
use crate::member::Gate;
use crate::packet::{
    Action, CHUNK, IngressContext, Packet, TO_ALL, TO_GROUP, UNCLASSIFIED, UNKNOWN, Verdict, drop_code,
};
use crate::parse::{BROADCAST, Reader};
use crate::settings::{PORTS_MAX, PortIndex};
use crate::switch::Switch;
use crate::table::{Key, Table, tick};
use crate::vlan::{Edit, apply};

/// 01-80-C2-00-00-0x.
const RESERVED: u64 = 0x0180_c200_0000;

/// Packets in a row with one verdict, and their sums.
struct VerdictRun<'a> {
    verdict: Verdict,
    packets: &'a [Packet],
    slots: usize,
    bytes: u64,
    longest: usize,
}

impl<'a> VerdictRun<'a> {
    /// The run at the front, of at most `most` packets; `None` if there are no packets.
    #[inline]
    fn in_front(packets: &'a [Packet], most: usize) -> Option<VerdictRun<'a>> {
        let verdict = packets.first()?.verdict;
        let packets = &packets[..most.min(packets.len())];
        let (mut count, mut slots, mut bytes, mut longest) = (0, 0, 0, 0);
        for packet in packets {
            if packet.verdict != verdict {
                break;
            }
            count += 1;
            slots += packet.slots as usize;
            bytes += u64::from(packet.len);
            longest = longest.max(packet.len as usize);
        }
        Some(VerdictRun { verdict, packets: &packets[..count], slots, bytes, longest })
    }
}

impl Switch {
    /// Lets every packet of `arrived`, which came in at `ingress`, go where it belongs: into egress queues, or back to the
    /// pool, counted with a reason. `arrived` is empty afterwards.
    ///
    /// # Panics
    /// When the batch or the pool is of another region than the switch's pool.
    pub fn forward(&mut self, ingress: PortIndex, arrived: &mut Batch, pool: &mut Pool, now_ns: u64) {
        self.now_ns = now_ns;
        self.table.refresh();
        let Some(member) = self.member_mut(ingress) else { return self.drop_all(arrived, pool) };
        let limited = member.limits.fill(now_ns);
        let origin = IngressContext {
            port: ingress,
            ethertype: member.settings.vlan.ethertype(),
            isolated: member.settings.isolated,
            learning: member.settings.learning,
            mirrored: member.mirrored.ingress,
            now_ns,
        };
        let mut packets = std::mem::take(&mut self.packets);
        arrived.prefetch_heads(0, CHUNK);
        while !arrived.is_empty() {
            let count = match self.members.get(usize::from(ingress.0)) {
                Some(Some(member)) => Reader::new(&member.settings.vlan).parse(arrived, &self.table, &mut packets),
                _ => 0,
            };
            let Some(known) = packets.get_mut(..count) else { break };
            if count == 0 {
                break;
            }
            if limited && let Some(member) = self.member_mut(ingress) {
                member.limits.police(known);
            }
            self.decide(&origin, known);
            if limited && let Some(member) = self.member_mut(ingress) {
                member.limits.storm_control(known);
            }
            self.distribute(&origin, known, arrived, pool);
        }
        self.packets = packets;
    }

    fn decide(&mut self, origin: &IngressContext, packets: &mut [Packet]) {
        // No packet goes back to where it came from, so meanwhile the ingress port is not open: one look tells both.
        let place = usize::from(origin.port.0) % PORTS_MAX;
        let gate = std::mem::replace(&mut self.gates[place], Gate::Restricted);
        match self.table.is_shared() {
            false => self.decide_in::<false>(origin, packets),
            true => self.decide_in::<true>(origin, packets),
        }
        self.gates[place] = gate;
    }

    /// `SHARED`: other workers may write to the MAC table.
    fn decide_in<const SHARED: bool>(&mut self, origin: &IngressContext, packets: &mut [Packet]) {
        let tick = tick(origin.now_ns);
        let mut rest = packets;
        loop {
            let (table, gates, ingress) = (&self.table, &self.gates, origin.port.0);
            let stamp = SHARED.then(|| table.stamp());
            let mut known = Known { table, gates, ingress, tick, learns: origin.learning, packets: rest };
            let mut count = compare_widely(known.look::<false>());
            if stamp.is_some_and(|stamp| !table.is_as_at(stamp)) {
                // Another worker wrote meanwhile. Verdicts are given anew.
                count = compare_widely(known.look::<true>());
            }
            let Some((packet, later)) = rest.get_mut(count..).and_then(<[Packet]>::split_first_mut) else { return };
            if origin.learning && !self.table.says(packet.source, origin.port.0, tick) {
                self.table.learn(packet.source, origin.port.0, tick);
            }
            packet.verdict = packet.verdict.with(self.resolve(origin, packet.destination, tick));
            rest = later;
        }
    }

    /// The code of the verdict on packets to an address. The gate of the ingress port is not open.
    fn resolve(&self, origin: &IngressContext, destination: Key, tick: u32) -> u32 {
        if destination.is_group() {
            return self.resolve_group(destination);
        }
        match self.table.lookup(destination, tick) {
            Some(port) if self.gates.get(usize::from(port)) == Some(&Gate::Open) => u32::from(port),
            Some(port) => self.resolve_gate(origin, destination, port),
            None => UNKNOWN,
        }
    }

    fn resolve_gate(&self, origin: &IngressContext, destination: Key, port: u16) -> u32 {
        if port == origin.port.0 {
            return drop_code(DropReason::Hairpin);
        }
        let Some(member) = self.member(PortIndex(port)) else { return UNKNOWN };
        if origin.isolated && member.settings.isolated {
            return drop_code(DropReason::Isolated);
        }
        if !member.settings.vlan.has(destination.vlan()) {
            return drop_code(DropReason::VlanNotAllowed);
        }
        u32::from(port)
    }

    fn resolve_group(&self, destination: Key) -> u32 {
        match destination.mac() {
            BROADCAST => TO_ALL,
            mac if mac & !0xf == RESERVED && !self.config.forward_reserved => drop_code(DropReason::LinkLocal),
            _ => TO_GROUP,
        }
    }

    fn distribute(&mut self, origin: &IngressContext, packets: &[Packet], arrived: &mut Batch, pool: &mut Pool) {
        let mut rest = packets;
        let most = if origin.mirrored { 1 } else { CHUNK };
        while let Some(run) = VerdictRun::in_front(rest, most) {
            rest = &rest[run.packets.len()..];
            let verdict = run.verdict;
            if origin.mirrored {
                let vlan = (verdict.account() != UNCLASSIFIED).then(|| verdict.vlan());
                self.mirror_arrived(origin, vlan, arrived, pool);
            }
            let index = usize::from(origin.port.0);
            let count = run.packets.len() as u64;
            self.counters[index].received_packets += count;
            self.counters[index].received_bytes += run.bytes;
            let vlan = &mut self.vlans[verdict.account()];
            vlan.received_packets += count;
            vlan.received_bytes += run.bytes;
            match verdict.action() {
                Action::Drop(reason) => {
                    vlan.dropped.add(reason, count);
                    self.counters[index].drop(reason, count, run.bytes);
                    pool.free_front(arrived, run.slots);
                }
                Action::Port(port) => self.hand_over(origin, port, &run, arrived, pool),
                Action::Flood => {
                    run.packets.iter().for_each(|packet| flood::flood(self, origin, packet, arrived, pool));
                }
            }
        }
    }

    /// Moves packets to one port, all at once if nothing stands in the way.
    #[inline]
    fn hand_over(
        &mut self,
        origin: &IngressContext,
        port: u16,
        run: &VerdictRun<'_>,
        arrived: &mut Batch,
        pool: &mut Pool,
    ) {
        let (verdict, count) = (run.verdict, run.packets.len() as u64);
        let (ingress, egress) = (usize::from(origin.port.0), usize::from(port));
        if let Some(Some(member)) = self.members.get_mut(egress) {
            let edit = member.settings.vlan.edit(verdict.vlan(), verdict.tag(), origin.ethertype);
            let fits = run.longest <= member.settings.frame_len_max && run.slots <= member.queue.batch.room();
            if edit == Edit::Keep && fits && !member.mirrored.egress {
                arrived.move_to(&mut member.queue.batch, run.slots);
                member.queue.note(origin.port.0, count as u32, origin.now_ns);
                self.busy.set(port);
                self.counters[egress].queued_packets += count;
                self.counters[egress].queued_bytes += run.bytes;
                self.counters[ingress].unicast += count;
                self.vlans[verdict.account()].unicast += count;
                return;
            }
        }
        for packet in run.packets {
            match self.hand_over_one(origin, packet, port, arrived) {
                Ok(()) => {
                    self.counters[ingress].unicast += 1;
                    self.vlans[verdict.account()].unicast += 1;
                    self.mirror_queued(origin, port, packet.slots as usize, pool);
                }
                Err(reason) => {
                    self.counters[ingress].drop(reason, 1, u64::from(packet.len));
                    self.vlans[verdict.account()].dropped.add(reason, 1);
                    pool.free_front(arrived, packet.slots as usize);
                }
            }
        }
    }

    /// Moves the first packet to a port's queue, and gives it the tag that it needs there.
    pub(crate) fn hand_over_one(
        &mut self,
        origin: &IngressContext,
        packet: &Packet,
        port: u16,
        arrived: &mut Batch,
    ) -> Result<(), DropReason> {
        let Some(Some(member)) = self.members.get_mut(usize::from(port)) else { return Err(DropReason::FloodSetEmpty) };
        let edit = member.admit(origin, packet, packet.slots as usize)?;
        if !apply(edit, arrived, 0) {
            return Err(DropReason::TooLong);
        }
        arrived.move_to(&mut member.queue.batch, packet.slots as usize);
        self.note_queued(origin, port, packet.slots as usize);
        Ok(())
    }

    /// Counts the packet that was just appended to a port's queue, in its last `slots` slots.
    pub(crate) fn note_queued(&mut self, origin: &IngressContext, port: u16, slots: usize) {
        let index = usize::from(port);
        if let Some(Some(member)) = self.members.get_mut(index) {
            member.queue.note(origin.port.0, 1, origin.now_ns);
            self.busy.set(port);
            self.counters[index].queued_packets += 1;
            let before = member.queue.batch.len() - slots;
            self.counters[index].queued_bytes += member.queue.batch.totals_after(before).bytes;
        }
    }
}

/// What a worker decides on without changing anything; with `SHARED`, other workers may. The gate of the ingress port is not open.
struct Known<'a, const SHARED: bool> {
    table: &'a Table,
    gates: &'a [Gate; PORTS_MAX],
    ingress: u16,
    tick: u32,
    learns: bool,
    packets: &'a mut [Packet],
}

impl Known<'_, false> {
    /// The same for one look at the packets.
    fn look<const SHARED: bool>(&mut self) -> Known<'_, SHARED> {
        let Known { table, gates, ingress, tick, learns, .. } = *self;
        Known { table, gates, ingress, tick, learns, packets: self.packets }
    }
}

/// Decides on packets as long as nothing has to be learned and nothing stands in the way, the rule under load; the outcome is how many
/// that were.
impl<const SHARED: bool> Pass for Known<'_, SHARED> {
    type Outcome = usize;

    #[inline(always)]
    fn run<C: Compare>(self, compare: C) -> usize {
        match self.learns {
            true => self.decide::<C, true>(compare),
            false => self.decide::<C, false>(compare),
        }
    }
}

impl<const SHARED: bool> Known<'_, SHARED> {
    #[inline(always)]
    fn decide<C: Compare, const LEARNS: bool>(self, compare: C) -> usize {
        let table = self.table.view::<C, SHARED>(compare, self.ingress, self.tick);
        let (mut source, mut destination, mut code) = (Key::default(), Key::default(), 0usize);
        let unknown = self.packets.iter_mut().position(
            #[inline(always)]
            |packet| {
                if packet.verdict.is_drop() {
                    return false;
                }
                if LEARNS && packet.source != source {
                    source = packet.source;
                    if !table.says(source, packet.source_bucket) {
                        return true;
                    }
                }
                if packet.destination != destination {
                    destination = packet.destination;
                    let Some(port) = table.port(destination, packet.destination_bucket) else { return true };
                    // There are no more ports than gates.
                    code = usize::from(port) % PORTS_MAX;
                    if self.gates[code] != Gate::Open {
                        return true;
                    }
                }
                packet.verdict = packet.verdict.with(code as u32);
                false
            },
        );
        unknown.unwrap_or(self.packets.len())
    }
}
