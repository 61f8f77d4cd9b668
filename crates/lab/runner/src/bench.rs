//! A cell under measurement: what its tests make trials with, and where their findings go.

use std::time::Instant;

use linerate_report::{Cell, ExperimentTrial, Purpose, Results, TestResult};

use super::pace::Pace;
use super::plan::{Plan, Slot};
use super::store::Store;
use super::testbed::{Testbed, TestbedError, TrialRequest, TrialResult, rate_pps};
use super::watch::Event;
use super::{judge, now, work};
use linerate_tester::Load;

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

impl From<TestbedError> for Halt {
    fn from(gone: TestbedError) -> Self {
        match gone {
            TestbedError::Stopped => Self::Stopped,
            TestbedError::Device(why) => Self::Device(why),
            TestbedError::Cannot(why) => Self::Cannot(why),
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
    pub(super) slots: Vec<Slot<'a>>,
    pub(super) results: &'a mut Results,
    pub(super) store: &'a mut dyn Store,
    pub(super) watch: &'a mut dyn FnMut(Event<'_>),
    /// Its number in the results.
    pub(super) cell: usize,
    /// Directions under load.
    pub(super) ways: f64,
    pub(super) pace: Pace,
    /// Whether making disturbed trials again gives undisturbed ones.
    pub(super) hope: work::Hope,
    /// When the cell began.
    pub(super) start: Instant,
    /// What came of a trial at the tester's full rate, once it was made.
    pub(super) ceiling: Option<Ceiling>,
}

/// A trial at the tester's full rate. Rates are those of one direction, in packets per second.
#[derive(Debug, Clone)]
pub(super) struct Ceiling {
    pub(super) sent_pps: f64,
    pub(super) measured: TrialResult,
}

impl Bench<'_> {
    /// Ends the finding that was begun last, and saves.
    pub(super) fn conclude(
        &mut self,
        slot: Slot<'_>,
        found: Option<TestResult>,
        error: Option<String>,
    ) -> Result<(), Halt> {
        if let Some(last) = self.here().findings.last_mut() {
            last.goals = judge::judge(slot.test, found.as_ref());
            (last.result, last.error) = (found, error);
        }
        self.save()?;
        let number = self.plan.found(self.results);
        let begun_ns = self.start.elapsed().as_nanos() as u64;
        let after = self.results.cells.len().saturating_sub(self.cell + 1);
        let left_ns =
            self.pace.left_ns(self.plan, self.results).max(self.plan.given_ns(after + 1).saturating_sub(begun_ns));
        if let Some(cell) = self.results.cells.get(self.cell)
            && let Some(finding) = cell.findings.last()
        {
            (self.watch)(Event::Found { cell: &cell.id, finding, found: number, left_ns });
        }
        Ok(())
    }

    /// Makes a trial, keeps it with the finding under way, and saves.
    pub(super) fn trial(
        &mut self,
        testbed: &mut dyn Testbed,
        order: TrialRequest,
        bounds: Option<&str>,
    ) -> Result<TrialResult, Halt> {
        self.begin_trial(&order, bounds);
        let experiment = self.plan.experiment;
        let mut hope = self.hope;
        let measured = work::undisturbed(testbed, &order, (experiment, &mut hope), &mut |trial| self.keep(trial))?;
        self.hope = hope;
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
    pub(super) fn order(&mut self, words: &str, purpose: Purpose, load: Load) -> TrialRequest {
        let cell = self.here();
        let (id, finding) = (cell.id.clone(), cell.findings.last());
        let (test, repetition, trials) = finding
            .map_or(("", 1, 0), |finding| (finding.test.as_str(), finding.repetition, finding.used_trials().count()));
        let words = if words.is_empty() { String::new() } else { format!(" ({words})") };
        TrialRequest::new(format!("{id}: {test} {repetition}, trial {}{words}", trials + 1), purpose, load)
    }

    /// The trial at the tester's full rate, made once for a device.
    pub(super) fn ceiling(&mut self, testbed: &mut dyn Testbed, trial_ns: u64) -> Result<Ceiling, Halt> {
        if let Some(ceiling) = &self.ceiling {
            return Ok(ceiling.clone());
        }
        let duration_ns = trial_ns.clamp(CEILING_MIN_NS, CEILING_MAX_NS);
        let order = self.order("full rate", Purpose::Overload, Load::Full { duration_ns });
        let measured = self.trial(testbed, order, None)?;
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
        let found = self.here().findings.iter().rev().find_map(|finding| match &finding.result {
            Some(TestResult::Throughput { goals }) => goals.first()?.lower_pps,
            _ => None,
        });
        let why = "needs the throughput, and none was found before in this cell";
        found.map(|pps| pps / ways).filter(|pps| *pps >= 1.0).ok_or_else(|| Halt::Cannot(why.into()))
    }

    pub(super) fn begin_trial(&mut self, order: &TrialRequest, bounds: Option<&str>) {
        let load_pps = rate_pps(&order.load).map(|pps| pps * self.ways);
        let duration_ns = order.load.duration_ns();
        (self.watch)(Event::Trial { name: &order.name, load_pps, duration_ns, bounds });
    }

    pub(super) fn tell(&mut self, event: Event<'_>) {
        (self.watch)(event);
    }

    /// What was found in the cell so far.
    pub(super) fn here(&mut self) -> &mut Cell {
        // `all` found this number in the same list, from which nothing is ever taken.
        &mut self.results.cells[self.cell]
    }

    pub(super) fn warn(&mut self, warning: String) {
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
