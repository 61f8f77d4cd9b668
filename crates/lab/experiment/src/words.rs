//! Lists of words in messages.

pub(crate) use linerate_units::nearest;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_word_is_told_with_what_was_expected() {
        assert_eq!(
            unknown("DUT", "rooter", &["router", "snat"]),
            "unknown DUT \"rooter\"; expected one of router, snat; did you mean \"router\"?"
        );
        assert_eq!(unknown("DUT", "x", &[]), "unknown DUT \"x\"; there is none");
    }
}
