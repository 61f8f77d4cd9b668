//! What packets pass of `linerate bridge` and `linerate lb`. It is a crate of its own because it is compiled to run fast; the rest of
//! `linerate-bridge`, which no packet passes, is compiled quickly (`profile.release.package` in the workspace's Cargo.toml).
//!
//! ```text
//! lane.rs      the datapath of a bridge: what came, what went, what is held
//! balance.rs   that of a balancer         spread.rs   packet -> output: a pure function         output.rs   one output: its queue and its counts
//! ```
#![forbid(unsafe_code)]

pub mod balance;
pub mod lane;
pub mod output;
pub mod spread;

use linerate_worker::{Control, End, Worker};

use crate::balance::Balancer;
use crate::lane::Bridge;

/// [`Worker::run`] for a bridge.
pub fn run_bridge(worker: &mut Worker<Bridge>, control: &Control) -> End {
    worker.run(control)
}

/// [`Worker::run`] for a balancer.
pub fn run_balancer(worker: &mut Worker<Balancer>, control: &Control) -> End {
    worker.run(control)
}
