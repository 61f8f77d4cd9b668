//! The MAC table: which port an address was seen at last.
//!
//! ```text
//! bucket  | entry | entry | entry | entry |      one cache line; an address has two buckets, by two parts of one hash
//! entry   { key:64  port:16  moves:16  seen:32 } 16 bytes; key = used:1 0:3 vlan:12 mac:48, seen = tick of 1.07 s
//! ```
//! There are two places for each entry that the table is made for, and an entry makes way to its other bucket where that helps,
//! so no address is evicted before the table is full; then the one that was silent for the longest time of the new one's eight
//! places goes. Nothing is allocated after the table was made.

mod resize;

use linerate_mem::prefetch;
use linerate_wire::MacAddress;

pub(crate) use resize::Progress;
use resize::Successor;

/// Entries of a bucket.
const WAYS: usize = 4;
/// Places for each entry that was asked for.
const PLACES_PER_ENTRY: usize = 2;
/// Marks a key in use, so that no address of any VLAN is the key of a free place.
const USED: u64 = 1 << 63;
/// `seen` of an entry that does not age and does not move.
const STATIC: u32 = u32::MAX;
/// A tick is 2^30 ns.
const TICK_SHIFT: u32 = 30;
/// [`MacTable::sweep`] looks at this part of the table at once.
const SWEEP_PARTS: usize = 1024;

/// An address in a VLAN, as a word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Key(u64);

impl Key {
    /// `mac` has nothing above its 48 bits.
    #[inline]
    pub(crate) fn new(vlan: u16, mac: u64) -> Key {
        Key(USED | u64::from(vlan & 0xfff) << 48 | mac)
    }

    /// The key of an address in the same VLAN; for a key of address 0.
    #[inline]
    pub(crate) fn with_mac(self, mac: u64) -> Key {
        Key(self.0 | mac)
    }

    #[inline]
    pub(crate) fn vlan(self) -> u16 {
        (self.0 >> 48) as u16 & 0xfff
    }

    #[inline]
    pub(crate) fn mac(self) -> u64 {
        self.0 & 0xffff_ffff_ffff
    }

    /// True for multicast and broadcast addresses.
    #[inline]
    pub(crate) fn is_group(self) -> bool {
        self.0 & 1 << 40 != 0
    }
}

/// Time of the table: 1.07 s each.
#[inline]
pub(crate) fn tick(now_ns: u64) -> u32 {
    // `STATIC` is 146 years away from the start of a monotonic clock.
    (now_ns >> TICK_SHIFT) as u32
}

#[derive(Clone, Copy, Default)]
struct Entry {
    key: Key,
    port: u16,
    moves: u16,
    seen: u32,
}

#[derive(Clone, Default)]
#[repr(align(64))]
struct Bucket([Entry; WAYS]);

impl Bucket {
    #[inline]
    fn find(&self, key: Key) -> Option<usize> {
        // One branch, not four: in which place an address is cannot be foreseen.
        let mut way = 0;
        for at in 1..WAYS {
            way = if self.0[at].key == key { at } else { way };
        }
        (self.0[way].key == key).then_some(way)
    }
}

/// What learning an address did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Learned {
    /// The table said so already, or cannot or must not say anything else.
    Same,
    /// What lookups answer has changed.
    Changed,
}

/// How full the table is and what happened in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MacCounters {
    /// Addresses in the table.
    pub used: u64,
    /// Places.
    pub capacity: u64,
    /// Addresses that were new.
    pub learned: u64,
    /// Addresses that were seen at another port than before.
    pub moved: u64,
    /// Addresses that were silent for too long.
    pub aged: u64,
    /// Addresses that made way for a new one.
    pub evicted: u64,
    /// Addresses that were not learned, for static entries had all of their places.
    pub not_learned: u64,
}

/// An address of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MacEntry {
    /// The address.
    pub mac: MacAddress,
    /// VLAN id; 0 for what is in no VLAN.
    pub vlan: u16,
    /// Where it was seen last.
    pub port: crate::PortIndex,
    /// True when it neither ages nor moves.
    pub is_static: bool,
    /// For how long it was silent, in seconds, to a second or so; 0 for a static one.
    pub idle_s: u32,
    /// How often it moved from port to port, 65,535 for more.
    pub moves: u16,
}

/// A table that does not change for a while, at one time. `first` is what [`MacTable::prefetch`] said of the key; an address
/// that is in its second bucket is not found here.
pub(crate) struct View<'a> {
    buckets: &'a [Bucket],
    tick: u32,
    age_ticks: u32,
}

impl View<'_> {
    #[inline]
    fn find(&self, key: Key, first: u64) -> Option<&Entry> {
        let bucket = self.buckets.get(first as usize & self.buckets.len().wrapping_sub(1))?;
        bucket.find(key).map(|way| &bucket.0[way])
    }

    /// True when the table says already that the address is at that port, as of now.
    #[inline]
    pub(crate) fn says(&self, key: Key, first: u64, port: u16) -> bool {
        self.find(key, first).is_some_and(|entry| entry.port == port && entry.seen == self.tick)
    }

    /// The port of an address.
    #[inline]
    pub(crate) fn port(&self, key: Key, first: u64) -> Option<u16> {
        let entry = self.find(key, first)?;
        (!is_older(entry.seen, self.tick, self.age_ticks)).then_some(entry.port)
    }
}

/// No place is left for a static entry: static ones have all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

pub(crate) struct MacTable {
    buckets: Box<[Bucket]>,
    seed: u64,
    age_ticks: u32,
    counters: MacCounters,
    /// Where the next sweep begins, and when the last one was.
    sweep_at: usize,
    swept_ns: u64,
    /// While it is being resized.
    next: Option<Box<Successor>>,
}

impl MacTable {
    /// A table for at least `entries` addresses that are forgotten after `age_s` seconds of silence.
    pub(crate) fn new(entries: usize, age_s: u32, seed: u64) -> MacTable {
        let buckets = (entries * PLACES_PER_ENTRY).div_ceil(WAYS).next_power_of_two().max(2);
        let capacity = (buckets * WAYS) as u64;
        MacTable {
            buckets: vec![Bucket::default(); buckets].into(),
            seed,
            age_ticks: age_ticks(age_s),
            counters: MacCounters { capacity, ..MacCounters::default() },
            sweep_at: 0,
            swept_ns: 0,
            next: None,
        }
    }

    pub(crate) fn counters(&self) -> MacCounters {
        self.counters
    }

    #[inline]
    fn hash(&self, key: Key) -> u64 {
        let product = u128::from(key.0 ^ self.seed) * u128::from(MULTIPLIER);
        (product >> 64) as u64 ^ product as u64
    }

    /// A number of a key's first bucket, where it most likely is; asks for its line.
    #[inline]
    pub(crate) fn prefetch(&self, key: Key) -> u64 {
        let first = self.hash(key);
        prefetch(&self.buckets, first as usize & (self.buckets.len() - 1));
        first
    }

    /// Numbers of the two buckets of a key.
    #[inline]
    fn places(&self, key: Key) -> (usize, usize) {
        let hash = self.hash(key);
        let mask = self.buckets.len() - 1;
        let first = hash as usize & mask;
        let second = (hash >> 32) as usize & mask;
        (first, if second == first { first ^ 1 } else { second })
    }

    #[inline]
    fn bucket(&self, number: usize) -> &Bucket {
        // The mask keeps the number inside the slice, which the compiler sees: no panic path.
        &self.buckets[number & (self.buckets.len() - 1)]
    }

    #[inline]
    fn bucket_mut(&mut self, number: usize) -> &mut Bucket {
        let mask = self.buckets.len() - 1;
        &mut self.buckets[number & mask]
    }

    /// What lookups need, for a loop in which nothing changes.
    #[inline]
    pub(crate) fn view(&self, tick: u32) -> View<'_> {
        View { buckets: &self.buckets, tick, age_ticks: self.age_ticks }
    }

    /// The port of an address, wherever it is in the table.
    pub(crate) fn lookup(&self, key: Key, tick: u32) -> Option<u16> {
        let (first, second) = self.places(key);
        let find = |number: usize| {
            let bucket = self.bucket(number);
            bucket.find(key).map(|way| &bucket.0[way])
        };
        let entry = find(first).or_else(|| find(second))?;
        // Static entries are of the end of time.
        (!is_older(entry.seen, tick, self.age_ticks)).then_some(entry.port)
    }

    /// Notes that an address was seen at a port.
    pub(crate) fn learn(&mut self, key: Key, port: u16, tick: u32) -> Learned {
        let (first, second) = self.places(key);
        for number in [first, second] {
            if let Some(way) = self.bucket(number).find(key) {
                return self.renew(number, way, port, tick);
            }
        }
        self.insert(first, second, Entry { key, port, moves: 0, seen: tick })
    }

    #[inline]
    fn renew(&mut self, number: usize, way: usize, port: u16, tick: u32) -> Learned {
        let age_ticks = self.age_ticks;
        let entry = &mut self.bucket_mut(number).0[way & (WAYS - 1)];
        if entry.seen == STATIC {
            return Learned::Same;
        }
        let revived = is_older(entry.seen, tick, age_ticks);
        let moved = entry.port != port;
        entry.seen = tick;
        entry.port = port;
        entry.moves = entry.moves.saturating_add(u16::from(moved));
        let renewed = *entry;
        self.counters.moved += u64::from(moved);
        if self.next.is_some() {
            self.tell_next(renewed);
        }
        if moved || revived { Learned::Changed } else { Learned::Same }
    }

    #[cold]
    fn insert(&mut self, first: usize, second: usize, new: Entry) -> Learned {
        let place = self.free_place(first, second).or_else(|| self.make_place(first, second));
        let place = match place {
            Some(place) => {
                self.counters.used += 1;
                place
            }
            None => match self.oldest(first, second, new.seen) {
                Some((idle, place)) => {
                    let count =
                        if idle > self.age_ticks { &mut self.counters.aged } else { &mut self.counters.evicted };
                    *count += 1;
                    let victim = self.bucket(place.0).0[place.1 & (WAYS - 1)].key;
                    self.tell_next_gone(victim);
                    place
                }
                None => {
                    self.counters.not_learned += 1;
                    return Learned::Same;
                }
            },
        };
        self.bucket_mut(place.0).0[place.1 & (WAYS - 1)] = new;
        self.tell_next(new);
        self.counters.learned += 1;
        Learned::Changed
    }

    fn free_place(&self, first: usize, second: usize) -> Option<(usize, usize)> {
        [first, second].into_iter().find_map(|number| Some((number, self.bucket(number).find(Key::default())?)))
    }

    /// Moves an entry of two full buckets to its other bucket, if that has a free place for one of them.
    fn make_place(&mut self, first: usize, second: usize) -> Option<(usize, usize)> {
        for number in [first, second] {
            for way in 0..WAYS {
                let entry = self.bucket(number).0[way];
                let (one, two) = self.places(entry.key);
                let other = if one == number { two } else { one };
                if let Some(free) = self.bucket(other).find(Key::default()) {
                    self.bucket_mut(other).0[free] = entry;
                    self.tell_next(entry);
                    return Some((number, way));
                }
            }
        }
        None
    }

    /// Of the entries of two buckets that are not static, the one that was silent for the longest time, with that time.
    fn oldest(&self, first: usize, second: usize, tick: u32) -> Option<(u32, (usize, usize))> {
        let ways = [first, second].into_iter().flat_map(|number| (0..WAYS).map(move |way| (number, way)));
        let learned = ways.filter(|(number, way)| self.bucket(*number).0[*way].seen != STATIC);
        learned
            .map(|(number, way)| (tick.saturating_sub(self.bucket(number).0[way].seen), (number, way)))
            .max_by_key(|(idle, _)| *idle)
    }

    /// Makes an entry that stays; one that was learned makes way.
    pub(crate) fn add_static(&mut self, key: Key, port: u16, tick: u32) -> Result<(), Full> {
        let (first, second) = self.places(key);
        let entry = Entry { key, port, moves: 0, seen: STATIC };
        for number in [first, second] {
            if let Some(way) = self.bucket(number).find(key) {
                self.bucket_mut(number).0[way] = entry;
                self.tell_next(entry);
                return Ok(());
            }
        }
        let refused = self.counters.not_learned;
        // Inserted as if learned, then marked.
        self.insert(first, second, Entry { seen: tick, ..entry });
        if self.counters.not_learned != refused {
            self.counters.not_learned = refused;
            return Err(Full);
        }
        self.counters.learned -= 1;
        for number in [first, second] {
            if let Some(way) = self.bucket(number).find(key) {
                self.bucket_mut(number).0[way].seen = STATIC;
            }
        }
        self.tell_next(entry);
        Ok(())
    }

    /// Removes an address; false when it was not there.
    pub(crate) fn forget(&mut self, key: Key) -> bool {
        let (first, second) = self.places(key);
        for number in [first, second] {
            if let Some(way) = self.bucket(number).find(key) {
                self.bucket_mut(number).0[way] = Entry::default();
                self.counters.used -= 1;
                self.tell_next_gone(key);
                return true;
            }
        }
        false
    }

    /// Removes the learned addresses of a port (static ones, too, with `all`), or of every port.
    pub(crate) fn flush(&mut self, port: Option<u16>, all: bool) {
        for entry in self.buckets.iter_mut().flat_map(|bucket| &mut bucket.0) {
            let used = entry.key != Key::default();
            if used && port.is_none_or(|port| entry.port == port) && (all || entry.seen != STATIC) {
                *entry = Entry::default();
                self.counters.used -= 1;
            }
        }
        self.tell_next_flush(port, all);
    }

    /// An address is forgotten after so many seconds of silence, from now on.
    pub(crate) fn set_ageing(&mut self, age_s: u32) {
        self.age_ticks = age_ticks(age_s);
    }

    /// Removes what was silent for too long from a part of the table, once a millisecond at most, so that it may be called
    /// as often as one likes.
    pub(crate) fn sweep(&mut self, now_ns: u64) {
        // While it is resized, what is too old is left behind.
        if now_ns.wrapping_sub(self.swept_ns) < 1_000_000 || self.next.is_some() {
            return;
        }
        self.swept_ns = now_ns;
        let (tick, age_ticks) = (tick(now_ns), self.age_ticks);
        let count = (self.buckets.len() / SWEEP_PARTS).max(64).min(self.buckets.len());
        for number in self.sweep_at..self.sweep_at + count {
            let mut aged = 0;
            for entry in &mut self.bucket_mut(number).0 {
                let used = entry.key != Key::default() && entry.seen != STATIC;
                if used && is_older(entry.seen, tick, age_ticks) {
                    *entry = Entry::default();
                    aged += 1;
                }
            }
            self.counters.aged += aged;
            self.counters.used -= aged;
        }
        self.sweep_at = (self.sweep_at + count) & (self.buckets.len() - 1);
    }

    /// The addresses of the table, in no order, as they are at `tick`.
    pub(crate) fn entries(&self, tick: u32) -> impl Iterator<Item = MacEntry> + '_ {
        let entries = self.buckets.iter().flat_map(|bucket| &bucket.0);
        entries.filter(|entry| entry.key != Key::default()).map(move |entry| {
            let is_static = entry.seen == STATIC;
            let idle = if is_static { 0 } else { tick.saturating_sub(entry.seen) };
            MacEntry {
                mac: MacAddress::from_u64(entry.key.mac()),
                vlan: entry.key.vlan(),
                port: crate::PortIndex(entry.port),
                is_static,
                idle_s: ((u64::from(idle) << TICK_SHIFT) / 1_000_000_000) as u32,
                moves: entry.moves,
            }
        })
    }
}

/// The fractional bits of the golden ratio, made odd.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Ticks in so many seconds, rounded up: an address is never forgotten too early.
fn age_ticks(age_s: u32) -> u32 {
    (u64::from(age_s) * 1_000_000_000).div_ceil(1 << TICK_SHIFT) as u32
}

/// Calls of one thread come in the order of time; a `seen` in the future (a clock that was set back) counts as young.
#[inline]
fn is_older(seen: u32, tick: u32, ticks: u32) -> bool {
    tick > seen && tick - seen > ticks
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn key(number: u64) -> Key {
        Key::new((number % 7) as u16, 0x0200_0000_0000 | number)
    }

    #[test]
    fn a_line_is_a_bucket_and_an_entry_is_16_bytes() {
        assert_eq!((size_of::<Bucket>(), align_of::<Bucket>(), size_of::<Entry>()), (64, 64, 16));
        let table = MacTable::new(8192, 300, 0);
        assert!(table.buckets.len() * size_of::<Bucket>() <= 64 * 8192);
    }

    #[test]
    fn as_many_addresses_as_it_was_made_for_are_all_found() {
        let most = if cfg!(debug_assertions) { 1u64 << 16 } else { 1 << 20 };
        for (entries, seed) in [(8192, 0), (8192, 0x1234_5678_9abc_def1), (most, 7)] {
            let mut table = MacTable::new(entries as usize, 300, seed);
            for number in 0..entries {
                table.learn(key(number), number as u16, 0);
            }
            let counters = table.counters();
            assert_eq!(counters.evicted, 0, "{entries} entries");
            assert_eq!(counters.used, entries);
            assert!((0..entries).all(|number| table.lookup(key(number), 0) == Some(number as u16)));
            assert_eq!(table.lookup(key(entries + 1), 0), None);
            let view = table.view(0);
            let near = (0..entries).filter(|number| {
                let first = table.prefetch(key(*number));
                let port = view.port(key(*number), first);
                assert!(port.is_none_or(|port| port == *number as u16));
                assert_eq!(view.says(key(*number), first, *number as u16), port.is_some());
                port.is_some()
            });
            assert!(near.count() as u64 > entries * 9 / 10, "nearly all are in their first bucket");
        }
    }

    #[test]
    fn a_flood_of_addresses_evicts_the_oldest_and_never_a_static_one() {
        let mut table = MacTable::new(64, 300, 3);
        table.add_static(key(0), 9, 0).unwrap();
        for number in 1..10_000u64 {
            table.learn(key(number), 1, number as u32 / 100);
        }
        let counters = table.counters();
        assert_eq!(table.lookup(key(0), 99), Some(9));
        assert_eq!(counters.used + counters.evicted, 10_000);
        assert_eq!(counters.used, table.entries(99).count() as u64);
        assert!(counters.used <= counters.capacity);
        assert_eq!(table.lookup(key(9_999), 99), Some(1));
    }

    #[test]
    fn silent_addresses_are_forgotten_and_others_are_not() {
        let mut table = MacTable::new(64, 300, 0);
        table.learn(key(1), 1, tick(0));
        table.learn(key(2), 2, tick(0));
        table.add_static(key(3), 3, 0).unwrap();
        table.learn(key(2), 2, tick(200 * S));
        assert_eq!(table.lookup(key(1), tick(300 * S)), Some(1));
        // Looked up too late, it is gone, swept or not.
        assert_eq!(table.lookup(key(1), tick(303 * S)), None);
        for step in 0..SWEEP_PARTS as u64 {
            table.sweep(303 * S + step * 1_000_000);
        }
        assert_eq!((table.counters().aged, table.counters().used), (1, 2));
        assert_eq!(table.lookup(key(2), tick(303 * S)), Some(2));
        assert_eq!(table.lookup(key(3), tick(9_999 * S)), Some(3));
        assert_eq!(table.learn(key(1), 5, tick(304 * S)), Learned::Changed);
    }

    #[test]
    fn moves_are_counted_and_static_entries_do_not_move() {
        let mut table = MacTable::new(64, 300, 0);
        assert_eq!(table.learn(key(1), 1, 0), Learned::Changed);
        assert_eq!(table.learn(key(1), 1, 0), Learned::Same);
        assert_eq!(table.learn(key(1), 1, 5), Learned::Same);
        assert_eq!(table.learn(key(1), 2, 5), Learned::Changed);
        table.add_static(key(2), 3, 0).unwrap();
        assert_eq!(table.learn(key(2), 1, 0), Learned::Same);
        assert_eq!((table.lookup(key(1), 5), table.lookup(key(2), 5)), (Some(2), Some(3)));
        assert_eq!(table.counters().moved, 1);
        assert_eq!(table.entries(5).find(|entry| !entry.is_static).map(|entry| entry.moves), Some(1));
        table.flush(Some(2), false);
        table.flush(Some(3), false);
        assert_eq!((table.lookup(key(1), 5), table.lookup(key(2), 5)), (None, Some(3)));
        assert!(table.forget(key(2)) && !table.forget(key(2)));
        assert_eq!(table.counters().used, 0);
    }

    #[test]
    fn places_that_are_all_static_refuse() {
        let mut table = MacTable::new(1, 300, 0);
        let added = (0..100).filter(|number| table.add_static(key(*number), 1, 0).is_ok()).count();
        assert_eq!(added as u64, table.counters().capacity);
        table.learn(key(1000), 1, 0);
        assert_eq!(table.counters().not_learned, 1);
    }
}
