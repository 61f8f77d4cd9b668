//! What the commands share.
//!
//! ```text
//! line.rs      lines for people, though nobody may read them       live.rs     a line a second
//! open.rs      specs -> ports on one pool                           watch.rs    a thread until it is stopped; notify.rs
//! cores.rs     which thread runs where; claims.rs: who else is there     shares.rs  whether queues have equal shares
//! tables.rs    what each queue and each core did
//! attach.rs    valeS:P names                                        reason.rs   why shares are unequal; holder.rs: who holds a lock
//! freebsd/     those of them that differ there
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

#[cfg_attr(target_os = "freebsd", path = "freebsd/attach.rs")]
mod attach;
pub mod claims;
pub mod cores;
#[cfg_attr(target_os = "freebsd", path = "freebsd/holder.rs")]
mod holder;
mod line;
pub mod live;
pub mod notify;
pub mod open;
#[cfg_attr(target_os = "freebsd", path = "freebsd/reason.rs")]
mod reason;
pub mod shares;
pub mod tables;
pub mod watch;

pub use line::{err, lost_output, note, out, print};
use linerate_units::Tool;

/// This program.
pub fn tool() -> Tool {
    Tool::new("linerate", env!("CARGO_PKG_VERSION"))
}
