//! The threads of `linerate send`: one for each queue that sends, and one for the ports that it receives on.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::ScopedJoinHandle;

use linerate_gen::{Arrival, ReplayPlan, Schedule, SenderPlan, SenderReport};
use linerate_mem::Pool;
use linerate_port::{Caps, Port, Stats};
use linerate_sys::clock;
use linerate_worker::{self as worker, Control, SendEnd};

use super::keys::RateKeys;
use super::neighbours::Neighbours;
use super::progress::{Progress, Snapshot};
use super::receiving::{Received, Share};
use linerate_console::cores;
use linerate_console::note;

/// One thread: its port, which is a queue of a port if that has several threads, and what it sends.
pub struct Job {
    /// Position of its port among all ports.
    pub position: usize,
    /// The port.
    pub port: Box<dyn Port>,
    /// What it sends.
    pub work: Work,
    /// The intended rate; `None` = none, or that of a capture.
    pub rate_pps: Option<f64>,
    /// Signature ids of its streams.
    pub ids: Vec<Option<u16>>,
    /// Where its thread runs.
    pub core: Option<usize>,
    /// By how many nanoseconds later than the others its schedule starts.
    pub later_ns: u64,
}

/// What a port sends, and who makes it.
pub enum Work {
    /// Streams that are made here.
    Streams(SenderPlan),
    /// A stream that the port makes; it has been loaded.
    Offloaded {
        /// When its packets go.
        schedule: Schedule,
        /// Their length in bytes, without FCS.
        packet_len: usize,
    },
    /// Packets of another port.
    Replay {
        /// When they go.
        plan: ReplayPlan,
        /// Where they come from.
        source: Box<dyn Port>,
    },
}

impl Work {
    /// When packets go, and when it ends.
    fn schedule(&self) -> Schedule {
        match self {
            Work::Streams(plan) => plan.schedule,
            Work::Offloaded { schedule, .. } => *schedule,
            Work::Replay { plan, .. } => Schedule {
                rate_pps: None,
                arrival: Arrival::Constant,
                packets: plan.packets,
                duration_ns: plan.duration_ns,
                catch_up: plan.catch_up,
            },
        }
    }
}

/// What became of a job.
pub struct Sent {
    /// Position of its port among all ports.
    pub position: usize,
    /// Time of a core that its thread took, in nanoseconds.
    pub cpu_ns: u64,
    /// What the port was.
    pub caps: Caps,
    /// Where its thread ran.
    pub core: Option<usize>,
    /// The intended rate; `None` = as fast as the port takes packets.
    pub rate_pps: Option<f64>,
    /// Signature ids of its streams.
    pub ids: Vec<Option<u16>>,
    /// The account.
    pub report: SenderReport,
    /// The port's totals.
    pub stats: Stats,
    /// Packets that the port took and whose sending was not complete at the end.
    pub tx_pending: u64,
    /// What broke the port.
    pub error: Option<String>,
    /// Start of the schedule.
    pub start_ns: u64,
    /// How long the schedule was, as far as it went.
    pub scheduled_ns: u64,
    /// Packets of a replay that were longer than the port takes; they are unsent.
    pub too_long: u64,
    /// The port made the packets itself.
    pub offloaded: bool,
}

/// Time between the moment that all threads are ready and the start of the schedule.
const LEAD_NS: u64 = 1_000_000;
/// How often the main thread looks.
const LOOK_NS: u64 = 10_000_000;
/// Packets on their way are given up when nothing has arrived for this long.
const QUIET_NS: u64 = 300_000_000;

/// Runs all jobs to their end, while `neighbours` answer. The result is in the order of the jobs.
///
/// # Errors
/// A thread that did not come to its end.
pub fn run(
    jobs: Vec<Job>,
    neighbours: Vec<Neighbours>,
    beside: Option<Share>,
    pool: &Pool,
    quiet: bool,
) -> Result<(Vec<Sent>, Option<Received>), String> {
    let controls: Vec<Control> = jobs.iter().map(|_| Control::default()).collect();
    let changeable =
        |(number, job): (usize, &Job)| matches!(job.work, Work::Streams(_)).then_some((number, job.rate_pps));
    let rates: Vec<_> = jobs.iter().enumerate().filter_map(changeable).collect();
    let receive_control = Control::ignoring_signals();
    let (ready, start) = (Barrier::new(jobs.len() + 1), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let receiving = beside.map(|beside| {
            let (pool, control) = (pool.clone(), receive_control.clone());
            scope.spawn(move || beside.receive(&pool, &control))
        });
        let answering = Control::ignoring_signals();
        for mut neighbours in neighbours {
            let control = answering.clone();
            scope.spawn(move || {
                // The sender notices by itself that its interface is down.
                if let Err(error) = neighbours.serve(&control) {
                    note(&format!("no more answers to neighbours: {error}"));
                }
            });
        }
        let senders: Vec<_> = jobs
            .into_iter()
            .zip(&controls)
            .map(|(job, control)| {
                let (pool, ready, start) = (pool.clone(), &ready, &start);
                scope.spawn(move || send(job, &pool, control, ready, start))
            })
            .collect();
        ready.wait();
        let start_ns = clock::now_ns() + LEAD_NS;
        start.store(start_ns, Ordering::Release);
        ready.wait();
        let mut progress = Progress::new(quiet, start_ns);
        let read = || Snapshot {
            sent: Some(Snapshot::sum(controls.iter().map(|control| control.meter.read()))),
            received: receiving.as_ref().map(|_| receive_control.meter.read()),
            queues_divide: false,
        };
        let mut keys = if quiet { None } else { RateKeys::new(rates, start_ns) };
        wait_for_senders(&senders, &mut progress, read, |now_ns| {
            if let Some(keys) = &mut keys {
                keys.look(now_ns, &controls);
            }
        });
        drop(keys);
        let sent = senders.into_iter().map(|thread| thread.join().map_err(|_| "a sending thread failed".to_string()));
        let sent = sent.collect::<Result<Vec<Sent>, String>>();
        if let Some(receiving) = &receiving {
            let in_flight: u64 = sent.iter().flatten().map(|sent| sent.report.sent).sum();
            wait_for_packets(in_flight, &receive_control, receiving);
        }
        receive_control.stop();
        answering.stop();
        let received = receiving.map(|thread| thread.join().map_err(|_| "the receiving thread failed".to_string()));
        Ok((sent?, received.transpose()?))
    })
}

fn wait_for_senders(
    senders: &[ScopedJoinHandle<'_, Sent>],
    progress: &mut Progress,
    read: impl Fn() -> Snapshot,
    mut look: impl FnMut(u64),
) {
    while senders.iter().any(|thread| !thread.is_finished()) {
        let now_ns = clock::now_ns();
        progress.tick(now_ns, &read);
        look(now_ns);
        clock::sleep_until_ns(now_ns + LOOK_NS);
    }
}

/// Waits until as many packets have arrived as were sent, or nothing arrives any more.
fn wait_for_packets(expected: u64, control: &Control, receiving: &ScopedJoinHandle<'_, Received>) {
    let mut seen = control.meter.read().packets;
    let mut since_ns = clock::now_ns();
    while seen < expected && !receiving.is_finished() && clock::now_ns() - since_ns < QUIET_NS {
        clock::sleep_until_ns(clock::now_ns() + 1_000_000);
        let now = control.meter.read().packets;
        if now != seen {
            (seen, since_ns) = (now, clock::now_ns());
        }
    }
}

fn send(mut job: Job, pool: &Pool, control: &Control, ready: &Barrier, start: &AtomicU64) -> Sent {
    cores::pin(job.core);
    ready.wait();
    ready.wait();
    let start_ns = start.load(Ordering::Acquire).saturating_add(job.later_ns);
    let began_ns = clock::thread_cpu_ns();
    let port = &mut *job.port;
    let (schedule, mut too_long) = (job.work.schedule(), 0);
    let SendEnd { report, stats, tx_pending, error, .. } = match &mut job.work {
        Work::Streams(plan) => worker::send(port, plan, pool, start_ns, control),
        Work::Offloaded { schedule, packet_len } => {
            worker::send_generated(port, schedule, *packet_len, start_ns, control)
        }
        Work::Replay { plan, source } => {
            let end = worker::replay(&mut **source, port, *plan, pool, start_ns, control);
            too_long = end.too_long;
            end.sent
        }
    };
    let busy_ns = report.last_ns.map_or(0, |last_ns| last_ns.saturating_sub(start_ns));
    let changed = control.rate_was_changed();
    let stopped = control.stopping() || error.is_some();
    let by_count =
        schedule.packets.zip(job.rate_pps).map(|(packets, rate_pps)| (packets as f64 / rate_pps * 1e9) as u64);
    let scheduled_ns = match [schedule.duration_ns, by_count].into_iter().flatten().min() {
        // How long packets take whose rate has changed is known at the end.
        Some(whole_ns) if !stopped && (!changed || schedule.duration_ns == Some(whole_ns)) => whole_ns,
        _ => busy_ns,
    };
    Sent {
        position: job.position,
        cpu_ns: clock::thread_cpu_ns().saturating_sub(began_ns),
        caps: job.port.caps().clone(),
        core: job.core,
        // Of a rate that has changed, the mean.
        rate_pps: if changed { Some(report.intended as f64 * 1e9 / scheduled_ns.max(1) as f64) } else { job.rate_pps },
        offloaded: matches!(job.work, Work::Offloaded { .. }),
        ids: job.ids,
        report,
        stats,
        tx_pending,
        error: error.map(|error| error.to_string()),
        start_ns,
        scheduled_ns,
        too_long,
    }
}
