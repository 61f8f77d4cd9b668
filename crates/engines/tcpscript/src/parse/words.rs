//! The words of a line: between blanks, or between quotes; `#` begins a comment.

/// Words that are left of a line.
pub struct Words<'a> {
    words: Vec<&'a str>,
    at: usize,
}

impl<'a> Words<'a> {
    /// Splits a line.
    pub fn new(line: &'a str) -> Result<Words<'a>, String> {
        let mut words = Vec::new();
        let mut rest = line.trim_start();
        while !rest.is_empty() && !rest.starts_with('#') {
            let end = match rest.strip_prefix('"') {
                Some(quoted) => quoted.find('"').ok_or("a quote has no end; write `\"` behind it")? + 2,
                None => rest.find(|letter: char| letter.is_whitespace() || letter == '#').unwrap_or(rest.len()),
            };
            let (word, after) = rest.split_at(end);
            words.push(word);
            rest = after.trim_start();
        }
        Ok(Words { words, at: 0 })
    }

    /// The next word, which stays.
    pub fn peek(&self) -> Option<&'a str> {
        self.words.get(self.at).copied()
    }

    /// Takes the next word.
    pub fn next(&mut self) -> Option<&'a str> {
        let word = self.peek()?;
        self.at += 1;
        Some(word)
    }

    /// Takes the next word, which must be there.
    pub fn want(&mut self, what: &str) -> Result<&'a str, String> {
        self.next().ok_or_else(|| format!("{what} is missing"))
    }

    /// Takes a number.
    pub fn number<T: std::str::FromStr>(&mut self, what: &str) -> Result<T, String> {
        let word = self.next().ok_or_else(|| format!("a number is missing: {what}"))?;
        number(word)
    }

    /// There must be no word left.
    pub fn end(&mut self) -> Result<(), String> {
        match self.peek() {
            None => Ok(()),
            Some(word) => Err(format!("{word} is too much; the line ends before it")),
        }
    }
}

/// A number.
pub fn number<T: std::str::FromStr>(word: &str) -> Result<T, String> {
    word.parse().map_err(|_| format!("not a number: {word} (or too large a one)"))
}

/// A time with a unit, in nanoseconds.
pub fn duration_ns(word: &str) -> Result<u64, String> {
    linerate_units::duration_ns(word).map_err(|error| error.to_string())
}

/// What was meant by a word that is none of `known`.
pub fn unknown(word: &str, known: &[&str]) -> String {
    match linerate_units::nearest(word, known) {
        Some(near) => format!("unknown word: {word}; did you mean {near}?"),
        None => format!("unknown word: {word}; known are {}", known.join(", ")),
    }
}

/// `name=value`.
pub fn pair(word: &str) -> Result<(String, String), String> {
    let (name, value) = word.split_once('=').ok_or_else(|| format!("not an option: {word}; write name=value"))?;
    Ok((name.to_string(), value.to_string()))
}
