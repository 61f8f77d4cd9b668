//! Rules with masks and priorities, which one thread changes while workers look keys up: tuple space search, pruned and batched.
//!
//! Rules with one mask share a hash table (`buckets.rs`) from the masked words to the rule (`entries.rs`). What readers see of all
//! tables is a [`set::Set`]; the writer publishes another one when a table grows or a mask comes or goes, and changes cells of the current
//! one otherwise. `lookup.rs` is the readers' way through it, `writer.rs` and `tuple.rs` the writer's side.

mod atoms;
mod blocks;
mod buckets;
mod entries;
mod filter;
mod hash;
mod linear;
mod lookup;
mod overlap;
mod set;
mod table;
#[cfg(all(test, not(loom)))]
mod tests;
mod tuple;
mod tuples;
mod value;
mod writer;

use crate::domain::Guard;
use crate::key::{BATCH, Key, Mask};
use crate::primitive::Arc;
use crate::published::Published;
use entries::Lines;
pub use lookup::Scratch;
pub use overlap::Overlap;
use set::Set;
pub use writer::Classifier;

/// A reader's end of a classifier.
#[derive(Clone)]
pub struct ClassifierReader {
    set: Arc<Published<Set>>,
    lines: Arc<Lines>,
}

impl ClassifierReader {
    /// Looks up those of up to 64 keys whose bit is set in `wanted`. `hits` gets the id of a rule that matches with the highest
    /// priority, and [`crate::MISS`] where none matches; the places of other keys stay as they are. The lookup sees each change that
    /// was made before the guard's version began, and any part of those made later.
    ///
    /// # Panics
    /// If there are more than 64 keys, or fewer hits than keys, or the guard is of a worker of another domain.
    pub fn lookup_batch(&self, guard: &Guard<'_>, keys: &[Key], wanted: u64, hits: &mut [u32], scratch: &mut Scratch) {
        assert!(keys.len() <= BATCH && hits.len() >= keys.len());
        lookup::lookup(self.set.load(guard), &self.lines, keys, wanted, hits, scratch);
    }

    /// Looks up one key as [`ClassifierReader::lookup_batch`] does, and says by which bits the answer is decided: as long as no rule is added
    /// and the one that was found is there, a key with the same bits gets the same answer, or another rule of the same priority. The mask
    /// counts words 8 to 15 of a key without a second line as zero.
    ///
    /// # Panics
    /// If the guard is of a worker of another domain.
    pub fn lookup_wide(&self, guard: &Guard<'_>, key: &Key, scratch: &mut Scratch) -> (u32, Mask) {
        lookup::lookup_wide(self.set.load(guard), &self.lines, key, scratch)
    }
}
