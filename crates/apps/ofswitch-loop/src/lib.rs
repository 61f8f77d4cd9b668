//! What packets and the messages of controllers pass of the OpenFlow switch as a program. It is a crate of its own because it is compiled to
//! run fast; the rest of the program is compiled quickly (`profile.release.package` in the workspace's Cargo.toml).
#![forbid(unsafe_code)]

mod answer;
pub mod connection;
pub mod stream;

use linerate_pipeline::Forwarder;
use linerate_worker::{Control, End, Steered, Worker};

/// The forwarder of one worker, with the steering between workers in front of it.
pub type SteeredForwarder = Steered<Forwarder>;

/// [`Worker::run`] for an OpenFlow switch.
pub fn run_worker(worker: &mut Worker<SteeredForwarder>, control: &Control) -> End {
    worker.run(control)
}
