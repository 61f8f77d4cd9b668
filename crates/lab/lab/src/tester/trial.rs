//! One trial: one load for one duration, and the account of it.
//!
//! Phases after RFC 2544 section 23: the counters are read at rest, counting begins, the load runs, the path comes to rest
//! again (a packet in a ring is in no counter), counting ends, the counters are read again.

use std::time::Duration;

use linerate_gen::{Arrival, BATCH_DEFAULT, Late, Schedule, SenderPlan, SenderReport, StreamPlan};
use linerate_port::PortError;
use linerate_report::{Counted, Loss};
use linerate_sys::{affinity, clock};

use super::Tester;
use super::endpoint::{Arrivals, drops_since};
use super::priority::go_ahead;
use crate::counters::{CounterSources, CountersError, Snapshot};
use crate::cpu::CpuTimes;
use crate::ledger::{self, Ends, Ledger};
use crate::places::PortRows;
use crate::run::{self, Control, SendEnd};

/// A path is at rest when no counter has moved for this long.
const QUIET: Duration = Duration::from_millis(30);
/// Longest wait for that.
const REST_MAX: Duration = Duration::from_millis(2_000);
/// From the start of the threads to the first packet.
const LEAD_NS: u64 = 5_000_000;

/// Which core does what; `None` leaves it to the scheduler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cores {
    /// The sending thread.
    pub generator: Option<usize>,
    /// The DUT's first hop (pinned when the topology was built).
    pub dut: Option<usize>,
    /// The receiving thread, where there is one.
    pub receiver: Option<usize>,
}

/// A load and its duration.
pub struct TrialSpec<'a> {
    /// The packets.
    pub stream: &'a StreamPlan,
    /// Packets per second; `None` = as fast as the port takes them.
    pub rate_pps: Option<f64>,
    /// How long the load runs.
    pub duration_ns: u64,
    /// Where the threads run.
    pub cores: Cores,
}

/// What a trial found.
#[derive(Debug)]
pub struct Outcome {
    /// Where every packet went.
    pub ledger: Ledger,
    /// The sender's own account, with its pacing.
    pub sending: SenderReport,
    /// What arrived.
    pub arrivals: Arrivals,
    /// What each core did, from the first packet until the path was at rest.
    pub cpu: CpuTimes,
    /// From the first packet handed over to the last one, but at least the intended duration of a paced load.
    pub duration_ns: u64,
    /// What makes it doubtful.
    pub notes: Vec<String>,
}

/// Why a trial gave no result.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// A port broke.
    #[error("{0}")]
    Port(#[from] PortError),
    /// The path's counters could not be read.
    #[error("the path's counters: {0}")]
    Counters(#[from] CountersError),
    /// The processors' times could not be read.
    #[error("the processors' times: {0}")]
    Cpu(#[from] std::io::Error),
    /// The counts contradict each other.
    #[error("the account cannot be closed: {0}")]
    Account(#[from] linerate_report::AccountError),
    /// A signal asked the program to stop.
    #[error("stopped by a signal")]
    Stopped,
}

impl Tester {
    /// Stream id to plan the next trial's packets with. Each trial has its own where the endpoint can tell them apart.
    pub fn next_stream(&mut self) -> u16 {
        match self.endpoint {
            super::Endpoint::Sink(_) => 0,
            super::Endpoint::Port { .. } => {
                self.trials = self.trials.wrapping_add(1);
                self.trials
            }
        }
    }

    /// Runs one trial.
    ///
    /// # Errors
    /// When no honest account can be given.
    pub fn trial(&mut self, spec: &TrialSpec<'_>) -> Result<Outcome, TrialError> {
        let Tester { topology: _, sources, sender, endpoint, pool, .. } = self;
        let stream = spec.stream.signature.unwrap_or(0);
        let port_before = sender.stats()?;
        let (before, was_quiet) = at_rest(sources.as_mut())?;
        let cpu_before = CpuTimes::read()?;
        let control = Control::default();
        let (send_end, counters, arrivals) = std::thread::scope(|scope| -> Result<_, TrialError> {
            let counting = endpoint.start(scope, stream, spec.cores.receiver, &control);
            let sending = scope.spawn(|| send(sender.as_mut(), spec, pool));
            let send_end = match sending.join() {
                Ok(end) => end,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            let counters = at_rest_since(sources.as_mut(), before.as_ref());
            control.stop();
            let arrivals = counting.finish()?;
            Ok((send_end, counters?, arrivals))
        })?;
        if linerate_sys::signal::stop_requested() {
            return Err(TrialError::Stopped);
        }
        let (after, is_quiet) = counters;
        let cpu = CpuTimes::read()?.since(&cpu_before);
        if let Some(error) = send_end.error {
            return Err(error.into());
        }
        let ports = PortRows {
            generator: losses(drops_since(&send_end.stats.tx_drops, &port_before.tx_drops)),
            receiver: losses(arrivals.drops.clone()),
        };
        let counted = Counted {
            intended: send_end.report.intended,
            sent: send_end.report.sent,
            delivered: arrivals.delivered,
            duplicated: arrivals.duplicated,
            reordered: arrivals.reordered,
        };
        let difference = after.zip(before).map(|(after, before)| after.since(&before));
        let mut ledger = ledger::close(&Ends { counted, received: arrivals.received }, difference.as_ref(), &ports)?;
        let behind =
            Loss::new("pacer", "due, but the sending thread or its port did not keep up", ledger.account.unsent());
        ledger.account = ledger.account.with_unsent_by(vec![behind])?;
        let notes = notes(was_quiet, is_quiet, &send_end, &ledger);
        let duration_ns = duration_ns(&send_end.report, spec);
        Ok(Outcome { ledger, sending: send_end.report, arrivals, cpu, duration_ns, notes })
    }
}

/// The counters of the path once it is at rest; none on a link inside this process, whose ports count all there is.
fn at_rest(sources: Option<&mut CounterSources>) -> Result<(Option<Snapshot>, bool), CountersError> {
    match sources {
        None => Ok((None, true)),
        Some(sources) => {
            let (snapshot, quiet) = sources.snapshot_at_rest(QUIET, REST_MAX)?;
            Ok((Some(snapshot), quiet))
        }
    }
}

/// As [`at_rest`], after a load that began at `before`: packets in a ring whose reader waits for its core are waited for too.
fn at_rest_since(
    sources: Option<&mut CounterSources>,
    before: Option<&Snapshot>,
) -> Result<(Option<Snapshot>, bool), CountersError> {
    let (Some(sources), Some(before)) = (sources, before) else { return Ok((None, true)) };
    let give_up_ns = clock::now_ns() + REST_MAX.as_nanos() as u64;
    loop {
        let (after, quiet) = sources.snapshot_at_rest(QUIET, REST_MAX)?;
        let empty = after.since(before).in_flight() == 0;
        if empty || clock::now_ns() > give_up_ns {
            return Ok((Some(after), quiet && empty));
        }
    }
}

fn send(port: &mut dyn linerate_port::Port, spec: &TrialSpec<'_>, pool: &linerate_mem::Pool) -> SendEnd {
    settle_on(spec.cores.generator);
    let schedule = Schedule {
        rate_pps: spec.rate_pps,
        arrival: Arrival::Constant,
        packets: None,
        duration_ns: Some(spec.duration_ns),
        late: Late::Spread,
    };
    let plan =
        SenderPlan { streams: vec![(spec.stream.clone(), 1)], schedule, batch: BATCH_DEFAULT, first_sequence: 0 };
    run::send(port, &plan, pool, clock::now_ns() + LEAD_NS, &Control::default())
}

/// Puts the calling thread on its core, ahead of what else runs there. A wish, as [`go_ahead`] is.
pub(super) fn settle_on(core: Option<usize>) {
    if let Some(core) = core {
        let _ = affinity::pin_to_core(core);
    }
    go_ahead(0);
}

fn losses(drops: Vec<linerate_port::Drops>) -> Vec<Loss> {
    drops.into_iter().map(|drops| Loss::new(drops.place, drops.cause, drops.packets)).collect()
}

/// A paced load lasts as long as its schedule, even if its last packet is due before the end.
fn duration_ns(report: &SenderReport, spec: &TrialSpec<'_>) -> u64 {
    let sent_ns = report.last_ns.zip(report.first_ns).map_or(0, |(last, first)| last - first);
    match spec.rate_pps {
        Some(_) => sent_ns.max(spec.duration_ns),
        None => sent_ns,
    }
}

fn notes(was_quiet: bool, is_quiet: bool, end: &SendEnd, ledger: &Ledger) -> Vec<String> {
    let mut notes = Vec::new();
    if !was_quiet || !is_quiet {
        notes.push("the path did not come to rest: packets were still under way, or others than the trial's moved its counters".into());
    }
    if end.incomplete > 0 {
        notes.push(format!("{} packets were still in the sending port a second after the last one", end.incomplete));
    }
    for loss in ledger.unnamed.iter().filter(|loss| loss.packets > 0) {
        notes.push(format!("{} packets lost {}: no counter names the cause", loss.packets, loss.place));
    }
    notes
}
