//! `-f tx` and `-f txseq`: one thread's share of the packets, paced, into its port.

use linerate_gen::{Arrival, CatchUp, Schedule, SenderPlan, StreamPlan, reduce_for_tx_generator};
use linerate_port::{PortError, TxGenerator};
use linerate_sys::clock;

use super::counts::Counts;
use super::replay::settle;
use super::worker::{Outcome, Task};
use crate::diag;

/// Most packets of one run of a backend that makes packets itself, so that reports and a stop come through.
const PACKETS_PER_RUN_MAX: u64 = 1 << 23;

/// Sends packets of this stream until those of the thread are sent, or a stop is asked for.
pub fn transmit(mut task: Task, stream: StreamPlan) -> Outcome {
    let Task { burst, rate_pps, .. } = task;
    let plan = SenderPlan {
        streams: vec![(stream, 1)],
        schedule: Schedule {
            rate_pps: (rate_pps > 0.0).then_some(rate_pps),
            arrival: Arrival::Burst { packets: burst as u32 },
            packets: (task.count > 0).then_some(task.count),
            duration_ns: None,
            catch_up: CatchUp::Burst,
        },
        batch: burst,
        first_sequence: 0,
        in_turn: false,
    };
    if let Some(outcome) = offloaded(&mut task, &plan) {
        return outcome;
    }
    let start_ns = clock::now_ns();
    let end = linerate_worker::send(&mut *task.port, &plan, &task.pool, start_ns, &task.control);
    let counts = Counts { packets: end.stats.tx_packets, bytes: end.stats.tx_bytes, events: end.report.batches };
    Outcome {
        counts,
        start_ns,
        end_ns: clock::now_ns(),
        drops: end.stats.tx_drops,
        tx_pending: end.tx_pending,
        error: end.error.map(|error| error.to_string()),
        ..Outcome::default()
    }
}

/// Has the backend make the packets, where it can make these; `None` where they must be made here.
fn offloaded(task: &mut Task, plan: &SenderPlan) -> Option<Outcome> {
    let (stream, _) = plan.streams.first()?;
    let backend = task.port.tx_generator()?;
    let loaded = match reduce_for_tx_generator(stream, plan.first_sequence, plan.schedule.rate_pps) {
        Ok(stream) => backend.load(&stream).map(|()| stream.template.len()).map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    let len = match loaded {
        Ok(len) => len,
        Err(why) => {
            if !backend.is_shortcut() {
                diag!("sender_body", "packets are made here and copied to the port: {why}");
            }
            return None;
        }
    };
    let mut outcome = Outcome { start_ns: clock::now_ns(), ..Outcome::default() };
    outcome.error = run_offload(task, len, &mut outcome.counts).err().map(|error| error.to_string());
    let events = outcome.counts.events;
    settle(task, &mut outcome);
    outcome.counts.events = events;
    Some(outcome)
}

fn run_offload(task: &mut Task, len: usize, counts: &mut Counts) -> Result<(), PortError> {
    let mut made = 0;
    while !task.control.stopping() && (task.count == 0 || made < task.count) {
        let Some(backend) = task.port.tx_generator() else { break };
        let left = if task.count == 0 { u64::MAX } else { task.count - made };
        let run = backend.run(left.min(packets_per_run(backend)))?;
        made += run.made;
        *counts = counts.plus(&Counts { packets: run.sent, bytes: run.sent * len as u64, events: 1 });
        task.publish(counts);
    }
    Ok(())
}

fn packets_per_run(backend: &dyn TxGenerator) -> u64 {
    backend.packets_per_run().min(PACKETS_PER_RUN_MAX)
}
