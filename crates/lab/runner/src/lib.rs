//! Carries an experiment out: cell by cell, test by test, trial by trial, and keeps what was found after every trial.
//!
//! ```text
//!   Experiment --plan--> cells --> baseline, device, warm-up --> tests x repetitions --> trials --> Store
//!                                        |  (trait TestbedFactory, trait Testbed: what measures)        (trait Store: what keeps)
//! ```
//!
//! Read [`Testbed`] (what can be measured in a cell), `cell.rs` (a cell from its device to its last finding), `throughput.rs` and
//! its neighbours (one test each), `work.rs` (one trial: noise, account, saving). The flow knows no ports: [`lab`] joins it to
//! them, and the tests of this folder to a device made up of numbers.

mod baseline;
mod bench;
mod cell;
mod cores;
mod judge;
pub mod lab;
mod lab_tcp;
mod loads;
mod no_loss;
mod observed;
mod pace;
mod plan;
mod rfc2544;
mod sessions;
mod store;
mod testbed;
#[cfg(test)]
mod tests;
mod throughput;
mod watch;
mod work;

use std::io;
use std::time::SystemTime;

use linerate_experiment::Experiment;
use linerate_report::{
    EXPERIMENT_SCHEMA, Environment, Results, TestResult, Timestamp, Tool, capture_recommendation, stated_bounds,
};

pub use plan::{CellPlan, Slot, matches_pattern};
pub use store::Store;
pub use testbed::{Reset, SessionsRequest, Testbed, TestbedError, TestbedFactory, TrialRequest, TrialResult};
pub use watch::Event;

use plan::Plan;

/// How a run ended.
#[derive(Debug)]
pub enum End {
    /// Every test of every cell was made, or could not be.
    Complete,
    /// A signal asked for it. What was measured is kept, and the run can be resumed.
    Stopped,
}

/// Why a run could not go on.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The results cannot be kept any more, so nothing more is measured. What was kept before is still there.
    #[error("the results cannot be written: {0}")]
    Store(#[from] io::Error),
    /// No cell of the experiment is left to measure.
    #[error("no cell of the experiment matches `{pattern}`; its cells are {cells}")]
    NoCell {
        /// As asked for.
        pattern: String,
        /// What there is.
        cells: String,
    },
}

/// Results of an experiment that has not begun: every cell, and nothing found. `only` leaves out the cells whose id it does not match.
///
/// # Errors
/// When no cell is left.
pub fn begin(experiment: &Experiment, file: &str, only: Option<&str>, version: &str) -> Result<Results, RunError> {
    let plan = Plan::new(experiment, only)?;
    let now = now();
    Ok(Results {
        schema: EXPERIMENT_SCHEMA.to_owned(),
        name: experiment.name.clone(),
        title: experiment.title.clone(),
        about: experiment.about.clone(),
        file: file.to_owned(),
        tool: Tool::new("linerate", version),
        started: now,
        ended: now,
        complete: false,
        cells: plan.cells.iter().map(|cell| plan::empty_cell(cell, experiment)).collect(),
        environment: Environment::default(),
        warnings: Vec::new(),
        bounds: None,
        recommendation: Vec::new(),
    })
}

/// Measures what `results` (of [`begin`], or of an interrupted run of the same experiment) lacks.
///
/// # Errors
/// When the results cannot be kept. What cannot be measured is no error: its finding says why.
pub fn run(
    experiment: &Experiment,
    results: &mut Results,
    testbeds: &mut dyn TestbedFactory,
    store: &mut dyn Store,
    watch: &mut dyn FnMut(Event<'_>),
) -> Result<End, RunError> {
    let plan = Plan::resume(experiment, results);
    plan.drop_unfinished(results);
    results.complete = false;
    if results.environment == Environment::default() {
        results.environment = testbeds.environment();
    }
    testbeds.before(results);
    let mut end = cell::all(&plan, results, testbeds, store, watch);
    testbeds.after(results);
    results.ended = now();
    results.recommendation = capture_recommendation(results);
    results.bounds = stated_bounds(results);
    if let Ok(End::Complete) = end {
        results.complete = plan.is_complete(results);
    }
    if let Err(error) = store.save(results)
        && end.is_ok()
    {
        end = Err(error.into());
    }
    end
}

/// Whether every cell was measured and every goal of the experiment was reached: a throughput goal that no load passed, a
/// device that did not recover, a figure beyond a limit that the experiment sets, and a finding without a figure are none.
pub fn reached(results: &Results) -> bool {
    let mut findings = results.cells.iter().flat_map(|cell| &cell.findings);
    results.complete
        && findings
            .all(|finding| finding.result.as_ref().is_some_and(is_reached) && finding.goals.iter().all(|goal| goal.met))
}

fn is_reached(found: &TestResult) -> bool {
    match found {
        TestResult::Throughput { goals } => goals.iter().all(|goal| goal.lower_pps.is_some()),
        TestResult::SystemRecovery { recovery_ns, .. } => recovery_ns.is_some(),
        TestResult::Reset { outage_ns, .. } => outage_ns.is_some(),
        _ => true,
    }
}

fn now() -> Timestamp {
    Timestamp::from_system(SystemTime::now())
}
