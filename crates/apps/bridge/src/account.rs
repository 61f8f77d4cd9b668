//! Parts of the accounts of tools that move packets: as JSON and for people.

use linerate_port::{Drops, Stats, drops_that_happened};
use linerate_units::show::{count, percent, pps};
use linerate_units::{Timestamp, Tool};
use serde::Serialize;

use linerate_console::watch::EndedBy;

/// A run.
#[derive(Clone, Debug, Serialize)]
pub struct RunRow {
    /// Who wrote it.
    pub tool: Tool,
    /// When it started.
    pub started: Timestamp,
    /// How long it ran.
    pub seconds: f64,
    /// Why it ended.
    pub ended_by: EndedBy,
    /// Share of a core that moving packets took.
    pub core_share: f64,
    /// What broke a port.
    pub error: Option<String>,
}

impl RunRow {
    /// The first line of a text: what was done, for how long.
    pub fn head(&self, done: &str) -> String {
        format!("{done} for {:.2} s, {} of a core", self.seconds, percent(self.core_share))
    }

    /// The last line of a text, if something broke.
    pub fn error_line(&self) -> Option<String> {
        self.error.as_ref().map(|error| format!("ended early: {error}"))
    }
}

/// What became of packets that were meant for a port: with the copies that it made they are `forwarded + drops + tx_pending +
/// unexplained`.
#[derive(Debug, Serialize)]
pub struct SentRow {
    /// Packets that the far side has.
    pub forwarded: u64,
    /// Their bytes, without FCS; null if nobody counted them.
    pub forwarded_bytes: Option<u64>,
    /// Forwarded per second.
    pub forwarded_pps: f64,
    /// Copies that the port made (`impair=duplicate ...`).
    pub duplicated: u64,
    /// Packets that the port damaged (`impair=corrupt ...`), forwarded or dropped.
    pub corrupted: u64,
    /// Packets that did not get there.
    pub drops: Vec<Drops>,
    /// Packets that the port took and had not finished at the end.
    pub tx_pending: u64,
    /// What is left of the account; 0 if every packet was found.
    pub unexplained: i64,
}

impl SentRow {
    /// The account of `meant` packets, of which `here` were lost before the port took them.
    pub fn new(meant: u64, here: Vec<Drops>, stats: &Stats, tx_pending: u64, seconds: f64) -> SentRow {
        let mut drops = here;
        drops.retain(|drop| drop.packets > 0);
        drops.extend(drops_that_happened(&stats.tx_drops));
        let gone = stats.tx_packets + tx_pending + drops.iter().map(|drop| drop.packets).sum::<u64>();
        SentRow {
            forwarded: stats.tx_packets,
            forwarded_bytes: stats.tx_bytes_of_all(),
            forwarded_pps: if seconds > 0.0 { stats.tx_packets as f64 / seconds } else { 0.0 },
            drops,
            tx_pending,
            duplicated: stats.tx_duplicated,
            corrupted: stats.tx_corrupted,
            unexplained: (meant + stats.tx_duplicated) as i64 - gone as i64,
        }
    }

    /// The same for people.
    pub fn lines(&self, lines: &mut Vec<String>) {
        let rate = format!("{}, {}", bytes(self.forwarded_bytes), pps(self.forwarded_pps));
        lines.push(row("forwarded", self.forwarded, &rate));
        lines.extend(self.drops.iter().map(|drop| row("dropped", drop.packets, &at(drop))));
        if self.duplicated > 0 {
            lines.push(row("duplicated", self.duplicated, "copies that the port made, forwarded or dropped"));
        }
        if self.corrupted > 0 {
            lines.push(row("corrupted", self.corrupted, "packets that the port damaged, forwarded or dropped"));
        }
        if self.tx_pending > 0 {
            lines.push(row("tx pending", self.tx_pending, "taken by the port, not sent a second after the end"));
        }
    }
}

/// Place and cause.
pub fn at(drop: &Drops) -> String {
    format!("at {}: {}", drop.place, drop.cause)
}

/// How many bytes, for people.
pub fn bytes(bytes: Option<u64>) -> String {
    bytes.map_or("bytes not counted".into(), |bytes| format!("{} bytes", count(bytes)))
}

/// A count with its name and a remark, so that counts stand below each other.
pub fn row(name: &str, packets: u64, remark: &str) -> String {
    format!("  {name:<11} {:>15}  {remark}", count(packets))
}

/// The line of packets that were not found, if there are any.
pub fn unexplained(packets: i64) -> Option<String> {
    (packets != 0).then(|| format!("  unexplained {packets:>15}"))
}
