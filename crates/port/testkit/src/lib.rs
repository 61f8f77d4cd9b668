//! The conformance suite that every port passes: the contract of [`linerate_port::Port`], as checks.
//!
//! A backend's `tests/conformance.rs` implements [`Harness`] - how to open a link of that backend, and what is known about
//! it - and calls [`check_all`]. Which checks apply follows from the port's [`linerate_port::Caps`] and from the harness's
//! [`Facts`]; a check that does not apply says why in the report. Each check opens a fresh link on a fresh pool, and after
//! each the pool must be whole.
//!
//! ```text
//! harness.rs   what a backend tells the suite          packets.rs   packets that can be recognised to the bit
//! session.rs   one link in use: builds, sends,         checks/      one file a subject
//!              receives, keeps its own account         report.rs    the outcome, for people
//! probe.rs     a port made of two closures, for backends that have only one direction, or no second end
//! child.rs     this test binary again, as a process to be killed        rings.rs   links between threads, by rings
//! memory.rs    what a process takes                        skip.rs     which errors skip a test
//! segments.rs  TCP segments that a port may hand over many at a time
//! load.rs      load beside a test
//! ```
//! A port that takes the contract seriously has no luck to rely on: nothing here depends on timing, except that a packet that
//! does not arrive within [`Facts::patience`] counts as lost.
#![forbid(unsafe_code)]

mod checks;
pub mod child;
mod harness;
mod load;
pub mod memory;
mod outcome;
mod packets;
mod probe;
mod report;
mod rings;
mod segments;
mod session;
mod skip;

pub use checks::check_names;
pub use harness::{Disturbance, Facts, Harness, Hit, Link, Reopen};
pub use load::under_load;
pub use outcome::Outcome;
pub use probe::{ProbePort, ReceiveProbe, SendProbe};
pub use report::{Line, Report, check_all, run_all, run_check};
pub use rings::Rings;
pub use segments::{append_partial, tcp_segments};
pub use skip::{may_skip, or_skip, program_or_skip};
