//! Every report of an experiment, by file name.

use crate::Results;

/// Names and texts of the files that stand beside the document.
pub(crate) fn reports(_results: &Results) -> Vec<(&'static str, String)> {
    Vec::new()
}
