//! Few rules, compared one after the other.

use crate::key::{Key, MISS, Mask, Rule};

/// Rules that are compared so, at most. The model checker looks at tables, so it has none.
pub(crate) const LINEAR: usize = if cfg!(loom) { 0 } else { 16 };

/// Rules by falling priority, each as the words that it compares.
pub(crate) struct Linear {
    rules: Vec<One>,
    words: Vec<Word>,
}

struct One {
    id: u32,
    /// Its words end here, and those of the next rule begin.
    end: u32,
}

struct Word {
    at: u8,
    mask: u64,
    value: u64,
}

impl Linear {
    pub(crate) fn new(rules: &[Rule]) -> Linear {
        let mut sorted: Vec<&Rule> = rules.iter().collect();
        sorted.sort_by_key(|rule| std::cmp::Reverse(rule.priority));
        let mut linear = Linear { rules: Vec::new(), words: Vec::new() };
        for rule in sorted {
            let words = (0..).zip(rule.mask.words.iter().zip(rule.value.words)).filter(|(_, (mask, _))| **mask != 0);
            linear.words.extend(words.map(|(at, (mask, value))| Word { at, mask: *mask, value: value & mask }));
            linear.rules.push(One { id: rule.id, end: linear.words.len() as u32 });
        }
        linear
    }

    /// The bits that some rule compares.
    pub(crate) fn compared(&self) -> Mask {
        let mut all = Mask::NONE;
        self.words.iter().for_each(|word| all.words[word.at as usize] |= word.mask);
        all
    }

    #[inline]
    pub(crate) fn lookup(&self, key: &Key) -> u32 {
        let mut start = 0;
        for rule in &self.rules {
            let end = rule.end as usize;
            let words = self.words.get(start..end).unwrap_or_default();
            if words.iter().all(|word| key.word(word.at.into()) & word.mask == word.value) {
                return rule.id;
            }
            start = end;
        }
        MISS
    }
}
