//! The table of flows.

use linerate_capture::{Flow, FlowTable};
use linerate_units::show::{count, nanoseconds};
use serde::Serialize;

use super::line::time;

/// `linerate.flows/1`.
#[derive(Serialize)]
struct Document {
    schema: &'static str,
    total: Flow,
    flows: Vec<Row>,
    /// Packets of flows for which the table had no room.
    others: Flow,
    /// Packets that are not IP, or malformed.
    without_flow: Flow,
    streams: Vec<Stream>,
}

#[derive(Serialize)]
struct Row {
    src: String,
    dst: String,
    src_port: u16,
    dst_port: u16,
    protocol: u8,
    #[serde(flatten)]
    flow: Flow,
}

/// A stream of signed packets.
#[derive(Serialize)]
struct Stream {
    id: u16,
    packets: u64,
    delivered: u64,
    lost: u64,
    duplicated: u64,
    reordered: u64,
    first_ns: u64,
    last_ns: u64,
}

fn streams(table: &FlowTable) -> Vec<Stream> {
    let stream = |report: &linerate_gen::StreamReport| {
        let counts = report.counts();
        Stream {
            id: report.id,
            packets: report.packets,
            delivered: counts.delivered,
            lost: counts.lost,
            duplicated: counts.duplicated,
            reordered: counts.reordered,
            first_ns: report.first_ns,
            last_ns: report.last_ns,
        }
    };
    table.streams().iter().map(stream).collect()
}

/// The table for people; `top` flows of it.
pub fn text(table: &FlowTable, top: usize) -> String {
    let flows = table.sorted();
    let mut lines = vec![format!("{:>13} {:>17}  {:<30} {:>10}  flow", "packets", "bytes", "first", "lasts")];
    let row = |flow: &Flow, what: String| {
        let lasts = nanoseconds(flow.last_ns.saturating_sub(flow.first_ns) as f64);
        format!(
            "{:>13} {:>17}  {:<30} {lasts:>10}  {what}",
            count(flow.packets),
            count(flow.bytes),
            time(flow.first_ns)
        )
    };
    lines.extend(flows.iter().take(top).map(|(key, flow)| row(flow, key.to_string())));
    if flows.len() > top {
        lines.push(format!("and {} more flows; --top N shows more", count((flows.len() - top) as u64)));
    }
    for (flow, what) in
        [(table.others(), "flows for which there was no room"), (table.without_key(), "no IP, or malformed")]
    {
        if flow.packets > 0 {
            lines.push(row(flow, what.into()));
        }
    }
    if table.total().packets > 0 {
        lines.push(row(table.total(), format!("all, {} flows", count(flows.len() as u64))));
    }
    for stream in streams(table) {
        let Stream { id, delivered, lost, duplicated, reordered, .. } = stream;
        lines.push(format!(
            "stream {id}: delivered {}, lost {}, duplicated {}, reordered {}",
            count(delivered),
            count(lost),
            count(duplicated),
            count(reordered)
        ));
    }
    lines.join("\n")
}

/// The table as a document, all flows of it.
pub fn json(table: &FlowTable) -> String {
    let row = |(key, flow): (linerate_wire::FlowKey, Flow)| Row {
        src: key.src.to_string(),
        dst: key.dst.to_string(),
        src_port: key.src_port,
        dst_port: key.dst_port,
        protocol: key.protocol.0,
        flow,
    };
    let document = Document {
        schema: "linerate.flows/1",
        total: *table.total(),
        flows: table.sorted().into_iter().map(row).collect(),
        others: *table.others(),
        without_flow: *table.without_key(),
        streams: streams(table),
    };
    // Numbers and texts always can be.
    serde_json::to_string_pretty(&document).unwrap_or_default()
}
