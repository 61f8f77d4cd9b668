//! What packets pass of the L2 switch as a program. It is a crate of its own because it is compiled to run fast; the rest of the program,
//! which no packet passes, is compiled quickly (`profile.release.package` in the workspace's Cargo.toml).
#![forbid(unsafe_code)]

mod inline;

use linerate_l2::{MacEntry, Switch};
use linerate_worker::{Control, End, Steered, Worker};

pub use inline::{Clocks, InlinePort, InlineSwitch};

/// The L2 switch of one worker, with the steering between workers in front of it.
pub type SteeredSwitch = Steered<Switch>;

/// [`Worker::run`] for an L2 switch.
pub fn run_worker(worker: &mut Worker<SteeredSwitch>, control: &Control) -> End {
    worker.run(control)
}

/// Addresses of the MAC table behind the first `skipped`, `most` at most, and whether more follow. A job of the worker.
pub fn macs(switch: &Switch, skipped: usize, most: usize) -> (Vec<MacEntry>, bool) {
    let mut entries = switch.macs().skip(skipped);
    let macs = entries.by_ref().take(most).collect();
    (macs, entries.next().is_some())
}
