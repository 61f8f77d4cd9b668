//! The entries of a table on their way into one of another size, while the first is in use.
//!
//! ```text
//! table in use   | moved already .... | at -> not yet ...... |     whatever is learned, moves or is removed meanwhile is done in
//! its successor  | entries that were seen before `at`, and all that changed since |     both, wherever it lies
//! ```
//! So the two never differ in what was moved already, and after the last part the successor says all that the table said, but for
//! learned addresses for which it had no place.

use super::{Entry, Full, Key, MacCounters, MacTable, STATIC, WAYS, is_older};

/// The table that replaces the one in use.
pub(super) struct Successor {
    pub(super) table: MacTable,
    /// The bucket that is to be moved next.
    at: usize,
    /// A static entry found no place: there is nothing to become of it.
    full: bool,
}

/// How far a resize is.
pub(crate) enum Progress {
    /// None is under way.
    Idle,
    /// There are entries left to be moved.
    GoesOn,
    /// The new table is in use; this was the old one.
    Done(MacTable),
    /// The old table stays in use: this one has no place for the static entries.
    Refused(MacTable),
}

impl MacTable {
    /// Begins to become `table`, which is empty. Returns the one that it was becoming before, if any.
    pub(crate) fn begin_resize(&mut self, mut table: MacTable) -> Option<MacTable> {
        table.places.seed = self.places.seed;
        table.shares.set_as(&self.shares, table.counters.capacity, self.ports);
        table.ports = self.ports;
        let before = self.next.replace(Box::new(Successor { table, at: 0, full: false }));
        before.map(|before| before.table)
    }

    /// Moves the entries of `buckets` buckets, and takes the new table into use after the last ones.
    pub(crate) fn resize_step(&mut self, buckets: usize, tick: u32) -> Progress {
        let Some(mut next) = self.next.take() else { return Progress::Idle };
        let end = next.at.saturating_add(buckets).min(self.places.buckets.len());
        for number in next.at..end {
            for way in 0..WAYS {
                let entry = self.bucket(number).entry(way);
                if entry.key == Key::default() {
                    continue;
                }
                if entry.seen != STATIC && is_older(entry.seen, tick, self.places.age_ticks) {
                    self.forget_aged(entry.key, &mut next.table);
                } else {
                    next.full |= next.table.adopt(entry).is_err();
                }
            }
        }
        next.at = end;
        if next.full {
            return Progress::Refused(next.table);
        }
        if end < self.places.buckets.len() {
            self.next = Some(next);
            return Progress::GoesOn;
        }
        let new = self.followed_by(next.table);
        Progress::Done(std::mem::replace(self, new))
    }

    /// The new table with the counters of the old one. Entries that found no place in it count as evicted.
    fn followed_by(&self, mut table: MacTable) -> MacTable {
        let lost = self.counters.used.saturating_sub(table.counters.used);
        let MacCounters { used, capacity, .. } = table.counters;
        table.counters = MacCounters { used, capacity, evicted: self.counters.evicted + lost, ..self.counters };
        table.places.age_ticks = self.places.age_ticks;
        table.swept_ns = self.swept_ns;
        table
    }

    /// Removes an address that was silent for too long.
    #[cold]
    fn forget_aged(&mut self, key: Key, next: &mut MacTable) {
        next.forget(key);
        self.counters.aged += u64::from(self.forget(key));
    }

    /// Notes an entry as it is now in the table that this one becomes.
    #[cold]
    pub(super) fn tell_next(&mut self, entry: Entry) {
        if let Some(next) = &mut self.next {
            next.full |= next.table.adopt(entry).is_err();
        }
    }

    /// Removes an entry that this table has no more.
    #[cold]
    pub(super) fn tell_next_gone(&mut self, key: Key) {
        if let Some(next) = &mut self.next {
            next.table.forget(key);
        }
    }

    /// As `flush`, in the table that this one becomes.
    #[cold]
    pub(super) fn tell_next_flush(&mut self, port: Option<u16>, all: bool) {
        if let Some(next) = &mut self.next {
            next.table.flush(port, all);
        }
    }

    /// Takes over an entry as it is. A learned one that finds all of its places taken gets that of an older one, if there is one; a
    /// static one gets that of any learned one.
    fn adopt(&mut self, entry: Entry) -> Result<(), Full> {
        let (first, second) = self.places(entry.key);
        for number in [first, second] {
            if let Some(way) = self.bucket(number).find(entry.key) {
                self.put(number, way, entry);
                return Ok(());
            }
        }
        let free = self.free_place(first, second).or_else(|| self.make_place(first, second));
        self.counters.used += u64::from(free.is_some());
        let place = free.or_else(|| {
            let oldest = self.oldest(first, second, entry.seen, |_| true).filter(|(older, _)| *older > 0);
            oldest.map(|(_, place)| place)
        });
        match place {
            Some((number, way)) => self.put(number, way, entry),
            None if entry.seen == STATIC => return Err(Full),
            None => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u64) -> Key {
        Key::new((number % 7) as u16, 0x0200_0000_0000 | number)
    }

    /// Goes through a resize by parts of `part` buckets, with `meanwhile` between them.
    fn resize(table: &mut MacTable, entries: usize, part: usize, mut meanwhile: impl FnMut(&mut MacTable)) -> bool {
        assert!(table.begin_resize(MacTable::new(entries, 300, 0)).is_none());
        loop {
            match table.resize_step(part, 50) {
                Progress::GoesOn => meanwhile(table),
                Progress::Done(_) => return true,
                Progress::Refused(_) => return false,
                Progress::Idle => panic!("it is under way"),
            }
        }
    }

    #[test]
    fn a_larger_table_has_every_entry_with_what_was_known_of_it() {
        let mut table = MacTable::new(64, 300, 9);
        for number in 0..60 {
            table.learn(key(number), 1, number as u32);
        }
        table.learn(key(3), 2, 50);
        table.add_static(key(60), 7, 50).unwrap();
        let before = table.counters();
        let mut entries: Vec<_> = table.entries(60).collect();
        assert!(resize(&mut table, 4096, 3, |_| ()));
        let mut after: Vec<_> = table.entries(60).collect();
        entries.sort_by_key(|entry| entry.mac);
        after.sort_by_key(|entry| entry.mac);
        assert_eq!(after, entries);
        assert_eq!(table.counters(), MacCounters { capacity: 8192, ..before });
        assert_eq!((table.lookup(key(3), 60), table.lookup(key(60), 9_999)), (Some(2), Some(7)));
    }

    #[test]
    fn a_smaller_table_keeps_the_static_ones_and_the_youngest_and_counts_the_others() {
        let mut table = MacTable::new(4096, 300, 9);
        for number in 0..4000 {
            table.learn(key(number), 1, if number < 3900 { 10 } else { 40 });
        }
        (5000..5010).for_each(|number| table.add_static(key(number), 2, 0).unwrap());
        assert!(resize(&mut table, 256, 100, |_| ()));
        let counters = table.counters();
        assert_eq!(counters.used, table.entries(50).count() as u64);
        assert_eq!((counters.used + counters.evicted, counters.capacity), (4010, 512));
        assert!((5000..5010).all(|number| table.lookup(key(number), 50) == Some(2)));
        assert!((3900..4000).all(|number| table.lookup(key(number), 50) == Some(1)), "the youngest stay");
    }

    #[test]
    fn what_happens_meanwhile_is_in_the_new_table() {
        for part in [1, 5, 64] {
            let mut table = MacTable::new(128, 300, 5);
            for number in 0..100 {
                table.learn(key(number), 1, 40);
            }
            let mut step = 0;
            let done = resize(&mut table, 1024, part, |table| {
                // Of each kind, in parts that were moved and in others.
                table.learn(key(1000 + step), 3, 50);
                table.learn(key(step), 4, 50);
                table.forget(key(50 + step % 20));
                if step == 2 {
                    table.add_static(key(7), 5, 50).unwrap();
                    table.add_static(key(2000), 5, 50).unwrap();
                    table.learn(key(3000), 9, 50);
                    table.flush(Some(9), false);
                }
                step += 1;
            });
            assert!(done);
            for number in 0..step.min(50) {
                let wanted = if number == 7 && step > 2 { 5 } else { 4 };
                assert_eq!(table.lookup(key(number), 50), Some(wanted), "{number} by parts of {part}");
                assert_eq!(table.lookup(key(1000 + number), 50), Some(3));
            }
            let forgotten = |number: &u64| table.lookup(key(*number), 50).is_none();
            assert!((50 + step.min(20)..70).all(|number| !forgotten(&number)));
            assert!(step < 3 || table.lookup(key(2000), 50) == Some(5) && forgotten(&3000));
            assert_eq!(table.counters().used, table.entries(50).count() as u64);
            assert_eq!(table.counters().evicted, 0);
        }
    }

    #[test]
    fn what_is_too_old_is_left_behind() {
        let mut table = MacTable::new(64, 300, 1);
        for number in 0..20 {
            table.learn(key(number), 1, if number < 15 { 100 } else { 5_000 });
        }
        table.add_static(key(30), 1, 100).unwrap();
        table.begin_resize(MacTable::new(512, 300, 0));
        assert!(matches!(table.resize_step(4, 5_000), Progress::GoesOn));
        // Renewed before it was moved, or learned anew after it was left behind.
        table.learn(key(3), 2, 5_000);
        assert!(matches!(table.resize_step(usize::MAX, 5_000), Progress::Done(_)));
        let counters = table.counters();
        // All were learned but the static one.
        assert_eq!((counters.used, counters.used + counters.aged, counters.evicted), (7, 1 + counters.learned, 0));
        assert_eq!((table.lookup(key(3), 5_000), table.lookup(key(15), 5_000)), (Some(2), Some(1)));
        assert_eq!((table.lookup(key(4), 5_000), table.lookup(key(30), 5_000)), (None, Some(1)));
    }

    #[test]
    fn static_entries_that_do_not_fit_leave_everything_as_it_was() {
        let mut table = MacTable::new(64, 300, 1);
        (0..40).for_each(|number| table.add_static(key(number), 2, 0).unwrap());
        let before = table.counters();
        assert!(!resize(&mut table, 1, 4, |_| ()));
        assert_eq!(table.counters(), before);
        assert!((0..40).all(|number| table.lookup(key(number), 50) == Some(2)));
        assert!(matches!(table.resize_step(1, 50), Progress::Idle));
    }
}
