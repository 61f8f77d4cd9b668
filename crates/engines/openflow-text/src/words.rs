//! Cuts a text into words: `key`, `key=value`, `key:value` and `key(value)`, between commas and white space.

use crate::TextError;

/// A word of a text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word<'a> {
    /// All of it.
    pub text: &'a str,
    /// What is before `=`, `:` or `(`.
    pub key: &'a str,
    /// What is behind it, without the parentheses.
    pub value: Option<&'a str>,
}

impl<'a> Word<'a> {
    /// The value, which the word must have.
    pub(super) fn needed(&self, example: &str) -> Result<&'a str, TextError> {
        let missing = || TextError::new(self.text, format!("needs a value, for example `{example}`"));
        self.value.filter(|value| !value.is_empty()).ok_or_else(missing)
    }

    /// Refuses a value.
    pub(super) fn bare(&self) -> Result<(), TextError> {
        match self.value {
            None | Some("") => Ok(()),
            Some(_) => Err(TextError::new(self.text, format!("takes no value; write `{}`", self.key))),
        }
    }
}

/// The words of `text`. Separators inside parentheses do not end a word.
pub(super) fn words(text: &str) -> Result<Vec<Word<'_>>, TextError> {
    let mut found = Vec::new();
    let mut rest = text.trim_start_matches(is_separator);
    while !rest.is_empty() {
        let end = end_of_word(rest)?;
        found.push(word(&rest[..end])?);
        rest = rest[end..].trim_start_matches(is_separator);
    }
    Ok(found)
}

fn is_separator(letter: char) -> bool {
    letter == ',' || letter.is_ascii_whitespace()
}

fn end_of_word(rest: &str) -> Result<usize, TextError> {
    let mut depth = 0_usize;
    for (at, letter) in rest.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' if depth == 0 => return Err(TextError::new(&rest[..=at], "closes a parenthesis that is not open")),
            ')' => depth -= 1,
            _ if depth == 0 && is_separator(letter) => return Ok(at),
            _ => {}
        }
    }
    if depth > 0 {
        return Err(TextError::new(rest, "a parenthesis is not closed"));
    }
    Ok(rest.len())
}

fn word(text: &str) -> Result<Word<'_>, TextError> {
    let Some(at) = text.find(['=', ':', '(']) else { return Ok(Word { text, key: text, value: None }) };
    let (key, rest) = text.split_at(at);
    let value = match rest.strip_prefix('(') {
        // `key(value)`, and nothing behind it.
        Some(inner) => inner
            .strip_suffix(')')
            .filter(|inner| closes_at_end(inner))
            .ok_or_else(|| TextError::new(text, format!("write `{key}(...)` with a comma behind it")))?,
        None => &rest[1..],
    };
    Ok(Word { text, key, value: Some(value) })
}

/// True if no parenthesis inside `inner` closes the one before it.
fn closes_at_end(inner: &str) -> bool {
    let mut depth = 0_i64;
    inner.bytes().all(|byte| {
        depth += i64::from(byte == b'(') - i64::from(byte == b')');
        depth >= 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_cut_at_separators_outside_parentheses() {
        let cut: Vec<_> =
            words(" a=1, b:2\tc(3,(4)) d,,e= ").unwrap().iter().map(|word| (word.key, word.value)).collect();
        assert_eq!(cut, [("a", Some("1")), ("b", Some("2")), ("c", Some("3,(4)")), ("d", None), ("e", Some(""))]);
        for wrong in ["a(1", "a)", "a(1)b", "a(1)(2)"] {
            assert!(words(wrong).is_err(), "{wrong}");
        }
    }
}
