//! Lookups of flow tables: rules with twenty masks, one mask, and the cache before them.
//!
//! Headers have addresses of which many share prefixes, so that rules with short prefixes match many of them: of twenty masks, twelve to eighteen
//! have all words of a known header among their rules, and five to seven have a rule that matches it (100,000 rules).

use std::time::Instant;

use linerate_classify::{
    BATCH, Cache, CacheConfig, Classifier, ClassifierReader, Counters, Domain, Key, MISS, Mask, Rule, Scratch, Worker,
    WorkerCounters, lanes,
};
use linerate_sys::affinity;

use crate::measure::{Run, Stopwatch};

/// Words that the headers use: port and present headers; Ethernet; source and destination; ports and protocol.
const PORT: usize = 0;
const ETHERNET: usize = 1;
const SOURCE: usize = 2;
const DESTINATION: usize = 3;
const TRANSPORT: usize = 4;

/// What priorities rules have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priorities {
    /// The more bits a rule compares, the higher.
    Specific,
    /// Any.
    Random,
}

/// Which headers are looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Headers {
    /// Those that rules were made of.
    Known,
    /// Others, with values that no rule has.
    Unknown,
}

/// A number without a pattern.
fn mix(number: u64) -> u64 {
    let first = (number ^ number >> 31).wrapping_mul(0x7fb5_d329_728e_a185);
    let second = (first ^ first >> 27).wrapping_mul(0x81da_def4_bc2d_d44d);
    second ^ second >> 33
}

/// The header of a flow.
pub fn header(number: u64) -> Key {
    let mut key = Key::ZERO;
    let (one, two) = (mix(number), mix(number ^ 0x5555_0000_0000));
    // Of 4 networks of 8 bits, 16 of 16 bits in each, 64 of 24 bits in each of those.
    let address =
        |bits: u64| 10 << 24 | (bits & 3) << 25 | (bits >> 2 & 15) << 16 | (bits >> 6 & 63) << 8 | bits >> 12 & 255;
    key.words[PORT] = 0x0000_00ff_0000_0000 | (one >> 60 & 3);
    key.words[ETHERNET] = 0x0800 << 48 | (one >> 56 & 15);
    key.words[SOURCE] = address(one);
    key.words[DESTINATION] = address(two);
    key.words[TRANSPORT] = 6 << 32 | (two >> 24 & 0xffff) << 16 | (two >> 42 & 31);
    key
}

/// A header with values that no rule has.
pub fn unknown(number: u64) -> Key {
    let mut key = header(number);
    (key.words[SOURCE], key.words[DESTINATION]) = (mix(number) >> 33, mix(number ^ 1 << 50) >> 33);
    key.words[TRANSPORT] = 17 << 32 | mix(number ^ 1 << 51) >> 32;
    key
}

/// One of twenty masks.
fn mask(number: u64) -> Mask {
    let prefix = |length: u64| (u64::from(u32::MAX) << (32 - length)) & u64::from(u32::MAX);
    // Source, destination, transport (0 none, 1 protocol, 2 and destination port, 3 all), port.
    const ALL: [(u64, u64, u8, bool); 20] = [
        (32, 32, 3, true),
        (32, 32, 2, false),
        (32, 24, 2, false),
        (24, 32, 2, true),
        (24, 24, 2, false),
        (32, 32, 0, false),
        (32, 0, 2, false),
        (0, 32, 2, false),
        (24, 16, 1, false),
        (16, 24, 2, false),
        (16, 16, 2, true),
        (8, 24, 0, true),
        (24, 24, 3, false),
        (0, 24, 1, false),
        (24, 0, 2, false),
        (8, 16, 2, false),
        (16, 8, 2, true),
        (16, 16, 1, false),
        (16, 0, 2, false),
        (8, 16, 2, true),
    ];
    let (source, destination, transport, port) = ALL[number as usize % ALL.len()];
    let mut mask = Mask::NONE;
    mask.words[PORT] = if port { u64::MAX } else { u64::MAX << 32 };
    mask.words[ETHERNET] = if source == 32 { 0xffff << 48 | 15 } else { 0xffff << 48 };
    (mask.words[SOURCE], mask.words[DESTINATION]) = (prefix(source), prefix(destination));
    mask.words[TRANSPORT] = [0, 0xff << 32, 0xff << 32 | 0xffff, 0xff_ffff_ffff][transport as usize];
    mask
}

/// Rule `number` of the table with so many masks, 1 or 20.
pub fn rule(number: u64, masks: u64, priorities: Priorities) -> Rule {
    let mask = if masks == 1 { mask(0) } else { mask(number % masks) };
    let priority = match priorities {
        Priorities::Specific => mask.words.iter().map(|word| word.count_ones()).sum::<u32>() as u16,
        Priorities::Random => (mix(number ^ 0x77) >> 48) as u16,
    };
    Rule { value: header(number), mask, priority, id: number as u32 }
}

/// A classifier with rules, its only worker and what that needs.
pub struct Table {
    /// The writer's end.
    pub classifier: Classifier,
    reader: ClassifierReader,
    worker: Worker,
    scratch: Scratch,
}

impl Table {
    /// With rules 0 to `rules`; those with a match that another one has are left out.
    pub fn new(rules: u64, masks: u64, priorities: Priorities) -> Table {
        let domain = Domain::new(1);
        let mut classifier = Classifier::with_known_secrets(&domain);
        for rule in (0..rules).map(|number| rule(number, masks, priorities)) {
            if classifier.find(&rule).is_none() {
                classifier.insert(&rule);
            }
        }
        let worker = domain.worker().expect("the domain has room for one");
        Table { reader: classifier.reader(), classifier, worker, scratch: Scratch::default() }
    }

    /// Looks up a batch; returns how many of the keys matched.
    #[inline(never)]
    pub fn look_up(&mut self, keys: &[Key]) -> usize {
        let mut hits = [MISS; BATCH];
        let guard = self.worker.enter();
        self.reader.lookup_batch(&guard, keys, lanes(keys.len()), &mut hits, &mut self.scratch);
        hits[..keys.len()].iter().filter(|hit| **hit != MISS).count()
    }
}

/// A cache with counters behind it.
pub struct Cached {
    cache: Cache,
    counters: WorkerCounters,
    now: u64,
}

impl Cached {
    /// A cache that was warmed with so many flows.
    pub fn new(flows: u64) -> Cached {
        let mut counters = Counters::new();
        let counters = counters.worker(flows as u32);
        let mut cached = Cached { cache: Cache::new(CacheConfig::default()), counters, now: 1 };
        for _ in 0..12 {
            for first in (0..flows).step_by(BATCH) {
                let keys: Vec<Key> = (first..flows.min(first + BATCH as u64)).map(header_of_its_own).collect();
                let mut values = [MISS; BATCH];
                cached.cache.lookup_batch(&keys, lanes(keys.len()), &mut values);
                for (at, key) in keys.iter().enumerate().filter(|(at, _)| values[*at] == MISS) {
                    cached.cache.insert(key, (first + at as u64) as u32);
                }
            }
        }
        cached
    }

    /// Bytes of the cache.
    pub fn memory_bytes(&self) -> usize {
        self.cache.memory_bytes()
    }

    /// Looks up a batch and counts what was found; returns how many of the keys were.
    #[inline(never)]
    pub fn look_up(&mut self, keys: &[Key]) -> usize {
        let mut values = [MISS; BATCH];
        let found = self.cache.lookup_batch(keys, lanes(keys.len()), &mut values);
        let values = &values[..keys.len()];
        values.iter().for_each(|value| self.counters.prefetch(*value));
        // One count for each run of packets of one flow.
        for run in values.chunk_by(|one, next| one == next) {
            self.counters.add(run[0], 1, run.len() as u64, 60 * run.len() as u64, self.now);
        }
        self.now += 1;
        found.count_ones() as usize
    }
}

/// As [`header`], different for each number.
pub fn header_of_its_own(number: u64) -> Key {
    let mut key = header(number);
    key.words[TRANSPORT] ^= number << 40;
    key
}

/// The median of what a key of a batch takes, in nanoseconds, with keys that are made in between.
pub fn median_ns(batches: u64, key: impl Fn(u64) -> Key, mut look_up: impl FnMut(&[Key]) -> usize) -> (f64, f64) {
    let mut keys = [Key::ZERO; BATCH];
    let (mut taken, mut found) = (Vec::new(), 0);
    for batch in 0..batches {
        keys.iter_mut().zip(0u64..).for_each(|(one, at)| *one = key(mix(batch * BATCH as u64 + at)));
        let start = Instant::now();
        found += look_up(&keys);
        taken.push(start.elapsed().as_nanos() as u64);
    }
    taken.sort_unstable();
    let per_key = 1.0 / BATCH as f64;
    (taken[taken.len() / 2] as f64 * per_key, found as f64 / batches as f64 * per_key)
}

/// Lookups of keys that lie ready, for a loop whose instructions are counted.
fn run(core: usize, lookups: u64, key: impl Fn(u64) -> Key, mut look_up: impl FnMut(&[Key]) -> usize) -> Run {
    let _ = affinity::pin_to_core(core);
    let keys: Vec<Key> = (0..1u64 << 14).map(|number| key(mix(number))).collect();
    let mut done = 0;
    let watch = Stopwatch::start();
    for keys in keys.chunks(BATCH).cycle() {
        std::hint::black_box(look_up(keys));
        done += keys.len() as u64;
        if done >= lookups {
            break;
        }
    }
    watch.stop(done)
}

/// Rules of the loops, few enough to be added while instructions are counted.
const RULES: u64 = 10_000;

/// Lookups in a table of 10,000 rules with 20 masks.
pub fn rules(core: usize, priorities: Priorities, headers: Headers, lookups: u64) -> Run {
    let mut table = Table::new(RULES, 20, priorities);
    match headers {
        Headers::Known => run(core, lookups, |number| header(number % RULES), |keys| table.look_up(keys)),
        Headers::Unknown => run(core, lookups, unknown, |keys| table.look_up(keys)),
    }
}

/// Lookups of exact matches in a table of 10,000 rules with one mask.
pub fn exact(core: usize, lookups: u64) -> Run {
    let mut table = Table::new(RULES, 1, Priorities::Specific);
    run(core, lookups, |number| header(number % RULES), |keys| table.look_up(keys))
}

/// Hits in the cache, and counting.
pub fn cache(core: usize, flows: u64, lookups: u64) -> Run {
    let mut cached = Cached::new(flows);
    run(core, lookups, |number| header_of_its_own(number % flows), |keys| cached.look_up(keys))
}
