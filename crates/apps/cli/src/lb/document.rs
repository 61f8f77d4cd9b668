//! The account of a balancer: the document of `--json` (`linerate.lb/1`), and the same for people.

use linerate_port::Caps;
use linerate_report::units::{count, percent, pps};
use linerate_report::{Timestamp, Tool};
use serde::Serialize;

use super::balance::{BalanceEnd, Balancer};
use super::output::Counts;
use crate::bridge::document::{DropRow, at, row, rows};
use crate::traffic::receiving::EndedBy;

/// Schema of [`LbDocument`].
pub const LB_SCHEMA: &str = "linerate.lb/1";

/// What `linerate lb` did. Each group has every packet: `received` is the sum of its outputs' `assigned`.
#[derive(Debug, Serialize)]
pub struct LbDocument {
    /// [`LB_SCHEMA`].
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
    /// Name of the input.
    pub input: String,
    /// How it was opened.
    pub detail: String,
    /// Packets that came.
    pub received: u64,
    /// Their bytes, without FCS.
    pub received_bytes: u64,
    /// Packets that reached the input and that it lost before they could be taken; not part of `received`.
    pub missed: Vec<DropRow>,
    /// The outputs, one group after the other.
    pub outputs: Vec<OutputRow>,
    /// What is left of the account; 0 if every packet was found.
    pub unexplained: i64,
    /// What broke a port.
    pub error: Option<String>,
}

/// One output. `assigned = forwarded + drops + incomplete + unexplained`.
#[derive(Debug, Serialize)]
pub struct OutputRow {
    /// Its port.
    pub port: String,
    /// Number of its group, from 0.
    pub group: usize,
    /// Packets that were meant for it.
    pub assigned: u64,
    /// Packets that the far side has.
    pub forwarded: u64,
    /// Their bytes, without FCS.
    pub forwarded_bytes: u64,
    /// Forwarded per second.
    pub forwarded_pps: f64,
    /// Packets that did not get there.
    pub drops: Vec<DropRow>,
    /// Packets that the port took and had not finished at the end.
    pub incomplete: u64,
    /// What is left of its account.
    pub unexplained: i64,
}

/// Names and facts that the end does not tell.
pub struct Facts {
    /// When it started.
    pub started: Timestamp,
    /// How long it ran.
    pub took_ns: u64,
    /// Why it ended.
    pub ended_by: EndedBy,
    /// Who wrote it.
    pub tool: Tool,
}

impl LbDocument {
    /// Puts the account together.
    pub fn new(balancer: &Balancer, end: &BalanceEnd, facts: Facts) -> LbDocument {
        let seconds = facts.took_ns as f64 / 1e9;
        let groups = balancer.groups.iter().enumerate().flat_map(|(group, count)| std::iter::repeat_n(group, *count));
        let ends = balancer.outputs.iter().zip(&end.outputs).zip(groups);
        let outputs: Vec<OutputRow> = ends
            .map(|((output, (stats, incomplete)), group)| {
                let caps = output.port.caps();
                let mut drops = here(&output.counts, caps);
                drops.extend(rows(&stats.tx_drops));
                let gone = stats.tx_packets + incomplete + drops.iter().map(|drop| drop.packets).sum::<u64>();
                OutputRow {
                    port: caps.name.clone(),
                    group,
                    assigned: output.counts.assigned,
                    forwarded: stats.tx_packets,
                    forwarded_bytes: stats.tx_bytes,
                    forwarded_pps: if seconds > 0.0 { stats.tx_packets as f64 / seconds } else { 0.0 },
                    drops,
                    incomplete: *incomplete,
                    unexplained: output.counts.assigned as i64 - gone as i64,
                }
            })
            .collect();
        let assigned: u64 = outputs.iter().map(|output| output.assigned).sum();
        let meant = balancer.received * balancer.groups.len() as u64;
        let caps = balancer.input.caps();
        LbDocument {
            schema: LB_SCHEMA,
            tool: facts.tool,
            started: facts.started,
            seconds,
            ended_by: facts.ended_by,
            core_share: end.core_ns as f64 / facts.took_ns.max(1) as f64,
            input: caps.name.clone(),
            detail: caps.detail.clone(),
            received: balancer.received,
            received_bytes: end.input.rx_bytes,
            missed: rows(&end.input.rx_drops),
            unexplained: meant as i64 - assigned as i64 + outputs.iter().map(|output| output.unexplained).sum::<i64>(),
            outputs,
            error: end.error.as_ref().map(ToString::to_string),
        }
    }

    /// The same for people.
    pub fn text(&self) -> String {
        let mut lines = vec![format!("balanced for {:.2} s, {} of a core", self.seconds, percent(self.core_share))];
        lines.push(self.input.clone());
        lines.push(row("received", self.received, &format!("{} bytes", count(self.received_bytes))));
        lines.extend(self.missed.iter().map(|drop| row("missed", drop.packets, &at(drop))));
        for output in &self.outputs {
            let share = output.assigned as f64 / (self.received.max(1)) as f64;
            lines.push(format!("-> {}, group {}", output.port, output.group));
            lines.push(row("assigned", output.assigned, &percent(share)));
            let rate = format!("{} bytes, {}", count(output.forwarded_bytes), pps(output.forwarded_pps));
            lines.push(row("forwarded", output.forwarded, &rate));
            lines.extend(output.drops.iter().map(|drop| row("dropped", drop.packets, &at(drop))));
            if output.incomplete > 0 {
                lines.push(row("incomplete", output.incomplete, "taken by the port, not sent a second after the end"));
            }
        }
        if self.unexplained != 0 {
            lines.push(format!("  unexplained {:>15}", self.unexplained));
        }
        lines.extend(self.error.iter().map(|error| format!("ended early: {error}")));
        lines.join("\n")
    }
}

/// What was lost before the port took it.
fn here(counts: &Counts, caps: &Caps) -> Vec<DropRow> {
    let place = format!("queue to {}", caps.name);
    let drop = |cause: String, packets: u64| DropRow { place: place.clone(), cause, packets };
    let mut drops = vec![
        drop("overflow: no more packets could wait".into(), counts.overflowed),
        drop(format!("longer than the {} bytes that it takes", caps.frame_len_max), counts.too_long),
        drop("no free frame for a copy".into(), counts.no_frame),
        drop("not taken before the end".into(), counts.left),
    ];
    drops.retain(|drop| drop.packets > 0);
    drops
}
