//! Connections and requests: what became of each load, and echoes over connections that stand.

use super::labels::Labels;
use super::{Entry, Grid, Tone, Topic};
use crate::units::{count, nanoseconds, per_second};
use crate::{EchoesFound, Results, SessionAccount, SessionPoint, SessionsFound, TestResult};

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
            let Some((found, words)) = finding.result.as_ref().and_then(of_loads) else { continue };
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

fn of_loads(found: &TestResult) -> Option<(&SessionsFound, Words)> {
    match found {
        TestResult::ConnectionRate(found) | TestResult::RequestRate(found) => Some((found, per_second)),
        TestResult::ConcurrentConnections(found) => Some((found, |load| count(load as u64))),
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

/// Echoes by cell, stack and order.
pub(super) fn echoes(results: &Results, labels: &Labels) -> Grid {
    let columns = [
        ("cell", false),
        ("stack", false),
        ("order", false),
        ("echoes", true),
        ("per GHz", true),
        ("per core", true),
        ("cycles each", true),
        ("segments each", true),
        ("ACKs alone", true),
    ];
    let mut grid = Grid::new(Topic::Sessions, "Echoes of single bytes", &columns);
    for (index, found) in all_echoes(results) {
        grid.rows.extend(found.points.iter().map(|point| {
            vec![
                Entry::new(labels.of(index)),
                Entry::new(&found.stack),
                Entry::new(&point.order),
                Entry::toned(per_second(point.per_second), Tone::Strong),
                Entry::new(point.per_ghz.map_or("-".to_owned(), per_second)),
                Entry::new(per_second(point.per_core_second)),
                Entry::new(whole_number(point.cycles_per_echo)),
                Entry::new(format!("{:.2}", point.segments_per_echo)),
                Entry::new(format!("{:.2}", point.acks_per_echo)),
            ]
        }));
    }
    if !grid.rows.is_empty() {
        grid.notes = vec![
            "Per core and cycles: of both ends together. Reply: the connection whose byte came back sends next; round-robin: the next \
             one in turn, so that each connection waits for all others, and its acknowledgment often does not ride on data."
                .to_owned(),
        ];
    }
    grid
}

/// Where the bytes of echoes went.
pub(super) fn echo_accounts(results: &Results, labels: &Labels) -> Grid {
    let columns = [
        ("cell", false),
        ("stack", false),
        ("order", false),
        ("intended", true),
        ("completed", true),
        ("lost", false),
        ("unexplained", true),
        ("sent again", true),
        ("connections lost", true),
    ];
    let mut grid = Grid::new(Topic::Sessions, "Bytes that were echoed", &columns);
    for (index, found) in all_echoes(results) {
        for point in &found.points {
            let mut row = vec![Entry::new(labels.of(index)), Entry::new(&found.stack), Entry::new(&point.order)];
            row.extend(account(&point.echoes));
            let lost_tone = if point.connections_lost > 0 { Tone::Bad } else { Tone::Plain };
            row.extend([
                Entry::new(count(point.retransmitted)),
                Entry::toned(count(point.connections_lost), lost_tone),
            ]);
            grid.rows.push(row);
        }
    }
    if !grid.rows.is_empty() {
        grid.notes = vec![
            "Intended: bytes that the client sent, those before and after the measured time as well. Completed: those that came back. \
             Sent again: segments of both ends."
                .to_owned(),
        ];
    }
    grid
}

/// What connections that echoed cost.
pub(super) fn echo_connections(results: &Results, labels: &Labels) -> Grid {
    let columns = [
        ("cell", false),
        ("stack", false),
        ("intended", true),
        ("completed", true),
        ("lost", false),
        ("unexplained", true),
        ("set up per core", true),
        ("closed per core", true),
        ("bytes each", true),
        ("resident", true),
    ];
    let mut grid = Grid::new(Topic::Sessions, "Connections that echo", &columns);
    for (index, found) in all_echoes(results) {
        let mut row = vec![Entry::new(labels.of(index)), Entry::new(&found.stack)];
        row.extend(account(&found.connection_account));
        row.extend([
            Entry::new(per_second(found.set_up_per_core_second)),
            Entry::new(per_second(found.torn_down_per_core_second)),
            Entry::new(whole_number(found.bytes_per_connection)),
            Entry::new(found.resident_bytes.map_or("-".to_owned(), |bytes| format!("{} MB", count(bytes / 1_000_000)))),
        ]);
        grid.rows.push(row);
    }
    if !grid.rows.is_empty() {
        grid.notes = vec![
            "Completed: set up, and closed in order at the end. Per core and bytes: of both ends together, which are in one process; \
             bytes are told from a million connections on, since those of fewer are lost beside the packets' memory. Linerate takes the memory of its connections before it sets them up."
                .to_owned(),
        ];
    }
    grid
}

/// Datagrams back and forth.
pub(super) fn udp_loops(results: &Results, labels: &Labels) -> Grid {
    let columns = [
        ("cell", false),
        ("cycles", true),
        ("per GHz", true),
        ("per core", true),
        ("at a time", true),
        ("intended", true),
        ("completed", true),
        ("lost", false),
        ("unexplained", true),
    ];
    let mut grid = Grid::new(Topic::Sessions, "UDP loop", &columns);
    for (index, cell) in results.cells.iter().enumerate() {
        for finding in &cell.findings {
            let Some(TestResult::UdpLoop(found)) = &finding.result else { continue };
            let mut row = vec![
                Entry::new(labels.of(index)),
                Entry::toned(per_second(found.per_second), Tone::Strong),
                Entry::new(found.per_ghz.map_or("-".to_owned(), per_second)),
                Entry::new(per_second(found.per_core_second)),
                Entry::new(count(found.window)),
            ];
            row.extend(account(&found.datagrams));
            grid.rows.push(row);
        }
    }
    if !grid.rows.is_empty() {
        grid.notes = vec![
            "A cycle: an end receives a datagram and sends one; those of both ends together. At a time: datagrams that are on their \
             way."
                .to_owned(),
        ];
    }
    grid
}

fn all_echoes(results: &Results) -> impl Iterator<Item = (usize, &EchoesFound)> {
    results.cells.iter().enumerate().flat_map(|(index, cell)| {
        cell.findings.iter().filter_map(move |finding| match &finding.result {
            Some(TestResult::TcpEcho(found)) => Some((index, found)),
            _ => None,
        })
    })
}

/// `intended`, `completed`, `lost` and `unexplained` of an account.
fn account(account: &SessionAccount) -> [Entry; 4] {
    let lost_tone = if account.lost_total() > 0 { Tone::Bad } else { Tone::Good };
    let unexplained_tone = if account.unexplained() != 0 { Tone::Bad } else { Tone::Plain };
    [
        Entry::new(count(account.intended())),
        Entry::toned(count(account.completed()), if account.is_whole() { Tone::Good } else { Tone::Plain }),
        Entry::toned(account.lost_words(), lost_tone),
        Entry::toned(account.unexplained().to_string(), unexplained_tone),
    ]
}

fn whole_number(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.0}"))
}
