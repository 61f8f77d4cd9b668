//! Documents of the switch: the replies to `show`, and the lines of `linerate ofswitch --json`. docs/ofswitch.md lists the fields. Counts
//! are packets, bytes are without FCS.

use std::collections::BTreeMap;

use linerate_control::WorkerDocument;
use serde::{Deserialize, Serialize};

/// Schema of the lines of `linerate ofswitch --json`.
pub const SCHEMA: &str = "linerate.ofswitch/1";

/// The whole switch at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// [`SCHEMA`].
    pub schema: String,
    /// Name of the switch.
    pub name: String,
    /// Datapath ID, 16 hexadecimal digits.
    pub dpid: String,
    /// Seconds since it started.
    pub seconds: f64,
    /// Its ports, by OpenFlow number, with those that are being opened again.
    pub ports: Vec<PortDocument>,
    /// The account of all packets.
    pub totals: TotalsDocument,
    /// Tables that have entries or were looked up.
    pub tables: Vec<TableDocument>,
    /// Caches of the workers.
    pub flowcache: FlowcacheDocument,
    /// Controllers.
    pub controllers: Vec<ControllerDocument>,
    /// How the workers spent their time.
    pub workers: Vec<OfWorkerDocument>,
    /// The switch has ended: nothing waits any more.
    #[serde(default)]
    pub last: bool,
}

/// What a worker did, and how it spent its time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OfWorkerDocument {
    /// How it spent its time.
    #[serde(flatten)]
    pub worker: WorkerDocument,
    /// The ports of which it has queues, by OpenFlow number.
    #[serde(default)]
    pub ports: Vec<String>,
    /// Packets that went through the tables here: those that arrived by its ports, less those that it steered to others, and those that others
    /// steered to it.
    #[serde(default)]
    pub received: u64,
    /// Packets that they took.
    #[serde(default)]
    pub sent: u64,
    /// Packets that it handed over to the workers of their ports.
    #[serde(default)]
    pub handed_over: u64,
    /// Packets that others handed over to it.
    #[serde(default)]
    pub handed_in: u64,
    /// Packets that arrived at its ports and went to other workers, which decide on them.
    #[serde(default)]
    pub steered_out: u64,
    /// Packets that arrived at ports of other workers and that went through the tables here.
    #[serde(default)]
    pub steered_in: u64,
}

/// A port; its name is its OpenFlow number.
pub type PortDocument = linerate_control::PortDocument<CountersDocument>;

/// What OpenFlow knows of a port.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CountersDocument {
    /// Its name in OpenFlow.
    pub of_name: String,
    /// Ethernet address.
    pub hw_addr: String,
    /// Bits of its configuration by name: `PORT_DOWN`, `NO_RECV`, `NO_FWD`, `NO_PACKET_IN`.
    pub config: Vec<String>,
    /// It has a link.
    pub link_up: bool,
    /// A fast-failover bucket that watches the port may be used.
    pub live: bool,
    /// Rate in kbit/s.
    pub speed_kbps: u32,
    /// Packets received.
    pub rx_packets: u64,
    /// Their bytes.
    pub rx_bytes: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// Packets dropped when they arrived.
    pub rx_dropped: u64,
    /// Packets dropped when they were to leave.
    pub tx_dropped: u64,
}

/// The account: `received + packet_outs + copies = sent + waiting + to_controller + dropped`. Copies are counted from the second place in which
/// a packet ends up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TotalsDocument {
    /// Came from ports.
    pub received: u64,
    /// Came from controllers.
    pub packet_outs: u64,
    /// Copies made beyond the packet itself, for further ports and controllers.
    pub copies: u64,
    /// Taken by ports.
    pub sent: u64,
    /// Still in queues, or on their way between workers.
    pub waiting: u64,
    /// Handed to the control thread for the controllers.
    pub to_controller: u64,
    /// Went nowhere.
    pub dropped: u64,
    /// The same by reason.
    pub drops: BTreeMap<String, u64>,
    /// The equation that does not hold; anything but `None` is a bug.
    pub unbalanced: Option<String>,
}

/// A flow table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TableDocument {
    /// Its number.
    pub table: u8,
    /// Entries.
    pub entries: u64,
    /// Most entries.
    pub entries_max: u64,
    /// Packets looked up.
    pub lookups: u64,
    /// Packets that matched.
    pub matches: u64,
}

/// The caches of all workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowcacheDocument {
    /// Keys.
    pub entries: u64,
    /// Ways through the tables that the workers hold, each shared by the keys that take it; those that are over are forgotten together, in time.
    #[serde(default)]
    pub ways: u64,
    /// Packets whose way was known: their key was found, or they are like packets of late in what the tables looked at.
    pub hits: u64,
    /// Packets that went through the tables.
    pub misses: u64,
}

/// A flow entry.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowDocument {
    /// Its table.
    pub table: u8,
    /// Its priority.
    pub priority: u16,
    /// Its cookie.
    pub cookie: u64,
    /// Seconds that it lives.
    pub seconds: f64,
    /// Idle timeout in seconds; 0: none.
    pub idle_timeout_s: u16,
    /// Hard timeout in seconds; 0: none.
    pub hard_timeout_s: u16,
    /// Packets that matched.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Match in the syntax of ovs-ofctl.
    #[serde(rename = "match")]
    pub matching: String,
    /// Instructions in the syntax of ovs-ofctl.
    pub actions: String,
    /// The entry as Lagopus writes it.
    pub line: String,
}

/// A part of the flow entries, or of the lines of a state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part<T> {
    /// The part.
    pub items: Vec<T>,
    /// Where to go on; `None` at the end.
    pub next: Option<u64>,
}

/// A controller, or one that connected to the switch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ControllerDocument {
    /// `tcp:...` or `ssl:...` of the configuration, or the address from which it connected.
    pub target: String,
    /// `active`: the switch connects; `passive`: the controller does.
    pub side: String,
    /// Number of an auxiliary connection; 0 for a main one.
    pub auxiliary: u8,
    /// The messages flow: both have said HELLO.
    pub connected: bool,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// `equal`, `master` or `slave`.
    pub role: String,
    /// Seconds since it connected.
    pub seconds: f64,
    /// Bytes that came from it.
    pub received_bytes: u64,
    /// Bytes that were sent to it.
    pub sent_bytes: u64,
    /// Requests that were carried out.
    pub requests: u64,
    /// Requests that were refused.
    pub refused: u64,
    /// Packets that were sent to it.
    pub packet_ins: u64,
    /// Packets that were not, because of the limit of packet-ins or because it does not read.
    pub packet_ins_dropped: u64,
}

/// The switch itself, in Lagopus's words.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BridgeDocument {
    /// Its name.
    pub name: String,
    /// Datapath ID, 16 hexadecimal digits.
    pub dpid: String,
    /// Packets that wait for a controller's word, at most.
    pub buffers: u32,
    /// Number of tables.
    pub tables: u8,
    /// Capabilities by name, on or off.
    pub capabilities: BTreeMap<String, bool>,
    /// `secure` or `standalone`.
    pub fail_mode: String,
    /// No controller is connected, and the switch forwards by itself.
    pub standalone: bool,
    /// `normal`, `drop` or `reassemble`.
    pub fragments: String,
    /// Ports: name and number.
    pub ports: Vec<BridgePortDocument>,
}

/// A port in a [`BridgeDocument`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BridgePortDocument {
    /// Its name in OpenFlow.
    pub name: String,
    /// Its number in its worker.
    pub ifindex: u32,
    /// Its OpenFlow number, or `LOCAL`.
    pub number: String,
}

/// A group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GroupDocument {
    /// The group.
    pub group: u32,
    /// The group in the syntax of ovs-ofctl.
    pub text: String,
    /// Entries and groups that use it.
    pub references: u32,
    /// Seconds that it exists.
    pub seconds: f64,
    /// Packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets and bytes of its buckets.
    pub buckets: Vec<PairDocument>,
}

/// A meter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MeterDocument {
    /// The meter.
    pub meter: u32,
    /// The meter in the syntax of ovs-ofctl.
    pub text: String,
    /// Entries that use it.
    pub flows: u32,
    /// Seconds that it exists.
    pub seconds: f64,
    /// Packets that came.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets and bytes over the rates of its bands.
    pub bands: Vec<PairDocument>,
}

/// Packets and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PairDocument {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

/// A queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QueueDocument {
    /// Its port.
    pub port: String,
    /// The queue.
    pub queue: u32,
    /// Rate that it gets before others, in bit/s.
    pub min_rate_bps: Option<u64>,
    /// Rate that it does not exceed, in bit/s.
    pub max_rate_bps: Option<u64>,
    /// Packets sent.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets dropped.
    pub dropped: u64,
}

/// Packets that were lost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DropDocument {
    /// `switch`, or the number of a port that lost them itself.
    pub at: String,
    /// Why.
    pub reason: String,
    /// How many.
    pub packets: u64,
}

/// Time in the switch, by egress port.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencyDocument {
    /// The egress port.
    pub to: String,
    /// Packets.
    pub packets: u64,
    /// Half of them took less.
    pub p50_ns: u64,
    /// 99 of 100 took less.
    pub p99_ns: u64,
    /// 999 of 1,000 took less.
    pub p999_ns: u64,
    /// The longest time.
    pub max_ns: u64,
}

/// The way of one packet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TraceDocument {
    /// The steps, in their order.
    pub steps: Vec<String>,
    /// Where it ends: ports, the controllers, or why it goes nowhere.
    pub verdict: String,
}
