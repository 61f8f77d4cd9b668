//! All tables of a classifier, and the set that readers see of them.

use std::collections::HashMap;

use super::atoms::{Atoms, put};
use super::blocks::Block;
use super::entries::Entries;
use super::hash::Hashing;
use super::set::{ATOMS, Atom, Group, Set, TUPLES};
use super::table::Table;
use super::tuple::{Part, Tuple};
use super::value::Value;
use crate::fold::Folding;
use crate::key::Mask;

/// The writer's side of a [`Set`].
pub(crate) struct Tuples {
    pub(crate) hashing: Hashing,
    tables: Vec<Option<Table>>,
    numbers: HashMap<Mask, usize, Folding>,
    /// The table that was asked for last: rules that change one after the other often have one mask.
    recent: usize,
    atoms: Atoms,
    chains: usize,
    /// Chains removed since the atoms' filters were made.
    removed: usize,
    /// Tables as they stand in the current set.
    order: Vec<usize>,
    /// Times that priorities changed so that the order is not the best any more.
    disorder: usize,
    /// The current set is not what readers should see.
    is_stale: bool,
}

/// Changes out of order after which tables are sorted again, at least.
const DISORDER_MAX: usize = 16;

impl Tuples {
    pub(crate) fn new(hashing: Hashing) -> Tuples {
        Tuples {
            hashing,
            tables: Vec::new(),
            numbers: HashMap::with_hasher(hashing.maps()),
            recent: 0,
            atoms: Atoms::new(&hashing),
            chains: 0,
            removed: 0,
            order: Vec::new(),
            disorder: 0,
            is_stale: false,
        }
    }

    pub(crate) fn is_stale(&self) -> bool {
        self.is_stale
    }

    /// All tables.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &Table> {
        self.tables.iter().flatten()
    }

    /// The mask of each table.
    pub(crate) fn masks(&self) -> impl ExactSizeIterator<Item = Mask> {
        self.numbers.keys().copied()
    }

    /// The table of a mask, and its number.
    pub(crate) fn of_mask(&self, mask: &Mask) -> Option<(usize, &Table)> {
        let number = self.recent_of(mask).or_else(|| self.numbers.get(mask).copied())?;
        self.table(number).map(|table| (number, table))
    }

    /// The number of the table of a mask, which is made if there is none.
    pub(crate) fn number_for(&mut self, mask: &Mask) -> usize {
        if let Some(number) = self.recent_of(mask) {
            return number;
        }
        self.recent = *self.numbers.entry(*mask).or_insert_with(|| {
            self.is_stale = true;
            put(&mut self.tables, Table::new(mask, &mut self.atoms, &self.hashing))
        });
        self.recent
    }

    fn recent_of(&self, mask: &Mask) -> Option<usize> {
        self.table(self.recent).is_some_and(|table| table.mask == *mask).then_some(self.recent)
    }

    /// A table by its number.
    pub(crate) fn table(&self, number: usize) -> Option<&Table> {
        self.tables.get(number)?.as_ref()
    }

    /// Counts a rule of this priority, before it can be reached.
    pub(crate) fn add_priority(&mut self, number: usize, priority: u16, set: &Set) {
        if let Some(Some(table)) = self.tables.get_mut(number)
            && table.add_priority(priority)
        {
            self.set_limits(set);
        }
    }

    /// Counts a rule of this priority less, when it cannot be reached any more. A table without rules is dropped.
    pub(crate) fn remove_priority(&mut self, number: usize, priority: u16, set: &Set) {
        let Some(place) = self.tables.get_mut(number) else { return };
        let Some(table) = place else { return };
        let fell = table.remove_priority(priority);
        if table.is_empty() {
            table.atoms.iter().for_each(|atom| self.atoms.leave(*atom));
            self.numbers.remove(&table.mask);
            *place = None;
            self.is_stale = true;
        } else if fell {
            self.set_limits(set);
        }
    }

    /// Adds an entry with a value that the table does not have yet.
    pub(crate) fn add_chain(&mut self, number: usize, value: &Value, entry: u32, entries: &Entries) {
        let Some(Some(table)) = self.tables.get_mut(number) else { return };
        if table.is_full() {
            table.rebuild(&self.hashing, entries);
            self.is_stale = true;
        }
        let is_full = self.atoms.add(&table.atoms, value, &self.hashing);
        table.add_chain(value, entry);
        self.chains += 1;
        if is_full {
            self.rebuild_atoms(entries, false);
        }
    }

    /// Counts a chain less, which was taken out of the buckets.
    pub(crate) fn removed_chain(&mut self, number: usize, entries: &Entries) {
        let Some(Some(table)) = self.tables.get_mut(number) else { return };
        table.chains -= 1;
        if table.is_sparse() {
            table.rebuild(&self.hashing, entries);
            self.is_stale = true;
        }
        self.chains -= 1;
        self.removed += 1;
        if self.removed > self.chains / 2 + 1024 {
            self.rebuild_atoms(entries, true);
            self.removed = 0;
        }
    }

    /// Makes the atoms' filters anew: all, or those that are half full.
    fn rebuild_atoms(&mut self, entries: &Entries, all: bool) {
        let emptied = self.atoms.empty(all, &self.hashing);
        for table in self.tables.iter().flatten() {
            let numbers = table.atoms.iter().copied().enumerate();
            let numbers: Vec<_> = numbers.filter(|(_, number)| emptied.binary_search(number).is_ok()).collect();
            if !numbers.is_empty() {
                let atoms = &mut self.atoms;
                table
                    .for_each_chain(&self.hashing, entries, |_, value| atoms.add_again(&numbers, value, &self.hashing));
            }
        }
        self.is_stale = true;
    }

    /// Makes the limits of the current set those of the tables.
    fn set_limits(&mut self, set: &Set) {
        let Set::Tuples { groups, .. } = set else { return };
        let tuples = groups.iter().flat_map(|group| &group.tuples).rev();
        let (mut limit, mut is_sorted) = (0, true);
        for (tuple, number) in tuples.zip(self.order.iter().rev()) {
            let table = self.table(*number);
            let own = table.map_or(0, Table::limit);
            is_sorted &= own >= limit;
            tuple.set_last_word(table.map_or(0, Table::floor) >= limit);
            limit = limit.max(own);
            tuple.set_limit(limit);
        }
        if !is_sorted {
            self.disorder += 1;
            self.is_stale |= self.disorder > DISORDER_MAX.max(self.numbers.len());
        }
    }

    /// What readers should see now.
    pub(crate) fn set(&mut self) -> Set {
        let limit = |number: &usize| self.table(*number).map_or(0, Table::limit);
        let mut order: Vec<usize> = self.numbers.values().copied().collect();
        order.sort_by_key(|number| std::cmp::Reverse(limit(number)));
        let mut groups: Vec<Growing> = Vec::new();
        for table in order.iter().filter_map(|number| self.table(*number)) {
            if !groups.last_mut().is_some_and(|group| group.add(table)) {
                let mut group = Growing::default();
                group.add(table);
                groups.push(group);
            }
        }
        let mut groups: Vec<Group> = groups.into_iter().map(|group| group.finish(&self.atoms)).collect();
        Set::note_compared(&mut groups);
        let set = Set::Tuples { hashing: self.hashing, groups };
        self.order = order;
        self.set_limits(&set);
        (self.disorder, self.is_stale) = (0, false);
        set
    }

    /// Bytes of tables and filters.
    pub(crate) fn bytes(&self) -> usize {
        self.atoms.bytes() + self.tables().map(Table::bytes).sum::<usize>()
    }
}

/// A group that tables are added to.
#[derive(Default)]
struct Growing<'a> {
    tables: Vec<(&'a Table, Vec<u8>)>,
    /// Number, part and tuples of each atom.
    atoms: Vec<(usize, Part, u64)>,
}

impl<'a> Growing<'a> {
    /// Adds a table; false if it does not fit.
    fn add(&mut self, table: &'a Table) -> bool {
        let known = |atom: &usize| self.atoms.iter().any(|(number, ..)| number == atom);
        let fresh = table.atoms.iter().filter(|atom| !known(atom)).count();
        if self.tables.len() >= TUPLES || self.atoms.len() + fresh > ATOMS {
            return false;
        }
        let bit = 1 << self.tables.len();
        let mut slots = Vec::new();
        for (atom, part) in table.atoms.iter().zip(&table.parts) {
            let slot = self.atoms.iter().position(|(number, ..)| number == atom).unwrap_or(self.atoms.len());
            match self.atoms.get_mut(slot) {
                Some((_, _, tuples)) => *tuples |= bit,
                None => self.atoms.push((*atom, *part, bit)),
            }
            slots.push(slot as u8);
        }
        self.tables.push((table, slots));
        true
    }

    fn finish(self, atoms: &Atoms) -> Group {
        let shared = self.atoms.into_iter().filter_map(|(number, part, tuples)| {
            atoms.present(number).map(|present| Atom { part, tuples, present: present.clone() })
        });
        let tuples: Vec<Tuple> = self.tables.iter().map(|(table, slots)| table.tuple(slots)).collect();
        Group { atoms: shared.collect(), blocks: Block::all(&tuples), tuples, compared: Vec::new() }
    }
}
