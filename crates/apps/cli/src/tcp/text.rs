//! Documents of programs over TCP for people.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use linerate_console::shares::uneven_because;
use linerate_endpoints::document::{CaptureDocument, ConnectionDocument, PacketsDocument, Snapshot};
use linerate_programs::load::{Account, LoadDocument, Times};
use linerate_programs::serve::ServeDocument;
use linerate_units::show::{bps, count, nanoseconds, percent};

use crate::tables::port_queues;
use linerate_bridge::account::{at, row};

/// A second of a server: what follows the time.
pub fn serve_line(now: &Snapshot<ServeDocument>, before: Option<&Snapshot<ServeDocument>>, seconds: f64) -> String {
    let (served, earlier) = (&now.program.served, before.map(|before| before.program.served).unwrap_or_default());
    let rate = |now: u64, before: u64| (now - before) as f64 / seconds;
    format!(
        "  open {}  accepted {} ({:.0}/s)  requests {} ({:.0}/s)  in {}  out {}",
        count(now.program.open),
        count(served.connections),
        rate(served.connections, earlier.connections),
        count(served.requests),
        rate(served.requests, earlier.requests),
        bps(rate(served.rx_bytes, earlier.rx_bytes) * 8.0),
        bps(rate(served.tx_bytes, earlier.tx_bytes) * 8.0),
    )
}

/// What a server did.
pub fn serve(snapshot: &Snapshot<ServeDocument>) -> String {
    let ServeDocument { served, open } = &snapshot.program;
    let mut lines = vec![format!("served for {:.2} s", snapshot.seconds)];
    lines.push(row("connections", served.connections, ""));
    lines.push(row("  closed", served.closed, "in order"));
    lines.push(row("  failed", served.failed, "reset, timed out or aborted"));
    lines.push(row("  open", *open, ""));
    lines.push(row("requests", served.requests, &format!("{} of them answered with an error", count(served.errors))));
    if served.datagrams > 0 {
        let remark = format!("{} of them without an answer that was due", count(served.datagrams_unanswered));
        lines.push(row("datagrams", served.datagrams, &remark));
    }
    lines.push(row("received", served.rx_bytes, "bytes"));
    lines.push(row("sent", served.tx_bytes, "bytes"));
    below(&mut lines, snapshot);
    lines.join("\n")
}

/// A second of a load: what follows the time.
pub fn load_line(now: &Snapshot<LoadDocument>, before: Option<&Snapshot<LoadDocument>>, seconds: f64) -> String {
    let (load, earlier) = (&now.program, before.map(|before| &before.program));
    let requests = load.requests.completed - earlier.map_or(0, |load| load.requests.completed);
    let mut line = format!(
        "  requests {} ({:.0}/s)  connections {} open, {} begun",
        count(load.requests.completed),
        requests as f64 / seconds,
        count(load.connections.open),
        count(load.connections.begun),
    );
    if let (Some(p50), Some(p99)) = (load.latency.p50_us, load.latency.p99_us) {
        _ = write!(line, "  p50 {}  p99 {}", nanoseconds(p50 * 1e3), nanoseconds(p99 * 1e3));
    }
    _ = write!(line, "  lost {}", count(load.requests.lost_total() + load.connections.lost_total()));
    line
}

/// The account of a load.
pub fn load(snapshot: &Snapshot<LoadDocument>) -> String {
    let load = &snapshot.program;
    let how = match load.pacing.as_str() {
        "closed" => "closed loop",
        "requests" => "requests by schedule",
        _ => "connections by schedule",
    };
    let mut lines = vec![format!(
        "{how}: {} requests/s over {:.2} s, answers {}; {} of a core over {:.2} s",
        count(load.requests_per_second.round() as u64),
        load.measured_seconds,
        bps(load.answer_bits_per_second),
        percent(snapshot.worker.cpu_ns as f64 / 1e9 / snapshot.seconds.max(1e-9)),
        snapshot.seconds,
    )];
    lines.push(format!(
        "  {:<10} {:>12} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}",
        "", "count", "p50", "p90", "p99", "p99.9", "p99.99", "max"
    ));
    lines.push(times("latency", &load.latency));
    lines.push(times("handshake", &load.handshakes));
    if let Some(us) = snapshot.deferred_us {
        lines.push(format!("  of a latency, up to {us} us: the interface collects answers before it wakes anybody (--no-defer: it does not)"));
    }
    account(&mut lines, "requests", &load.requests);
    lines.extend(load.first_wrong_answer.iter().map(|what| format!("  the first wrong answer: {what}")));
    account(&mut lines, "connections", &load.connections);
    lines.extend(load.refusals.iter().map(|(why, times)| row("not begun", *times, why)));
    if load.stray_datagrams > 0 {
        lines.push(row("strays", load.stray_datagrams, "datagrams that answer no request under way"));
    }
    if !load.statuses.is_empty() {
        lines.push("HTTP statuses".into());
        lines.extend(load.statuses.iter().map(|(status, answers)| row(&status.to_string(), *answers, "")));
    }
    if load.kinds.len() > 1 {
        lines.push("kinds of requests".into());
        for kind in load.kinds.iter().take(50) {
            let p99 = kind.latency.and_then(|times| times.p99_us).map(|us| format!("p99 {}, ", nanoseconds(us * 1e3)));
            let remark = format!("{}{} errors, {}", p99.unwrap_or_default(), count(kind.errors), kind.name);
            lines.push(row("answered", kind.completed, &remark));
        }
    }
    below(&mut lines, snapshot);
    lines.join("\n")
}

fn times(name: &str, times: &Times) -> String {
    let cell = |us: Option<f64>| us.map_or("-".into(), |us| nanoseconds(us * 1e3));
    let Times { p50_us, p90_us, p99_us, p99_9_us, p99_99_us, max_us, .. } = *times;
    let cells: String =
        [p50_us, p90_us, p99_us, p99_9_us, p99_99_us, max_us].iter().map(|us| format!(" {:>10}", cell(*us))).collect();
    format!("  {name:<10} {:>12}{cells}", count(times.count))
}

fn account(lines: &mut Vec<String>, what: &str, account: &Account) {
    lines.push(what.into());
    lines.push(row("intended", account.intended, ""));
    if account.unbegun > 0 {
        lines.push(row("not begun", account.unbegun, "no connection was free, or none could be begun"));
    }
    lines.push(row("begun", account.begun, ""));
    lines.push(row("completed", account.completed, ""));
    lines.extend(account.lost.iter().map(|loss| row("lost", loss.count, loss.cause.name())));
    if account.open > 0 {
        lines.push(row("open", account.open, ""));
    }
    lines.push(format!("  {:<11} {:>15}", "unexplained", account.unexplained));
}

/// What lies below requests and connections: segments and packets.
fn below<D>(lines: &mut Vec<String>, snapshot: &Snapshot<D>) {
    let again: Vec<String> = snapshot
        .retransmissions
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(cause, times)| format!("{cause} {}", count(*times)))
        .collect();
    if let Some(tls) = &snapshot.tls {
        lines.push("TLS".into());
        lines.push(row("handshakes", tls.handshakes, ""));
        lines.extend(tls.errors.iter().map(|(why, times)| row("failed", *times, why)));
    }
    cores(lines, snapshot);
    lines.push(format!("sent again: {}", if again.is_empty() { "nothing".into() } else { again.join(", ") }));
    packets(lines, &snapshot.packets);
    if let Some(document) = &snapshot.capture {
        lines.push(capture(document, false));
    }
}

fn packets(lines: &mut Vec<String>, packets: &PacketsDocument) {
    lines.push(format!("packets of {}", packets.port));
    lines.push(row("received", packets.received, &format!("{} bytes", count(packets.received_bytes))));
    lines.push(row("sent", packets.sent, &format!("{} bytes", count(packets.sent_bytes))));
    lines.extend(packets.rx_drops.iter().map(|drop| row("rx missed", drop.packets, &at(drop))));
    lines.extend(packets.stack_drops.iter().map(|drop| row("not taken", drop.packets, &at(drop))));
    lines.extend(packets.tx_drops.iter().map(|drop| row("dropped", drop.packets, &at(drop))));
    port_queues(lines, &packets.port, &packets.queues);
}

/// What each of several cores did, and whether one has much more to do than others.
fn cores<D>(lines: &mut Vec<String>, snapshot: &Snapshot<D>) {
    if snapshot.cores.is_empty() {
        return;
    }
    lines.push(format!(
        "  {:<6} {:>12} {:>14} {:>14} {:>12} {:>10} {:>10}",
        "core", "connections", "segments in", "arrived", "handed over", "lost", "of a core"
    ));
    for one in &snapshot.cores {
        lines.push(format!(
            "  {:<6} {:>12} {:>14} {:>14} {:>12} {:>10} {:>10}",
            one.worker.core.map_or_else(|| format!("#{}", one.shard), |core| core.to_string()),
            count(one.opened),
            count(one.segments_received),
            count(one.steering.arrived),
            count(one.steering.handed_over),
            count(one.steering.lost),
            percent(one.worker.cpu_ns as f64 / 1e9 / snapshot.seconds.max(1e-9)),
        ));
    }
    let segments: Vec<u64> = snapshot.cores.iter().map(|one| one.segments_received).collect();
    let opened: u64 = snapshot.cores.iter().map(|one| one.opened).sum();
    let few = opened < 8 * snapshot.cores.len() as u64;
    let why = if few { "there are few connections" } else { "their addresses and ports hash alike" };
    lines.extend(uneven_because("core", &segments, Some(why)).map(|warning| format!("  {warning}")));
}

/// A capture that began, or that ended.
pub fn capture(capture: &CaptureDocument, begins: bool) -> String {
    if begins {
        return format!("frames are written to {}", capture.file);
    }
    let mut lines = vec![format!("{}: {} frames", capture.file, count(capture.written))];
    lines.extend(capture.causes.iter().map(|drop| row("missing", drop.packets, &at(drop))));
    lines.join("\n")
}

/// The line above [`connections`].
pub fn connections_head() -> String {
    format!("{:<11} {:>8} {:>8}  {:<26} {:<26}", "State", "Recv-Q", "Send-Q", "Local Address:Port", "Peer Address:Port")
}

/// Connections as `ss -ti` writes them.
pub fn connections(some: &[ConnectionDocument]) -> String {
    let mut text = String::new();
    for one in some {
        let separator = if text.is_empty() { "" } else { "\n" };
        _ = write!(
            text,
            "{separator}{:<11} {:>8} {:>8}  {:<26} {:<26}",
            one.state, one.receive_queued, one.send_queued, one.local, one.remote
        );
        _ = write!(
            text,
            "\n         {} wscale:{},{} rto:{} rtt:{:.3}/{:.3} mss:{} cwnd:{}",
            one.options.join(" "),
            one.window_scales.0,
            one.window_scales.1,
            one.rto_ms,
            f64::from(one.rtt_us) / 1e3,
            f64::from(one.rtt_variation_us) / 1e3,
            one.mss,
            one.cwnd / u32::from(one.mss.max(1)),
        );
        if let Some(ssthresh) = one.ssthresh {
            _ = write!(text, " ssthresh:{}", ssthresh / u32::from(one.mss.max(1)));
        }
        _ = write!(text, " in_flight:{} snd_wnd:{} rcv_wnd:{}", one.in_flight, one.send_window, one.receive_window);
        if one.backoffs > 0 {
            _ = write!(text, " backoff:{}", one.backoffs);
        }
    }
    text
}

/// Counters as `nstat` writes them.
pub fn counters(counters: &BTreeMap<String, u64>) -> String {
    let lines: Vec<String> = counters.iter().map(|(name, count)| format!("{name:<32} {count:<16}")).collect();
    lines.join("\n")
}
