//! The account of a trial: what the counters of a path say, by place and cause, and when cores were away.
//!
//! Each line uses those below it only (`cargo xtask tidy` finds circles):
//!
//! ```text
//! stalls                                      when cores were away, and what was lost meanwhile
//! ledger                                      the account of a trial, and remarks on it
//! places                                      what the counters' differences say: losses by place and cause
//! counters                                    every counter of a path, read at once
//! drops, hooks, turns                         the kernel's reasons for drops, its hooks; what a sending loop notes of time
//! ```

pub mod attribution;
pub mod counters;
pub mod drops;
pub mod hooks;
pub mod ledger;
pub mod stalls;
pub mod turns;
