//! Rules with masks and priorities, which one thread changes while workers look keys up.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use crate::domain::{Domain, Guard};
use crate::key::{BATCH, Key, MISS, Mask, Rule, WORDS};
use crate::primitive::Arc;

type Rules = BTreeMap<Mask, BTreeMap<[u64; WORDS], Vec<(u16, u32)>>>;

struct Shared {
    domain: Domain,
    rules: RwLock<Rules>,
}

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
    shared: Arc<Shared>,
    len: usize,
}

/// Whether a rule was found that overlaps another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlap {
    /// No rule of that priority overlaps.
    None,
    /// The rule with this id does.
    With(u32),
    /// It would take more comparisons than allowed to tell.
    Unknown,
}

impl Classifier {
    /// A classifier without rules, whose readers are workers of `domain`.
    pub fn new(domain: &Domain) -> Classifier {
        Classifier { shared: Arc::new(Shared { domain: domain.clone(), rules: RwLock::default() }), len: 0 }
    }

    /// An end for a reader.
    pub fn reader(&self) -> ClassifierReader {
        ClassifierReader(Arc::clone(&self.shared))
    }

    /// Adds a rule, beside rules of the same match and priority, if there are any.
    pub fn insert(&mut self, rule: &Rule) {
        let mut rules = self.shared.rules.write().unwrap_or_else(PoisonError::into_inner);
        rules.entry(rule.mask).or_default().entry(masked(rule)).or_default().push((rule.priority, rule.id));
        self.len += 1;
    }

    /// Takes out the rule with this match, priority and id. Returns false if there is none. Workers no longer find it once they
    /// have seen a version that began after the call; its id may be used for something else after that.
    pub fn remove(&mut self, rule: &Rule) -> bool {
        let mut rules = self.shared.rules.write().unwrap_or_else(PoisonError::into_inner);
        let Some(values) = rules.get_mut(&rule.mask) else { return false };
        let Some(same) = values.get_mut(&masked(rule)) else { return false };
        let Some(at) = same.iter().position(|one| *one == (rule.priority, rule.id)) else { return false };
        same.swap_remove(at);
        if same.is_empty() {
            values.remove(&masked(rule));
        }
        if values.is_empty() {
            rules.remove(&rule.mask);
        }
        self.len -= 1;
        true
    }

    /// Gives the rule with this match, priority and id another id, in one step: a lookup finds the one or the other. Returns false
    /// if there is no such rule.
    pub fn replace(&mut self, rule: &Rule, id: u32) -> bool {
        let mut rules = self.shared.rules.write().unwrap_or_else(PoisonError::into_inner);
        let same = rules.get_mut(&rule.mask).and_then(|values| values.get_mut(&masked(rule)));
        let one = same.and_then(|same| same.iter_mut().find(|one| **one == (rule.priority, rule.id)));
        one.map(|one| one.1 = id).is_some()
    }

    /// Ids of the rules with exactly this match and priority. The rule's own id does not count.
    pub fn find(&self, rule: &Rule) -> Vec<u32> {
        let rules = self.shared.rules.read().unwrap_or_else(PoisonError::into_inner);
        let same = rules.get(&rule.mask).and_then(|values| values.get(&masked(rule)));
        let same = same.into_iter().flatten().filter(|(priority, _)| *priority == rule.priority);
        same.map(|(_, id)| *id).collect()
    }

    /// A rule of the same priority that a key could match together with `rule`. Compares at most `compares_max` rules.
    pub fn overlap(&self, rule: &Rule, compares_max: usize) -> Overlap {
        let rules = self.shared.rules.read().unwrap_or_else(PoisonError::into_inner);
        let mut compares = 0;
        for (mask, values) in rules.iter() {
            for (words, same) in values {
                compares += 1;
                if compares > compares_max {
                    return Overlap::Unknown;
                }
                let other = Rule { value: Key { words: *words }, mask: *mask, ..*rule };
                let Some((_, id)) = same.iter().find(|(priority, _)| *priority == rule.priority) else { continue };
                if other.overlaps(rule) {
                    return Overlap::With(*id);
                }
            }
        }
        Overlap::None
    }

    /// Rules.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there is no rule.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Different masks of the rules.
    pub fn masks(&self) -> usize {
        self.shared.rules.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Bytes that the rules take at most.
    pub fn memory_bytes(&self) -> usize {
        self.len * 256
    }

    /// Gives memory free that no worker reads any more. Other calls do so, too; this one is for a classifier at rest.
    pub fn reclaim(&mut self) {}
}

fn masked(rule: &Rule) -> [u64; WORDS] {
    std::array::from_fn(|at| rule.value.words[at] & rule.mask.words[at])
}

/// Memory of lookups, which one worker keeps for all its classifiers.
#[derive(Default)]
pub struct Scratch {}

/// A reader's end of a classifier.
#[derive(Clone)]
pub struct ClassifierReader(Arc<Shared>);

impl ClassifierReader {
    /// Looks up those of up to 64 keys whose bit is set in `wanted`. `hits` gets the id of a rule that matches with the highest
    /// priority, and [`MISS`] where none matches; the places of other keys stay as they are. The lookup sees each change made before the
    /// guard's version began, and any part of those made later.
    ///
    /// # Panics
    /// If there are more than 64 keys, or fewer hits than keys, or the guard is of a worker of another domain.
    pub fn lookup_batch(&self, guard: &Guard<'_>, keys: &[Key], wanted: u64, hits: &mut [u32], scratch: &mut Scratch) {
        assert!(keys.len() <= BATCH && hits.len() >= keys.len());
        guard.assert_of(&self.0.domain);
        let _ = scratch;
        let rules = self.0.rules.read().unwrap_or_else(PoisonError::into_inner);
        for (lane, key) in keys.iter().enumerate().filter(|(lane, _)| wanted >> lane & 1 == 1) {
            let find = |(mask, values): (&Mask, &BTreeMap<_, Vec<(u16, u32)>>)| {
                let words: [u64; WORDS] = std::array::from_fn(|at| key.word(at) & mask.words[at]);
                values.get(&words)?.iter().max_by_key(|(priority, _)| *priority).copied()
            };
            hits[lane] = rules.iter().filter_map(find).max_by_key(|(priority, _)| *priority).map_or(MISS, |(_, id)| id);
        }
    }
}
