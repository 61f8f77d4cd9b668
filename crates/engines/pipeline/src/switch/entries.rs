//! Flow entries as the control thread keeps them: what controllers said of each, by index, by table, and by match.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use linerate_classify::Counts;
use linerate_openflow::{
    Action, FieldMatch, FlowFlags, Instruction, Match, PackedInstructions, PackedMatch, PortNumber,
};

/// No entry.
pub(super) const NONE: u32 = u32::MAX;

/// A flow entry.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) table: u8,
    pub(super) priority: u16,
    pub(super) cookie: u64,
    pub(super) idle_timeout_s: u16,
    pub(super) hard_timeout_s: u16,
    pub(super) flags: FlowFlags,
    pub(super) matching: PackedMatch,
    pub(super) instructions: PackedInstructions,
    pub(super) created_ns: u64,
    /// What workers see of it.
    pub(super) flow: u32,
    /// What its counters said when they were reset.
    pub(super) base: Counts,
    /// Its place in the table's list.
    place: u32,
    hash: u64,
    /// The next entry whose match has the same hash.
    next: u32,
}

/// What a new entry consists of.
pub(super) struct Draft {
    pub(super) table: u8,
    pub(super) priority: u16,
    pub(super) cookie: u64,
    pub(super) idle_timeout_s: u16,
    pub(super) hard_timeout_s: u16,
    pub(super) flags: FlowFlags,
    pub(super) matching: Match,
    pub(super) instructions: Vec<Instruction>,
}

/// All entries.
pub(super) struct Entries {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Entries of each table.
    tables: Vec<Vec<u32>>,
    by_match: HashMap<u64, u32>,
    hasher: RandomState,
    capacity: u32,
}

#[derive(Default)]
struct Slot {
    /// Another one for each entry that had the slot.
    generation: u32,
    entry: Option<Box<Entry>>,
}

impl Entries {
    pub(super) fn new(tables: usize, capacity: u32) -> Entries {
        Entries {
            slots: Vec::new(),
            free: Vec::new(),
            tables: (0..tables).map(|_| Vec::new()).collect(),
            by_match: HashMap::new(),
            hasher: RandomState::new(),
            capacity,
        }
    }

    pub(super) fn get(&self, index: u32) -> Option<&Entry> {
        self.slots.get(index as usize)?.entry.as_deref()
    }

    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut Entry> {
        self.slots.get_mut(index as usize)?.entry.as_deref_mut()
    }

    /// The generation of the counters of the entry in a slot.
    pub(super) fn generation(&self, index: u32) -> u32 {
        self.slots.get(index as usize).map_or(0, |slot| slot.generation)
    }

    /// Indices of the entries of a table.
    pub(super) fn of_table(&self, table: u8) -> &[u32] {
        self.tables.get(usize::from(table)).map_or(&[], Vec::as_slice)
    }

    pub(super) fn len(&self) -> usize {
        self.tables.iter().map(Vec::len).sum()
    }

    /// All indices are below it.
    pub(super) fn end(&self) -> u32 {
        self.slots.len() as u32
    }

    /// The next index that an entry gets; `None` if there are as many entries as there may be.
    pub(super) fn next_index(&mut self) -> Option<u32> {
        if let Some(index) = self.free.last() {
            return Some(*index);
        }
        let index = self.slots.len() as u32;
        if index >= self.capacity {
            return None;
        }
        self.slots.push(Slot::default());
        self.free.push(index);
        Some(index)
    }

    /// Puts an entry at the index that [`Entries::next_index`] gave.
    pub(super) fn insert(&mut self, draft: Draft, flow: u32, now_ns: u64) -> u32 {
        let Some(index) = self.free.pop() else { return NONE };
        let hash = self.hash(draft.table, draft.priority, &draft.matching);
        let next = self.by_match.insert(hash, index).unwrap_or(NONE);
        let members = &mut self.tables[usize::from(draft.table)];
        let entry = Entry {
            table: draft.table,
            priority: draft.priority,
            cookie: draft.cookie,
            idle_timeout_s: draft.idle_timeout_s,
            hard_timeout_s: draft.hard_timeout_s,
            flags: draft.flags,
            matching: PackedMatch::new(&draft.matching),
            instructions: PackedInstructions::new(&draft.instructions),
            created_ns: now_ns,
            flow,
            base: Counts::default(),
            place: members.len() as u32,
            hash,
            next,
        };
        members.push(index);
        self.slots[index as usize].entry = Some(Box::new(entry));
        index
    }

    /// The entry with this priority and exactly this match.
    pub(super) fn find(&self, table: u8, priority: u16, matching: &Match) -> Option<u32> {
        let mut index = *self.by_match.get(&self.hash(table, priority, matching))?;
        while let Some(entry) = self.get(index) {
            if entry.table == table && entry.priority == priority && entry.matching.unpack().same_packets(matching) {
                return Some(index);
            }
            index = entry.next;
        }
        None
    }

    /// Takes an entry out. Its index is used again after [`Entries::release`] only.
    pub(super) fn remove(&mut self, index: u32) -> Option<Box<Entry>> {
        let entry = self.slots.get_mut(index as usize)?.entry.take()?;
        let members = &mut self.tables[usize::from(entry.table)];
        members.swap_remove(entry.place as usize);
        if let Some(moved) = members.get(entry.place as usize).copied()
            && let Some(moved) = self.get_mut(moved)
        {
            moved.place = entry.place;
        }
        let first = self.by_match.get(&entry.hash).copied().unwrap_or(NONE);
        if first == index {
            match entry.next {
                NONE => self.by_match.remove(&entry.hash),
                next => self.by_match.insert(entry.hash, next),
            };
        } else {
            let mut before = first;
            while let Some(other) = self.get_mut(before) {
                if other.next == index {
                    other.next = entry.next;
                    break;
                }
                before = other.next;
            }
        }
        Some(entry)
    }

    /// Frees the index of an entry that was removed.
    pub(super) fn release(&mut self, index: u32) {
        if let Some(slot) = self.slots.get_mut(index as usize) {
            slot.generation = slot.generation.wrapping_add(1);
            self.free.push(index);
        }
    }

    fn hash(&self, table: u8, priority: u16, matching: &Match) -> u64 {
        // The order of fields makes no difference, so their hashes are summed.
        let of_field = |wanted: &FieldMatch| {
            let mask = wanted.effective_mask();
            if mask == 0 { 0 } else { self.hasher.hash_one((wanted.field, wanted.value & mask, mask)) }
        };
        let fields = matching.fields.iter().map(of_field).fold(0u64, u64::wrapping_add);
        self.hasher.hash_one((table, priority, fields))
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

    /// True if a packet may match this entry and `other`.
    pub(super) fn overlaps(&self, other: &Match) -> bool {
        other.fields.iter().all(|wanted| {
            let Some(own) = self.matching.get(wanted.field) else { return true };
            let both = own.effective_mask() & wanted.effective_mask();
            (own.value ^ wanted.value) & both == 0
        })
    }

    /// True if an action of the entry, applied or written, is one of these.
    pub(super) fn has_action(&self, is_wanted: impl Fn(&Action) -> bool) -> bool {
        actions_of(&self.instructions.unpack()).any(is_wanted)
    }

    pub(super) fn outputs_to(&self, wanted: PortNumber) -> bool {
        wanted == PortNumber::ANY
            || self.has_action(|action| matches!(action, Action::Output { port, .. } if *port == wanted))
    }

    pub(super) fn uses_group(&self, wanted: u32) -> bool {
        wanted == linerate_openflow::GROUP_ANY
            || self.has_action(|action| matches!(action, Action::Group(group) if *group == wanted))
    }

    pub(super) fn uses_meter(&self, wanted: u32) -> bool {
        self.instructions.unpack().iter().any(|one| matches!(one, Instruction::Meter(meter) if *meter == wanted))
    }

    pub(super) fn has_cookie(&self, cookie: u64, mask: u64) -> bool {
        (self.cookie ^ cookie) & mask == 0
    }
}

pub(super) fn is_miss(priority: u16, matching: &Match) -> bool {
    priority == 0 && matching.fields.iter().all(|wanted| wanted.effective_mask() == 0)
}

/// All actions in a list of instructions.
pub(super) fn actions_of(instructions: &[Instruction]) -> impl Iterator<Item = &Action> {
    instructions.iter().flat_map(|instruction| match instruction {
        Instruction::ApplyActions(actions) | Instruction::WriteActions(actions) => actions.as_slice(),
        _ => &[],
    })
}

/// The groups that actions name, each once.
pub(super) fn groups_of<'a>(actions: impl Iterator<Item = &'a Action>) -> Vec<u32> {
    let mut groups: Vec<u32> =
        actions.filter_map(|action| if let Action::Group(group) = action { Some(*group) } else { None }).collect();
    groups.sort_unstable();
    groups.dedup();
    groups
}
