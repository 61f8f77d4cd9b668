//! Rust sources as the rules see them: comments and literals blanked out, test modules marked. Lines stay where they were.

/// A source text, taken apart by line.
#[derive(Clone, Debug)]
pub struct Source {
    /// Code alone: comments and the insides of literals are spaces.
    pub code: Vec<String>,
    /// The lines as written.
    pub written: Vec<String>,
    /// True for lines inside `#[cfg(test)]` items.
    pub in_tests: Vec<bool>,
}

impl Source {
    pub fn new(text: &str) -> Source {
        let blanked = blank(text);
        let code: Vec<String> = blanked.lines().map(str::to_string).collect();
        let written: Vec<String> = text.lines().map(str::to_string).collect();
        let in_tests = mark_tests(&code);
        Source { code, written, in_tests }
    }

    /// Lines outside of tests, as (number from 1, code).
    pub fn production(&self) -> impl Iterator<Item = (usize, &str)> {
        self.code
            .iter()
            .zip(&self.in_tests)
            .enumerate()
            .filter(|(_, (_, test))| !**test)
            .map(|(n, (code, _))| (n + 1, code.as_str()))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Code,
    LineComment,
    BlockComment(usize),
    Text,
    RawText(usize),
}

/// Replaces comments and the insides of literals by spaces, letter by letter.
fn blank(text: &str) -> String {
    let letters: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut state = State::Code;
    let mut at = 0;
    while at < letters.len() {
        let letter = letters[at];
        let pair = (letter, letters.get(at + 1).copied().unwrap_or('\0'));
        let (next, step, keep) = match state {
            State::Code => from_code(&letters, at),
            State::LineComment if letter == '\n' => (State::Code, 1, false),
            State::BlockComment(depth) => match pair {
                ('*', '/') if depth == 1 => (State::Code, 2, false),
                ('*', '/') => (State::BlockComment(depth - 1), 2, false),
                ('/', '*') => (State::BlockComment(depth + 1), 2, false),
                _ => (state, 1, false),
            },
            State::Text if letter == '\\' => (state, 2, false),
            State::Text if letter == '"' => (State::Code, 1, true),
            State::RawText(hashes) if letter == '"' && hashes_at(&letters, at + 1) >= hashes => {
                (State::Code, 1 + hashes, true)
            }
            _ => (state, 1, false),
        };
        for letter in &letters[at..(at + step).min(letters.len())] {
            out.push(if keep || *letter == '\n' { *letter } else { ' ' });
        }
        (state, at) = (next, at + step);
    }
    out
}

/// What begins at `at` in code: the state it leads to, its letters, and whether they are kept.
fn from_code(letters: &[char], at: usize) -> (State, usize, bool) {
    let letter = |offset: usize| letters.get(at + offset).copied().unwrap_or('\0');
    let after_word = at > 0 && (letters[at - 1].is_alphanumeric() || letters[at - 1] == '_');
    match (letter(0), letter(1)) {
        ('/', '/') => (State::LineComment, 2, false),
        ('/', '*') => (State::BlockComment(1), 2, false),
        ('"', _) => (State::Text, 1, true),
        ('r', '"' | '#') if !after_word => {
            let hashes = hashes_at(letters, at + 1);
            if letter(1 + hashes) == '"' { (State::RawText(hashes), 2 + hashes, true) } else { (State::Code, 1, true) }
        }
        ('b', 'r') if !after_word && letter(2 + hashes_at(letters, at + 2)) == '"' => {
            let hashes = hashes_at(letters, at + 2);
            (State::RawText(hashes), 3 + hashes, true)
        }
        // A character, not a lifetime: 'x' or '\...'.
        ('\'', '\\') => (State::Code, quoted_len(letters, at), false),
        ('\'', _) if letter(2) == '\'' => (State::Code, 3, false),
        _ => (State::Code, 1, true),
    }
}

fn hashes_at(letters: &[char], at: usize) -> usize {
    letters[at.min(letters.len())..].iter().take_while(|letter| **letter == '#').count()
}

/// Letters of an escaped character literal that begins at `at`.
fn quoted_len(letters: &[char], at: usize) -> usize {
    let rest = &letters[(at + 3).min(letters.len())..];
    3 + rest.iter().position(|letter| *letter == '\'').map_or(0, |end| end + 1)
}

/// Marks the lines of each item that follows `#[cfg(test)]`.
fn mark_tests(code: &[String]) -> Vec<bool> {
    let mut marks = vec![false; code.len()];
    let mut line = 0;
    while line < code.len() {
        let compact: String = code[line].split_whitespace().collect();
        if !compact.starts_with("#[cfg(test)]") && !compact.starts_with("#[cfg(all(test") {
            line += 1;
            continue;
        }
        let end = item_end(code, line);
        marks[line..end].fill(true);
        line = end;
    }
    marks
}

/// First line behind the item whose attributes begin at `start`: its braces are closed, or a semicolon ends it.
fn item_end(code: &[String], start: usize) -> usize {
    let mut depth = 0i32;
    let mut brackets = 0i32;
    for (line, text) in code.iter().enumerate().skip(start) {
        for letter in text.chars() {
            match letter {
                '[' | '(' => brackets += 1,
                ']' | ')' => brackets -= 1,
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            let closed = letter == '}' && depth == 0 || letter == ';' && depth == 0 && brackets == 0;
            if closed {
                return line + 1;
            }
        }
    }
    code.len()
}

/// True when `code` has `word` with no letter of a name on either side.
pub fn has_word(code: &str, word: &str) -> bool {
    let part_of_name = |letter: Option<char>| letter.is_some_and(|letter| letter.is_alphanumeric() || letter == '_');
    code.match_indices(word).any(|(at, _)| {
        !part_of_name(code[..at].chars().next_back()) && !part_of_name(code[at + word.len()..].chars().next())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blank() {
        let text = "let a = \"unsafe // \\\" x\"; // unsafe\n/* unsafe /* nested */ unsafe */ let b = r#\"unsafe \" \"#;\n\
                    let c = '\"'; let d = '\\''; fn e<'a>(f: &'a str) { br\"unsafe\"; unsafe {} }\n";
        let source = Source::new(text);
        assert_eq!(source.code.len(), 3);
        assert!(!has_word(&source.code[0], "unsafe") && source.code[0].starts_with("let a = \""));
        assert!(!has_word(&source.code[1], "unsafe") && source.code[1].contains("let b"));
        assert!(source.code[2].contains("; unsafe {} }") && source.code[2].matches("unsafe").count() == 1);
        assert_eq!(source.code[0].chars().count(), source.written[0].chars().count());
    }

    #[test]
    fn test_modules_are_marked() {
        let text = "fn a() {}\n#[cfg(test)]\n#[allow(dead_code)]\nmod tests {\n    fn b() { \"}\"; }\n}\nfn c() {}\n\
                    #[cfg(test)]\nmod far;\nfn d() {}\n";
        let source = Source::new(text);
        let production: Vec<usize> = source.production().map(|(line, _)| line).collect();
        assert_eq!(production, [1, 7, 10]);
    }

    #[test]
    fn words_end_at_names() {
        assert!(has_word("x unsafe{", "unsafe") && !has_word("unsafe_code not_unsafe", "unsafe"));
    }

    #[test]
    fn any_text_can_be_taken_apart() {
        for text in ["'", "\"", "r#", "/*", "'\\", "b", "br##\"", "'\\u{1}", "\u{e9}'x'", "#[cfg(test)]"] {
            let _ = Source::new(text);
        }
    }
}
