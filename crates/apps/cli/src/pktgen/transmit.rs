//! `-f tx` and `-f txseq`: one thread's share of the packets, paced, into its port.

use linerate_gen::{Arrival, PlanError, Schedule, SenderPlan};
use linerate_lab::run;
use linerate_sys::clock;

use super::format::Counts;
use super::packet;
use super::worker::{Outcome, Task};

/// Sends until the thread's packets are sent, or a stop is asked for.
///
/// # Errors
/// When no such packets can be made; the port is untouched then.
pub fn transmit(mut task: Task, rate_pps: f64) -> Result<Outcome, PlanError> {
    let burst = super::pace::burst(task.options.burst, rate_pps);
    let stream = packet::stream(&task.options, task.source_mac, task.thread)?.plan()?;
    let plan = SenderPlan {
        streams: vec![(stream, 1)],
        schedule: Schedule {
            rate_pps: (rate_pps > 0.0).then_some(rate_pps),
            arrival: Arrival::Burst { packets: burst as u32 },
            packets: (task.count > 0).then_some(task.count),
            duration_ns: None,
        },
        batch: burst,
        first_sequence: 0,
    };
    let start_ns = clock::now_ns();
    let end = run::send(&mut *task.port, &plan, &task.pool, start_ns, &task.control);
    let counts = Counts { packets: end.stats.tx_packets, bytes: end.stats.tx_bytes, events: end.report.batches };
    Ok(Outcome {
        counts,
        start_ns,
        end_ns: clock::now_ns(),
        drops: end.stats.tx_drops,
        incomplete: end.incomplete,
        error: end.error.map(|error| error.to_string()),
        ..Outcome::default()
    })
}
