//! Mirrors without a copy: the port of a mirror sends packets from where they lie, if its backend can.
//!
//! A frame has one owner, and that is the switch until the frame's own port takes it. Until then the switch lends a batch to the
//! mirror's port ([`TransmitRef`]: a shared borrow, so nothing can keep or change what it sees). Packets that the port did not send
//! are copied, as for any other port.
//!
//! ```text
//! before forward   mirrors of ingress packets: the port sends what it can of the batch, and `forward` copies the others
//! forward
//! behind forward   mirrors of egress packets: the port sends what it can of the packets that were just queued, the others are copied
//! ```

use linerate_mem::{Batch, Span};
use linerate_port::{Context, PortIndex};

use crate::mirror::{MirrorSelect, MirrorTap, TAPS_MAX};
use crate::packet::IngressContext;
use crate::switch::Switch;

impl Switch {
    /// Forwards a batch, while the ports of mirrors send from where they lie those packets that they can.
    #[cold]
    pub(crate) fn forward_mirrored(&mut self, ingress: PortIndex, arrived: &mut Batch, context: &mut Context<'_>) {
        let mut taps = std::mem::take(&mut self.taps);
        taps.clear();
        taps.extend((0..self.mirrors.entries.len()).filter_map(|index| self.tap(ingress, index)).take(TAPS_MAX));
        for tap in &taps {
            if tap.queue.is_some() {
                self.defer(tap);
            } else if self.is_idle(tap.to) {
                let packets = self.transmit_ref(tap.to, arrived, 0, context);
                self.mirrored_rx(tap, ingress, arrived, packets);
            }
        }
        self.forward(ingress, arrived, context.pool, context.now_ns);
        for tap in &taps {
            self.mirrored_tx(tap, ingress, context);
        }
        self.taps = taps;
    }

    /// The tap of a mirror by port, if it may see packets of the next batch from `ingress`.
    fn tap(&self, ingress: PortIndex, index: usize) -> Option<MirrorTap> {
        let entry = self.mirrors.entries.get(index)?;
        let to = entry.mirror.to;
        let (from, rx, tx) = match entry.mirror.select {
            MirrorSelect::Ingress(from) => (from, true, false),
            MirrorSelect::Egress(from) => (from, false, true),
            MirrorSelect::Both(from) => (from, true, true),
            MirrorSelect::Vlan(_) | MirrorSelect::Flow(_) => return None,
        };
        if from != ingress {
            let before = self.member(from).map_or(0, |member| member.queue.batch.len());
            let queue = (tx && !self.mirrors.is_target(from)).then_some((from, before))?;
            return Some(MirrorTap { id: entry.id, to, queue: Some(queue), index });
        }
        (rx && to != ingress).then_some(MirrorTap { id: entry.id, to, queue: None, index })
    }

    /// As [`linerate_port::TransmitRef::transmit_ref`], if the port is one of this worker.
    fn transmit_ref(&self, to: PortIndex, batch: &Batch, from: usize, context: &mut Context<'_>) -> usize {
        self.index_of(to).map_or(0, |index| context.ports.transmit_ref(index, batch, from))
    }

    /// True if nothing waits for a port that came before the packets in hand.
    fn is_idle(&self, port: PortIndex) -> bool {
        self.member(port).is_some_and(|member| member.queue.batch.is_empty())
    }

    /// Leaves egress packets uncopied until [`Switch::mirrored_tx`].
    fn defer(&mut self, tap: &MirrorTap) {
        if let Some(entry) = self.mirrors.of_tap(tap) {
            entry.deferred = true;
        }
    }

    /// Notes that the mirror's port sent the first `packets` of the packets that arrived.
    fn mirrored_rx(&mut self, tap: &MirrorTap, ingress: PortIndex, arrived: &Batch, packets: usize) {
        let (_, bytes) = extent(arrived, 0, packets);
        self.note_mirrored(tap, ingress, packets as u64, bytes);
        if let Some(entry) = self.mirrors.of_tap(tap) {
            entry.skips = packets as u64;
        }
    }

    /// Lets the mirror's port send the packets that were just queued, and copies those that it did not send.
    fn mirrored_tx(&mut self, tap: &MirrorTap, ingress: PortIndex, context: &mut Context<'_>) {
        let Some((port, before)) = tap.queue else { return };
        let Some(entry) = self.mirrors.of_tap(tap) else { return };
        entry.deferred = false;
        let idle = self.is_idle(tap.to);
        let Some(member) = self.member(port) else { return };
        let queue = &member.queue.batch;
        let packets = if idle { self.transmit_ref(tap.to, queue, before, context) } else { 0 };
        let (mut at, bytes) = extent(queue, before, packets);
        self.note_mirrored(tap, ingress, packets as u64, bytes);
        let origin = IngressContext::of_mirror(ingress, self.now_ns);
        while let Some(span) = self.member(port).and_then(|member| member.queue.batch.span(at)) {
            self.copy_departing(&origin, tap.index, port, at, context.pool);
            at += span.slots;
        }
    }

    /// Counts packets as queued and sent at a mirror's port.
    fn note_mirrored(&mut self, tap: &MirrorTap, ingress: PortIndex, packets: u64, bytes: u64) {
        if let Some(entry) = self.mirrors.of_tap(tap) {
            entry.shown += packets;
        }
        if let Some(counters) = self.counters.get_mut(usize::from(ingress.0)) {
            counters.mirror_copies += packets;
        }
        if let Some(counters) = self.counters.get_mut(usize::from(tap.to.0)) {
            counters.queued_packets += packets;
            counters.queued_bytes += bytes;
            counters.sent_packets += packets;
            counters.sent_bytes += bytes;
        }
    }
}

/// The slot behind the first `packets` packets from slot `at` on, and their bytes.
fn extent(batch: &Batch, at: usize, packets: usize) -> (usize, u64) {
    (0..packets).fold((at, 0), |(at, bytes), _| {
        let span = batch.span(at).unwrap_or(Span { slots: 0, len: 0 });
        (at + span.slots, bytes + span.len as u64)
    })
}
