//! The account of a balancer: the document of `--json` (`linerate.lb/1`), and the same for people.

use linerate_console::cores::Cores;
use linerate_console::tables::{CoreRow, QueueRow, core_lines, queue_lines, uneven_queues};
use linerate_port::{Caps, Drops, Stats, drops_that_happened};
use linerate_units::show::{count, percent};
use serde::Serialize;

use super::run::{LbEnd, OutputEnd};
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
    pub rx_missed: Vec<Drops>,
    /// The queues of the input, each served by one worker.
    pub queues: Vec<QueueRow>,
    /// The workers: the packets that each received from the input, and its time for all that it did.
    pub cores: Vec<CoreRow>,
    /// The outputs, one group after the other.
    pub outputs: Vec<OutputRow>,
    /// What is left of the account; 0 if every packet was found.
    pub unexplained: i64,
}

/// One output. `assigned = forwarded + drops + tx_pending + unexplained`.
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
    /// Puts the account together. `inputs` and `outputs` are facts about the queues of the input and about the outputs.
    pub fn new(end: &LbEnd, (inputs, outputs): (&[Caps], &[Caps]), cores: Option<&Cores>, run: RunRow) -> LbDocument {
        let groups = end.groups.iter().enumerate().flat_map(|(group, count)| std::iter::repeat_n(group, *count));
        let outputs = end.outputs.iter().zip(outputs).zip(groups);
        let outputs: Vec<OutputRow> = outputs
            .map(|((output, caps), group)| {
                let (assigned, port) = (output.counts.assigned, &output.port);
                let sent = SentRow::new(assigned, here(output, caps), &port.stats, port.tx_pending, run.seconds);
                OutputRow { port: caps.name.clone(), group, assigned, sent }
            })
            .collect();
        let received = end.workers.iter().map(|worker| worker.received).sum::<u64>();
        let assigned: u64 = outputs.iter().map(|output| output.assigned).sum();
        let lost: i64 = outputs.iter().map(|output| output.sent.unexplained).sum();
        let mut input = Stats::default();
        end.inputs.iter().for_each(|(_, stats)| input.add(stats.clone()));
        let core = |worker: usize| cores.and_then(|cores| cores.of(worker));
        let queues = end.inputs.iter().zip(inputs).enumerate();
        let queues =
            queues.map(|(queue, ((worker, stats), caps))| QueueRow::received(queue, &caps.name, core(*worker), stats));
        LbDocument {
            schema: LB_SCHEMA,
            run,
            input: input_name(inputs),
            detail: inputs.first().map(|caps| caps.detail.clone()).unwrap_or_default(),
            received,
            received_bytes: input.rx_bytes,
            rx_missed: drops_that_happened(&input.rx_drops),
            queues: queues.collect(),
            cores: (0..end.workers.len()).map(|worker| core_row(end, worker, inputs, core(worker))).collect(),
            unexplained: (received * end.groups.len() as u64) as i64 - assigned as i64 + lost,
            outputs,
        }
    }

    /// What to know of the input if its queues got unequal shares.
    pub fn uneven(&self) -> Option<String> {
        uneven_queues(&self.input, &self.queues)
    }

    /// The same for people.
    pub fn text(&self) -> String {
        let mut lines = vec![self.run.head("balanced"), self.input.clone()];
        lines.push(row("received", self.received, &format!("{} bytes", count(self.received_bytes))));
        lines.extend(self.rx_missed.iter().map(|drop| row("rx missed", drop.packets, &at(drop))));
        lines.extend(queue_lines("queue", &self.queues));
        lines.extend(core_lines(&self.cores));
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

/// The name of the input: that of its only queue, or that of the first without the queue's number.
pub fn input_name(queues: &[Caps]) -> String {
    let name = queues.first().map_or("", |caps| &caps.name);
    let name = if queues.len() > 1 { name.rsplit_once('@').map_or(name, |(device, _)| device) } else { name };
    name.to_owned()
}

/// What a worker did.
fn core_row(end: &LbEnd, worker: usize, inputs: &[Caps], core: Option<usize>) -> CoreRow {
    let own = end.inputs.iter().zip(inputs).filter(|((owner, _), _)| *owner == worker);
    let bytes = own.clone().map(|((_, stats), _)| stats.rx_bytes).sum();
    let queues = own.map(|(_, caps)| caps.name.clone()).collect();
    CoreRow::new(core, queues, end.workers[worker].received, Some(bytes), end.workers[worker].core_ns)
}

/// What was lost before the port took it.
fn here(output: &OutputEnd, caps: &Caps) -> Vec<Drops> {
    let counts = &output.counts;
    let place = format!("queue to {}", caps.name);
    let drop = |cause: String, packets: u64| Drops { place: place.clone(), cause, packets };
    vec![
        drop("overflow: no more packets could wait".into(), counts.overflowed),
        drop(format!("longer than the {} bytes that it takes", caps.frame_len_max), counts.too_long),
        drop("no free frame for a copy".into(), counts.no_buffer),
        drop("not taken before the end".into(), output.left),
    ]
}
