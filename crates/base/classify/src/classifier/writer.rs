//! The writer's end of a classifier.

use super::ClassifierReader;
use super::buckets::Place;
use super::entries::{Entries, Head, NONE};
use super::hash::Hashing;
use super::linear::{LINEAR, Linear};
use super::set::Set;
use super::table::Table;
use super::tuples::Tuples;
use super::value::Value;
use crate::domain::Domain;
use crate::key::{Mask, Rule};
use crate::primitive::Arc;
use crate::published::Publisher;

/// The writer's end of a classifier.
///
/// ```
/// use linerate_classify::{Classifier, Domain, Key, MISS, Mask, Rule, Scratch, lanes};
/// let domain = Domain::new(1);
/// let mut worker = domain.worker().unwrap();
/// let mut classifier = Classifier::new(&domain);
/// let reader = classifier.reader();
/// let (mut value, mut mask) = (Key::ZERO, Mask::NONE);
/// (value.words[2], mask.words[2]) = (0x0a00_0000, 0xff00_0000);
/// classifier.insert(&Rule { value, mask, priority: 10, id: 1 });
///
/// let mut keys = [Key::ZERO; 2];
/// keys[1].words[2] = 0x0a01_0203;
/// let (mut hits, mut scratch) = ([0; 2], Scratch::default());
/// reader.lookup_batch(&worker.enter(), &keys, lanes(2), &mut hits, &mut scratch);
/// assert_eq!(hits, [MISS, 1]);
/// ```
pub struct Classifier {
    pub(super) tuples: Tuples,
    pub(super) entries: Entries,
    publisher: Publisher<Set>,
    /// All rules while there are few.
    few: Option<Vec<Rule>>,
    len: usize,
}

/// Rules from which on few ones are looked up one after the other again.
const FEW: usize = LINEAR / 2;

/// A chain of rules with one match: its table, the first entry and its place in the buckets, the match's words.
struct Chain<'a> {
    number: usize,
    table: &'a Table,
    place: Place,
    first: u32,
    value: Value,
}

impl Classifier {
    /// A classifier without rules, whose readers are workers of `domain`.
    pub fn new(domain: &Domain) -> Classifier {
        Classifier::with(domain, Hashing::random())
    }

    /// As [`Classifier::new`], with secrets that everybody knows, so that counts of instructions repeat. Whoever may choose the rules could choose
    /// some that collide.
    pub fn with_known_secrets(domain: &Domain) -> Classifier {
        Classifier::with(domain, Hashing::known())
    }

    pub(crate) fn with(domain: &Domain, hashing: Hashing) -> Classifier {
        let (tuples, entries) = (Tuples::new(hashing), Entries::new(domain));
        Classifier { tuples, entries, publisher: Publisher::new(domain, Set::Empty), few: Some(Vec::new()), len: 0 }
    }

    /// An end for a reader.
    pub fn reader(&self) -> ClassifierReader {
        ClassifierReader { set: Arc::clone(self.publisher.published()), lines: Arc::clone(self.entries.lines()) }
    }

    /// Adds a rule, beside rules of the same match and priority, if there are any.
    pub fn insert(&mut self, rule: &Rule) {
        let number = self.tuples.number_for(&rule.mask);
        let Some(table) = self.tuples.table(number) else { return };
        let value = table.value_of(&self.tuples.hashing, &rule.value);
        let found = table.buckets.find(value.hash, |entry| table.has(&self.entries, entry, &value));
        self.tuples.add_priority(number, rule.priority, self.publisher.current());
        let head = Head { id: rule.id, priority: rule.priority };
        match found {
            None => {
                let entry = self.entries.insert(head, NONE, value.words());
                self.tuples.add_chain(number, &value, entry, &self.entries);
            }
            Some((place, first)) => self.insert_in_chain(number, place, first, head, &value),
        }
        self.len += 1;
        if let Some(few) = &mut self.few {
            few.push(*rule);
        }
        self.publish();
    }

    /// Chains have falling priorities, so that readers need the first entry only.
    fn insert_in_chain(&mut self, number: usize, place: Place, first: u32, head: Head, value: &Value) {
        let (mut before, mut next) = (NONE, first);
        while next != NONE && self.entries.head(next).priority > head.priority {
            (before, next) = (next, self.entries.next(next));
        }
        let entry = self.entries.insert(head, next, value.words());
        if before != NONE {
            self.entries.set_next(before, entry);
        } else if let Some(table) = self.tuples.table(number) {
            table.buckets.replace(place, entry);
        }
    }

    /// Takes out the rule with this match, priority and id. Returns false if there is none. Workers no longer find it once they
    /// have seen a version that began after the call; its id may be used for something else after that.
    pub fn remove(&mut self, rule: &Rule) -> bool {
        let Some(chain) = self.chain(rule) else { return false };
        let Some((before, entry)) = self.entry(&chain, rule) else { return false };
        let Chain { number, table, place, value, .. } = chain;
        let next = self.entries.next(entry);
        let is_last = before == NONE && next == NONE;
        if before != NONE {
            self.entries.set_next(before, next);
        } else if next != NONE {
            table.buckets.replace(place, next);
        } else {
            table.buckets.remove(value.hash, place);
        }
        self.entries.remove(entry, value.words().len());
        if is_last {
            self.tuples.removed_chain(number, &self.entries);
        }
        self.tuples.remove_priority(number, rule.priority, self.publisher.current());
        self.len -= 1;
        if let Some(few) = &mut self.few {
            few.retain(|one| !(one.id == rule.id && one.priority == rule.priority && one.same_match(rule)));
        }
        self.publish();
        true
    }

    /// Takes out all rules, as [`Classifier::remove`] does with each, faster.
    pub fn clear(&mut self) {
        self.publisher.publish(Set::Empty);
        for table in self.tuples.tables() {
            for entry in table.iter(&self.entries).collect::<Vec<u32>>() {
                self.entries.remove(entry, table.parts.len());
            }
        }
        self.tuples = Tuples::new(self.tuples.hashing);
        (self.few, self.len) = (Some(Vec::new()), 0);
    }

    /// Gives the rule with this match, priority and id another id, in one step: a lookup finds the one or the other. Returns false
    /// if there is no such rule.
    pub fn replace(&mut self, rule: &Rule, id: u32) -> bool {
        let found = self.chain(rule).and_then(|chain| self.entry(&chain, rule));
        let Some((_, entry)) = found else { return false };
        self.entries.set_head(entry, Head { id, priority: rule.priority });
        if let Some(few) = &mut self.few {
            let is_it = |one: &&mut Rule| one.id == rule.id && one.priority == rule.priority && one.same_match(rule);
            few.iter_mut().filter(is_it).for_each(|one| one.id = id);
        }
        self.publish();
        true
    }

    /// The id of a rule with exactly this match and priority, if there is one; the id of `rule` does not matter.
    pub fn find(&self, rule: &Rule) -> Option<u32> {
        let mut entry = self.chain(rule)?.first;
        while entry != NONE {
            let head = self.entries.head(entry);
            if head.priority == rule.priority {
                return Some(head.id);
            }
            entry = self.entries.next(entry);
        }
        None
    }

    /// Rules.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there is no rule.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The different masks of the rules.
    pub fn masks(&self) -> impl ExactSizeIterator<Item = Mask> {
        self.tuples.masks()
    }

    /// Bytes that the rules take at most, without those of sets that workers may still read.
    pub fn memory_bytes(&self) -> usize {
        self.entries.bytes() + self.tuples.bytes()
    }

    /// Makes memory free that no worker reads any more. Other calls do so, too; this one is for a classifier at rest.
    pub fn reclaim(&mut self) {
        self.publisher.reclaim();
        self.entries.reclaim();
    }

    fn chain(&self, rule: &Rule) -> Option<Chain<'_>> {
        let (number, table) = self.tuples.of_mask(&rule.mask)?;
        let value = table.value_of(&self.tuples.hashing, &rule.value);
        let (place, first) = table.buckets.find(value.hash, |entry| table.has(&self.entries, entry, &value))?;
        Some(Chain { number, table, place, first, value })
    }

    /// The entry of a rule in its chain, and the one before it.
    fn entry(&self, chain: &Chain<'_>, rule: &Rule) -> Option<(u32, u32)> {
        let wanted = Head { id: rule.id, priority: rule.priority };
        let (mut before, mut entry) = (NONE, chain.first);
        while entry != NONE && self.entries.head(entry) != wanted {
            (before, entry) = (entry, self.entries.next(entry));
        }
        (entry != NONE).then_some((before, entry))
    }

    /// Lets readers see what cannot be changed in place.
    fn publish(&mut self) {
        if self.len > LINEAR {
            self.few = None;
        } else if self.len <= FEW && self.few.is_none() {
            let rules =
                |table: &Table| table.iter(&self.entries).map(|entry| table.rule(&self.entries, entry)).collect();
            self.few = Some(self.tuples.tables().flat_map(|table| -> Vec<Rule> { rules(table) }).collect());
        }
        let set = match &self.few {
            Some(few) if few.is_empty() => Set::Empty,
            Some(few) => Set::Linear(Linear::new(few)),
            None if self.tuples.is_stale() || !matches!(self.publisher.current(), Set::Tuples { .. }) => {
                self.tuples.set()
            }
            None => return,
        };
        self.publisher.publish(set);
    }
}
