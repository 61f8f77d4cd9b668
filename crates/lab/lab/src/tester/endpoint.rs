//! What counts the packets at the end of a path: a port with a receiving thread, or the counting XDP program.

use std::thread::{Scope, ScopedJoinHandle};

use linerate_gen::{Histogram, Receiver, ReceiverConfig, Start};
use linerate_mem::Pool;
use linerate_port::{Drops, Port, PortError, Stats};

use super::TesterError;
use super::sink::Sink;
use super::trial::settle_on;
use crate::run::{self, Control};
use crate::topology::Topology;

/// What arrived in one trial.
#[derive(Clone, Debug, Default)]
pub struct Arrivals {
    /// Distinct packets of the trial.
    pub delivered: u64,
    /// Further copies of them.
    pub duplicated: u64,
    /// Those of the delivered that came after one with a higher number.
    pub reordered: u64,
    /// All packets, strangers among them.
    pub received: u64,
    /// From the scheduled time of sending; none where it is not measured.
    pub latency: Option<Histogram>,
    /// What the receiving port dropped.
    pub drops: Vec<Drops>,
}

/// The receiving end.
pub enum Endpoint {
    /// A port, emptied by a thread during a trial.
    Port {
        /// The port (a list of one, as the receiving loop takes it).
        port: Vec<Box<dyn Port>>,
        /// Its totals at the end of the last trial.
        before: Stats,
        /// Where its frames come from.
        pool: Pool,
    },
    /// The counting program.
    Sink(Sink),
}

impl Endpoint {
    pub(crate) fn open(topology: &Topology, kind: &str, pool: &Pool) -> Result<Endpoint, TesterError> {
        let side = &topology.receiver;
        if kind == "sink" {
            return Ok(Endpoint::Sink(Sink::attach(side)??));
        }
        let spec = format!("{kind}:{}", side.interface.name);
        let port = side.namespace.run(|| linerate_ports::open(&spec, pool))??;
        Ok(Endpoint::on_port(port, pool))
    }

    pub(crate) fn on_port(port: Box<dyn Port>, pool: &Pool) -> Endpoint {
        Endpoint::Port { port: vec![port], before: Stats::default(), pool: pool.clone() }
    }

    pub(crate) fn describe(&self) -> String {
        match self {
            Endpoint::Port { port, .. } => {
                port.iter().map(|port| format!("{} ({})", port.caps().name, port.caps().detail)).collect()
            }
            Endpoint::Sink(sink) => sink.describe(),
        }
    }

    /// Starts counting the packets of `stream`, numbers from 0 on.
    pub(crate) fn start<'scope, 'env>(
        &'env mut self,
        scope: &'scope Scope<'scope, 'env>,
        stream: u16,
        core: Option<usize>,
        control: &'env Control,
    ) -> Counting<'scope> {
        match self {
            Endpoint::Sink(sink) => {
                sink.clear();
                Counting::Sink(sink)
            }
            Endpoint::Port { port, before, pool } => Counting::Thread(scope.spawn(move || {
                settle_on(core);
                count_on_port(port, before, pool, stream, control)
            })),
        }
    }
}

/// Counting under way.
pub(crate) enum Counting<'scope> {
    Sink(&'scope Sink),
    Thread(ScopedJoinHandle<'scope, Result<Arrivals, PortError>>),
}

impl Counting<'_> {
    /// Ends it. The path is at rest by now; `control` has been stopped. `sent` numbers are known to have gone out.
    pub(crate) fn finish(self) -> Result<Arrivals, PortError> {
        match self {
            Counting::Sink(sink) => Ok(sink.arrivals()),
            Counting::Thread(thread) => match thread.join() {
                Ok(arrivals) => arrivals,
                Err(panic) => std::panic::resume_unwind(panic),
            },
        }
    }
}

fn count_on_port(
    port: &mut [Box<dyn Port>],
    before: &mut Stats,
    pool: &Pool,
    stream: u16,
    control: &Control,
) -> Result<Arrivals, PortError> {
    let config = ReceiverConfig {
        start: Start::At(0),
        window: 1 << 22,
        streams: Some((stream, 1)),
        ..ReceiverConfig::default()
    };
    let mut receiver = Receiver::new(config);
    let mut end = run::receive(port, &mut receiver, pool, control, &mut |_| {});
    if let Some(error) = end.error {
        return Err(error);
    }
    let after = end.stats.pop().unwrap_or_default();
    let mut arrivals = Arrivals {
        received: after.rx_packets - before.rx_packets,
        drops: drops_since(&after.rx_drops, &before.rx_drops),
        ..Arrivals::default()
    };
    if let [only] = receiver.streams() {
        let counts = only.counts();
        arrivals.delivered = counts.delivered;
        arrivals.duplicated = counts.duplicated;
        arrivals.reordered = counts.reordered;
        arrivals.latency = Some(only.latency.clone());
    }
    *before = after;
    Ok(arrivals)
}

/// What a port's totals of drops grew by.
pub(crate) fn drops_since(after: &[Drops], before: &[Drops]) -> Vec<Drops> {
    let earlier = |drops: &Drops| {
        let same = before.iter().find(|earlier| earlier.place == drops.place && earlier.cause == drops.cause);
        same.map_or(0, |earlier| earlier.packets)
    };
    after.iter().map(|drops| Drops { packets: drops.packets - earlier(drops), ..drops.clone() }).collect()
}
