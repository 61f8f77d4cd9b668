//! Experiments on the command line: which file is meant, where its results go, what is shown while it runs.
//!
//! `file.rs` (a path or a shipped name to a plan), `run.rs` (begin or resume, measure, end), `live.rs` and `plain.rs` (the two views,
//! with the words of `words.rs`), `runs.rs` (what is in a results folder), `clean.rs` (what killed runs left),
//! `consent.rs` (the commands of a file, before its first run).

pub mod clean;
pub mod consent;
pub mod file;
mod live;
pub mod place;
mod plain;
pub mod run;
pub mod runs;
pub mod shipped;
mod view;
pub mod words;
