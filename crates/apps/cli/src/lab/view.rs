//! Who watches a run: lines that update themselves on a terminal, plain lines elsewhere.

use linerate_runner::Event;

use super::live::Live;
use super::plain::Plain;

/// A view on stderr.
pub enum View {
    /// On a terminal.
    Live(Live),
    /// Anywhere.
    Plain(Plain),
}

impl View {
    /// The live one when stderr is a terminal, unless plain lines are wanted.
    pub fn new(plain: bool) -> View {
        match Live::on_stderr().filter(|_| !plain) {
            Some(live) => View::Live(live),
            None => View::Plain(Plain::default()),
        }
    }

    /// Shows what happened.
    pub fn see(&mut self, event: &Event<'_>) {
        match self {
            View::Live(live) => live.see(event),
            View::Plain(plain) => plain.see(event),
        }
    }
}
