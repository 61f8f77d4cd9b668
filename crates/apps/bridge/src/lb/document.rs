//! The account of a balancer: the document of `--json` (`linerate.lb/1`), and the same for people.

use linerate_port::{Caps, Drops, PortIndex, drops_that_happened};
use linerate_report::units::{count, percent};
use serde::Serialize;

use linerate_worker::{End, PortEnd};

use super::balance::{Balancer, INPUT};
use super::output::Output;
use crate::account::{RunRow, SentRow, at, row, unexplained};

/// Schema of [`LbDocument`].
pub const LB_SCHEMA: &str = "linerate.lb/1";

/// What `linerate lb` did. Each group has every packet: `received` is the sum of its outputs' `assigned`.
#[derive(Debug, Serialize)]
pub struct LbDocument {
    /// [`LB_SCHEMA`].
    pub schema: &'static str,
    /// When, for how long, with which end.
    #[serde(flatten)]
    pub run: RunRow,
    /// Name of the input.
    pub input: String,
    /// How it was opened.
    pub detail: String,
    /// Packets that came.
    pub received: u64,
    /// Their bytes, without FCS.
    pub received_bytes: u64,
    /// Packets that reached the input and that it lost before they could be taken; not part of `received`.
    pub missed: Vec<Drops>,
    /// The outputs, one group after the other.
    pub outputs: Vec<OutputRow>,
    /// What is left of the account; 0 if every packet was found.
    pub unexplained: i64,
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
    /// What became of them.
    #[serde(flatten)]
    pub sent: SentRow,
}

impl LbDocument {
    /// Puts the account together. `caps` are those of the input, then of the outputs.
    pub fn new(balancer: &Balancer, end: &End, caps: &[Caps], run: RunRow) -> LbDocument {
        let none = PortEnd::default();
        let ends = (0..).map(|number| end.port(PortIndex(number)).unwrap_or(&none));
        let groups = balancer.groups.iter().enumerate().flat_map(|(group, count)| std::iter::repeat_n(group, *count));
        let outputs = balancer.outputs.iter().zip(caps.iter().zip(ends).skip(1)).zip(groups);
        let outputs: Vec<OutputRow> = outputs
            .map(|((output, (caps, end)), group)| {
                let assigned = output.counts.assigned;
                let sent = SentRow::new(assigned, here(output, caps), &end.stats, end.tx_pending, run.seconds);
                OutputRow { port: caps.name.clone(), group, assigned, sent }
            })
            .collect();
        let assigned: u64 = outputs.iter().map(|output| output.assigned).sum();
        let meant = balancer.received * balancer.groups.len() as u64;
        let lost: i64 = outputs.iter().map(|output| output.sent.unexplained).sum();
        let input = end.port(INPUT).unwrap_or(&none);
        LbDocument {
            schema: LB_SCHEMA,
            run,
            input: caps[0].name.clone(),
            detail: caps[0].detail.clone(),
            received: balancer.received,
            received_bytes: input.stats.rx_bytes,
            missed: drops_that_happened(&input.stats.rx_drops),
            unexplained: meant as i64 - assigned as i64 + lost,
            outputs,
        }
    }

    /// The same for people.
    pub fn text(&self) -> String {
        let mut lines = vec![self.run.head("balanced"), self.input.clone()];
        lines.push(row("received", self.received, &format!("{} bytes", count(self.received_bytes))));
        lines.extend(self.missed.iter().map(|drop| row("missed", drop.packets, &at(drop))));
        for output in &self.outputs {
            let share = output.assigned as f64 / (self.received.max(1)) as f64;
            lines.push(format!("-> {}, group {}", output.port, output.group));
            lines.push(row("assigned", output.assigned, &percent(share)));
            output.sent.lines(&mut lines);
        }
        lines.extend(unexplained(self.unexplained));
        lines.extend(self.run.error_line());
        lines.join("\n")
    }
}

/// What was lost before the port took it.
fn here(output: &Output, caps: &Caps) -> Vec<Drops> {
    let counts = &output.counts;
    let place = format!("queue to {}", caps.name);
    let drop = |cause: String, packets: u64| Drops { place: place.clone(), cause, packets };
    vec![
        drop("overflow: no more packets could wait".into(), counts.overflowed),
        drop(format!("longer than the {} bytes that it takes", caps.frame_len_max), counts.too_long),
        drop("no free frame for a copy".into(), counts.no_buffer),
        drop("not taken before the end".into(), output.held()),
    ]
}
