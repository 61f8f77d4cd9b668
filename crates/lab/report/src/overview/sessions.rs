//! Connections and requests: what became of each load, and echoes over connections that stand.

use super::labels::Labels;
use super::{Entry, Grid, Tone, Topic, explained};
use crate::figure::Summary;
use crate::number::sum;
use crate::units::{count, nanoseconds, per_second};
use crate::{EchoesFound, Results, SessionAccount, SessionPoint, SessionsFound, TestResult};

/// More cells than this are for the tables.
const CELLS_MAX: usize = 6;
/// The tests that look for the most that succeeds, what it is of, and what of each cell is said in a sentence.
const SEARCHES: [(&str, &str); 3] = [
    ("connection-rate", "connections a second"),
    ("request-rate", "requests a second"),
    ("concurrent-connections", "connections at a time"),
];

/// What a figure is the most of, if it is one of these tests'.
fn most_of(summary: &Summary) -> Option<&'static str> {
    SEARCHES.iter().find(|(test, _)| *test == summary.test).map(|(_, what)| *what)
}

/// The figures of each of these tests that some cell has, with what they are the most of.
pub(crate) fn limits(figures: &[Summary]) -> Vec<(&'static str, Vec<&Summary>)> {
    let of = |(test, what): (&str, &'static str)| (what, figures.iter().filter(|one| one.test == test).collect());
    SEARCHES.into_iter().map(of).filter(|(_, figures): &(_, Vec<_>)| !figures.is_empty()).collect()
}

/// Whether a figure is Linerate's own echoes, the connection whose byte came back sending next.
pub(crate) fn is_echoes(summary: &Summary) -> bool {
    summary.test == "tcp-echo" && summary.name == "echoes"
}

/// The most that all succeed, by cell.
pub(super) fn found(labels: &Labels, figures: &[Summary]) -> Grid {
    let columns = [
        ("cell", false),
        ("all succeed", false),
        ("median", true),
        ("min", true),
        ("max", true),
        ("fails at", true),
        ("mark", false),
    ];
    let mut grid = Grid::new(Topic::SessionLimits, "Connections and requests that all succeed", &columns);
    for summary in figures {
        let Some(what) = most_of(summary) else { continue };
        let words = |value| summary.unit.words(value);
        let tone = if summary.marks.is_empty() { Tone::Strong } else { Tone::Doubtful };
        grid.rows.push(vec![
            Entry::new(labels.of(summary.cell)),
            Entry::new(what),
            Entry::toned(summary.words(), tone),
            Entry::new(words(summary.min())),
            Entry::new(words(summary.max())),
            Entry::new(summary.upper.map_or("-".to_owned(), words)),
            Entry::toned(summary.mark_words(), Tone::Doubtful),
        ]);
    }
    let marks = figures.iter().filter(|summary| most_of(summary).is_some()).flat_map(|summary| &summary.marks);
    grid.notes = explained(marks.copied());
    grid
}

/// The same in a sentence for each cell, or, of many cells, for each test; and the most and the least echoes.
pub(super) fn sentences(labels: &Labels, figures: &[Summary], cells: usize) -> Vec<String> {
    let limits = limits(figures);
    let described = |summary: &Summary| format!("{} {}", labels.of(summary.cell), summary.words());
    let extremes = |all: &[&Summary]| {
        let by_median = |one: &&&Summary, other: &&&Summary| one.median().total_cmp(&other.median());
        let (most, least) = (all.iter().max_by(by_median)?, all.iter().min_by(by_median)?);
        Some(match most.cell == least.cell {
            true => described(most),
            false => format!("at most {}, at least {}", described(most), described(least)),
        })
    };
    let echoes: Vec<&Summary> = figures.iter().filter(|summary| is_echoes(summary)).collect();
    let of_echoes = extremes(&echoes).map(|words| format!("Echoes a second: {words}."));
    if cells > CELLS_MAX {
        let of_test = |(what, all): &(&str, Vec<&Summary>)| Some(format!("All {what} succeed: {}.", extremes(all)?));
        return limits.iter().filter_map(of_test).chain(of_echoes).collect();
    }
    let of_cell = |cell: usize| {
        let of_test = |(what, all): &(&str, Vec<&Summary>)| {
            let summary = all.iter().find(|summary| summary.cell == cell)?;
            // The unit says what is of a second.
            let what = what.trim_end_matches(" a second");
            let fails = summary.upper.map(|upper| format!("not at {}", summary.unit.words(upper)));
            let more = [fails.unwrap_or_default(), summary.mark_words()];
            let more: Vec<&str> = more.iter().map(String::as_str).filter(|text| !text.is_empty()).collect();
            let more = if more.is_empty() { String::new() } else { format!(" ({})", more.join(", ")) };
            Some(format!("{} {what}{more}", summary.words()))
        };
        let parts: Vec<String> = limits.iter().filter_map(of_test).collect();
        (!parts.is_empty()).then(|| format!("{}: all succeed at {}.", labels.of(cell), parts.join(", ")))
    };
    (0..cells).filter_map(of_cell).chain(of_echoes).collect()
}

/// The highest load of each search at which all succeeded, and the lowest at which something failed.
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
    ];
    let mut grid = Grid::new(Topic::SessionLoads, "Loads that succeeded and loads that did not", &columns);
    for (index, cell) in results.cells.iter().enumerate() {
        for finding in &cell.findings {
            let Some((found, words)) = finding.result.as_ref().and_then(of_loads) else { continue };
            for point in decisive(found) {
                let load = words(point.load);
                grid.rows.push(row(labels.of(index), &load, "connections", (&point.connections, point)));
                grid.rows.push(row(labels.of(index), &load, "requests", (&point.requests, point)));
                grid.rows.push(packets_row(labels.of(index), &load, point));
            }
        }
    }
    if !grid.rows.is_empty() {
        grid.notes = vec![
            "Of each search the highest load that succeeded and the lowest that did not; result.json has all. Intended: asked for by the \
             load. Begun and not completed is lost, by what the client saw. p99: of handshakes, and of answers, from the time at which \
             they were due. Packets of both ends, by the ledger; sent again: segments of both stacks."
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

/// The last trial of the highest load at which all succeeded, and that of the lowest at which something failed; where nothing succeeded, of the
/// lowest load.
fn decisive(found: &SessionsFound) -> impl Iterator<Item = &SessionPoint> {
    let least = found.points.iter().map(|point| point.load).reduce(f64::min);
    let loads = [found.highest, found.fails_at.or(if found.highest.is_none() { least } else { None })];
    loads.into_iter().flatten().filter_map(|load| found.points.iter().rfind(|point| point.load == load))
}

fn row(label: &str, load: &str, of: &str, (account, point): (&SessionAccount, &SessionPoint)) -> Vec<Entry> {
    let times = if of == "connections" { point.handshake } else { point.answer };
    let lost_tone = if account.lost_total() > 0 { Tone::Bad } else { Tone::Good };
    let unexplained_tone = if account.unexplained() != 0 { Tone::Bad } else { Tone::Plain };
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
        Entry::new(""),
    ]
}

/// What became of the packets of both ends.
fn packets_row(label: &str, load: &str, point: &SessionPoint) -> Vec<Entry> {
    let lost_tone = if point.packets_lost.is_empty() { Tone::Good } else { Tone::Bad };
    let unexplained_tone = if point.packets_unexplained != 0 { Tone::Bad } else { Tone::Plain };
    let mut row = [label, load, "packets", "", "", ""].map(Entry::new).to_vec();
    row.extend([
        Entry::toned(packets_lost(point), lost_tone),
        Entry::toned(point.packets_unexplained.to_string(), unexplained_tone),
        Entry::new(""),
        Entry::new(count(point.retransmitted)),
    ]);
    row
}

/// `80,455, most in receive ring of lr-in`.
fn packets_lost(point: &SessionPoint) -> String {
    let all = sum(point.packets_lost.iter().map(|loss| loss.packets));
    let most = point.packets_lost.iter().max_by_key(|loss| loss.packets).filter(|loss| loss.packets > 0);
    let place = most.map_or(String::new(), |loss| match loss.packets == all {
        true => format!(", in {}", loss.place),
        false => format!(", most in {}", loss.place),
    });
    format!("{}{place}", count(all))
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
    let mut grid = Grid::new(Topic::Echoes, "Echoes of single bytes", &columns);
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
