//! One thread of a run: what it is given, what it gives back.

use std::sync::Arc;

use linerate_mem::{Batch, Pool};
use linerate_port::{Datapath, Drops, Port};
use linerate_sys::clock;
use linerate_wire::MacAddress;
use linerate_worker::{Config, Control, Eagerness, Role, Worker};

use super::counts::Counts;
use super::dump;
use super::quota::Quota;

/// What a thread works with.
pub struct Task {
    /// Number of the thread, from 0.
    pub thread: usize,
    /// Threads of the run.
    pub threads: usize,
    /// Packets that this thread is to send; 0 = until stopped.
    pub count: u64,
    /// Packets that all receiving threads together are to take.
    pub quota: Arc<Quota>,
    /// Most packets of one port call; of a sender with a rate, so many as go out together.
    pub burst: usize,
    /// Packets per second that this thread is to send; 0 = as fast as the port takes them.
    pub rate_pps: f64,
    /// Whether silence ends a receiver's work (`-W`).
    pub ends_in_silence: bool,
    /// Whether packets are printed (`-X`).
    pub dump: bool,
    /// The thread's own port.
    pub port: Box<dyn Port>,
    /// The pool that the ports were opened on.
    pub pool: Pool,
    /// Source address of packets of this thread.
    pub source_mac: MacAddress,
    /// Stop request and live counts.
    pub control: Control,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Packets, bytes, port calls.
    pub counts: Counts,
    /// When the work began and ended, on `linerate_sys::clock`.
    pub start_ns: u64,
    /// See `start_ns`.
    pub end_ns: u64,
    /// Lines that belong behind the totals.
    pub results: Vec<String>,
    /// Packets that the port lost, by its own account.
    pub drops: Vec<Drops>,
    /// Packets that the port accepted and had not finished a second after the last one.
    pub tx_pending: u64,
    /// What ended the work before its time, if something did.
    pub error: Option<String>,
}

impl Task {
    /// Publishes counts for the reports.
    #[inline]
    pub fn publish(&self, counts: &Counts) {
        publish(&self.control, counts);
    }

    /// Prints the packets of a batch if `-X` asks for it.
    #[inline]
    pub fn show(&self, batch: &Batch) {
        if self.dump {
            dump::batch(self.thread, batch, batch.len());
        }
    }
}

/// Publishes counts for the reports.
#[inline]
pub fn publish(control: &Control, counts: &Counts) {
    control.meter.set(counts.packets, counts.bytes, counts.events);
}

/// Slots of the longest packet: 65,535 bytes in the smallest frames.
const SLOTS_OF_ONE_MAX: usize = 64;

/// Has a worker serve `port` for `datapath`, in batches of `burst` slots, until the run is over. `drain_ns` is how long packets that wait at
/// the end may still be received and sent. Returns the datapath, and what the outcome says of the port and the time.
pub fn serve<D: Datapath>(
    datapath: D,
    port: Box<dyn Port>,
    pool: &Pool,
    control: &Control,
    burst: usize,
    drain_ns: u64,
) -> Result<(D, Outcome), String> {
    let start_ns = clock::now_ns();
    let config = Config {
        batch: burst.max(SLOTS_OF_ONE_MAX),
        eagerness: Eagerness::for_receiving(std::iter::once(&*port)),
        drain_input_ns: drain_ns,
        drain_output_ns: drain_ns,
        ..Config::default()
    };
    let worker = Worker::new(datapath, pool, config, Box::new(|_| ()));
    let (mut worker, _) = worker.map_err(|error| format!("a descriptor to wake the worker: {error}"))?;
    worker.attach(port, pool, Role::default());
    let end = worker.run(control);
    let mut outcome = Outcome { start_ns, end_ns: clock::now_ns(), ..Outcome::default() };
    outcome.error = end.error.map(|error| error.to_string());
    if let Some(port) = end.ports.into_iter().flatten().next() {
        outcome.drops = [port.stats.tx_drops, port.stats.rx_drops].concat();
        outcome.tx_pending = port.tx_pending;
    }
    Ok((worker.into_datapath(), outcome))
}
