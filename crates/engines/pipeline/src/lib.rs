//! The OpenFlow switch without sockets and clock: ports, groups, meters, features of tables, and the answers to controllers. No packet passes code
//! that is compiled here: the flow tables, and the forwarders that take packets through them, are in `linerate-flow-tables`.
//!
//! ```text
//! control thread   Switch      groups, meters, ports, features, statistics, traces, saved state
//!                    FlowTables  flow-mods, timeouts, statistics of entries, packets from and for controllers
//! worker           Forwarder   a Datapath: parse -> way through the tables -> egress queues
//! ```
#![forbid(unsafe_code)]

mod build;
mod switch;

pub use linerate_flow_tables::{
    BindingKind, DropReason, Event, FlowDump, FlowTablesOptions, Forwarder, QueueSettings, Totals, WorkerTotals,
};
/// Packets as OpenFlow sees them: header positions, the fields that a match compares, the header actions.
pub mod packet {
    pub use linerate_flow_tables::packet::*;

    pub use crate::build::build_packet;
}

pub use switch::{
    GROUPS_MAX, PortError, PortSettings, Saved, Switch, SwitchOptions, TraceStep, TracedEntry, saved_flow,
};
