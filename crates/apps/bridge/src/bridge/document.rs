//! The account of a bridge: the document of `--json` (`linerate.bridge/1`), and the same for people.

use linerate_port::{Caps, Drops, MonitorAccount, drops_that_happened};
use linerate_report::units::count;
use serde::Serialize;

use super::forward::{BridgeEnd, LaneEnd};
use crate::account::{RunRow, SentRow, at, row, unexplained};

/// Schema of [`BridgeDocument`].
pub const BRIDGE_SCHEMA: &str = "linerate.bridge/1";

/// What `linerate bridge` did.
#[derive(Debug, Serialize)]
pub struct BridgeDocument {
    /// [`BRIDGE_SCHEMA`].
    pub schema: &'static str,
    /// When, for how long, with which end.
    #[serde(flatten)]
    pub run: RunRow,
    /// The ports.
    pub ports: Vec<PortRow>,
    /// The directions.
    pub lanes: Vec<LaneRow>,
    /// What was copied to a watcher.
    pub monitor: Option<MonitorRow>,
}

/// A port.
#[derive(Debug, Serialize)]
pub struct PortRow {
    /// Its name.
    pub port: String,
    /// How it was opened.
    pub detail: String,
}

/// A watcher. `seen = copied + drops`, and of `copied`, `zero_copy` were sent from where they lay.
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
    /// Of these, packets that it sent without a copy for it.
    pub zero_copy: u64,
    /// Packets of which it has none.
    pub drops: Vec<Drops>,
}

impl MonitorRow {
    /// The account of the watcher `port` of `watched`.
    pub fn new(port: String, watched: String, account: &MonitorAccount) -> MonitorRow {
        let (seen, copied) = (account.counts.seen, account.stats.tx_packets);
        let zero_copy = account.counts.shown.min(copied);
        MonitorRow { port, watched, seen, copied, zero_copy, drops: drops_that_happened(&account.stats.tx_drops) }
    }
}

/// One direction. `received = forwarded + drops + tx_pending + unexplained`.
#[derive(Debug, Serialize)]
pub struct LaneRow {
    /// Port that packets came from.
    pub from: String,
    /// Port that they went to.
    pub to: String,
    /// Slots were handed over; nothing was copied between the two ports.
    pub zero_copy: bool,
    /// Packets that reached the near port and that it lost before the bridge could take them; not part of `received`.
    pub rx_missed: Vec<Drops>,
    /// Packets that came.
    pub received: u64,
    /// Their bytes, without FCS.
    pub received_bytes: u64,
    /// What became of them.
    #[serde(flatten)]
    pub sent: SentRow,
    /// Calls of the near port that returned packets.
    pub batches: u64,
}

impl LaneRow {
    /// The account of a lane.
    pub fn new(lane: &LaneEnd, zero_copy: bool, caps: &[Caps], end: &BridgeEnd, seconds: f64) -> LaneRow {
        let (near, far) = (&end.ports[lane.from], &end.ports[lane.to]);
        let (from, to) = (caps[lane.from].name.clone(), caps[lane.to].name.clone());
        let here = |cause: String, packets: u64| Drops { place: format!("bridge to {to}"), cause, packets };
        let drops = vec![
            here(format!("longer than the {} bytes that it takes", caps[lane.to].frame_len_max), lane.too_long),
            here("not taken before the end".into(), lane.left),
        ];
        LaneRow {
            zero_copy,
            rx_missed: drops_that_happened(&near.stats.rx_drops),
            received: lane.received,
            received_bytes: near.stats.rx_bytes,
            sent: SentRow::new(lane.received, drops, &far.stats, far.tx_pending, seconds),
            batches: lane.batches,
            from,
            to,
        }
    }
}

impl BridgeDocument {
    /// The same for people; with `verbose`, with what is of use to whoever tunes it.
    pub fn text(&self, verbose: bool) -> String {
        let mut lines = vec![self.run.head("bridged")];
        self.lanes.iter().for_each(|lane| lane_text(&mut lines, lane, verbose));
        if let Some(monitor) = &self.monitor {
            lines.push(format!("{} watched by {}", monitor.watched, monitor.port));
            lines.push(row("seen", monitor.seen, ""));
            lines.push(row("copied", monitor.copied, ""));
            lines.push(row("  from where they lay", monitor.zero_copy, ""));
            lines.extend(monitor.drops.iter().map(|drop| row("not copied", drop.packets, &at(drop))));
        }
        lines.extend(self.run.error_line());
        lines.join("\n")
    }
}

fn lane_text(lines: &mut Vec<String>, lane: &LaneRow, verbose: bool) {
    let how = if lane.zero_copy { "handed over" } else { "copied" };
    lines.push(format!("{} -> {} ({how})", lane.from, lane.to));
    lines.push(row("received", lane.received, &format!("{} bytes", count(lane.received_bytes))));
    lane.sent.lines(lines);
    lines.extend(unexplained(lane.sent.unexplained));
    lines.extend(
        lane.rx_missed.iter().map(|drop| row("rx missed", drop.packets, &format!("before the bridge, {}", at(drop)))),
    );
    if verbose && lane.batches > 0 {
        lines.push(format!("  {:.1} packets a batch", lane.received as f64 / lane.batches as f64));
    }
}
