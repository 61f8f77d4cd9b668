//! Documents of what every datapath has. Those functions that take a worker run on its thread, between two rounds, and are bounded.

use linerate_port::{Datapath, Drops, PortIndex, Stats};
use linerate_sys::clock;
use linerate_worker::Worker;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use crate::ports::{PortTable, View};
use crate::protocol::ControlError;

/// A port, with the counters `C` of its datapath.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PortDocument<C> {
    /// Its name.
    pub name: String,
    /// Its spec, as given.
    pub spec: String,
    /// How it was opened.
    pub detail: String,
    /// `up`, or `down: WHY`: its interface is down, or it is opened again as soon as that works.
    pub state: String,
    /// Its settings, as `set` takes them.
    pub settings: BTreeMap<String, String>,
    /// Longest packet in bytes.
    pub frame_len_max: usize,
    /// Counters of the datapath.
    #[serde(flatten)]
    pub counters: C,
    /// Packets lost before the datapath got them, as the port itself counts.
    pub port_rx_drops: Vec<Drops>,
    /// Packets lost after the port took them, as the port itself counts.
    pub port_tx_drops: Vec<Drops>,
}

/// How the worker spends its time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkerDocument {
    /// Its core, if it is pinned.
    pub core: Option<usize>,
    /// Rounds over all ports.
    pub rounds: u64,
    /// Rounds that moved packets.
    pub busy_rounds: u64,
    /// Time of the busy rounds in nanoseconds, with the time that others had the core meanwhile.
    #[serde(default)]
    pub busy_ns: u64,
    /// Sleeps on descriptors.
    pub sleeps: u64,
    /// Time on a core in nanoseconds.
    pub cpu_ns: u64,
    /// Frames of the pool.
    pub frames: u64,
    /// Free frames.
    pub frames_free: u64,
}

impl<C: Default> PortDocument<C> {
    /// Takes over the drops that a port counted.
    pub fn set_drops(&mut self, stats: Stats) {
        (self.port_rx_drops, self.port_tx_drops) = (stats.rx_drops, stats.tx_drops);
    }
}

/// Documents of the ports by number, without the drops that only the ports themselves count, see [`add_port_drops`].
pub fn port_documents<D: Datapath, C: Default>(
    worker: &mut Worker<D>,
    table: &PortTable,
    counters: impl Fn(&D, PortIndex) -> C,
) -> Vec<PortDocument<C>> {
    let document = |(index, name): (PortIndex, String)| {
        let record = table.record(index)?;
        let caps = worker.port(index)?.caps().clone();
        Some(PortDocument {
            name,
            spec: record.config.spec,
            detail: format!("{}: {}", caps.backend, caps.detail),
            state: record.down.map_or("up".into(), |why| format!("down: {why}")),
            settings: record.config.settings.into_iter().map(|(key, value)| (key, value.0)).collect(),
            frame_len_max: caps.frame_len_max,
            counters: counters(&worker.datapath, index),
            ..PortDocument::default()
        })
    };
    table.names().into_iter().filter_map(document).collect()
}

/// Adds the drops that the ports of one worker count themselves. The counters may cost system calls, so each port is asked in a job of its own, and
/// packets move between them.
///
/// # Errors
/// The worker has ended.
pub fn add_port_drops<D: Datapath + 'static, C: Default>(
    view: &View<D>,
    documents: &mut [PortDocument<C>],
) -> Result<(), ControlError> {
    for document in documents {
        let stats = |worker: &mut Worker<D>, index| worker.port(index).and_then(|port| port.stats().ok());
        // A port that has just gone has no counters any more.
        let stats = match view.table.index(&document.name) {
            Some(index) => view.call(move |worker| stats(worker, index))?,
            None => None,
        };
        document.set_drops(stats.unwrap_or_default());
    }
    Ok(())
}

/// Document of the worker.
pub fn worker_document<D: Datapath>(worker: &Worker<D>, core: Option<usize>) -> WorkerDocument {
    WorkerDocument {
        core,
        rounds: worker.turns.rounds,
        busy_rounds: worker.turns.busy,
        busy_ns: worker.turns.busy_ns,
        sleeps: worker.turns.sleeps,
        cpu_ns: clock::thread_cpu_ns(),
        frames: worker.pool().region().frames().into(),
        frames_free: worker.pool().available() as u64,
    }
}
