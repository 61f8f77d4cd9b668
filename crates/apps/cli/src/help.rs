//! Texts behind the options of `--help` (examples, tables, explanations), wrapped once, at the width of the terminal. The sources break their
//! lines where it suits a source; here paragraphs are put together again and broken where they do not fit.
//!
//! ```text
//! paragraph     goes on in the next line if that has the same indent and this one is long (PARAGRAPH_LEN)
//! table row     words behind two spaces: what does not fit goes on below the last column
//! command       `linerate ...` goes on eight places further in
//! ```

use std::sync::atomic::{AtomicUsize, Ordering};

use clap::Command;

/// From this length on a line of the source was broken because it is full.
const PARAGRAPH_LEN: usize = 90;
/// Width where nobody watches: of pipes and files.
const WIDTH_DEFAULT: usize = 100;
/// Width below which nothing is wrapped any more.
const WIDTH_MIN: usize = 40;

/// Width that [`fitted`] breaks texts for; 0: they stay as they are written.
static WIDTH: AtomicUsize = AtomicUsize::new(0);

/// From here on [`fitted`] makes help fit the terminal.
pub fn fit_terminal() {
    let width = terminal_size::terminal_size().map_or(WIDTH_DEFAULT, |(width, _)| usize::from(width.0));
    WIDTH.store(width.max(WIDTH_MIN), Ordering::Relaxed);
}

/// From here on [`fitted`] leaves help as it is written, for pages that are filled by those who show them.
pub fn as_written() {
    WIDTH.store(0, Ordering::Relaxed);
}

/// Whether help is made to fit the terminal.
pub fn is_fitted() -> bool {
    WIDTH.load(Ordering::Relaxed) != 0
}

/// The command, and the subcommands that it has by now, with help of the width that was said last.
pub fn fitted(command: Command) -> Command {
    match WIDTH.load(Ordering::Relaxed) {
        0 => command,
        width => with_width(command, width),
    }
}

fn with_width(command: Command, width: usize) -> Command {
    let command = match command.get_after_help().map(ToString::to_string) {
        Some(text) => command.after_help(wrapped(&text, width)),
        None => command,
    };
    command.term_width(width).mut_subcommands(|command| with_width(command, width))
}

/// The text with lines of at most `width` characters, as far as its words allow.
fn wrapped(text: &str, width: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut before_len = 0;
    for line in text.lines() {
        match lines.last_mut() {
            Some(last) if before_len >= PARAGRAPH_LEN && goes_on(last, line) => {
                last.push(' ');
                last.push_str(line.trim_start());
            }
            _ => lines.push(line.to_string()),
        }
        before_len = line.chars().count();
    }
    lines.iter().map(|line| broken(line, width)).collect::<Vec<_>>().join("\n")
}

/// Whether `next` belongs to the paragraph of `line`.
fn goes_on(line: &str, next: &str) -> bool {
    !next.trim().is_empty() && indent(line) == indent(next) && columns(line).is_none() && columns(next).is_none()
}

fn indent(line: &str) -> usize {
    line.chars().take_while(|letter| *letter == ' ').count()
}

/// Where the last column of a table's row begins.
fn columns(line: &str) -> Option<usize> {
    let start = indent(line);
    let gap = line[start..].rfind("  ")? + start + 2;
    (gap < line.len()).then_some(gap)
}

fn broken(line: &str, width: usize) -> String {
    if line.chars().count() <= width {
        return line.to_string();
    }
    let start = indent(line);
    let hang = match columns(line) {
        Some(column) if column * 2 <= width => column,
        Some(_) => start + 8,
        None if line[start..].starts_with("linerate ") => start + 8,
        None => start,
    };
    let mut out = String::new();
    let mut column = 0;
    // Spaces in a row belong to the word behind them, so that columns stay where they are.
    for word in words(line) {
        let len = word.chars().count();
        if column > 0 && column + len > width {
            out.push('\n');
            out.push_str(&" ".repeat(hang));
            let word = word.trim_start();
            out.push_str(word);
            column = hang + word.chars().count();
        } else {
            out.push_str(word);
            column += len;
        }
    }
    out
}

/// Words with the spaces in front of them.
fn words(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = line;
    std::iter::from_fn(move || {
        let spaces = rest.len() - rest.trim_start().len();
        let end = rest[spaces..].find(' ').map_or(rest.len(), |end| spaces + end);
        let (word, behind) = rest.split_at(end);
        rest = behind;
        (!word.is_empty()).then_some(word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_are_broken_once() {
        let long = "word ".repeat(19) + "broken in the source\nand going on there.\n\nAnother.";
        let text = wrapped(&long, 60);
        assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
        assert!(text.contains("source and"), "{text}");
        assert!(text.ends_with("\n\nAnother."));
        assert_eq!(wrapped("short\nlines stay", 60), "short\nlines stay");
    }

    #[test]
    fn rows_go_on_below_their_last_column() {
        let row = "  access=VLAN    in one VLAN, packets without tags, and some more words";
        let text = wrapped(row, 50);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(lines[1].starts_with(&" ".repeat(17)) && !lines[1].starts_with(&" ".repeat(18)), "{text}");
        let command = wrapped("  linerate send eth1 --set ethernet.destination=02:00:00:00:00:07 --rate 1Mpps", 68);
        assert_eq!(command.lines().nth(1), Some("          --rate 1Mpps"), "{command}");
        // A word that is too long stays whole.
        assert!(wrapped(&format!("a {}", "x".repeat(80)), 50).contains(&"x".repeat(80)));
    }

    #[test]
    fn words_keep_all_characters() {
        for line in ["", "  a  b c ", "a", "   "] {
            let kept: String = words(line).collect();
            assert_eq!(kept.trim_end(), line.trim_end());
        }
    }
}
