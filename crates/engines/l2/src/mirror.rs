//! Mirrors: copies of packets for another port.
//!
//! A mirror copies packets as they came in (before anything is decided about them, so those that are dropped, too), or as
//! they go out. A copy is never mirrored again, and a mirror never copies to the port where the packet is already. Ports that
//! can send packets from where they lie need no copy: see `mirror_tap.rs`.

use core::net::IpAddr;

use linerate_wire::FlowKey;

use crate::member::Mirrored;
use crate::settings::PortIndex;

/// A mirror: packets, and the port that gets copies of them.
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
    /// Ingress packets of a port.
    Ingress(PortIndex),
    /// Egress packets of a port.
    Egress(PortIndex),
    /// Both.
    Both(PortIndex),
    /// Ingress packets of a VLAN at every port.
    Vlan(u16),
    /// Ingress packets of some flows at every port.
    Flow(FlowMatch),
}

/// Flows by parts of their 5-tuple; a part that is `None` may have any value.
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
    /// True if a flow is one of these.
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
    pub(crate) copied: u64,
    /// Number of the next ingress packets that the mirror's port has sent already.
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
    pub(crate) next: u32,
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
    pub(crate) fn skip(&mut self) -> bool {
        let skips = self.skips > 0;
        self.skips -= u64::from(skips);
        skips
    }
}

/// Most mirrors that get packets without a copy; later ones copy.
pub(crate) const TAPS_MAX: usize = 64;

/// A mirror by port that may see packets of one batch.
#[derive(Clone, Copy)]
pub(crate) struct MirrorTap {
    pub(crate) id: MirrorId,
    /// The mirror's port.
    pub(crate) to: PortIndex,
    /// The port whose queue is mirrored, and the slots of packets that were there before; `None`: the batch that arrived is mirrored.
    pub(crate) queue: Option<(PortIndex, usize)>,
    /// Place of the mirror among all.
    pub(crate) index: usize,
}

impl Mirrors {
    pub(crate) fn of_tap(&mut self, tap: &MirrorTap) -> Option<&mut Entry> {
        self.entries.get_mut(tap.index).filter(|entry| entry.id == tap.id)
    }

    /// Where copies of other mirrors go, packets are in the queue that are not to be mirrored.
    pub(crate) fn is_target(&self, port: PortIndex) -> bool {
        self.entries.iter().any(|entry| entry.mirror.to == port)
    }
}
