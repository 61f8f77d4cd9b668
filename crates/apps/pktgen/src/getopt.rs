//! The option grammar of getopt(3) (POSIX.1-2017, XBD 12.2), as the original `pkt-gen` used it.
//!
//! Options are single letters, may be clustered (`-XA`), and take their argument joined (`-l60`) or as the next word (`-l 60`).
//! `--` ends the options. What getopt(3) leaves to its caller is an error here: words that are no options have no meaning.

use std::fmt;

/// One option as it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// The letter.
    pub letter: char,
    /// Its argument; empty for letters that take none.
    pub argument: String,
}

/// What is wrong with a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GetoptError {
    /// A letter that is not in the grammar.
    Unknown(char),
    /// A letter that wants an argument stands at the end.
    MissingArgument(char),
    /// A word that belongs to no option.
    Operand(String),
}

impl fmt::Display for GetoptError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GetoptError::Unknown(letter) => write!(out, "there is no option -{letter}"),
            GetoptError::MissingArgument(letter) => write!(out, "-{letter} needs an argument"),
            GetoptError::Operand(word) => write!(out, "{word:?} belongs to no option"),
        }
    }
}

/// Takes `words` apart by `grammar`: the letters that exist, each followed by `:` if it takes an argument.
pub fn getopt(grammar: &str, words: &[String]) -> Result<Vec<Given>, GetoptError> {
    let mut given = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let cluster = match word.strip_prefix('-') {
            Some("-") => break,
            Some(cluster) if !cluster.is_empty() => cluster,
            _ => return Err(GetoptError::Operand(word.clone())),
        };
        let mut letters = cluster.chars();
        while let Some(letter) = letters.next() {
            if !takes_argument(grammar, letter)? {
                given.push(Given { letter, argument: String::new() });
                continue;
            }
            let joined = letters.as_str();
            let argument = if joined.is_empty() { words.next().cloned() } else { Some(joined.to_string()) };
            given.push(Given { letter, argument: argument.ok_or(GetoptError::MissingArgument(letter))? });
            break;
        }
    }
    match words.next() {
        Some(word) => Err(GetoptError::Operand(word.clone())),
        None => Ok(given),
    }
}

fn takes_argument(grammar: &str, letter: char) -> Result<bool, GetoptError> {
    if letter == ':' {
        return Err(GetoptError::Unknown(letter));
    }
    let at = grammar.find(letter).ok_or(GetoptError::Unknown(letter))?;
    Ok(grammar[at + letter.len_utf8()..].starts_with(':'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(line: &str) -> Result<Vec<(char, String)>, GetoptError> {
        let words: Vec<String> = line.split_whitespace().map(str::to_string).collect();
        Ok(getopt("ab:Xl:", &words)?.into_iter().map(|given| (given.letter, given.argument)).collect())
    }

    fn list(options: &[(char, &str)]) -> Vec<(char, String)> {
        options.iter().map(|(letter, argument)| (*letter, (*argument).to_string())).collect()
    }

    #[test]
    fn takes_clusters_and_joined_arguments() {
        assert_eq!(parse("-a -b 1 -l60"), Ok(list(&[('a', ""), ('b', "1"), ('l', "60")])));
        assert_eq!(parse("-aXl60 -Xb -a"), Ok(list(&[('a', ""), ('X', ""), ('l', "60"), ('X', ""), ('b', "-a")])));
        assert_eq!(parse("-a --"), Ok(list(&[('a', "")])));
        assert_eq!(parse(""), Ok(Vec::new()));
        // An argument may look like an option, as with getopt(3).
        assert_eq!(parse("-b --"), Ok(list(&[('b', "--")])));
    }

    #[test]
    fn refuses_what_it_does_not_know() {
        assert_eq!(parse("-q"), Err(GetoptError::Unknown('q')));
        assert_eq!(parse("-:"), Err(GetoptError::Unknown(':')));
        assert_eq!(parse("-aé"), Err(GetoptError::Unknown('é')));
        assert_eq!(parse("--long"), Err(GetoptError::Unknown('-')));
        assert_eq!(parse("-a -l"), Err(GetoptError::MissingArgument('l')));
        assert_eq!(parse("eth0 -a"), Err(GetoptError::Operand("eth0".into())));
        assert_eq!(parse("-a -"), Err(GetoptError::Operand("-".into())));
        assert_eq!(parse("-a -- x"), Err(GetoptError::Operand("x".into())));
    }

    proptest! {
        #[test]
        fn never_panics_and_gives_only_letters_of_the_grammar(words in proptest::collection::vec("[-a-zA-Z0-9:é]{0,6}", 0..6)) {
            for given in getopt("ab:Xl:", &words).unwrap_or_default() {
                prop_assert!("abXl".contains(given.letter));
                prop_assert!("bl".contains(given.letter) || given.argument.is_empty());
            }
        }
    }
}
