//! A load on its way: the threads of a trial, and what they bring home.

use std::io;
use std::thread::{Scope, ScopedJoinHandle};

use linerate_bpf::programs::core_watch::CoreWatch;
use linerate_gen::{BATCH_DEFAULT, SenderPlan};
use linerate_mem::Pool;
use linerate_port::{FarSide, Port, PortError, Stats};
use linerate_report::{Loss, Noise};
use linerate_sys::perf::Scope as Counted;
use linerate_sys::usage::ThreadUsage;
use linerate_sys::{affinity, clock};

use super::endpoint::{Arrivals, Endpoint};
use super::gateway;
use super::noise;
use super::outcome::{Readings, TrialError};
use super::rest::{Counters, at_rest, at_rest_since, switch_at_rest};
use super::sight::{Sight, cores_in_use};
use super::trial::{TrialSpec, WayLoad};
use super::work::{self, Counts};
use super::{Tester, ends::End};
use crate::Cores;
use linerate_ledger::turns::Arrived;
use linerate_testbed::cpu::CpuTimes;
use linerate_testbed::placement::Mode;
use linerate_testbed::switches::SwitchCounters;
use linerate_testbed::threads::{Priority, REAL_TIME_MAX_NS, pin_and_prioritize, raise_priority};
use linerate_tester_loop::device::{Installed, left_behind};
use linerate_tester_loop::lanes::{self, Kept, Lane};
use linerate_worker::{Control, SendEnd};

/// From the start of the threads to the first packet.
const LEAD_NS: u64 = 5_000_000;
/// How long before the first packet the processors' times are read.
const READ_NS: u64 = 500_000;

/// What came of a load.
pub(super) struct LoadRun {
    /// By direction.
    pub(super) sends: Vec<SendEnd>,
    /// By direction.
    pub(super) arrivals: Vec<Arrivals>,
    /// Of the sending ports, before the load.
    pub(super) stats_before: Vec<Stats>,
    pub(super) readings: Readings,
    /// What a switch that the tester shares memory with added to its account.
    pub(super) switch: Option<SwitchCounters>,
    /// Whether the path was at rest before and after.
    pub(super) quiet: bool,
    pub(super) start_ns: u64,
    /// What broke the device inside this process.
    pub(super) device: Option<PortError>,
    /// Of a link inside this process: where packets that did not arrive stayed, by direction.
    pub(super) left_behind: Vec<Vec<Loss>>,
    /// What was seen of the cores.
    pub(super) sight: Sight,
}

/// What a sending thread brings home.
pub(super) struct Sent {
    ends: Vec<SendEnd>,
    kept: Kept,
    /// Its core and its number, where it has a core of its own.
    thread: Option<(u32, u32)>,
    cpu: io::Result<CpuTimes>,
    noise: Noise,
    work: io::Result<Counts>,
}

impl Tester {
    /// Sends the loads, forward first, and counts what arrives.
    pub(super) fn run_load(&mut self, loads: &[WayLoad], spec: &TrialSpec<'_>) -> Result<LoadRun, TrialError> {
        self.follow_napi_threads();
        let priority = self.prioritize(loads, &spec.cores);
        let dut_threads = self.dut_threads(loads.len() > 1);
        let Tester { sources, switch, ends: [first, second], device, gateways, pool, watcher, .. } = self;
        let watch = watcher.start(&cores_in_use(&spec.cores, &dut_threads), &dut_threads);
        let (End { sender: forth, endpoint: back_end, .. }, End { sender: back, endpoint: forth_end, .. }) =
            (first, second);
        let pool: &Pool = pool;
        let mut ports = Vec::new();
        let mut endpoints = Vec::new();
        let ways = [(forth.as_mut(), forth_end.as_mut()), (back.as_mut(), back_end.as_mut())];
        for (_, (port, endpoint)) in loads.iter().zip(ways) {
            ports.push(port.ok_or(TrialError::OneWayOnly)?);
            endpoints.push(endpoint.ok_or(TrialError::OneWayOnly)?);
        }
        let stats_before = ports.iter_mut().map(|port| port.stats()).collect::<Result<Vec<_>, _>>()?;
        let mut before = at_rest(sources.as_mut(), &spec.phases)?;
        let mut switch_before = switch_at_rest(switch.as_ref(), &spec.phases)?;
        for (endpoint, load) in endpoints.iter_mut().zip(loads) {
            endpoint.begin(load.id, spec.timed)?;
        }
        let mut counters = Counters { sources: sources.as_mut(), switch: switch.as_ref() };
        let early = counters.read_again(&mut before, &mut switch_before)?;
        let dut_core = spec.cores.dut.filter(|core| Some(*core) != spec.cores.generator);
        let dut_work = dut_core.map(|core| work::Counting::start(Counted::Core(core)));
        let [control, device_control, quiet_control] = std::array::from_fn(|_| Control::ignoring_signals());
        let gateways: &[_] = gateways;
        let (sent, read, switch_after, arrivals, broken) = std::thread::scope(|scope| -> Result<_, TrialError> {
            let serving = device.as_mut().map(|device| scope.spawn(|| device.serve(spec.cores.dut, &device_control)));
            let counting = start_counting(scope, endpoints, (loads, spec), &control).inspect_err(|_| {
                control.stop();
                device_control.stop();
            })?;
            if !gateways.is_empty() {
                scope.spawn(|| gateway::keep_fresh(gateways, &quiet_control));
            }
            let start_ns = clock::now_ns() + LEAD_NS;
            let counts = counting.iter().map(|counting| counting.live()).collect();
            let groups = grouped(lanes(ports, loads, counts), &spec.cores);
            let sending: Vec<_> = groups
                .into_iter()
                .map(|(core, lanes)| scope.spawn(move || send_on((core, priority, watch), lanes, pool, start_ns)))
                .collect();
            let sent: Vec<Sent> = sending.into_iter().map(join).collect();
            // Questions of ours are movement too.
            quiet_control.stop();
            let mut by_way = sent.iter().flat_map(|sent| &sent.ends).map(|end| end.report.sent);
            let sent_by_way = std::array::from_fn(|_| by_way.next().unwrap_or(0));
            let since = (before.as_ref().map(|before| &before.snapshot), sent_by_way);
            let read = at_rest_since(counters.sources.as_deref_mut(), since, &spec.phases);
            let switch_after = switch_at_rest(switch.as_ref(), &spec.phases);
            device_control.stop();
            let broken = serving.and_then(|thread| join(thread).err());
            control.stop();
            let arrivals: Vec<Arrivals> = counting.into_iter().map(|counting| counting.finish()).collect();
            Ok((sent, read?, switch_after?, arrivals, broken))
        })?;
        let (mut after, mut switch_after, mut arrivals) = (read, switch_after, arrivals);
        let late = counters.read_again(&mut after, &mut switch_after)?;
        for (arrivals, moved) in arrivals.iter_mut().zip(early.into_iter().zip(late)) {
            arrivals.while_reading = moved.0 + moved.1;
        }
        let quiet = [&before, &after].into_iter().flatten().all(|reading| reading.is_quiet);
        let difference = after.zip(before).map(|(after, before)| after.snapshot.since(&before.snapshot));
        let switches = switch_after.zip(switch_before);
        let mut load_run = LoadRun {
            sends: Vec::new(),
            arrivals,
            stats_before,
            readings: Readings { difference, ..Readings::default() },
            quiet: quiet
                && early == [0; 2]
                && late == [0; 2]
                && switches.as_ref().is_none_or(|((_, after), (_, before))| *after && *before),
            switch: switches.map(|((after, _), (before, _))| after.since(&before)),
            start_ns: sent.iter().map(|sent| sent.kept.start_ns).min().unwrap_or(0),
            device: broken,
            left_behind: Vec::new(),
            sight: Sight::default(),
        };
        let dut =
            dut_threads.first().map(|(core, _)| *core).filter(|core| Some(*core as usize) != spec.cores.generator);
        let threads: Vec<_> = sent.iter().filter_map(|sent| sent.thread).chain(dut_threads).collect();
        load_run.sight =
            Sight { dut, start_ns: load_run.start_ns, watched: watcher.finish(&threads), logs: Vec::new() };
        load_run.collect(sent)?;
        self.note_left_behind(&mut load_run);
        if let (Some(core), Some(counting)) = (dut_core, dut_work) {
            load_run.note_work(&format!("DUT (all of core {core})"), counting.and_then(work::Counting::finish));
        }
        Ok(load_run)
    }
}

impl Tester {
    /// On a link inside this process.
    fn note_left_behind(&mut self, load_run: &mut LoadRun) {
        let Tester { ends: [first, second], device, .. } = self;
        let is_inside = |end: &End| end.sender.as_ref().is_some_and(|port| port.caps().far_side == FarSide::Process);
        if !is_inside(first) {
            return;
        }
        let passed = device.as_ref().map(Installed::passed);
        let ends = [second.endpoint.as_mut(), first.endpoint.as_mut()];
        for (way, (endpoint, (send, arrivals))) in
            ends.into_iter().zip(load_run.sends.iter().zip(&load_run.arrivals)).enumerate()
        {
            let received = endpoint.map_or(0, Endpoint::received_ever);
            let missing = send.report.sent.saturating_sub(arrivals.delivered);
            let device = passed.and_then(|passed| passed.get(way).copied());
            load_run.left_behind.push(left_behind(send.stats.tx_packets, device, received, missing));
        }
    }

    /// Puts the NAPI threads of the path ahead of others for this load, and says how far its sending threads go ahead: in the real-time
    /// class where the load is short and nothing of the trial but the sending thread needs the generator's core.
    fn prioritize(&self, loads: &[WayLoad], cores: &Cores) -> Priority {
        // How long a burst takes is not known before.
        let is_short = loads.iter().all(|load| (1..=REAL_TIME_MAX_NS).contains(&load.load.duration_ns()));
        let is_pinned = self.topology.as_ref().is_some_and(|topology| matches!(topology.mode(), Mode::Pinned { .. }));
        let is_counted_in_kernel = self.ends.iter().flat_map(|end| &end.endpoint).all(Endpoint::is_sink);
        let is_alone = cores.generator.is_some() && cores.generator != cores.dut;
        let priority = match is_short && is_pinned && is_counted_in_kernel && is_alone {
            true => Priority::RealTime,
            false => Priority::Nice,
        };
        self.napi_threads.iter().for_each(|thread| raise_priority(*thread, priority));
        priority
    }
}

impl LoadRun {
    fn collect(&mut self, sent: Vec<Sent>) -> Result<(), TrialError> {
        let several = sent.len() > 1;
        for (number, thread) in sent.into_iter().enumerate() {
            self.sends.extend(thread.ends);
            let noise = &mut self.readings.machine.noise;
            *noise = noise::worse(*noise, thread.noise);
            self.sight.logs.push((thread.thread.map(|(core, _)| core), thread.kept.log));
            let of = if several { format!("generator {}", number + 1) } else { "generator".to_owned() };
            self.note_work(&of, thread.work);
            if number == 0 {
                self.readings.cpu = thread.cpu?;
            }
        }
        Ok(())
    }

    /// Work of a part of the path, where the machine counts it.
    fn note_work(&mut self, of: &str, counts: io::Result<Counts>) {
        let delivered = self.arrivals.iter().map(|arrivals| arrivals.delivered).sum();
        self.readings.machine.work.extend(counts.map(|counts| counts.per_packet(of, delivered)));
    }
}

pub(super) fn start_counting<'scope, 'env>(
    scope: &'scope Scope<'scope, 'env>,
    endpoints: Vec<&'env mut Endpoint>,
    (loads, spec): (&[WayLoad], &TrialSpec<'_>),
    control: &'env Control,
) -> Result<Vec<super::endpoint::Counting<'scope>>, TrialError> {
    let start = |(endpoint, load): (&'env mut Endpoint, &WayLoad)| {
        endpoint.start(scope, (load.id, spec.timed), spec.cores.receiver, control)
    };
    endpoints.into_iter().zip(loads).map(start).collect()
}

pub(super) fn lanes<'a>(
    ports: Vec<&'a mut Box<dyn Port>>,
    loads: &[WayLoad],
    counts: Vec<Option<&'a dyn Arrived>>,
) -> Vec<Lane<'a>> {
    let lane = |((port, load), arrived): ((&'a mut Box<dyn Port>, &WayLoad), _)| {
        let (schedule, then) = load.load.schedules();
        let streams = load.streams.iter().map(|stream| (stream.clone(), 1)).collect();
        Lane {
            port: port.as_mut(),
            plan: SenderPlan { streams, schedule, batch: BATCH_DEFAULT, first_sequence: 0, in_turn: true },
            then,
            arrived,
        }
    };
    ports.into_iter().zip(loads).zip(counts).map(lane).collect()
}

/// Which thread serves which lanes: one for all, unless the way back has a core of its own.
pub(super) fn grouped<'a>(mut lanes: Vec<Lane<'a>>, cores: &Cores) -> Vec<(Option<usize>, Vec<Lane<'a>>)> {
    let own = cores.generator_back.filter(|core| Some(*core) != cores.generator && lanes.len() > 1);
    let back = own.map(|core| (Some(core), lanes.split_off(1)));
    [Some((cores.generator, lanes)), back].into_iter().flatten().collect()
}

/// A sending thread. It reads the processors' times itself: nobody else is sure to have a core at that moment.
pub(super) fn send_on(
    (core, priority, watch): (Option<usize>, Priority, Option<&CoreWatch>),
    lanes: Vec<Lane<'_>>,
    pool: &Pool,
    start_ns: u64,
) -> Sent {
    pin_and_prioritize(core, priority);
    let thread = core.and_then(|core| Some((u32::try_from(core).ok()?, u32::try_from(affinity::thread_id()).ok()?)));
    if let (Some(watch), Some((core, thread))) = (watch, thread) {
        watch.watch(core, thread);
    }
    clock::sleep_exactly();
    clock::sleep_until_ns(start_ns - READ_NS);
    let work = work::Counting::start(Counted::ThisThread);
    let usage_before = ThreadUsage::read();
    let cpu_before = CpuTimes::read();
    let (ends, kept) = lanes::send_lanes(lanes, pool, start_ns, &Control::default());
    let cpu = CpuTimes::read().and_then(|after| Ok(after.since(&cpu_before?)));
    let noise = noise::of_thread(usage_before, ThreadUsage::read());
    Sent { ends, kept, thread, cpu, noise, work: work.and_then(work::Counting::finish) }
}

pub(super) fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
