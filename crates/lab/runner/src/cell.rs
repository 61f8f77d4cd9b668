//! A cell from its baseline to its last finding; and all cells one after another.

use std::time::Instant;

use linerate_experiment::TestKind;
use linerate_report::{Environment, Finding, Results, TestResult};

use super::bench::{Bench, Halt};
use super::pace::Pace;
use super::plan::{CellPlan, Plan, Slot, test_name, ways};
use super::store::Store;
use super::testbed::{Testbed, TestbedError, TestbedFactory};
use super::watch::Event;
use super::work::Hope;
use super::{End, RunError, baseline, loads, no_loss, rfc2544, sessions, throughput};

/// A cell has at most so many times the repetitions that the experiment asks for.
const REPETITIONS_MAX_TIMES: u32 = 8;

/// Measures every cell that lacks findings.
pub(super) fn all(
    plan: &Plan<'_>,
    results: &mut Results,
    testbeds: &mut dyn TestbedFactory,
    store: &mut dyn Store,
    watch: &mut dyn FnMut(Event<'_>),
) -> Result<End, RunError> {
    let found = plan.found(results);
    let pace = Pace::start(found);
    let lacking = plan.lacking(results);
    let left_ns = pace.left_ns(plan, results).max(plan.given_ns(lacking));
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
        let start = Instant::now();
        let hope = Hope::default();
        let mut bench =
            Bench { plan, slots, results, store, watch, cell: index, ways, pace, hope, start, ceiling: None };
        match bench.measure(cell, testbeds) {
            Ok(()) => {}
            Err(Halt::Stopped) => return Ok(End::Stopped),
            Err(Halt::Store(error)) => return Err(RunError::Store(error)),
            // Both are turned into findings before they come here.
            Err(Halt::Device(why) | Halt::Cannot(why)) => watch(Event::Warning(&why)),
        }
    }
    Ok(End::Complete)
}

impl<'a> Bench<'a> {
    fn measure(&mut self, cell: &CellPlan<'_>, testbeds: &mut dyn TestbedFactory) -> Result<(), Halt> {
        if testbeds.stop_requested() {
            return Err(Halt::Stopped);
        }
        match baseline::of(cell, self.plan, self, testbeds) {
            Ok(pps) => self.here().baseline_pps = pps,
            Err(TestbedError::Stopped) => return Err(Halt::Stopped),
            Err(TestbedError::Device(why) | TestbedError::Cannot(why)) => {
                self.warn(format!("{}: no baseline: {why}", cell.id))
            }
        }
        match self.with_rig(cell, testbeds) {
            Err(Halt::Device(_)) => {}
            other => return other,
        }
        // A device that died is built anew once.
        match self.with_rig(cell, testbeds) {
            Err(Halt::Device(why)) => {
                self.give_up(&format!("the device died again after it had been built anew: {why}"))
            }
            other => other,
        }
    }

    /// Builds the device and makes the findings that are missing. A death ends it, with the finding made that was under way, or with a
    /// warning where none was.
    fn with_rig(&mut self, cell: &CellPlan<'_>, testbeds: &mut dyn TestbedFactory) -> Result<(), Halt> {
        self.ceiling = None;
        self.tell(Event::Phase(&format!("building {}", cell.dut.name)));
        let mut testbed = match testbeds.open(cell) {
            Ok(testbed) => testbed,
            Err(TestbedError::Device(why)) => return self.died_at_rest(cell, why),
            Err(TestbedError::Stopped) => return Err(Halt::Stopped),
            Err(TestbedError::Cannot(why)) => return self.give_up(&why),
        };
        let (dut, mode) = (testbed.describe(), testbed.mode());
        let there = self.here();
        (there.dut, there.mode) = (dut, mode);
        if let Some(environment) = testbed.environment() {
            let cache_line = self.results.environment.cache_line;
            self.results.environment = Environment { cache_line, ..environment };
        }
        let slots = self.missing();
        self.tell(Event::Phase("warming up"));
        match testbed.warm_up() {
            Ok(()) => {
                slots.into_iter().try_for_each(|slot| self.find(slot, testbed.as_mut()))?;
                self.go_on(testbed.as_mut())
            }
            Err(TestbedError::Stopped) => Err(Halt::Stopped),
            Err(TestbedError::Device(why)) => self.died_at_rest(cell, format!("while warming up: {why}")),
            Err(TestbedError::Cannot(why)) => self.give_up(&format!("while warming up: {why}")),
        }
    }

    /// The device died before the first finding began.
    fn died_at_rest(&mut self, cell: &CellPlan<'_>, why: String) -> Result<(), Halt> {
        self.warn(format!("{}: {why}", cell.id));
        Err(Halt::Device(why))
    }

    /// More repetitions of all tests, while the time that the experiment gives to a cell lasts: the last one ends as near to it as can be.
    fn go_on(&mut self, testbed: &mut dyn Testbed) -> Result<(), Halt> {
        let Some(time_ns) = self.plan.experiment.cell_time_ns else { return Ok(()) };
        let last = self.slots.iter().map(|slot| slot.repetition).max().unwrap_or(0);
        let tests: Vec<_> = self.slots.iter().filter(|slot| slot.repetition == last).copied().collect();
        // A device that died within them was built anew.
        let begun = self.here().findings.iter().map(|finding| finding.repetition).max().unwrap_or(0);
        for done in begun.max(last).. {
            let taken_ns = self.start.elapsed().as_nanos() as u64;
            if !has_time(taken_ns, done, time_ns) || done >= last.saturating_mul(REPETITIONS_MAX_TIMES) {
                break;
            }
            tests.iter().try_for_each(|slot| self.find(Slot { repetition: done + 1, ..*slot }, testbed))?;
        }
        Ok(())
    }

    /// What was not found yet.
    fn missing(&mut self) -> Vec<Slot<'a>> {
        let found = self.here().findings.len();
        self.slots.iter().skip(found).copied().collect()
    }

    /// Makes one finding. What stops the run or the device is returned, after it was noted.
    fn find(&mut self, slot: Slot<'_>, testbed: &mut dyn Testbed) -> Result<(), Halt> {
        let test = test_name(&slot.test.kind).to_owned();
        self.here().findings.push(Finding {
            test,
            repetition: slot.repetition,
            result: None,
            error: None,
            goals: Vec::new(),
            trials: Vec::new(),
        });
        match self.test(slot, testbed) {
            Ok(found) => self.conclude(slot, Some(found), None),
            Err(Halt::Cannot(why)) => self.conclude(slot, None, Some(why)),
            Err(Halt::Device(why)) => {
                self.conclude(slot, None, Some(why.clone()))?;
                Err(Halt::Device(why))
            }
            Err(halt) => Err(halt),
        }
    }

    fn test(&mut self, slot: Slot<'_>, testbed: &mut dyn Testbed) -> Result<TestResult, Halt> {
        let trial_ns = slot.test.trial_ns;
        match &slot.test.kind {
            TestKind::Throughput { search, time_max_ns } => {
                throughput::find(self, testbed, search, (trial_ns, *time_max_ns))
            }
            TestKind::Capacity { trials } => loads::capacity(self, testbed, *trials, trial_ns),
            TestKind::NoLoss { shares } => no_loss::find(self, testbed, shares, trial_ns),
            TestKind::Latency { shares, idle_pps, timestamps } => {
                rfc2544::latency(self, testbed, (shares, *idle_pps, *timestamps), trial_ns)
            }
            TestKind::FrameLoss { loads_pps } => rfc2544::frame_loss(self, testbed, loads_pps, trial_ns),
            TestKind::BackToBack { burst_max_ns, bursts } => {
                rfc2544::back_to_back(self, testbed, *burst_max_ns, *bursts, trial_ns)
            }
            TestKind::SystemRecovery => rfc2544::recovery(self, testbed, trial_ns),
            TestKind::Reset => rfc2544::reset(self, testbed, trial_ns),
            TestKind::Soak { share } => loads::soak(self, testbed, *share, trial_ns),
            TestKind::MaxForwardingRate => loads::forwarding(self, testbed, trial_ns),
            TestKind::Capture { loads_pps } => loads::capture(self, testbed, loads_pps, trial_ns),
            TestKind::Ping { interval_ns } => {
                self.tell(Event::Phase("echo requests through the device"));
                Ok(testbed.ping(trial_ns, *interval_ns)?)
            }
            TestKind::Sessions(test) => sessions::find(self, testbed, test, trial_ns),
            TestKind::TcpEcho { orders, stack } => sessions::echo(self, testbed, (*stack, orders), trial_ns),
            TestKind::UdpLoop => sessions::udp_loop(self, testbed, trial_ns),
            TestKind::Load { pps } => loads::load(self, testbed, *pps, trial_ns),
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
                result: None,
                error: None,
                goals: Vec::new(),
                trials,
            });
            self.conclude(slot, None, Some(why.to_owned()))?;
        }
        Ok(())
    }
}

/// Whether one more repetition, after `done` that took so long, ends nearer to the time given than this one did.
fn has_time(taken_ns: u64, done: u32, time_ns: u64) -> bool {
    taken_ns.saturating_add(taken_ns / u64::from(done.max(1)) / 2) <= time_ns
}

#[cfg(test)]
mod tests {
    use super::has_time;

    #[test]
    fn repetitions_end_as_near_to_the_time_given_as_they_can() {
        assert!(has_time(12_000, 3, 14_000), "16 is as near to 14 as 12 is");
        assert!(!has_time(13_000, 3, 15_000), "17.3 is further from 15 than 13 is");
        assert!(!has_time(30_000, 3, 20_000) && has_time(0, 0, 1));
    }
}
