//! Experiment files: what to measure, on what, under which loads.
//!
//! An [`Experiment`] is a checked plan; the lab carries it out. The crate opens no port and measures nothing.
//!
//! ```
//! let file = r#"
//! name = "quick"
//! title = "A plain router"
//!
//! [[dut]]
//! name = "plain"
//! kind = "router"
//!
//! [matrix]
//! sizes = [64]
//! flows = [1, 10000]
//!
//! [[test]]
//! kind = "throughput"
//! "#;
//! let experiment = linerate_experiment::parse(file, "quick.toml").unwrap();
//! let ids: Vec<String> = experiment.cells().into_iter().map(|cell| cell.id).collect();
//! assert_eq!(ids, ["plain/64/1/one-way", "plain/64/10000/one-way"]);
//!
//! let errors = linerate_experiment::parse(&file.replace("router", "rooter"), "quick.toml").unwrap_err();
//! assert!(errors.to_string().starts_with("error: quick.toml:7:8: unknown kind of DUT \"rooter\"; expected one of router,"));
//! ```
//! `docs/experiments.md` describes the format. Reading order: `model/` (what a plan is), `read/` (one file a part of the format),
//! `cells.rs` and `estimate.rs` (what a plan comes to); `error.rs`, `words.rs`, `scalar.rs` and `read/section.rs` are tools.

#![forbid(unsafe_code)]

mod cells;
mod error;
mod estimate;
mod model;
mod names;
mod read;
mod scalar;
mod words;

pub use cells::CellSpec;
pub use error::Errors;
pub use estimate::Estimate;
pub use model::{
    Addresses6, Capture, CaptureCores, CaptureTool, CellMatch, Command, Cores, CoresSpec, DirectLink, Direction,
    DutCores, DutKind, DutSpec, EchoOrder, EchoStack, ExpectedLoss, Experiment, Firewall, FirewallTool, FlowIp,
    FlowOrder, FlowSpec, FlowSwitch, IpVersion, Limit, LimitOf, LossGoal, NextHop, Phases, PortEnd, Published,
    Reception, Search, SessionKind, Sessions, SizeSpec, SwitchPorts, TestKind, TestSpec, TesterPorts, TopologyKind,
};
pub use names::{FRAME_IPV6_MIN, matches_glob};
pub use read::{TEXT_LEN_MAX, parse};
