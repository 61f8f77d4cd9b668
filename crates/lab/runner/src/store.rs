//! What keeps the results while they come in.

use std::io;

use linerate_report::{Results, ResultsFolder};

/// Keeps results. Called after every trial.
pub trait Store {
    /// Keeps what there is now.
    ///
    /// # Errors
    /// When it cannot be kept; what was kept before still is.
    fn save(&mut self, results: &Results) -> io::Result<()>;

    /// Keeps what the device of a cell showed around a trial.
    ///
    /// # Errors
    /// As [`Store::save`].
    fn keep_shown(&mut self, cell: &str, trial: &str, text: &str) -> io::Result<()>;
}

impl Store for ResultsFolder {
    fn save(&mut self, results: &Results) -> io::Result<()> {
        ResultsFolder::save(self, results)
    }

    fn keep_shown(&mut self, cell: &str, trial: &str, text: &str) -> io::Result<()> {
        ResultsFolder::keep_shown(self, cell, trial, text)
    }
}
