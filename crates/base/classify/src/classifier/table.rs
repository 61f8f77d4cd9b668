//! The writer's side of a tuple: all rules with one mask.

use std::collections::BTreeMap;

use super::atoms::Atoms;
use super::buckets::Buckets;
use super::entries::{Entries, NONE};
use super::filter::Filter;
use super::hash::Hashing;
use super::tuple::{Part, Tuple};
use super::value::Value;
use crate::key::{Key, Mask, Rule};

/// The rules with one mask.
pub(crate) struct Table {
    pub(crate) mask: Mask,
    pub(crate) parts: Vec<Part>,
    /// Numbers of the atoms, in the order of the parts.
    pub(crate) atoms: Vec<usize>,
    /// How many rules have a priority.
    priorities: BTreeMap<u16, u32>,
    /// Different values, each of which has a chain of rules.
    pub(crate) chains: usize,
    pub(crate) buckets: Buckets,
    filter: Filter<3>,
    /// Values that were added to the filter since it was made.
    filtered: usize,
}

impl Table {
    pub(crate) fn new(mask: &Mask, atoms: &mut Atoms, hashing: &Hashing) -> Table {
        let parts = Part::all(mask, hashing);
        let atoms = parts.iter().map(|part| atoms.join(*part, hashing)).collect();
        let (buckets, filter) = (Buckets::new(0), Filter::new(0, hashing.filters));
        Table { mask: *mask, parts, atoms, priorities: BTreeMap::new(), chains: 0, buckets, filter, filtered: 0 }
    }

    /// One more than the highest priority; 0 without rules.
    pub(crate) fn limit(&self) -> u32 {
        self.priorities.last_key_value().map_or(0, |(priority, _)| u32::from(*priority) + 1)
    }

    /// One more than the lowest priority; 0 without rules.
    pub(crate) fn floor(&self) -> u32 {
        self.priorities.first_key_value().map_or(0, |(priority, _)| u32::from(*priority) + 1)
    }

    /// True if a rule has this priority.
    pub(crate) fn has_priority(&self, priority: u16) -> bool {
        self.priorities.contains_key(&priority)
    }

    /// True if there is no rule.
    pub(crate) fn is_empty(&self) -> bool {
        self.priorities.is_empty()
    }

    /// Counts a rule; true if the limit rose.
    pub(crate) fn add_priority(&mut self, priority: u16) -> bool {
        if let Some(count) = self.priorities.get_mut(&priority) {
            *count += 1;
            return false;
        }
        let before = self.limit();
        self.priorities.insert(priority, 1);
        self.limit() != before
    }

    /// Counts a rule less; true if the limit fell.
    pub(crate) fn remove_priority(&mut self, priority: u16) -> bool {
        match self.priorities.get_mut(&priority) {
            Some(count) if *count > 1 => {
                *count -= 1;
                false
            }
            _ => {
                let before = self.limit();
                self.priorities.remove(&priority);
                self.limit() != before
            }
        }
    }

    /// The words of a value under the mask.
    pub(crate) fn value_of(&self, hashing: &Hashing, value: &Key) -> Value {
        Value::new(&self.parts, hashing, |_, part| value.words[part.word as usize] & part.mask)
    }

    /// True if the entry has this value.
    pub(crate) fn has(&self, entries: &Entries, entry: u32, value: &Value) -> bool {
        value.words().iter().enumerate().all(|(at, word)| entries.value(entry, at) == *word)
    }

    /// The rule of an entry.
    pub(crate) fn rule(&self, entries: &Entries, entry: u32) -> Rule {
        let mut value = Key::ZERO;
        for (at, part) in self.parts.iter().enumerate() {
            value.words[part.word as usize] = entries.value(entry, at);
        }
        let head = entries.head(entry);
        Rule { value, mask: self.mask, priority: head.priority, id: head.id }
    }

    /// Adds an entry, the first of its value.
    pub(crate) fn add_chain(&mut self, value: &Value, entry: u32) {
        self.filter.add(value.hash);
        self.chains += 1;
        self.filtered += 1;
        self.buckets.insert(value.hash, entry);
    }

    /// True if one more value takes larger buckets or a larger filter.
    pub(crate) fn is_full(&self) -> bool {
        self.chains >= self.buckets.capacity() || self.filtered >= self.filter.capacity()
    }

    /// True if more than half of the values are gone since the filter was made.
    pub(crate) fn is_sparse(&self) -> bool {
        self.filtered > 2 * self.chains + 64
    }

    /// Makes new buckets and a new filter, with room for half as many values again. Sets that were published have the old ones.
    pub(crate) fn rebuild(&mut self, hashing: &Hashing, entries: &Entries) {
        let room = self.chains + self.chains / 2 + 4;
        let (buckets, filter) = (Buckets::new(room), Filter::new(room, hashing.filters));
        self.for_each_chain(hashing, entries, |entry, value| {
            buckets.insert(value.hash, entry);
            filter.add(value.hash);
        });
        (self.buckets, self.filter, self.filtered) = (buckets, filter, self.chains);
    }

    /// Calls with the first entry of each value.
    pub(crate) fn for_each_chain(&self, hashing: &Hashing, entries: &Entries, mut then: impl FnMut(u32, &Value)) {
        let mut ahead = self.buckets.iter();
        let mut next = [NONE; AHEAD];
        let mut at = 0;
        loop {
            // The entries lie anywhere: some are asked for while others are read.
            let entry = std::mem::replace(&mut next[at % AHEAD], ahead.next().unwrap_or(NONE));
            entries.lines().prefetch(next[at % AHEAD]);
            if entry != NONE {
                then(entry, &Value::new(&self.parts, hashing, |at, _| entries.value(entry, at)));
            } else if at >= AHEAD {
                return;
            }
            at += 1;
        }
    }

    /// All entries, chain by chain.
    pub(crate) fn iter<'a>(&'a self, entries: &'a Entries) -> impl Iterator<Item = u32> + 'a {
        let following = |entry: &u32| Some(entries.next(*entry)).filter(|next| *next != NONE);
        self.buckets.iter().flat_map(move |first| std::iter::successors(Some(first), following))
    }

    /// What readers see, given where the atoms stand in the group.
    pub(crate) fn tuple(&self, slots: &[u8]) -> Tuple {
        Tuple::new(&self.parts, slots, self.filter.clone(), self.buckets.clone())
    }

    /// Bytes of the buckets, the filter and the rest.
    pub(crate) fn bytes(&self) -> usize {
        self.buckets.bytes() + self.filter.bytes() + 3 * size_of::<Table>() + self.priorities.len() * 16
    }
}

/// Entries that are asked for before they are read.
const AHEAD: usize = 16;
