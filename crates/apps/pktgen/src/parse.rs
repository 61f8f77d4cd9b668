//! The command line of pkt-gen, in netmap's letters.

use super::getopt::getopt;
use super::letters::Letters;
use super::options::{Options, UsageError};

/// The getopt string of the original, unchanged.
pub const GRAMMAR: &str = "46a:f:F:Nn:i:Il:d:s:D:S:b:c:o:p:T:w:WvR:XC:H:rP:zZAhBM:";

/// What a command line asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// `-h`, or `--help` as all other commands have it.
    Help,
    /// A run.
    Run(Box<Options>),
}

/// Reads the words behind the command's name.
pub fn parse(words: &[String]) -> Result<Request, UsageError> {
    if words.iter().any(|word| word == "--help") {
        return Ok(Request::Help);
    }
    let given = getopt(GRAMMAR, words)?;
    if given.iter().any(|given| given.letter == 'h') {
        return Ok(Request::Help);
    }
    let mut letters = Letters::default();
    given.iter().try_for_each(|given| letters.take(given))?;
    letters.check().map(|options| Request::Run(Box::new(options)))
}
