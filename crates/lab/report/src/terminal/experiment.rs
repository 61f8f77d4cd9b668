//! An experiment's results as text for a terminal.

use super::ledger;
use super::page::{Page, Style};
use super::table::{Cell, Set, Table};
use crate::Results;
use crate::overview::{Grid, Overview, Tone, Topic, ledger_trials, overview};
use crate::units::{count, nanoseconds, pps};

/// Writes what an experiment found for a terminal of `columns` columns, with or without colours.
///
/// No line is longer than the terminal (40 columns at least), and no number is cut. Control characters are replaced.
pub fn results_terminal(results: &Results, columns: usize, colour: bool) -> String {
    let overview = overview(results);
    let mut page = Page::new(columns, colour);
    print_summary(&mut page, &overview);
    print_grids(&mut page, results, &overview.grids);
    page.finish()
}

/// As [`results_terminal`], for the screen of somebody who waited for the run: the summary comes last, where it stays in sight, and the
/// environment is left to the files.
pub fn results_screen(results: &Results, columns: usize, colour: bool) -> String {
    let mut overview = overview(results);
    overview.grids.retain(|grid| grid.topic != Topic::Environment);
    let mut page = Page::new(columns, colour);
    print_grids(&mut page, results, &overview.grids);
    page.gap();
    print_summary(&mut page, &overview);
    page.finish()
}

fn print_summary(page: &mut Page, overview: &Overview) {
    page.paragraph("", 0, Style::Heading, &overview.title);
    page.paragraph("", 2, Style::Faint, &overview.subtitle);
    if !overview.about.is_empty() {
        page.paragraph("", 2, Style::Plain, &overview.about);
    }
    for warning in &overview.warnings {
        page.paragraph("warning", 9, Style::Doubtful, warning);
    }
    page.gap();
    for sentence in &overview.sentences {
        page.paragraph("", 2, Style::Plain, sentence);
    }
}

fn print_grids(page: &mut Page, results: &Results, grids: &[Grid]) {
    for grid in grids {
        print_grid(page, grid);
        if grid.topic == Topic::Cores {
            print_ledgers(page, results);
        }
    }
}

/// Writes every trial behind the findings for a terminal: a line each, with its whole account.
pub fn trials_terminal(results: &Results, columns: usize, colour: bool) -> String {
    let mut page = Page::new(columns, colour);
    for cell in &results.cells {
        page.gap();
        page.paragraph("", 0, Style::Heading, &format!("Trials of {}", cell.id));
        let numbers = ["load", "length", "intended", "delivered"].map(|column| (column, Set::Number));
        let columns = [&[("trial", Set::Text)], &numbers[..], &[("where the others went", Set::Text)]].concat();
        let mut table = Table::new(columns);
        for made in cell.findings.iter().flat_map(|finding| &finding.trials) {
            let trial = &made.trial;
            let (style, words) = ledger::words(trial);
            let words = made.not_used.as_ref().map_or(words.clone(), |why| format!("not used, {why}; {words}"));
            table.row(vec![
                Cell::new(trial.name.strip_prefix(&format!("{}: ", cell.id)).unwrap_or(&trial.name)),
                Cell::new(pps(trial.load_pps)),
                Cell::new(nanoseconds(trial.duration_ns as f64)),
                Cell::new(count(trial.account.intended())),
                Cell::new(count(trial.account.delivered())),
                Cell::styled(words, style),
            ]);
        }
        table.print(&mut page);
    }
    page.finish()
}

/// A heading, sentences and grids.
pub(crate) fn grids(heading: &str, sentences: &[String], grids: &[Grid], columns: usize, colour: bool) -> String {
    let mut page = Page::new(columns, colour);
    page.paragraph("", 0, Style::Heading, heading);
    for sentence in sentences {
        page.paragraph("", 2, Style::Plain, sentence);
    }
    for grid in grids {
        print_grid(&mut page, grid);
    }
    page.finish()
}

fn print_grid(page: &mut Page, grid: &Grid) {
    page.gap();
    page.paragraph("", 0, Style::Heading, &grid.title);
    let set = |is_number: bool| if is_number { Set::Number } else { Set::Text };
    let mut table = Table::new(grid.columns.iter().map(|(name, is_number)| (*name, set(*is_number))).collect());
    let mut label = "";
    for row in &grid.rows {
        let cells = row.iter().enumerate().map(|(column, entry)| {
            // What is the same as above is said once.
            let repeated = column == 0 && entry.text == label && grid.topic != Topic::Environment;
            Cell::styled(if repeated { "" } else { &entry.text }, style(entry.tone))
        });
        table.row(cells.collect());
        label = row.first().map_or("", |entry| &entry.text);
    }
    table.print(page);
    for note in &grid.notes {
        page.paragraph("  note", 8, Style::Faint, note);
    }
}

fn style(tone: Tone) -> Style {
    match tone {
        Tone::Plain => Style::Plain,
        Tone::Strong => Style::Heading,
        Tone::Good => Style::Good,
        Tone::Bad => Style::Bad,
        Tone::Doubtful => Style::Doubtful,
    }
}

/// The trial of each cell that lost most.
fn print_ledgers(page: &mut Page, results: &Results) {
    for (cell, made) in ledger_trials(results).into_iter().take(crate::overview::LEDGERS_MAX) {
        page.gap();
        if let Some(cell) = results.cells.get(cell) {
            page.paragraph("", 0, Style::Faint, &cell.id);
        }
        ledger::print(page, &made.trial);
    }
}
