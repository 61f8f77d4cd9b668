//! Tables of what several queues and several cores did, in results for people and in documents.

use linerate_port::{Drops, Stats, drops_that_happened};
use linerate_units::show::{count, percent};
use serde::Serialize;

use crate::shares::{known_reason, uneven, uneven_because};

/// What passed one queue of a port.
#[derive(Clone, Debug, Serialize)]
pub struct QueueRow {
    /// Its number in the port, from 0 in the order in which queues were opened.
    pub queue: usize,
    /// Name of the port that is this queue alone.
    pub port: String,
    /// Core of the thread that serves it; null if the kernel chooses.
    pub core: Option<usize>,
    /// Packets sent or received.
    pub packets: u64,
    /// Their bytes, without FCS; null if nobody counted them.
    pub bytes: Option<u64>,
    /// Packets that the queue lost.
    pub drops: Vec<Drops>,
}

impl QueueRow {
    /// A queue that packets were sent to.
    pub fn sent(queue: usize, port: &str, core: Option<usize>, stats: &Stats) -> QueueRow {
        let drops = drops_that_happened(&stats.tx_drops);
        QueueRow { queue, port: port.into(), core, packets: stats.tx_packets, bytes: stats.tx_bytes_of_all(), drops }
    }

    /// A queue that packets were received from.
    pub fn received(queue: usize, port: &str, core: Option<usize>, stats: &Stats) -> QueueRow {
        let drops = drops_that_happened(&stats.rx_drops);
        QueueRow { queue, port: port.into(), core, packets: stats.rx_packets, bytes: stats.rx_bytes_of_all(), drops }
    }
}

/// What one thread did, and what it took.
#[derive(Clone, Debug, Serialize)]
pub struct CoreRow {
    /// Its core; null if the kernel chooses.
    pub core: Option<usize>,
    /// Names of the queues that it serves.
    pub queues: Vec<String>,
    /// Packets that it sent or received.
    pub packets: u64,
    /// Their bytes, without FCS; null if nobody counted them.
    pub bytes: Option<u64>,
    /// Time of a core that it took.
    pub cpu_seconds: f64,
    /// Time of a core for each packet, in nanoseconds; null without packets.
    pub cpu_ns_per_packet: Option<f64>,
}

impl CoreRow {
    /// A thread that took `cpu_ns` nanoseconds of a core.
    pub fn new(core: Option<usize>, queues: Vec<String>, packets: u64, bytes: Option<u64>, cpu_ns: u64) -> CoreRow {
        let cpu_ns_per_packet = (packets > 0).then(|| cpu_ns as f64 / packets as f64);
        CoreRow { core, queues, packets, bytes, cpu_seconds: cpu_ns as f64 / 1e9, cpu_ns_per_packet }
    }
}

/// The packets of each queue.
fn packets(rows: &[QueueRow]) -> Vec<u64> {
    rows.iter().map(|row| row.packets).collect()
}

/// What to know of a port, if one of its queues got more than its share of the packets received ([`uneven`]).
pub fn uneven_queues(port: &str, rows: &[QueueRow]) -> Option<String> {
    let packets = packets(rows);
    uneven("queue", &packets)?;
    let known = known_reason(port);
    uneven_because("queue", &packets, known.as_deref()).map(|warning| format!("{port}: {warning}"))
}

/// A line for each queue, if there are several; `one` is what a queue is called, for example `rx queue`.
pub fn queue_lines(one: &str, rows: &[QueueRow]) -> Vec<String> {
    if rows.len() < 2 {
        return Vec::new();
    }
    let total = packets(rows).iter().sum::<u64>().max(1);
    let line = |row: &QueueRow| {
        let core = row.core.map_or(String::new(), |core| format!("  core {core}"));
        let lost: u64 = row.drops.iter().map(|drop| drop.packets).sum();
        let lost = if lost > 0 { format!("  {} dropped", count(lost)) } else { String::new() };
        let share = percent(row.packets as f64 / total as f64);
        let name = format!("{one} {}", row.queue);
        format!("  {name:<10} {:>15}  {share:>7}{core}{lost}", count(row.packets))
    };
    rows.iter().map(line).collect()
}

/// A line for each thread, if there are several.
pub fn core_lines(rows: &[CoreRow]) -> Vec<String> {
    if rows.len() < 2 {
        return Vec::new();
    }
    let line = |(thread, row): (usize, &CoreRow)| {
        let core = row.core.map_or(format!("thread {thread}"), |core| format!("core {core}"));
        let each = row.cpu_ns_per_packet.map_or(String::new(), |ns| format!(", {ns:.1} ns a packet"));
        format!("{core:<12} {:>15}  {:.2} s of the core{each}", count(row.packets), row.cpu_seconds)
    };
    rows.iter().enumerate().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_queue_and_one_core_need_no_table() {
        let queue = |queue, packets| QueueRow {
            drops: vec![Drops { place: "ring".into(), cause: "full".into(), packets: queue as u64 }],
            ..QueueRow::received(queue, "xdp:a@0", Some(3), &Stats { rx_packets: packets, ..Stats::default() })
        };
        assert!(queue_lines("queue", &[queue(0, 7)]).is_empty());
        assert_eq!(
            queue_lines("queue", &[queue(0, 3_000), queue(1, 1_000)]),
            [
                "  queue 0              3,000   75.0 %  core 3",
                "  queue 1              1,000   25.0 %  core 3  1 dropped"
            ]
        );
        let core = |core| CoreRow::new(core, vec!["null:".into()], 1_000, Some(60_000), 20_000);
        assert!(core_lines(&[core(None)]).is_empty());
        assert_eq!(
            core_lines(&[core(Some(1)), core(None)]),
            [
                "core 1                 1,000  0.00 s of the core, 20.0 ns a packet",
                "thread 1               1,000  0.00 s of the core, 20.0 ns a packet"
            ]
        );
        assert_eq!(CoreRow::new(None, Vec::new(), 0, Some(0), 5).cpu_ns_per_packet, None);
    }
}
