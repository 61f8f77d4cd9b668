//! The replaying loop: a [`Replay`] between two ports, by the clock.

use linerate_gen::{Replay, ReplayNext, ReplayPlan};
use linerate_mem::Pool;
use linerate_port::{FarSide, Interest, Port, PortError, Readiness, Stats};
use linerate_sys::clock;

use crate::control::Control;
use crate::send::{SendEnd, give_up_ns};
use crate::wait::{Backoff, pause};

/// Longest wait for a source, so that a request to stop is seen.
const NAP_NS: u64 = 20_000_000;

/// How a replay ended.
pub struct ReplayEnd {
    /// The account of the sending port.
    pub sent: SendEnd,
    /// Packets, among the unsent, that were longer than the port takes.
    pub too_long: u64,
    /// The source's totals.
    pub source: Stats,
}

/// Sends what `source` gives into `port` from `start_ns` on, until the plan or the source ends, a port breaks, or a stop is
/// asked for. Both ports are open on `pool`.
pub fn replay(
    source: &mut dyn Port,
    port: &mut dyn Port,
    plan: ReplayPlan,
    pool: &Pool,
    start_ns: u64,
    control: &Control,
) -> ReplayEnd {
    clock::sleep_exactly();
    let mut engine = Replay::new(plan, pool, pool, start_ns);
    let error = run(&mut engine, source, port, give_up_ns(plan.duration_ns, start_ns), control).err();
    // Only a file can be read to its end; of a live port, what it has given counts.
    let is_file = source.caps().far_side == FarSide::File;
    let now_ns = clock::now_ns().max(start_ns);
    let report = if is_file { engine.finish(now_ns, Some(source)) } else { engine.finish(now_ns, None) };
    let sent = SendEnd::new(report.account, port, error);
    ReplayEnd { sent, too_long: report.too_long, source: source.stats().unwrap_or_default() }
}

fn run(
    engine: &mut Replay,
    source: &mut dyn Port,
    port: &mut dyn Port,
    give_up_ns: u64,
    control: &Control,
) -> Result<(), PortError> {
    let mut backoff = Backoff::default();
    while !control.stopping() {
        let now_ns = clock::now_ns();
        if now_ns >= give_up_ns {
            break;
        }
        let next = engine.poll(now_ns, source, port)?;
        let report = engine.report();
        control.meter.set(report.sent, report.bytes, report.batches);
        match next {
            ReplayNext::At(due_ns) => {
                backoff = Backoff::default();
                pause(due_ns, now_ns, port)?;
            }
            ReplayNext::SourceEmpty => {
                port.flush()?;
                if source.wait(Interest::Receive, NAP_NS)? == Readiness::Closed {
                    engine.source_ended();
                }
            }
            ReplayNext::PortFull => backoff.wait_for_room(port)?,
            ReplayNext::NoFrames => backoff.wait_for_frames(port)?,
            ReplayNext::Done => break,
        }
    }
    Ok(())
}
