//! The five commands on flow entries (section 6.4).

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use linerate_classify::{Counts, Rule};
use linerate_openflow::{
    ErrorKind, FlowCommand, FlowFilter, FlowFlags, FlowMod, FlowRemovedReason, GROUP_ANY, Instruction, Match,
    NO_BUFFER, OfError, PackedInstructions, PackedMatch, PortNumber, TABLE_ALL, TABLE_MAX,
};

use super::Switch;
use super::entries::{Draft, Entry, is_miss};
use crate::flow_view::{FlowView, Instructions};
use crate::packet::compile_match;

/// The rule of an entry in a classifier.
pub(super) fn rule(matching: &Match, priority: u16, id: u32) -> Rule {
    let (value, mask) = compile_match(matching);
    Rule { value, mask, priority, id }
}

impl Switch {
    /// Changes flow entries.
    ///
    /// # Errors
    /// What the specification says of the request; nothing has changed then.
    pub fn flow_mod(&mut self, request: FlowMod, now_ns: u64) -> Result<(), OfError> {
        self.now_ns = self.now_ns.max(now_ns);
        if request.flags.0 & !FlowFlags::ALL != 0 {
            return Err(ErrorKind::FlowModFailedBadFlags.into());
        }
        let buffer = self.wanted_buffer(&request)?;
        match request.command {
            FlowCommand::Add => self.add(request)?,
            FlowCommand::Modify | FlowCommand::ModifyStrict => self.modify(request)?,
            FlowCommand::Delete | FlowCommand::DeleteStrict => self.delete(&request)?,
        }
        if let Some(buffer) = buffer {
            self.send_buffered(buffer);
        }
        Ok(())
    }

    /// The buffer whose packet goes through the tables after the change.
    fn wanted_buffer(&self, request: &FlowMod) -> Result<Option<u32>, OfError> {
        let deletes = matches!(request.command, FlowCommand::Delete | FlowCommand::DeleteStrict);
        if request.buffer_id == NO_BUFFER || deletes {
            return Ok(None);
        }
        self.buffers.check(request.buffer_id)?;
        Ok(Some(request.buffer_id))
    }

    fn add(&mut self, request: FlowMod) -> Result<(), OfError> {
        if request.table > TABLE_MAX {
            return Err(ErrorKind::FlowModFailedBadTableId.into());
        }
        self.check_match(request.table, request.priority, &request.matching)?;
        self.check_instructions(request.table, is_miss(request.priority, &request.matching), &request.instructions)?;
        let same = self.entries.find(request.table, request.priority, &request.matching);
        if request.flags.has(FlowFlags::CHECK_OVERLAP) && self.overlap(&request, same) {
            return Err(ErrorKind::FlowModFailedOverlap.into());
        }
        let draft = Draft {
            table: request.table,
            priority: request.priority,
            cookie: request.cookie,
            idle_timeout_s: request.idle_timeout_s,
            hard_timeout_s: request.hard_timeout_s,
            flags: request.flags,
            matching: request.matching,
            instructions: request.instructions,
        };
        match same {
            Some(index) => self.replace(index, draft),
            None => self.insert(draft),
        }
    }

    fn overlap(&self, request: &FlowMod, same: Option<u32>) -> bool {
        let mut others = self.entries.of_table(request.table).iter().filter(|index| Some(**index) != same);
        others.any(|index| {
            self.entries
                .get(*index)
                .is_some_and(|entry| entry.priority == request.priority && entry.overlaps(&request.matching))
        })
    }

    fn insert(&mut self, draft: Draft) -> Result<(), OfError> {
        let table = usize::from(draft.table);
        if self.entries.of_table(draft.table).len() >= self.features[table].max_entries as usize {
            return Err(ErrorKind::FlowModFailedTableFull.into());
        }
        let index = self.entries.next_index().ok_or(OfError(ErrorKind::FlowModFailedTableFull))?;
        self.counters.reserve(index);
        let generation = self.entries.generation(index);
        let view =
            view(&draft.instructions, index, generation, draft.cookie, draft.flags, &draft.matching, draft.priority);
        let flow = self.flows.insert(view).map_err(|_| OfError(ErrorKind::FlowModFailedTableFull))?;
        let rule = rule(&draft.matching, draft.priority, flow);
        self.note_groups(&draft.instructions, true);
        self.note_meter(&draft.instructions, true);
        let index = self.entries.insert(draft, flow, self.now_ns);
        self.note_timeouts(index);
        self.classifiers[table].insert(&rule);
        self.shared.tables[table].note_added(&self.domain);
        self.domain.advance();
        Ok(())
    }

    /// Puts a new entry in the place of one with the same match and priority. Its counters go on, unless they are to be reset.
    fn replace(&mut self, index: u32, draft: Draft) -> Result<(), OfError> {
        let now_ns = self.now_ns;
        let resets = draft.flags.has(FlowFlags::RESET_COUNTS);
        let Some(entry) = self.entries.get_mut(index) else { return Ok(()) };
        entry.cookie = draft.cookie;
        entry.idle_timeout_s = draft.idle_timeout_s;
        entry.hard_timeout_s = draft.hard_timeout_s;
        entry.flags = draft.flags;
        entry.matching = PackedMatch::new(&draft.matching);
        entry.created_ns = now_ns;
        self.reform(index, draft.instructions, resets)?;
        self.note_timeouts(index);
        Ok(())
    }

    fn modify(&mut self, request: FlowMod) -> Result<(), OfError> {
        if request.table > TABLE_MAX {
            return Err(ErrorKind::FlowModFailedBadTableId.into());
        }
        self.check_match(request.table, request.priority, &request.matching)?;
        let miss = is_miss(request.priority, &request.matching);
        self.check_instructions(request.table, miss, &request.instructions)?;
        for index in self.selected(&request) {
            self.reform(index, request.instructions.clone(), request.flags.has(FlowFlags::RESET_COUNTS))?;
        }
        Ok(())
    }

    /// Gives an entry other instructions: another form of it takes the place of the old one, at once.
    fn reform(&mut self, index: u32, instructions: Vec<Instruction>, resets: bool) -> Result<(), OfError> {
        let generation = self.entries.generation(index);
        let Some(entry) = self.entries.get(index) else { return Ok(()) };
        let matching = entry.matching.unpack();
        let view = view(&instructions, index, generation, entry.cookie, entry.flags, &matching, entry.priority);
        let (old, table) = (entry.flow, usize::from(entry.table));
        let rule = rule(&matching, entry.priority, old);
        let flow = self.flows.insert(view).map_err(|_| OfError(ErrorKind::FlowModFailedTableFull))?;
        let counts = self.counters.read(index, generation);
        self.note_groups(&instructions, true);
        self.note_meter(&instructions, true);
        let Some(entry) = self.entries.get_mut(index) else { return Ok(()) };
        if resets {
            entry.base = Counts { last_used: 0, ..counts };
        }
        entry.flow = flow;
        let before = std::mem::replace(&mut entry.instructions, PackedInstructions::new(&instructions)).unpack();
        self.note_groups(&before, false);
        self.note_meter(&before, false);
        self.classifiers[table].replace(&rule, flow);
        self.retire_form(old);
        Ok(())
    }

    fn delete(&mut self, request: &FlowMod) -> Result<(), OfError> {
        for index in self.selected(request) {
            self.remove_entry(index, FlowRemovedReason::Delete);
        }
        Ok(())
    }

    /// The entries that a request to modify or delete is about.
    fn selected(&self, request: &FlowMod) -> Vec<u32> {
        let deletes = matches!(request.command, FlowCommand::Delete | FlowCommand::DeleteStrict);
        let filter = FlowFilter {
            table: request.table,
            out_port: if deletes { request.out_port } else { PortNumber::ANY },
            out_group: if deletes { request.out_group } else { GROUP_ANY },
            cookie: request.cookie,
            cookie_mask: request.cookie_mask,
            matching: Match::default(),
        };
        match request.command {
            FlowCommand::ModifyStrict | FlowCommand::DeleteStrict => {
                let tables = tables(request.table);
                let same = tables.filter_map(|table| self.entries.find(table, request.priority, &request.matching));
                same.filter(|index| self.entries.get(*index).is_some_and(|entry| passes(entry, &filter))).collect()
            }
            _ => self.filtered(&FlowFilter { matching: request.matching.clone(), ..filter }),
        }
    }

    /// The entries that pass a filter.
    pub(super) fn filtered(&self, filter: &FlowFilter) -> Vec<u32> {
        let wanted = |index: &u32| self.entries.get(*index).is_some_and(|entry| passes(entry, filter));
        tables(filter.table).flat_map(|table| self.entries.of_table(table)).copied().filter(wanted).collect()
    }
}

fn tables(table: u8) -> std::ops::RangeInclusive<u8> {
    if table == TABLE_ALL { 0..=TABLE_MAX } else { table..=table }
}

pub(super) fn passes(entry: &Entry, filter: &FlowFilter) -> bool {
    entry.has_cookie(filter.cookie, filter.cookie_mask)
        && entry.is_within(&filter.matching)
        && entry.outputs_to(filter.out_port)
        && entry.uses_group(filter.out_group)
}

fn view(
    instructions: &[Instruction],
    index: u32,
    generation: u32,
    cookie: u64,
    flags: FlowFlags,
    matching: &Match,
    priority: u16,
) -> FlowView {
    FlowView {
        is_miss: is_miss(priority, matching),
        counts_packets: !flags.has(FlowFlags::NO_PKT_COUNTS),
        counts_bytes: !flags.has(FlowFlags::NO_BYT_COUNTS),
        counter: index,
        counter_generation: generation,
        instructions: Arc::new(Instructions::new(instructions)),
        cookie,
        in_force: AtomicBool::new(true),
    }
}
