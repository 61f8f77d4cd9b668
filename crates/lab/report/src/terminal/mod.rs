//! Text for terminals: results of experiments, and the ledger of one trial.

mod experiment;
mod ledger;
mod page;
mod table;

use crate::Trial;
pub(crate) use experiment::grids;
pub use experiment::{results_screen, results_terminal, trials_terminal};
use page::Page;
pub(crate) use page::{clean, wrap};

/// Writes the ledger of one trial, for a command that shows trials as they end.
pub fn ledger(trial: &Trial, columns: usize, colour: bool) -> String {
    let mut page = Page::new(columns, colour);
    ledger::print(&mut page, trial);
    page.finish()
}
