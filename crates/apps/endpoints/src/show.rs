//! Documents of what the worker has. Each function that takes a worker runs on the worker's thread, between two rounds, and is bounded: it copies
//! numbers, by a function of a crate that is compiled to run fast where they are many. What is said of them is put into words by others.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use linerate_control::{ControlError, QueueDocument, View, WorkerDocument, add_drops, worker_document};
use linerate_endpoints_loop::{TcpWorker, connections};
use linerate_ip::{DropReason, UdpCounters};
use linerate_port::{Drops, Port, Stats, drops_that_happened};
use linerate_programs::{OverStack, Reports, TlsDocument};
use linerate_sys::clock;
use linerate_tcp::send::SendCounters;
use linerate_tcp::{Counters, Sharded};

use crate::document::{CoreDocument, PacketsDocument, Snapshot, SteeringDocument};
use crate::request::CONNECTIONS_MAX;

pub(crate) type TcpView<P> = View<Sharded<OverStack<P>>>;

/// Bits of a place in the list of all connections that tell the place in one core's list.
const PLACE_BITS: u32 = 26;

/// Everything of one core at one moment.
pub(crate) struct Reading<P: Reports> {
    program: P::Reading,
    tls: Option<TlsDocument>,
    sending: SendCounters,
    counters: (Counters, UdpCounters),
    stack_connections: u64,
    packets: Option<PacketsDocument>,
    frames: linerate_ip::Counters,
    shard: u16,
    steering: SteeringDocument,
    pub(crate) worker: WorkerDocument,
}

/// What passed ports that are gone: they broke, and were removed or are to be opened again.
#[derive(Clone, Default)]
pub(crate) struct PastPackets(Arc<Mutex<PacketsDocument>>);

impl PastPackets {
    /// Adds the last totals of a queue pair.
    pub(crate) fn add(&self, port: &mut dyn Port) {
        let more = PacketsDocument { queues: Vec::new(), ..packets_of(port) };
        add_packets(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner), &more);
    }

    fn get(&self) -> PacketsDocument {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Everything at one moment.
pub(crate) fn snapshot<P: Reports>(
    views: &[TcpView<P>],
    past: &PastPackets,
) -> Result<Snapshot<P::Document>, ControlError> {
    let reading = |view: &TcpView<P>| {
        let core = view.core;
        view.call(move |worker| reading_of(worker, core))
    };
    let readings = views.iter().map(reading).collect::<Result<Vec<_>, _>>()?;
    Ok(snapshot_of(views, readings, past, false))
}

/// Everything of one core at one moment.
pub(crate) fn reading_of<P: Reports>(worker: &mut TcpWorker<P>, core: Option<usize>) -> Reading<P> {
    let (program, tls, connections) =
        with(worker, |app, io| (app.program.reading(io.time_ns()), app.program.tls(), io.connections()));
    let between = worker.datapath.shard_counters();
    Reading {
        program,
        tls,
        sending: with(worker, |_, io| io.send_counters()),
        counters: counters(worker),
        stack_connections: connections as u64,
        packets: packets(worker),
        frames: with(worker, |_, io| io.frame_counters()),
        shard: worker.datapath.shard().number(),
        steering: SteeringDocument {
            arrived: between.arrived,
            handed_over: between.handed_over,
            lost: between.lost,
            taken_over: between.taken_over,
            relayed: between.relayed,
        },
        worker: worker_document(worker, core),
    }
}

impl<P: Reports> Reading<P> {
    /// Takes over the last totals of the port.
    pub(crate) fn last_packets(&mut self, stats: &Stats, queues: &[Stats]) {
        if let Some(packets) = &mut self.packets {
            let (port, detail) = (packets.port.clone(), packets.detail.clone());
            *packets = PacketsDocument { port, detail, ..counts(stats, queues) };
        }
    }
}

/// The document of all cores.
pub(crate) fn snapshot_of<P: Reports>(
    views: &[TcpView<P>],
    readings: Vec<Reading<P>>,
    past: &PastPackets,
    last: bool,
) -> Snapshot<P::Document> {
    let now_ns = clock::now_ns();
    let (name, started_ns) =
        views.first().map_or((String::new(), now_ns), |view| (view.dir.name().into(), view.started_ns));
    let spec = views.iter().flat_map(|view| view.table.names()).map(|(_, name)| name).next().unwrap_or_default();
    let mut all = Snapshot {
        schema: P::SCHEMA.into(),
        name,
        seconds: (now_ns - started_ns) as f64 / 1e9,
        program: P::document(&[]),
        tls: None,
        retransmissions: BTreeMap::new(),
        counters: BTreeMap::new(),
        stack_connections: 0,
        packets: past.get(),
        worker: WorkerDocument::default(),
        cores: Vec::new(),
        capture: None,
        deferred_us: None,
        last,
    };
    let are_several = readings.len() > 1;
    let mut programs = Vec::new();
    for reading in readings {
        let counters = named(&reading.counters, false);
        add_counts(&mut all.retransmissions, &retransmissions(&reading.sending));
        add_counts(&mut all.counters, &counters);
        all.stack_connections += reading.stack_connections;
        if let Some(tls) = &reading.tls {
            all.tls.get_or_insert_default().add(tls);
        }
        if let Some(packets) = &reading.packets {
            add_packets(&mut all.packets, packets);
        }
        add_drops(&mut all.packets.stack_drops, &stack_drops(&reading.frames));
        all.worker = if are_several { sum_of(&all.worker, &reading.worker) } else { reading.worker.clone() };
        if are_several {
            let counter = |name: &str| counters.get(name).copied().unwrap_or(0);
            all.cores.push(CoreDocument {
                shard: reading.shard,
                program: P::document(std::slice::from_ref(&reading.program)),
                stack_connections: reading.stack_connections,
                opened: counter("TcpActiveOpens") + counter("TcpPassiveOpens"),
                segments_received: counter("TcpInSegs"),
                steering: reading.steering,
                worker: reading.worker,
            });
        }
        programs.push(reading.program);
    }
    all.program = P::document(&programs);
    if all.packets.port.is_empty() {
        all.packets.port = spec;
    }
    all
}

/// Adds counts by name.
pub(crate) fn add_counts(sum: &mut BTreeMap<String, u64>, more: &BTreeMap<String, u64>) {
    for (name, count) in more {
        *sum.entry(name.clone()).or_default() += count;
    }
}

/// Frames that a stack dropped.
fn stack_drops(frames: &linerate_ip::Counters) -> Vec<Drops> {
    let row = |reason: DropReason| Drops {
        place: "the stack".into(),
        cause: reason.name().into(),
        packets: frames.dropped_by(reason),
    };
    DropReason::ALL.into_iter().map(row).filter(|drops| drops.packets > 0).collect()
}

/// Packets of another queue.
fn add_packets(sum: &mut PacketsDocument, more: &PacketsDocument) {
    if sum.port.is_empty() {
        (sum.port, sum.detail) = (more.port.clone(), more.detail.clone());
    }
    sum.received += more.received;
    sum.received_bytes += more.received_bytes;
    sum.sent += more.sent;
    sum.sent_bytes += more.sent_bytes;
    sum.queues.extend(more.queues.iter().cloned());
    add_drops(&mut sum.rx_drops, &more.rx_drops);
    add_drops(&mut sum.tx_drops, &more.tx_drops);
}

/// Two threads together; the pool is one.
fn sum_of(one: &WorkerDocument, other: &WorkerDocument) -> WorkerDocument {
    WorkerDocument {
        core: None,
        rounds: one.rounds + other.rounds,
        busy_rounds: one.busy_rounds + other.busy_rounds,
        busy_ns: one.busy_ns + other.busy_ns,
        sleeps: one.sleeps + other.sleeps,
        cpu_ns: one.cpu_ns + other.cpu_ns,
        frames: other.frames,
        frames_free: other.frames_free,
    }
}

fn with<P: Reports, R>(
    worker: &mut TcpWorker<P>,
    work: impl FnOnce(&mut OverStack<P>, &mut linerate_tcp::Io<'_>) -> R,
) -> R {
    worker.datapath.with(clock::now_ns(), work)
}

/// Packets at the worker's queue of the port; `None` if it has none.
fn packets<P: Reports>(worker: &mut TcpWorker<P>) -> Option<PacketsDocument> {
    let port = worker.datapath.port()?;
    Some(packets_of(worker.port(port)?))
}

fn packets_of(port: &mut (dyn Port + '_)) -> PacketsDocument {
    let (caps, stats, queues) =
        (port.caps().clone(), port.stats().unwrap_or_default(), port.queue_stats().unwrap_or_default());
    let detail = format!("{}: {}", caps.backend, caps.detail);
    PacketsDocument { port: caps.name, detail, ..counts(&stats, &queues) }
}

/// The counters of a core.
pub(crate) fn counters<P: Reports>(worker: &mut TcpWorker<P>) -> (Counters, UdpCounters) {
    with(worker, |_, io| (io.counters(), io.udp_counters()))
}

/// Counters by name.
pub(crate) fn named((counters, udp): &(Counters, UdpCounters), zeroes: bool) -> BTreeMap<String, u64> {
    let udp = [
        ("UdpInDatagrams", udp.delivered),
        ("UdpNoPorts", udp.no_port),
        ("UdpInErrors", udp.malformed),
        ("UdpOutDatagrams", udp.sent),
        ("UdpSndbufErrors", udp.send_failed),
    ];
    counters
        .each()
        .chain(udp)
        .filter(|(_, count)| zeroes || *count > 0)
        .map(|(name, count)| (name.to_owned(), count))
        .collect()
}

/// Segments that were sent again, by cause.
fn retransmissions(counters: &SendCounters) -> BTreeMap<String, u64> {
    let causes = [
        ("timeout", counters.retransmitted_timeout),
        ("fast-recovery", counters.retransmitted_fast),
        ("tail-loss-probe", counters.retransmitted_probe),
        ("handshake", counters.retransmitted_syn),
        ("path-mtu-or-window", counters.retransmitted_harmless),
        ("window-probe", counters.window_probes),
    ];
    causes.iter().map(|(cause, count)| ((*cause).to_owned(), *count)).collect()
}

/// The document, as JSON, of connections from place `after` on, core by core.
pub(crate) fn connections_text<P: Reports>(views: &[TcpView<P>], after: Option<u32>) -> Result<String, ControlError> {
    let after = after.unwrap_or(0);
    let (core, place) = (after >> PLACE_BITS, after & ((1 << PLACE_BITS) - 1));
    let Some(view) = views.get(core as usize) else { return Ok(connections::document_text(&[], None)) };
    let (infos, next) =
        view.call(move |worker| with(worker, |_, io| connections::connections(io, place, CONNECTIONS_MAX)))?;
    let next_core = core + 1;
    let at_next_core = (next_core < views.len() as u32).then_some(next_core << PLACE_BITS);
    let next = next.map(|place| core << PLACE_BITS | place).or(at_next_core);
    Ok(connections::document_text(&infos, next))
}

/// Totals of the queues of the port that a worker has.
fn counts(stats: &Stats, queues: &[Stats]) -> PacketsDocument {
    PacketsDocument {
        received: stats.rx_packets,
        received_bytes: stats.rx_bytes,
        sent: stats.tx_packets,
        sent_bytes: stats.tx_bytes,
        rx_drops: drops_that_happened(&stats.rx_drops),
        tx_drops: drops_that_happened(&stats.tx_drops),
        queues: queues.iter().cloned().map(QueueDocument::from).collect(),
        ..PacketsDocument::default()
    }
}

/// Begins nothing more, and resets every connection, so that peers need not find out by themselves that the program has ended.
pub(crate) fn end<P: Reports>(worker: &mut TcpWorker<P>) {
    with(worker, |app, io| {
        app.program.stop(io);
        for index in 0..io.connection_indexes() {
            if let Some(conn) = io.connection_at(index) {
                io.abort(conn);
            }
        }
    });
}
