//! An experiment's results as Markdown (the tables of GitHub's dialect).

use crate::Results;
use crate::overview::{Grid, LEDGERS_MAX, RowKind, Tone, Topic, account_rows, ledger_trials, overview};
use crate::units::percent;

/// Writes what an experiment found as Markdown. Text of the results cannot become markup.
pub fn results_markdown(results: &Results) -> String {
    let overview = overview(results);
    let mut text = format!("# {}\n\n{}\n", escaped(&overview.title), escaped(&overview.subtitle));
    if !overview.about.is_empty() {
        text.push_str(&format!("\n{}\n", escaped(&overview.about)));
    }
    for warning in &overview.warnings {
        text.push_str(&format!("\n> **Warning**: {}\n", escaped(warning)));
    }
    text.push_str("\n## Summary\n\n");
    for sentence in &overview.sentences {
        text.push_str(&format!("- {}\n", escaped(sentence)));
    }
    for grid in &overview.grids {
        text.push_str(&table(grid));
        if grid.topic == Topic::Cores {
            text.push_str(&ledgers(results));
        }
    }
    text
}

/// A grid with its heading.
pub(crate) fn table(grid: &Grid) -> String {
    let columns = grid.columns.iter();
    let names = columns.clone().map(|(name, _)| escaped(name)).collect::<Vec<_>>().join(" | ");
    let rules = columns.map(|(_, is_number)| if *is_number { "---:" } else { "---" }).collect::<Vec<_>>().join(" | ");
    let mut text = format!("\n## {}\n\n| {names} |\n| {rules} |\n", escaped(&grid.title));
    for row in &grid.rows {
        let entries = row.iter().map(|entry| {
            let words = escaped(&entry.text);
            if entry.tone == Tone::Strong && !words.is_empty() { format!("**{words}**") } else { words }
        });
        text.push_str(&format!("| {} |\n", entries.collect::<Vec<_>>().join(" | ")));
    }
    for note in &grid.notes {
        text.push_str(&format!("\n{}\n", escaped(note)));
    }
    text
}

fn ledgers(results: &Results) -> String {
    let mut text = String::from("\n## Ledger\n\nOf each cell the trial that lost most.\n");
    for (cell, made) in ledger_trials(results).into_iter().take(LEDGERS_MAX) {
        let id = results.cells.get(cell).map_or("", |cell| &cell.id);
        text.push_str(&format!("\n### {}, {}\n\n", escaped(id), escaped(&made.trial.name)));
        text.push_str("| | place | cause | packets | share | hint |\n| --- | --- | --- | ---: | ---: | --- |\n");
        let intended = made.trial.account.intended().max(1) as f64;
        for row in account_rows(&made.trial) {
            let share = percent(row.packets as f64 / intended);
            let words = [escaped(row.place), escaped(&row.cause), row.packets.to_string(), share, escaped(row.hint)];
            text.push_str(&format!("| {} | {} |\n", row.kind.word(), words.join(" | ")));
        }
    }
    text
}

impl RowKind {
    /// The word of the account.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Intended => "intended",
            Self::Unsent => "unsent",
            Self::Sent => "sent",
            Self::Lost => "lost",
            Self::Delivered => "delivered",
            Self::Unexplained => "unexplained",
        }
    }
}

/// Text in which nothing is markup: ASCII punctuation that could be gets a backslash (CommonMark section 2.4), controls a space.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in crate::terminal::clean(text).chars() {
        match letter {
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' | '!' => {
                out.push('\\');
                out.push(letter);
            }
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            _ => out.push(letter),
        }
    }
    out
}
