//! The five commands on flow entries (section 6.4).

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use linerate_classify::{Counts, MISS, Mask, Overlap, Rule};
use linerate_openflow::{
    Action, ErrorKind, FlowCommand, FlowFilter, FlowFlags, FlowMod, FlowRemovedReason, GROUP_ANY, Instruction, Match,
    NO_BUFFER, OfError, PackedMatch, PortNumber, TABLE_ALL, TABLE_MAX,
};

use super::FlowTables;
use super::entries::{Entry, is_miss};
use crate::action_set::groups_of;
use crate::flow_view::{FlowView, Instructions};
use crate::packet::{compile_fields, compile_match};

impl Entry {
    /// The rule of the entry in the classifier of its table.
    pub(super) fn rule(&self) -> Rule {
        let (value, mask) = compile_fields(self.matching.fields());
        Rule { value, mask, priority: self.priority, id: self.flow }
    }
}

impl FlowTables {
    /// Changes flow entries.
    ///
    /// # Errors
    /// What the specification says of the request; nothing has changed then.
    pub fn flow_mod(&mut self, request: &FlowMod) -> Result<(), OfError> {
        if request.flags.0 & !FlowFlags::ALL != 0 {
            return Err(ErrorKind::FlowModFailedBadFlags.into());
        }
        let buffer = self.wanted_buffer(request)?;
        match request.command {
            FlowCommand::Add => self.add(request)?,
            FlowCommand::Modify | FlowCommand::ModifyStrict => self.modify(request)?,
            FlowCommand::Delete | FlowCommand::DeleteStrict => self.delete(request)?,
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

    fn add(&mut self, request: &FlowMod) -> Result<(), OfError> {
        if request.table > TABLE_MAX {
            return Err(ErrorKind::FlowModFailedBadTableId.into());
        }
        self.permits[usize::from(request.table)].check_match(request.priority, &request.matching)?;
        self.check_instructions(request.table, is_miss(request.priority, &request.matching), &request.instructions)?;
        let (value, mask) = compile_match(&request.matching);
        let rule = Rule { value, mask, priority: request.priority, id: MISS };
        let same = self.classifiers[usize::from(request.table)].find(&rule);
        if request.flags.has(FlowFlags::CHECK_OVERLAP) {
            let others = Rule { id: same.unwrap_or(MISS), ..rule };
            if self.classifiers[usize::from(request.table)].overlap(&others, usize::MAX) != Overlap::None {
                return Err(ErrorKind::FlowModFailedOverlap.into());
            }
        }
        match same.and_then(|flow| self.index_of(flow)) {
            Some(index) => self.replace(index, request),
            None => self.insert(request, rule),
        }
    }

    /// The index of the entry of which workers see `flow`.
    fn index_of(&self, flow: u32) -> Option<u32> {
        self.flows.get(flow).map(|view| view.counter)
    }

    fn insert(&mut self, request: &FlowMod, rule: Rule) -> Result<(), OfError> {
        let table = usize::from(request.table);
        if self.entries.of_table(request.table).len() >= self.permits[table].entries_max as usize {
            return Err(ErrorKind::FlowModFailedTableFull.into());
        }
        let index = self.entries.next_index().ok_or(OfError(ErrorKind::FlowModFailedTableFull))?;
        self.counters.reserve(index);
        let generation = self.entries.generation(index);
        let instructions = self.instruction_lists.take(&request.instructions);
        let view = view(&instructions, index, generation, request.cookie, request.flags, &rule);
        let Ok(flow) = self.flows.insert(view) else {
            self.instruction_lists.give_back(&instructions);
            return Err(ErrorKind::FlowModFailedTableFull.into());
        };
        self.note_uses(&instructions, true);
        self.entries.insert(request, instructions, flow, self.now_ns);
        self.note_timeouts(index);
        self.shared.relevant.add(&rule.mask);
        self.classifiers[table].insert(&Rule { id: flow, ..rule });
        self.shared.tables[table].note_added(&self.domain);
        self.has_changed = true;
        Ok(())
    }

    /// Puts a new entry in the place of one with the same match and priority. Its counters go on, unless they are to be reset.
    fn replace(&mut self, index: u32, request: &FlowMod) -> Result<(), OfError> {
        let now_ns = self.now_ns;
        let resets = request.flags.has(FlowFlags::RESET_COUNTS);
        let Some(entry) = self.entries.get_mut(index) else { return Ok(()) };
        entry.cookie = request.cookie;
        entry.idle_timeout_s = request.idle_timeout_s;
        entry.hard_timeout_s = request.hard_timeout_s;
        entry.flags = request.flags;
        entry.matching = PackedMatch::new(&request.matching);
        entry.created_ns = now_ns;
        self.reform(index, &request.instructions, resets)?;
        self.note_timeouts(index);
        Ok(())
    }

    fn modify(&mut self, request: &FlowMod) -> Result<(), OfError> {
        if request.table > TABLE_MAX {
            return Err(ErrorKind::FlowModFailedBadTableId.into());
        }
        self.permits[usize::from(request.table)].check_match(request.priority, &request.matching)?;
        let miss = is_miss(request.priority, &request.matching);
        self.check_instructions(request.table, miss, &request.instructions)?;
        for index in self.selected(request, request.table) {
            self.reform(index, &request.instructions, request.flags.has(FlowFlags::RESET_COUNTS))?;
        }
        Ok(())
    }

    /// Gives an entry other instructions: another form of it takes the place of the old one, at once.
    fn reform(&mut self, index: u32, instructions: &[Instruction], resets: bool) -> Result<(), OfError> {
        let generation = self.entries.generation(index);
        let Some(entry) = self.entries.get(index) else { return Ok(()) };
        let instructions = self.instruction_lists.take(instructions);
        let (rule, table) = (entry.rule(), usize::from(entry.table));
        let view = view(&instructions, index, generation, entry.cookie, entry.flags, &rule);
        let Ok(flow) = self.flows.insert(view) else {
            self.instruction_lists.give_back(&instructions);
            return Err(ErrorKind::FlowModFailedTableFull.into());
        };
        let counts = self.counters.read(index, generation);
        self.note_uses(&instructions, true);
        let Some(entry) = self.entries.get_mut(index) else { return Ok(()) };
        if resets {
            entry.base = Some(Box::new(Counts { last_used: 0, ..counts }));
        }
        entry.flow = flow;
        let before = std::mem::replace(&mut entry.instructions, instructions);
        self.note_uses(&before, false);
        self.instruction_lists.give_back(&before);
        self.classifiers[table].replace(&rule, flow);
        self.retire_form(rule.id);
        Ok(())
    }

    fn delete(&mut self, request: &FlowMod) -> Result<(), OfError> {
        for table in tables(request.table) {
            if self.entries.of_table(table).is_empty() {
                continue;
            }
            let doomed = self.selected(request, table);
            let all = doomed.len() == self.entries.of_table(table).len();
            if all {
                self.classifiers[usize::from(table)].clear();
                self.has_fewer_masks = true;
            }
            // From the end of the table's list, which keeps the others in their places.
            for index in doomed.into_iter().rev() {
                self.end_entry(index, FlowRemovedReason::Delete, !all);
            }
        }
        Ok(())
    }

    /// The entries of a table that a request to modify or delete is about.
    fn selected(&self, request: &FlowMod, table: u8) -> Vec<u32> {
        let deletes = matches!(request.command, FlowCommand::Delete | FlowCommand::DeleteStrict);
        let filter = FlowFilter {
            table,
            out_port: if deletes { request.out_port } else { PortNumber::ANY },
            out_group: if deletes { request.out_group } else { GROUP_ANY },
            cookie: request.cookie,
            cookie_mask: request.cookie_mask,
            matching: Match::default(),
        };
        match request.command {
            FlowCommand::ModifyStrict | FlowCommand::DeleteStrict => {
                let (value, mask) = compile_match(&request.matching);
                let rule = Rule { value, mask, priority: request.priority, id: MISS };
                let same = self.classifiers[usize::from(table)].find(&rule).and_then(|flow| self.index_of(flow));
                match same {
                    Some(index) if self.entries.get(index).is_some_and(|entry| passes(entry, &filter)) => vec![index],
                    _ => Vec::new(),
                }
            }
            _ => self.filtered(&FlowFilter { matching: request.matching.clone(), ..filter }),
        }
    }

    /// Ends the entries that use one of these meters, which are in the order of their numbers.
    pub fn remove_users_of_meters(&mut self, meters: &[u32]) {
        let state = self.state();
        if meters.iter().all(|meter| state.meters.get(*meter).is_none_or(|view| view.flows() == 0)) {
            return;
        }
        for index in self.entries.of_tables(0..=TABLE_MAX, &|entry| entry.uses_one_of(meters)) {
            self.remove_entry(index, FlowRemovedReason::Delete);
        }
    }

    /// Ends the entries that use one of these groups, which are in the order of their numbers.
    pub fn remove_users_of_groups(&mut self, groups: &[u32]) {
        let state = self.state();
        if groups.iter().all(|group| state.groups.get(*group).is_none_or(|view| view.references() == 0)) {
            return;
        }
        let is_one = |action: &Action| matches!(action, Action::Group(group) if groups.binary_search(group).is_ok());
        for index in self.entries.of_tables(0..=TABLE_MAX, &|entry| entry.has_action(is_one)) {
            self.remove_entry(index, FlowRemovedReason::GroupDelete);
        }
    }

    /// Counts the groups and the meter that an entry uses, or does so no more.
    pub(super) fn note_uses(&self, instructions: &Instructions, added: bool) {
        let state = self.state();
        for id in groups_of(&mut instructions.actions()) {
            if let Some(group) = state.groups.get(id) {
                group.note_reference(added);
            }
        }
        if let Some(meter) = instructions.meter.and_then(|id| state.meters.get(id)) {
            meter.note_flow(added);
        }
    }

    /// The entries that pass a filter.
    pub(super) fn filtered(&self, filter: &FlowFilter) -> Vec<u32> {
        self.entries.of_tables(tables(filter.table), &|entry| passes(entry, filter))
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

/// What workers see of an entry.
fn view(
    instructions: &Arc<Instructions>,
    index: u32,
    generation: u32,
    cookie: u64,
    flags: FlowFlags,
    rule: &Rule,
) -> FlowView {
    FlowView {
        is_miss: rule.priority == 0 && rule.mask == Mask::NONE,
        counts_packets: !flags.has(FlowFlags::NO_PKT_COUNTS),
        counts_bytes: !flags.has(FlowFlags::NO_BYT_COUNTS),
        counter: index,
        counter_generation: generation,
        instructions: Arc::clone(instructions),
        cookie,
        in_force: AtomicBool::new(true),
    }
}
