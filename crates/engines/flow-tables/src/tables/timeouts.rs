//! Idle and hard timeouts.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use linerate_openflow::FlowRemovedReason;

use super::FlowTables;
use super::entries::Entry;

/// Entries that one call looks at, at most.
const VISITS_MAX: usize = 10_000;
const SECOND_NS: u64 = 1_000_000_000;

/// When entries are looked at next. Those with an idle time are looked at when it would be over without another packet, and put back
/// if packets came.
#[derive(Default)]
pub(super) struct Timeouts(BinaryHeap<Reverse<Visit>>);

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Visit {
    at_ns: u64,
    index: u32,
    generation: u32,
}

impl Timeouts {
    pub(super) fn next_ns(&self) -> u64 {
        self.0.peek().map_or(u64::MAX, |Reverse(visit)| visit.at_ns)
    }
}

impl FlowTables {
    /// Sees to it that an entry ends in time.
    pub(super) fn note_timeouts(&mut self, index: u32) {
        let generation = self.entries.generation(index);
        let Some(entry) = self.entries.get(index) else { return };
        let at_ns = deadline(entry, entry.created_ns).map_or(u64::MAX, |(at_ns, _)| at_ns);
        if at_ns != u64::MAX {
            self.timeouts.0.push(Reverse(Visit { at_ns, index, generation }));
        }
    }

    /// Ends the entries whose time is over.
    pub(super) fn expire(&mut self) {
        for _ in 0..VISITS_MAX {
            if self.timeouts.next_ns() > self.now_ns {
                return;
            }
            let Some(Reverse(visit)) = self.timeouts.0.pop() else { return };
            if self.entries.generation(visit.index) != visit.generation {
                continue;
            }
            let Some(entry) = self.entries.get(visit.index) else { continue };
            let last_used = self.counters.read(visit.index, visit.generation).last_used.max(entry.created_ns);
            match deadline(entry, last_used) {
                Some((at_ns, reason)) if at_ns <= self.now_ns => self.remove_entry(visit.index, reason),
                Some((at_ns, _)) => self.timeouts.0.push(Reverse(Visit { at_ns, ..visit })),
                None => {}
            }
        }
    }
}

/// When an entry ends if no packet comes any more, and why.
fn deadline(entry: &Entry, last_used_ns: u64) -> Option<(u64, FlowRemovedReason)> {
    let after = |from_ns: u64, seconds: u16| (seconds > 0).then(|| from_ns + u64::from(seconds) * SECOND_NS);
    let idle = after(last_used_ns, entry.idle_timeout_s).map(|at_ns| (at_ns, FlowRemovedReason::IdleTimeout));
    let hard = after(entry.created_ns, entry.hard_timeout_s).map(|at_ns| (at_ns, FlowRemovedReason::HardTimeout));
    [hard, idle].into_iter().flatten().min_by_key(|(at_ns, _)| *at_ns)
}
