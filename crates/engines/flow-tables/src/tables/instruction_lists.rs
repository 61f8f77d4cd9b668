//! The instructions of entries, each list once, however many entries have it: most controllers use few.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use linerate_openflow::{Instruction, PackedInstructions};

use crate::flow_view::Instructions;

/// All lists.
#[derive(Default)]
pub(super) struct InstructionLists {
    all: HashSet<ByBytes>,
    /// That of the last entry.
    recent: Option<Arc<Instructions>>,
    /// Memory for the bytes of the list that is looked for.
    bytes: Vec<u8>,
}

/// A list that is found by its bytes.
struct ByBytes(Arc<Instructions>);

impl Borrow<[u8]> for ByBytes {
    fn borrow(&self) -> &[u8] {
        self.0.given.as_bytes()
    }
}

impl Hash for ByBytes {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.given.as_bytes().hash(state);
    }
}

impl PartialEq for ByBytes {
    fn eq(&self, other: &ByBytes) -> bool {
        self.0.given == other.0.given
    }
}

impl Eq for ByBytes {}

impl InstructionLists {
    /// The list with these instructions, for one more entry.
    pub(super) fn take(&mut self, instructions: &[Instruction]) -> Arc<Instructions> {
        self.bytes.clear();
        PackedInstructions::put(instructions, &mut self.bytes);
        let bytes = &self.bytes[..];
        let recent = self.recent.take().filter(|recent| recent.given.as_bytes() == bytes);
        let known = recent.or_else(|| self.all.get(bytes).map(|list| Arc::clone(&list.0)));
        let list = known.unwrap_or_else(|| {
            let list = Arc::new(Instructions::new(instructions));
            self.all.insert(ByBytes(Arc::clone(&list)));
            list
        });
        list.entries.store(list.entries.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.recent = Some(Arc::clone(&list));
        list
    }

    /// An entry less has the list. Workers may use it for a while.
    pub(super) fn give_back(&mut self, list: &Instructions) {
        let left = list.entries.load(Ordering::Relaxed) - 1;
        list.entries.store(left, Ordering::Relaxed);
        if left == 0 {
            self.all.remove(list.given.as_bytes());
            self.recent = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_kept_as_long_as_an_entry_has_it() {
        let mut lists = InstructionLists::default();
        let [first, again] = [0; 2].map(|_| lists.take(&[Instruction::GotoTable(1)]));
        let other = lists.take(&[Instruction::GotoTable(2)]);
        assert!(Arc::ptr_eq(&first, &again) && !Arc::ptr_eq(&first, &other));
        lists.give_back(&first);
        assert!(Arc::ptr_eq(&first, &lists.take(&[Instruction::GotoTable(1)])));
        lists.give_back(&first);
        lists.give_back(&first);
        assert_eq!(lists.all.len(), 1);
    }
}
