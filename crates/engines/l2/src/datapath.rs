//! The switch as a [`Datapath`], which a worker drives.

use linerate_mem::Batch;
use linerate_port::{Context, Datapath, PortIndex};

use crate::binding::{Binding, BindingKind};
use crate::counters::DropReason;
use crate::switch::Switch;

/// How often a part of the MAC table is searched for addresses that are too old.
const AGEING_NS: u64 = 50_000_000;
/// So many parts are searched at once where no packet came meanwhile, and then after so many times as long, so that a worker at rest
/// sleeps.
const RESTING_PARTS: u64 = 20;

impl Datapath for Switch {
    #[inline]
    fn input(&mut self, from: PortIndex, batch: &mut Batch, context: &mut Context<'_>) {
        match self.binding(from) {
            Some(Binding { port, kind: BindingKind::Port | BindingKind::To }) if self.mirrors.entries.is_empty() => {
                self.forward(PortIndex(port), batch, context.pool, context.now_ns);
            }
            Some(Binding { port, kind: BindingKind::Port | BindingKind::To }) => {
                self.forward_mirrored(PortIndex(port), batch, context);
            }
            Some(Binding { port, kind: BindingKind::From }) => {
                self.take_over(PortIndex(port), batch, context.pool, context.now_ns);
            }
            Some(Binding { kind: BindingKind::Reserved, .. }) | None => self.drop_all(batch, context.pool),
        }
    }

    #[inline]
    fn output(&mut self, to: PortIndex) -> Option<&mut Batch> {
        let port = self.way_out(to)?;
        self.member_mut(port).map(|member| &mut member.queue.batch)
    }

    #[inline]
    fn wants_tx_time(&self) -> bool {
        true
    }

    #[inline]
    fn tx_done(&mut self, to: PortIndex, packets: usize, now_ns: u64) {
        match self.binding(to) {
            Some(Binding { port, kind: BindingKind::Port }) => self.tx_done_at(PortIndex(port), packets, Some(now_ns)),
            Some(Binding { port, kind: BindingKind::To }) => self.handed_over(PortIndex(port), packets),
            _ => {}
        }
    }

    fn waiting(&self, to: PortIndex) -> u64 {
        self.way_out(to).and_then(|port| self.member(port)).map_or(0, |member| member.queue.packets())
    }

    /// Drops all packets that wait, and from now on those that are longer than `len_max`.
    fn too_long(&mut self, to: PortIndex, len_max: usize, context: &mut Context<'_>) {
        let Some(port) = self.way_out(to) else { return };
        self.discard(port, DropReason::TooLong, context.pool);
        if let Some(member) = self.member_mut(port) {
            member.settings.frame_len_max = len_max;
        }
    }

    fn takes_longer(&mut self, to: PortIndex, len_max: usize, _: &mut Context<'_>) {
        if let Some(member) = self.way_out(to).and_then(|port| self.member_mut(port)) {
            member.settings.frame_len_max = len_max;
        }
    }

    /// Drops the packets that wait.
    fn stuck(&mut self, to: PortIndex, context: &mut Context<'_>) {
        if let Some(port) = self.way_out(to) {
            self.discard(port, DropReason::EgressFull, context.pool);
        }
    }

    fn removed(&mut self, port: PortIndex, context: &mut Context<'_>) {
        self.remove_binding(port, context.pool);
    }

    fn next_deadline_ns(&self) -> u64 {
        self.age_at_ns
    }

    fn tick(&mut self, context: &mut Context<'_>) {
        let parts = if self.now_ns == self.ticked_ns { RESTING_PARTS } else { 1 };
        (self.age_at_ns, self.ticked_ns) = (context.now_ns + parts * AGEING_NS, context.now_ns);
        self.age_parts(context.now_ns, parts as usize);
    }
}
