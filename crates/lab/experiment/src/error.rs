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

use linerate_units::TextError;

/// Most errors that are kept; the rest is counted.
const PROBLEMS_MAX: usize = 50;
/// Characters of the number of a line, so that all excerpts begin at one column.
const NUMBER_WIDTH: usize = 5;

/// Everything that is wrong with a file, in the order of its lines. Never empty. Displayed, each error shows its line and marks
/// the place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Errors {
    /// The file's name as given.
    pub file_name: String,
    /// At least one, by position.
    pub problems: Vec<TextError>,
    /// How many more there are.
    pub more: usize,
}

impl Errors {
    /// One error about the whole file.
    pub(crate) fn whole(file_name: &str, message: &str) -> Self {
        Self { file_name: file_name.to_string(), problems: vec![TextError::at("", 0..0, message)], more: 0 }
    }
}

impl std::error::Error for Errors {}

impl fmt::Display for Errors {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, problem) in self.problems.iter().enumerate() {
            let separator = if number == 0 { "" } else { "\n" };
            let TextError { line, column, message, .. } = problem;
            writeln!(out, "{separator}error: {}:{line}:{column}: {message}", self.file_name)?;
            write!(out, "{}", problem.excerpt_marked(NUMBER_WIDTH))?;
        }
        match self.more {
            0 => Ok(()),
            more => write!(out, "\n... and {more} more"),
        }
    }
}

/// Collects errors while a file is read.
#[derive(Debug, Default)]
pub struct Log {
    noted: RefCell<Vec<(Range<usize>, String)>>,
}

impl Log {
    /// Notes an error about the bytes `span` of the text.
    pub fn error(&self, span: Range<usize>, message: impl Into<String>) {
        self.noted.borrow_mut().push((span, message.into()));
    }

    /// The same where a value is asked for: there is none.
    pub fn refuse<T>(&self, span: Range<usize>, message: impl Into<String>) -> Option<T> {
        self.error(span, message);
        None
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
        let problems: Vec<TextError> =
            noted.into_iter().map(|(span, message)| TextError::at(text, span, message)).collect();
        (!problems.is_empty()).then(|| Errors { file_name: file_name.to_string(), problems, more })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
