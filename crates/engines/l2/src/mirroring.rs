//! Copies of packets for mirrors, see `mirror.rs`.

use linerate_mem::{Batch, Pool};
use linerate_wire::FlowKey;

use crate::counters::DropReason;
use crate::member::{Member, copy_slots};
use crate::mirror::{Entry, Mirror, MirrorCounts, MirrorId, MirrorSelect};
use crate::packet::IngressContext;
use crate::settings::{PortIndex, SettingsError};
use crate::switch::Switch;

impl Switch {
    /// Starts a mirror.
    pub fn add_mirror(&mut self, mirror: Mirror) -> Result<MirrorId, SettingsError> {
        let port_exists = |port: PortIndex| self.member(port).map(|_| ()).ok_or(SettingsError::NoPort { port });
        port_exists(mirror.to)?;
        match mirror.select {
            MirrorSelect::Ingress(from) | MirrorSelect::Egress(from) | MirrorSelect::Both(from) => {
                port_exists(from)?;
                if from == mirror.to {
                    return Err(SettingsError::MirrorToItself { port: from });
                }
            }
            MirrorSelect::Vlan(vlan) if vlan > 4094 => return Err(SettingsError::Vlan { vlan }),
            MirrorSelect::Vlan(_) | MirrorSelect::Flow(_) => {}
        }
        let id = MirrorId(self.mirrors.next);
        self.mirrors.next += 1;
        self.mirrors.entries.push(Entry { id, mirror, shown: 0, copied: 0, skips: 0, deferred: false });
        self.note_mirrors();
        Ok(id)
    }

    /// Ends a mirror; returns false if there is no such mirror.
    pub fn remove_mirror(&mut self, id: MirrorId) -> bool {
        let before = self.mirrors.entries.len();
        self.mirrors.entries.retain(|entry| entry.id != id);
        self.note_mirrors();
        self.mirrors.entries.len() < before
    }

    /// The mirrors, with the packets that the port of each has got.
    pub fn mirrors(&self) -> impl Iterator<Item = (MirrorId, &Mirror, MirrorCounts)> {
        let counts = |entry: &Entry| MirrorCounts { shown: entry.shown, copied: entry.copied };
        self.mirrors.entries.iter().map(move |entry| (entry.id, &entry.mirror, counts(entry)))
    }

    /// Copies the first packet of `arrived` to every mirror that wants this ingress packet. `vlan` is `None` if the packet was
    /// dropped before it got a VLAN.
    #[cold]
    pub(crate) fn mirror_arrived(
        &mut self,
        origin: &IngressContext,
        vlan: Option<u16>,
        arrived: &Batch,
        pool: &mut Pool,
    ) {
        let mut flow: Option<Option<FlowKey>> = None;
        for index in 0..self.mirrors.entries.len() {
            let mirror = &self.mirrors.entries[index].mirror;
            let to = mirror.to;
            let wanted = to != origin.port
                && match &mirror.select {
                    MirrorSelect::Ingress(from) | MirrorSelect::Both(from) => *from == origin.port,
                    MirrorSelect::Egress(_) => false,
                    MirrorSelect::Vlan(wanted) => vlan == Some(*wanted),
                    MirrorSelect::Flow(wanted) => flow
                        .get_or_insert_with(|| FlowKey::from_frame(arrived.packet(0)))
                        .as_ref()
                        .is_some_and(|key| wanted.matches(key)),
                };
            if wanted && !self.mirrors.entries[index].skip() {
                let copied = self.copy_to_mirror(origin, to, arrived, 0, pool);
                self.mirrors.entries[index].copied += u64::from(copied);
            }
        }
    }

    /// Copies the packet in the last `slots` slots of a port's queue to every mirror that wants egress packets of the port.
    #[inline]
    pub(crate) fn mirror_queued(&mut self, origin: &IngressContext, port: u16, slots: usize, pool: &mut Pool) {
        if self.member(PortIndex(port)).is_some_and(|member| member.mirrored.egress) {
            self.mirror_departing(origin, PortIndex(port), slots, pool);
        }
    }

    #[cold]
    fn mirror_departing(&mut self, origin: &IngressContext, port: PortIndex, slots: usize, pool: &mut Pool) {
        for index in 0..self.mirrors.entries.len() {
            let Entry { mirror: Mirror { select, to }, deferred, .. } = &self.mirrors.entries[index];
            let wanted = matches!(select, MirrorSelect::Egress(from) | MirrorSelect::Both(from) if *from == port);
            if !wanted || *to == port || *deferred {
                continue;
            }
            let Some(member) = self.member_mut(port) else { return };
            let at = member.queue.batch.len() - slots;
            self.copy_departing(origin, index, port, at, pool);
        }
    }

    /// Copies the packet in slot `at` of a port's queue to the port of a mirror.
    pub(crate) fn copy_departing(
        &mut self,
        origin: &IngressContext,
        index: usize,
        port: PortIndex,
        at: usize,
        pool: &mut Pool,
    ) {
        let to = self.mirrors.entries[index].mirror.to;
        // The members stand aside for a moment, so that two of them can be used at once.
        let mut members = std::mem::take(&mut self.members);
        let copied = match members.get_disjoint_mut([usize::from(port.0), usize::from(to.0)]) {
            Ok([Some(from), Some(into)]) => {
                let start = into.queue.batch.len();
                let len = from.queue.batch.span(at).map_or(0, |span| span.len);
                let outcome = copy(&from.queue.batch, at, len, into, pool);
                outcome.map(|()| into.queue.batch.len() - start)
            }
            _ => Err(DropReason::FloodSetEmpty),
        };
        self.members = members;
        let counted = self.count_mirrored(origin, to, copied);
        self.mirrors.entries[index].copied += u64::from(counted);
    }

    fn copy_to_mirror(
        &mut self,
        origin: &IngressContext,
        to: PortIndex,
        source: &Batch,
        at: usize,
        pool: &mut Pool,
    ) -> bool {
        let Some(member) = self.member_mut(to) else { return false };
        let len = source.span(at).map_or(0, |span| span.len);
        let start = member.queue.batch.len();
        let outcome = match source.span(at) {
            Some(_) => copy(source, at, len, member, pool),
            None => return false,
        };
        let copied = outcome.map(|()| member.queue.batch.len() - start);
        self.count_mirrored(origin, to, copied)
    }

    fn count_mirrored(&mut self, origin: &IngressContext, to: PortIndex, copied: Result<usize, DropReason>) -> bool {
        match copied {
            Ok(slots) => {
                self.counters[usize::from(origin.port.0)].mirror_copies += 1;
                self.note_queued(origin, to.0, slots);
            }
            Err(reason) => self.counters[usize::from(to.0)].refused.add(reason, 1),
        }
        copied.is_ok()
    }
}

/// Copies a packet as it is into a member's queue.
fn copy(source: &Batch, at: usize, len: usize, into: &mut Member, pool: &mut Pool) -> Result<(), DropReason> {
    if len > into.settings.frame_len_max {
        return Err(DropReason::TooLong);
    }
    if into.queue.batch.room() < copy_slots(len, pool) {
        return Err(DropReason::EgressFull);
    }
    if pool.copy(source, at, &mut into.queue.batch) { Ok(()) } else { Err(DropReason::NoBuffer) }
}
