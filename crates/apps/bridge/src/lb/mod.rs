//! What `linerate lb` does: packets of one port over several, by flow.
//!
//! ```text
//! spread.rs    packet -> output: a pure function      output.rs    one output: its queue and its counts
//! groups.rs    -o and -p -> outputs                   balance.rs   the datapath
//! document.rs  the account                         run.rs       from names of ports to their end
//! ```

pub mod balance;
pub mod document;
pub mod groups;
pub mod output;
pub mod run;
pub mod spread;
