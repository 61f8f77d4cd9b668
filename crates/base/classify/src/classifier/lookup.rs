//! The lookup of a batch, in stages, each over all keys, so that the cache lines of many keys are on their way at a time.
//!
//! 1. Atoms: each is hashed once a key, and its filter says which tuples cannot match (pruned tuple space).
//! 2. Waves: each key takes the most important tuples that are left and whose own filters let it pass, asks for the buckets; then, for all
//!    keys, for the entries; then it compares. A key is done when no tuple that is left can have a higher priority.
//!
//! Where the processor has vectors, the first stage is another one: eight tuples at a time are hashed and their filters asked (`blocks.rs`).
//!
//! Both stages go by the most important tuples first, then by twice as many, and so on, so that a key which one of the first has done with
//! pays for the atoms of the first alone.

use super::blocks::{Answers, BLOCK};
use super::entries::{FIRST_WORDS, HEAD, Head, Lines};
use super::hash::Hashing;
use super::set::{ATOMS, Group, Set};
use super::tuple::{Part, Tuple};
use crate::key::{BATCH, FIRST, Key, MISS, Mask};
use crate::primitive::Ordering;

/// Memory of lookups, which one worker keeps for all its classifiers.
pub struct Scratch(Box<Lanes>);

/// Tuples of a key whose filters are asked in one wave.
const AT_ONCE: usize = 4;
/// The most important tuples, which are looked at first; and where a match in the first one is most likely the best.
const TUPLES_FIRST: usize = 6;
const TUPLES_FIRST_SORTED: usize = 2;
/// Probes of a wave.
const PROBES: usize = BATCH * AT_ONCE;

struct Lanes {
    /// Places of the wanted keys in the batch.
    keys: [u8; BATCH],
    /// One more than the priority of what was found; 0 if nothing was.
    best: [u32; BATCH],
    ids: [u32; BATCH],
    /// Tuples of the group that may match.
    candidates: [u64; BATCH],
    /// Of each atom of the group.
    hashes: Box<[[u64; BATCH]]>,
    answers: Answers,
    probes: [Probe; PROBES],
}

/// A key on its way through the table of a tuple.
#[derive(Clone, Copy, Default)]
struct Probe {
    hash: u64,
    lane: u8,
    tuple: u8,
    place: u8,
    entry: u32,
}

impl Default for Scratch {
    fn default() -> Scratch {
        let none = [0; BATCH];
        let (candidates, hashes) = ([0; BATCH], vec![[0; BATCH]; ATOMS].into_boxed_slice());
        let probes = [Probe::default(); PROBES];
        let answers = Answers::default();
        Scratch(Box::new(Lanes { keys: [0; BATCH], best: none, ids: none, candidates, hashes, answers, probes }))
    }
}

/// Looks up the wanted keys; see [`super::ClassifierReader::lookup_batch`].
#[inline]
pub(crate) fn lookup(set: &Set, lines: &Lines, keys: &[Key], wanted: u64, hits: &mut [u32], scratch: &mut Scratch) {
    match set {
        Set::Empty => each(keys, wanted, |lane, _| hits[lane] = MISS),
        Set::Linear(linear) => each(keys, wanted, |lane, key| hits[lane] = linear.lookup(key)),
        Set::Tuples { hashing, groups } => {
            let lanes = &mut *scratch.0;
            let mut count = 0;
            each(keys, wanted, |lane, _| {
                lanes.keys[count % BATCH] = lane as u8;
                count += 1;
            });
            lanes.best[..count].fill(0);
            lanes.ids[..count].fill(MISS);
            for group in groups {
                Pass { hashing, group, lines, keys }.run(lanes, count);
            }
            for (lane, id) in lanes.keys[..count].iter().zip(&lanes.ids) {
                hits[*lane as usize] = *id;
            }
        }
    }
}

/// Looks up one key; see [`super::ClassifierReader::lookup_wide`].
pub(crate) fn lookup_wide(set: &Set, lines: &Lines, key: &Key, scratch: &mut Scratch) -> (u32, Mask) {
    let mut hits = [MISS];
    lookup(set, lines, std::slice::from_ref(key), 1, &mut hits, scratch);
    let rank = if hits[0] == MISS { 0 } else { scratch.0.best[0] };
    (hits[0], set.deciding(rank))
}

#[inline]
fn each(keys: &[Key], wanted: u64, mut then: impl FnMut(usize, &Key)) {
    for (lane, key) in keys.iter().enumerate() {
        if wanted >> (lane % BATCH) & 1 == 1 {
            then(lane, key);
        }
    }
}

struct Pass<'a> {
    hashing: &'a Hashing,
    group: &'a Group,
    lines: &'a Lines,
    keys: &'a [Key],
}

impl Pass<'_> {
    fn run(&self, lanes: &mut Lanes, count: usize) {
        if let [tuple] = &self.group.tuples[..] {
            return self.one_tuple(tuple, lanes, count);
        }
        if self.hashing.vectors() {
            return self.run_blocks(lanes, count);
        }
        lanes.candidates[..count].fill(all_tuples(self.group));
        if self.group.tuples.first().is_some_and(Tuple::is_last_word) {
            self.run_waves::<true>(lanes, count);
        } else {
            self.run_waves::<false>(lanes, count);
        }
    }

    /// Block by block, as long as a block may have a better match.
    fn run_blocks(&self, lanes: &mut Lanes, count: usize) {
        let mut active: [u8; BATCH] = std::array::from_fn(|lane| lane as u8);
        let mut left = count;
        for (number, block) in self.group.blocks.iter().enumerate() {
            let first = number * BLOCK;
            // Limits fall, so the first tuple that is left has the highest.
            let limit = self.group.tuples.get(first).map_or(0, Tuple::limit);
            let mut still = 0;
            for at in 0..left {
                let lane = active[at % BATCH];
                active[still % BATCH] = lane;
                still += usize::from(lanes.best[lane as usize % BATCH] < limit);
            }
            left = still;
            if left == 0 {
                return;
            }
            block.ask(self.hashing, (self.keys, &lanes.keys), &active[..left], &mut lanes.answers);
            self.search_block(lanes, &active[..left], first);
        }
    }

    /// Goes through the tuples of a block, from `first` on, whose filters let keys pass, in waves.
    #[inline]
    fn search_block(&self, lanes: &mut Lanes, active: &[u8], first: usize) {
        let mut order = [0; BATCH];
        order[..active.len()].copy_from_slice(active);
        let mut left = active.len();
        while left > 0 {
            let (mut pending, mut still) = (0, 0);
            for at in 0..left {
                let lane = order[at % BATCH] as usize % BATCH;
                pending = self.next_of_block(lanes, lane, first, pending);
                order[still % BATCH] = lane as u8;
                still += usize::from(lanes.answers.passed[lane] != 0);
            }
            self.probe(lanes, pending);
            left = still;
        }
    }

    /// Adds probes for the next tuples that may have a better match for a key, up to one behind which there is likely no better one.
    #[inline]
    fn next_of_block(&self, lanes: &mut Lanes, lane: usize, first: usize, pending: usize) -> usize {
        let mut pending = pending;
        let mut passed = lanes.answers.passed[lane];
        for _ in 0..AT_ONCE {
            let number = first + passed.trailing_zeros() as usize;
            let Some(tuple) = self.group.tuples.get(number).filter(|_| passed != 0) else { break };
            if lanes.best[lane] >= tuple.limit() {
                passed = 0;
                break;
            }
            passed &= passed - 1;
            let hash = lanes.answers.hashes[lane][number % BLOCK];
            tuple.buckets.prefetch(tuple.buckets.home(hash));
            lanes.probes[pending % PROBES] = Probe { hash, lane: lane as u8, tuple: number as u8, place: 0, entry: 0 };
            pending += 1;
            if tuple.is_last_word() {
                break;
            }
        }
        lanes.answers.passed[lane] = passed;
        pending
    }

    /// `SORTED`: a match in the first tuple is most likely the best, perhaps in others as well.
    fn run_waves<const SORTED: bool>(&self, lanes: &mut Lanes, count: usize) {
        let mut active: [u8; BATCH] = std::array::from_fn(|lane| lane as u8);
        let first = if SORTED { TUPLES_FIRST_SORTED } else { TUPLES_FIRST };
        let (mut left, mut atoms, mut tuples, mut more) = (count, 0, 0, first);
        while left > 0 && tuples < self.group.tuples.len() {
            (tuples, more) = (tuples + more, 2 * more);
            atoms = self.hash_atoms(lanes, &active[..left], atoms, tuples);
            self.search_tuples::<SORTED>(lanes, &active[..left], tuples);
            // Limits fall, so the first tuple that is left has the highest.
            let limit = self.group.tuples.get(tuples).map_or(0, Tuple::limit);
            let mut still = 0;
            for at in 0..left {
                let lane = active[at % BATCH];
                let place = lane as usize % BATCH;
                active[still % BATCH] = lane;
                still += usize::from(lanes.candidates[place] != 0 && lanes.best[place] < limit);
            }
            left = still;
        }
    }

    /// Hashes the atoms from `from` on that the first `tuples` tuples compare, and drops the candidates that have no such value. Atoms stand
    /// in the order of the first tuple that compares them. Returns how many atoms are hashed now.
    #[inline]
    fn hash_atoms(&self, lanes: &mut Lanes, active: &[u8], from: usize, tuples: usize) -> usize {
        let mut at = from;
        while let Some(atom) = self.group.atoms.get(at)
            && (atom.tuples.trailing_zeros() as usize) < tuples
        {
            let hashes = &mut lanes.hashes[at % ATOMS];
            for lane in active {
                let lane = *lane as usize % BATCH;
                let masked = atom.part.of(self.key(lanes.keys[lane]));
                let hash = self.hashing.atom(masked, atom.part.secret);
                hashes[lane] = hash;
                let absent = u64::from(!atom.present.test(self.hashing.finish(hash)));
                lanes.candidates[lane] &= !(atom.tuples & absent.wrapping_neg());
            }
            at += 1;
        }
        at
    }

    /// Goes through the candidates among the first `tuples` tuples, in waves.
    #[inline]
    fn search_tuples<const SORTED: bool>(&self, lanes: &mut Lanes, active: &[u8], tuples: usize) {
        let within = crate::key::lanes(tuples);
        let mut order = [0; BATCH];
        order[..active.len()].copy_from_slice(active);
        let mut left = active.len();
        while left > 0 {
            let (mut pending, mut still) = (0, 0);
            for at in 0..left {
                let lane = order[at % BATCH] as usize % BATCH;
                pending = self.next_tuples::<SORTED>(lanes, lane, within, pending);
                order[still % BATCH] = lane as u8;
                still += usize::from(lanes.candidates[lane] & within != 0);
            }
            self.prefetch(lanes, pending);
            self.probe(lanes, pending);
            left = still;
        }
    }

    /// Adds probes for the next tuples `within` which a key may have a better match. Which filters let a key pass cannot be foreseen, so no
    /// branch depends on it but one: a filter that lets a key pass to the best match ends the wave, and spares the other tuples.
    #[inline]
    fn next_tuples<const SORTED: bool>(&self, lanes: &mut Lanes, lane: usize, within: u64, pending: usize) -> usize {
        let mut pending = pending;
        let mut candidates = lanes.candidates[lane];
        for _ in 0..AT_ONCE {
            let number = (candidates & within).trailing_zeros();
            let Some(tuple) = self.group.tuples.get(number as usize) else { break };
            if lanes.best[lane] >= tuple.limit() {
                candidates = 0;
                break;
            }
            candidates &= candidates - 1;
            let slots = tuple.slots().iter();
            let sum = slots.fold(0u64, |sum, slot| sum.wrapping_add(lanes.hashes[*slot as usize % ATOMS][lane]));
            let hash = self.hashing.finish(sum);
            lanes.probes[pending % PROBES] = Probe { hash, lane: lane as u8, tuple: number as u8, place: 0, entry: 0 };
            let may_match = tuple.filter.test(hash);
            pending += usize::from(may_match);
            if SORTED && may_match & tuple.is_last_word() {
                break;
            }
        }
        lanes.candidates[lane] = candidates;
        pending
    }

    /// Without filters, which cost as much as the one bucket.
    fn one_tuple(&self, tuple: &Tuple, lanes: &mut Lanes, count: usize) {
        let mut pending = 0;
        for lane in 0..count {
            if lanes.best[lane % BATCH] >= tuple.limit() {
                continue;
            }
            let key = self.key(lanes.keys[lane % BATCH]);
            let add = |sum: u64, part: &Part| sum.wrapping_add(self.hashing.atom(part.of(key), part.secret));
            let hash = self.hashing.finish(tuple.parts().iter().fold(0, add));
            lanes.probes[pending % PROBES] = Probe { hash, lane: lane as u8, ..Probe::default() };
            pending += 1;
        }
        self.prefetch(lanes, pending);
        self.probe(lanes, pending);
    }

    /// Asks for the buckets of the first probes.
    #[inline]
    fn prefetch(&self, lanes: &Lanes, pending: usize) {
        for probe in &lanes.probes[..pending] {
            if let Some(tuple) = self.group.tuples.get(probe.tuple as usize) {
                tuple.buckets.prefetch(tuple.buckets.home(probe.hash));
            }
        }
    }

    /// Finishes the first probes, whose buckets were asked for.
    fn probe(&self, lanes: &mut Lanes, pending: usize) {
        let mut hits = 0;
        for at in 0..pending {
            let mut probe = lanes.probes[at % PROBES];
            let Some(tuple) = self.group.tuples.get(probe.tuple as usize) else { continue };
            let bucket = tuple.buckets.home(probe.hash);
            let tagged = tuple.buckets.tagged(bucket, probe.hash);
            if tagged != 0 {
                probe.place = tagged.trailing_zeros() as u8;
                probe.entry = tuple.buckets.entry(bucket, probe.place.into());
                self.lines.prefetch(probe.entry);
            } else if tuple.buckets.behind(bucket).is_some() {
                probe.place = u8::MAX;
            } else {
                continue;
            }
            lanes.probes[hits % PROBES] = probe;
            hits += 1;
        }
        for at in 0..hits {
            let probe = lanes.probes[at % PROBES];
            let Some(tuple) = self.group.tuples.get(probe.tuple as usize) else { continue };
            let lane = probe.lane as usize % BATCH;
            let key = self.key(lanes.keys[lane]);
            let first = if probe.place == u8::MAX { None } else { self.compare(tuple, probe.entry, key) };
            let Some(head) = first.or_else(|| self.search(tuple, probe.hash, key)) else { continue };
            // Both are stored, so that no branch depends on which is higher.
            let (rank, best) = (u32::from(head.priority) + 1, lanes.best[lane]);
            lanes.ids[lane] = if rank > best { head.id } else { lanes.ids[lane] };
            lanes.best[lane] = rank.max(best);
        }
    }

    /// All entries with the hash's tag, for a key whose first one did not match.
    #[cold]
    fn search(&self, tuple: &Tuple, hash: u64, key: &Key) -> Option<Head> {
        let mut found = None;
        tuple.buckets.find(hash, |entry| {
            found = self.compare(tuple, entry, key);
            found.is_some()
        });
        found
    }

    /// What the entry says, if it matches the key.
    #[inline]
    fn compare(&self, tuple: &Tuple, entry: u32, key: &Key) -> Option<Head> {
        let line = &self.lines.get(entry)?.0;
        if tuple.is_plain() {
            let all = tuple.parts().iter().zip(&line[HEAD..]).fold(0, |all, (part, word)| {
                all | key.words[part.word as usize % FIRST] & part.mask ^ word.load(Ordering::Relaxed)
            });
            return (all == 0).then(|| Head::of(line[0].load(Ordering::Relaxed)));
        }
        let differ = |part: &Part, at: usize| part.of(key) ^ line[at].load(Ordering::Relaxed);
        let parts = tuple.parts();
        let first = parts.iter().take(FIRST_WORDS).enumerate();
        let mut all = first.fold(0, |all, (at, part)| all | differ(part, at + HEAD));
        for (at, part) in parts.iter().enumerate().skip(FIRST_WORDS) {
            let line = &self.lines.get(entry + ((at + HEAD) / 8) as u32)?.0;
            all |= part.of(key) ^ line[(at + HEAD) % 8].load(Ordering::Relaxed);
        }
        (all == 0).then(|| Head::of(line[0].load(Ordering::Relaxed)))
    }

    #[inline]
    fn key(&self, lane: u8) -> &Key {
        &self.keys[lane as usize]
    }
}

fn all_tuples(group: &Group) -> u64 {
    crate::key::lanes(group.tuples.len())
}
