//! `linerate capture`: interfaces, each with a ring and a thread of its own, and where every packet is.
//!
//! ```text
//! port.rs   one ring: walks it, gives packets to the recorder, keeps its counts
//! run.rs    all of them, to their end; the accounts
//! ```

pub mod port;
pub mod run;
