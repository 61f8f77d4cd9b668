//! Tables that fit: columns of text are wrapped, columns of numbers never; what is still too wide becomes a list.

use super::page::{Page, Style, characters, clean, wrap};

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

    fn natural_widths(&self) -> Vec<usize> {
        let header = |name: &str| if self.has_header { characters(name) } else { 0 };
        let cells = |column: usize| {
            self.rows
                .iter()
                .filter_map(move |row| row.get(column))
                .map(|cell| characters(&cell.text))
                .max()
                .unwrap_or(0)
        };
        self.columns.iter().enumerate().map(|(column, (name, _))| header(name).max(cells(column))).collect()
    }

    /// Takes room from the widest column of text until all fits.
    fn widths(&self, columns: usize) -> Option<Vec<usize>> {
        let mut widths = self.natural_widths();
        while total(&widths) > columns {
            let excess = total(&widths) - columns;
            let texts =
                || self.columns.iter().enumerate().filter(|(_, (_, set))| *set == Set::Text).map(|(index, _)| index);
            let widest = texts().max_by_key(|index| widths[*index])?;
            let next = texts().filter(|index| *index != widest).map(|index| widths[index]).max().unwrap_or(0);
            let width = widths[widest];
            let floor = next.saturating_sub(1).max(TEXT_COLUMNS_MIN).max(width.saturating_sub(excess));
            if floor >= width {
                return None;
            }
            widths[widest] = floor;
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

    /// Each row as lines of `name  value`.
    fn print_list(&self, page: &mut Page) {
        let indent = MARGIN + GAP + self.columns.iter().map(|(name, _)| characters(name)).max().unwrap_or(0);
        for row in &self.rows {
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

/// Spaces in front show what belongs to what; all lines of the cell keep them.
fn wrap_keeping_indent(text: &str, width: usize) -> Vec<String> {
    let indent = characters(text) - characters(text.trim_start_matches(' '));
    let indent = indent.min(width / 2);
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
    fn what_does_not_fit_becomes_a_list() {
        let mut table = Table::new(vec![("a", Set::Number), ("b", Set::Number)]);
        let number = "18,446,744,073,709,551,615";
        table.row(vec![Cell::new(number), Cell::new(number)]);
        assert_eq!(printed(&table, 40), format!("  a  {number}\n  b  {number}\n"));
    }
}
