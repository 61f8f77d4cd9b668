//! The words of a rule's value.

use super::hash::Hashing;
use super::tuple::Part;
use crate::key::WORDS;

/// The words of a rule's value that its mask uses, in the order of the atoms, and their hash.
pub(crate) struct Value {
    words: [u64; WORDS],
    count: usize,
    pub(crate) hash: u64,
}

impl Value {
    /// With a word for each part of the mask.
    pub(crate) fn new(parts: &[Part], hashing: &Hashing, word: impl Fn(usize, &Part) -> u64) -> Value {
        let mut value = Value { words: [0; WORDS], count: parts.len(), hash: 0 };
        for (at, part) in parts.iter().enumerate() {
            value.words[at] = word(at, part);
            value.hash = value.hash.wrapping_add(hashing.atom(value.words[at], part.secret));
        }
        value.hash = hashing.finish(value.hash);
        value
    }

    pub(crate) fn words(&self) -> &[u64] {
        &self.words[..self.count]
    }
}
