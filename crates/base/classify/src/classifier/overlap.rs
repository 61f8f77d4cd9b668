//! Rules of one priority that a key could match together.

use super::Classifier;
use super::entries::NONE;
use super::table::Table;
use crate::key::{Mask, Rule};

/// Whether a rule overlaps another one of its priority.
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
    /// A rule of the same priority that a key could match together with `rule`, but for one with the same id. Compares at most
    /// `compares_max` rules.
    ///
    /// Masks without a rule of that priority cost nothing, and masks that compare no bit that `rule` leaves open cost one comparison;
    /// all rules of other masks are compared.
    pub fn overlap(&self, rule: &Rule, compares_max: usize) -> Overlap {
        let mut compares = 0;
        let tables = self.tuples.tables().filter(|table| table.has_priority(rule.priority));
        // Cheap ones first, since they may answer.
        let (probed, scanned): (Vec<&Table>, Vec<&Table>) = tables.partition(|table| covers(&rule.mask, &table.mask));
        for table in probed {
            let value = table.value_of(&self.tuples.hashing, &rule.value);
            let found = table.buckets.find(value.hash, |entry| table.has(&self.entries, entry, &value));
            let mut entry = found.map_or(NONE, |(_, entry)| entry);
            while entry != NONE {
                compares += 1;
                if compares > compares_max {
                    return Overlap::Unknown;
                }
                let head = self.entries.head(entry);
                if head.priority == rule.priority && head.id != rule.id {
                    return Overlap::With(head.id);
                }
                entry = self.entries.next(entry);
            }
        }
        for table in scanned {
            for entry in table.iter(&self.entries) {
                compares += 1;
                if compares > compares_max {
                    return Overlap::Unknown;
                }
                let other = table.rule(&self.entries, entry);
                if other.priority == rule.priority && other.id != rule.id && other.overlaps(rule) {
                    return Overlap::With(other.id);
                }
            }
        }
        Overlap::None
    }
}

/// True if `wide` compares each bit that `mask` compares.
fn covers(wide: &Mask, mask: &Mask) -> bool {
    wide.words.iter().zip(mask.words).all(|(wide, word)| word & !wide == 0)
}
