//! The MAC table as a worker holds it: for itself, or together with other workers of the same switch.
//!
//! ```text
//! worker 0   Table { places } --reads, no lock--> buckets <--writes-- MacTable <--lock-- worker 0, worker 1: a new address, a move,
//! worker 1   Table { places } --reads, no lock----^                                      ageing, the end of a port, a resize
//! ```
//! An address that was seen again where it was, the rule under load, is noted without the lock, once a tick. A reader looks at a pass of packets as if
//! the table were its own, and sees afterwards by the count of writes whether it was; if not, it looks again, address by address with care.

use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};

use linerate_mem::Compare;

use super::places::{Finder, Places};
use super::{Full, Key, MacCounters, MacEntry, MacTable, Progress, View};

/// What several workers share of one MAC table.
struct Common {
    table: Mutex<MacTable>,
    /// Changes when the places do: after a resize, and with the time of ageing.
    version: AtomicU64,
    /// Odd while somebody writes; twice the number of writes else.
    writes: AtomicU64,
}

impl Common {
    fn with<T>(&self, work: impl FnOnce(&mut MacTable) -> T) -> T {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.writes.load(Ordering::Relaxed);
        // Whatever is written to the places is written with release, so who reads it finds the odd count, too.
        self.writes.store(before.wrapping_add(1) | 1, Ordering::Relaxed);
        let done = work(&mut table);
        self.writes.store((before | 1).wrapping_add(1), Ordering::Release);
        done
    }
}

/// A time at which a table was read; see [`Table::is_as_at`].
#[derive(Clone, Copy)]
pub(crate) struct Stamp(u64);

/// Who may write.
enum Writer {
    /// This worker alone.
    Own(Box<MacTable>),
    /// Whoever has the lock.
    Common(Arc<Common>),
}

/// A MAC table in the hands of one worker.
pub(crate) struct Table {
    places: Places,
    writer: Writer,
    /// Of the places; see [`Common::version`].
    version: u64,
}

impl Table {
    pub(crate) fn new(table: MacTable) -> Table {
        Table { places: table.places.clone(), writer: Writer::Own(Box::new(table)), version: 0 }
    }

    /// The same table for another worker.
    pub(crate) fn share(&mut self) -> Table {
        let common = match &mut self.writer {
            Writer::Common(common) => Arc::clone(common),
            Writer::Own(table) => {
                let table = std::mem::replace(&mut **table, MacTable::new(1, 0, 0));
                Arc::new(Common {
                    table: Mutex::new(table),
                    version: AtomicU64::new(self.version),
                    writes: AtomicU64::new(0),
                })
            }
        };
        self.writer = Writer::Common(Arc::clone(&common));
        Table { places: self.places.clone(), writer: Writer::Common(common), version: self.version }
    }

    /// True if other workers may write.
    #[inline]
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self.writer, Writer::Common(_))
    }

    /// Takes over the places that another worker put in force; to be called before each batch.
    #[inline]
    pub(crate) fn refresh(&mut self) {
        if let Writer::Common(common) = &self.writer
            && common.version.load(Ordering::Acquire) != self.version
        {
            self.reread(false);
        }
    }

    #[cold]
    fn reread(&mut self, changed: bool) {
        let Table { places, writer, version } = self;
        match writer {
            Writer::Own(table) => *places = table.places.clone(),
            Writer::Common(common) => {
                let table = common.table.lock().unwrap_or_else(PoisonError::into_inner);
                // Under the lock, so that a version always belongs to these places.
                *version = common.version.load(Ordering::Acquire) + u64::from(changed);
                common.version.store(*version, Ordering::Release);
                *places = table.places.clone();
            }
        }
    }

    fn with<T>(&mut self, work: impl FnOnce(&mut MacTable) -> T) -> T {
        match &mut self.writer {
            Writer::Own(table) => work(table),
            Writer::Common(common) => common.with(work),
        }
    }

    /// The time now, before something is read.
    #[inline]
    pub(crate) fn stamp(&self) -> Stamp {
        match &self.writer {
            Writer::Own(_) => Stamp(0),
            Writer::Common(common) => Stamp(common.writes.load(Ordering::Acquire)),
        }
    }

    /// True if nobody wrote since: what was read meanwhile was there all the time.
    #[inline]
    pub(crate) fn is_as_at(&self, stamp: Stamp) -> bool {
        match &self.writer {
            Writer::Own(_) => true,
            Writer::Common(common) => {
                fence(Ordering::Acquire);
                stamp.0.is_multiple_of(2) && common.writes.load(Ordering::Relaxed) == stamp.0
            }
        }
    }

    /// What finds the buckets of many addresses.
    #[inline]
    pub(crate) fn finder(&self) -> Finder<'_> {
        self.places.finder()
    }

    /// The table for a loop over packets that came in at `port`. Without `SHARED`, what was read counts only if [`Table::is_as_at`] says so.
    #[inline(always)]
    pub(crate) fn view<C: Compare, const SHARED: bool>(&self, compare: C, port: u16, tick: u32) -> View<'_, C, SHARED> {
        self.places.view(compare, port, tick)
    }

    /// True when the table says already that the address is at that port, as of now. An address that another worker is just writing may be missed.
    pub(crate) fn says(&self, key: Key, port: u16, tick: u32) -> bool {
        match self.is_shared() {
            false => self.places.says::<false>(key, port, tick),
            true => self.places.says::<true>(key, port, tick),
        }
    }

    /// The port of an address, wherever it is in the table.
    pub(crate) fn lookup(&self, key: Key, tick: u32) -> Option<u16> {
        match self.is_shared() {
            false => self.places.lookup::<false>(key, tick),
            true => self.places.lookup::<true>(key, tick),
        }
    }

    /// Notes that an address was seen at a port.
    pub(crate) fn learn(&mut self, key: Key, port: u16, tick: u32) {
        if self.is_shared() && self.places.renew(key, port, tick) {
            return;
        }
        self.with(|table| table.learn(key, port, tick));
    }

    /// Counters, those of all workers together.
    pub(crate) fn counters(&self) -> MacCounters {
        match &self.writer {
            Writer::Own(table) => table.counters(),
            Writer::Common(common) => common.table.lock().unwrap_or_else(PoisonError::into_inner).counters(),
        }
    }

    /// The addresses of the table, in no order, as they are at `tick`.
    pub(crate) fn entries(&self, tick: u32) -> impl Iterator<Item = MacEntry> + '_ {
        self.places.entries(tick)
    }

    pub(crate) fn set_ports(&mut self, ports: usize) {
        self.with(|table| table.set_ports(ports));
    }

    pub(crate) fn set_learn_limit(&mut self, port: u16, limit: Option<u32>) {
        self.with(|table| table.set_learn_limit(port, limit));
    }

    pub(crate) fn add_static(&mut self, key: Key, port: u16, tick: u32) -> Result<(), Full> {
        self.with(|table| table.add_static(key, port, tick))
    }

    pub(crate) fn forget(&mut self, key: Key) -> bool {
        self.with(|table| table.forget(key))
    }

    pub(crate) fn flush(&mut self, port: Option<u16>, all: bool) {
        self.with(|table| table.flush(port, all));
    }

    pub(crate) fn sweep(&mut self, now_ns: u64, parts: usize) {
        self.with(|table| table.sweep(now_ns, parts));
    }

    pub(crate) fn set_ageing(&mut self, age_s: u32) {
        self.with(|table| table.set_ageing(age_s));
        self.reread(true);
    }

    pub(crate) fn begin_resize(&mut self, table: MacTable) -> Option<MacTable> {
        self.with(|own| own.begin_resize(table))
    }

    pub(crate) fn resize_step(&mut self, buckets: usize, tick: u32) -> Progress {
        let progress = self.with(|table| table.resize_step(buckets, tick));
        if matches!(progress, Progress::Done(_)) {
            self.reread(true);
        }
        progress
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use linerate_mem::Baseline;

    use super::*;

    fn key(number: u64) -> Key {
        Key::new((number % 7) as u16, 0x0200_0000_0000 | number)
    }

    /// Where the address is, always.
    fn home(number: u64) -> u16 {
        (number % 5) as u16
    }

    #[test]
    fn a_reader_never_finds_the_port_of_another_address_while_places_are_given_away() {
        let (rounds, addresses) = if cfg!(debug_assertions) { (60_000, 512) } else { (2_000_000, 512) };
        // Eight places, so that all addresses take each other's.
        let mut first = Table::new(MacTable::new(4, 300, 1));
        let mut second = first.share();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let (mut found, mut number) = (0u64, 0u64);
                while !done.load(Ordering::Relaxed) {
                    number = (number + 1) % addresses;
                    let wanted = key(number);
                    let bucket = second.finder().prefetch(wanted);
                    let fast = second.view::<_, true>(Baseline, 0, 1).port(wanted, bucket);
                    for port in fast.into_iter().chain(second.lookup(wanted, 1)) {
                        assert_eq!(port, home(number), "of address {number}");
                        found += 1;
                    }
                }
                found
            });
            for round in 0..rounds {
                let number = (round * 7919) % addresses;
                first.learn(key(number), home(number), 1);
            }
            // The reader has a turn on one core, too.
            std::thread::yield_now();
            done.store(true, Ordering::Relaxed);
            assert!(reader.join().unwrap() > 0);
        });
        second.learn(key(1), 9, 1);
        assert_eq!(first.lookup(key(1), 1), Some(9));
    }

    #[test]
    fn an_address_seen_again_is_noted_without_the_lock_and_a_move_with_it() {
        let mut first = Table::new(MacTable::new(64, 300, 1));
        let mut second = first.share();
        first.learn(key(3), 2, 1);
        let Writer::Common(common) = &first.writer else { panic!("it is shared") };
        let lock = common.table.lock().unwrap();
        second.learn(key(3), 2, 5);
        second.learn(key(3), 2, 4);
        drop(lock);
        assert_eq!(second.entries(5).map(|entry| entry.idle_s).collect::<Vec<_>>(), [0]);
        second.learn(key(3), 4, 6);
        assert_eq!((first.lookup(key(3), 6), first.counters().moved), (Some(4), 1));
    }

    #[test]
    fn what_was_read_counts_only_if_nobody_wrote_meanwhile() {
        let mut first = Table::new(MacTable::new(64, 300, 1));
        assert!(first.is_as_at(first.stamp()));
        let mut second = first.share();
        first.learn(key(3), 2, 1);
        let stamp = second.stamp();
        first.learn(key(3), 2, 2);
        assert!(second.is_as_at(stamp), "no address came, went or moved");
        let writes: [fn(&mut Table); 3] =
            [|table| table.learn(key(4), 2, 2), |table| table.learn(key(3), 4, 2), |table| table.flush(None, true)];
        for write in writes {
            let stamp = second.stamp();
            write(&mut first);
            assert!(!second.is_as_at(stamp));
            assert!(second.is_as_at(second.stamp()));
        }
        let Writer::Common(common) = &first.writer else { panic!("it is shared") };
        common.with(|_| assert!(!second.is_as_at(second.stamp()), "while somebody writes"));
        second.flush(None, false);
    }

    #[test]
    fn workers_that_learn_at_once_lose_nothing() {
        let mut first = Table::new(MacTable::new(4096, 300, 1));
        let mut tables = [first.share(), first.share()];
        std::thread::scope(|scope| {
            for (at, table) in tables.iter_mut().enumerate() {
                scope
                    .spawn(move || (0..2000).for_each(|number| table.learn(key(number * 2 + at as u64), at as u16, 1)));
            }
        });
        assert_eq!((first.counters().used, first.counters().learned), (4000, 4000));
        assert!((0..4000).all(|number| first.lookup(key(number), 1) == Some((number % 2) as u16)));
    }
}
