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
//! let experiment = linerate_testbed::dut::parse(file, "quick.toml").unwrap();
//! let ids: Vec<String> = experiment.cells().into_iter().map(|cell| cell.id).collect();
//! assert_eq!(ids, ["plain/64/1/one-way", "plain/64/10000/one-way"]);
//!
//! let errors = linerate_testbed::dut::parse(&file.replace("router", "rooter"), "quick.toml").unwrap_err();
//! assert!(errors.to_string().starts_with("error: quick.toml:7:8: unknown kind of DUT \"rooter\"; expected one of router,"));
//! ```
//! `docs/experiments.md` describes the format. Reading order: `model/` (what a plan is), `read/` (one file a part of the format),
//! `cells.rs` and `estimate.rs` (what a plan comes to); `section.rs`, `error.rs`, `words.rs` and `scalar.rs` are tools. What a
//! device is its kind says, which `read/dut.rs` asks by a [`DutReader`]; the kinds are in the testbed.

#![forbid(unsafe_code)]

mod cells;
mod error;
mod estimate;
mod model;
mod names;
mod read;
mod scalar;
pub mod section;
mod words;

pub use cells::CellSpec;
pub use error::Errors;
pub use estimate::Estimate;
pub use model::{
    Addresses6, CellMatch, Cores, CoresSpec, DirectLink, Direction, DutCores, DutKind, DutReader, DutSettings, DutSpec,
    EchoOrder, EchoStack, Experiment, FlowIp, FlowOrder, FlowSpec, IpVersion, Limit, LimitOf, LossGoal, NextHop,
    Phases, PortEnd, Published, Search, SessionKind, Sessions, SizeSpec, TestKind, TestSpec, TesterPorts,
    TimestampSource, TopologyKind, shell_line,
};
pub use names::{FRAME_IPV6_MIN, matches_glob};
pub use read::{TEXT_LEN_MAX, parse};
