//! OpenFlow 1.3 (wire version 4) without I/O: messages as plain values, their bytes, and a switch's side of a session. `linerate-openflow-text` has
//! them as text.
//!
//! Source of all numbers: OpenFlow Switch Specification, version 1.3.5. Numbers of fields are as on the wire, in host byte order here.
#![forbid(unsafe_code)]

mod action;
mod check;
mod codec;
mod config;
mod control;
mod error;
mod experimenter;
mod field;
mod flow;
mod group;
mod matching;
mod meter;
mod numbers;
mod packet;
mod port;
mod session;
mod stats;
mod table;

pub use action::{Action, Instruction};
pub use check::check_actions;
pub use codec::{
    BadLength, Framer, HEADER_BYTES, Header, MESSAGE_BYTES_MAX, Message, PackedInstructions, PackedMatch, Part,
    ReplyPart, RequestPart, TooLong, VERSION, decode, encode, oxm_header,
};
pub use config::{AsyncConfig, ControllerRole, Fragments, SwitchConfig};
pub use control::{ErrorMessage, Hello, QueueConfigReply, RoleMessage, TableMod};
pub use error::{ErrorKind, OfError};
pub use experimenter::{Experimenter, ExperimenterField, ExperimenterPart};
pub use field::Field;
pub use flow::{FlowCommand, FlowFilter, FlowFlags, FlowMod, FlowRemoved, FlowRemovedReason};
pub use group::{Bucket, GroupCommand, GroupKind, GroupMod};
pub use matching::{FieldMatch, Match};
pub use meter::{Band, BandKind, MeterCommand, MeterFlags, MeterMod};
pub use numbers::{GROUP_ALL, GROUP_ANY, METER_ALL, METER_CONTROLLER, METER_SLOWPATH, NO_BUFFER, TABLE_ALL, TABLE_MAX};
pub use packet::{PacketIn, PacketInReason, PacketOut};
pub use port::{PortConfig, PortDescription, PortMod, PortNumber, PortState, PortStatus, PortStatusReason};
pub use session::{
    CloseReason, ControllerId, Controllers, Delivery, Reply, Request, RequestBody, Session, SessionConfig,
};
pub use stats::{
    AggregateStats, BandStats, BucketStats, FlowStats, GroupDescription, GroupFeatures, GroupStats, MeterConfig,
    MeterFeatures, MeterStats, MultipartReply, MultipartRequest, PortStats, QueueConfig, QueueStats, SwitchDescription,
    SwitchFeatures, TableStats,
};
pub use table::{TableFeatures, TableProperties};
