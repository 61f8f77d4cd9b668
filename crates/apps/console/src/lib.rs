//! What the commands share.
//!
//! ```text
//! line.rs      lines for people, though nobody may read them       live.rs     a line a second
//! open.rs      specs -> ports on one pool                           watch.rs    a thread until it is stopped; notify.rs
//! cores.rs     which thread runs where; claims.rs: who else is there     shares.rs  whether queues have equal shares
//! tables.rs    what each queue and each core did
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod claims;
pub mod cores;
mod line;
pub mod live;
pub mod notify;
pub mod open;
pub mod shares;
pub mod tables;
pub mod watch;

pub use line::{err, note, out, print};
use linerate_report::Tool;

/// This program.
pub fn tool() -> Tool {
    Tool::new("linerate", env!("CARGO_PKG_VERSION"))
}
