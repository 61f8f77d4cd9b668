//! The rate of a path without its device: what the tester can do there. TrialResult once for each path that cells share.

use linerate_report::{ExperimentTrial, Purpose, Results};

use super::bench::Bench;
use super::plan::{CellPlan, Plan};
use super::testbed::{TestbedError, TestbedFactory, TrialRequest};
use super::watch::Event;
use super::work;
use linerate_tester::Load;

/// Longest baseline trial: the figure is a rate, and more time does not make it better.
const BASELINE_MAX_NS: u64 = 1_000_000_000;

/// The baseline of a cell: from another cell of the same path, else measured; `None` where there is none to measure.
pub(super) fn of(
    cell: &CellPlan<'_>,
    plan: &Plan<'_>,
    bench: &mut Bench<'_>,
    testbeds: &mut dyn TestbedFactory,
) -> Result<Option<f64>, TestbedError> {
    if let Some(known) = known(cell, plan, bench.results) {
        return Ok(Some(known));
    }
    let stop_requested = testbeds.stop_requested();
    let Some(opened) = testbeds.open_baseline(cell).filter(|_| !stop_requested) else { return Ok(None) };
    bench.tell(Event::Phase("baseline: the same path without the device"));
    let mut testbed = opened?;
    let trial_ns = plan.experiment.tests.iter().map(|test| test.trial_ns).min().unwrap_or(BASELINE_MAX_NS);
    let order =
        TrialRequest::new("baseline", Purpose::Baseline, Load::Full { duration_ns: trial_ns.min(BASELINE_MAX_NS) });
    bench.begin_trial(&order, None);
    let mut again = |trial: ExperimentTrial| {
        bench.tell(Event::Again(&trial));
        Ok::<(), TestbedError>(())
    };
    let measured =
        work::undisturbed(testbed.as_mut(), &order, (plan.experiment, &mut work::Hope::default()), &mut again)?;
    bench.tell(Event::Trialled(&measured.trial));
    Ok(Some(measured.rates().1))
}

/// What a cell of the same path found before.
fn known(cell: &CellPlan<'_>, plan: &Plan<'_>, results: &Results) -> Option<f64> {
    let same = |other: &&CellPlan<'_>| {
        other.size == cell.size
            && other.flows == cell.flows
            && other.direction == cell.direction
            && other.tester == cell.tester
            && other.cores == cell.cores
            && other.dut.kind.shares_memory() == cell.dut.kind.shares_memory()
    };
    let ids: Vec<&str> = plan.cells.iter().filter(same).map(|other| other.id.as_str()).collect();
    results.cells.iter().filter(|other| ids.contains(&other.id.as_str())).find_map(|other| other.baseline_pps)
}
