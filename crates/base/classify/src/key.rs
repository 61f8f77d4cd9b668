//! Keys of packets, masks and rules: opaque words, compared under masks.

/// Words of a [`Key`] and of a [`Mask`].
pub const WORDS: usize = 16;
/// Words of the first cache line of a key.
pub(crate) const FIRST: usize = WORDS / 2;

/// The fields of one packet, as the caller packs them: two cache lines of eight words each.
///
/// The first line holds what common traffic needs. The second line, words 8 to 15, is in use only if bit [`Key::EXTENDED`] of
/// word 7 is set. It is not read otherwise, so it counts as zero and need not be written.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Key {
    /// The words.
    pub words: [u64; WORDS],
}

impl Key {
    /// The bit of word 7 that says that words 8 to 15 are in use.
    pub const EXTENDED: u64 = 1 << 63;
    /// A key without a bit set.
    pub const ZERO: Key = Key { words: [0; WORDS] };

    /// True if words 8 to 15 are in use.
    #[inline]
    pub fn is_extended(&self) -> bool {
        self.words[FIRST - 1] & Key::EXTENDED != 0
    }

    /// The word at `at` (0 to 15); 0 for a word of a second line that is not in use.
    #[inline]
    pub fn word(&self, at: usize) -> u64 {
        if at < FIRST || self.is_extended() { self.words[at % WORDS] } else { 0 }
    }
}

impl Default for Key {
    fn default() -> Key {
        Key::ZERO
    }
}

/// Keys are equal if their first lines are, and their second lines where they are in use.
impl PartialEq for Key {
    #[inline]
    fn eq(&self, other: &Key) -> bool {
        let differ = |from: usize| (from..from + FIRST).fold(0, |all, at| all | (self.words[at] ^ other.words[at]));
        differ(0) == 0 && (!self.is_extended() || differ(FIRST) == 0)
    }
}

impl Eq for Key {}

/// The bits of a key that a rule compares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(C, align(64))]
pub struct Mask {
    /// The words; a bit that is set is compared.
    pub words: [u64; WORDS],
}

impl Mask {
    /// The mask of a rule that matches every key.
    pub const NONE: Mask = Mask { words: [0; WORDS] };
}

/// What a key must be like, and how important the rule is.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The bits that a key must have where `mask` is set. Bits outside of the mask do not count. Unlike those of a packet's key,
    /// words 8 to 15 always count.
    pub value: Key,
    /// The bits that are compared.
    pub mask: Mask,
    /// Of all rules that match a key, one with the highest priority is found.
    pub priority: u16,
    /// What a lookup answers; any number but [`MISS`].
    pub id: u32,
}

impl Rule {
    /// True if the rule matches `key`.
    pub fn matches(&self, key: &Key) -> bool {
        (0..WORDS).all(|at| (key.word(at) ^ self.value.words[at]) & self.mask.words[at] == 0)
    }

    /// True if some key could match this rule and `other`.
    pub fn overlaps(&self, other: &Rule) -> bool {
        (0..WORDS).all(|at| {
            let both = self.mask.words[at] & other.mask.words[at];
            (self.value.words[at] ^ other.value.words[at]) & both == 0
        })
    }

    /// True if `other` has the same mask and the same value under it.
    pub fn same_match(&self, other: &Rule) -> bool {
        self.mask == other.mask && self.overlaps(other)
    }
}

/// The answer of a lookup that finds no rule.
pub const MISS: u32 = u32::MAX;
/// Keys of a batch, at most.
pub const BATCH: usize = 64;

/// The lowest `count` lanes of a batch, as the bitmap that lookups take; `count` is at most [`BATCH`].
#[inline]
pub fn lanes(count: usize) -> u64 {
    if count >= BATCH { u64::MAX } else { (1 << count) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_line_counts_only_where_it_is_in_use() {
        let mut key = Key::ZERO;
        key.words[12] = 7;
        assert_eq!((key.word(12), key == Key::ZERO), (0, true));
        let mut rule = Rule { value: Key::ZERO, mask: Mask::NONE, priority: 1, id: 1 };
        (rule.value.words[12], rule.mask.words[12]) = (7, 7);
        assert!(!rule.matches(&key));
        key.words[7] |= Key::EXTENDED;
        assert_eq!((key.word(12), key == Key::ZERO), (7, false));
        assert!(rule.matches(&key));
    }
}
