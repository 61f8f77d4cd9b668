//! What readers see of a classifier: immutable but for the cells that the writer stores to.
//!
//! Rules with one mask make a tuple, which has a hash table. Tuples stand in order of falling priority, in groups of up to 64, so
//! that a set of tuples is a bitmap. An atom is one word under one mask; tuples share atoms.

use super::blocks::Block;
use super::filter::Filter;
use super::hash::Hashing;
use super::linear::Linear;
use super::tuple::{Part, Tuple};

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
}

/// One word under one mask, of a group.
pub(crate) struct Atom {
    pub(crate) part: Part,
    /// The tuples of the group that compare it.
    pub(crate) tuples: u64,
    /// The values that rules have there.
    pub(crate) present: Filter<2>,
}
