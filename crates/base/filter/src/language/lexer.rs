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
    /// A comparison or an operation of numbers, a bracket, and in brackets a colon.
    Operator(&'a str),
    /// A keyword, a number, an address, a name. `\tcp` (a name that is also a keyword) keeps its backslash.
    Word(&'a str),
}

pub(super) fn tokens(text: &str) -> Result<Vec<Token<'_>>, LanguageError> {
    let mut tokens = Vec::new();
    let mut rest = text;
    let mut brackets = 0u32;
    loop {
        rest = rest.trim_start();
        let at = text.len() - rest.len() + 1;
        let Some(first) = rest.chars().next() else { return Ok(tokens) };
        let word_len = word_len(rest, brackets > 0);
        let (kind, len) = match first {
            '(' => (Kind::Open, 1),
            ')' => (Kind::Close, 1),
            '!' if !rest.starts_with("!=") => (Kind::Not, 1),
            '&' if rest.starts_with("&&") => (Kind::And, 2),
            '|' if rest.starts_with("||") => (Kind::Or, 2),
            _ if word_len > 0 => (word(&rest[..word_len]), word_len),
            other => {
                let Some(operator) = OPERATORS.iter().find(|operator| rest.starts_with(**operator)) else {
                    return Err(LanguageError { at, problem: format!("`{other}` is no sign of a filter") });
                };
                (Kind::Operator(&rest[..operator.len()]), operator.len())
            }
        };
        match kind {
            Kind::Operator("[") => brackets += 1,
            Kind::Operator("]") => brackets = brackets.saturating_sub(1),
            _ => {}
        }
        tokens.push(Token { at, kind });
        rest = &rest[len..];
    }
}

/// Longer ones first.
const OPERATORS: [&str; 20] =
    ["==", "!=", ">=", "<=", "<<", ">>", "=", ">", "<", "+", "-", "*", "/", "%", "&", "|", "^", "[", "]", ":"];

/// Bytes of the word at the start of `rest`; 0 if there is none. In brackets a colon stands between index and size, and signs are operations.
fn word_len(rest: &str, in_brackets: bool) -> usize {
    let is_first = |letter: char| letter.is_ascii_alphanumeric() || letter == '\\' || rest.starts_with("::");
    let is_of_word =
        |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || (!in_brackets && ".:/-\\".contains(letter));
    if !rest.starts_with(is_first) || (in_brackets && rest.starts_with("::")) {
        return 0;
    }
    let len = rest.find(|letter| !is_of_word(letter)).unwrap_or(rest.len());
    // `len/2` is a division; `10/8` is a network.
    if rest[..len].starts_with("len/") { "len".len() } else { len }
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
        let operator = Operator;
        assert_eq!(
            kinds("ip[0:2]&0xf!=len-1"),
            [
                Word("ip"),
                operator("["),
                Word("0"),
                operator(":"),
                Word("2"),
                operator("]"),
                operator("&"),
                Word("0xf"),
                operator("!="),
                Word("len-1")
            ]
        );
        assert_eq!(kinds("len/2"), [Word("len"), operator("/"), Word("2")]);
        assert_eq!(kinds("[1-2]"), [operator("["), Word("1"), operator("-"), Word("2"), operator("]")]);
        for (text, at) in [("\u{e4}", 1), ("tcp ?", 5), ("a $ b", 3)] {
            assert_eq!(tokens(text).unwrap_err().at, at, "{text}");
        }
    }
}
