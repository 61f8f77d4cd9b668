//! Text for a terminal: wrapped to its width, coloured or not, and free of whatever else a string could make a terminal do.

/// Narrower than this is treated as this: the longest number with its sign and thousands has 26 characters.
const COLUMNS_MIN: usize = 40;

/// How a piece of text looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Heading,
    Good,
    Bad,
    Doubtful,
    Faint,
}

impl Style {
    /// The parameter of the SGR control sequence (ECMA-48 section 8.3.117).
    fn code(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Heading => Some("1"),
            Self::Good => Some("32"),
            Self::Bad => Some("31"),
            Self::Doubtful => Some("33"),
            Self::Faint => Some("2"),
        }
    }
}

/// A text that grows from top to bottom.
pub(super) struct Page {
    pub(super) columns: usize,
    colour: bool,
    text: String,
}

impl Page {
    pub(super) fn new(columns: usize, colour: bool) -> Self {
        Self { columns: columns.max(COLUMNS_MIN), colour, text: String::new() }
    }

    pub(super) fn finish(self) -> String {
        self.text
    }

    /// An empty line, unless the page is empty.
    pub(super) fn gap(&mut self) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
    }

    /// A line of pieces that already fit.
    pub(super) fn line(&mut self, pieces: &[(Style, String)]) {
        for (style, piece) in pieces {
            match style.code().filter(|_| self.colour && !piece.trim().is_empty()) {
                Some(code) => self.text.push_str(&format!("\x1b[{code}m{piece}\x1b[0m")),
                None => self.text.push_str(piece),
            }
        }
        while self.text.ends_with(' ') {
            self.text.pop();
        }
        self.text.push('\n');
    }

    /// A paragraph. `label` stands in front of its first line, and the other lines are indented as far as `indent`.
    pub(super) fn paragraph(&mut self, label: &str, indent: usize, style: Style, text: &str) {
        let label = clean(label);
        let indent = indent.min(self.columns / 2);
        let (first, lines) = if label.is_empty() || characters(&label) < indent {
            (format!("{label:indent$}"), wrap(text, self.columns - indent))
        } else {
            // The label does not leave room: it gets lines of its own.
            for line in wrap(&label, self.columns) {
                self.line(&[(Style::Plain, line)]);
            }
            (" ".repeat(indent), wrap(text, self.columns - indent))
        };
        for (index, line) in lines.into_iter().enumerate() {
            let margin = if index == 0 { first.clone() } else { " ".repeat(indent) };
            self.line(&[(Style::Plain, margin), (style, line)]);
        }
    }
}

pub(super) fn characters(text: &str) -> usize {
    text.chars().count()
}

/// Replaces control characters, which could move the cursor or hide text, and the ones that reverse the direction of text.
pub(crate) fn clean(text: &str) -> String {
    let is_harmful = |letter: char| {
        letter.is_control()
            || matches!(letter, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}')
    };
    text.chars().map(|letter| if is_harmful(letter) { '\u{fffd}' } else { letter }).collect()
}

/// Parts of a word that may stand in lines of their own: those of a path, each with the slash behind it.
pub(crate) fn parts(word: &str) -> impl Iterator<Item = &str> {
    word.split_inclusive('/')
}

/// Breaks a text at spaces, words that are too long behind slashes, and what is still too long anywhere. At least one line.
pub(crate) fn wrap(text: &str, columns: usize) -> Vec<String> {
    let columns = columns.max(1);
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut used = 0;
    for word in clean(text).split_whitespace() {
        let length = characters(word);
        if used > 0 && used + 1 + length > columns {
            lines.push(std::mem::take(&mut line));
            used = 0;
        }
        if used > 0 {
            line.push(' ');
            used += 1;
        }
        for part in parts(word) {
            if used > 0 && used + characters(part) > columns {
                lines.push(std::mem::take(&mut line));
                used = 0;
            }
            for letter in part.chars() {
                if used == columns {
                    lines.push(std::mem::take(&mut line));
                    used = 0;
                }
                line.push(letter);
                used += 1;
            }
        }
    }
    if used > 0 || lines.is_empty() {
        lines.push(line);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrapping() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("abcdefghij kl", 4), ["abcd", "efgh", "ij", "kl"]);
        assert_eq!(wrap("one ovs-dpdk-0/60/1x100/one-way", 15), ["one", "ovs-dpdk-0/60/", "1x100/one-way"]);
        assert_eq!(wrap("", 4), [""]);
        assert_eq!(wrap("a\x1b[2Jb", 20), ["a\u{fffd}[2Jb"]);
    }

    #[test]
    fn paragraphs_hang() {
        let mut page = Page::new(40, true);
        page.paragraph("mode", 8, Style::Good, "DUT NAPI threaded on core 1, generator on core 0");
        let text = page.finish();
        assert_eq!(
            text,
            "mode    \x1b[32mDUT NAPI threaded on core 1,\x1b[0m\n        \x1b[32mgenerator on core 0\x1b[0m\n"
        );
    }
}
