//! For fuzzing: journals of small documents, which a [`ResultsFolder`](super::ResultsFolder) writes whole.

use super::journal::{Line, Saved, hash_text};
use crate::Results;

/// The first line of a journal that continues the document.
pub fn journal_start(document: &str) -> String {
    text(&Line::Continues(hash_text(document)))
}

/// The lines behind it that lead from one state of a run to a later one; `None` when something was taken away.
pub fn journal_lines(before: &Results, after: &Results) -> Option<String> {
    Some(Saved::all(before).lines_to(after)?.iter().map(text).collect())
}

fn text(line: &Line) -> String {
    serde_json::to_string(line).unwrap_or_default() + "\n"
}
