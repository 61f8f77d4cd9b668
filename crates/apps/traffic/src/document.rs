//! The documents of `--json`: `linerate.send/1` and `linerate.receive/1`. `docs/send-receive.md` describes every field, `docs/schema/` has
//! the schemas; the rule for readers is that fields may be added, and that a change of meaning changes the number.

use std::collections::BTreeMap;

use linerate_console::tables::{CoreRow, QueueRow, uneven_queues};
use linerate_console::tool;
use linerate_gen::{Histogram, MergedStream, Receiver, SenderReport, SequenceCounts};
use linerate_port::{Drops, FarSide, Stats, drops_that_happened};
use linerate_report::{Latency, TimestampKind};
use linerate_streams::StreamFile;
use linerate_units::{Timestamp, Tool};
use serde::Serialize;

use super::receiving::Received;
use super::sending::Sent;
use linerate_console::watch::EndedBy;

/// Schema of [`SendDocument`].
pub const SEND_SCHEMA: &str = "linerate.send/1";
/// Schema of [`ReceiveDocument`].
pub const RECEIVE_SCHEMA: &str = "linerate.receive/1";

/// Bytes of FCS, and those of preamble, start delimiter and gap.
const FCS: u64 = 4;
const L1_OVERHEAD: u64 = 20;

/// What `linerate send` did.
#[derive(Debug, Serialize)]
pub struct SendDocument {
    /// [`SEND_SCHEMA`].
    pub schema: &'static str,
    /// Who wrote it.
    pub tool: Tool,
    /// When sending started.
    pub started: Timestamp,
    /// A signal ended it early.
    pub interrupted: bool,
    /// The streams as asked for; none for a replay.
    pub streams: Vec<StreamEntry>,
    /// What is replayed instead, and how.
    pub replay: Option<String>,
    /// The ports, in the order given.
    pub ports: Vec<PortSent>,
    /// The threads that sent.
    pub cores: Vec<CoreRow>,
    /// What was received in the same process, if anything was.
    pub received: Option<ReceivedAll>,
}

/// A stream of the stream file.
#[derive(Debug, Serialize)]
pub struct StreamEntry {
    /// Its name.
    pub name: Option<String>,
    /// Its share.
    pub weight: u32,
    /// Sizes on the wire with their shares.
    pub sizes: Vec<SizeShare>,
    /// Their mean.
    pub mean_size_wire: f64,
}

/// A size and how often it occurs.
#[derive(Debug, Serialize)]
pub struct SizeShare {
    /// Bytes on the wire, FCS included.
    pub size_wire: u32,
    /// Packets of every sum of shares.
    pub share: u64,
}

/// What one port sent.
#[derive(Debug, Serialize)]
pub struct PortSent {
    /// Its name.
    pub port: String,
    /// How it was opened.
    pub detail: String,
    /// Core of its thread, of the first one if it has several.
    pub core: Option<usize>,
    /// Its queues, each with a thread of its own.
    pub queues: Vec<QueueRow>,
    /// The port made the packets by itself, from the stream.
    pub offloaded: bool,
    /// Packets that the schedule asked for: `intended = unsent + sent`.
    pub intended: u64,
    /// Packets that the port took.
    pub sent: u64,
    /// Packets that it did not.
    pub unsent: u64,
    /// Of these, packets of a replay that were longer than the port takes.
    pub too_long: u64,
    /// Bytes of the packets sent, without FCS.
    pub bytes: u64,
    /// Seconds from the start of the schedule to its end, or to the last packet if that is later.
    pub seconds: f64,
    /// Intended rate; null = as fast as the port takes packets.
    pub intended_pps: Option<f64>,
    /// Packets sent per second.
    pub sent_pps: f64,
    /// Bits sent per second on the link, preamble and gap included.
    pub l1_bps: f64,
    /// Bits sent per second in frames, FCS included.
    pub l2_bps: f64,
    /// By how much the sent rate is above (or below) the intended one, as a share; null without a rate.
    pub rate_error: Option<f64>,
    /// From the scheduled time of a packet to the time at which it was handed to the port.
    pub lateness: Option<Latency>,
    /// Difference between the pause before a packet and the scheduled pause, as an absolute value.
    pub gap_error: Option<Latency>,
    /// Packets sent of each stream.
    pub streams: Vec<StreamSent>,
    /// Packets that the port took and did not send.
    pub drops: Vec<Drops>,
    /// Packets whose sending was not complete when the program ended.
    pub tx_pending: u64,
    /// What broke the port.
    pub error: Option<String>,
}

/// What was sent of a stream.
#[derive(Debug, Serialize)]
pub struct StreamSent {
    /// Its signature id.
    pub id: Option<u16>,
    /// Packets.
    pub sent: u64,
}

/// What `linerate receive` counted.
#[derive(Debug, Serialize)]
pub struct ReceiveDocument {
    /// [`RECEIVE_SCHEMA`].
    pub schema: &'static str,
    /// Who wrote it.
    pub tool: Tool,
    /// When receiving started.
    pub started: Timestamp,
    /// How long it took.
    pub seconds: f64,
    /// Why it was over.
    pub ended_by: EndedBy,
    /// Number of packets given with `--expect`.
    pub expected: Option<u64>,
    /// The counts.
    pub received: ReceivedAll,
}

/// What arrived.
#[derive(Debug, Serialize)]
pub struct ReceivedAll {
    /// All packets, duplicates and other traffic among them.
    pub packets: u64,
    /// Their bytes, without FCS.
    pub bytes: u64,
    /// By stream.
    pub streams: Vec<StreamReceived>,
    /// Packets without a signature.
    pub other_traffic: OtherTraffic,
    /// By port.
    pub ports: Vec<PortReceived>,
    /// The threads that received.
    pub cores: Vec<CoreRow>,
    /// What broke a port.
    pub error: Option<String>,
}

/// Packets that belong to no stream.
#[derive(Debug, Serialize)]
pub struct OtherTraffic {
    /// How many.
    pub packets: u64,
    /// Their bytes, without FCS.
    pub bytes: u64,
}

/// What arrived of a stream.
#[derive(Debug, Serialize)]
pub struct StreamReceived {
    /// Its signature id.
    pub id: u16,
    /// Packets sent, where that is known.
    pub sent: Option<u64>,
    /// All arrivals, duplicates among them.
    pub packets: u64,
    /// Their bytes, without FCS.
    pub bytes: u64,
    /// Distinct packets.
    pub delivered: u64,
    /// Packets that did not arrive: up to the last one sent where that is known, else up to the highest number seen.
    pub lost: u64,
    /// Further arrivals of packets that had arrived.
    pub duplicated: u64,
    /// Packets that arrived after one with a higher number (RFC 4737).
    pub reordered: u64,
    /// Arrivals too far back to tell whether they are duplicates.
    pub beyond_window: u64,
    /// How often the sender started again.
    pub restarts: u64,
    /// Seconds from the first to the last arrival.
    pub seconds: f64,
    /// Packets per second over that time.
    pub pps: Option<f64>,
    /// Bits per second on the link, preamble and gap included.
    pub l1_bps: Option<f64>,
    /// Bits per second in frames, FCS included.
    pub l2_bps: Option<f64>,
    /// Scheduled departure to arrival, of distinct packets; null where the clocks are not the same.
    pub latency: Option<Latency>,
    /// Whose timestamps the latency is of; null without one. Hardware timestamps are the lab's.
    pub latency_timestamps: Option<TimestampKind>,
}

/// What a port received.
#[derive(Debug, Serialize)]
pub struct PortReceived {
    /// Its name.
    pub port: String,
    /// How it was opened.
    pub detail: String,
    /// Packets that it handed over.
    pub packets: u64,
    /// Their bytes, without FCS.
    pub bytes: u64,
    /// Packets that reached it and were not handed over.
    pub drops: Vec<Drops>,
    /// The same by queue.
    pub queues: Vec<QueueRow>,
}

impl SendDocument {
    /// Puts together what was asked for, sent and received.
    pub fn new(
        streams: Option<&StreamFile>,
        replay: Option<String>,
        sent: &[Sent],
        received: Option<&Received>,
        started: Timestamp,
        interrupted: bool,
    ) -> SendDocument {
        let sent_by_id = sent_by_id(sent);
        SendDocument {
            schema: SEND_SCHEMA,
            tool: tool(),
            started,
            interrupted,
            streams: streams.map_or(Vec::new(), |file| file.streams.iter().map(stream_entry).collect()),
            replay,
            ports: sent.chunk_by(|one, other| one.position == other.position).map(PortSent::new).collect(),
            cores: sent.iter().map(sending_core).collect(),
            received: received.map(|received| ReceivedAll::new(std::slice::from_ref(received), Some(&sent_by_id))),
        }
    }

    /// True when everything that was asked for was sent and, where it is known, arrived. After a signal, packets that were due
    /// and not yet sent do not count: nobody waited for them.
    pub fn is_complete(&self) -> bool {
        let sent = |port: &PortSent| {
            let in_time = self.interrupted || port.unsent == 0;
            in_time && port.tx_pending == 0 && port.error.is_none() && port.drops.is_empty()
        };
        let arrived =
            |received: &ReceivedAll| received.error.is_none() && received.streams.iter().all(|stream| stream.lost == 0);
        self.ports.iter().all(sent) && self.received.as_ref().is_none_or(arrived)
    }
}

fn sending_core(sent: &Sent) -> CoreRow {
    CoreRow::new(sent.core, vec![sent.caps.name.clone()], sent.report.sent, Some(sent.report.bytes), sent.cpu_ns)
}

fn stream_entry(entry: &linerate_streams::StreamEntry) -> StreamEntry {
    let share = |(size_wire, share): &(u32, u64)| SizeShare { size_wire: *size_wire, share: *share };
    StreamEntry {
        name: entry.name.clone(),
        weight: entry.weight,
        sizes: entry.sizes_wire.iter().map(share).collect(),
        mean_size_wire: entry.mean_size_wire(),
    }
}

/// What can arrive, by stream: all but what goes into files, or nowhere.
fn sent_by_id(sent: &[Sent]) -> BTreeMap<u16, u64> {
    let arriving = sent.iter().filter(|sent| !matches!(sent.caps.far_side, FarSide::Nothing | FarSide::File));
    let pairs = arriving.flat_map(|sent| sent.ids.iter().zip(&sent.report.sent_by_stream));
    let mut by_id = BTreeMap::new();
    for (id, packets) in pairs {
        if let Some(id) = id {
            *by_id.entry(*id).or_default() += packets;
        }
    }
    by_id
}

/// The account of all threads of a port.
fn merged(threads: &[Sent]) -> SenderReport {
    let mut all = SenderReport::default();
    for report in threads.iter().map(|sent| &sent.report) {
        all.intended += report.intended;
        all.sent += report.sent;
        all.bytes += report.bytes;
        all.batches += report.batches;
        all.first_ns = [all.first_ns, report.first_ns].into_iter().flatten().min();
        all.last_ns = all.last_ns.max(report.last_ns);
        all.lateness.merge(&report.lateness);
        all.gap_error.merge(&report.gap_error);
    }
    all
}

impl PortSent {
    /// What the threads of one port sent.
    fn new(threads: &[Sent]) -> PortSent {
        let report = merged(threads);
        let start_ns = threads.iter().map(|sent| sent.start_ns).min().unwrap_or(0);
        let scheduled_ns = threads.iter().map(|sent| sent.start_ns + sent.scheduled_ns).max().unwrap_or(0) - start_ns;
        let rate_pps: Option<f64> = threads.iter().map(|sent| sent.rate_pps).sum();
        let busy_ns = report.last_ns.map_or(0, |last_ns| last_ns.saturating_sub(start_ns));
        let seconds = scheduled_ns.max(busy_ns) as f64 / 1e9;
        let rates = Rates::new(report.sent, report.bytes, seconds);
        // What the schedule asked for, over its own time: for random gaps that is not quite the mean rate.
        let scheduled_pps = report.intended as f64 / (scheduled_ns.max(1) as f64 / 1e9);
        let rate_error =
            rate_pps.filter(|_| report.intended > 0 && scheduled_ns > 0).map(|_| rates.pps / scheduled_pps - 1.0);
        let streams = threads.iter().flat_map(|sent| sent.ids.iter().zip(&sent.report.sent_by_stream));
        let mut stats = Stats::default();
        threads.iter().for_each(|sent| stats.add(sent.stats.clone()));
        let queue = |(number, sent): (usize, &Sent)| QueueRow::sent(number, &sent.caps.name, sent.core, &sent.stats);
        let caps = threads.first().map(|sent| sent.caps.clone()).unwrap_or_default();
        PortSent {
            port: caps.name,
            detail: caps.detail,
            core: threads.first().and_then(|sent| sent.core),
            queues: threads.iter().enumerate().map(queue).collect(),
            offloaded: threads.iter().all(|sent| sent.offloaded),
            intended: report.intended,
            sent: report.sent,
            unsent: report.unsent(),
            too_long: threads.iter().map(|sent| sent.too_long).sum(),
            bytes: report.bytes,
            seconds,
            intended_pps: rate_pps,
            sent_pps: rates.pps,
            l1_bps: rates.l1_bps,
            l2_bps: rates.l2_bps,
            rate_error,
            lateness: spread(&report.lateness),
            gap_error: spread(&report.gap_error),
            streams: streams.map(|(id, packets)| StreamSent { id: *id, sent: *packets }).collect(),
            drops: drops_that_happened(&stats.tx_drops),
            tx_pending: threads.iter().map(|sent| sent.tx_pending).sum(),
            error: threads.iter().find_map(|sent| sent.error.clone()),
        }
    }
}

impl ReceivedAll {
    /// The counts of all receiving threads; `sent` says how many packets of each stream there were, where that is known.
    pub fn new(threads: &[Received], sent: Option<&BTreeMap<u16, u64>>) -> ReceivedAll {
        let receivers: Vec<&Receiver> = threads.iter().map(|thread| &thread.receiver).collect();
        let sum = |one: (u64, u64), other: (u64, u64)| (one.0 + other.0, one.1 + other.1);
        let (packets, bytes) = receivers.iter().map(|receiver| receiver.totals()).fold((0, 0), sum);
        let (other_packets, other_bytes) = receivers.iter().map(|receiver| receiver.other_traffic()).fold((0, 0), sum);
        let sent_of = |id: u16| sent.and_then(|sent| sent.get(&id).copied());
        let mut streams: Vec<StreamReceived> =
            MergedStream::of(&receivers).iter().map(|stream| StreamReceived::new(stream, sent_of(stream.id))).collect();
        for (id, packets) in sent.into_iter().flatten() {
            if !streams.iter().any(|stream| stream.id == *id) {
                streams.push(StreamReceived::missing(*id, *packets));
            }
        }
        streams.sort_by_key(|stream| stream.id);
        ReceivedAll {
            packets,
            bytes,
            streams,
            other_traffic: OtherTraffic { packets: other_packets, bytes: other_bytes },
            ports: ports_received(threads),
            cores: threads.iter().map(receiving_core).collect(),
            error: threads.iter().find_map(|thread| thread.error.clone()),
        }
    }

    /// What to know about ports whose queues got unequal shares.
    pub fn uneven(&self) -> Vec<String> {
        self.ports.iter().filter_map(|port| uneven_queues(&port.port, &port.queues)).collect()
    }
}

fn receiving_core(thread: &Received) -> CoreRow {
    let (packets, bytes) = thread.receiver.totals();
    let queues = thread.caps.iter().map(|caps| caps.name.clone()).collect();
    CoreRow::new(thread.core, queues, packets, Some(bytes), thread.cpu_ns)
}

/// What each port received, by the queues of all threads.
fn ports_received(threads: &[Received]) -> Vec<PortReceived> {
    let mut queues: Vec<(usize, QueueRow, &str, &Stats)> = Vec::new();
    for thread in threads {
        let rows = thread.queues.iter().zip(&thread.caps).zip(&thread.stats);
        queues.extend(rows.map(|(((port, queue), caps), stats)| {
            (*port, QueueRow::received(*queue, &caps.name, thread.core, stats), caps.detail.as_str(), stats)
        }));
    }
    queues.sort_by_key(|(port, row, ..)| (*port, row.queue));
    queues.chunk_by(|one, other| one.0 == other.0).filter_map(port_received).collect()
}

/// The port of these queues.
fn port_received(queues: &[(usize, QueueRow, &str, &Stats)]) -> Option<PortReceived> {
    let (_, first, detail, _) = queues.first()?;
    let mut stats = Stats::default();
    queues.iter().for_each(|(.., queue)| stats.add((*queue).clone()));
    Some(PortReceived {
        port: first.port.clone(),
        detail: (*detail).to_owned(),
        packets: stats.rx_packets,
        bytes: stats.rx_bytes,
        drops: drops_that_happened(&stats.rx_drops),
        queues: queues.iter().map(|(_, row, ..)| row.clone()).collect(),
    })
}

impl StreamReceived {
    fn new(stream: &MergedStream<'_>, sent: Option<u64>) -> StreamReceived {
        let SequenceCounts { delivered, lost, duplicated, reordered, beyond_window, restarts } = stream.counts(sent);
        let (packets, bytes) = (stream.packets(), stream.bytes());
        let seconds = (stream.last_ns() - stream.first_ns()) as f64 / 1e9;
        // The first packet opens the time, it is not in it.
        let counted = packets.saturating_sub(1);
        let rates = Rates::new(counted, bytes * counted / packets.max(1), seconds);
        let known = |rate: f64| (seconds > 0.0).then_some(rate);
        StreamReceived {
            id: stream.id,
            sent,
            packets,
            bytes,
            delivered,
            lost,
            duplicated,
            reordered,
            beyond_window,
            restarts,
            seconds,
            pps: known(rates.pps),
            l1_bps: known(rates.l1_bps),
            l2_bps: known(rates.l2_bps),
            latency: spread(&stream.latency()),
            latency_timestamps: spread(&stream.latency()).map(|_| TimestampKind::Software),
        }
    }

    /// A stream of which nothing arrived.
    fn missing(id: u16, sent: u64) -> StreamReceived {
        StreamReceived {
            id,
            sent: Some(sent),
            packets: 0,
            bytes: 0,
            delivered: 0,
            lost: sent,
            duplicated: 0,
            reordered: 0,
            beyond_window: 0,
            restarts: 0,
            seconds: 0.0,
            pps: None,
            l1_bps: None,
            l2_bps: None,
            latency: None,
            latency_timestamps: None,
        }
    }
}

struct Rates {
    pps: f64,
    l1_bps: f64,
    l2_bps: f64,
}

impl Rates {
    /// `bytes` are without FCS.
    fn new(packets: u64, bytes: u64, seconds: f64) -> Rates {
        let per_second = |amount: u64| if seconds > 0.0 { amount as f64 / seconds } else { 0.0 };
        Rates {
            pps: per_second(packets),
            l1_bps: per_second((bytes + (FCS + L1_OVERHEAD) * packets) * 8),
            l2_bps: per_second((bytes + FCS * packets) * 8),
        }
    }
}

/// The histogram in figures; `None` when it is empty.
pub fn spread(histogram: &Histogram) -> Option<Latency> {
    let percentile = |percent: f64| histogram.percentile_ns(percent);
    Some(Latency {
        samples: histogram.count(),
        min_ns: histogram.min_ns()?,
        mean_ns: histogram.mean_ns()?,
        p50_ns: percentile(50.0)?,
        p90_ns: percentile(90.0)?,
        p99_ns: percentile(99.0)?,
        p999_ns: percentile(99.9)?,
        p9999_ns: percentile(99.99)?,
        max_ns: histogram.max_ns()?,
    })
}
