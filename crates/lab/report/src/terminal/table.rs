//! Tables that fit: columns of text are wrapped between words, columns of numbers never; what is still too wide becomes a list.

use super::page::{Page, Style, characters, clean, parts, wrap};

const GAP: usize = 2;
const MARGIN: usize = 2;
const TEXT_COLUMNS_MIN: usize = 10;

/// How a column is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Set {
    /// Text, from the left, wrapped where room is short.
    Text,
    /// A number, from the right.
    Number,
}

/// One entry of a row.
#[derive(Debug, Clone)]
pub(super) struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    pub(super) fn new(text: impl AsRef<str>) -> Self {
        Self::styled(text, Style::Plain)
    }

    pub(super) fn styled(text: impl AsRef<str>, style: Style) -> Self {
        Self { text: clean(text.as_ref()), style }
    }
}

/// A table under construction.
pub(super) struct Table {
    columns: Vec<(&'static str, Set)>,
    rows: Vec<Vec<Cell>>,
    has_header: bool,
}

impl Table {
    pub(super) fn new(columns: Vec<(&'static str, Set)>) -> Self {
        Self { columns, rows: Vec::new(), has_header: true }
    }

    /// The column names are used only if the table becomes a list.
    pub(super) fn without_header(mut self) -> Self {
        self.has_header = false;
        self
    }

    /// Adds a row. It has one cell for each column.
    pub(super) fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    pub(super) fn print(&self, page: &mut Page) {
        if self.rows.is_empty() {
            return;
        }
        match self.widths(page.columns) {
            Some(widths) => self.print_grid(page, &widths),
            None => self.print_list(page),
        }
    }

    /// What each column takes at most, by what `of` says of a text.
    fn widths_by(&self, of: impl Fn(&str) -> usize) -> Vec<usize> {
        let header = |name: &str| if self.has_header { of(name) } else { 0 };
        let cells = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| of(&cell.text)).max().unwrap_or(0)
        };
        self.columns.iter().enumerate().map(|(column, (name, _))| header(name).max(cells(column))).collect()
    }

    /// Widths with which all fits: no word is broken, or else words with slashes behind these; `None` if neither is enough.
    fn widths(&self, columns: usize) -> Option<Vec<usize>> {
        let words = |text: &str| text.split_whitespace().map(characters).max();
        let parts = |text: &str| text.split_whitespace().flat_map(parts).map(characters).max();
        self.widths_from(columns, words).or_else(|| self.widths_from(columns, parts))
    }

    /// Takes room from the widest column of text that is wider than the longest part of its texts, as `part` says, until all fits.
    fn widths_from(&self, columns: usize, part: impl Fn(&str) -> Option<usize>) -> Option<Vec<usize>> {
        let mut widths = self.widths_by(characters);
        let words = self.widths_by(|text| indent(text) + part(text).unwrap_or(0));
        while total(&widths) > columns {
            let excess = total(&widths) - columns;
            let texts = || (0..widths.len()).filter(|index| self.columns[*index].1 == Set::Text);
            let least = |index: usize| words[index].max(TEXT_COLUMNS_MIN);
            let widest = texts().filter(|index| widths[*index] > least(*index)).max_by_key(|index| widths[*index])?;
            let width = widths[widest];
            let next = texts().map(|index| widths[index]).filter(|other| *other < width).max().unwrap_or(0);
            widths[widest] = next.min(width - 1).max(least(widest)).max(width.saturating_sub(excess));
        }
        Some(widths)
    }

    fn print_grid(&self, page: &mut Page, widths: &[usize]) {
        if self.has_header {
            let header = self.columns.iter().map(|(name, _)| Cell::styled(name, Style::Faint)).collect::<Vec<_>>();
            self.print_row(page, widths, &header);
        }
        for row in &self.rows {
            self.print_row(page, widths, row);
        }
    }

    fn print_row(&self, page: &mut Page, widths: &[usize], row: &[Cell]) {
        let wrapped: Vec<Vec<String>> =
            row.iter().zip(widths).map(|(cell, width)| wrap_keeping_indent(&cell.text, *width)).collect();
        let height = wrapped.iter().map(Vec::len).max().unwrap_or(0);
        for line in 0..height {
            let mut pieces = vec![(Style::Plain, " ".repeat(MARGIN))];
            for (index, ((cell, lines), width)) in row.iter().zip(&wrapped).zip(widths).enumerate() {
                let text = lines.get(line).map_or("", String::as_str);
                let padding = " ".repeat(width.saturating_sub(characters(text)));
                let gap = if index == 0 { String::new() } else { " ".repeat(GAP) };
                let is_number = self.columns.get(index).is_some_and(|(_, set)| *set == Set::Number);
                let (before, after) = if is_number { (gap + &padding, String::new()) } else { (gap, padding) };
                pieces.extend([(Style::Plain, before), (cell.style, text.to_owned()), (Style::Plain, after)]);
            }
            page.line(&pieces);
        }
    }

    /// Each row as lines of `name  value`; an empty line before the next row.
    fn print_list(&self, page: &mut Page) {
        let indent = MARGIN + GAP + self.columns.iter().map(|(name, _)| characters(name)).max().unwrap_or(0);
        for (number, row) in self.rows.iter().enumerate() {
            if number > 0 {
                page.gap();
            }
            for ((name, _), cell) in self.columns.iter().zip(row) {
                if !cell.text.trim().is_empty() {
                    page.paragraph(&format!("{:MARGIN$}{name}", ""), indent, cell.style, &cell.text);
                }
            }
        }
    }
}

fn total(widths: &[usize]) -> usize {
    MARGIN + widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
}

/// Spaces in front show what belongs to what.
fn indent(text: &str) -> usize {
    characters(text) - characters(text.trim_start_matches(' '))
}

/// All lines of the cell keep the spaces in front.
fn wrap_keeping_indent(text: &str, width: usize) -> Vec<String> {
    let indent = indent(text).min(width / 2);
    wrap(text, width - indent).into_iter().map(|line| format!("{:indent$}{line}", "")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(vec![("place", Set::Text), ("packets", Set::Number)]);
        table.row(vec![Cell::new("the receive queue of dut0 is full"), Cell::new("1,234")]);
        table.row(vec![Cell::new("  pacer"), Cell::styled("0", Style::Bad)]);
        table
    }

    fn printed(table: &Table, columns: usize) -> String {
        let mut page = Page::new(columns, false);
        table.print(&mut page);
        page.finish()
    }

    #[test]
    fn numbers_are_aligned() {
        let text = printed(&table(), 80);
        let expected = "  place                              packets\n  the receive queue of dut0 is full    1,234\n    \
                        pacer                                  0\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn text_is_wrapped_and_numbers_are_not() {
        let text = printed(&table(), 40);
        assert!(text.contains("  the receive queue of dut0 is     1,234\n  full\n"), "{text}");
    }

    #[test]
    fn a_word_is_not_cut_while_another_column_can_give_room() {
        let mut table = Table::new(vec![("cell", Set::Text), ("published", Set::Text), ("here", Set::Number)]);
        let cell = "ofswitch-memif-0/60/10000/one-way";
        table.row(vec![Cell::new(cell), Cell::new("122,404,375 of 267,858,000 received"), Cell::new("1.1 Mpps")]);
        for columns in [58, 60, 70, 80] {
            let text = printed(&table, columns);
            assert!(text.contains(cell) && text.contains("122,404,375"), "{columns}:\n{text}");
            assert!(text.lines().all(|line| characters(line) <= columns), "{columns}:\n{text}");
        }
        // No column can give more, so that the cell's name goes on behind a slash.
        let text = printed(&table, 57);
        assert!(text.contains("\n  ofswitch-memif-0/60/10000/  ") && text.contains("\n  one-way  "), "{text}");
        assert!(
            printed(&table, 40).starts_with("  cell       ofswitch-memif-0/60/10000/\n"),
            "{}",
            printed(&table, 40)
        );
    }

    #[test]
    fn what_does_not_fit_becomes_a_list() {
        let mut table = Table::new(vec![("a", Set::Number), ("b", Set::Number)]);
        let number = "18,446,744,073,709,551,615";
        table.row(vec![Cell::new(number), Cell::new(number)]);
        table.row(vec![Cell::new("1"), Cell::new("2")]);
        assert_eq!(printed(&table, 40), format!("  a  {number}\n  b  {number}\n\n  a  1\n  b  2\n"));
    }
}
