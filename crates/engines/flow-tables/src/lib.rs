//! Flow tables of the OpenFlow switch, and what packets pass: the datapath of a worker. No sockets, no clock. Ports, groups, meters and all other
//! requests of controllers are in `linerate-pipeline`.
//!
//! ```text
//! control thread   FlowTables  flow-mods, timeouts, statistics of entries, packets from and for controllers; publishes State
//!                    |  Shared: classifiers, entries, states (linerate-classify: workers read them without locks)
//! worker           Forwarder   a Datapath: parse -> way through the tables -> egress queues
//! ```
#![forbid(unsafe_code)]

mod action_set;
mod by_number;
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
mod tables;
mod tally;

pub use action_set::{ActionSet, groups_of};
pub use by_number::ByNumber;
pub use drops::DropReason;
pub use facts::flow_hash;
pub use flow_view::Instructions;
pub use forwarder::{BindingKind, Forwarder};
pub use group_view::{BucketView, GroupView};
pub use meter_view::MeterView;
pub use port_view::{PortShared, PortView, QueueSettings};
pub use shared::{State, TABLES};
pub use tables::{Event, FlowDump, FlowTables, FlowTablesOptions, Permits, Totals};
pub use tally::WorkerTotals;
