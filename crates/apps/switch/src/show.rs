//! Documents of what the worker has. Each function that takes a worker runs on the worker's thread, between two rounds, and is bounded.

use std::collections::BTreeMap;

use linerate_control::{ControlError, PortTable, View, add_port_drops, port_documents, worker_document};
use linerate_l2::{DropCounts, PortCounters, PortIndex, Switch};
use linerate_sys::clock;
use linerate_worker::Worker;

use crate::document::{
    CountersDocument, DropDocument, LatencyDocument, MacDocument, MacsDocument, PortDocument, SCHEMA, Snapshot,
    TableDocument, TotalsDocument, VlanDocument,
};
use crate::request::MACS_MAX;

/// Name of a port that is gone.
pub(crate) const GONE: &str = "(gone)";

/// Everything at one moment, except the drops that only the ports count, which are asked for port by port so that packets move between.
pub(crate) fn snapshot(view: &View<Switch>) -> Result<Snapshot, ControlError> {
    let (table, reading) = (view.table.clone(), view.clone());
    let mut snapshot = view.call(move |worker| reading_of(worker, &table, &reading, false))?;
    add_port_drops(view, &mut snapshot.ports)?;
    Ok(snapshot)
}

/// Everything at one moment, except the drops that only the ports count.
pub(crate) fn reading_of(worker: &mut Worker<Switch>, table: &PortTable, view: &View<Switch>, last: bool) -> Snapshot {
    Snapshot {
        schema: SCHEMA.into(),
        name: view.dir.name().into(),
        seconds: (clock::now_ns() - view.started_ns) as f64 / 1e9,
        ports: ports(worker, table),
        totals: totals(&worker.datapath),
        table: mac_table(&worker.datapath),
        worker: worker_document(worker, view.core),
        last,
    }
}

/// Ports without the drops that only the ports themselves count.
pub(crate) fn ports(worker: &mut Worker<Switch>, table: &PortTable) -> Vec<PortDocument> {
    port_documents(worker, table, |switch, index| switch.port_counters(index).map(counters).unwrap_or_default())
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

pub(crate) fn totals(switch: &Switch) -> TotalsDocument {
    let totals = switch.totals();
    let ports = &totals.ports;
    TotalsDocument {
        received: ports.received_packets,
        unicast: ports.unicast,
        flooded: ports.flooded,
        dropped: ports.dropped.total(),
        drops: switch.drops().filter(|(_, packets)| *packets > 0).map(|(r, n)| (r.to_string(), n)).collect(),
        flood_copies: ports.flood_copies,
        mirror_copies: ports.mirror_copies,
        queued: ports.queued_packets,
        sent: ports.sent_packets,
        waiting: totals.waiting,
        discarded: ports.discarded.total(),
        unbalanced: totals.balances().err(),
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

pub(crate) fn macs(switch: &Switch, table: &PortTable, after: u64) -> MacsDocument {
    let skipped = usize::try_from(after).unwrap_or(usize::MAX);
    let mut entries = switch.macs().skip(skipped);
    let macs: Vec<MacDocument> = entries
        .by_ref()
        .take(MACS_MAX)
        .map(|entry| MacDocument {
            mac: entry.mac.to_string(),
            vlan: entry.vlan,
            port: table.name(entry.port).unwrap_or_else(|| GONE.into()),
            is_static: entry.is_static,
            idle_s: u64::from(entry.idle_s),
            moves: u64::from(entry.moves),
        })
        .collect();
    let next = entries.next().map(|_| after.saturating_add(macs.len() as u64));
    MacsDocument { macs, next }
}

pub(crate) fn vlans(switch: &Switch) -> Vec<VlanDocument> {
    let document = |vlan: u16| {
        let counted = switch.vlan_counters(vlan)?;
        Some(VlanDocument {
            vlan,
            received: counted.received_packets,
            received_bytes: counted.received_bytes,
            unicast: counted.unicast,
            flooded: counted.flooded,
            dropped: by_reason(&counted.dropped),
        })
    };
    switch.vlans().filter_map(document).collect()
}

pub(crate) fn latency(switch: &Switch, table: &PortTable) -> Vec<LatencyDocument> {
    let ports = table.names();
    let pairs = ports.iter().flat_map(|from| ports.iter().map(move |to| (from, to)));
    let document = |((from, from_name), (to, to_name)): (&(PortIndex, String), &(PortIndex, String))| {
        let histogram = switch.latency(*from, *to).filter(|histogram| histogram.count() > 0)?;
        let percentile = |percent: f64| histogram.percentile_ns(percent).unwrap_or(0);
        Some(LatencyDocument {
            from: from_name.clone(),
            to: to_name.clone(),
            packets: histogram.count(),
            p50_ns: percentile(50.0),
            p99_ns: percentile(99.0),
            p999_ns: percentile(99.9),
            max_ns: histogram.max_ns().unwrap_or(0),
        })
    };
    pairs.filter_map(document).collect()
}

/// Drops of the engine, by port; those of the ports themselves are added by the caller.
pub(crate) fn drops(switch: &Switch, table: &PortTable) -> Vec<DropDocument> {
    let mut rows = Vec::new();
    for (index, name) in table.names() {
        if let Some(counted) = switch.port_counters(index) {
            drops_of_port(&mut rows, &name, counted);
        }
    }
    drops_of_port(&mut rows, GONE, switch.retired());
    rows
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
