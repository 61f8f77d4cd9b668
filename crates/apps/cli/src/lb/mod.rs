//! What `linerate lb` does: packets of one port over several, by flow.
//!
//! ```text
//! spread.rs    packet -> output: a pure function      output.rs    one output: its queue and its counts
//! groups.rs    -o and -p -> outputs                   balance.rs   the loop
//! document.rs  the account
//! ```

pub mod balance;
pub mod document;
pub mod groups;
pub mod output;
pub mod spread;
