//! Documents of what the worker has. Each function runs on the worker's thread, between two rounds, and is bounded.

use std::collections::BTreeMap;

use linerate_l2::{DropCounts, PortCounters, PortIndex};
use linerate_port::{Drops, Stats};
use linerate_sys::clock;

use crate::document::{
    CountersDocument, DropDocument, LatencyDocument, MacDocument, MacsDocument, PlaceDocument, PortDocument, SCHEMA,
    Snapshot, TableDocument, TotalsDocument, VlanDocument, WorkerDocument,
};
use crate::hub::{Hub, Line};
use crate::protocol::{MACS_MAX, Refusal};
use crate::worker::Handle;

/// What a port that is gone is called.
pub(crate) const GONE: &str = "(gone)";

/// Everything at one moment, but for what only the ports know, which is asked for port by port so that packets go on between.
pub(crate) fn snapshot(
    handle: &Handle,
    name: &str,
    started_ns: u64,
    pinned: Option<usize>,
) -> Result<Snapshot, Refusal> {
    let read = move |hub: &mut Hub| (ports(hub), totals(hub), table(hub), worker(hub, pinned));
    let (mut ports, totals, table, worker) = handle.call(read)?;
    add_port_drops(handle, &mut ports)?;
    Ok(Snapshot {
        schema: SCHEMA.into(),
        name: name.into(),
        seconds: (clock::now_ns() - started_ns) as f64 / 1e9,
        ports,
        totals,
        table,
        worker,
        last: false,
    })
}

/// Adds what the ports themselves lost.
pub(crate) fn add_port_drops(handle: &Handle, documents: &mut [PortDocument]) -> Result<(), Refusal> {
    for document in documents {
        let name = document.name.clone();
        (document.port_rx_drops, document.port_tx_drops) = handle.call(move |hub| port_drops(hub, &name))?;
    }
    Ok(())
}

/// Ports without what only the ports themselves know: those counts may cost system calls, see [`port_drops`].
pub(crate) fn ports(hub: &mut Hub) -> Vec<PortDocument> {
    let mut documents: Vec<(PortIndex, PortDocument)> =
        hub.lines.iter().map(|line| (line.index, port(hub, line))).collect();
    documents.sort_by_key(|(index, _)| *index);
    documents.into_iter().map(|(_, document)| document).collect()
}

fn port(hub: &Hub, line: &Line) -> PortDocument {
    let caps = line.port.caps();
    let counted = hub.switch.port_counters(line.index);
    PortDocument {
        name: line.name().into(),
        spec: line.config.spec.clone(),
        detail: format!("{}: {}", caps.backend, caps.detail),
        state: line.down.as_ref().map_or("up".into(), |why| format!("down: {why}")),
        settings: line.settings.words(),
        frame_len_max: caps.frame_len_max,
        counters: counted.map(counters).unwrap_or_default(),
        ..PortDocument::default()
    }
}

pub(crate) fn counters(counted: &PortCounters) -> CountersDocument {
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

/// What the port itself lost, before the switch had it and after. Asks the kernel where it has the counters.
pub(crate) fn port_drops(hub: &mut Hub, name: &str) -> (Vec<PlaceDocument>, Vec<PlaceDocument>) {
    let stats = hub.line_mut(name).and_then(|line| line.port.stats().ok()).unwrap_or_default();
    drops_of(stats)
}

pub(crate) fn drops_of(stats: Stats) -> (Vec<PlaceDocument>, Vec<PlaceDocument>) {
    let place = |drops: Drops| PlaceDocument { place: drops.place, cause: drops.cause, packets: drops.packets };
    (stats.rx_drops.into_iter().map(place).collect(), stats.tx_drops.into_iter().map(place).collect())
}

pub(crate) fn totals(hub: &Hub) -> TotalsDocument {
    let totals = hub.switch.totals();
    let ports = &totals.ports;
    TotalsDocument {
        received: ports.received_packets,
        unicast: ports.unicast,
        flooded: ports.flooded,
        dropped: ports.dropped.total(),
        drops: hub.switch.drops().filter(|(_, packets)| *packets > 0).map(|(r, n)| (r.to_string(), n)).collect(),
        flood_copies: ports.flood_copies,
        mirror_copies: ports.mirror_copies,
        queued: ports.queued_packets,
        sent: ports.sent_packets,
        waiting: totals.waiting,
        discarded: ports.discarded.total(),
        unbalanced: totals.balances().err(),
    }
}

pub(crate) fn table(hub: &Hub) -> TableDocument {
    let counted = hub.switch.mac_counters();
    TableDocument {
        size: hub.switch.table_entries() as u64,
        ageing_s: hub.switch.age_s(),
        used: counted.used,
        capacity: counted.capacity,
        learned: counted.learned,
        moved: counted.moved,
        aged: counted.aged,
        evicted: counted.evicted,
        not_learned: counted.not_learned,
    }
}

pub(crate) fn worker(hub: &Hub, pinned: Option<usize>) -> WorkerDocument {
    WorkerDocument {
        core: pinned,
        rounds: hub.turns.rounds,
        busy_rounds: hub.turns.busy,
        busy_ns: hub.turns.busy_ns,
        sleeps: hub.turns.sleeps,
        cpu_ns: clock::thread_cpu_ns(),
        frames: hub.pool.region().frames().into(),
        frames_free: hub.pool.available() as u64,
    }
}

pub(crate) fn macs(hub: &Hub, after: u64) -> MacsDocument {
    let skipped = usize::try_from(after).unwrap_or(usize::MAX);
    let mut entries = hub.switch.macs().skip(skipped);
    let macs: Vec<MacDocument> = entries
        .by_ref()
        .take(MACS_MAX)
        .map(|entry| MacDocument {
            mac: entry.mac.to_string(),
            vlan: entry.vlan,
            port: name_of(hub, entry.port),
            is_static: entry.is_static,
            idle_s: u64::from(entry.idle_s),
            moves: u64::from(entry.moves),
        })
        .collect();
    let next = entries.next().map(|_| after.saturating_add(macs.len() as u64));
    MacsDocument { macs, next }
}

pub(crate) fn vlans(hub: &Hub) -> Vec<VlanDocument> {
    let document = |vlan: u16| {
        let counted = hub.switch.vlan_counters(vlan)?;
        Some(VlanDocument {
            vlan,
            received: counted.received_packets,
            received_bytes: counted.received_bytes,
            unicast: counted.unicast,
            flooded: counted.flooded,
            dropped: by_reason(&counted.dropped),
        })
    };
    hub.switch.vlans().filter_map(document).collect()
}

pub(crate) fn latency(hub: &Hub) -> Vec<LatencyDocument> {
    let pairs = hub.lines.iter().flat_map(|from| hub.lines.iter().map(move |to| (from, to)));
    let document = |(from, to): (&Line, &Line)| {
        let histogram = hub.switch.latency(from.index, to.index).filter(|histogram| histogram.count() > 0)?;
        let percentile = |percent: f64| histogram.percentile_ns(percent).unwrap_or(0);
        Some(LatencyDocument {
            from: from.name().into(),
            to: to.name().into(),
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
pub(crate) fn drops(hub: &Hub) -> Vec<DropDocument> {
    let mut rows = Vec::new();
    for line in &hub.lines {
        if let Some(counted) = hub.switch.port_counters(line.index) {
            drops_of_port(&mut rows, line.name(), counted);
        }
    }
    drops_of_port(&mut rows, GONE, hub.switch.retired());
    rows
}

fn drops_of_port(rows: &mut Vec<DropDocument>, port: &str, counted: &PortCounters) {
    for (at, counts) in [("received", &counted.dropped), ("copy", &counted.refused), ("queue", &counted.discarded)] {
        rows.extend(counts.iter().map(|(reason, packets)| DropDocument {
            port: port.into(),
            at: at.into(),
            reason: reason.to_string(),
            packets,
        }));
    }
}

pub(crate) fn name_of(hub: &Hub, index: PortIndex) -> String {
    let line = hub.lines.iter().find(|line| line.index == index);
    line.map_or_else(|| GONE.into(), |line| line.name().into())
}
