//! Flow entries as the control thread keeps them: what controllers said of each, by index and by table. Which entry has a match, the
//! classifier of its table knows.

use std::ops::RangeInclusive;
use std::sync::Arc;

use linerate_classify::Counts;
use linerate_openflow::{Action, FlowFlags, FlowMod, Match, PackedMatch, PortNumber};

use crate::flow_view::Instructions;

/// A flow entry. There are millions of them, so each byte counts.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) cookie: u64,
    pub(super) created_ns: u64,
    pub(super) matching: PackedMatch,
    /// Shared by all entries with the same ones.
    pub(super) instructions: Arc<Instructions>,
    /// What its counters said when they were reset, if they were.
    pub(super) base: Option<Box<Counts>>,
    /// What workers see of it.
    pub(super) flow: u32,
    /// Its place in the table's list.
    place: u32,
    pub(super) priority: u16,
    pub(super) idle_timeout_s: u16,
    pub(super) hard_timeout_s: u16,
    pub(super) flags: FlowFlags,
    pub(super) table: u8,
    /// It was taken out of its table, and waits for the workers.
    has_ended: bool,
}

/// All entries.
pub(super) struct Entries {
    /// By index.
    all: Vec<Option<Entry>>,
    /// Another one for each entry that had the index.
    generations: Vec<u32>,
    free: Vec<u32>,
    /// Entries of each table.
    tables: Vec<Vec<u32>>,
    capacity: u32,
}

impl Entries {
    pub(super) fn new(tables: usize, capacity: u32) -> Entries {
        Entries {
            all: Vec::new(),
            generations: Vec::new(),
            free: Vec::new(),
            tables: (0..tables).map(|_| Vec::new()).collect(),
            capacity,
        }
    }

    pub(super) fn get(&self, index: u32) -> Option<&Entry> {
        self.with_ended(index).filter(|entry| !entry.has_ended)
    }

    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut Entry> {
        self.all.get_mut(index as usize)?.as_mut().filter(|entry| !entry.has_ended)
    }

    /// An entry that may have ended, and waits for [`Entries::release`].
    pub(super) fn with_ended(&self, index: u32) -> Option<&Entry> {
        self.all.get(index as usize)?.as_ref()
    }

    /// The generation of the counters of the entry with an index.
    pub(super) fn generation(&self, index: u32) -> u32 {
        self.generations.get(index as usize).copied().unwrap_or_default()
    }

    /// Indices of the entries of a table.
    pub(super) fn of_table(&self, table: u8) -> &[u32] {
        self.tables.get(usize::from(table)).map_or(&[], Vec::as_slice)
    }

    /// Indices of the entries of several tables that are wanted.
    pub(super) fn of_tables(&self, tables: RangeInclusive<u8>, is_wanted: &dyn Fn(&Entry) -> bool) -> Vec<u32> {
        let mut indices = Vec::new();
        for table in tables {
            for index in self.of_table(table) {
                if self.get(*index).is_some_and(is_wanted) {
                    indices.push(*index);
                }
            }
        }
        indices
    }

    pub(super) fn len(&self) -> usize {
        self.tables.iter().map(Vec::len).sum()
    }

    /// All indices are below it.
    pub(super) fn end(&self) -> u32 {
        self.all.len() as u32
    }

    /// The next index that an entry gets; `None` if there are as many entries as there may be.
    pub(super) fn next_index(&mut self) -> Option<u32> {
        if let Some(index) = self.free.last() {
            return Some(*index);
        }
        let index = self.all.len() as u32;
        if index >= self.capacity {
            return None;
        }
        self.all.push(None);
        self.generations.push(0);
        self.free.push(index);
        Some(index)
    }

    /// Puts an entry at the index that [`Entries::next_index`] gave. `flow` is what workers see of it.
    pub(super) fn insert(&mut self, request: &FlowMod, instructions: Arc<Instructions>, flow: u32, now_ns: u64) {
        let Some(index) = self.free.pop() else { return };
        let members = &mut self.tables[usize::from(request.table)];
        self.all[index as usize] = Some(Entry {
            cookie: request.cookie,
            created_ns: now_ns,
            matching: PackedMatch::new(&request.matching),
            instructions,
            base: None,
            flow,
            place: members.len() as u32,
            priority: request.priority,
            idle_timeout_s: request.idle_timeout_s,
            hard_timeout_s: request.hard_timeout_s,
            flags: request.flags,
            table: request.table,
            has_ended: false,
        });
        members.push(index);
    }

    /// Takes an entry out of its table. It is kept, and its index not used again, until [`Entries::release`].
    pub(super) fn remove(&mut self, index: u32) -> Option<&Entry> {
        let entry = self.get_mut(index)?;
        entry.has_ended = true;
        let (table, place) = (entry.table, entry.place);
        let members = &mut self.tables[usize::from(table)];
        members.swap_remove(place as usize);
        if let Some(moved) = members.get(place as usize).copied()
            && let Some(moved) = self.get_mut(moved)
        {
            moved.place = place;
        }
        self.with_ended(index)
    }

    /// Frees an entry that was removed, and its index.
    pub(super) fn release(&mut self, index: u32) -> Option<Entry> {
        let entry = self.all.get_mut(index as usize)?.take()?;
        self.generations[index as usize] = self.generations[index as usize].wrapping_add(1);
        self.free.push(index);
        Some(entry)
    }
}

impl Entry {
    /// True if the entry's match is `wider`, or narrower, field by field: the rule of non-strict requests.
    pub(super) fn is_within(&self, wider: &Match) -> bool {
        wider.fields.iter().all(|wanted| {
            let mask = wanted.effective_mask();
            mask == 0
                || self
                    .matching
                    .get(wanted.field)
                    .is_some_and(|own| own.effective_mask() & mask == mask && own.value & mask == wanted.value & mask)
        })
    }

    /// True if an action of the entry, applied or written, is one of these.
    pub(super) fn has_action(&self, is_wanted: impl Fn(&Action) -> bool) -> bool {
        self.instructions.actions().any(is_wanted)
    }

    pub(super) fn outputs_to(&self, wanted: PortNumber) -> bool {
        wanted == PortNumber::ANY
            || self.has_action(|action| matches!(action, Action::Output { port, .. } if *port == wanted))
    }

    pub(super) fn uses_group(&self, wanted: u32) -> bool {
        wanted == linerate_openflow::GROUP_ANY
            || self.has_action(|action| matches!(action, Action::Group(group) if *group == wanted))
    }

    /// True if it uses one of these meters, which are in the order of their numbers.
    pub(super) fn uses_one_of(&self, meters: &[u32]) -> bool {
        self.instructions.meter.is_some_and(|meter| meters.binary_search(&meter).is_ok())
    }

    pub(super) fn has_cookie(&self, cookie: u64, mask: u64) -> bool {
        (self.cookie ^ cookie) & mask == 0
    }
}

pub(super) fn is_miss(priority: u16, matching: &Match) -> bool {
    priority == 0 && matching.fields.iter().all(|wanted| wanted.effective_mask() == 0)
}
