//! Lists of words in messages, and which of them a misspelt one was meant to be.

/// `unknown DUT "rooter"; expected one of plain, snat` and, if one is near, `; did you mean "plain"?`.
pub(crate) fn unknown(what: &str, word: &str, known: &[&str]) -> String {
    let expected = match known {
        [] => "there is none".to_string(),
        [only] => format!("expected {only}"),
        _ => format!("expected one of {}", known.join(", ")),
    };
    unknown_but(what, word, &expected, known)
}

/// The same where more than words is expected.
pub(crate) fn unknown_but(what: &str, word: &str, expected: &str, known: &[&str]) -> String {
    let meant = nearest(word, known).map_or(String::new(), |near| format!("; did you mean \"{near}\"?"));
    format!("unknown {what} {}; {expected}{meant}", shown(word))
}

/// A word of the file for a message: not longer than can be read, in quotes.
pub(crate) fn shown(word: &str) -> String {
    format!("{:?}", word.chars().take(60).collect::<String>())
}

/// The known word that a misspelt one is close to; a number is not misspelt.
pub(crate) fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let normal = |text: &str| -> Vec<char> { text.to_lowercase().replace(['_', ' '], "-").chars().take(40).collect() };
    if word.chars().all(|letter| letter.is_ascii_digit()) {
        return None;
    }
    let word = normal(word);
    let distance = |known: &&str| edits(&word, &normal(known));
    let near = known.iter().copied().min_by_key(distance)?;
    (edits(&word, &normal(near)) <= 1 + near.len() / 4).then_some(near)
}

/// Number of letters inserted, removed, changed or swapped with their neighbour that turn one word into the other.
fn edits(a: &[char], b: &[char]) -> usize {
    let (mut older, mut above): (Vec<usize>, Vec<usize>) = (Vec::new(), (0..=b.len()).collect());
    for (row, letter) in a.iter().enumerate() {
        let mut line = vec![row + 1];
        for (column, other) in b.iter().enumerate() {
            let mut least = (above[column] + usize::from(letter != other)).min(above[column + 1] + 1);
            least = least.min(line[column] + 1);
            if row > 0 && column > 0 && *letter == b[column - 1] && a[row - 1] == *other {
                least = least.min(older[column - 1] + 1);
            }
            line.push(least);
        }
        (older, above) = (above, line);
    }
    above.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_words_are_recognised() {
        let known = ["throughput", "latency", "frame-loss", "back-to-back", "soak"];
        for (word, meant) in [
            ("troughput", Some("throughput")),
            ("Frame_Loss", Some("frame-loss")),
            ("baack-to-bak", Some("back-to-back")),
            ("saok", Some("soak")),
            ("pineapple", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, &known), meant, "{word}");
        }
    }

    #[test]
    fn an_unknown_word_is_told_with_what_was_expected() {
        assert_eq!(
            unknown("DUT", "rooter", &["router", "snat"]),
            "unknown DUT \"rooter\"; expected one of router, snat; did you mean \"router\"?"
        );
        assert_eq!(unknown("DUT", "x", &[]), "unknown DUT \"x\"; there is none");
    }
}
