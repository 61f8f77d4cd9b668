//! Multipart requests and replies (section 7.3.5), each whole: the session splits them and puts them together.

use crate::TableFeatures;
use crate::{
    Band, Bucket, ExperimenterPart, FlowFilter, FlowFlags, GroupKind, Instruction, Match, MeterFlags, PortDescription,
    PortNumber,
};

/// What a controller asks (`OFPT_MULTIPART_REQUEST`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MultipartRequest {
    /// Who made the switch.
    Description,
    /// Flow entries, one by one.
    Flow(FlowFilter),
    /// Flow entries, their sum.
    Aggregate(FlowFilter),
    /// Counters of tables.
    Table,
    /// Counters of a port, or of all ([`PortNumber::ANY`]).
    Port(PortNumber),
    /// Counters of queues: port or [`PortNumber::ANY`], queue or `0xffffffff`.
    Queue(PortNumber, u32),
    /// Counters of a group, or of all ([`crate::GROUP_ALL`]).
    Group(u32),
    /// The groups themselves.
    GroupDescription,
    /// What groups can do.
    GroupFeatures,
    /// Counters of a meter, or of all ([`crate::METER_ALL`]).
    Meter(u32),
    /// A meter itself, or all.
    MeterConfig(u32),
    /// What meters can do.
    MeterFeatures,
    /// What tables can do; with a body: what they shall do.
    TableFeatures(Vec<TableFeatures>),
    /// The ports themselves.
    PortDescription,
}

/// The answer (`OFPT_MULTIPART_REPLY`), one for each request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each answers the request of its name")]
pub enum MultipartReply {
    Description(SwitchDescription),
    Flow(Vec<FlowStats>),
    Aggregate(AggregateStats),
    Table(Vec<TableStats>),
    Port(Vec<PortStats>),
    Queue(Vec<QueueStats>),
    Group(Vec<GroupStats>),
    GroupDescription(Vec<GroupDescription>),
    GroupFeatures(GroupFeatures),
    Meter(Vec<MeterStats>),
    MeterConfig(Vec<MeterConfig>),
    MeterFeatures(MeterFeatures),
    TableFeatures(Vec<TableFeatures>),
    PortDescription(Vec<PortDescription>),
}

/// What the switch can do (`OFPT_FEATURES_REPLY`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchFeatures {
    /// Datapath ID.
    pub datapath_id: u64,
    /// Packets that buffers hold.
    pub buffers: u32,
    /// Number of tables.
    pub tables: u8,
    /// Number of an auxiliary connection; 0 for the main one.
    pub auxiliary_id: u8,
    /// `OFPC_*` bits.
    pub capabilities: u32,
}

/// Texts about the switch (`ofp_desc`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SwitchDescription {
    /// Manufacturer; at most 255 bytes are sent, as of the next two.
    pub manufacturer: String,
    /// Hardware.
    pub hardware: String,
    /// Software.
    pub software: String,
    /// Serial number; at most 31 bytes.
    pub serial: String,
    /// The datapath in the user's words; at most 255 bytes.
    pub datapath: String,
}

/// A flow entry with its counters (`ofp_flow_stats`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowStats {
    /// Its table.
    pub table: u8,
    /// How long it lives, in nanoseconds.
    pub duration_ns: u64,
    /// Its priority.
    pub priority: u16,
    /// Its idle time in seconds.
    pub idle_timeout_s: u16,
    /// Its hard time in seconds.
    pub hard_timeout_s: u16,
    /// Its flags.
    pub flags: FlowFlags,
    /// Its cookie.
    pub cookie: u64,
    /// Packets that matched.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Its match.
    pub matching: Match,
    /// Its instructions.
    pub instructions: Vec<Instruction>,
}

/// Sum over flow entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AggregateStats {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
    /// Entries.
    pub flows: u32,
}

/// Counters of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableStats {
    /// The table.
    pub table: u8,
    /// Entries.
    pub active: u32,
    /// Packets looked up.
    pub lookups: u64,
    /// Packets that matched.
    pub matches: u64,
}

/// Counters of a port; those that the switch does not count are all ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortStats {
    /// The port.
    pub port: PortNumber,
    /// Packets received.
    pub rx_packets: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets dropped when they arrived.
    pub rx_dropped: u64,
    /// Packets dropped when they were to leave.
    pub tx_dropped: u64,
    /// Errors of the receiver.
    pub rx_errors: u64,
    /// Errors of the sender.
    pub tx_errors: u64,
    /// Frames with alignment errors.
    pub rx_frame_errors: u64,
    /// Overruns of the receiver.
    pub rx_over_errors: u64,
    /// CRC errors.
    pub rx_crc_errors: u64,
    /// Collisions.
    pub collisions: u64,
    /// How long the port exists, in nanoseconds.
    pub duration_ns: u64,
}

/// A queue of a port (`OFPT_QUEUE_GET_CONFIG_REPLY`). Rates are tenths of a percent of the port's rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueConfig {
    /// The port.
    pub port: PortNumber,
    /// The queue.
    pub queue: u32,
    /// Guaranteed rate.
    pub min_rate: Option<u16>,
    /// Highest rate.
    pub max_rate: Option<u16>,
    /// Properties of experimenters.
    pub experimenters: Vec<ExperimenterPart>,
}

/// Counters of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueStats {
    /// The port.
    pub port: PortNumber,
    /// The queue.
    pub queue: u32,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Packets dropped.
    pub tx_errors: u64,
    /// How long the queue exists, in nanoseconds.
    pub duration_ns: u64,
}

/// Counters of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupStats {
    /// The group.
    pub group: u32,
    /// Entries and groups that use it.
    pub references: u32,
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
    /// How long it exists, in nanoseconds.
    pub duration_ns: u64,
    /// Its buckets.
    pub buckets: Vec<BucketStats>,
}

/// Counters of a bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BucketStats {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

/// A group as it was added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupDescription {
    /// How buckets are chosen.
    pub kind: GroupKind,
    /// The group.
    pub group: u32,
    /// Its buckets.
    pub buckets: Vec<Bucket>,
}

/// What groups can do, by kind (all, select, indirect, fast failover).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupFeatures {
    /// Bits of kinds.
    pub kinds: u32,
    /// `OFPGFC_*` bits.
    pub capabilities: u32,
    /// Most groups of each kind.
    pub max_groups: [u32; 4],
    /// Bits of actions of each kind.
    pub actions: [u32; 4],
}

/// Counters of a meter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeterStats {
    /// The meter.
    pub meter: u32,
    /// Entries that use it.
    pub flows: u32,
    /// Packets that came.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How long it exists, in nanoseconds.
    pub duration_ns: u64,
    /// Its bands.
    pub bands: Vec<BandStats>,
}

/// Counters of a band.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BandStats {
    /// Packets in the band.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// A meter as it was added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeterConfig {
    /// Its flags.
    pub flags: MeterFlags,
    /// The meter.
    pub meter: u32,
    /// Its bands.
    pub bands: Vec<Band>,
}

/// What meters can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeterFeatures {
    /// Most meters.
    pub max_meters: u32,
    /// Bits of kinds of bands.
    pub band_kinds: u32,
    /// Bits of flags.
    pub capabilities: u32,
    /// Most bands of a meter.
    pub max_bands: u8,
    /// Most colours.
    pub max_colors: u8,
}
