//! The documents of programs over TCP: what `--json` prints and the control socket answers.

use std::collections::BTreeMap;

pub use linerate_endpoints_loop::connections::{ConnectionDocument, ConnectionsDocument};

use linerate_control::{QueueDocument, WorkerDocument};
use linerate_port::Drops;
use linerate_programs::TlsDocument;
use serde::{Deserialize, Serialize};

/// A program over the stack at one moment; `P` is what the program says of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Snapshot<P> {
    /// Name and version of this format.
    pub schema: String,
    /// Name of the instance.
    pub name: String,
    /// Time since it began, in seconds.
    pub seconds: f64,
    /// The program.
    #[serde(flatten)]
    pub program: P,
    /// TLS under the program; `None` if there is none.
    pub tls: Option<TlsDocument>,
    /// Segments that were sent again, by cause.
    pub retransmissions: BTreeMap<String, u64>,
    /// Counters of the stack, by the names that `nstat` has; those that are 0 are left out.
    pub counters: BTreeMap<String, u64>,
    /// Connections in the stack, without those in TIME-WAIT.
    pub stack_connections: u64,
    /// Packets at the port.
    pub packets: PacketsDocument,
    /// The thread that does all this; of several cores, the sum.
    pub worker: WorkerDocument,
    /// The same by core, if there are several.
    #[serde(default = "Vec::new", skip_serializing_if = "Vec::is_empty")]
    pub cores: Vec<CoreDocument<P>>,
    /// In the last document, the capture that went on until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capture: Option<CaptureDocument>,
    /// Of a closed loop: the longest time in microseconds for which the interface collected packets before it handed them over, because
    /// answers took at least ten times as long (`napi_defer_hard_irqs` and `gro_flush_timeout` of the kernel). Latencies have it in them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deferred_us: Option<u64>,
    /// It is the last document of the program.
    pub last: bool,
}

/// A program on one of several cores: a stack of its own, which owns a part of all connections.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CoreDocument<P> {
    /// Number of its shard, from 0 on.
    pub shard: u16,
    /// The program.
    #[serde(flatten)]
    pub program: P,
    /// Connections in its stack, without those in TIME-WAIT.
    pub stack_connections: u64,
    /// Connections that were begun or accepted.
    pub opened: u64,
    /// TCP segments that its stack received.
    pub segments_received: u64,
    /// Packets between the cores.
    pub steering: SteeringDocument,
    /// Its thread.
    pub worker: WorkerDocument,
}

/// Packets between the cores of one program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SteeringDocument {
    /// Packets that arrived at the queue of this core; 0 if it has none.
    pub arrived: u64,
    /// Of those, handed over to the cores that own their connections; copies for all cores count for each.
    pub handed_over: u64,
    /// Of those, lost, because the ring to the other core was full.
    pub lost: u64,
    /// Packets that this core got from others.
    pub taken_over: u64,
    /// Packets of cores without a queue that left by the queue of this one.
    pub relayed: u64,
}

/// Packets at the port.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PacketsDocument {
    /// Spec of the port.
    pub port: String,
    /// How it was opened.
    pub detail: String,
    /// Packets that the stack got.
    pub received: u64,
    /// Their bytes without FCS.
    pub received_bytes: u64,
    /// Packets that the far side has.
    pub sent: u64,
    /// Their bytes without FCS.
    pub sent_bytes: u64,
    /// Packets lost before the stack got them.
    pub rx_drops: Vec<Drops>,
    /// Packets that the stack got and dropped, by reason (docs/tcp.md): for somebody else, of another VLAN, malformed. Those of other VLANs or for
    /// other hosts are no losses; they came because they were flooded.
    #[serde(default)]
    pub stack_drops: Vec<Drops>,
    /// Packets lost after the stack sent them.
    pub tx_drops: Vec<Drops>,
    /// The queue pairs of the port, as it counts them, in the order of the cores that have them.
    #[serde(default)]
    pub queues: Vec<QueueDocument>,
}

/// A capture of the frames between the stack and its port that began, or that ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CaptureDocument {
    /// The file.
    pub file: String,
    /// Frames that are in it; 0 while it is being written.
    pub written: u64,
    /// Frames that it has not, because there was no room for a copy, or the file took none.
    pub missed: u64,
    /// Why frames are missing.
    pub causes: Vec<Drops>,
}
