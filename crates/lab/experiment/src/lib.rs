//! Experiment files: what to measure, on what, under which loads.
//!
//! An [`Experiment`] is a checked plan; the lab carries it out. The crate opens no port and measures nothing.

#![forbid(unsafe_code)]

mod model;

pub use model::{
    Command, Cores, Direction, DutKind, DutSpec, Experiment, Firewall, FirewallTool, FlowOrder, FlowSpec, LossGoal,
    Published, Search, SizeSpec, TestKind, TestSpec, TesterPorts, TopologyKind,
};
