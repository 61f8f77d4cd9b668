//! What readers see of a classifier: immutable but for the cells that the writer stores to.
//!
//! Rules with one mask make a tuple, which has a hash table. Tuples stand in order of falling priority, in groups of up to 64, so
//! that a set of tuples is a bitmap. An atom is one word under one mask; tuples share atoms.

use super::blocks::Block;
use super::filter::Filter;
use super::hash::Hashing;
use super::linear::Linear;
use super::tuple::{Part, Tuple};
use crate::key::Mask;

/// Tuples of a group.
pub(crate) const TUPLES: usize = 64;
/// Atoms of a group.
pub(crate) const ATOMS: usize = 64;

/// How rules are looked up.
pub(crate) enum Set {
    /// There are none.
    Empty,
    /// There are so few that they are compared one after the other.
    Linear(Linear),
    /// By tuples, the most important ones first.
    Tuples { hashing: Hashing, groups: Vec<Group> },
}

/// Up to 64 tuples.
pub(crate) struct Group {
    /// In the order of the first tuple that compares them.
    pub(crate) atoms: Vec<Atom>,
    pub(crate) tuples: Vec<Tuple>,
    /// The tuples, eight by eight.
    pub(crate) blocks: Vec<Block>,
    /// For each tuple the bits that it compares or one before it, in this group or another one.
    pub(crate) compared: Vec<Mask>,
}

impl Set {
    /// Notes what tuples compare.
    pub(crate) fn note_compared(groups: &mut [Group]) {
        let mut all = Mask::NONE;
        for group in groups {
            group.compared.clear();
            for tuple in &group.tuples {
                tuple.parts().iter().for_each(|part| all.words[part.word as usize] |= part.mask);
                group.compared.push(all);
            }
        }
    }

    /// The bits by which it is decided that a rule of this rank, which is one more than its priority, is the best for a key; 0 if there is
    /// none. More bits may be named, but none is left out.
    pub(crate) fn deciding(&self, rank: u32) -> Mask {
        match self {
            Set::Empty => Mask::NONE,
            Set::Linear(linear) => linear.compared(),
            // Limits fall, so tuples that could do better, or as well, are the first ones.
            Set::Tuples { groups, .. } => {
                let tuples = groups.iter().flat_map(|group| group.tuples.iter().zip(&group.compared));
                let deciding = tuples.take_while(|(tuple, _)| tuple.limit() >= rank).last();
                deciding.map_or(Mask::NONE, |(_, compared)| *compared)
            }
        }
    }
}

/// One word under one mask, of a group.
pub(crate) struct Atom {
    pub(crate) part: Part,
    /// The tuples of the group that compare it.
    pub(crate) tuples: u64,
    /// The values that rules have there.
    pub(crate) present: Filter<2>,
}
