//! The OpenFlow switch's pipeline: tables, groups, meters and statistics, and what they do to packets. No sockets, no clock.
//!
//! ```text
//! control thread   Switch      flow-mods, groups, meters, ports, timeouts, statistics, packets from and for controllers
//!                    |  Shared: classifiers, entries, states (linerate-classify: workers read them without locks)
//! worker           Forwarder   a Datapath: parse -> way through the tables -> egress queues
//! ```
#![forbid(unsafe_code)]

mod action_set;
mod choose;
mod drops;
mod facts;
mod flow_view;
mod forwarder;
mod group_view;
mod mac;
mod meter_view;
pub mod packet;
mod port_view;
mod records;
mod relevant;
mod shared;
mod switch;
mod tally;

pub use drops::DropReason;
pub use forwarder::{BindingKind, Forwarder};
pub use port_view::QueueSettings;
pub use switch::{
    Event, FlowDump, GROUPS_MAX, PortError, PortSettings, Saved, Switch, SwitchOptions, Totals, TraceStep, TracedEntry,
    saved_flow,
};
pub use tally::WorkerTotals;
