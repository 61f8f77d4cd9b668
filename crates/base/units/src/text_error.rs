//! What is wrong with a file that a user wrote, and where.

use std::fmt;
use std::ops::Range;

/// Most characters of a line that an error shows.
const EXCERPT_LEN_MAX: usize = 120;

/// An error in a file. Displayed, it shows the line and marks the place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextError {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong, and what would be right.
    pub message: String,
    /// The line (or the part of it around the column), without control characters.
    pub excerpt: String,
    /// Characters of `excerpt` before the place, and how many the place has.
    mark: (usize, usize),
}

impl TextError {
    /// An error about the bytes `span` of `text`.
    pub fn at(text: &str, span: Range<usize>, message: impl Into<String>) -> TextError {
        let start = floor_boundary(text, span.start);
        let end = floor_boundary(text, span.end.max(start));
        let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line = text[line_start..].lines().next().unwrap_or("");
        let before = text[line_start..start].chars().count();
        let marked = text[start..end].lines().next().unwrap_or("").chars().count();
        let skipped = before.saturating_sub(EXCERPT_LEN_MAX / 2);
        let excerpt: String = line.chars().skip(skipped).take(EXCERPT_LEN_MAX).map(printable).collect();
        let room = (excerpt.chars().count() + skipped).saturating_sub(before);
        TextError {
            line: text[..start].matches('\n').count() + 1,
            column: before + 1,
            message: message.into(),
            excerpt,
            mark: (before - skipped, marked.min(room).max(1)),
        }
    }
}

impl TextError {
    /// The line with its number, right-aligned in so many characters, and the mark below it.
    pub fn excerpt_marked(&self, number_width: usize) -> String {
        let (before, marked) = self.mark;
        let width = number_width.max(self.line.to_string().len());
        let marks = " ".repeat(before) + &"^".repeat(marked);
        format!("{:width$} | {}\n{:width$} | {marks}", self.line, self.excerpt, "")
    }
}

impl fmt::Display for TextError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "line {}, column {}: {}", self.line, self.column, self.message)?;
        let indented = self.line.to_string().len() + 2;
        out.write_str(&self.excerpt_marked(indented))
    }
}

impl std::error::Error for TextError {}

fn printable(letter: char) -> char {
    if letter.is_control() { ' ' } else { letter }
}

/// The nearest place at or before `at` where a character begins.
fn floor_boundary(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn marks_the_place() {
        let text = "a = 1\nnäme = true # x\n";
        let error = TextError::at(text, 14..18, "no");
        assert_eq!((error.line, error.column), (2, 8));
        assert_eq!(error.to_string(), "line 2, column 8: no\n  2 | näme = true # x\n    |        ^^^^");
    }

    proptest! {
        #[test]
        fn any_span_can_be_shown(text in "(\\PC|\n){0,300}", start in 0usize..400, len in 0usize..400) {
            let error = TextError::at(&text, start..start + len, "no");
            prop_assert!(error.line >= 1 && error.column >= 1);
            prop_assert_eq!(error.to_string().lines().count(), 3);
        }
    }
}
