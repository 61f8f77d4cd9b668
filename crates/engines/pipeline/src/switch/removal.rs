//! Entries that ended: they are reported with their last counts, once no worker uses them any more.

use linerate_classify::Counts;
use linerate_openflow::{FlowFlags, FlowRemoved, FlowRemovedReason};

use super::entries::Entry;
use super::{Event, Switch};

/// What waits until each worker has seen `version`.
pub(super) struct Removed {
    version: u64,
    /// What workers saw.
    flow: u32,
    /// The entry, with its index, if it is not just another form of it that remains.
    entry: Option<(u32, Box<Entry>)>,
    reason: FlowRemovedReason,
    ended_ns: u64,
}

impl Switch {
    /// Takes an entry out of its table.
    pub(super) fn remove_entry(&mut self, index: u32, reason: FlowRemovedReason) {
        let Some(entry) = self.entries.remove(index) else { return };
        let flow = entry.flow;
        let rule = super::flow_mod::rule(&entry.matching.unpack(), entry.priority, flow);
        self.classifiers[usize::from(entry.table)].remove(&rule);
        let instructions = entry.instructions.unpack();
        self.note_groups(&instructions, false);
        self.note_meter(&instructions, false);
        self.retire(flow, Some((index, entry)), reason);
    }

    /// Notes that an entry has another form now, and that workers may use the old one (`flow`) for a while.
    pub(super) fn retire_form(&mut self, flow: u32) {
        self.retire(flow, None, FlowRemovedReason::Delete);
    }

    fn retire(&mut self, flow: u32, entry: Option<(u32, Box<Entry>)>, reason: FlowRemovedReason) {
        if let Some(view) = self.flows.get(flow) {
            view.end();
        }
        // Programs that were made of it are stale from now on.
        self.flows.bump(flow);
        let version = self.domain.advance();
        self.removed.push_back(Removed { version, flow, entry, reason, ended_ns: self.now_ns });
    }

    /// Reports what no worker uses any more.
    pub(super) fn reap(&mut self) {
        while let Some(first) = self.removed.front() {
            if !self.domain.quiesced(first.version) {
                return;
            }
            let Some(removed) = self.removed.pop_front() else { return };
            self.flows.remove(removed.flow);
            let Some((index, entry)) = removed.entry else { continue };
            let counts = self.counts_of(index, &entry);
            self.entries.release(index);
            if entry.flags.has(FlowFlags::SEND_FLOW_REM) {
                self.events.push_back(Event::FlowRemoved(FlowRemoved {
                    cookie: entry.cookie,
                    priority: entry.priority,
                    reason: removed.reason,
                    table: entry.table,
                    duration_ns: removed.ended_ns.saturating_sub(entry.created_ns),
                    idle_timeout_s: entry.idle_timeout_s,
                    hard_timeout_s: entry.hard_timeout_s,
                    packets: counts.packets,
                    bytes: counts.bytes,
                    matching: entry.matching.unpack(),
                }));
            }
        }
    }

    /// The counts of an entry since they were reset.
    pub(super) fn counts_of(&self, index: u32, entry: &Entry) -> Counts {
        let counts = self.counters.read(index, self.entries.generation(index));
        Counts {
            packets: counts.packets.wrapping_sub(entry.base.packets),
            bytes: counts.bytes.wrapping_sub(entry.base.bytes),
            last_used: counts.last_used,
        }
    }
}
