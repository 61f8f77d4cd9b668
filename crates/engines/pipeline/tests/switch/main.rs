//! The switch driven without a worker: control side, one forwarder, packets in and out.

mod flows;
mod frames;
mod groups;
mod rig;
mod threads;
mod workers;
