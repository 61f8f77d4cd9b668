//! The MAC table: which port an address was seen at last.
//!
//! ```text
//! bucket  | key key key key | state state state state |   one cache line; an address has two buckets, by two parts of one hash
//! key     { used:1 0:3 vlan:12 mac:48 }                   64 bits; the four of a bucket are compared at once
//! state   { seen:32 port:16 moves:16 }                    64 bits; seen = tick of 1.07 s
//! ```
//! There are two places for each entry that the table is made for, and an entry makes way to its other bucket where that helps,
//! so no address is evicted before the table is full; then the one that was silent for the longest time of the new one's eight
//! places goes. A port that has its equal part of the table evicts only addresses of its own, and others evict those of such ports
//! first. Nothing is allocated after the table was made.

mod bucket;
mod places;
mod resize;
mod share;
mod shared;

use linerate_wire::MacAddress;

use bucket::{Bucket, Entry, STATIC, TICK_SHIFT, WAYS};
pub(crate) use bucket::{Key, tick};
pub(crate) use places::Finder;
use places::Places;
use places::View;
pub(crate) use resize::Progress;
use resize::Successor;
use share::Shares;
pub(crate) use shared::Table;

/// Places for each entry that was asked for.
const PLACES_PER_ENTRY: usize = 2;
/// [`MacTable::sweep`] looks at this part of the table at once.
const SWEEP_PARTS: usize = 1024;

/// Counters of a MAC table.
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
    /// Addresses that were not learned, for static entries had all of their places, or their port had as many as it may have.
    pub not_learned: u64,
}

/// An address of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MacEntry {
    /// The address.
    pub mac: MacAddress,
    /// VLAN ID; 0 for packets without a VLAN.
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

/// No place is left for a static entry: static ones have all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

pub(crate) struct MacTable {
    places: Places,
    counters: MacCounters,
    shares: Shares,
    ports: usize,
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
            places: Places::new(buckets, seed, age_ticks(age_s)),
            counters: MacCounters { capacity, ..MacCounters::default() },
            shares: Shares::new(capacity),
            ports: 1,
            sweep_at: 0,
            swept_ns: 0,
            next: None,
        }
    }

    pub(crate) fn counters(&self) -> MacCounters {
        self.counters
    }

    /// Addresses of a port.
    #[cfg(test)]
    pub(crate) fn addresses_of(&self, port: u16) -> u32 {
        self.shares.used(port)
    }

    /// Sets the number of ports, which have equal parts of the table.
    pub(crate) fn set_ports(&mut self, ports: usize) {
        self.ports = ports;
        self.shares.divide(self.counters.capacity, ports);
        if let Some(next) = &mut self.next {
            next.table.set_ports(ports);
        }
    }

    /// Sets how many addresses are learned at a port; above that, a new one takes the place of an older one of the port in its two buckets, and
    /// is not learned if there is none.
    pub(crate) fn set_learn_limit(&mut self, port: u16, limit: Option<u32>) {
        self.shares.set_limit(port, limit.unwrap_or(u32::MAX));
        if let Some(next) = &mut self.next {
            next.table.set_learn_limit(port, limit);
        }
    }

    /// Numbers of the two buckets of a key.
    #[inline]
    fn places(&self, key: Key) -> (usize, usize) {
        self.places.of(key)
    }

    #[inline]
    fn bucket(&self, number: usize) -> Bucket<'_> {
        self.places.bucket(number)
    }

    /// The port of an address, wherever it is in the table.
    #[cfg(test)]
    pub(crate) fn lookup(&self, key: Key, tick: u32) -> Option<u16> {
        self.places.lookup::<false>(key, tick)
    }

    /// Notes that an address was seen at a port.
    pub(crate) fn learn(&mut self, key: Key, port: u16, tick: u32) {
        let (first, second) = self.places(key);
        for number in [first, second] {
            if let Some(way) = self.bucket(number).find(key) {
                return self.renew(number, way, port, tick);
            }
        }
        self.insert(first, second, Entry { key, port, moves: 0, seen: tick });
    }

    #[inline]
    fn renew(&mut self, number: usize, way: usize, port: u16, tick: u32) {
        let entry = self.bucket(number).entry(way);
        if entry.seen == STATIC {
            return;
        }
        let moved = entry.port != port;
        let moves = entry.moves.saturating_add(u16::from(moved));
        let before = entry;
        let entry = Entry { port, moves, seen: tick, ..entry };
        self.bucket(number).set(way, entry);
        if moved {
            self.shares.replace(before, entry);
        }
        self.counters.moved += u64::from(moved);
        if self.next.is_some() {
            self.tell_next(entry);
        }
    }

    #[cold]
    fn insert(&mut self, first: usize, second: usize, new: Entry) {
        let is_at_limit = self.shares.is_at_limit(new.port);
        let place = if is_at_limit { None } else { self.unused_place(first, second) };
        let (number, way) = match place {
            Some(place) => {
                self.counters.used += 1;
                place
            }
            None => match self.victim(first, second, new, is_at_limit) {
                Some((idle, place)) => {
                    let count =
                        if idle > self.places.age_ticks { &mut self.counters.aged } else { &mut self.counters.evicted };
                    *count += 1;
                    let victim = self.bucket(place.0).entry(place.1).key;
                    self.tell_next_gone(victim);
                    place
                }
                None => {
                    self.counters.not_learned += 1;
                    return;
                }
            },
        };
        self.put(number, way, new);
        self.tell_next(new);
        self.counters.learned += 1;
    }

    /// Puts an entry, or none, into a place, whatever was there.
    fn put(&mut self, number: usize, way: usize, entry: Entry) {
        let before = self.bucket(number).entry(way);
        self.bucket(number).set(way, entry);
        self.shares.replace(before, entry);
    }

    /// The entry of two buckets that makes way for a new one, with the time for which it was silent: one that is too old, else one of a
    /// port that has more than its part, else, unless the new one's port has more than that, any; of these, the oldest.
    fn victim(&self, first: usize, second: usize, new: Entry, own: bool) -> Option<(u32, (usize, usize))> {
        if own {
            return self.oldest(first, second, new.seen, |entry| entry.port == new.port);
        }
        let aged = self.oldest(first, second, new.seen, |entry| is_older(entry.seen, new.seen, self.places.age_ticks));
        aged.or_else(|| {
            if self.shares.has_its_part(new.port) {
                return self.oldest(first, second, new.seen, |entry| entry.port == new.port);
            }
            let of_large = self.oldest(first, second, new.seen, |entry| self.shares.has_its_part(entry.port));
            of_large.or_else(|| self.oldest(first, second, new.seen, |_| true))
        })
    }

    /// A place that nothing is in, or that was made free.
    fn unused_place(&mut self, first: usize, second: usize) -> Option<(usize, usize)> {
        self.free_place(first, second).or_else(|| self.make_place(first, second))
    }

    fn free_place(&self, first: usize, second: usize) -> Option<(usize, usize)> {
        [first, second].into_iter().find_map(|number| Some((number, self.bucket(number).find(Key::default())?)))
    }

    /// Moves an entry of two full buckets to its other bucket, if that has a free place for one of them.
    fn make_place(&mut self, first: usize, second: usize) -> Option<(usize, usize)> {
        for number in [first, second] {
            for way in 0..WAYS {
                let entry = self.bucket(number).entry(way);
                let (one, two) = self.places(entry.key);
                let other = if one == number { two } else { one };
                if let Some(free) = self.bucket(other).find(Key::default()) {
                    self.bucket(other).set(free, entry);
                    self.bucket(number).set(way, Entry::default());
                    self.tell_next(entry);
                    return Some((number, way));
                }
            }
        }
        None
    }

    /// Of the entries of two buckets that are not static and `wanted`, the one that was silent for the longest time, with that time.
    fn oldest(
        &self,
        first: usize,
        second: usize,
        tick: u32,
        wanted: impl Fn(&Entry) -> bool,
    ) -> Option<(u32, (usize, usize))> {
        let ways = [first, second].into_iter().flat_map(|number| (0..WAYS).map(move |way| (number, way)));
        let entries = ways.map(|place| (place, self.bucket(place.0).entry(place.1)));
        let learned = entries
            .filter(|(_, entry)| entry.key != Key::default() && entry.seen != STATIC && wanted(entry))
            .map(|(place, _)| place);
        learned
            .map(|(number, way)| (tick.saturating_sub(self.bucket(number).entry(way).seen), (number, way)))
            .max_by_key(|(idle, _)| *idle)
    }

    /// Makes an entry that stays; one that was learned makes way.
    pub(crate) fn add_static(&mut self, key: Key, port: u16, tick: u32) -> Result<(), Full> {
        let (first, second) = self.places(key);
        let entry = Entry { key, port, moves: 0, seen: STATIC };
        for number in [first, second] {
            if let Some(way) = self.bucket(number).find(key) {
                self.put(number, way, entry);
                self.tell_next(entry);
                return Ok(());
            }
        }
        // Neither a limit nor its port's part holds a static entry back.
        let unused = self.unused_place(first, second);
        self.counters.used += u64::from(unused.is_some());
        let place = unused.or_else(|| {
            let (idle, place) = self.oldest(first, second, tick, |_| true)?;
            let count = if idle > self.places.age_ticks { &mut self.counters.aged } else { &mut self.counters.evicted };
            *count += 1;
            let victim = self.bucket(place.0).entry(place.1).key;
            self.tell_next_gone(victim);
            Some(place)
        });
        let (number, way) = place.ok_or(Full)?;
        self.put(number, way, entry);
        self.tell_next(entry);
        Ok(())
    }

    /// Removes an address; false when it was not there.
    pub(crate) fn forget(&mut self, key: Key) -> bool {
        let (first, second) = self.places(key);
        for number in [first, second] {
            if let Some(way) = self.bucket(number).find(key) {
                self.put(number, way, Entry::default());
                self.counters.used -= 1;
                self.tell_next_gone(key);
                return true;
            }
        }
        false
    }

    /// Removes the learned addresses of a port (static ones, too, with `all`), or of every port.
    pub(crate) fn flush(&mut self, port: Option<u16>, all: bool) {
        let unwanted = |entry: &Entry| port.is_none_or(|port| entry.port == port) && (all || entry.seen != STATIC);
        let MacTable { places, shares, .. } = self;
        let mut removed = |entry: &Entry| {
            unwanted(entry) && {
                shares.remove(*entry);
                true
            }
        };
        self.counters.used -= places.buckets.iter().map(|line| Bucket(line).remove(&mut removed)).sum::<u64>();
        self.tell_next_flush(port, all);
    }

    /// Sets the seconds of silence after which an address is forgotten.
    pub(crate) fn set_ageing(&mut self, age_s: u32) {
        self.places.age_ticks = age_ticks(age_s);
    }

    /// Removes addresses that were silent for too long from so many parts of the table, once a millisecond at most, so that it may be called
    /// as often as one likes.
    pub(crate) fn sweep(&mut self, now_ns: u64, parts: usize) {
        // A resize leaves addresses behind that are too old.
        if now_ns.wrapping_sub(self.swept_ns) < 1_000_000 || self.next.is_some() {
            return;
        }
        self.swept_ns = now_ns;
        let (tick, age_ticks) = (tick(now_ns), self.places.age_ticks);
        let count = (parts * (self.places.buckets.len() / SWEEP_PARTS).max(64)).min(self.places.buckets.len());
        for number in self.sweep_at..self.sweep_at + count {
            let MacTable { places, shares, .. } = self;
            let aged = places.bucket(number).remove(|entry| {
                let too_old = entry.seen != STATIC && is_older(entry.seen, tick, age_ticks);
                if too_old {
                    shares.remove(*entry);
                }
                too_old
            });
            self.counters.aged += aged;
            self.counters.used -= aged;
        }
        self.sweep_at = (self.sweep_at + count) & (self.places.buckets.len() - 1);
    }

    /// The addresses of the table, in no order, as they are at `tick`.
    #[cfg(test)]
    pub(crate) fn entries(&self, tick: u32) -> impl Iterator<Item = MacEntry> + '_ {
        self.places.entries(tick)
    }
}

/// Ticks in `age_s` seconds, rounded up, so that an address is never forgotten too early.
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
    use linerate_mem::{Baseline, Compare, FourPairs, Pass, compare_widely};

    use super::*;

    const S: u64 = 1_000_000_000;

    fn key(number: u64) -> Key {
        Key::new((number % 7) as u16, 0x0200_0000_0000 | number)
    }

    #[test]
    fn a_line_is_a_bucket_and_an_entry_is_16_bytes() {
        assert_eq!((size_of::<FourPairs>(), align_of::<FourPairs>(), size_of::<Entry>()), (64, 64, 16));
        let table = MacTable::new(8192, 300, 0);
        assert!(table.places.buckets.len() * size_of::<FourPairs>() <= 64 * 8192);
    }

    /// True if a loop over packets finds each address at its port and at no other, as of now, and no address that is not there.
    struct All<'a> {
        table: &'a MacTable,
        entries: u64,
    }

    impl Pass for All<'_> {
        type Outcome = bool;

        #[inline(always)]
        fn run<C: Compare>(self, compare: C) -> bool {
            (0..self.entries).all(|number| {
                is_at::<C, false>(compare, self.table, number) && is_at::<C, true>(compare, self.table, number)
            }) && (self.entries..2 * self.entries).all(|number| {
                let (view, first) = (
                    self.table.places.view::<C, false>(compare, 0, 0),
                    self.table.places.finder().prefetch(key(number)),
                );
                view.port(key(number), first).is_none() && !view.says(key(number), first)
            })
        }
    }

    #[inline(always)]
    fn is_at<C: Compare, const SHARED: bool>(compare: C, table: &MacTable, number: u64) -> bool {
        let (key, port, first) = (key(number), number as u16, table.places.finder().prefetch(key(number)));
        let view = |port, tick| table.places.view::<C, SHARED>(compare, port, tick);
        let is_there = view(port, 0).says(key, first) && view(port, 0).port(key, first) == Some(port);
        is_there && !view(port ^ 1, 0).says(key, first) && !view(port, 1).says(key, first)
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
            let all = || All { table: &table, entries };
            assert!(all().run(Baseline) && compare_widely(all()));
            let near =
                (0..entries).filter(|number| table.bucket(table.places(key(*number)).0).find(key(*number)).is_some());
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
            table.sweep(303 * S + step * 1_000_000, 1);
        }
        assert_eq!((table.counters().aged, table.counters().used), (1, 2));
        assert_eq!(table.lookup(key(2), tick(303 * S)), Some(2));
        assert_eq!(table.lookup(key(3), tick(9_999 * S)), Some(3));
        table.learn(key(1), 5, tick(304 * S));
        assert_eq!(table.lookup(key(1), tick(304 * S)), Some(5));
    }

    #[test]
    fn moves_are_counted_and_static_entries_do_not_move() {
        let mut table = MacTable::new(64, 300, 0);
        [(1, 0), (1, 0), (1, 5), (2, 5)].into_iter().for_each(|(port, tick)| table.learn(key(1), port, tick));
        table.add_static(key(2), 3, 0).unwrap();
        table.learn(key(2), 1, 0);
        assert_eq!((table.lookup(key(1), 5), table.lookup(key(2), 5)), (Some(2), Some(3)));
        assert_eq!(table.counters().moved, 1);
        assert_eq!(table.entries(5).find(|entry| !entry.is_static).map(|entry| entry.moves), Some(1));
        table.flush(Some(2), false);
        table.flush(Some(3), false);
        assert_eq!((table.lookup(key(1), 5), table.lookup(key(2), 5)), (None, Some(3)));
        assert!(table.forget(key(2)) && !table.forget(key(2)));
        assert_eq!(table.counters().used, 0);
    }

    /// The numbers of addresses by port are those that are in the table.
    fn check_shares(table: &MacTable, ports: u16) {
        for port in 0..ports {
            let there = table.entries(0).filter(|entry| entry.port == crate::PortIndex(port)).count();
            assert_eq!(table.addresses_of(port) as usize, there, "port {port}");
        }
    }

    #[test]
    fn a_port_with_a_flood_of_addresses_leaves_those_of_others_alone() {
        let mut table = MacTable::new(256, 300, 7);
        table.set_ports(4);
        for number in 0..100 {
            table.learn(key(number), (number % 3) as u16, 10);
        }
        for number in 1000..200_000 {
            table.learn(key(number), 3, 20);
        }
        check_shares(&table, 4);
        assert_eq!(table.counters().used, table.counters().capacity, "it may have what nobody else wants");
        assert!((0..100).all(|number| table.lookup(key(number), 20).is_some()), "and evicts its own");
        // The others get their part back from it, even the latest of its addresses.
        for number in 500_000..500_090 {
            table.learn(key(number), (number % 3) as u16, 20);
        }
        check_shares(&table, 4);
        assert!((0..100).chain(500_000..500_090).all(|number| table.lookup(key(number), 20).is_some()));
        assert_eq!(table.counters().not_learned, 0);
    }

    #[test]
    fn no_more_addresses_than_its_limit_are_learned_at_a_port() {
        let mut table = MacTable::new(256, 300, 7);
        table.set_learn_limit(1, Some(10));
        for number in 0..1000 {
            table.learn(key(number), 1, number as u32 / 100);
            table.learn(key(10_000 + number % 50), 2, 5);
        }
        assert_eq!((table.addresses_of(1), table.addresses_of(2)), (10, 50));
        check_shares(&table, 3);
        let counters = table.counters();
        assert_eq!(counters.learned + counters.not_learned, 1000 + 50);
        // An address that comes from elsewhere may come back, static entries are made all the same, a limit can be changed.
        table.learn(key(10_000), 1, 9);
        assert_eq!(table.lookup(key(10_000), 9), Some(1));
        table.add_static(key(20_000), 1, 9).unwrap();
        assert_eq!(table.lookup(key(20_000), 9), Some(1));
        table.set_learn_limit(1, Some(30));
        (30_000..30_100).for_each(|number| table.learn(key(number), 1, 9));
        assert_eq!(table.addresses_of(1), 30);
        table.begin_resize(MacTable::new(1024, 300, 0));
        assert!(matches!(table.resize_step(usize::MAX, 9), Progress::Done(_)));
        (40_000..40_100).for_each(|number| table.learn(key(number), 1, 9));
        assert_eq!(table.addresses_of(1), 30);
        check_shares(&table, 3);
        table.flush(Some(1), true);
        table.forget(key(10_001));
        check_shares(&table, 3);
        assert_eq!(table.addresses_of(1), 0);
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
