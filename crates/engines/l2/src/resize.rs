//! Another size for the MAC table, and another time of ageing, while the switch runs.
//!
//! ```
//! use linerate_l2::{Resize, SpareTable, Switch, SwitchConfig};
//!
//! let pool = linerate_mem::Pool::new(Default::default()).unwrap();
//! let mut switch = Switch::new(SwitchConfig::default(), &pool).unwrap();
//! // Where it takes no time of packets:
//! let spare = SpareTable::new(65_536).unwrap();
//! switch.begin_resize(spare);
//! // Between batches:
//! while let Resize::GoesOn = switch.resize_step(256) {}
//! assert_eq!(switch.table_entries(), 65_536);
//! ```

use crate::settings::{ConfigError, SwitchConfig};
use crate::switch::Switch;
use crate::table::{MacTable, Progress, tick};

/// Memory for a MAC table, made and freed where that takes no time of packets.
pub struct SpareTable {
    table: MacTable,
    entries: usize,
}

impl SpareTable {
    /// Allocates room for `entries` addresses, 1 to 2^20.
    ///
    /// # Errors
    /// The number is outside of that range.
    pub fn new(entries: usize) -> Result<SpareTable, ConfigError> {
        SwitchConfig { mac_entries: entries, ..SwitchConfig::default() }.check()?;
        Ok(SpareTable { table: MacTable::new(entries, 0, 0), entries })
    }

    /// Addresses that it is made for.
    pub fn entries(&self) -> usize {
        self.entries
    }
}

/// How far a resize of the MAC table is.
pub enum Resize {
    /// None is under way.
    Idle,
    /// There are entries left to be moved.
    GoesOn,
    /// The new table is in use; this is the old one. Learned addresses for which it had no place are counted as evicted.
    Done(SpareTable),
    /// The new table, this one, has no place for the static entries; the old one stays in use.
    Refused(SpareTable),
}

impl Switch {
    /// Addresses that the MAC table is made for.
    pub fn table_entries(&self) -> usize {
        self.config.mac_entries
    }

    /// Seconds of silence after which an address is forgotten.
    pub fn age_s(&self) -> u32 {
        self.config.age_s
    }

    /// Changes the time after which addresses are forgotten; it counts for those that are known, too.
    pub fn set_age_s(&mut self, age_s: u32) {
        self.config.age_s = age_s;
        self.table.set_ageing(age_s);
    }

    /// Begins to move the entries of the MAC table into another one, which takes its place after the last
    /// [`Switch::resize_step`]. Until then the switch works with the old one, and learns into both. Returns the one of a resize that
    /// was under way, which ends here.
    pub fn begin_resize(&mut self, spare: SpareTable) -> Option<SpareTable> {
        let before = self.table.begin_resize(spare.table);
        let entries = std::mem::replace(&mut self.resizing_to, spare.entries);
        before.map(|table| SpareTable { table, entries })
    }

    /// Moves the entries of `buckets` buckets of four places each. A table has twice as many places as entries that it
    /// was made for. Takes 0.04 us a bucket where the tables are in a core's cache, 0.25 us for the largest.
    pub fn resize_step(&mut self, buckets: usize) -> Resize {
        match self.table.resize_step(buckets, tick(self.now_ns)) {
            Progress::Idle => Resize::Idle,
            Progress::GoesOn => Resize::GoesOn,
            Progress::Refused(table) => Resize::Refused(SpareTable { table, entries: self.resizing_to }),
            Progress::Done(table) => {
                let entries = std::mem::replace(&mut self.config.mac_entries, self.resizing_to);
                Resize::Done(SpareTable { table, entries })
            }
        }
    }
}
