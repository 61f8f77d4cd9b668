//! The sending loop: a [`Sender`] on a port, by the clock.

use linerate_gen::{Next, Sender, SenderPlan, SenderReport};
use linerate_mem::Pool;
use linerate_port::{Port, PortError, Stats};
use linerate_sys::clock;

use crate::control::Control;
use crate::ending::complete;
use crate::wait::{Backoff, pause};

/// How long after the end of the schedule packets may still be sent that were due before it: a twentieth of its duration,
/// within these limits.
const GRACE_NS: std::ops::RangeInclusive<u64> = 2_000_000..=200_000_000;

/// How long the port may take to complete what it accepted.
const FLUSH_NS: u64 = 1_000_000_000;

/// How a sending loop ended.
pub struct SendEnd {
    /// The account.
    pub report: SenderReport,
    /// The port's totals at the end.
    pub stats: Stats,
    /// Packets that the port took and that were not complete a second after the last one.
    pub tx_pending: u64,
    /// What broke the port, if something did; the account and the totals are right all the same.
    pub error: Option<PortError>,
    /// The port of a lane took nothing more at last: what is unsent then waited for room, not for its thread.
    pub was_full: bool,
}

impl SendEnd {
    /// Lets the port complete what it took, and reads its totals.
    pub fn new(report: SenderReport, port: &mut dyn Port, mut error: Option<PortError>) -> SendEnd {
        let tx_pending = complete(port, FLUSH_NS).unwrap_or_else(|failure| {
            error.get_or_insert(failure);
            0
        });
        let stats = port.stats().unwrap_or_else(|failure| {
            error.get_or_insert(failure);
            Stats::default()
        });
        SendEnd { report, stats, tx_pending, error, was_full: false }
    }
}

/// When a sender whose schedule has this duration stops trying.
pub fn give_up_ns(duration_ns: Option<u64>, start_ns: u64) -> u64 {
    duration_ns.map_or(u64::MAX, |duration| {
        let grace_ns = (duration / 20).clamp(*GRACE_NS.start(), *GRACE_NS.end());
        start_ns.saturating_add(duration).saturating_add(grace_ns)
    })
}

/// Sends by `plan` into `port` from `start_ns` on, until the schedule ends, the port breaks, or a stop is asked for.
///
/// With a `duration_ns` in the schedule, packets that were due before its end and that the port did not take soon after it
/// (a twentieth of the duration) are unsent. The calling thread's timer slack is 1 ns afterwards.
pub fn send(port: &mut dyn Port, plan: &SenderPlan, pool: &Pool, start_ns: u64, control: &Control) -> SendEnd {
    clock::sleep_exactly();
    let start_ns = if plan.schedule.rate_pps.is_none() { after_waiting_for(start_ns) } else { start_ns };
    let mut sender = Sender::new(plan, pool, start_ns);
    let error = run(&mut sender, port, give_up_ns(plan.schedule.duration_ns, start_ns), control).err();
    SendEnd::new(sender.finish(clock::now_ns().max(start_ns)), port, error)
}

/// The time once `start_ns` has come. A load without a schedule begins when its thread does: on a busy machine it would else
/// lose the beginning of its duration, or all of it, before it has its core.
pub fn after_waiting_for(start_ns: u64) -> u64 {
    clock::sleep_until_ns(start_ns);
    clock::now_ns().max(start_ns)
}

fn run(sender: &mut Sender, port: &mut dyn Port, give_up_ns: u64, control: &Control) -> Result<(), PortError> {
    let mut backoff = Backoff::default();
    while !control.stopping() {
        let now_ns = clock::now_ns();
        if now_ns >= give_up_ns {
            break;
        }
        let next = sender.poll(now_ns, port)?;
        let report = sender.report();
        control.meter.set(report.sent, report.bytes, report.batches);
        match next {
            Next::At(due_ns) => {
                backoff = Backoff::default();
                // All that is due by now has been sent, so nothing becomes unsent by the change.
                if let Some(rate_pps) = control.take_rate_pps() {
                    sender.change_rate(rate_pps, now_ns);
                    continue;
                }
                pause(due_ns, now_ns, port)?;
            }
            Next::PortFull => {
                // A sender without a rate, or one that is late, is never ahead of its schedule.
                if let Some(rate_pps) = control.take_rate_pps() {
                    sender.change_rate(rate_pps, now_ns);
                }
                backoff.wait_for_room(port)?;
            }
            Next::NoFrames => backoff.wait_for_frames(port)?,
            Next::Done => break,
        }
    }
    Ok(())
}
