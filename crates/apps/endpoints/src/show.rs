//! Documents of what the worker has. Each function that takes a worker runs on the worker's thread, between two rounds, and is bounded.

use std::collections::BTreeMap;

use linerate_control::{ControlError, View, worker_document};
use linerate_port::{PortIndex, Stats, drops_that_happened};
use linerate_programs::{OverStack, Reports};
use linerate_sys::clock;
use linerate_tcp::Stack;
use linerate_worker::Worker;

use crate::document::{ConnectionDocument, ConnectionsDocument, PacketsDocument, Snapshot};
use crate::request::CONNECTIONS_MAX;

type TcpWorker<P> = Worker<Stack<OverStack<P>>>;

/// Everything at one moment.
pub(crate) fn snapshot<P: Reports>(view: &View<Stack<OverStack<P>>>) -> Result<Snapshot<P::Document>, ControlError> {
    let reading = view.clone();
    view.call(move |worker| reading_of(worker, &reading, false))
}

/// Everything at one moment.
pub(crate) fn reading_of<P: Reports>(
    worker: &mut TcpWorker<P>,
    view: &View<Stack<OverStack<P>>>,
    last: bool,
) -> Snapshot<P::Document> {
    let now_ns = clock::now_ns();
    let spec = view.table.names().into_iter().next().map(|(_, name)| name).unwrap_or_default();
    let (program, tls, connections) =
        with(worker, |app, io| (app.program.document(io.time_ns()), app.program.tls(), io.connections()));
    Snapshot {
        schema: P::SCHEMA.into(),
        name: view.dir.name().into(),
        seconds: (now_ns - view.started_ns) as f64 / 1e9,
        program,
        tls,
        retransmissions: retransmissions(worker),
        counters: counters(worker, false),
        stack_connections: connections as u64,
        packets: packets(worker, spec),
        worker: worker_document(worker, view.core),
        last,
    }
}

fn with<P: Reports, R>(
    worker: &mut TcpWorker<P>,
    work: impl FnOnce(&mut OverStack<P>, &mut linerate_tcp::Io<'_>) -> R,
) -> R {
    worker.datapath.with(clock::now_ns(), work)
}

fn packets<P: Reports>(worker: &mut TcpWorker<P>, name: String) -> PacketsDocument {
    let Some(port) = worker.port(PortIndex(0)) else {
        return PacketsDocument { port: name, ..PacketsDocument::default() };
    };
    let (caps, stats) = (port.caps().clone(), port.stats().unwrap_or_default());
    let detail = format!("{}: {}", caps.backend, caps.detail);
    let mut packets = PacketsDocument { port: caps.name, detail, ..PacketsDocument::default() };
    last_packets(&mut packets, &stats);
    packets
}

/// Counters by name.
pub(crate) fn counters<P: Reports>(worker: &mut TcpWorker<P>, zeroes: bool) -> BTreeMap<String, u64> {
    let (counters, udp) = with(worker, |_, io| (io.counters(), io.udp_counters()));
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
fn retransmissions<P: Reports>(worker: &mut TcpWorker<P>) -> BTreeMap<String, u64> {
    let counters = with(worker, |_, io| io.send_counters());
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

/// Connections from index `after` on.
pub(crate) fn connections<P: Reports>(worker: &mut TcpWorker<P>, after: u32) -> ConnectionsDocument {
    with(worker, |_, io| {
        let mut document = ConnectionsDocument::default();
        // Free places cost a look each, so the looks are bounded, too.
        let last = io.connection_indexes().min(after.saturating_add(64 * CONNECTIONS_MAX));
        document.next = (last < io.connection_indexes()).then_some(last);
        for index in after..last {
            if document.connections.len() >= CONNECTIONS_MAX as usize {
                document.next = Some(index);
                break;
            }
            let info = io.connection_at(index).and_then(|conn| io.info(conn));
            document.connections.extend(info.as_ref().map(ConnectionDocument::new));
        }
        document
    })
}

/// Takes over the last totals of the port.
pub(crate) fn last_packets(packets: &mut PacketsDocument, stats: &Stats) {
    (packets.received, packets.received_bytes) = (stats.rx_packets, stats.rx_bytes);
    (packets.sent, packets.sent_bytes) = (stats.tx_packets, stats.tx_bytes);
    (packets.rx_drops, packets.tx_drops) = (drops_that_happened(&stats.rx_drops), drops_that_happened(&stats.tx_drops));
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
