//! The account of a bridge: the document of `--json` (`linerate.bridge/1`), and the same for people.

use linerate_port::{Caps, Drops, MonitorAccount};
use linerate_report::units::{count, percent, pps};
use linerate_report::{Timestamp, Tool};
use serde::Serialize;

use super::forward::ForwardEnd;
use super::lane::Lane;
use crate::traffic::receiving::EndedBy;

/// Schema of [`BridgeDocument`].
pub const BRIDGE_SCHEMA: &str = "linerate.bridge/1";

/// What `linerate bridge` did.
#[derive(Debug, Serialize)]
pub struct BridgeDocument {
    /// [`BRIDGE_SCHEMA`].
    pub schema: &'static str,
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
    /// The ports.
    pub ports: Vec<PortRow>,
    /// The directions.
    pub lanes: Vec<LaneRow>,
    /// What was copied to a watcher.
    pub monitor: Option<MonitorRow>,
    /// What broke a port.
    pub error: Option<String>,
}

/// A port.
#[derive(Debug, Serialize)]
pub struct PortRow {
    /// Its name.
    pub port: String,
    /// How it was opened.
    pub detail: String,
}

/// A watcher. `seen = copied + drops`.
#[derive(Debug, Serialize)]
pub struct MonitorRow {
    /// The watcher.
    pub port: String,
    /// The port that it watches.
    pub watched: String,
    /// Packets that passed there.
    pub seen: u64,
    /// Copies that the watcher has.
    pub copied: u64,
    /// Packets of which it has none.
    pub drops: Vec<DropRow>,
}

impl MonitorRow {
    /// The account of the watcher `port` of `watched`.
    pub fn new(port: String, watched: String, account: &MonitorAccount) -> MonitorRow {
        let (seen, copied) = (account.counts.seen, account.stats.tx_packets);
        MonitorRow { port, watched, seen, copied, drops: rows(&account.stats.tx_drops) }
    }
}

/// One direction. `received = forwarded + drops + incomplete + unexplained`.
#[derive(Debug, Serialize)]
pub struct LaneRow {
    /// Port that packets came from.
    pub from: String,
    /// Port that they went to.
    pub to: String,
    /// Slots were handed over; nothing was copied between the two ports.
    pub zero_copy: bool,
    /// Packets that reached the near port and that it lost before the bridge could take them; not part of `received`.
    pub missed: Vec<DropRow>,
    /// Packets that came.
    pub received: u64,
    /// Their bytes, without FCS.
    pub received_bytes: u64,
    /// Packets that the far side has.
    pub forwarded: u64,
    /// Their bytes, without FCS.
    pub forwarded_bytes: u64,
    /// Forwarded per second.
    pub forwarded_pps: f64,
    /// Packets that came and went nowhere.
    pub drops: Vec<DropRow>,
    /// Packets that the far port took and had not finished when the bridge ended.
    pub incomplete: u64,
    /// What is left of the account; 0 if every packet was found.
    pub unexplained: i64,
    /// Calls of the near port that returned packets.
    pub batches: u64,
}

/// Packets lost at a place for a cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DropRow {
    /// Where.
    pub place: String,
    /// Why.
    pub cause: String,
    /// How many.
    pub packets: u64,
}

impl LaneRow {
    /// The account of a lane.
    pub fn new(lane: &Lane, caps: &[Caps], end: &ForwardEnd, seconds: f64) -> LaneRow {
        let (near, far) = (&end.stats[lane.from], &end.stats[lane.to]);
        let (from, to) = (caps[lane.from].name.clone(), caps[lane.to].name.clone());
        let here = |cause: String, packets: u64| DropRow { place: format!("bridge to {to}"), cause, packets };
        let mut drops = vec![
            here(format!("longer than the {} bytes that it takes", caps[lane.to].frame_len_max), lane.counts.too_long),
            here("not taken before the end".into(), lane.counts.left),
        ];
        drops.retain(|drop| drop.packets > 0);
        drops.extend(rows(&far.tx_drops));
        let incomplete = end.incomplete[lane.to];
        let gone = far.tx_packets + incomplete + drops.iter().map(|drop| drop.packets).sum::<u64>();
        LaneRow {
            zero_copy: lane.is_zero_copy(),
            missed: rows(&near.rx_drops),
            received: lane.counts.received,
            received_bytes: near.rx_bytes,
            forwarded: far.tx_packets,
            forwarded_bytes: far.tx_bytes,
            forwarded_pps: if seconds > 0.0 { far.tx_packets as f64 / seconds } else { 0.0 },
            drops,
            incomplete,
            unexplained: lane.counts.received as i64 - gone as i64,
            batches: lane.counts.batches,
            from,
            to,
        }
    }
}

/// The drops that happened.
pub fn rows(drops: &[Drops]) -> Vec<DropRow> {
    let row =
        |drops: &Drops| DropRow { place: drops.place.clone(), cause: drops.cause.clone(), packets: drops.packets };
    drops.iter().filter(|drops| drops.packets > 0).map(row).collect()
}

impl BridgeDocument {
    /// The same for people; with `verbose`, with what is of use to whoever tunes it.
    pub fn text(&self, verbose: bool) -> String {
        let mut lines = vec![format!("bridged for {:.2} s, {} of a core", self.seconds, percent(self.core_share))];
        self.lanes.iter().for_each(|lane| lane_text(&mut lines, lane, verbose));
        if let Some(monitor) = &self.monitor {
            lines.push(format!("{} watched by {}", monitor.watched, monitor.port));
            lines.push(row("seen", monitor.seen, ""));
            lines.push(row("copied", monitor.copied, ""));
            lines.extend(monitor.drops.iter().map(|drop| row("not copied", drop.packets, &at(drop))));
        }
        if let Some(error) = &self.error {
            lines.push(format!("ended early: {error}"));
        }
        lines.join("\n")
    }
}

fn lane_text(lines: &mut Vec<String>, lane: &LaneRow, verbose: bool) {
    let how = if lane.zero_copy { "handed over" } else { "copied" };
    lines.push(format!("{} -> {} ({how})", lane.from, lane.to));
    let bytes = |bytes: u64| format!("{} bytes", count(bytes));
    lines.push(row("received", lane.received, &bytes(lane.received_bytes)));
    lines.push(row(
        "forwarded",
        lane.forwarded,
        &format!("{}, {}", bytes(lane.forwarded_bytes), pps(lane.forwarded_pps)),
    ));
    lines.extend(lane.drops.iter().map(|drop| row("dropped", drop.packets, &at(drop))));
    if lane.incomplete > 0 {
        lines.push(row("incomplete", lane.incomplete, "taken by the port, not sent a second after the end"));
    }
    if lane.unexplained != 0 {
        lines.push(format!("  unexplained {:>15}", lane.unexplained));
    }
    lines.extend(
        lane.missed.iter().map(|drop| row("missed", drop.packets, &format!("before the bridge, {}", at(drop)))),
    );
    if verbose && lane.batches > 0 {
        lines.push(format!("  {:.1} packets a batch", lane.received as f64 / lane.batches as f64));
    }
}

/// Place and cause.
pub fn at(drop: &DropRow) -> String {
    format!("at {}: {}", drop.place, drop.cause)
}

/// A count with its name and a remark, so that counts stand below each other.
pub fn row(name: &str, packets: u64, remark: &str) -> String {
    format!("  {name:<11} {:>15}  {remark}", count(packets))
}
