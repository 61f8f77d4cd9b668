//! Statistics of entries and tables, and the entry that a key matches.

use linerate_classify::{Key, MISS, Scratch, lanes};
use linerate_openflow::{AggregateStats, ErrorKind, FlowFilter, FlowStats, OfError, TABLE_ALL, TABLE_MAX, TableStats};

use super::FlowTables;
use super::entries::Entry;
use super::flow_mod::passes;
use crate::shared::TABLES;

/// A list of entries that is being made in parts, so that it needs little memory.
#[derive(Debug)]
pub struct FlowDump {
    indices: std::vec::IntoIter<u32>,
    filter: FlowFilter,
}

impl FlowDump {
    /// True if all entries were listed.
    pub fn is_done(&self) -> bool {
        self.indices.as_slice().is_empty()
    }
}

impl FlowTables {
    /// Begins to list the entries that pass a filter; [`FlowTables::flow_part`] lists them.
    ///
    /// # Errors
    /// There is no such table.
    pub fn flow_dump(&self, filter: FlowFilter) -> Result<FlowDump, OfError> {
        check_table(filter.table)?;
        Ok(FlowDump { indices: self.filtered(&filter).into_iter(), filter })
    }

    /// The next entries of a list, at most `count`. Entries that have gone since it began are left out.
    pub fn flow_part(&self, dump: &mut FlowDump, count: usize) -> Vec<FlowStats> {
        let (indices, filter) = (&mut dump.indices, &dump.filter);
        let mut part = Vec::new();
        for index in indices.take(count) {
            if let Some(entry) = self.entries.get(index)
                && passes(entry, filter)
            {
                part.push(self.flow_stats_of(index, entry));
            }
        }
        part
    }

    fn flow_stats_of(&self, index: u32, entry: &Entry) -> FlowStats {
        let counts = self.counts_of(index, entry);
        FlowStats {
            table: entry.table,
            duration_ns: self.now_ns.saturating_sub(entry.created_ns),
            priority: entry.priority,
            idle_timeout_s: entry.idle_timeout_s,
            hard_timeout_s: entry.hard_timeout_s,
            flags: entry.flags,
            cookie: entry.cookie,
            packets: counts.packets,
            bytes: counts.bytes,
            matching: entry.matching.unpack(),
            instructions: entry.instructions.given.unpack(),
        }
    }

    /// Sums of the entries that pass a filter.
    ///
    /// # Errors
    /// There is no such table.
    pub fn aggregate(&self, filter: &FlowFilter) -> Result<AggregateStats, OfError> {
        check_table(filter.table)?;
        let mut sum = AggregateStats::default();
        for index in self.filtered(filter) {
            let Some(entry) = self.entries.get(index) else { continue };
            let counts = self.counts_of(index, entry);
            sum.packets += counts.packets;
            sum.bytes += counts.bytes;
            sum.flows += 1;
        }
        Ok(sum)
    }

    /// Entries of a table.
    pub fn entries_of(&self, table: u8) -> usize {
        self.entries.of_table(table).len()
    }

    /// Counters of all tables.
    pub fn table_stats(&self) -> Vec<TableStats> {
        let of = |table: usize| {
            let active = self.entries_of(table as u8) as u32;
            let mut stats = TableStats { table: table as u8, active, lookups: 0, matches: 0 };
            for tallies in self.shared.table_tallies.iter() {
                stats.lookups = stats.lookups.wrapping_add(tallies.0[table].lookups.read());
                stats.matches = stats.matches.wrapping_add(tallies.0[table].matches.read());
            }
            stats
        };
        (0..TABLES).map(of).collect()
    }

    /// The entry of a table that a key matches. Nothing is counted.
    pub fn lookup(&mut self, table: u8, key: &Key) -> Option<FlowStats> {
        let reader = self.reader.as_mut()?;
        let guard = reader.enter();
        let mut hits = [MISS];
        let rules = &self.shared.tables[usize::from(table)].rules;
        rules.lookup_batch(&guard, std::slice::from_ref(key), lanes(1), &mut hits, &mut Scratch::default());
        let index = self.shared.flows.view(&guard).get(hits[0]).map(|flow| flow.counter);
        reader.park();
        let index = index?;
        Some(self.flow_stats_of(index, self.entries.get(index)?))
    }
}

fn check_table(table: u8) -> Result<(), OfError> {
    if table > TABLE_MAX && table != TABLE_ALL { Err(ErrorKind::BadRequestBadTableId.into()) } else { Ok(()) }
}
