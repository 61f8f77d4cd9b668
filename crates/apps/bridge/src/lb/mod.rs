//! What `linerate lb` does: packets of one port over several, by flow.
//!
//! ```text
//! groups.rs    -o and -p -> outputs
//! document.rs  the account                         run.rs       from names of ports to their end
//! ```

pub mod document;
pub mod groups;
pub mod run;
