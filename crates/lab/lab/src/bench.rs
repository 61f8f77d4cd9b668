//! `linerate bench`: the Linux kernel as a router, measured from end to end.
//!
//! Baseline (the same path without the DUT), one overload trial and one throughput search (RFC 2544 section 26.1) for each
//! number of flows. The overload trial comes first: what it delivers is where the search begins.

use std::fmt;

use linerate_experiment::{FlowOrder, FlowSpec};
use linerate_report::{
    Baseline, Bounds, CacheLine, CoreUse, Document, Dut, Goal, LimitedBy, Purpose, Throughput, Timestamp, Tool, Trial,
};
use linerate_search::{Limit, Load, Outcome as Found, Search};
use linerate_sys::affinity;

use crate::cache_line;
use crate::environment;
use crate::placement::Placement;
use crate::tester::{
    AskReasons, Cores, Delays, Interruption, Load as Offered, Outcome, Tester, TesterError, TesterSpec, TrialError,
    TrialSpec, fixed_size,
};
use crate::topology::{Topology, TopologyError, TopologySpec};

/// What to measure.
#[derive(Debug, Clone)]
pub struct BenchSpec {
    /// Frame length on the wire, with FCS, in bytes.
    pub size_wire: u32,
    /// Sources x destinations of each search, 1 x 1 to 100 x 100.
    pub flows: Vec<(u64, u64)>,
    /// Length of a trial.
    pub trial_ns: u64,
    /// Ends a search: width of the bounds as a share of the upper one.
    pub resolution: f64,
    /// How often a failing trial is repeated before it counts.
    pub confirmations: u32,
    /// Ends a search that does not converge.
    pub trials_max: u32,
    /// Throughput that is to be reached in every search, in packets per second.
    pub goal_pps: Option<f64>,
    /// Ports of the tester; `None` = the best that work.
    pub ports: Option<TesterSpec>,
    /// Where to run: namespaces, or the in-process link (with the reason why no namespace can be had).
    pub place: Place,
}

/// Where a bench runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// In namespaces of its own making; `as_root` tells whether programs may be loaded.
    Namespaces {
        /// Whether this process may do what needs capabilities of the host.
        as_root: bool,
    },
    /// In this process.
    InProcess {
        /// Why not in namespaces.
        why: String,
    },
}

impl BenchSpec {
    /// The defaults of `linerate bench`: 64-byte frames, 1 and 10,000 flows, trials of 1 s, resolution 1 %.
    pub fn new(place: Place) -> BenchSpec {
        BenchSpec {
            size_wire: 64,
            flows: vec![(1, 1), (100, 100)],
            trial_ns: 1_000_000_000,
            resolution: 0.01,
            confirmations: 1,
            trials_max: 16,
            goal_pps: None,
            ports: None,
            place,
        }
    }
}

/// What happens, for whoever watches.
#[derive(Debug)]
pub enum Event<'a> {
    /// A new part of the work begins.
    Phase(String),
    /// A trial begins.
    Begin {
        /// Its name.
        name: &'a str,
        /// Bounds of the search so far, in words.
        bounds: Option<String>,
    },
    /// A trial ended.
    End(&'a Trial),
}

/// Why nothing could be measured.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// No path.
    #[error("{0}")]
    Topology(#[from] TopologyError),
    /// No tester.
    #[error("{0}")]
    Tester(#[from] TesterError),
    /// A trial gave no result.
    #[error("{name}: {source}")]
    Trial {
        /// The trial's name.
        name: String,
        /// Why.
        source: TrialError,
    },
    /// No packets as asked for.
    #[error("{0}")]
    Packets(#[from] linerate_gen::PlanError),
    /// No search as asked for.
    #[error("{0}")]
    Search(String),
}

/// Runs the bench. What was measured before an error is in `document`, whose trials are complete one by one.
///
/// # Errors
/// When something could not be measured.
pub fn run(spec: &BenchSpec, document: &mut Document, watch: &mut dyn FnMut(Event<'_>)) -> Result<(), BenchError> {
    let mut bench = Bench {
        spec,
        document,
        watch,
        cores: cores(&spec.place),
        path: TopologySpec::default(),
        baselines: Vec::new(),
    };
    bench.path.placement = match bench.cores.dut {
        Some(core) if bench.cores.generator != Some(core) => Placement::Thread { core: Some(core) },
        _ => Placement::SenderContext,
    };
    let before_ns = bench.cache_line_ns();
    let measured = match &spec.place {
        Place::Namespaces { as_root } => bench.router(*as_root),
        Place::InProcess { why } => bench.link(why),
    };
    bench.note_cache_line(before_ns);
    measured
}

/// An empty document of a bench.
pub fn document(version: &str, started: Timestamp) -> Document {
    Document::new("bench", Tool::new("linerate", version), started)
}

/// Generator and DUT on cores of their own where there are two; the receiving thread on a third one, else beside the
/// generator: it sleeps most of the time.
fn cores(place: &Place) -> Cores {
    let allowed = affinity::allowed_cores();
    let first_free = if matches!(place, Place::InProcess { .. }) { 1 } else { 2 };
    Cores {
        generator: allowed.first().copied(),
        generator_back: None,
        dut: allowed.get(1).or(allowed.first()).copied(),
        receiver: allowed.get(first_free).or(allowed.first()).copied(),
    }
}

struct Bench<'a> {
    spec: &'a BenchSpec,
    document: &'a mut Document,
    watch: &'a mut dyn FnMut(Event<'_>),
    cores: Cores,
    path: TopologySpec,
    /// Delivered rate without the DUT, by number of flows.
    baselines: Vec<(u64, f64)>,
}

impl Bench<'_> {
    fn router(&mut self, as_root: bool) -> Result<(), BenchError> {
        (self.watch)(Event::Phase("baseline: the same path without the router".into()));
        let topology = Topology::direct(&self.path)?;
        let mut tester = self.tester(topology, as_root)?;
        for flows in self.spec.flows.clone() {
            let trial = self.full_load(&mut tester, Purpose::Baseline, flows)?;
            let pps = trial.rates().map_or(f64::NAN, |rates| rates.delivered_pps);
            self.baselines.push((trial.flows, pps));
            if self.document.baseline.is_none() {
                let (size_wire, flows) = (trial.size_wire, trial.flows);
                self.document.baseline = Some(Baseline { pps, size_wire, flows, trial: trial.name.clone() });
            }
            self.document.trials.push(trial);
        }
        drop(tester);
        (self.watch)(Event::Phase("the Linux kernel as a router".into()));
        let topology = Topology::router(&self.path)?;
        let mut tester = self.tester(topology, as_root)?;
        if let Some(topology) = &tester.topology {
            self.document.mode = format!("the router's work runs {}", topology.mode());
        }
        self.document.dut = Some(linux_router());
        for flows in self.spec.flows.clone() {
            self.measure(&mut tester, flows)?;
        }
        self.note_tester(&tester);
        Ok(())
    }

    /// The in-process link, where no namespace can be made: it holds its sender back and loses nothing, so one trial at full
    /// load is all there is to find.
    fn link(&mut self, why: &str) -> Result<(), BenchError> {
        (self.watch)(Event::Phase(format!("in-process link, since no network namespace can be made: {why}")));
        self.document.mode = format!("in-process link between two threads, no router: {why}");
        self.document.warnings.push(format!("the kernel router was not measured: {why}"));
        let mut tester = Tester::in_process()?;
        for flows in self.spec.flows.clone() {
            let trial = self.full_load(&mut tester, Purpose::Overload, flows)?;
            let pps = trial.rates().map_or(0.0, |rates| rates.delivered_pps) as u64;
            let (size_wire, flows, name) = (trial.size_wire, trial.flows, trial.name.clone());
            let bounds = Bounds { lower_pps: (trial.account.lost_total() == 0).then_some(pps), upper_pps: None };
            self.document.trials.push(trial);
            self.document.throughput.push(Throughput {
                size_wire,
                flows,
                bounds,
                loss_ratio: 0.0,
                resolution: self.spec.resolution,
                duration_ns: self.spec.trial_ns,
                confirmations: 0,
                overturned: 0,
                irregular: false,
                limited_by: LimitedBy::Tester,
                baseline_pps: None,
                trials: vec![name],
            });
            self.judge(flows, bounds.lower_pps);
        }
        self.note_tester(&tester);
        Ok(())
    }

    /// Ports on a path; the NAPI threads are placed anew, because opening ports can replace them.
    fn tester(&self, topology: Topology, as_root: bool) -> Result<Tester, BenchError> {
        let ports = self.spec.ports.clone().unwrap_or_else(|| best_ports(as_root));
        let ports = TesterSpec { drop_reasons: AskReasons::WhenNeeded, ..ports };
        let mut tester = Tester::open(topology, &ports)?;
        tester.place(self.path.placement)?;
        Ok(tester)
    }

    fn measure(&mut self, tester: &mut Tester, flows: (u64, u64)) -> Result<(), BenchError> {
        let overload = self.full_load(tester, Purpose::Overload, flows)?;
        let rates = overload.rates();
        let sent_pps = rates.map_or(0.0, |rates| rates.sent_pps).max(LOAD_MIN_PPS as f64) as u64;
        let found = self.search(tester, flows, &overload, Load::from_pps(sent_pps))?;
        self.document.trials.push(overload);
        let names = found.1;
        let throughput = self.throughput(flows, &found.0, names);
        let pps = throughput.pps();
        self.document.throughput.push(throughput);
        self.judge(flows.0 * flows.1, pps);
        Ok(())
    }

    fn search(
        &mut self,
        tester: &mut Tester,
        flows: (u64, u64),
        overload: &Trial,
        maximum: Load,
    ) -> Result<(Found, Vec<String>), BenchError> {
        let mut goal = linerate_search::Goal::new(Load::from_pps(maximum.pps().min(LOAD_MIN_PPS)), maximum);
        goal.duration_ns = self.spec.trial_ns;
        goal.resolution = self.spec.resolution;
        goal.confirmations = self.spec.confirmations;
        goal.trials_max = self.spec.trials_max;
        let failed = |error: &dyn fmt::Display| BenchError::Search(error.to_string());
        let mut search = Search::new(goal).map_err(|error| failed(&error))?;
        let first = search_trial(overload, maximum);
        search.record(first).map_err(|error| failed(&error))?;
        let mut names = vec![overload.name.clone()];
        while let Some(load) = search.next() {
            let name = format!("search, {}, trial {}", flows_name(flows), names.len());
            let bounds = Some(search.bounds().to_string());
            (self.watch)(Event::Begin { name: &name, bounds });
            let trial = self.trial(tester, name.clone(), Purpose::Search, flows, Some(load.pps() as f64))?;
            (self.watch)(Event::End(&trial));
            search.record(search_trial(&trial, load)).map_err(|error| failed(&error))?;
            self.document.trials.push(trial);
            names.push(name);
        }
        Ok((search.outcome(), names))
    }

    fn full_load(&mut self, tester: &mut Tester, purpose: Purpose, flows: (u64, u64)) -> Result<Trial, BenchError> {
        let what = if purpose == Purpose::Baseline { "baseline" } else { "overload" };
        let name = format!("{what}, {}", flows_name(flows));
        (self.watch)(Event::Begin { name: &name, bounds: None });
        let mut trial = self.trial(tester, name.clone(), purpose, flows, None)?;
        for _ in 0..STARVED_RETRIES {
            // The sending thread lost its core early in the trial: what it sent says nothing of a full rate.
            if trial.duration_ns >= self.spec.trial_ns / 2 {
                break;
            }
            (self.watch)(Event::Begin { name: &name, bounds: None });
            trial = self.trial(tester, name.clone(), purpose, flows, None)?;
            trial.notes.push("repeated: the sending thread had been kept from its core for most of the trial".into());
        }
        (self.watch)(Event::End(&trial));
        Ok(trial)
    }

    fn trial(
        &mut self,
        tester: &mut Tester,
        name: String,
        purpose: Purpose,
        flows: (u64, u64),
        rate_pps: Option<f64>,
    ) -> Result<Trial, BenchError> {
        let size = fixed_size(self.spec.size_wire);
        let pattern = FlowSpec {
            source: self.path.sources.0,
            sources: flows.0,
            destination: self.path.destinations.0,
            destinations: flows.1,
            ports: 1,
            order: FlowOrder::Odometer,
        };
        let load = Offered::new(rate_pps, self.spec.trial_ns);
        let spec = TrialSpec { cores: self.cores, ..TrialSpec::new(&size, &pattern, load) };
        let failed = |source| BenchError::Trial { name: name.clone(), source };
        let mut outcome = tester.trial(&spec).map_err(failed)?;
        if let Some(why) = outcome.again.take() {
            outcome = tester.trial(&spec).map_err(failed)?;
            outcome.notes.push(why);
        }
        match outcome.interrupted {
            None => {}
            Some(Interruption::Signal) => return Err(failed(TrialError::Stopped)),
            Some(Interruption::Sender(error) | Interruption::Receiver(error) | Interruption::Device(error)) => {
                return Err(failed(error.into()));
            }
        }
        Ok(self.report(name, purpose, flows, rate_pps, outcome))
    }

    fn report(
        &self,
        name: String,
        purpose: Purpose,
        flows: (u64, u64),
        rate_pps: Option<f64>,
        outcome: Outcome,
    ) -> Trial {
        let flows = flows.0 * flows.1;
        let account = outcome.ledger.account;
        let duration_ns = outcome.duration_ns;
        let path = account.lost().iter().map(|loss| loss.place.clone()).fold(Vec::new(), with_once);
        let mut notes = outcome.notes;
        let steal = outcome.cpu.steal_share();
        if steal > STEAL_NOTED {
            notes.push(format!("the hypervisor took {:.0} % of the processors' time", steal * 100.0));
        }
        Trial {
            name,
            purpose,
            path,
            size_wire: self.spec.size_wire,
            flows,
            load_pps: rate_pps.unwrap_or(account.intended() as f64 * 1e9 / duration_ns.max(1) as f64),
            duration_ns,
            account,
            latency: outcome.delays.as_ref().and_then(Delays::latency),
            cpu: self.core_use(&outcome.cpu),
            baseline_pps: self.baseline(flows),
            notes,
        }
    }

    fn core_use(&self, cpu: &crate::cpu::CpuTimes) -> Vec<CoreUse> {
        let Cores { generator, dut, receiver, .. } = self.cores;
        let in_process = matches!(self.spec.place, Place::InProcess { .. });
        let roles = [(generator, "generator"), (dut.filter(|_| !in_process), "DUT"), (receiver, "receiver")];
        cpu.shares(|core| {
            let here = roles.iter().filter(|(at, _)| *at == Some(core as usize)).map(|(_, role)| *role);
            let words: Vec<&str> = here.collect();
            (!words.is_empty()).then(|| words.join(" + "))
        })
    }

    fn baseline(&self, flows: u64) -> Option<f64> {
        self.baselines.iter().find(|(of, _)| *of == flows).map(|(_, pps)| *pps)
    }

    fn throughput(&self, flows: (u64, u64), found: &Found, trials: Vec<String>) -> Throughput {
        let flows = flows.0 * flows.1;
        Throughput {
            size_wire: self.spec.size_wire,
            flows,
            bounds: Bounds {
                lower_pps: found.lower.map(|load| load.pps()),
                upper_pps: found.upper.map(|load| load.pps()),
            },
            loss_ratio: found.goal.loss_ratio,
            resolution: found.goal.resolution,
            duration_ns: found.goal.duration_ns,
            confirmations: found.goal.confirmations,
            overturned: found.overturned,
            irregular: found.irregular,
            limited_by: match found.limit {
                Limit::Loss => LimitedBy::Loss,
                Limit::Tester => LimitedBy::Tester,
                Limit::Maximum => LimitedBy::Maximum,
                Limit::Unknown => LimitedBy::Unknown,
            },
            baseline_pps: self.baseline(flows),
            trials,
        }
    }

    /// Compares with the goal that the user gave.
    fn judge(&mut self, flows: u64, found_pps: Option<u64>) {
        let Some(wanted) = self.spec.goal_pps else { return };
        self.document.goals.push(Goal {
            name: format!("throughput, {flows} flow{}", if flows == 1 { "" } else { "s" }),
            wanted: format!("at least {}", linerate_report::units::pps(wanted)),
            measured: found_pps.map(|pps| linerate_report::units::pps(pps as f64)),
            met: found_pps.is_some_and(|pps| pps as f64 >= wanted),
        });
    }

    /// Round trip of a cache line between the generator's core and the DUT's.
    fn cache_line_ns(&self) -> Option<f64> {
        let (here, there) = self.cores.generator.zip(self.cores.dut).filter(|(here, there)| here != there)?;
        cache_line::round_trip(here, there).ok().map(|trip| trip.median_ns)
    }

    fn note_cache_line(&mut self, before_ns: Option<f64>) {
        let Some((here, there)) = self.cores.generator.zip(self.cores.dut).filter(|(here, there)| here != there) else {
            return;
        };
        let after_ns = self.cache_line_ns();
        self.document.environment.cache_line =
            Some(CacheLine { cores: [here as u32, there as u32], before_ns, after_ns });
    }

    fn note_tester(&mut self, tester: &Tester) {
        self.document.environment = environment::read(tester.topology.as_ref());
        let (sends, counts) = tester.describe();
        self.document.environment.other.insert("tester sends by".into(), sends);
        self.document.environment.other.insert("tester counts by".into(), counts);
        if tester.topology.is_some() {
            let reasons = tester.blind_spot().map_or("read".into(), |why| format!("not read: {why}"));
            self.document.environment.other.insert("kernel drop reasons".into(), reasons);
        }
    }
}

/// Lowest load of a search.
const LOAD_MIN_PPS: u64 = 1_000;
/// How often a trial at full load is repeated whose sending thread had no core.
const STARVED_RETRIES: u32 = 3;
/// Stolen time from which on a trial carries a note.
const STEAL_NOTED: f64 = 0.02;

/// With the host's capabilities: AF_XDP sends more than a router carries, and a counting program needs no thread. Without:
/// AF_PACKET, which any namespace of one's own allows.
fn best_ports(as_root: bool) -> TesterSpec {
    let (sender, receiver) = if as_root { ("xdp", "sink") } else { ("packet", "packet") };
    TesterSpec::new(sender, receiver)
}

fn linux_router() -> Dut {
    let version = std::fs::read_to_string("/proc/sys/kernel/osrelease").ok();
    let mut dut =
        Dut { name: "Linux kernel router".into(), version: version.map(|text| text.trim().into()), ..Dut::default() };
    for (name, value) in [
        ("forwarding", "net.ipv4.ip_forward=1, rp_filter off, static neighbours, no firewall rules"),
        ("interfaces", "two veth pairs, one queue each, segmentation offloads and merging by GRO off"),
    ] {
        dut.configuration.insert(name.into(), value.into());
    }
    dut
}

fn flows_name(flows: (u64, u64)) -> String {
    match flows.0 * flows.1 {
        1 => "1 flow".into(),
        count => format!("{} flows", linerate_report::units::count(count)),
    }
}

fn with_once(mut words: Vec<String>, word: String) -> Vec<String> {
    if !words.contains(&word) {
        words.push(word);
    }
    words
}

/// A trial in the words of the search. Whatever did not arrive is lost to it, explained or not.
fn search_trial(trial: &Trial, load: Load) -> linerate_search::Trial {
    let account = &trial.account;
    linerate_search::Trial {
        load,
        duration_ns: trial.duration_ns,
        intended: account.intended(),
        unsent: account.unsent(),
        lost: account.sent().saturating_sub(account.delivered()),
    }
}
