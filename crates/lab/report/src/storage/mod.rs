//! Results on disk: a folder a run. Nothing in it is ever half a file.

mod document;
mod files;
mod folder;
pub mod fuzzing;
mod journal;

pub use document::LoadError;
pub use folder::{ResultsFolder, load_results, read_results, results_json};
