//! The switch's documents for people, most of them in Lagopus's words.

use linerate_ofswitch::document::{
    BridgeDocument, ControllerDocument, DropDocument, FlowDocument, FlowcacheDocument, GroupDocument, LatencyDocument,
    MeterDocument, PortDocument, QueueDocument, Snapshot, TableDocument, TraceDocument,
};
use linerate_units::show::{count, nanoseconds, pps};

use crate::tables::{WorkerRow, head, own_losses, port_queues, table, worker_line, worker_table};

/// Flow entries by table.
pub fn flows(bridge: &str, flows: &[FlowDocument]) -> String {
    let mut lines = vec![format!("Bridge: {bridge}")];
    let mut last = None;
    for flow in flows {
        if last != Some(flow.table) {
            lines.push(format!(" Table id: {}", flow.table));
            last = Some(flow.table);
        }
        lines.push(format!("  {}", flow.line));
    }
    lines.join("\n")
}

/// Flow tables.
pub fn tables(bridge: &str, tables: &[TableDocument]) -> String {
    let mut lines = vec![format!("Bridge: {bridge}")];
    for table in tables {
        lines.push(format!(" Table id: {}", table.table));
        lines.push(format!("  flow entries: {} (at most {})", table.entries, table.entries_max));
        lines.push(format!("  lookup count: {}", table.lookups));
        lines.push(format!("  matched count: {}", table.matches));
    }
    lines.join("\n")
}

/// The caches of the workers.
pub fn flowcache(bridge: &str, cache: &FlowcacheDocument) -> String {
    format!(
        "Bridge: {bridge}\n  nentries: {}\n  ways: {}\n  hit: {}\n  miss: {}",
        cache.entries, cache.ways, cache.hits, cache.misses
    )
}

/// Ports as devices.
pub fn interfaces(ports: &[PortDocument]) -> String {
    if ports.is_empty() {
        return "no ports; `linerate ofswitch ctl add-port NUMBER=SPEC` adds one".into();
    }
    ports.iter().map(interface).collect::<Vec<_>>().join("\n")
}

fn interface(port: &PortDocument) -> String {
    let counters = &port.counters;
    let config = if counters.config.is_empty() { "no restricted".into() } else { counters.config.join(" ") };
    let mut state = vec![if counters.link_up { "LINK UP" } else { "LINK DOWN" }];
    state.extend(counters.live.then_some("LIVE"));
    let mut lines = vec![
        format!("{}:", if counters.of_name.is_empty() { &port.name } else { &counters.of_name }),
        " Description:".into(),
        format!("  OpenFlow Port: {}", port.name),
        format!("  Hardware Address: {}", counters.hw_addr),
        format!("  Device: {} ({})", port.spec, port.detail),
        format!("  Config: {config}"),
        format!("  State: {}", state.join(" ")),
        " Statistics:".into(),
        format!("  rx_packets: {}", counters.rx_packets),
        format!("  tx_packets: {}", counters.tx_packets),
        format!("  rx_bytes: {}", counters.rx_bytes),
        format!("  tx_bytes: {}", counters.tx_bytes),
        format!("  rx_dropped: {}", counters.rx_dropped),
        format!("  tx_dropped: {}", counters.tx_dropped),
    ];
    let own = port.port_rx_drops.iter().chain(&port.port_tx_drops);
    lines.extend(own.map(|lost| format!("  lost by the port: {} at {} ({})", lost.packets, lost.place, lost.cause)));
    lines.join("\n")
}

/// Ports in a table.
pub fn ports(ports: &[PortDocument]) -> String {
    if ports.is_empty() {
        return "no ports; `linerate ofswitch ctl add-port NUMBER=SPEC` adds one".into();
    }
    let mut rows = vec![head(&[
        "port",
        "name",
        "state",
        "received",
        "sent",
        "rx dropped",
        "tx dropped",
        "config",
        "address",
        "spec",
    ])];
    rows.extend(ports.iter().map(|port| {
        let counters = &port.counters;
        let numbers = [counters.rx_packets, counters.tx_packets, counters.rx_dropped, counters.tx_dropped].map(count);
        let config = if counters.config.is_empty() { "-".into() } else { counters.config.join(" ") };
        let first = [port.name.clone(), counters.of_name.clone(), port.state.clone()];
        first.into_iter().chain(numbers).chain([config, counters.hw_addr.clone(), port.spec.clone()]).collect()
    }));
    table(rows, &[3, 4, 5, 6])
}

/// The switch itself.
pub fn bridge(bridge: &BridgeDocument) -> String {
    let mut lines = vec![
        format!("bridge: {}", bridge.name),
        format!("  datapath id: 0x{}", bridge.dpid),
        format!("  max packet buffers: {}", bridge.buffers),
        format!("  number of tables: {}", bridge.tables),
        "  capabilities:".into(),
    ];
    let on = |on: &bool| if *on { "on" } else { "off" };
    lines.extend(bridge.capabilities.iter().map(|(name, value)| format!("    {name}: {}", on(value))));
    let alone = if bridge.standalone { " (no controller: it forwards by itself)" } else { "" };
    lines.push(format!("  fail-mode: {}{alone}", bridge.fail_mode));
    lines.push(format!("  fragments: {}", bridge.fragments));
    lines.extend(
        bridge
            .ports
            .iter()
            .map(|port| format!("  port: {}: ifindex {}, OpenFlow Port {}", port.name, port.ifindex, port.number)),
    );
    lines.join("\n")
}

/// Connections to controllers.
pub fn controllers(dpid: &str, controllers: &[ControllerDocument]) -> String {
    let mut lines = vec![format!("Datapath ID: {dpid}")];
    if controllers.is_empty() {
        lines.push("no controllers; --controller or --listen names some".into());
    }
    for controller in controllers {
        lines.push(format!("Controller: {}", controller.target));
        let status = match (&controller.why, controller.connected) {
            (_, true) => "Connected".into(),
            (Some(why), false) => format!("Disconnected: {why}"),
            (None, false) => "Disconnected".to_owned(),
        };
        lines.push(format!("  Connection status: {status}"));
        if !controller.connected {
            continue;
        }
        let kind =
            if controller.auxiliary == 0 { "main".into() } else { format!("auxiliary {}", controller.auxiliary) };
        lines.push(format!("  Connection: {kind}, {}, for {:.1} s", controller.side, controller.seconds));
        lines.push(format!("  Role: {}", controller.role));
        lines.push(format!(
            "  Requests: {}, {} of them refused",
            count(controller.requests),
            count(controller.refused)
        ));
        lines.push(format!(
            "  Packet-ins: {}, and {} dropped (limit, or it does not read)",
            count(controller.packet_ins),
            count(controller.packet_ins_dropped)
        ));
        lines.push(format!(
            "  Bytes: {} received, {} sent",
            count(controller.received_bytes),
            count(controller.sent_bytes)
        ));
    }
    lines.join("\n")
}

/// Groups.
pub fn groups(bridge: &str, groups: &[GroupDocument]) -> String {
    let mut lines = vec![format!("Bridge: {bridge}")];
    for group in groups {
        lines.push(format!(" {}", group.text));
        lines.push(format!(
            "  packet_count={},byte_count={},ref_count={},duration={:.1}s",
            group.packets, group.bytes, group.references, group.seconds
        ));
        let buckets = group.buckets.iter().enumerate();
        lines.extend(buckets.map(|(number, bucket)| {
            format!("  bucket{number}:packet_count={},byte_count={}", bucket.packets, bucket.bytes)
        }));
    }
    lines.join("\n")
}

/// Meters.
pub fn meters(bridge: &str, meters: &[MeterDocument]) -> String {
    let mut lines = vec![format!("Bridge: {bridge}")];
    for meter in meters {
        lines.push(format!(" {}", meter.text));
        lines.push(format!(
            "  packet_count={},byte_count={},flow_count={},duration={:.1}s",
            meter.packets, meter.bytes, meter.flows, meter.seconds
        ));
        let bands = meter.bands.iter().enumerate();
        lines.extend(
            bands.map(|(number, band)| {
                format!("  band{number}:packet_count={},byte_count={}", band.packets, band.bytes)
            }),
        );
    }
    lines.join("\n")
}

/// Queues.
pub fn queues(queues: &[QueueDocument]) -> String {
    if queues.is_empty() {
        return "no queues; a file's [[queue]] makes some".into();
    }
    let rate = |rate: Option<u64>| rate.map_or("-".into(), |bits| format!("{} kbit/s", count(bits / 1000)));
    let mut rows = vec![head(&["port", "queue", "min rate", "max rate", "sent", "bytes", "dropped"])];
    rows.extend(queues.iter().map(|queue| {
        let first = [queue.port.clone(), queue.queue.to_string(), rate(queue.min_rate_bps), rate(queue.max_rate_bps)];
        first.into_iter().chain([queue.packets, queue.bytes, queue.dropped].map(count)).collect()
    }));
    table(rows, &[1, 2, 3, 4, 5, 6])
}

/// Drops.
pub fn drops(drops: &[DropDocument]) -> String {
    if drops.is_empty() {
        return "nothing was dropped".into();
    }
    let mut rows = vec![head(&["where", "reason", "packets"])];
    rows.extend(drops.iter().map(|drop| vec![drop.at.clone(), drop.reason.clone(), count(drop.packets)]));
    table(rows, &[2])
}

/// Time in the switch.
pub fn latency(rows: &[LatencyDocument]) -> String {
    if rows.is_empty() {
        return "no packets yet".into();
    }
    let mut lines = vec![head(&["to", "packets", "p50", "p99", "p99.9", "max"])];
    lines.extend(rows.iter().map(|row| {
        let times = [row.p50_ns, row.p99_ns, row.p999_ns, row.max_ns].map(|time_ns| nanoseconds(time_ns as f64));
        [row.to.clone(), count(row.packets)].into_iter().chain(times).collect()
    }));
    table(lines, &[1, 2, 3, 4, 5])
}

/// The way of a packet.
pub fn trace(trace: &TraceDocument) -> String {
    format!("{}\nverdict: {}", trace.steps.join("\n"), trace.verdict)
}

/// The account of a switch, in the manner of a ledger: every line but the first of a block is a part of what is above it.
pub fn account(snapshot: &Snapshot) -> String {
    let totals = &snapshot.totals;
    let mut lines = vec![format!(
        "OpenFlow switch {} (datapath {}): {:.1} s, {} ports, {} received",
        snapshot.name,
        snapshot.dpid,
        snapshot.seconds,
        snapshot.ports.len(),
        pps(totals.received as f64 / snapshot.seconds.max(1e-9)),
    )];
    let mut line = |indent: usize, what: &str, packets: u64| {
        let width = 44 - indent;
        lines.push(format!("{}{what:<width$}{:>20}", " ".repeat(indent), count(packets)));
    };
    line(2, "packets", totals.received + totals.packet_outs + totals.copies);
    line(4, "received by ports", totals.received);
    line(4, "sent by controllers", totals.packet_outs);
    line(4, "copies, for further ports and controllers", totals.copies);
    line(2, "went", totals.sent + totals.to_controller + totals.dropped + totals.waiting);
    line(4, "taken by ports", totals.sent);
    line(4, "for controllers", totals.to_controller);
    line(4, "dropped", totals.dropped);
    line(4, "waiting", totals.waiting);
    if !totals.drops.is_empty() {
        lines.push("  dropped, by reason".into());
        lines.extend(totals.drops.iter().map(|(reason, packets)| format!("    {reason:<40}{:>20}", count(*packets))));
    }
    for port in &snapshot.ports {
        own_losses(&mut lines, &port.name, "before the switch had them", &port.port_rx_drops);
        own_losses(&mut lines, &port.name, "after the port took them", &port.port_tx_drops);
        port_queues(&mut lines, &port.name, &port.queues);
    }
    lines.push(match &totals.unbalanced {
        None => "  the account balances: received + sent by controllers + copies = taken + for controllers + dropped + waiting".into(),
        Some(why) => format!("  THE ACCOUNT DOES NOT BALANCE, which is a bug: {why}"),
    });
    lines.join("\n")
}

/// What each worker received, sent and handed over.
pub fn workers(snapshot: &Snapshot) -> String {
    worker_table(snapshot.workers.iter().map(|worker| WorkerRow {
        worker: &worker.worker,
        counts: [worker.received, worker.sent, worker.handed_over, worker.handed_in],
        steered: [worker.steered_out, worker.steered_in],
        ports: &worker.ports,
    }))
}

/// The account, tables, the cache and the workers.
pub fn stats(snapshot: &Snapshot) -> String {
    let mut lines = vec![account(snapshot)];
    let cache = &snapshot.flowcache;
    lines.push(format!(
        "  flow cache: {} entries, {} hits, {} misses",
        count(cache.entries),
        count(cache.hits),
        count(cache.misses)
    ));
    let entries: u64 = snapshot.tables.iter().map(|table| table.entries).sum();
    lines.push(format!("  flow entries: {} in {} tables", count(entries), snapshot.tables.len()));
    if snapshot.workers.len() > 1 {
        lines.push(workers(snapshot));
    }
    lines.extend(snapshot.workers.iter().map(|worker| worker_line(&worker.worker, snapshot.seconds)));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_ofswitch::document::TotalsDocument;

    #[test]
    fn flows_are_listed_by_table_in_lagopus_words() {
        let flow = |table, line: &str| FlowDocument { table, line: line.into(), ..FlowDocument::default() };
        let text = flows("lab", &[flow(0, "priority=1 actions=drop"), flow(0, "priority=0"), flow(3, "x")]);
        assert_eq!(text, "Bridge: lab\n Table id: 0\n  priority=1 actions=drop\n  priority=0\n Table id: 3\n  x");
    }

    #[test]
    fn the_account_says_whether_it_balances() {
        let totals = TotalsDocument { received: 10, copies: 2, sent: 9, dropped: 3, ..TotalsDocument::default() };
        let mut snapshot = Snapshot { name: "s".into(), totals, ..Snapshot::default() };
        snapshot.totals.drops.insert("table-miss".into(), 3);
        let text = account(&snapshot);
        assert!(text.contains("the account balances") && text.contains("table-miss"), "{text}");
        snapshot.totals.unbalanced = Some("12 packets came and 13 went".into());
        assert!(account(&snapshot).contains("DOES NOT BALANCE"));
    }

    #[test]
    fn a_controller_says_why_it_is_not_connected() {
        let controller =
            ControllerDocument { target: "tcp:x:1".into(), why: Some("refused".into()), ..Default::default() };
        let text = controllers("1", &[controller]);
        assert!(text.contains("Controller: tcp:x:1\n  Connection status: Disconnected: refused"), "{text}");
    }
}
