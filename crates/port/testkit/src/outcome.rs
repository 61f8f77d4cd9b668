//! The outcome of one check.

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The port keeps this part of the contract; the text says what was done.
    Passed(String),
    /// The check says nothing about this port; the text says why.
    NotApplicable(String),
    /// The port breaks the contract; the text says how.
    Failed(String),
}
