//! Connections and requests: what became of each load, and echoes over connections that stand.

use super::labels::Labels;
use super::{Entry, Grid, Tone, Topic};
use crate::units::{count, nanoseconds, per_second};
use crate::{EchoPoint, Found, Results, SessionAccount, SessionPoint, SessionsFound};

/// Every load of every cell.
pub(super) fn loads(results: &Results, labels: &Labels) -> Grid {
    let columns = [
        ("cell", false),
        ("load", true),
        ("of", false),
        ("intended", true),
        ("begun", true),
        ("completed", true),
        ("lost", false),
        ("unexplained", true),
        ("p99", true),
        ("sent again", true),
        ("packets lost", false),
    ];
    let mut grid = Grid::new(Topic::Sessions, "Connections and requests", &columns);
    for (index, cell) in results.cells.iter().enumerate() {
        for finding in &cell.findings {
            let Some((found, words)) = finding.found.as_ref().and_then(of_loads) else { continue };
            for point in &found.points {
                let load = words(point.load);
                grid.rows.push(row(labels.of(index), &load, "connections", (&point.connections, point)));
                grid.rows.push(row(labels.of(index), &load, "requests", (&point.requests, point)));
            }
        }
    }
    if !grid.rows.is_empty() {
        grid.notes = vec![
            "Intended: asked for by the load. Begun and not completed is lost, by what the client saw. p99: of handshakes, and of \
             answers, from the time at which they were due. Sent again: segments of both stacks. Packets lost: by the ledger."
                .to_owned(),
        ];
    }
    grid
}

type Words = fn(f64) -> String;

fn of_loads(found: &Found) -> Option<(&SessionsFound, Words)> {
    match found {
        Found::ConnectionRate(found) | Found::RequestRate(found) => Some((found, per_second)),
        Found::ConcurrentConnections(found) => Some((found, |load| count(load as u64))),
        _ => None,
    }
}

fn row(label: &str, load: &str, of: &str, (account, point): (&SessionAccount, &SessionPoint)) -> Vec<Entry> {
    let times = if of == "connections" { point.handshake } else { point.answer };
    let lost_tone = if account.lost_total() > 0 { Tone::Bad } else { Tone::Good };
    let unexplained_tone = if account.unexplained() != 0 { Tone::Bad } else { Tone::Plain };
    let packets: Vec<String> = point
        .packets_lost
        .iter()
        .map(|loss| format!("{} {}: {}", count(loss.packets), loss.place, loss.cause_words()))
        .chain((point.packets_unexplained != 0).then(|| format!("{} unexplained", point.packets_unexplained)))
        .collect();
    vec![
        Entry::new(label),
        Entry::new(load),
        Entry::new(of),
        Entry::new(count(account.intended())),
        Entry::new(count(account.begun())),
        Entry::toned(count(account.completed()), if account.is_whole() { Tone::Good } else { Tone::Plain }),
        Entry::toned(account.lost_words(), lost_tone),
        Entry::toned(account.unexplained().to_string(), unexplained_tone),
        Entry::new(times.map_or("-".to_owned(), |times| nanoseconds(times.p99_ns as f64))),
        Entry::new(count(point.retransmitted)),
        Entry::new(if packets.is_empty() { "0".to_owned() } else { packets.join("; ") }),
    ]
}

/// Echoes by cell and order.
pub(super) fn echoes(results: &Results, labels: &Labels) -> Grid {
    let columns = [
        ("cell", false),
        ("connections", true),
        ("order", false),
        ("echoes", true),
        ("per core", true),
        ("cycles each", true),
        ("segments each", true),
        ("ACKs alone", true),
        ("sent again", true),
        ("lost", true),
        ("set up per core", true),
        ("closed per core", true),
        ("bytes each", true),
    ];
    let mut grid = Grid::new(Topic::Sessions, "Echoes of single bytes", &columns);
    for (index, cell) in results.cells.iter().enumerate() {
        for finding in &cell.findings {
            if let Some(Found::TcpEcho { points, .. }) = &finding.found {
                grid.rows
                    .extend(points.iter().filter_map(|point| echo(labels.of(index), finding.found.as_ref()?, point)));
            }
        }
    }
    if !grid.rows.is_empty() {
        grid.notes = vec![
            "Per core, cycles and bytes: of both ends together. Reply: the connection whose byte came back sends next; round-robin: \
             the next one in turn, so that each connection waits for all others, and its acknowledgment often does not ride on data."
                .to_owned(),
        ];
    }
    grid
}

fn echo(label: &str, found: &Found, point: &EchoPoint) -> Option<Vec<Entry>> {
    let Found::TcpEcho { connections, set_up_per_core_second, torn_down_per_core_second, bytes_per_connection, .. } =
        found
    else {
        return None;
    };
    let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.0}"));
    let lost_tone = if point.connections_lost > 0 { Tone::Bad } else { Tone::Plain };
    Some(vec![
        Entry::new(label),
        Entry::new(count(*connections)),
        Entry::new(&point.order),
        Entry::toned(per_second(point.per_second), Tone::Strong),
        Entry::new(per_second(point.per_core_second)),
        Entry::new(number(point.cycles_per_echo)),
        Entry::new(format!("{:.2}", point.segments_per_echo)),
        Entry::new(format!("{:.2}", point.acks_per_echo)),
        Entry::new(count(point.retransmitted)),
        Entry::toned(count(point.connections_lost), lost_tone),
        Entry::new(per_second(*set_up_per_core_second)),
        Entry::new(per_second(*torn_down_per_core_second)),
        Entry::new(number(*bytes_per_connection)),
    ])
}
