//! What is printed: a line for each port (for each of its rings, where there are several, and for all ports together), as text
//! or as JSON.

use linerate_capture::{Account, FillReport, Projection};
use linerate_console::tables::{CoreRow, QueueRow, core_lines, queue_lines};
use linerate_recorder_loop::Report;
use linerate_units::show::{bps, count, nanoseconds, percent, pps};
use serde::Serialize;

/// What a line is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// One ring of a port that has several.
    Queue,
    /// A port.
    Port,
    /// All ports.
    Sum,
}

/// A line (`linerate.capture/1`). Fields are added, never renamed. What is not known is left out.
#[derive(Clone, Serialize)]
pub struct Line<'a> {
    /// Name and version of this format.
    pub schema: &'static str,
    /// What it is about.
    pub scope: Scope,
    /// True for the last lines.
    pub end: bool,
    /// When, nanoseconds since 1970.
    pub time_ns: u64,
    /// As `-i` says it; `sum` in the line of all.
    pub port: &'a str,
    /// Number of the ring.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<usize>,
    /// Since the line before; at the end, since the start.
    pub seconds: f64,
    /// Packets taken out of the ring in that time.
    pub packets: u64,
    /// Their bytes, as they were on the wire, without FCS.
    pub bytes: u64,
    /// Packets in a second.
    pub pps: f64,
    /// Bits in a second.
    pub bps: f64,
    /// Taken, of taken and dropped by the ring, over the same time; 1 = nothing was lost. Left out when nothing came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capture_ratio: Option<f64>,
    /// Since the start.
    pub account: Account,
    /// Packets that the interface dropped before anyone could see them, since the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropped_by_interface: Option<u64>,
    /// Where the NIC was asked for timestamps: packets that have one of its clock; the others have the kernel's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamped_by_nic: Option<u64>,
    /// Bytes of the rings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ring_bytes: Option<u64>,
    /// How much of that is filled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ring_level_bytes: Option<u64>,
    /// How long they hold what comes at the rate of this line if nobody reads, nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ring_holds_ns: Option<u64>,
    /// At the end: how full the ring was; of several, the one that was fullest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ring: Option<FillReport>,
    /// Time that the threads of the rings ran on a core, since the start.
    pub cpu_ns: u64,
    /// At the end, of a port: what each ring took and lost.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<QueueRow>,
    /// At the end, of a port: what the thread of each ring did, and its time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cores: Vec<CoreRow>,
    /// In the very last line: what became of the files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writer: Option<Writer>,
}

/// What the writer did.
#[derive(Clone, Serialize)]
pub struct Writer {
    /// Files that were begun.
    pub files: u64,
    /// Files that were removed.
    pub removed: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Name of the last file.
    pub last_file: String,
    /// Past the page cache.
    pub direct: bool,
    /// How full its queue was, in buffers.
    pub queue: FillReport,
    /// Time that its thread ran on a core.
    pub cpu_ns: u64,
    /// Why writing ended early.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

impl From<&Report> for Writer {
    fn from(report: &Report) -> Writer {
        Writer {
            files: report.files,
            removed: report.removed,
            bytes: report.bytes,
            last_file: report.last_file.clone(),
            direct: report.direct,
            queue: report.queue,
            cpu_ns: report.cpu_ns,
            failure: report.failure.clone(),
        }
    }
}

impl Line<'_> {
    /// The line as JSON.
    pub fn json(&self) -> String {
        // Numbers and texts always can be.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The line as text; at the end, several.
    pub fn text(&self) -> String {
        let name = match self.queue {
            Some(queue) => format!("{} ring {queue}", self.port),
            None => self.port.to_string(),
        };
        let mut text = format!(
            "{name}: {} packets, {} bytes, {}, {}; lost {} (ring {}, writer {})",
            count(self.packets),
            count(self.bytes),
            pps(self.pps),
            bps(self.bps),
            count(self.account.lost()),
            count(self.account.counted().dropped_by_ring),
            count(self.account.dropped_by_writer()),
        );
        if let Some(capture_ratio) = self.capture_ratio {
            text += &format!(", capture ratio {}", percent(capture_ratio));
        }
        if !self.end {
            if let (Some(room), Some(level)) = (self.ring_bytes, self.ring_level_bytes) {
                text += &format!("; ring {} full", percent(level as f64 / room.max(1) as f64));
            }
            if let Some(ns) = self.ring_holds_ns {
                text += &format!(", holds {}", nanoseconds(ns as f64));
            }
            return text;
        }
        let mut lines = vec![format!("in {:.2} s {text}", self.seconds)];
        lines.extend(table(&self.account, self.dropped_by_interface));
        if let Some(by_nic) = self.timestamped_by_nic {
            lines.push(format!("  timestamps  {}", timestamps_words(by_nic, self.packets)));
        }
        if let Some(bytes) = self.ring_bytes {
            let holds = self.ring_holds_ns.map_or("".into(), |ns| format!(", {} at this rate", nanoseconds(ns as f64)));
            let level = self.ring.map_or("how full it was is not known for this kind of port".into(), |ring| {
                format!("at most {} full; {}", percent(ring.highest_share()), projection(ring.projection))
            });
            lines.push(format!("  ring        {} bytes{holds}; {level}", count(bytes)));
        }
        let share = self.cpu_ns as f64 / 1e9 / self.seconds.max(1e-9);
        lines.push(format!("  cpu         {}, {} of a core", nanoseconds(self.cpu_ns as f64), percent(share)));
        lines.extend(queue_lines("ring", &self.queues));
        lines.extend(core_lines(&self.cores));
        lines.join("\n")
    }
}

impl Writer {
    /// For people.
    pub fn text(&self) -> String {
        let way = if self.direct { "past the page cache" } else { "through the page cache" };
        format!(
            "{} file{} ({} removed), {} bytes, {way}; the last: {}; queue at most {} full; cpu {}",
            self.files,
            if self.files == 1 { "" } else { "s" },
            self.removed,
            count(self.bytes),
            self.last_file,
            percent(self.queue.highest_share()),
            nanoseconds(self.cpu_ns as f64),
        )
    }
}

/// The account, a line for each place: what is further in is a part of what is above it.
fn table(account: &Account, dropped_by_interface: Option<u64>) -> Vec<String> {
    let counted = account.counted();
    let mut rows: Vec<(usize, &str, u64)> = Vec::new();
    if let Some(dropped) = dropped_by_interface.filter(|dropped| *dropped > 0) {
        rows.push((0, "dropped by the interface, unseen", dropped));
    }
    if let (Some(received), Some(filtered)) = (counted.received, account.filtered()) {
        rows.extend([(0, "passed the interface", received), (1, "filtered out", filtered)]);
    }
    rows.extend([
        (0, "offered to the ring", counted.offered),
        (1, "dropped by the ring", counted.dropped_by_ring),
        (0, "taken out of the ring", counted.taken),
        (1, "dropped: no free buffer", counted.dropped_for_buffers),
        (1, "dropped: errors of the disk", counted.dropped_by_errors),
        (1, "counted, not stored", counted.counted_only),
        (1, "written", counted.written),
    ]);
    let row = |(depth, what, packets): (usize, &str, u64)| {
        let what = format!("{}{what}", "  ".repeat(depth));
        format!("  {what:<34} {:>17}", count(packets))
    };
    rows.into_iter().map(row).collect()
}

/// Whose clock timestamped `packets` packets, of which `by_nic` have the NIC's.
pub fn timestamps_words(by_nic: u64, packets: u64) -> String {
    match packets.saturating_sub(by_nic) {
        0 => "all by the NIC's clock".into(),
        _ if by_nic == 0 => "none by the NIC's clock: all are the kernel's".into(),
        rest => format!("mixed: {} by the NIC's clock, {} by the kernel's", count(by_nic), count(rest)),
    }
}

fn projection(projection: Projection) -> String {
    match projection {
        Projection::TooShort => "too short a run to tell whether it lasts".into(),
        Projection::Steady => "the level fell back each time: the reader keeps up".into(),
        Projection::FullIn { ns } => {
            format!("the level rises: full in {}, then packets are lost", nanoseconds(ns as f64))
        }
        Projection::Overflowed => "it was full".into(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixed_timestamps_are_said() {
        assert_eq!(timestamps_words(5, 5), "all by the NIC's clock");
        assert_eq!(timestamps_words(0, 5), "none by the NIC's clock: all are the kernel's");
        assert_eq!(timestamps_words(4000, 5001), "mixed: 4,000 by the NIC's clock, 1,001 by the kernel's");
    }
}
