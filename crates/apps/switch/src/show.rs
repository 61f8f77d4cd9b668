//! Documents of what the worker has. Each function that takes a worker runs on the worker's thread, between two rounds, and is bounded: it copies
//! numbers, by a function of a crate that is compiled to run fast where they are many. What is said of them is put into words by others.

use std::collections::BTreeMap;

use linerate_control::{ControlError, View, WorkerDocument, add_port_stats, port_documents, worker_document};
use linerate_l2::{DropCounts, DropReason, MacEntry, PortCounters, PortIndex, Switch, Totals, VlanCounters};
use linerate_measure::CoarseHistogram;
use linerate_switch_loop::SteeredSwitch;
use linerate_sys::clock;
use linerate_worker::{SteeringCounters, Worker};

use crate::document::{
    CountersDocument, DropDocument, LatencyDocument, MacDocument, MacsDocument, PortDocument, SCHEMA, Snapshot,
    SwitchWorkerDocument, TableDocument, TotalsDocument, VlanDocument,
};
use crate::request::MACS_MAX;

/// Name of a port that is gone.
pub(crate) const GONE: &str = "(gone)";

/// What one worker has at one moment.
pub(crate) struct Reading {
    /// Its ports, without the drops that only the ports themselves count.
    pub(crate) documents: Vec<PortDocument>,
    /// The ports of all workers, as this one counts them.
    counters: Vec<(String, PortCounters)>,
    retired: PortCounters,
    pub(crate) totals: Totals,
    pub(crate) drops: Vec<(DropReason, u64)>,
    table: TableDocument,
    pub(crate) worker: WorkerDocument,
    steering: SteeringCounters,
}

/// Reads a worker, on its thread.
pub(crate) fn read(worker: &mut Worker<SteeredSwitch>, view: &View<SteeredSwitch>) -> Reading {
    let documents = port_documents(worker, &view.table, |_, _| CountersDocument::default());
    let (steering, switch) = (worker.datapath.steering_counters(), &*worker.datapath);
    let counted = |(port, name)| Some((name, *switch.port_counters(port)?));
    Reading {
        documents,
        counters: switch.named_ports().into_iter().filter_map(counted).collect(),
        retired: *switch.retired(),
        totals: switch.totals(),
        drops: switch.drops().collect(),
        table: mac_table(switch),
        worker: worker_document(worker, view.core),
        steering,
    }
}

/// Reads all workers, one after another.
fn read_all(views: &[View<SteeredSwitch>]) -> Result<Vec<Reading>, ControlError> {
    let read = |view: &View<SteeredSwitch>| {
        let own = view.clone();
        view.call(move |worker| self::read(worker, &own))
    };
    views.iter().map(read).collect()
}

/// Two readings, of which the first says what left; of one worker, one is enough.
fn read_twice(views: &[View<SteeredSwitch>]) -> Result<(Vec<Reading>, Vec<Reading>), ControlError> {
    let earlier = if views.len() > 1 { read_all(views)? } else { Vec::new() };
    Ok((earlier, read_all(views)?))
}

/// Everything at one moment, except the drops that only the ports count, which are asked for port by port so that packets move between.
pub(crate) fn snapshot(views: &[View<SteeredSwitch>]) -> Result<Snapshot, ControlError> {
    let (earlier, mut readings) = read_twice(views)?;
    for (reading, view) in readings.iter_mut().zip(views) {
        add_port_stats(view, &mut reading.documents)?;
    }
    let earlier = if earlier.is_empty() { &readings } else { &earlier };
    let view = views.first().ok_or_else(|| ControlError::new("there is no worker", "please report this"))?;
    Ok(compose(view, earlier, &readings))
}

/// One document of all workers.
pub(crate) fn compose(view: &View<SteeredSwitch>, earlier: &[Reading], readings: &[Reading]) -> Snapshot {
    let worker = |reading: &Reading| {
        let ports = &reading.totals.ports;
        SwitchWorkerDocument {
            worker: reading.worker.clone(),
            ports: reading.documents.iter().map(|document| document.name.clone()).collect(),
            received: ports.received_packets,
            sent: ports.sent_packets - ports.handed_over_packets,
            handed_over: ports.handed_over_packets,
            handed_in: ports.handed_in_packets,
            steered_out: reading.steering.steered_out,
            steered_in: reading.steering.steered_in,
        }
    };
    Snapshot {
        schema: SCHEMA.into(),
        name: view.dir.name().into(),
        seconds: (clock::now_ns() - view.started_ns) as f64 / 1e9,
        ports: documents(earlier, readings),
        totals: totals(&sum(earlier, readings), readings),
        table: readings.first().map(|reading| reading.table.clone()).unwrap_or_default(),
        workers: readings.iter().map(worker).collect(),
        last: false,
    }
}

/// All ports, in the order of their numbers, with what all workers count of them.
fn documents(earlier: &[Reading], readings: &[Reading]) -> Vec<PortDocument> {
    let mut documents: Vec<PortDocument> = Vec::new();
    for document in readings.iter().flat_map(|reading| &reading.documents) {
        match documents.iter_mut().find(|known| known.name == document.name) {
            Some(known) => known.add_queues(document),
            None => documents.push(document.clone()),
        }
    }
    let order: Vec<&String> =
        readings.iter().take(1).flat_map(|reading| &reading.counters).map(|(name, _)| name).collect();
    documents.sort_by_key(|document| order.iter().position(|name| **name == document.name).unwrap_or(usize::MAX));
    for document in &mut documents {
        let of = |readings: &[Reading]| counters_of(readings, &document.name);
        document.counters = counters(&of(readings).left_as_in(&of(earlier)).across_workers());
    }
    documents
}

fn counters_of(readings: &[Reading], name: &str) -> PortCounters {
    let mut sum = PortCounters::default();
    let counters = readings.iter().flat_map(|reading| &reading.counters).filter(|(known, _)| known == name);
    counters.for_each(|(_, counters)| sum.merge(counters));
    sum
}

/// The account over all workers.
fn sum(earlier: &[Reading], readings: &[Reading]) -> Totals {
    let all = |readings: &[Reading]| {
        let mut sum = Totals::default();
        readings.iter().for_each(|reading| sum.merge(&reading.totals));
        sum
    };
    let (before, now) = (all(earlier), all(readings));
    Totals { ports: now.ports.left_as_in(&before.ports), ..now }.across_workers()
}

/// The account at the end. Packets that no worker took out of a ring any more were dropped with their port.
pub(crate) fn last_totals(readings: &[Reading]) -> TotalsDocument {
    let sum = sum(readings, readings);
    let mut document = totals(&sum, readings);
    let left = std::mem::take(&mut document.waiting);
    if left > 0 {
        document.discarded += left;
        *document.drops.entry(DropReason::PortRemoved.to_string()).or_default() += left;
    }
    document
}

/// Ports of all workers.
pub(crate) fn ports(views: &[View<SteeredSwitch>]) -> Result<Vec<PortDocument>, ControlError> {
    snapshot(views).map(|snapshot| snapshot.ports)
}

fn counters(counted: &PortCounters) -> CountersDocument {
    CountersDocument {
        received: counted.received_packets,
        received_bytes: counted.received_bytes,
        unicast: counted.unicast,
        flooded: counted.flooded,
        dropped: by_reason(&counted.dropped),
        flood_copies: counted.flood_copies,
        mirror_copies: counted.mirror_copies,
        queued: counted.queued_packets,
        sent: counted.sent_packets,
        sent_bytes: counted.sent_bytes,
        waiting: counted.waiting(),
        discarded: by_reason(&counted.discarded),
        refused: by_reason(&counted.refused),
    }
}

fn by_reason(counts: &DropCounts) -> BTreeMap<String, u64> {
    counts.iter().map(|(reason, packets)| (reason.to_string(), packets)).collect()
}

fn totals(totals: &Totals, readings: &[Reading]) -> TotalsDocument {
    let ports = &totals.ports;
    let mut drops = BTreeMap::new();
    for (reason, packets) in readings.iter().flat_map(|reading| &reading.drops) {
        *drops.entry(reason.to_string()).or_default() += packets;
    }
    let unbalanced = readings.iter().find_map(|reading| reading.totals.balances().err());
    TotalsDocument {
        received: ports.received_packets,
        unicast: ports.unicast,
        flooded: ports.flooded,
        dropped: ports.dropped.total(),
        drops,
        flood_copies: ports.flood_copies,
        mirror_copies: ports.mirror_copies,
        queued: ports.queued_packets,
        sent: ports.sent_packets,
        waiting: totals.waiting,
        discarded: ports.discarded.total(),
        unbalanced: unbalanced.or_else(|| totals.balances().err()),
    }
}

fn mac_table(switch: &Switch) -> TableDocument {
    let counted = switch.mac_counters();
    TableDocument {
        size: switch.table_entries() as u64,
        ageing_s: switch.age_s(),
        used: counted.used,
        capacity: counted.capacity,
        learned: counted.learned,
        moved: counted.moved,
        aged: counted.aged,
        evicted: counted.evicted,
        not_learned: counted.not_learned,
    }
}

pub(crate) fn macs(view: &View<SteeredSwitch>, after: u64) -> Result<MacsDocument, ControlError> {
    let skipped = usize::try_from(after).unwrap_or(usize::MAX);
    let read = move |worker: &mut Worker<SteeredSwitch>| {
        let switch = &*worker.datapath;
        (switch.named_ports(), linerate_switch_loop::macs(switch, skipped, MACS_MAX))
    };
    let (names, (entries, more)) = view.call(read)?;
    let names: BTreeMap<PortIndex, String> = names.into_iter().collect();
    let document = |entry: &MacEntry| MacDocument {
        mac: entry.mac.to_string(),
        vlan: entry.vlan,
        port: names.get(&entry.port).cloned().unwrap_or_else(|| GONE.into()),
        is_static: entry.is_static,
        idle_s: u64::from(entry.idle_s),
        moves: u64::from(entry.moves),
    };
    let macs: Vec<MacDocument> = entries.iter().map(document).collect();
    let next = more.then(|| after.saturating_add(macs.len() as u64));
    Ok(MacsDocument { macs, next })
}

pub(crate) fn vlans(views: &[View<SteeredSwitch>]) -> Result<Vec<VlanDocument>, ControlError> {
    let mut sums: BTreeMap<u16, VlanCounters> = BTreeMap::new();
    for view in views {
        let counted = view.call(|worker| {
            let switch = &*worker.datapath;
            switch.vlans().filter_map(|vlan| Some((vlan, *switch.vlan_counters(vlan)?))).collect::<Vec<_>>()
        })?;
        counted.iter().for_each(|(vlan, counters)| sums.entry(*vlan).or_default().merge(counters));
    }
    let document = |(vlan, counted): (u16, VlanCounters)| VlanDocument {
        vlan,
        received: counted.received_packets,
        received_bytes: counted.received_bytes,
        unicast: counted.unicast,
        flooded: counted.flooded,
        dropped: by_reason(&counted.dropped),
    };
    Ok(sums.into_iter().map(document).collect())
}

/// Latency of packets that one worker got and sent.
pub(crate) fn latency(views: &[View<SteeredSwitch>]) -> Result<Vec<LatencyDocument>, ControlError> {
    let mut sums: BTreeMap<(PortIndex, PortIndex), (String, String, CoarseHistogram)> = BTreeMap::new();
    for view in views {
        for (pair, names, histogram) in view.call(|worker| latency_of(&worker.datapath))? {
            let sum = sums.entry(pair).or_insert_with(|| (names.0, names.1, CoarseHistogram::default()));
            sum.2.merge(&histogram);
        }
    }
    Ok(sums.into_values().map(latency_document).collect())
}

fn latency_document((from, to, histogram): (String, String, CoarseHistogram)) -> LatencyDocument {
    let percentile = |percent: f64| histogram.percentile_ns(percent).unwrap_or(0);
    LatencyDocument {
        from,
        to,
        packets: histogram.count(),
        p50_ns: percentile(50.0),
        p99_ns: percentile(99.0),
        p999_ns: percentile(99.9),
        max_ns: histogram.max_ns().unwrap_or(0),
    }
}

/// The pairs of ports between which the worker sent packets.
type Pair = ((PortIndex, PortIndex), (String, String), CoarseHistogram);

fn latency_of(switch: &Switch) -> Vec<Pair> {
    let ports = switch.named_ports();
    let pairs = ports.iter().flat_map(|from| ports.iter().map(move |to| (from, to)));
    let latency = |((from, from_name), (to, to_name)): (&(PortIndex, String), &(PortIndex, String))| {
        let histogram = switch.latency(*from, *to).filter(|histogram| histogram.count() > 0)?;
        Some(((*from, *to), (from_name.clone(), to_name.clone()), histogram.clone()))
    };
    pairs.filter_map(latency).collect()
}

/// Drops of the engine, by port; those of the ports themselves are added by the caller.
pub(crate) fn drops(views: &[View<SteeredSwitch>]) -> Result<Vec<DropDocument>, ControlError> {
    let readings = read_all(views)?;
    let mut rows = Vec::new();
    for (name, _) in readings.iter().take(1).flat_map(|reading| &reading.counters) {
        drops_of_port(&mut rows, name, &counters_of(&readings, name));
    }
    let mut retired = PortCounters::default();
    readings.iter().for_each(|reading| retired.merge(&reading.retired));
    drops_of_port(&mut rows, GONE, &retired);
    Ok(rows)
}

fn drops_of_port(rows: &mut Vec<DropDocument>, port: &str, counted: &PortCounters) {
    for (at, counts) in
        [("ingress", &counted.dropped), ("flood-copy", &counted.refused), ("egress-queue", &counted.discarded)]
    {
        rows.extend(counts.iter().map(|(reason, packets)| DropDocument {
            port: port.into(),
            at: at.into(),
            reason: reason.to_string(),
            packets,
        }));
    }
}
