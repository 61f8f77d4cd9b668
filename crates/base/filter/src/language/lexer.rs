//! Words and signs of an expression.

use super::LanguageError;

/// A word or a sign, and its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token<'a> {
    pub at: usize,
    pub kind: Kind<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind<'a> {
    And,
    Or,
    Not,
    Open,
    Close,
    /// A keyword, a number, an address, a name. `\tcp` (a name that is also a keyword) keeps its backslash.
    Word(&'a str),
}

pub(super) fn tokens(text: &str) -> Result<Vec<Token<'_>>, LanguageError> {
    let mut tokens = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        let at = text.len() - rest.len() + 1;
        let Some(first) = rest.chars().next() else { return Ok(tokens) };
        let word_len = rest.find(|letter| !is_of_word(letter)).unwrap_or(rest.len());
        let (kind, len) = match first {
            '(' => (Kind::Open, 1),
            ')' => (Kind::Close, 1),
            '!' if !rest.starts_with("!=") => (Kind::Not, 1),
            '&' if rest.starts_with("&&") => (Kind::And, 2),
            '|' if rest.starts_with("||") => (Kind::Or, 2),
            _ if word_len > 0 => (word(&rest[..word_len]), word_len),
            other => {
                let problem =
                    format!("`{other}` is not known here: bytes and arithmetic need libpcap (install libpcap)");
                return Err(LanguageError { at, problem });
            }
        };
        tokens.push(Token { at, kind });
        rest = &rest[len..];
    }
}

fn is_of_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || ".:/-_\\".contains(letter)
}

fn word(text: &str) -> Kind<'_> {
    match text {
        "and" => Kind::And,
        "or" => Kind::Or,
        "not" => Kind::Not,
        _ => Kind::Word(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_need_no_spaces_around_them() {
        let kinds = |text| tokens(text).unwrap().iter().map(|token| token.kind).collect::<Vec<_>>();
        use Kind::*;
        assert_eq!(kinds("!(tcp&&udp)"), [Not, Open, Word("tcp"), And, Word("udp"), Close]);
        assert_eq!(
            kinds(" net 10.0.0.0/8||host ::1"),
            [Word("net"), Word("10.0.0.0/8"), Or, Word("host"), Word("::1")]
        );
        assert_eq!(tokens("a  and b").unwrap()[1], Token { at: 4, kind: And });
        for (text, at) in [("tcp[0]", 4), ("len >= 3", 5), ("a & b", 3), ("ä", 1), ("a != b", 3)] {
            assert_eq!(tokens(text).unwrap_err().at, at, "{text}");
        }
    }
}
