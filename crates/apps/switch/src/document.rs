//! Documents of the switch: the replies to `show`, and the lines of `linerate switch --json`. docs/switch.md lists
//! the fields. Counts are packets, bytes are without FCS.

use std::collections::BTreeMap;

pub use linerate_control::WorkerDocument;
use serde::{Deserialize, Serialize};

use crate::config::MirrorConfig;

/// Schema of the lines of `linerate switch --json`.
pub const SCHEMA: &str = "linerate.switch/1";

/// A port with its counters.
pub type PortDocument = linerate_control::PortDocument<CountersDocument>;

/// The whole switch at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// [`SCHEMA`].
    pub schema: String,
    /// Name of the switch.
    pub name: String,
    /// Seconds since it started.
    pub seconds: f64,
    /// Its ports, in the order of their indices, then those that are being opened again.
    pub ports: Vec<PortDocument>,
    /// The account over all ports, those that are gone included.
    pub totals: TotalsDocument,
    /// The MAC table.
    pub table: TableDocument,
    /// The workers: their ports, their packets, their time.
    pub workers: Vec<SwitchWorkerDocument>,
    /// The switch has ended: nothing waits any more.
    #[serde(default)]
    pub last: bool,
}

/// A worker of the switch. What it received and sent includes ports that it had.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SwitchWorkerDocument {
    /// How it spent its time.
    #[serde(flatten)]
    pub worker: WorkerDocument,
    /// Names of its ports.
    pub ports: Vec<String>,
    /// Packets from its ports.
    pub received: u64,
    /// Packets that its ports took.
    pub sent: u64,
    /// Packets that it gave to other workers, for their ports.
    pub handed_over: u64,
    /// Packets that it took from other workers, for its ports.
    pub handed_in: u64,
    /// Packets that arrived at its ports and went to other workers, which decide on them.
    #[serde(default)]
    pub steered_out: u64,
    /// Packets that arrived at ports of other workers and that it decided on.
    #[serde(default)]
    pub steered_in: u64,
}

/// Packets of one port, as the engine counts them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CountersDocument {
    /// Came from the port.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Part of them: went to one port.
    pub unicast: u64,
    /// Part of them: went to all that may have them.
    pub flooded: u64,
    /// Part of them: dropped, by reason.
    pub dropped: BTreeMap<String, u64>,
    /// Copies queued at other ports because of the flooded ones.
    pub flood_copies: u64,
    /// Copies queued at other ports because of mirrors, of packets that came from here.
    pub mirror_copies: u64,
    /// Copies put into the port's queue.
    pub queued: u64,
    /// Part of them: taken by the port.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Part of them: still in the queue.
    pub waiting: u64,
    /// Part of them: dropped from the queue, by reason.
    pub discarded: BTreeMap<String, u64>,
    /// Copies that were not made or not taken into the queue, by reason.
    pub refused: BTreeMap<String, u64>,
}

/// The account: `received = unicast + flooded + dropped`, `queued = unicast + flood_copies + mirror_copies` and
/// `queued = sent + waiting + discarded`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TotalsDocument {
    /// Came from ports.
    pub received: u64,
    /// Went to one port.
    pub unicast: u64,
    /// Went to all that may have them.
    pub flooded: u64,
    /// Went nowhere.
    pub dropped: u64,
    /// The same by reason, with copies that were refused and packets thrown away from queues.
    pub drops: BTreeMap<String, u64>,
    /// Copies made of the flooded ones.
    pub flood_copies: u64,
    /// Copies made by mirrors.
    pub mirror_copies: u64,
    /// Put into queues.
    pub queued: u64,
    /// Taken by ports.
    pub sent: u64,
    /// Still in queues.
    pub waiting: u64,
    /// Thrown away from queues.
    pub discarded: u64,
    /// The equation that does not hold; anything but `None` is a bug.
    pub unbalanced: Option<String>,
}

/// The MAC table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TableDocument {
    /// Addresses that it is made for.
    pub size: u64,
    /// How long an address is kept that sends nothing.
    pub ageing_s: u32,
    /// Addresses in it.
    pub used: u64,
    /// Places in it, twice as many as it is made for or more.
    pub capacity: u64,
    /// Addresses learned.
    pub learned: u64,
    /// Learned addresses that were seen on another port.
    pub moved: u64,
    /// Forgotten for age.
    pub aged: u64,
    /// Forgotten for lack of room.
    pub evicted: u64,
    /// Not learned for lack of room.
    pub not_learned: u64,
}

/// An address.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MacDocument {
    /// The address.
    pub mac: String,
    /// Its VLAN; 0 for packets without a tag on ports without VLANs.
    pub vlan: u16,
    /// Where it is.
    pub port: String,
    /// Given by a command, not learned.
    #[serde(rename = "static")]
    pub is_static: bool,
    /// Seconds since it last sent something.
    pub idle_s: u64,
    /// Times that it was seen on another port than before.
    pub moves: u64,
}

/// A part of the MAC table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MacsDocument {
    /// Addresses.
    pub macs: Vec<MacDocument>,
    /// Where to go on; `None` at the end.
    pub next: Option<u64>,
}

/// Packets of a VLAN.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VlanDocument {
    /// Its number.
    pub vlan: u16,
    /// Packets received in it.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Part of them: went to one port.
    pub unicast: u64,
    /// Part of them: went to all other ports of the VLAN.
    pub flooded: u64,
    /// Part of them: dropped, by reason.
    pub dropped: BTreeMap<String, u64>,
}

/// Time from the arrival of a batch to the moment its packets were taken by the port at which they leave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatencyDocument {
    /// Where they came from.
    pub from: String,
    /// Where they went.
    pub to: String,
    /// How many.
    pub packets: u64,
    /// Half of them took no longer, in nanoseconds.
    pub p50_ns: u64,
    /// 99 of 100.
    pub p99_ns: u64,
    /// 999 of 1,000.
    pub p999_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// Drops at a port.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DropDocument {
    /// The port; `(gone)` for all that are gone.
    pub port: String,
    /// `ingress` (packets that came from it), `flood-copy` (copies for it that were not made or queued), `egress-queue` (packets dropped
    /// from its queue), `port-rx` and `port-tx` (drops of the port itself).
    pub at: String,
    /// Why.
    pub reason: String,
    /// How many.
    pub packets: u64,
}

/// A mirror.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MirrorDocument {
    /// Its number.
    pub number: u32,
    /// Its packets, and its port.
    #[serde(flatten)]
    pub mirror: MirrorConfig,
    /// Packets that its port got.
    pub packets: u64,
    /// Part of them: packets that the port sent from where they lay.
    pub zero_copy: u64,
    /// Part of them: copies.
    pub copied: u64,
}
