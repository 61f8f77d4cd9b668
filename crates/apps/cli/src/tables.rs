//! What the texts of the switches and of programs over TCP share: columns, queue pairs, workers.

use linerate_console::tables::{QueueRow, queue_lines, uneven_queues};
use linerate_control::{QueueDocument, WorkerDocument};
use linerate_port::Drops;
use linerate_units::show::count;

/// A table whose columns are as wide as their widest cell. The first row is the head; `right` columns hold numbers.
pub fn table(rows: Vec<Vec<String>>, right: &[usize]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let line = |row: &Vec<String>| {
        let cell = |(column, text): (usize, &String)| {
            let width = widths[column];
            if right.contains(&column) { format!("{text:>width$}") } else { format!("{text:<width$}") }
        };
        row.iter().enumerate().map(cell).collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Cells of a row.
pub fn head(cells: &[&str]) -> Vec<String> {
    cells.iter().map(|cell| cell.to_string()).collect()
}

/// A line for each place where a port itself lost packets.
pub fn own_losses(lines: &mut Vec<String>, port: &str, when: &str, places: &[Drops]) {
    for lost in places {
        lines.push(format!("  port {port}, {when}: {} at {} ({})", count(lost.packets), lost.place, lost.cause));
    }
}

/// The queue pairs of a port that has several, and whether they got equal shares.
pub fn port_queues(lines: &mut Vec<String>, port: &str, queues: &[QueueDocument]) {
    if queues.len() < 2 {
        return;
    }
    let row = |queue: usize, packets: u64, bytes: u64, drops: &[Drops]| QueueRow {
        queue,
        port: port.into(),
        core: None,
        packets,
        bytes: Some(bytes),
        drops: drops.to_vec(),
    };
    let numbered = || queues.iter().enumerate();
    let rx: Vec<QueueRow> =
        numbered().map(|(number, own)| row(number, own.received, own.received_bytes, &own.rx_drops)).collect();
    let tx: Vec<QueueRow> =
        numbered().map(|(number, own)| row(number, own.sent, own.sent_bytes, &own.tx_drops)).collect();
    lines.push(format!("  port {port}"));
    lines.extend(queue_lines("rx queue", &rx).into_iter().chain(queue_lines("tx queue", &tx)));
    lines.extend(uneven_queues(port, &rx).map(|warning| format!("  {warning}")));
}

/// A worker in [`worker_table`].
pub struct WorkerRow<'a> {
    pub worker: &'a WorkerDocument,
    /// Packets that it decided on, that its ports took, that it handed over to others for their ports, and others to it.
    pub counts: [u64; 4],
    /// Packets that arrived at its ports and that others decided on, and the other way round.
    pub steered: [u64; 2],
    pub ports: &'a [String],
}

/// A line for each worker.
pub fn worker_table<'a>(workers: impl Iterator<Item = WorkerRow<'a>>) -> String {
    let workers: Vec<WorkerRow> = workers.collect();
    let is_steered = workers.iter().any(|row| row.steered != [0; 2]);
    let steered = if is_steered { &["steered out", "steered in"][..] } else { &[] };
    let first = ["  core", "received", "sent", "to others", "from others"];
    let titles = [&first, steered, &["CPU ns/packet", "ports"]].concat();
    let mut rows = vec![head(&titles)];
    rows.extend(workers.iter().map(|row| {
        let core = row.worker.core.map_or("-".into(), |core| core.to_string());
        // Of those that it touched.
        let packets = row.counts[0] + row.counts[3] + row.steered[0];
        let cpu_ns = row.worker.cpu_ns as f64;
        let each = if packets > 0 { format!("{:.1}", cpu_ns / packets as f64) } else { "-".into() };
        let steered = row.steered.iter().filter(|_| is_steered).map(|packets| count(*packets));
        [core].into_iter().chain(row.counts.map(count)).chain(steered).chain([each, row.ports.join(" ")]).collect()
    }));
    table(rows, &(0..titles.len() - 1).collect::<Vec<_>>())
}

/// What a worker did in so many seconds.
pub fn worker_line(worker: &WorkerDocument, seconds: f64) -> String {
    let share = |nanoseconds: u64| nanoseconds as f64 / 1e7 / seconds.max(1e-9);
    format!(
        "  worker{}: {:.1} % of a core, moving packets {:.1} % of the time, {} of {} rounds, {} sleeps; {} of {} frames free",
        worker.core.map_or(String::new(), |core| format!(" on core {core}")),
        share(worker.cpu_ns),
        share(worker.busy_ns),
        count(worker.busy_rounds),
        count(worker.rounds),
        count(worker.sleeps),
        count(worker.frames_free),
        count(worker.frames),
    )
}
