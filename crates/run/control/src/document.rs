//! Documents of what every datapath has. Those functions that take a worker run on its thread, between two rounds, and are bounded.

use linerate_port::{Datapath, Drops, PortIndex, Stats, drops_that_happened};
use linerate_sys::{clock, counters};
use linerate_worker::Worker;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use crate::ports::{PortTable, View};
use crate::protocol::ControlError;

/// Ports that are asked for their counters in one job: some hundred microseconds, in which no packet moves.
const PORTS_OF_JOB: usize = 32;

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
    /// The queue pairs of the port, as it counts them.
    #[serde(default)]
    pub queues: Vec<QueueDocument>,
}

/// A queue pair of a port.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QueueDocument {
    /// Packets received from it.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Packets sent by it.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Packets that it lost before they could be received.
    pub rx_drops: Vec<Drops>,
    /// Packets that it took and lost.
    pub tx_drops: Vec<Drops>,
}

impl From<Stats> for QueueDocument {
    fn from(stats: Stats) -> QueueDocument {
        QueueDocument {
            received: stats.rx_packets,
            received_bytes: stats.rx_bytes,
            sent: stats.tx_packets,
            sent_bytes: stats.tx_bytes,
            rx_drops: drops_that_happened(&stats.rx_drops),
            tx_drops: drops_that_happened(&stats.tx_drops),
        }
    }
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
    /// Takes over what a port counted itself: its totals, and those of its queue pairs.
    pub fn set_stats(&mut self, stats: Stats, queues: Vec<Stats>) {
        (self.port_rx_drops, self.port_tx_drops) = (stats.rx_drops, stats.tx_drops);
        self.queues = queues.into_iter().map(QueueDocument::from).collect();
    }

    /// Adds what other queues of the same port counted, which another worker has.
    pub fn add_queues(&mut self, other: &PortDocument<C>) {
        add_drops(&mut self.port_rx_drops, &other.port_rx_drops);
        add_drops(&mut self.port_tx_drops, &other.port_tx_drops);
        self.queues.extend(other.queues.iter().cloned());
        if self.state == "up" {
            self.state.clone_from(&other.state);
        }
    }
}

/// Adds packets lost to those lost at the same place because of the same cause.
pub fn add_drops(sum: &mut Vec<Drops>, others: &[Drops]) {
    for other in others {
        match sum.iter_mut().find(|known| known.place == other.place && known.cause == other.cause) {
            Some(known) => known.packets += other.packets,
            None => sum.push(other.clone()),
        }
    }
}

/// Documents of the ports by number, without the drops that only the ports themselves count, see [`add_port_stats`].
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

/// Adds what the ports of one worker count themselves: drops, and the packets of their queues. The counters may cost system calls, so a few
/// ports at a time are asked in a job, and packets move between the jobs.
///
/// # Errors
/// The worker has ended.
pub fn add_port_stats<D: Datapath + 'static, C: Default>(
    view: &View<D>,
    documents: &mut [PortDocument<C>],
) -> Result<(), ControlError> {
    let stats = |worker: &mut Worker<D>, index: PortIndex| {
        let port = worker.port(index)?;
        Some((port.stats().ok()?, port.queue_stats().ok()?))
    };
    for documents in documents.chunks_mut(PORTS_OF_JOB) {
        let places = documents.iter().map(|document| view.table.index(&document.name)).collect::<Vec<_>>();
        let all = view.call(move |worker| {
            counters::share(|| {
                places.iter().map(|place| place.and_then(|index| stats(worker, index))).collect::<Vec<_>>()
            })
        })?;
        // A port that has just gone has no counters any more.
        for (document, stats) in documents.iter_mut().zip(all) {
            let (stats, queues) = stats.unwrap_or_default();
            document.set_stats(stats, queues);
        }
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
