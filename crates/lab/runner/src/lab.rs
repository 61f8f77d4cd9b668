//! The lab's own testbeds: devices of [`linerate_testbed::dut`] on paths of [`linerate_testbed::topology`], measured by a [`Tester`].

use std::collections::BTreeMap;
use std::time::Duration;

use linerate_experiment::{
    Direction, DutSpec, Experiment, NextHop, PortEnd, TesterPorts, TimestampSource, TopologyKind,
};
use linerate_report::{
    Account, CacheLine, Dut, Environment, ExperimentTrial, Loss, Results, TestResult, Timestamps, Trial, units,
};
use linerate_sys::timestamping::TimestampedBy;
use linerate_sys::{affinity, signal};

use super::cores::{self, Chosen};
use super::lab_tcp::TcpRig;
use super::observed::{core_use, moved};
use super::plan::CellPlan;
use super::testbed::{Reset, Testbed, TestbedError, TestbedFactory, TrialRequest, TrialResult, rate_pps};
use linerate_testbed::dut::none::Direct;
use linerate_testbed::dut::{self, Device, ExpectedLoss, Shown};
use linerate_testbed::environment;
use linerate_testbed::placement::Mode;
use linerate_testbed::topology::{LinkKind, TopologySpec};
use linerate_tester::{
    Cores, Delays, DropReasonMode, Interruption, Load, Outcome, Phases, ProbeError, Probed, Prober, Recovery, Tester,
    TesterSpec, TrialError, TrialSpec, mean_size,
};

/// Makes testbeds for the cells of an experiment.
pub struct Lab<'a> {
    experiment: &'a Experiment,
    /// Whether programs may be loaded into the kernel.
    as_root: bool,
    /// Why no namespaces can be made, if so.
    no_namespaces: Option<String>,
    /// Of the first cell: what the cache line is measured between.
    first: Option<Cores>,
    cache_line_before_ns: Option<f64>,
    /// The testbed of the last cell, which may serve the next one, too.
    kept: Option<(CellPlan<'a>, LabRig<'a>)>,
}

impl<'a> Lab<'a> {
    /// For an experiment. `as_root`: whether this process may do what needs capabilities of the host; `no_namespaces`: why it cannot
    /// make network namespaces, if so.
    pub fn new(experiment: &'a Experiment, as_root: bool, no_namespaces: Option<String>) -> Self {
        let cells = experiment.cells();
        let first = cells.first().and_then(|cell| chosen(cell, &experiment.topology).ok());
        let first = first.map(|chosen| chosen.threads);
        Self { experiment, as_root, no_namespaces, first, cache_line_before_ns: None, kept: None }
    }

    fn open_with(&self, cell: &CellPlan<'_>, dut: &DutSpec, ends: &TopologyKind) -> Result<LabRig<'a>, TestbedError> {
        let over_memory = cell.dut.kind.shares_memory();
        if let (TopologyKind::Namespaces, Some(why), false) = (ends, &self.no_namespaces, over_memory) {
            return Err(TestbedError::Cannot(format!("no network namespace can be made: {why}")));
        }
        let chosen = chosen(cell, ends).map_err(TestbedError::Cannot)?;
        let path = self.path(cell, &chosen, ends);
        let built = dut::build(dut, &path).map_err(|error| TestbedError::Cannot(error.to_string()))?;
        let tester = Tester::around(built.path, &self.ports(cell));
        let mut tester = tester.map_err(|error| TestbedError::Cannot(error.to_string()))?;
        let cannot = |error: linerate_testbed::topology::TopologyError| TestbedError::Cannot(error.to_string());
        tester.place(chosen.placement).map_err(cannot)?;
        if chosen.of_dut.len() > 1 && built.device.is_steered() {
            tester.steer(&chosen.of_dut).map_err(cannot)?;
        }
        Ok(LabRig {
            unseen: unseen(built.device.has_processes(), &chosen, &tester),
            device: built.device,
            size: cell.frames(),
            flows: cell.flows.clone(),
            both_ways: cell.direction == Direction::BothWays,
            is_warm: false,
            places_device: tester.topology.is_some() || over_memory && !dut.kind.is_direct(),
            over_memory,
            tester,
            prober: None,
            chosen,
            experiment: self.experiment,
        })
    }

    fn path(&self, cell: &CellPlan<'_>, chosen: &Chosen, ends: &TopologyKind) -> TopologySpec {
        TopologySpec {
            ends: ends.clone(),
            link: if cell.dut.kind.shares_memory() { LinkKind::Memif } else { LinkKind::Veth },
            mtu: self.experiment.mtu,
            placement: chosen.placement,
            dut_cores: chosen.of_dut.clone(),
            ..TopologySpec::default()
        }
        .for_flows(self.experiment.flows_of_device(cell))
    }

    /// With the host's capabilities: AF_XDP sends more than a router carries, and a counting program needs no thread. Without:
    /// AF_PACKET, which any namespace of one's own allows.
    fn ports(&self, cell: &CellPlan<'_>) -> TesterSpec {
        let best = if self.as_root { ("xdp", "sink") } else { ("packet", "packet") };
        let spec = match cell.tester {
            Some(TesterPorts { sender, receiver, .. }) => TesterSpec::new(sender, receiver),
            None => TesterSpec::new(best.0, best.1),
        };
        let trial_ns = self.experiment.tests.iter().map(|test| test.trial_ns).max().unwrap_or(0);
        let packets = (trial_ns as f64 / 1e9 * RATE_MAX_PPS) as u64;
        let sequences = packets.next_power_of_two().clamp(1 << 25, 1 << 28);
        let spec = TesterSpec { sequences, drop_reasons: DropReasonMode::WhenNeeded, ..spec };
        if cell.direction == Direction::BothWays { spec.both_ways() } else { spec }
    }
}

/// Which parts of a device nobody watches while a trial runs (docs/ledger.md, "When a core was away").
fn unseen(has_processes: bool, chosen: &Chosen, tester: &Tester) -> Vec<String> {
    let is_floating = tester.topology.as_ref().is_some_and(|topology| matches!(topology.mode(), Mode::Floating { .. }));
    let sentences = [
        (has_processes, "how long the DUT's own processes waited for a core is not known"),
        (
            is_floating,
            "how long the DUT's NAPI threads waited for a core is not known: they are on no core of their own",
        ),
        (chosen.of_dut.len() > 1, "when the DUT's cores beside the first one were away is not known"),
    ];
    sentences.into_iter().filter(|(is, _)| *is).map(|(_, sentence)| sentence.to_owned()).collect()
}

/// What a tester on virtual links sends at most, to size what tells its packets apart.
const RATE_MAX_PPS: f64 = 3e6;

/// What runs on which core in a cell.
fn chosen(cell: &CellPlan<'_>, topology: &TopologyKind) -> Result<Chosen, String> {
    cores::choose(cell.cores, topology, &affinity::allowed_cores())
}

impl TestbedFactory for Lab<'_> {
    fn open<'b>(&'b mut self, cell: &CellPlan<'_>) -> Result<Box<dyn Testbed + 'b>, TestbedError> {
        if self.experiment.is_of_tcp() {
            let chosen = chosen(cell, &self.experiment.topology).map_err(TestbedError::Cannot)?;
            let path = self.path(cell, &chosen, &self.experiment.topology);
            let namespaces = (chosen, self.no_namespaces.as_deref());
            return Ok(Box::new(TcpRig::open(cell, self.experiment, path, namespaces)?));
        }
        let kept = self.kept.take().filter(|(before, _)| self.experiment.keeps_device(before, cell));
        let kept = kept.and_then(|(_, testbed)| testbed.go_on_with(cell));
        let testbed = match kept {
            Some(testbed) => testbed,
            None => self.open_with(cell, cell.dut, &self.experiment.topology)?,
        };
        if cell.dut.kind.flow_entries().is_none() {
            return Ok(Box::new(testbed));
        }
        // It stays for the next cell.
        let cells = self.experiment.cells();
        let Some(same) = cells.into_iter().find(|known| known.id == cell.id) else { return Ok(Box::new(testbed)) };
        Ok(Box::new(&mut self.kept.insert((same, testbed)).1))
    }

    fn open_baseline<'b>(&'b mut self, cell: &CellPlan<'_>) -> Option<Result<Box<dyn Testbed + 'b>, TestbedError>> {
        let has_none = self.experiment.is_of_tcp() || cell.dut.kind.is_direct();
        let ends = match (&self.experiment.topology, &self.experiment.baseline_ports) {
            (TopologyKind::Namespaces, _) => TopologyKind::Namespaces,
            (TopologyKind::Ports { .. }, Some(ports)) => {
                let [a, b] = ports.clone().map(|port| PortEnd { port, next_hop: NextHop::OtherEnd });
                TopologyKind::Ports { a, b }
            }
            _ => return None,
        };
        if has_none {
            return None;
        }
        if self.kept.as_ref().is_some_and(|(before, _)| !before.dut.kind.sleeps_at_rest()) {
            self.kept = None;
        }
        let none = DutSpec { name: "baseline".into(), kind: Direct.into() };
        Some(self.open_with(cell, &none, &ends).map(|testbed| Box::new(testbed) as Box<dyn Testbed + 'b>))
    }

    fn environment(&self) -> Environment {
        environment::read(None)
    }

    fn before(&mut self, _results: &mut Results) {
        self.cache_line_before_ns = self.first.and_then(cache_line_ns);
    }

    fn after(&mut self, results: &mut Results) {
        self.kept = None;
        let pair = self.first.and_then(|cores| cores.generator.zip(cores.dut)).filter(|(here, there)| here != there);
        results.environment.cache_line = pair.map(|(here, there)| CacheLine {
            cores: [here as u32, there as u32],
            before_ns: self.cache_line_before_ns,
            after_ns: self.first.and_then(cache_line_ns),
        });
    }

    fn stop_requested(&self) -> bool {
        signal::stop_requested()
    }
}

fn cache_line_ns(cores: Cores) -> Option<f64> {
    let (here, there) = cores.generator.zip(cores.dut).filter(|(here, there)| here != there)?;
    linerate_tester::cache_line::round_trip(here, there).ok().map(|trip| trip.median_ns)
}

/// A device on its path, with the tester around it.
struct LabRig<'a> {
    device: Box<dyn Device>,
    /// Whose waits for a core no trial knows, in sentences.
    unseen: Vec<String>,
    tester: Tester,
    /// What sends probes by whose timestamps, or why there is none, once that was asked for. It outlives a trial: cards that are told to
    /// timestamp may take their link down for it.
    prober: Option<(TimestampedBy, Result<Prober, String>)>,
    size: linerate_experiment::SizeSpec,
    flows: linerate_experiment::FlowSpec,
    both_ways: bool,
    /// Whether the device has seen these flows.
    is_warm: bool,
    /// Whether it works where the lab puts it.
    places_device: bool,
    /// Whether the tester shares memory with it.
    over_memory: bool,
    chosen: Chosen,
    /// The row that its losses are expected in.
    experiment: &'a Experiment,
}

impl Testbed for LabRig<'_> {
    fn describe(&self) -> Dut {
        self.device.describe()
    }

    fn mode(&self) -> String {
        let generator = self.chosen.threads.generator;
        if let Some(of_device) = self.device.mode() {
            let sends = generator.map_or("any core".to_owned(), |core| format!("core {core}"));
            return format!("{of_device}; the generator on {sends}");
        }
        let work = self.tester.topology.as_ref().map(|topology| topology.mode_text());
        let mut words = work.map_or(String::new(), |work| format!("{work}; "));
        if self.over_memory {
            words += "packets go through shared memory, with no kernel in between; ";
        }
        if self.chosen.of_dut.len() > 1 {
            words += "its flows and processes are spread over its cores; ";
        }
        words + &cores::in_words(&self.roles())
    }

    fn environment(&self) -> Option<Environment> {
        let mut environment = environment::read(self.tester.topology.as_ref());
        environment::add_interfaces(&mut environment, &self.tester.cards);
        if self.device.mode().is_some() {
            // The device says where it works, anew for each trial.
            environment.other.remove("first hop runs");
        }
        let (sends, counts) = self.tester.describe();
        environment.other.insert("tester sends by".into(), sends);
        environment.other.insert("tester counts by".into(), counts);
        Some(environment)
    }

    fn warm_up(&mut self) -> Result<(), TestbedError> {
        let warm_up_ns = match self.experiment.phases.warm_up_ns {
            0 if self.device.needs_warm_up() => WARM_UP_NS,
            other => other,
        };
        if warm_up_ns == 0 || self.is_warm {
            return Ok(());
        }
        let pps = WARM_UP_PPS.max(self.flows.count() as f64 * 2e9 / warm_up_ns as f64).min(WARM_UP_MAX_PPS);
        let load = Load::Rate { pps, duration_ns: warm_up_ns };
        self.run_load(load, false, None)?;
        self.is_warm = true;
        Ok(())
    }

    fn trial(&mut self, order: &TrialRequest) -> Result<TrialResult, TestbedError> {
        let cannot = |error: dut::DutError| TestbedError::Device(error.to_string());
        self.device.learn().map_err(cannot)?;
        let shown_before = self.device.show().map_err(cannot)?;
        let before = self.device.counters().map_err(cannot)?;
        let timed = order.latency || order.timeline;
        let (outcome, reset) = self.run_load(order.load, timed, order.reset_after_ns)?;
        let after = self.device.counters().map_err(cannot)?;
        let shown = shown(&shown_before, &self.device.show().map_err(cannot)?);
        let result = TrialResult { shown, ..self.measured(order, outcome, moved(&before, &after), reset) };
        if order.latency { self.probed(order, result) } else { Ok(result) }
    }

    fn ping(&mut self, duration_ns: u64, interval_ns: u64) -> Result<TestResult, TestbedError> {
        let Some(topology) = &self.tester.topology else {
            return Err(TestbedError::Cannot(
                "between these ends are no interfaces of the kernel, which `ping` needs".into(),
            ));
        };
        dut::ping(topology, duration_ns, interval_ns).map_err(|error| TestbedError::Cannot(error.to_string()))
    }
}

/// Without a duration of the experiment's own.
const WARM_UP_NS: u64 = 500_000_000;
/// Slow enough that nothing is lost on any machine; each flow is to be seen twice, though.
const WARM_UP_PPS: f64 = 10_000.0;
const WARM_UP_MAX_PPS: f64 = 200_000.0;

impl<'a> LabRig<'a> {
    /// For another cell of the same device; `None` if the device does not work any more.
    fn go_on_with(mut self, cell: &CellPlan<'_>) -> Option<LabRig<'a>> {
        self.device.check().ok()?;
        self.is_warm &= self.flows == *cell.flows;
        (self.size, self.flows) = (cell.frames(), cell.flows.clone());
        Some(self)
    }

    /// What runs on which cores: the device where the lab places it, the receiver where it has a thread.
    fn roles(&self) -> Vec<(&'static str, Vec<usize>)> {
        let Cores { generator, receiver, .. } = self.chosen.threads;
        let mut roles = vec![("generator", generator.into_iter().collect())];
        roles.extend(self.places_device.then_some(("DUT", self.chosen.cores_of_dut())));
        if self.tester.receives_by_thread() {
            roles.push(("receiver", receiver.into_iter().collect()));
        }
        roles
    }

    /// With latencies by probes, where these are asked for and can be had.
    fn probed(&mut self, order: &TrialRequest, result: TrialResult) -> Result<TrialResult, TestbedError> {
        let (by, needed) = match order.timestamps {
            TimestampSource::Software => (None, false),
            TimestampSource::Auto => (Some(TimestampedBy::Card), false),
            TimestampSource::Hardware => (Some(TimestampedBy::Card), true),
            TimestampSource::Kernel => (Some(TimestampedBy::Kernel), true),
        };
        let Some(by) = by else { return Ok(TrialResult { timestamps: Some(Timestamps::software(None)), ..result }) };
        if self.prober.as_ref().is_none_or(|(known, _)| *known != by) {
            // The one before has its cards told back first.
            self.prober = None;
            self.prober = Some((by, self.tester.prober(by)));
        }
        let spec = TrialSpec {
            backward: self.both_ways.then_some(order.load),
            cores: self.chosen.threads,
            phases: Phases { drain_ns: self.phases().drain_ns, ..Phases::default() },
            ..TrialSpec::new(&self.size, &self.flows, order.load)
        };
        let found = match &self.prober {
            Some((_, Ok(prober))) => prober.probe(&mut self.tester, &spec),
            Some((_, Err(why))) => Err(ProbeError::Timestamps(why.clone())),
            None => Err(ProbeError::Timestamps("no probes".into())),
        };
        match found {
            Ok(Probed { delays, timestamps }) => Ok(TrialResult {
                probed: delays.latency(),
                timestamps: Some(timestamps),
                histogram: delays.curve(),
                pdv_ns: delays.variation_ns(),
                ..result
            }),
            Err(ProbeError::Load(TrialError::Stopped)) => Err(TestbedError::Stopped),
            Err(error) if needed => Err(TestbedError::Cannot(format!("no timestamps of that kind: {error}"))),
            Err(error) => Ok(TrialResult { timestamps: Some(Timestamps::software(Some(error.to_string()))), ..result }),
        }
    }

    fn phases(&self) -> Phases {
        let phases = self.experiment.phases;
        Phases {
            wait_ns: phases.wait_ns,
            drain_ns: phases.drain_ns.max(Phases::default().drain_ns),
            rest_ns: phases.rest_ns,
            ..Phases::default()
        }
    }

    /// One load, with the device reset meanwhile where that is asked for.
    fn run_load(
        &mut self,
        load: Load,
        timed: bool,
        reset_after_ns: Option<u64>,
    ) -> Result<(Outcome, Option<String>), TestbedError> {
        let phases = self.phases();
        let spec = TrialSpec {
            backward: self.both_ways.then_some(load),
            timed,
            cores: self.chosen.threads,
            phases,
            ..TrialSpec::new(&self.size, &self.flows, load)
        };
        let (tester, device) = (&mut self.tester, &mut self.device);
        let wait_ns = phases.wait_ns;
        let (outcome, reset) = std::thread::scope(|scope| {
            let resetting = reset_after_ns.map(|after_ns| {
                scope.spawn(move || {
                    std::thread::sleep(Duration::from_nanos(wait_ns + after_ns));
                    device.reset()
                })
            });
            let outcome = tester.trial(&spec);
            let reset = resetting.map(|thread| match thread.join() {
                Ok(reset) => reset,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            (outcome, reset)
        });
        self.device.check().map_err(|error| TestbedError::Device(error.to_string()))?;
        let reset = reset.transpose().map_err(|error| TestbedError::Cannot(error.to_string()))?;
        let outcome = outcome.map_err(|error| match error {
            TrialError::Stopped => TestbedError::Stopped,
            error => TestbedError::Cannot(error.to_string()),
        })?;
        match &outcome.interrupted {
            None => Ok((outcome, reset)),
            Some(Interruption::Signal) => Err(TestbedError::Stopped),
            Some(Interruption::Device(error)) => Err(TestbedError::Device(error.to_string())),
            Some(other) => Err(TestbedError::Device(other.to_string())),
        }
    }

    fn measured(
        &self,
        order: &TrialRequest,
        mut outcome: Outcome,
        dut_counters: BTreeMap<String, u64>,
        reset: Option<String>,
    ) -> TrialResult {
        let recovery = outcome.ways.iter().filter_map(|way| way.recovery()).max_by_key(recovery_ns);
        let has_timeline = outcome.ways.iter().all(|way| way.arrivals.timeline.is_some());
        // Of both directions the longer; none if one did not come back.
        let outages: Option<Vec<u64>> = outcome.ways.iter().map(|way| way.outage_ns()).collect();
        let outage_ns = outages.and_then(|all| all.into_iter().max());
        let mut retry = std::mem::take(&mut outcome.retry);
        if reset.is_some() {
            // A device that is reset takes its links down.
            retry.link_flaps.clear();
        }
        let mut machine = std::mem::take(&mut outcome.readings.machine);
        machine.stalls.unknown.extend(self.unseen.iter().cloned());
        TrialResult {
            probed: None,
            timestamps: None,
            histogram: outcome.delays.as_ref().filter(|_| order.latency).map(Delays::curve).unwrap_or_default(),
            pdv_ns: outcome.delays.as_ref().filter(|_| order.latency).and_then(Delays::variation_ns),
            recovery,
            captured: self.device.captured(),
            shown: None,
            retry,
            reset: reset.filter(|_| has_timeline).map(|how| Reset { how, outage_ns }),
            trial: ExperimentTrial { machine, dut_counters, not_used: None, trial: self.trial_report(order, outcome) },
        }
    }

    fn trial_report(&self, order: &TrialRequest, outcome: Outcome) -> Trial {
        let account = outcome.ledger.account;
        let ways = if self.both_ways { 2.0 } else { 1.0 };
        let duration_ns = outcome.duration_ns;
        let mut notes = outcome.notes;
        notes.extend(self.device.loses().and_then(|expected| unexpected(expected, &account)));
        let as_sent_pps = account.intended() as f64 * 1e9 / duration_ns.max(1) as f64;
        Trial {
            name: order.name.clone(),
            purpose: order.purpose,
            path: account.places(),
            size_wire: mean_size(&self.size).round() as u32,
            flows: self.flows.count(),
            load_pps: rate_pps(&order.load).map_or(as_sent_pps, |pps| pps * ways),
            duration_ns,
            account,
            latency: outcome.delays.as_ref().filter(|_| order.latency).and_then(Delays::latency),
            cpu: core_use(&outcome.readings.cpu, &self.roles()),
            baseline_pps: None,
            notes,
        }
    }
}

/// What is to be said of losses that were expected in one row and are not: fewer than 99 % of them.
fn unexpected(expected: &ExpectedLoss, account: &Account) -> Option<String> {
    let lost = account.sent().saturating_sub(account.delivered());
    let is_row = |loss: &&Loss| loss.place.starts_with(&expected.place) && loss.cause.starts_with(&expected.cause);
    let there: u64 = account.lost().iter().filter(is_row).map(|loss| loss.packets).sum();
    (lost == 0 || there < lost - lost / 100).then(|| {
        let (there, lost) = (units::count(there), units::count(lost));
        format!("the file expects all losses at {} ({}): {there} of {lost} are", expected.place, expected.cause)
    })
}

fn recovery_ns(recovery: &Recovery) -> u64 {
    match recovery {
        Recovery::AtOnce => 0,
        Recovery::After { recovery_ns } => *recovery_ns,
        Recovery::NotYet => u64::MAX,
    }
}

/// One text of what a device showed before and after; `None`: it shows nothing.
fn shown(before: &[Shown], after: &[Shown]) -> Option<String> {
    let mut text = String::new();
    for (when, shown) in [("before", before), ("after", after)] {
        for Shown { command, text: printed } in shown {
            text += &format!("### {when} the trial: {command}\n{}\n\n", printed.trim_end());
        }
    }
    (!text.is_empty()).then_some(text)
}
