//! What is wrong with a text.

/// The word of a text that is wrong, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{word}`: {problem}")]
pub struct TextError {
    /// The word as it was written.
    pub word: String,
    /// What is wrong with it, and what would be right.
    pub problem: String,
}

impl TextError {
    pub(super) fn new(word: &str, problem: impl Into<String>) -> TextError {
        TextError { word: word.chars().take(80).collect(), problem: problem.into() }
    }

    /// An unknown word, with the known one that it may have been meant to be.
    pub(super) fn unknown(word: &str, what: &str, known: &[&str]) -> TextError {
        let problem = match linerate_units::nearest(word, known) {
            Some(near) => format!("unknown {what}; did you mean `{near}`?"),
            None => format!("unknown {what}; known are {}", known.join(", ")),
        };
        TextError::new(word, problem)
    }
}
