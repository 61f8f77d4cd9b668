//! Tables of the switch's documents for people.

use std::collections::BTreeMap;

use linerate_units::show::{count, nanoseconds};

use crate::tables::{WorkerRow, head, own_losses, port_queues, table, worker_line, worker_table};
use linerate_switch::document::{
    DropDocument, LatencyDocument, MacDocument, MirrorDocument, PortDocument, Snapshot, VlanDocument,
};

/// Ports: what they are, and what went through.
pub fn ports(ports: &[PortDocument]) -> String {
    if ports.is_empty() {
        return "no ports; `linerate switch ctl add-port NAME=SPEC` adds one".into();
    }
    let mut rows = vec![head(&["port", "state", "received", "dropped", "queued", "sent", "lost", "settings", "spec"])];
    for port in ports {
        let counters = &port.counters;
        let dropped: u64 = counters.dropped.values().sum();
        let lost = counters.refused.values().chain(counters.discarded.values()).sum::<u64>();
        let own: u64 = port.port_rx_drops.iter().chain(&port.port_tx_drops).map(|place| place.packets).sum();
        rows.push(vec![
            port.name.clone(),
            port.state.clone(),
            count(counters.received),
            count(dropped),
            count(counters.queued),
            count(counters.sent),
            count(lost + own),
            words(&port.settings),
            port.spec.clone(),
        ]);
    }
    table(rows, &[2, 3, 4, 5, 6])
}

fn words(settings: &BTreeMap<String, String>) -> String {
    let words: Vec<String> = settings.iter().map(|(key, value)| format!("{key}={value}")).collect();
    if words.is_empty() { "-".into() } else { words.join(" ") }
}

/// The account of a switch, in the manner of a ledger: every line but the first of a block is a part of what is above it.
pub fn account(snapshot: &Snapshot) -> String {
    let totals = &snapshot.totals;
    let mut lines =
        vec![format!("switch {}: {:.1} s, {} ports", snapshot.name, snapshot.seconds, snapshot.ports.len())];
    let mut line = |indent: usize, what: &str, packets: u64| {
        let width = 44 - indent;
        lines.push(format!("{}{what:<width$}{:>20}", " ".repeat(indent), count(packets)));
    };
    line(2, "received", totals.received);
    line(4, "to one port", totals.unicast);
    line(4, "flooded", totals.flooded);
    line(4, "dropped", totals.dropped);
    line(2, "queued", totals.queued);
    line(4, "packets to one port", totals.unicast);
    line(4, "copies of flooded packets", totals.flood_copies);
    line(4, "copies of mirrors", totals.mirror_copies);
    line(2, "of the queued, taken by ports", totals.sent);
    line(4, "waiting", totals.waiting);
    line(4, "discarded: port removed, or too long", totals.discarded);
    if !totals.drops.is_empty() {
        lines.push(
            "  lost, by reason (packets dropped, copies not made or not queued, queues of ports that went)".into(),
        );
        lines.extend(totals.drops.iter().map(|(reason, packets)| format!("    {reason:<40}{:>20}", count(*packets))));
    }
    for port in &snapshot.ports {
        own_losses(&mut lines, &port.name, "before the switch had them", &port.port_rx_drops);
        own_losses(&mut lines, &port.name, "after the port took them", &port.port_tx_drops);
    }
    for port in &snapshot.ports {
        port_queues(&mut lines, &port.name, &port.queues);
    }
    lines.push(match &totals.unbalanced {
        None => {
            "  the account balances: received = to one port + flooded + dropped; queued = taken + waiting + discarded"
                .into()
        }
        Some(why) => format!("  THE ACCOUNT DOES NOT BALANCE, which is a bug: {why}"),
    });
    lines.join("\n")
}

/// The account, the table and the workers.
pub fn stats(snapshot: &Snapshot) -> String {
    let mac_table = &snapshot.table;
    let mut lines = vec![
        account(snapshot),
        format!(
            "  MAC table: {} addresses in {} places, made for {}, kept for {} s; {} learned, {} moved, {} aged, {} evicted, {} not learned",
            count(mac_table.used),
            count(mac_table.capacity),
            count(mac_table.size),
            mac_table.ageing_s,
            count(mac_table.learned),
            count(mac_table.moved),
            count(mac_table.aged),
            count(mac_table.evicted),
            count(mac_table.not_learned),
        ),
    ];
    if snapshot.workers.len() > 1 {
        lines.push(workers(snapshot));
    }
    lines.extend(snapshot.workers.iter().map(|worker| worker_line(&worker.worker, snapshot.seconds)));
    lines.join("\n")
}

/// What each worker did.
pub fn workers(snapshot: &Snapshot) -> String {
    worker_table(snapshot.workers.iter().map(|worker| WorkerRow {
        worker: &worker.worker,
        counts: [worker.received, worker.sent, worker.handed_over, worker.handed_in],
        steered: [worker.steered_out, worker.steered_in],
        ports: &worker.ports,
    }))
}

/// Addresses.
pub fn macs(macs: &[MacDocument]) -> String {
    if macs.is_empty() {
        return "no addresses".into();
    }
    let mut rows = vec![head(&["address", "vlan", "port", "kind", "age", "MAC moves"])];
    rows.extend(macs.iter().map(|entry| {
        let vlan = if entry.vlan == 0 { "-".into() } else { entry.vlan.to_string() };
        let kind = if entry.is_static { "static" } else { "learned" };
        let age = if entry.is_static { "-".into() } else { format!("{} s", entry.idle_s) };
        vec![entry.mac.clone(), vlan, entry.port.clone(), kind.into(), age, count(entry.moves)]
    }));
    table(rows, &[1, 4, 5])
}

/// Drops.
pub fn drops(drops: &[DropDocument]) -> String {
    if drops.is_empty() {
        return "nothing was dropped".into();
    }
    let mut rows = vec![head(&["port", "where", "reason", "packets"])];
    let place = |at: &str| {
        let words = match at {
            "ingress" => "ingress",
            "flood-copy" => "flood copy",
            "egress-queue" => "egress queue",
            "port-rx" => "before the switch",
            "port-tx" => "after the switch",
            other => other,
        };
        words.to_owned()
    };
    rows.extend(
        drops.iter().map(|drop| vec![drop.port.clone(), place(&drop.at), drop.reason.clone(), count(drop.packets)]),
    );
    table(rows, &[3])
}

/// Packets by VLAN.
pub fn vlans(vlans: &[VlanDocument]) -> String {
    if vlans.is_empty() {
        return "no packets yet".into();
    }
    let mut rows = vec![head(&["vlan", "received", "bytes", "to one port", "flooded", "dropped"])];
    rows.extend(vlans.iter().map(|vlan| {
        let number = if vlan.vlan == 0 { "-".into() } else { vlan.vlan.to_string() };
        let dropped = vlan.dropped.values().sum();
        let counts = [vlan.received, vlan.received_bytes, vlan.unicast, vlan.flooded, dropped];
        [number].into_iter().chain(counts.map(count)).collect()
    }));
    table(rows, &[0, 1, 2, 3, 4, 5])
}

/// Latency by pair of ports.
pub fn latency(rows: &[LatencyDocument]) -> String {
    if rows.is_empty() {
        return "no packets yet".into();
    }
    let mut lines = vec![head(&["from", "to", "packets", "p50", "p99", "p99.9", "max"])];
    lines.extend(rows.iter().map(|row| {
        let times = [row.p50_ns, row.p99_ns, row.p999_ns, row.max_ns].map(|time_ns| nanoseconds(time_ns as f64));
        [row.from.clone(), row.to.clone(), count(row.packets)].into_iter().chain(times).collect()
    }));
    table(lines, &[2, 3, 4, 5, 6])
}

/// Mirrors.
pub fn mirrors(mirrors: &[MirrorDocument]) -> String {
    if mirrors.is_empty() {
        return "no mirrors".into();
    }
    let mut rows = vec![head(&["mirror", "copies", "to", "packets", "zero-copy"])];
    rows.extend(mirrors.iter().map(|kept| {
        let mirror = &kept.mirror;
        let part = |key: &str, value: Option<String>| value.map(|value| format!("{key}={value}"));
        let parts = [
            part("from", mirror.from.clone()),
            part("direction", mirror.direction.clone()),
            part("vlan", mirror.vlan.map(|vlan| vlan.to_string())),
            part("src", mirror.src.clone()),
            part("dst", mirror.dst.clone()),
            part("proto", mirror.proto.as_ref().map(|word| word.0.clone())),
            part("sport", mirror.sport.map(|port| port.to_string())),
            part("dport", mirror.dport.map(|port| port.to_string())),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        vec![kept.number.to_string(), parts.join(","), mirror.to.clone(), count(kept.packets), count(kept.zero_copy)]
    }));
    table(rows, &[0, 3, 4])
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_switch::document::TotalsDocument;

    #[test]
    fn columns_are_aligned_and_numbers_end_together() {
        let rows = vec![head(&["a", "n"]), vec!["long".into(), "1".into()], vec!["x".into(), "1,000".into()]];
        assert_eq!(table(rows, &[1]), "a         n\nlong      1\nx     1,000");
    }

    #[test]
    fn the_account_says_whether_it_balances() {
        let totals = TotalsDocument { received: 10, unicast: 7, dropped: 3, queued: 7, sent: 7, ..Default::default() };
        let mut snapshot = Snapshot { name: "s".into(), totals, ..Snapshot::default() };
        snapshot.totals.drops.insert("egress-full".into(), 3);
        let text = account(&snapshot);
        assert!(text.contains("the account balances") && text.contains("egress-full"), "{text}");
        snapshot.totals.unbalanced = Some("received: 10".into());
        assert!(account(&snapshot).contains("DOES NOT BALANCE"));
    }
}
