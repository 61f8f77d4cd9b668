//! The documents for people.

use linerate_console::tables::{core_lines, queue_lines};
use linerate_port::Drops;
use linerate_report::Latency;
use linerate_units::show::{bps, count, nanoseconds, percent, pps};

use super::document::{PortSent, ReceiveDocument, ReceivedAll, SendDocument, StreamReceived};

/// Most streams that are shown one by one.
const STREAMS_SHOWN: usize = 32;

/// What was sent, and what arrived of it.
pub fn sent(document: &SendDocument) -> String {
    let mut lines = Vec::new();
    document.ports.iter().for_each(|port| port_sent(&mut lines, port, document.replay.as_deref()));
    lines.extend(core_lines(&document.cores));
    if let Some(all) = &document.received {
        received(&mut lines, all);
    }
    if document.interrupted {
        lines.push("stopped by a signal: what was due until then counts as intended".into());
    }
    lines.join("\n")
}

/// What arrived.
pub fn counted(document: &ReceiveDocument) -> String {
    let mut lines = vec![format!("received for {:.2} s", document.seconds)];
    received(&mut lines, &document.received);
    if let Some(expected) = document.expected {
        lines.push(format!("expected     {}", count(expected)));
    }
    lines.join("\n")
}

/// `replay` says what is replayed, and how.
fn port_sent(lines: &mut Vec<String>, port: &PortSent, replay: Option<&str>) {
    let core = match (port.core, port.queues.len()) {
        (_, 2..) => format!(", {} queues", port.queues.len()),
        (Some(core), _) => format!(", core {core}"),
        (None, _) => String::new(),
    };
    let maker = if port.offloaded { ", packets made by the port" } else { "" };
    lines.push(format!("{} ({}{maker}{core}): {:.2} s", port.port, port.detail, port.seconds));
    let intended = match (port.intended_pps, replay) {
        (Some(rate), _) => format!("at {}", pps(rate)),
        (None, Some(replay)) => replay.into(),
        (None, None) => "as fast as it goes".into(),
    };
    lines.push(format!("  intended   {}  {intended}", right(port.intended)));
    let rates = format!("{}, L1 {}, L2 {}", pps(port.sent_pps), bps(port.l1_bps), bps(port.l2_bps));
    lines.push(format!("  sent       {}  {rates}", right(port.sent)));
    lines.push(format!("  unsent     {}", right(port.unsent)));
    if port.too_long > 0 {
        lines.push(format!("  too long   {}  of these, for this port", right(port.too_long)));
    }
    drops(lines, "dropped", &port.drops);
    if port.tx_pending > 0 {
        lines.push(format!(
            "  tx pending {}  taken by the port, not sent a second after the end",
            right(port.tx_pending)
        ));
    }
    if let Some(error) = port.rate_error {
        let sign = if error < 0.0 { "-" } else { "+" };
        lines.push(format!("  rate error {sign}{}", percent(error.abs())));
    }
    spread(lines, "lateness", port.lateness.as_ref());
    spread(lines, "gap error", port.gap_error.as_ref());
    lines.extend(queue_lines("queue", &port.queues));
    if port.streams.len() > 1 {
        for stream in port.streams.iter().take(STREAMS_SHOWN) {
            let id = stream.id.map_or("no signature".into(), |id| format!("stream {id}"));
            lines.push(format!("  {id:<10} {}  sent", right(stream.sent)));
        }
        more(lines, port.streams.len());
    }
    if let Some(error) = &port.error {
        lines.push(format!("  ended early: {error}"));
    }
}

fn received(lines: &mut Vec<String>, all: &ReceivedAll) {
    for port in &all.ports {
        lines.push(format!("{} ({})", port.port, port.detail));
        lines.push(format!("  received   {}", right(port.packets)));
        drops(lines, "dropped", &port.drops);
        lines.extend(queue_lines("queue", &port.queues));
    }
    lines.extend(core_lines(&all.cores));
    for stream in all.streams.iter().take(STREAMS_SHOWN) {
        stream_received(lines, stream);
    }
    more(lines, all.streams.len());
    if all.other_traffic.packets > 0 || all.streams.is_empty() {
        lines.push(format!(
            "without signature: {} packets, {} bytes",
            count(all.other_traffic.packets),
            count(all.other_traffic.bytes)
        ));
    }
    if let Some(error) = &all.error {
        lines.push(format!("ended early: {error}"));
    }
}

fn stream_received(lines: &mut Vec<String>, stream: &StreamReceived) {
    let rates = match (stream.pps, stream.l1_bps, stream.l2_bps) {
        (Some(rate), Some(l1), Some(l2)) => format!(": {}, L1 {}, L2 {}", pps(rate), bps(l1), bps(l2)),
        _ => String::new(),
    };
    lines.push(format!("stream {}{rates}", stream.id));
    if let Some(sent) = stream.sent {
        lines.push(format!("  sent       {}", right(sent)));
    }
    lines.push(format!("  delivered  {}  {} bytes", right(stream.delivered), count(stream.bytes)));
    let share = stream.lost as f64 / (stream.delivered + stream.lost).max(1) as f64;
    lines.push(format!("  lost       {}  {}", right(stream.lost), percent(share)));
    lines.push(format!("  duplicated {}", right(stream.duplicated)));
    lines.push(format!("  reordered  {}", right(stream.reordered)));
    if stream.beyond_window > 0 {
        lines.push(format!("  too old    {}  to tell whether they are duplicates", right(stream.beyond_window)));
    }
    if stream.restarts > 0 {
        lines.push(format!("  restarts   {}  of its sender", right(stream.restarts)));
    }
    spread(lines, "latency", stream.latency.as_ref());
    if let (Some(kind), Some(line)) = (stream.latency_timestamps, lines.last_mut()) {
        *line += &format!(" ({} timestamps)", kind.word());
    }
}

fn spread(lines: &mut Vec<String>, name: &str, spread: Option<&Latency>) {
    let Some(spread) = spread else { return };
    let figures = [
        ("min", spread.min_ns),
        ("p50", spread.p50_ns),
        ("p90", spread.p90_ns),
        ("p99", spread.p99_ns),
        ("p99.9", spread.p999_ns),
        ("p99.99", spread.p9999_ns),
        ("max", spread.max_ns),
    ];
    let figures: Vec<String> =
        figures.iter().map(|(name, span_ns)| format!("{name} {}", nanoseconds(*span_ns as f64))).collect();
    lines.push(format!("  {name:<10} {}", figures.join(", ")));
}

fn drops(lines: &mut Vec<String>, word: &str, drops: &[Drops]) {
    for drop in drops {
        lines.push(format!("  {word:<10} {}  at {}: {}", right(drop.packets), drop.place, drop.cause));
    }
}

fn more(lines: &mut Vec<String>, streams: usize) {
    if streams > STREAMS_SHOWN {
        lines.push(format!("and {} more streams; --json has all", streams - STREAMS_SHOWN));
    }
}

/// A count, so that counts stand below each other.
fn right(packets: u64) -> String {
    format!("{:>15}", count(packets))
}
