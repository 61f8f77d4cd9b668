//! Mirrors: copies of what passes, for another port to look at.
//!
//! A mirror copies packets as they came in (before anything is decided about them, so those that are dropped, too), or as
//! they go out. A copy is never mirrored again, and a mirror never copies to the port where the packet is already. Ports that
//! can send packets from where they lie need no copy: see `mirror_tap.rs`.

use core::net::IpAddr;

use linerate_mem::{Batch, Pool};
use linerate_wire::FlowKey;

use crate::counters::DropReason;
use crate::flood::copy_slots;
use crate::forward::IngressContext;
use crate::settings::{PortIndex, SettingsError};
use crate::switch::{Mirrored, Switch};

/// What is copied to which port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirror {
    /// Which packets.
    pub select: MirrorSelect,
    /// Where the copies go.
    pub to: PortIndex,
}

/// Which packets a mirror copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MirrorSelect {
    /// What comes in at a port.
    Ingress(PortIndex),
    /// What goes out at a port.
    Egress(PortIndex),
    /// Both.
    Both(PortIndex),
    /// What comes in in a VLAN, wherever.
    Vlan(u16),
    /// What comes in of some flows, wherever.
    Flow(FlowMatch),
}

/// Flows by parts of their 5-tuple; what is `None` may be anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowMatch {
    /// Source address.
    pub src: Option<IpAddr>,
    /// Destination address.
    pub dst: Option<IpAddr>,
    /// Source port of TCP or UDP; the identifier of ICMP echoes.
    pub src_port: Option<u16>,
    /// Destination port; as above.
    pub dst_port: Option<u16>,
    /// Protocol number.
    pub protocol: Option<u8>,
    /// The answers, too.
    pub both_directions: bool,
}

impl FlowMatch {
    /// Whether a flow is one of these.
    pub fn matches(&self, key: &FlowKey) -> bool {
        self.matches_direction(key) || self.both_directions && self.matches_direction(&key.reversed())
    }

    fn matches_direction(&self, key: &FlowKey) -> bool {
        self.src.is_none_or(|src| src == key.src)
            && self.dst.is_none_or(|dst| dst == key.dst)
            && self.src_port.is_none_or(|port| port == key.src_port)
            && self.dst_port.is_none_or(|port| port == key.dst_port)
            && self.protocol.is_none_or(|protocol| protocol == key.protocol.0)
    }
}

/// Name of a mirror for as long as it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MirrorId(pub u32);

pub(crate) struct Entry {
    pub(crate) id: MirrorId,
    pub(crate) mirror: Mirror,
    pub(crate) shown: u64,
    copied: u64,
    /// The mirror's port has sent so many of the packets that come in now.
    pub(crate) skips: u64,
    /// Egress packets are not copied now: the mirror's port sees them first.
    pub(crate) deferred: bool,
}

/// Packets that a mirror's port got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MirrorCounts {
    /// It sent them from where they lay: without a copy for it.
    pub shown: u64,
    /// Copies that were put into its queue.
    pub copied: u64,
}

/// The mirrors of a switch.
#[derive(Default)]
pub(crate) struct Mirrors {
    pub(crate) entries: Vec<Entry>,
    next: u32,
}

impl Mirrors {
    /// Ends mirrors from or to a port.
    pub(crate) fn remove_port(&mut self, port: PortIndex) {
        self.entries.retain(|entry| {
            let from = match entry.mirror.select {
                MirrorSelect::Ingress(from) | MirrorSelect::Egress(from) | MirrorSelect::Both(from) => Some(from),
                MirrorSelect::Vlan(_) | MirrorSelect::Flow(_) => None,
            };
            entry.mirror.to != port && from != Some(port)
        });
    }

    /// In which directions of a port they look.
    pub(crate) fn of(&self, port: PortIndex) -> Mirrored {
        let mut mirrored = Mirrored::default();
        for entry in &self.entries {
            match entry.mirror.select {
                MirrorSelect::Ingress(from) => mirrored.ingress |= from == port,
                MirrorSelect::Egress(from) => mirrored.egress |= from == port,
                MirrorSelect::Both(from) => {
                    mirrored.ingress |= from == port;
                    mirrored.egress |= from == port;
                }
                MirrorSelect::Vlan(_) | MirrorSelect::Flow(_) => mirrored.ingress |= entry.mirror.to != port,
            }
        }
        mirrored
    }
}

impl Entry {
    /// Whether the packet in hand was shown to the mirror's port.
    fn skip(&mut self) -> bool {
        let skips = self.skips > 0;
        self.skips -= u64::from(skips);
        skips
    }
}

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

    /// Ends a mirror; false when there is none of that name.
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

    /// Copies the first packet of `arrived` to every mirror that wants what comes in; `vlan` is `None` for a packet that was
    /// not put into one.
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

    /// Copies the packet in the last `slots` slots of a port's queue to every mirror that wants what goes out there.
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
fn copy(
    source: &Batch,
    at: usize,
    len: usize,
    into: &mut crate::switch::Member,
    pool: &mut Pool,
) -> Result<(), DropReason> {
    if len > into.settings.frame_len_max {
        return Err(DropReason::TooLong);
    }
    if into.queue.batch.room() < copy_slots(len, pool) {
        return Err(DropReason::EgressFull);
    }
    if pool.copy(source, at, &mut into.queue.batch) { Ok(()) } else { Err(DropReason::NoBuffer) }
}
