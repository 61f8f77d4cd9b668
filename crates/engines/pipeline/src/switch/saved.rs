//! Flows, groups and meters as the messages that make them again.

use std::collections::HashSet;

use linerate_openflow::{
    FlowCommand, FlowFilter, FlowMod, FlowStats, GROUP_ANY, GroupCommand, GroupMod, Match, MeterCommand, MeterMod,
    NO_BUFFER, OfError, PortNumber, TABLE_ALL,
};

use super::Switch;
use super::group_mod::next_groups;
use super::meter_mod::Meter;

/// Messages that make the entries, groups and meters of a switch again, in an order in which each finds what it names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    /// Meters.
    pub meters: Vec<MeterMod>,
    /// Groups, each behind those that it forwards to or watches.
    pub groups: Vec<GroupMod>,
    /// Flow entries. Their times and counters begin anew.
    pub flows: Vec<FlowMod>,
}

/// The message that makes an entry again, whose times and counters begin anew.
pub fn saved_flow(entry: FlowStats) -> FlowMod {
    FlowMod {
        cookie: entry.cookie,
        cookie_mask: 0,
        table: entry.table,
        command: FlowCommand::Add,
        idle_timeout_s: entry.idle_timeout_s,
        hard_timeout_s: entry.hard_timeout_s,
        priority: entry.priority,
        buffer_id: NO_BUFFER,
        out_port: PortNumber::ANY,
        out_group: GROUP_ANY,
        flags: entry.flags,
        matching: entry.matching,
        instructions: entry.instructions,
    }
}

impl Switch {
    /// What a switch needs to forward as this one does.
    pub fn saved(&self) -> Saved {
        let all = FlowFilter {
            table: TABLE_ALL,
            out_port: PortNumber::ANY,
            out_group: GROUP_ANY,
            cookie: 0,
            cookie_mask: 0,
            matching: Match::default(),
        };
        let dump = self.tables.flow_dump(all);
        let entries = dump.map_or_else(|_| Vec::new(), |mut dump| self.tables.flow_part(&mut dump, usize::MAX));
        let flows = entries.into_iter().map(saved_flow).collect();
        Saved { meters: self.saved_meters(), groups: self.saved_groups(), flows }
    }

    /// Messages that make the meters again.
    pub fn saved_meters(&self) -> Vec<MeterMod> {
        let saved = |(id, meter): (&u32, &Meter)| MeterMod {
            command: MeterCommand::Add,
            flags: meter.flags,
            meter: *id,
            bands: meter.bands.clone(),
        };
        self.meters.iter().map(saved).collect()
    }

    /// Messages that make the groups again, each behind those that it forwards to or watches.
    pub fn saved_groups(&self) -> Vec<GroupMod> {
        let (mut done, mut saved) = (HashSet::new(), Vec::new());
        // Groups form no loop, so each pass finds one at least whose groups are there.
        while saved.len() < self.groups.len() {
            let before = saved.len();
            for (id, group) in &self.groups {
                let named = next_groups(&group.buckets);
                if !done.contains(id) && named.iter().all(|one| done.contains(one) || !self.groups.contains_key(one)) {
                    done.insert(*id);
                    let command = GroupCommand::Add;
                    saved.push(GroupMod { command, kind: group.kind, group: *id, buckets: group.buckets.clone() });
                }
            }
            if saved.len() == before {
                break;
            }
        }
        saved
    }

    /// Makes saved meters, groups and entries. Returns how many of them were refused, and the first error.
    pub fn restore(&mut self, saved: Saved, now_ns: u64) -> (usize, Option<OfError>) {
        let (mut refused, mut first) = (0, None);
        let mut note = |result: Result<(), OfError>| {
            if let Err(error) = result {
                refused += 1;
                first.get_or_insert(error);
            }
        };
        saved.meters.into_iter().for_each(|one| note(self.meter_mod(one, now_ns)));
        saved.groups.into_iter().for_each(|one| note(self.group_mod(one, now_ns)));
        saved.flows.into_iter().for_each(|one| note(self.flow_mod(one, now_ns)));
        (refused, first)
    }
}
