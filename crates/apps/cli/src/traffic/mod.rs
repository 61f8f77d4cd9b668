//! What `linerate send` and `linerate receive` share: flags for streams, opening ports, threads, live counts, documents.
//!
//! ```text
//! streams.rs    flags -> stream file -> streams         rules.rs      --vary and --set in words of a stream file
//! open.rs       specs -> ports on one pool              cores.rs      which thread runs where; claims.rs: who else is there
//! prepare.rs    streams x port -> plan, with checks      sending.rs    threads that send (and receive beside it)
//! watch.rs      a thread until it is stopped; notify.rs   progress.rs   what live.rs shows a second
//! replay.rs     --replay: captures instead of streams
//! document.rs   the JSON documents                      text.rs       the same for people
//! ```

pub mod claims;
pub mod cores;
pub mod document;
pub mod keys;
pub mod live;
pub mod neighbours;
pub mod notify;
pub mod open;
pub mod prepare;
pub mod progress;
pub mod replay;
pub mod rules;
pub mod sending;
pub mod streams;
pub mod text;
pub mod watch;

/// Writes a line for people to stderr.
pub fn note(line: &str) {
    crate::console::err(line);
}
