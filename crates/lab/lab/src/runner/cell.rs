//! A cell from its baseline to its last finding; and all cells one after another.

use linerate_experiment::TestKind;
use linerate_report::{Cell, Environment, ExperimentTrial, Finding, Found, Purpose, Results};

use super::pace::Pace;
use super::plan::{CellPlan, Plan, Slot, test_name, ways};
use super::rig::{Gone, Measured, Order, Rig, Rigs, rate_pps};
use super::store::Store;
use super::watch::Event;
use super::{
    End, RunError, back_to_back, baseline, capacity, capture, forwarding, frame_loss, judge, latency, load, no_loss,
    now, recovery, reset, sessions, soak, throughput, work,
};
use crate::tester::Load;

/// Measures every cell that lacks findings.
pub(super) fn all(
    plan: &Plan<'_>,
    results: &mut Results,
    rigs: &mut dyn Rigs,
    store: &mut dyn Store,
    watch: &mut dyn FnMut(Event<'_>),
) -> Result<End, RunError> {
    let found = results.cells.iter().map(|cell| cell.findings.len()).sum();
    let pace = Pace::start(found);
    let left_ns = pace.left_ns(plan, found);
    watch(Event::Begin { findings: plan.findings(), found, left_ns });
    for (number, cell) in plan.cells.iter().enumerate() {
        let Some(index) = results.cells.iter().position(|there| there.id == cell.id) else { continue };
        let findings = results.cells.get(index).map_or(0, |there| there.findings.len());
        let slots = plan.slots(cell);
        if findings >= slots.len() {
            continue;
        }
        watch(Event::Cell { number: number + 1, cells: plan.cells.len(), id: &cell.id });
        let ways = ways(cell.direction);
        let mut bench = Bench { plan, slots, results, store, watch, cell: index, ways, pace, ceiling: None };
        match bench.measure(cell, rigs) {
            Ok(()) => {}
            Err(Halt::Stopped) => return Ok(End::Stopped),
            Err(Halt::Store(error)) => return Err(RunError::Store(error)),
            // Both are turned into findings before they come here.
            Err(Halt::Device(why) | Halt::Cannot(why)) => watch(Event::Warning(&why)),
        }
    }
    Ok(End::Complete)
}

/// A figure this close to the baseline is the tester's own limit.
const TESTER_LIMIT_SHARE: f64 = 0.95;
/// Shortest and longest trial at full rate: it is there to see what the tester can send, and where loss begins.
const CEILING_MIN_NS: u64 = 50_000_000;
const CEILING_MAX_NS: u64 = 1_000_000_000;

/// Why a test did not come to its finding.
#[derive(Debug)]
pub(super) enum Halt {
    /// A signal asked to stop.
    Stopped,
    /// The results cannot be kept.
    Store(std::io::Error),
    /// The device does not work any more.
    Device(String),
    /// This cannot be measured; the next test may be.
    Cannot(String),
}

impl From<Gone> for Halt {
    fn from(gone: Gone) -> Self {
        match gone {
            Gone::Stopped => Self::Stopped,
            Gone::Device(why) => Self::Device(why),
            Gone::Cannot(why) => Self::Cannot(why),
        }
    }
}

impl Halt {
    /// An error of a search, in words.
    pub(super) fn search(error: impl std::fmt::Display) -> Self {
        Self::Cannot(format!("the search: {error}"))
    }
}

/// A cell being measured, and where its findings go.
pub(super) struct Bench<'a> {
    pub(super) plan: &'a Plan<'a>,
    /// What is to be found in the cell.
    slots: Vec<Slot<'a>>,
    pub(super) results: &'a mut Results,
    store: &'a mut dyn Store,
    pub(super) watch: &'a mut dyn FnMut(Event<'_>),
    /// Its number in the results.
    cell: usize,
    /// Directions under load.
    pub(super) ways: f64,
    pace: Pace,
    /// What came of a trial at the tester's full rate, once it was made.
    ceiling: Option<Ceiling>,
}

/// A trial at the tester's full rate. Rates are those of one direction, in packets per second.
#[derive(Debug, Clone)]
pub(super) struct Ceiling {
    pub(super) sent_pps: f64,
    pub(super) measured: Measured,
}

impl<'a> Bench<'a> {
    fn measure(&mut self, cell: &CellPlan<'_>, rigs: &mut dyn Rigs) -> Result<(), Halt> {
        if rigs.stop_requested() {
            return Err(Halt::Stopped);
        }
        match baseline::of(cell, self.plan, self, rigs) {
            Ok(pps) => self.here().baseline_pps = pps,
            Err(Gone::Stopped) => return Err(Halt::Stopped),
            Err(Gone::Device(why) | Gone::Cannot(why)) => self.warn(format!("{}: no baseline: {why}", cell.id)),
        }
        // A device that died is built anew once.
        for _ in 0..2 {
            match self.with_rig(cell, rigs) {
                Err(Halt::Device(_)) => {}
                other => return other,
            }
        }
        self.give_up("the device died again after it had been built anew")
    }

    /// Builds the device and makes the findings that are missing. A death ends it, with its finding made.
    fn with_rig(&mut self, cell: &CellPlan<'_>, rigs: &mut dyn Rigs) -> Result<(), Halt> {
        self.ceiling = None;
        self.tell(Event::Phase(&format!("building {}", cell.dut.name)));
        let mut rig = match rigs.open(cell) {
            Ok(rig) => rig,
            Err(Gone::Stopped) => return Err(Halt::Stopped),
            Err(Gone::Device(why) | Gone::Cannot(why)) => return self.give_up(&why),
        };
        let (dut, mode) = (rig.describe(), rig.mode());
        let there = self.here();
        (there.dut, there.mode) = (dut, mode);
        if let Some(environment) = rig.environment() {
            let cache_line = self.results.environment.cache_line;
            self.results.environment = Environment { cache_line, ..environment };
        }
        let slots = self.missing();
        self.tell(Event::Phase("warming up"));
        match rig.warm_up() {
            Ok(()) => slots.into_iter().try_for_each(|slot| self.find(slot, rig.as_mut())),
            Err(Gone::Stopped) => Err(Halt::Stopped),
            Err(Gone::Device(why) | Gone::Cannot(why)) => self.give_up(&format!("while warming up: {why}")),
        }
    }

    /// What was not found yet.
    fn missing(&mut self) -> Vec<Slot<'a>> {
        let found = self.here().findings.len();
        self.slots.iter().skip(found).copied().collect()
    }

    /// Makes one finding. What stops the run or the device is returned, after it was noted.
    fn find(&mut self, slot: Slot<'_>, rig: &mut dyn Rig) -> Result<(), Halt> {
        let test = test_name(&slot.test.kind).to_owned();
        self.here().findings.push(Finding {
            test,
            repetition: slot.repetition,
            found: None,
            why_not: None,
            goals: Vec::new(),
            trials: Vec::new(),
        });
        match self.test(slot, rig) {
            Ok(found) => self.conclude(slot, Some(found), None),
            Err(Halt::Cannot(why)) => self.conclude(slot, None, Some(why)),
            Err(Halt::Device(why)) => {
                self.conclude(slot, None, Some(why.clone()))?;
                Err(Halt::Device(why))
            }
            Err(halt) => Err(halt),
        }
    }

    fn test(&mut self, slot: Slot<'_>, rig: &mut dyn Rig) -> Result<Found, Halt> {
        let trial_ns = slot.test.trial_ns;
        match &slot.test.kind {
            TestKind::Throughput { search, time_max_ns } => {
                throughput::find(self, rig, search, (trial_ns, *time_max_ns))
            }
            TestKind::Capacity { trials } => capacity::find(self, rig, *trials, trial_ns),
            TestKind::NoLoss { shares } => no_loss::find(self, rig, shares, trial_ns),
            TestKind::Latency { shares, idle_pps } => latency::find(self, rig, shares, *idle_pps, trial_ns),
            TestKind::FrameLoss { loads_pps } => frame_loss::find(self, rig, loads_pps, trial_ns),
            TestKind::BackToBack { burst_max_ns, bursts } => {
                back_to_back::find(self, rig, *burst_max_ns, *bursts, trial_ns)
            }
            TestKind::SystemRecovery => recovery::find(self, rig, trial_ns),
            TestKind::Reset => reset::find(self, rig, trial_ns),
            TestKind::Soak { share } => soak::find(self, rig, *share, trial_ns),
            TestKind::MaxForwardingRate => forwarding::find(self, rig, trial_ns),
            TestKind::Capture { loads_pps } => capture::find(self, rig, loads_pps, trial_ns),
            TestKind::Ping { interval_ns } => {
                self.tell(Event::Phase("echo requests through the device"));
                Ok(rig.ping(trial_ns, *interval_ns)?)
            }
            TestKind::Sessions(test) => sessions::find(self, rig, test, trial_ns),
            TestKind::TcpEcho { orders, stack } => sessions::echo(self, rig, (*stack, orders), trial_ns),
            TestKind::UdpLoop => sessions::udp_loop(self, rig, trial_ns),
            TestKind::Load { pps } => load::find(self, rig, *pps, trial_ns),
        }
    }

    /// Every finding that is missing could not be made, for this reason.
    fn give_up(&mut self, why: &str) -> Result<(), Halt> {
        for slot in self.missing() {
            let test = test_name(&slot.test.kind).to_owned();
            let trials = Vec::new();
            let repetition = slot.repetition;
            self.here().findings.push(Finding {
                test,
                repetition,
                found: None,
                why_not: None,
                goals: Vec::new(),
                trials,
            });
            self.conclude(slot, None, Some(why.to_owned()))?;
        }
        Ok(())
    }

    fn conclude(&mut self, slot: Slot<'_>, found: Option<Found>, why_not: Option<String>) -> Result<(), Halt> {
        if let Some(last) = self.here().findings.last_mut() {
            last.goals = judge::judge(slot.test, found.as_ref());
            (last.found, last.why_not) = (found, why_not);
        }
        self.save()?;
        let number = self.results.cells.iter().map(|cell| cell.findings.len()).sum();
        let left_ns = self.pace.left_ns(self.plan, number);
        if let Some(cell) = self.results.cells.get(self.cell)
            && let Some(finding) = cell.findings.last()
        {
            (self.watch)(Event::Found { cell: &cell.id, finding, found: number, left_ns });
        }
        Ok(())
    }

    /// Makes a trial, keeps it with the finding under way, and saves.
    pub(super) fn trial(&mut self, rig: &mut dyn Rig, order: Order, bounds: Option<&str>) -> Result<Measured, Halt> {
        self.begin_trial(&order, bounds);
        let experiment = self.plan.experiment;
        let measured = work::undisturbed(rig, &order, experiment, &mut |trial| self.keep(trial))?;
        if let Some(shown) = &measured.shown {
            let id = self.here().id.clone();
            let trial = order.name.strip_prefix(&format!("{id}: ")).unwrap_or(&order.name);
            self.store.keep_shown(&id, trial, shown).map_err(Halt::Store)?;
        }
        self.keep(measured.trial.clone())?;
        Ok(measured)
    }

    /// Marks the trial that was kept last as one that no search or figure uses.
    pub(super) fn discard(&mut self, why: &str) {
        let last = self.here().findings.last_mut().and_then(|finding| finding.trials.last_mut());
        last.into_iter().for_each(|made| made.not_used = Some(why.to_owned()));
    }

    /// Keeps a trial with the finding under way, and saves.
    pub(super) fn keep(&mut self, mut trial: ExperimentTrial) -> Result<(), Halt> {
        trial.trial.baseline_pps = self.here().baseline_pps;
        let event = if trial.not_used.is_some() { Event::Again(&trial) } else { Event::Trialled(&trial) };
        (self.watch)(event);
        if let Some(finding) = self.here().findings.last_mut() {
            finding.trials.push(trial);
        }
        self.save()
    }

    /// An order of the finding under way.
    pub(super) fn order(&mut self, words: &str, purpose: Purpose, load: Load) -> Order {
        let cell = self.here();
        let (id, finding) = (cell.id.clone(), cell.findings.last());
        let (test, repetition, trials) = finding
            .map_or(("", 1, 0), |finding| (finding.test.as_str(), finding.repetition, finding.used_trials().count()));
        let words = if words.is_empty() { String::new() } else { format!(" ({words})") };
        Order::new(format!("{id}: {test} {repetition}, trial {}{words}", trials + 1), purpose, load)
    }

    /// The trial at the tester's full rate, made once for a device.
    pub(super) fn ceiling(&mut self, rig: &mut dyn Rig, trial_ns: u64) -> Result<Ceiling, Halt> {
        if let Some(ceiling) = &self.ceiling {
            return Ok(ceiling.clone());
        }
        let duration_ns = trial_ns.clamp(CEILING_MIN_NS, CEILING_MAX_NS);
        let order = self.order("full rate", Purpose::Overload, Load::Full { duration_ns });
        let measured = self.trial(rig, order, None)?;
        let ceiling = Ceiling { sent_pps: measured.rates().0 / self.ways, measured };
        if ceiling.sent_pps < 2.0 {
            return Err(Halt::Cannot("the tester sent no packets at its full rate".into()));
        }
        self.ceiling = Some(ceiling.clone());
        Ok(ceiling)
    }

    /// The throughput found last in this cell, of one direction, in packets per second: the first goal's.
    pub(super) fn throughput_pps(&mut self) -> Result<f64, Halt> {
        let ways = self.ways;
        let found = self.here().findings.iter().rev().find_map(|finding| match &finding.found {
            Some(Found::Throughput { goals }) => goals.first()?.lower_pps,
            _ => None,
        });
        let why = "needs the throughput, and none was found before in this cell";
        found.map(|pps| pps / ways).filter(|pps| *pps >= 1.0).ok_or_else(|| Halt::Cannot(why.into()))
    }

    pub(super) fn begin_trial(&mut self, order: &Order, bounds: Option<&str>) {
        let load_pps = rate_pps(&order.load).map(|pps| pps * self.ways);
        let duration_ns = order.load.duration_ns();
        (self.watch)(Event::Trial { name: &order.name, load_pps, duration_ns, bounds });
    }

    pub(super) fn tell(&mut self, event: Event<'_>) {
        (self.watch)(event);
    }

    /// What was found in the cell so far.
    fn here(&mut self) -> &mut Cell {
        // `all` found this number in the same list, from which nothing is ever taken.
        &mut self.results.cells[self.cell]
    }

    fn warn(&mut self, warning: String) {
        (self.watch)(Event::Warning(&warning));
        if !self.results.warnings.contains(&warning) {
            self.results.warnings.push(warning);
        }
    }

    pub(super) fn is_tester_limited(&mut self, figure_pps: Option<f64>) -> bool {
        let baseline_pps = self.here().baseline_pps;
        figure_pps.zip(baseline_pps).is_some_and(|(figure, baseline)| figure >= TESTER_LIMIT_SHARE * baseline)
    }

    fn save(&mut self) -> Result<(), Halt> {
        self.results.ended = now();
        self.store.save(self.results).map_err(Halt::Store)
    }
}
