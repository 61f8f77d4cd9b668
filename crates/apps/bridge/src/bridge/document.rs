//! The account of a bridge: the document of `--json` (`linerate.bridge/1`), and the same for people.

use linerate_console::cores::Cores;
use linerate_console::tables::{CoreRow, QueueRow, core_lines, queue_lines, uneven_queues};
use linerate_port::{Drops, MonitorAccount, drops_that_happened};
use serde::Serialize;

use super::forward::{BridgeEnd, LaneEnd, QueueEnd, total};
use crate::account::{RunRow, SentRow, at, bytes, row, unexplained};

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
    /// The workers: the packets that each received from ports, and its time for all that it did.
    pub cores: Vec<CoreRow>,
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
    /// Copies that the near port made of what arrived (`impair-rx=duplicate ...`): those that it handed over are in `received`.
    pub rx_duplicated: u64,
    /// Packets that it damaged (`impair-rx=corrupt ...`).
    pub rx_corrupted: u64,
    /// Packets that came.
    pub received: u64,
    /// Their bytes, without FCS; null if nobody counted them (`bytes=no` of `dpdk:`).
    pub received_bytes: Option<u64>,
    /// The queues of the near port, and what each received.
    pub rx_queues: Vec<QueueRow>,
    /// The queues of the far port, and what each sent.
    pub tx_queues: Vec<QueueRow>,
    /// What became of them.
    #[serde(flatten)]
    pub sent: SentRow,
    /// Calls of the near port that returned packets.
    pub batches: u64,
}

/// What a bridge consists of, by the numbers of [`BridgeEnd`].
pub struct Names<'a> {
    /// The names of the ports.
    pub ports: &'a [String],
    /// The cores of the workers.
    pub cores: Option<&'a Cores>,
}

impl Names<'_> {
    fn core(&self, worker: usize) -> Option<usize> {
        self.cores.and_then(|cores| cores.of(worker))
    }

    /// The workers.
    pub fn core_rows(&self, end: &BridgeEnd) -> Vec<CoreRow> {
        let row = |(worker, core_ns): (usize, &u64)| {
            let own = || end.ports.iter().flatten().filter(|queue| queue.worker == worker);
            let sum = |count: fn(&QueueEnd) -> u64| own().map(count).sum::<u64>();
            let queues = own().map(|queue| queue.caps.name.clone()).collect();
            let packets = sum(|queue| queue.port.stats.rx_packets);
            let bytes = own().map(|queue| queue.port.stats.rx_bytes_of_all()).sum();
            CoreRow::new(self.core(worker), queues, packets, bytes, *core_ns)
        };
        end.core_ns.iter().enumerate().map(row).collect()
    }
}

impl LaneRow {
    /// The account of a lane.
    pub fn new(lane: &LaneEnd, zero_copy: bool, names: &Names<'_>, end: &BridgeEnd, seconds: f64) -> LaneRow {
        let (near, far) = (&end.ports[lane.from], &end.ports[lane.to]);
        let ((rx, _), (tx, tx_pending)) = (total(near), total(far));
        let (from, to) = (names.ports[lane.from].clone(), names.ports[lane.to].clone());
        let here = |cause: String, packets: u64| Drops { place: format!("bridge to {to}"), cause, packets };
        let len_max = far.first().map_or(0, |queue| queue.caps.frame_len_max);
        let drops = vec![
            here(format!("longer than the {len_max} bytes that it takes"), lane.too_long),
            here("not taken before the end".into(), lane.left),
        ];
        let row = |make: fn(usize, &str, Option<usize>, &linerate_port::Stats) -> QueueRow, queues: &[QueueEnd]| {
            let row = |(number, queue): (usize, &QueueEnd)| {
                make(number, &queue.caps.name, names.core(queue.worker), &queue.port.stats)
            };
            queues.iter().enumerate().map(row).collect::<Vec<_>>()
        };
        LaneRow {
            zero_copy,
            rx_missed: drops_that_happened(&rx.rx_drops),
            rx_duplicated: rx.rx_duplicated,
            rx_corrupted: rx.rx_corrupted,
            received: lane.received,
            received_bytes: rx.rx_bytes_of_all(),
            rx_queues: row(QueueRow::received, near),
            tx_queues: row(QueueRow::sent, far),
            sent: SentRow::new(lane.received, drops, &tx, tx_pending, seconds),
            batches: lane.batches,
            from,
            to,
        }
    }
}

impl BridgeDocument {
    /// What to know of ports whose queues got unequal shares.
    pub fn uneven(&self) -> Vec<String> {
        self.lanes.iter().filter_map(|lane| uneven_queues(&lane.from, &lane.rx_queues)).collect()
    }

    /// The same for people; with `verbose`, with what is of use to whoever tunes it.
    pub fn text(&self, verbose: bool) -> String {
        let mut lines = vec![self.run.head("bridged")];
        self.lanes.iter().for_each(|lane| lane_text(&mut lines, lane, verbose));
        lines.extend(core_lines(&self.cores));
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
    lines.push(row("received", lane.received, &bytes(lane.received_bytes)));
    lines.extend(queue_lines("rx queue", &lane.rx_queues));
    lane.sent.lines(lines);
    lines.extend(queue_lines("tx queue", &lane.tx_queues));
    lines.extend(unexplained(lane.sent.unexplained));
    lines.extend(
        lane.rx_missed.iter().map(|drop| row("rx missed", drop.packets, &format!("before the bridge, {}", at(drop)))),
    );
    for (name, packets, what) in
        [("rx copies", lane.rx_duplicated, "made"), ("rx damaged", lane.rx_corrupted, "damaged")]
    {
        if packets > 0 {
            lines.push(row(name, packets, &format!("{what} by {} before the bridge", lane.from)));
        }
    }
    if verbose && lane.batches > 0 {
        lines.push(format!("  {:.1} packets a batch", lane.received as f64 / lane.batches as f64));
    }
}
