//! One trial: a load in one direction or both for some time, and the account of it.
//!
//! Phases after RFC 2544 section 23: the device learns, the counters are read at rest, counting begins, the load runs, the path comes
//! to rest again (a packet in a ring is in no counter), counting ends, the counters are read again, the device rests.

use linerate_experiment::{FlowOrder, FlowSpec, SizeSpec};
use linerate_gen::StreamPlan;
use linerate_port::{PortError, Stats};
use linerate_report::{Counted, Loss, units};
use linerate_sys::signal;

use super::Tester;
use super::endpoint::Arrivals;
use super::load::Load;
use super::load_run::LoadRun;
use super::noise;
use super::outcome::{Interruption, Outcome, Retry, TrialError, WayOutcome};
use super::traffic::{self, Direction};
use crate::phases::pause_ns;
use crate::{Cores, Learning, Phases};
use linerate_ledger::attribution::PortRows;
use linerate_ledger::counters::Difference;
use linerate_ledger::drops::hints;
use linerate_ledger::ledger::remarks::{is_unsure, link_flaps, remarks};
use linerate_ledger::ledger::{self, Ends, Ledger};
use linerate_testbed::switches::SwitchCounters;
use linerate_tester_loop::ports::drops_since;
use linerate_worker::SendEnd;

/// A trial to be made.
#[derive(Debug, Clone, Copy)]
pub struct TrialSpec<'a> {
    /// Frame sizes, on the wire.
    pub size: &'a SizeSpec,
    /// Flows of the way forward; those of the way back are their mirror.
    pub flows: &'a FlowSpec,
    /// Load from the first end to the second.
    pub forward: Load,
    /// Load from the second end to the first, at the same time.
    pub backward: Option<Load>,
    /// Whether delays and a timeline are wanted. A counting program then reads the clock for each packet, which costs the core that
    /// it runs on some tens of nanoseconds. (A receiving port measures delays in any case.)
    pub timed: bool,
    /// Where the threads run.
    pub cores: Cores,
    /// What surrounds the load.
    pub phases: Phases,
}

impl<'a> TrialSpec<'a> {
    /// One way, not timed, threads where the scheduler puts them, the shortest phases.
    pub fn new(size: &'a SizeSpec, flows: &'a FlowSpec, forward: Load) -> TrialSpec<'a> {
        let (cores, phases) = (Cores::default(), Phases::default());
        TrialSpec { size, flows, forward, backward: None, timed: false, cores, phases }
    }
}

/// A trial of whose packets this share is unexplained, or lost for a cause that is an inference, does not say where its packets went.
const UNEXPLAINED_MAX_SHARE: f64 = 0.001;

/// Up to so many packets a second, the kernel is asked for its drop reasons from the first trial on: that costs some 80 ns for each
/// (docs/ledger.md), so less than half a percent of a core.
const ASKED_MAX_PPS: f64 = 50_000.0;

/// The packets of one direction and when they go.
pub(super) struct WayLoad {
    pub(super) way: Direction,
    pub(super) load: Load,
    pub(super) streams: Vec<StreamPlan>,
    /// Their id in the signature.
    pub(super) id: u16,
}

impl Tester {
    /// Runs one trial. A trial that was interrupted has its account too, right up to then, and says so.
    ///
    /// # Errors
    /// When no honest account can be given.
    pub fn trial(&mut self, spec: &TrialSpec<'_>) -> Result<Outcome, TrialError> {
        self.resolve().map_err(TrialError::NextHop)?;
        self.await_peers();
        self.learn(spec)?;
        pause_ns(spec.phases.wait_ns);
        let cache_line_ns = noise::cache_line_ns(spec.cores.generator, spec.cores.dut);
        let pace_ns = noise::pace_ns(&mut self.calm, spec.cores.generator, spec.cores.dut);
        if signal::stop_requested() {
            return Err(TrialError::Stopped);
        }
        let loads = self.loads(spec)?;
        if let (Some(sources), Some(topology)) = (&mut self.sources, &self.topology) {
            let pps: Option<f64> = loads.iter().map(|load| load.load.highest_pps()).sum();
            sources.ask_where_cheap(topology, pps.is_some_and(|pps| pps <= ASKED_MAX_PPS));
        }
        let mut load_run = self.run_load(&loads, spec)?;
        let noise = &mut load_run.readings.machine.noise;
        noise.cache_line_ns = cache_line_ns;
        [noise.generator_pace_ns, noise.dut_pace_ns] = pace_ns;
        let sight = std::mem::take(&mut load_run.sight);
        let mut outcome = outcome(load_run, loads)?;
        self.note_stalls(&mut outcome, sight)?;
        if let (Some(sources), Some(topology)) = (&mut self.sources, &self.topology)
            && is_unsure(&outcome.ledger)
            && sources.read_drop_reasons(topology)
        {
            outcome.retry.reasons = again(&outcome.ledger);
        }
        pause_ns(spec.phases.rest_ns);
        Ok(outcome)
    }

    /// Lets the device see each flow before it is measured.
    fn learn(&mut self, spec: &TrialSpec<'_>) -> Result<(), TrialError> {
        let Learning::EachFlow { packets, pps } = spec.phases.learning else { return Ok(()) };
        let flows = FlowSpec { order: FlowOrder::Odometer, ..spec.flows.clone() };
        let packets = flows.count().saturating_mul(packets);
        let load = Load::Rate { pps, duration_ns: (packets as f64 / pps * 1e9) as u64 };
        let backward = spec.backward.map(|_| load);
        let spec = TrialSpec { flows: &flows, forward: load, backward, timed: false, ..*spec };
        let loads = self.loads(&spec)?;
        self.run_load(&loads, &spec).map(|_| ())
    }

    pub(super) fn loads(&mut self, spec: &TrialSpec<'_>) -> Result<Vec<WayLoad>, TrialError> {
        let wanted = [Some((Direction::Forward, spec.forward)), spec.backward.map(|load| (Direction::Backward, load))];
        let load = |(way, load): (Direction, Load)| {
            let id = self.next_stream();
            let link = self.link(way);
            let streams = traffic::plan(spec.size, spec.flows, way, link, id)?;
            Ok(WayLoad { way, load, streams, id })
        };
        wanted.into_iter().flatten().map(load).collect()
    }

    /// Stream id of the packets of a direction of the next load. It comes again after 65,535 others, when packets of that stream are
    /// long gone, so one that comes late is known as another load's.
    fn next_stream(&mut self) -> u16 {
        self.stream = self.stream.wrapping_add(1);
        self.stream
    }
}

fn outcome(load_run: LoadRun, loads: Vec<WayLoad>) -> Result<Outcome, TrialError> {
    let LoadRun { sends, arrivals, stats_before, mut readings, switch, quiet, start_ns, device, left_behind, sight: _ } =
        load_run;
    let mut interrupted = device.map(Interruption::Device);
    let mut ways = Vec::new();
    let mut rows = Vec::new();
    let mut tx_pending = 0;
    let mut left_behind = left_behind.into_iter();
    for (((load, mut end), mut arrivals), before) in loads.into_iter().zip(sends).zip(arrivals).zip(stats_before) {
        let whole = end.error.is_none() && !signal::stop_requested();
        interrupted = interruption(end.error.take(), arrivals.error.take()).or(interrupted);
        tx_pending += end.tx_pending;
        let mut of_ports = port_rows(&end, &arrivals, &before);
        of_ports.receiver.extend(left_behind.next().unwrap_or_default());
        rows.push(of_ports);
        ways.push(way_outcome(load, end, arrivals, (start_ns, whole)));
    }
    if signal::stop_requested() {
        interrupted = Some(Interruption::Signal);
    }
    let difference = readings.difference.as_ref();
    let ledger = close(&ways, &rows, difference, switch.as_ref())?;
    let mut notes = notes(&ledger, &ways, quiet, tx_pending);
    notes.extend(difference.into_iter().flat_map(|difference| remarks(difference, &ledger)));
    let link_flaps = difference.map(link_flaps).unwrap_or_default();
    notes.extend(link_flaps.iter().cloned());
    notes.extend(interrupted.as_ref().map(|why| format!("ended early: {why}")));
    readings.machine.noise.steal_share = readings.cpu.steal_share();
    Ok(Outcome {
        duration_ns: ways.iter().map(|way| way.duration_ns).max().unwrap_or(0),
        delays: merged_delays(&ways),
        ledger,
        ways,
        readings,
        interrupted,
        retry: Retry { link_flaps, reasons: None },
        notes,
    })
}

/// Why a trial whose losses had no drop reasons to go by should be made again with them, if so.
fn again(ledger: &Ledger) -> Option<String> {
    let unnamed: u64 = ledger.unnamed.iter().map(|loss| loss.packets).sum();
    let inferred: u64 = ledger.account.lost().iter().filter(|loss| loss.is_inferred()).map(|loss| loss.packets).sum();
    let packets = ledger.account.unexplained().unsigned_abs().max(unnamed) + inferred;
    let sent = ledger.account.sent();
    (packets > 0 && packets as f64 >= UNEXPLAINED_MAX_SHARE * sent as f64).then(|| {
        format!(
            "made again with the kernel's drop reasons: before, the cause of {} of {} sent packets was inferred or not known",
            units::count(packets),
            units::count(sent)
        )
    })
}

fn interruption(sending: Option<PortError>, receiving: Option<PortError>) -> Option<Interruption> {
    sending.map(Interruption::Sender).or(receiving.map(Interruption::Receiver))
}

fn port_rows(end: &SendEnd, arrivals: &Arrivals, before: &Stats) -> PortRows {
    let losses = |drops: &[linerate_port::Drops]| {
        drops.iter().map(|drops| Loss::new(drops.place.clone(), drops.cause.clone(), drops.packets)).collect()
    };
    PortRows {
        generator: losses(&drops_since(&end.stats.tx_drops, &before.tx_drops)),
        receiver: losses(&arrivals.drops),
        other_streams: arrivals.other_streams,
        not_ip: arrivals.not_ip,
        while_reading: arrivals.while_reading,
    }
}

fn way_outcome(load: WayLoad, end: SendEnd, arrivals: Arrivals, (start_ns, whole): (u64, bool)) -> WayOutcome {
    let mut sending = end.report;
    if let Load::Burst { packets } = load.load {
        // A burst that the port did not take in time was asked for all the same.
        sending.intended = sending.intended.max(packets);
    }
    let counted = Counted {
        intended: sending.intended,
        sent: sending.sent,
        delivered: arrivals.delivered,
        duplicated: arrivals.duplicated,
        reordered: arrivals.reordered,
    };
    let sent_ns = sending.last_ns.zip(sending.first_ns).map_or(0, |(last, first)| last - first);
    // A paced load that ran to its end lasts as long as its schedule, even if its last packet is due before.
    let duration_ns = if whole && load.load.is_paced() { sent_ns.max(load.load.duration_ns()) } else { sent_ns };
    let step_ns = load.load.step_ns().map(|step_ns| start_ns + step_ns);
    let was_full = end.was_full;
    WayOutcome { way: load.way, counted, sending, was_full, arrivals, duration_ns, step_ns }
}

fn close(
    ways: &[WayOutcome],
    rows: &[PortRows],
    difference: Option<&Difference>,
    switch: Option<&SwitchCounters>,
) -> Result<Ledger, TrialError> {
    let ends: Vec<Ends> =
        ways.iter().map(|way| Ends { counted: way.counted, received: way.arrivals.received }).collect();
    let mut both = ends.iter().zip(rows);
    let forward = both.next().ok_or(TrialError::OneWayOnly)?;
    let mut ledger = match switch {
        Some(switch) => ledger::close_over_memory(forward, both.next(), switch)?,
        None => ledger::close_ways(forward, both.next(), difference)?,
    };
    let mut behind = ways.iter().map(|way| unsent(way, switch.is_some())).collect::<Vec<_>>();
    hints::add(&mut behind);
    ledger.account = ledger.account.with_unsent_by(behind)?;
    Ok(ledger)
}

/// Why packets of a direction were not offered.
fn unsent(way: &WayOutcome, over_memory: bool) -> Loss {
    let (place, cause) = match over_memory && way.was_full {
        true => ("memif ring to the switch", "due, but the ring to the device was full"),
        false => ("pacer", "due, but the sending thread or its port did not keep up"),
    };
    Loss::new(place, cause, way.counted.intended - way.counted.sent)
}

fn merged_delays(ways: &[WayOutcome]) -> Option<super::Delays> {
    let mut all = ways.iter().filter_map(|way| way.arrivals.delays.as_ref());
    let mut merged = all.next()?.clone();
    all.for_each(|delays| merged.merge(delays));
    Some(merged)
}

fn notes(ledger: &Ledger, ways: &[WayOutcome], quiet: bool, tx_pending: u64) -> Vec<String> {
    let mut notes = Vec::new();
    if !quiet {
        notes.push("the path did not come to rest: packets were still under way, or others than the trial's moved its counters".into());
    }
    if tx_pending > 0 {
        notes.push(format!("{tx_pending} packets were still in the sending port a second after the last one"));
    }
    let beyond: u64 = ways.iter().map(|way| way.arrivals.beyond).sum();
    if beyond > 0 {
        notes.push(format!(
            "duplicates are not known among the last {beyond} packets: more than the tester was opened for"
        ));
    }
    notes.extend(ledger.unnamed_notes());
    notes
}
