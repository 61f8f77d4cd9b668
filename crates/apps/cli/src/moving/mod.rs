//! What `linerate bridge` and `linerate lb` share: they move packets between ports until they are stopped.
//!
//! ```text
//! frame.rs     flags, start, progress, end
//! account.rs   parts of their documents: a run, what was sent by a port, drops; as JSON and for people
//! ```

pub mod account;
pub mod frame;
