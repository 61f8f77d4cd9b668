//! What is wrong with an experiment file, and where: everything at once, each with its line.
//!
//! ```text
//! error: experiments/x.toml:12:7: unknown DUT "rooter"; expected one of plain, conntrack, snat
//!    12 | dut = "rooter"
//!       |       ^^^^^^^^
//! ```

use std::cell::RefCell;
use std::fmt;
use std::ops::Range;

/// Most characters of a line that an error shows.
const EXCERPT_LEN_MAX: usize = 120;
/// Most errors that are kept; the rest is counted.
const PROBLEMS_MAX: usize = 50;

/// Everything that is wrong with a file, in the order of its lines. Never empty. Displayed, each error shows its line and marks
/// the place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Errors {
    /// The file's name as given.
    pub file_name: String,
    /// At least one, by position.
    pub problems: Vec<Problem>,
    /// How many more there are.
    pub more: usize,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong, what was expected, and what may have been meant.
    pub message: String,
    /// The line (or the part of it around the column), without control characters.
    pub excerpt: String,
    /// Characters of `excerpt` before the place, and how many the place has.
    mark: (usize, usize),
}

impl Errors {
    /// One error about the whole file.
    pub(crate) fn whole(file_name: &str, message: &str) -> Self {
        let problem = locate("", 0..0, message.to_string());
        Self { file_name: file_name.to_string(), problems: vec![problem], more: 0 }
    }
}

impl std::error::Error for Errors {}

impl fmt::Display for Errors {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, problem) in self.problems.iter().enumerate() {
            let separator = if number == 0 { "" } else { "\n" };
            let (before, marked) = problem.mark;
            writeln!(
                out,
                "{separator}error: {}:{}:{}: {}",
                self.file_name, problem.line, problem.column, problem.message
            )?;
            writeln!(out, "{:5} | {}", problem.line, problem.excerpt)?;
            write!(out, "      | {}{}", " ".repeat(before), "^".repeat(marked))?;
        }
        match self.more {
            0 => Ok(()),
            more => write!(out, "\n... and {more} more"),
        }
    }
}

/// Collects errors while a file is read.
#[derive(Debug, Default)]
pub(crate) struct Log {
    noted: RefCell<Vec<(Range<usize>, String)>>,
}

impl Log {
    /// Notes an error about the bytes `span` of the text.
    pub(crate) fn error(&self, span: Range<usize>, message: impl Into<String>) {
        self.noted.borrow_mut().push((span, message.into()));
    }

    /// How many were noted.
    pub(crate) fn count(&self) -> usize {
        self.noted.borrow().len()
    }

    /// What was noted, located in the text; `None` when that is nothing.
    pub(crate) fn into_errors(self, text: &str, file_name: &str) -> Option<Errors> {
        let mut noted = self.noted.into_inner();
        noted.sort_by(|(a, why_a), (b, why_b)| (a.start, a.end, why_a).cmp(&(b.start, b.end, why_b)));
        noted.dedup();
        let more = noted.len().saturating_sub(PROBLEMS_MAX);
        noted.truncate(PROBLEMS_MAX);
        let problems: Vec<Problem> = noted.into_iter().map(|(span, message)| locate(text, span, message)).collect();
        (!problems.is_empty()).then(|| Errors { file_name: file_name.to_string(), problems, more })
    }
}

fn locate(text: &str, span: Range<usize>, message: String) -> Problem {
    let start = floor_boundary(text, span.start);
    let end = floor_boundary(text, span.end.max(start));
    let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
    let line = text[line_start..].lines().next().unwrap_or("");
    let before = text[line_start..start].chars().count();
    let marked = text[start..end].lines().next().unwrap_or("").chars().count();
    let skipped = before.saturating_sub(EXCERPT_LEN_MAX / 2);
    let excerpt: String = line.chars().skip(skipped).take(EXCERPT_LEN_MAX).map(printable).collect();
    let room = (excerpt.chars().count() + skipped).saturating_sub(before);
    Problem {
        line: text[..start].matches('\n').count() + 1,
        column: before + 1,
        message,
        excerpt,
        mark: (before - skipped, marked.min(room).max(1)),
    }
}

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
    fn errors_come_in_the_order_of_lines_and_mark_their_place() {
        let log = Log::default();
        log.error(14..18, "second");
        log.error(0..1, "first");
        let errors = log.into_errors("a = 1\nnäme = true # x\n", "x.toml").unwrap();
        let expected = "error: x.toml:1:1: first\n    1 | a = 1\n      | ^\n\
            error: x.toml:2:8: second\n    2 | näme = true # x\n      |        ^^^^";
        assert_eq!(errors.to_string(), expected);
    }

    #[test]
    fn too_many_errors_are_counted() {
        let log = Log::default();
        (0..60).for_each(|at| log.error(at..at + 1, "no"));
        let errors = log.into_errors(&"x".repeat(60), "x").unwrap();
        assert_eq!((errors.problems.len(), errors.more), (50, 10));
        assert!(errors.to_string().ends_with("... and 10 more"));
    }

    proptest! {
        #[test]
        fn any_span_can_be_shown(text in "(\\PC|\n){0,300}", start in 0usize..400, len in 0usize..400) {
            let log = Log::default();
            log.error(start..start + len, "no");
            let errors = log.into_errors(&text, "x").unwrap();
            prop_assert!(errors.problems[0].line >= 1 && errors.problems[0].column >= 1);
            prop_assert_eq!(errors.to_string().lines().count(), 3);
        }
    }
}
