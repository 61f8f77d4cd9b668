//! Mirrors without a copy: the port of a mirror that copies whatever it sends is shown packets where they lie.
//!
//! A frame has one owner, and that is the switch until the frame's own port takes it. Until then the program may lend a batch to
//! the mirror's port (`Port::transmit_ref`: a shared borrow, so nothing can keep or change what it sees), and tell the switch how
//! many packets that port has sent. What it did not send is copied, as for any other port.
//!
//! ```text
//! looks(ingress)  -> which mirrors may look at what comes, and at which queues it may be put into
//! port.show(arrived), shown_in(...), hold() of mirrors of what comes in: before the forward
//! forward(ingress, arrived)                 copies what was not shown
//! port.show(queue from `before`), shown_out(...)                  of mirrors of what goes out: behind it
//! ```

use linerate_mem::{Batch, Pool, Span};

use crate::forward::Lane;
use crate::mirror::{Entry, MirrorId, MirrorSelect, Mirrors};
use crate::settings::PortIndex;
use crate::switch::Switch;

/// A mirror by port that may be shown packets of one batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// The mirror.
    pub id: MirrorId,
    /// Its port.
    pub to: PortIndex,
    /// Where it looks: at what came in; or at what is put into the queue of this port, behind so many slots.
    pub out: Option<(PortIndex, usize)>,
    /// The place of the mirror among all.
    index: usize,
}

impl Mirrors {
    fn of_look(&mut self, look: &Look) -> Option<&mut Entry> {
        self.entries.get_mut(look.index).filter(|entry| entry.id == look.id)
    }
}

impl Switch {
    /// True when there are mirrors.
    #[inline]
    pub fn is_mirrored(&self) -> bool {
        !self.mirrors.entries.is_empty()
    }

    /// The mirrors by port that may see something of the next batch that comes in at `ingress`.
    pub fn looks(&self, ingress: PortIndex) -> impl Iterator<Item = Look> + '_ {
        let entries = self.mirrors.entries.iter().enumerate();
        entries.filter_map(move |(index, entry)| {
            let (MirrorSelect::Ingress(from) | MirrorSelect::Egress(from) | MirrorSelect::Both(from)) =
                entry.mirror.select
            else {
                return None;
            };
            let to = entry.mirror.to;
            let looks_in = from == ingress && !matches!(entry.mirror.select, MirrorSelect::Egress(_)) && to != ingress;
            // Where copies of other mirrors go, what is put into the queue is not all to be seen.
            let is_target = || self.mirrors.entries.iter().any(|other| other.mirror.to == from);
            let looks_out = from != ingress && !matches!(entry.mirror.select, MirrorSelect::Ingress(_)) && !is_target();
            let slots = || self.member(from).map_or(0, |member| member.queue.len());
            let out = looks_out.then(|| (from, slots()));
            (looks_in || looks_out).then_some(Look { id: entry.id, to, out, index })
        })
    }

    /// Whether the port of a mirror may be shown packets: nothing waits there that came before them.
    pub fn may_be_shown(&self, look: &Look) -> bool {
        self.member(look.to).is_some_and(|member| member.queue.is_empty())
    }

    /// Notes that the first `packets` of what came in at `ingress` were shown to a mirror's port.
    pub fn shown_in(&mut self, look: &Look, ingress: PortIndex, arrived: &Batch, packets: usize) {
        let (_, bytes) = extent(arrived, 0, packets);
        self.note_shown(look, ingress, packets as u64, bytes);
        if let Some(entry) = self.mirrors.of_look(look) {
            entry.skips = packets as u64;
        }
    }

    /// What goes out is not copied until [`Switch::shown_out`].
    pub fn hold(&mut self, look: &Look) {
        if let Some(entry) = self.mirrors.of_look(look) {
            entry.held = true;
        }
    }

    /// Notes that the first `packets` of what was just put into a queue were shown to a mirror's port, and copies the others.
    pub fn shown_out(&mut self, look: &Look, ingress: PortIndex, packets: usize, pool: &mut Pool) {
        let Some(entry) = self.mirrors.of_look(look) else { return };
        entry.held = false;
        let Some((port, before)) = look.out else { return };
        let Some(member) = self.member_mut(port) else { return };
        let (mut at, bytes) = extent(&member.queue.batch, before, packets);
        self.note_shown(look, ingress, packets as u64, bytes);
        let lane = Lane::of_mirror(ingress, self.now_ns);
        while let Some(span) = self.member(port).and_then(|member| member.queue.batch.span(at)) {
            self.copy_departing(&lane, look.index, port, at, pool);
            at += span.slots;
        }
    }

    /// Counts packets as queued and sent at a mirror's port.
    fn note_shown(&mut self, look: &Look, ingress: PortIndex, packets: u64, bytes: u64) {
        if let Some(entry) = self.mirrors.of_look(look) {
            entry.shown += packets;
        }
        if let Some(counters) = self.counters.get_mut(usize::from(ingress.0)) {
            counters.mirror_copies += packets;
        }
        if let Some(counters) = self.counters.get_mut(usize::from(look.to.0)) {
            counters.queued_packets += packets;
            counters.queued_bytes += bytes;
            counters.sent_packets += packets;
            counters.sent_bytes += bytes;
        }
    }
}

/// The slot behind so many packets that begin in slot `at`, and their bytes.
fn extent(batch: &Batch, at: usize, packets: usize) -> (usize, u64) {
    (0..packets).fold((at, 0), |(at, bytes), _| {
        let span = batch.span(at).unwrap_or(Span { slots: 0, len: 0 });
        (at + span.slots, bytes + span.len as u64)
    })
}
