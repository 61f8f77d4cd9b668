//! What counts the packets at the end of a path: a port with a receiving thread, or the counting XDP program.

use std::sync::Arc;
use std::thread::{Scope, ScopedJoinHandle};

use linerate_gen::{Receiver, ReceiverConfig, Start};
use linerate_mem::{Batch, Pool};
use linerate_port::{Drops, FarSide, OpenOptions, Port, PortError, PortSpec, Stats};
use linerate_worker::{Control, discard, receive};

use super::TesterError;
use super::ends::{Attachment, open_port};
use super::outcome::TrialError;
use super::sink::Sink;
use crate::Delays;
use linerate_ledger::turns::Arrived;
use linerate_testbed::dut::{Capture, Captured};
use linerate_testbed::threads::{Priority, pin_and_prioritize};
use linerate_tester_loop::ports::drops_since;
use linerate_tester_loop::timeline::{Recorder, Timeline};

/// What arrived in one trial, in one direction.
#[derive(Debug, Default)]
pub struct Arrivals {
    /// Distinct packets of the trial.
    pub delivered: u64,
    /// Those of the delivered whose number was too high to be told apart: duplicates among them are not known.
    pub beyond: u64,
    /// Further copies of them.
    pub duplicated: u64,
    /// Those of the delivered that came after one with a higher number.
    pub reordered: u64,
    /// All packets, other traffic among them.
    pub received: u64,
    /// Those of the received that are of other streams: of an earlier trial, as a rule, and late.
    pub other_streams: u64,
    /// Those of the received that are neither IPv4 nor IPv6, where a thread counts.
    pub not_ip: u64,
    /// Packets that reached the interface while the path's counters were read, because it did not come to rest.
    pub while_reading: u64,
    /// From the scheduled time of sending; none where it is not measured.
    pub delays: Option<Delays>,
    /// When packets arrived; none where it was not asked for.
    pub timeline: Option<Timeline>,
    /// What the receiving port dropped.
    pub drops: Vec<Drops>,
    /// What broke the receiving port, if something did; the counts are right up to then.
    pub error: Option<PortError>,
}

impl Arrivals {
    /// Each packet that the capture has counts as delivered, because a capture tells nothing of their numbers.
    fn of(captured: Captured) -> Arrivals {
        let place = format!("ring of the capture on {}", captured.interface);
        let drops = |cause: &str, packets| Drops { place: place.clone(), cause: cause.to_owned(), packets };
        Arrivals {
            delivered: captured.captured,
            received: captured.captured,
            drops: vec![
                drops("ring full: the capture did not keep up", captured.dropped_by_ring),
                drops("no buffer, or the disk failed: the writer did not keep up", captured.dropped_by_writer),
            ],
            ..Arrivals::default()
        }
    }
}

/// The receiving end.
pub enum Endpoint {
    /// A port, emptied by a thread during a trial.
    Port {
        /// The port (a list of one, as the receiving loop takes it).
        port: Vec<Box<dyn Port>>,
        /// Its totals when the trial began.
        before: Stats,
        /// Where its frames come from.
        pool: Pool,
    },
    /// The counting program.
    Sink(Sink),
    /// The device, which is a capture.
    Capture {
        /// It.
        capture: Arc<dyn Capture>,
        /// How many ports it counts on.
        ports: usize,
        /// Which of them this is, from 0.
        port: usize,
    },
}

impl Endpoint {
    /// Opens it on an interface: `sink`, or a kind of port.
    pub(super) fn open(at: &Attachment<'_>, kind: &str, sequences: u64, pool: &Pool) -> Result<Endpoint, TesterError> {
        if kind == "sink" {
            let attach = || Sink::attach(at.interface, at.index, sequences);
            return Ok(Endpoint::Sink(at.namespace.run(attach)??));
        }
        let spec = PortSpec::new(kind, at.interface);
        let port = at.namespace.run(|| open_port(&spec, OpenOptions::receive(), pool))??;
        Ok(Endpoint::on_port(port, pool))
    }

    pub(super) fn on_port(port: Box<dyn Port>, pool: &Pool) -> Endpoint {
        Endpoint::Port { port: vec![port], before: Stats::default(), pool: pool.clone() }
    }

    /// Whether a program in the kernel counts, so that counting needs no thread.
    pub(super) fn is_sink(&self) -> bool {
        matches!(self, Endpoint::Sink(_))
    }

    pub(super) fn describe(&self) -> String {
        match self {
            Endpoint::Port { port, .. } => port.iter().map(|port| in_words(port.as_ref())).collect(),
            Endpoint::Sink(sink) => sink.describe(),
            Endpoint::Capture { .. } => "the device, which is a capture".to_owned(),
        }
    }

    /// Packets that its port has taken out since it was opened; 0 where no port receives.
    pub(super) fn received_ever(&mut self) -> u64 {
        let Endpoint::Port { port, .. } = self else { return 0 };
        port.iter_mut().flat_map(|port| port.stats()).map(|stats| stats.rx_packets).sum()
    }

    /// From now on packets of `stream` are the trial's, others are not. What came before is taken out of the port.
    pub(super) fn begin(&mut self, stream: u16, timed: bool) -> Result<(), TrialError> {
        match self {
            Endpoint::Sink(sink) => sink.begin(stream, timed)?,
            Endpoint::Capture { .. } => {}
            Endpoint::Port { port, before, pool } => {
                port.iter_mut().for_each(|port| discard(port.as_mut(), pool));
                if let [Ok(stats)] = &port.iter_mut().map(|port| port.stats()).collect::<Vec<_>>()[..] {
                    *before = stats.clone();
                }
            }
        }
        Ok(())
    }

    /// Starts counting the packets of `stream`, numbers from 0 on, after [`Endpoint::begin`]; with a timeline if `timed`.
    pub(super) fn start<'scope, 'env>(
        &'env mut self,
        scope: &'scope Scope<'scope, 'env>,
        (stream, timed): (u16, bool),
        core: Option<usize>,
        control: &'env Control,
    ) -> Result<Counting<'scope>, TrialError> {
        match self {
            Endpoint::Sink(sink) => Ok(Counting::Sink(sink)),
            Endpoint::Capture { capture, ports, port } => {
                capture.start(*ports).map_err(TrialError::Capture)?;
                Ok(Counting::Capture { capture: &**capture, ports: *ports, port: *port })
            }
            Endpoint::Port { port, before, pool } => Ok(Counting::Thread(scope.spawn(move || {
                pin_and_prioritize(core, Priority::Nice);
                count_on_port(port, before, pool, (stream, timed), control)
            }))),
        }
    }
}

/// What a port is. Those of shared memory are named by a file that is another one each time.
pub(super) fn in_words(port: &dyn Port) -> String {
    let caps = port.caps();
    let name = if caps.far_side == FarSide::Peer { caps.backend } else { &caps.name };
    format!("{name} ({})", caps.detail)
}

/// Counting under way.
pub(super) enum Counting<'scope> {
    Sink(&'scope Sink),
    Capture { capture: &'scope dyn Capture, ports: usize, port: usize },
    Thread(ScopedJoinHandle<'scope, Arrivals>),
}

impl<'scope> Counting<'scope> {
    /// What tells at any time how many packets arrived so far; none where a thread or a capture counts.
    pub(super) fn live(&self) -> Option<&'scope dyn Arrived> {
        match self {
            Counting::Sink(sink) => Some(*sink),
            Counting::Capture { .. } | Counting::Thread(_) => None,
        }
    }

    /// Ends it. The path is at rest by now; `control` has been stopped.
    pub(super) fn finish(self) -> Arrivals {
        match self {
            Counting::Sink(sink) => sink.arrivals(),
            Counting::Capture { capture, ports, port } => Arrivals::of(capture.finish(ports, port)),
            Counting::Thread(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
        }
    }
}

fn count_on_port(
    port: &mut Vec<Box<dyn Port>>,
    before: &Stats,
    pool: &Pool,
    (stream, timed): (u16, bool),
    control: &Control,
) -> Arrivals {
    let config = ReceiverConfig {
        start: Start::At(0),
        window: 1 << 22,
        streams: Some((stream, 1)),
        ..ReceiverConfig::default()
    };
    let mut receiver = Receiver::new(config);
    let mut recorder = timed.then(|| Recorder::new(stream));
    let mut note = |batch: &Batch| recorder.iter_mut().for_each(|recorder| recorder.record(batch));
    let mut end = receive(port, &mut receiver, pool, control, &mut note);
    let after = end.stats.pop().unwrap_or_default();
    let mut arrivals = Arrivals {
        received: after.rx_packets.saturating_sub(before.rx_packets),
        other_streams: receiver.other_streams(),
        not_ip: receiver.not_ip(),
        drops: drops_since(&after.rx_drops, &before.rx_drops),
        timeline: recorder.map(Recorder::finish),
        error: end.error,
        ..Arrivals::default()
    };
    if let [only] = receiver.streams() {
        let counts = only.counts();
        arrivals.delivered = counts.delivered;
        arrivals.duplicated = counts.duplicated;
        arrivals.reordered = counts.reordered;
        arrivals.delays = Some(Delays::of_thread(&only.latency));
    }
    arrivals
}
