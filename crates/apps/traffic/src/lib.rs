//! What `linerate send` and `linerate receive` share: flags for streams, threads, live counts, documents.
//!
//! ```text
//! streams.rs    flags -> stream file -> streams         rules.rs      --vary and --set in words of a stream file
//! prepare.rs    streams x port -> plan, with checks      sending.rs    threads that send (and receive beside it)
//! receiving.rs  threads that receive
//! replay.rs     --replay: captures instead of streams    progress.rs   what is shown a second
//! document.rs   the JSON documents                      text.rs       the same for people
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod document;
pub mod keys;
#[cfg_attr(target_os = "freebsd", path = "freebsd/neighbours.rs")]
pub mod neighbours;
pub mod prepare;
pub mod progress;
pub mod receiving;
pub mod replay;
pub mod rules;
pub mod sending;
pub mod streams;
pub mod text;
