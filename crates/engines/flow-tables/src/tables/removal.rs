//! Entries that ended: they are reported with their last counts, once no worker uses them any more.

use std::sync::Arc;

use linerate_classify::Counts;
use linerate_openflow::{FlowFlags, FlowRemoved, FlowRemovedReason};

use super::entries::Entry;
use super::{Event, FlowTables};

/// What waits until each worker has seen `version`.
#[derive(Clone, Copy)]
pub(super) struct Removed {
    version: u64,
    ended_ns: u64,
    /// What workers saw.
    flow: u32,
    /// The index of the entry, if it is not just another form of it that remains.
    index: Option<u32>,
    reason: FlowRemovedReason,
}

impl FlowTables {
    /// Takes an entry out of its table.
    pub(super) fn remove_entry(&mut self, index: u32, reason: FlowRemovedReason) {
        self.end_entry(index, reason, true);
    }

    /// Takes an entry out of its table; `is_rule`: its rule is in the classifier still.
    pub(super) fn end_entry(&mut self, index: u32, reason: FlowRemovedReason, is_rule: bool) {
        let Some(entry) = self.entries.remove(index) else { return };
        let (flow, instructions) = (entry.flow, Arc::clone(&entry.instructions));
        if is_rule {
            let classifier = &mut self.classifiers[usize::from(entry.table)];
            let masks = classifier.masks().len();
            classifier.remove(&entry.rule());
            self.has_fewer_masks |= classifier.masks().len() < masks;
        }
        self.note_uses(&instructions, false);
        self.retire(flow, Some(index), reason);
    }

    /// Notes that an entry has another form now, and that workers may use the old one (`flow`) for a while.
    pub(super) fn retire_form(&mut self, flow: u32) {
        self.retire(flow, None, FlowRemovedReason::Delete);
    }

    fn retire(&mut self, flow: u32, index: Option<u32>, reason: FlowRemovedReason) {
        if let Some(view) = self.flows.get(flow) {
            view.end();
        }
        // Programs that were made of it are stale from now on.
        self.flows.bump(flow);
        self.has_changed = true;
        let version = self.domain.version() + 1;
        self.removed.push_back(Removed { version, ended_ns: self.now_ns, flow, index, reason });
    }

    /// Reports what no worker uses any more.
    pub(super) fn reap(&mut self) {
        self.begin_version();
        let mut seen = 0;
        while let Some(Removed { version, ended_ns, flow, index, reason }) = self.removed.front().copied() {
            if version > seen {
                if !self.domain.quiesced(version) {
                    return;
                }
                seen = version;
            }
            self.removed.pop_front();
            self.flows.remove(flow);
            if let Some(index) = index {
                self.release(index, reason, ended_ns);
            }
        }
    }

    /// Forgets an entry that ended, and reports it if somebody wanted that.
    fn release(&mut self, index: u32, reason: FlowRemovedReason, ended_ns: u64) {
        let Some(entry) = self.entries.with_ended(index) else { return };
        if entry.flags.has(FlowFlags::SEND_FLOW_REM) {
            let counts = self.counts_of(index, entry);
            self.events.push(Event::FlowRemoved(FlowRemoved {
                cookie: entry.cookie,
                priority: entry.priority,
                reason,
                table: entry.table,
                duration_ns: ended_ns.saturating_sub(entry.created_ns),
                idle_timeout_s: entry.idle_timeout_s,
                hard_timeout_s: entry.hard_timeout_s,
                packets: counts.packets,
                bytes: counts.bytes,
                matching: entry.matching.unpack(),
            }));
        }
        if let Some(entry) = self.entries.release(index) {
            self.instruction_lists.give_back(&entry.instructions);
        }
    }

    /// The counts of an entry since they were reset.
    pub(super) fn counts_of(&self, index: u32, entry: &Entry) -> Counts {
        let counts = self.counters.read(index, self.entries.generation(index));
        let base = entry.base.as_deref().copied().unwrap_or_default();
        Counts {
            packets: counts.packets.wrapping_sub(base.packets),
            bytes: counts.bytes.wrapping_sub(base.bytes),
            last_used: counts.last_used,
        }
    }
}
