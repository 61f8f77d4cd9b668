//! Throughput: the search asks for loads, trials answer (RFC 2544 section 26.1; RFC 9971).

use linerate_experiment::{LossGoal, Search as Kind};
use linerate_report::{Found, GoalFound, LimitedBy, Purpose};
use linerate_search::{Bounds, Limit, Load as Pps, mlr};

use super::cell::{Bench, Ceiling, Halt};
use super::rig::{Measured, Rig};
use crate::tester::Load;

/// Lowest load of a search, in packets per second and direction.
const LOAD_MIN_PPS: u64 = 1_000;
/// A bisection that does not converge ends after so many trials.
const BISECTION_TRIALS_MAX: u32 = 60;
/// An MLRsearch that does not converge ends after so many times the duration sum of its goals.
const MLR_SUMS_MAX: u64 = 6;

pub(super) fn find(bench: &mut Bench<'_>, rig: &mut dyn Rig, search: &Kind, trial_ns: u64) -> Result<Found, Halt> {
    let ceiling = bench.ceiling(rig, trial_ns)?;
    let goals = match search {
        Kind::Bisection { resolution, loss_ratio, confirmations } => {
            bisection(bench, rig, &ceiling, trial_ns, (*resolution, *loss_ratio, *confirmations))?
        }
        Kind::Mlr { goals } => multiple(bench, rig, &ceiling, goals)?,
    };
    Ok(Found::Throughput { goals })
}

fn bisection(
    bench: &mut Bench<'_>,
    rig: &mut dyn Rig,
    ceiling: &Ceiling,
    trial_ns: u64,
    (resolution, loss_ratio, confirmations): (f64, f64, u32),
) -> Result<Vec<GoalFound>, Halt> {
    let (minimum, maximum) = range(ceiling);
    let mut goal = linerate_search::Goal::new(minimum, maximum);
    goal.duration_ns = trial_ns;
    (goal.resolution, goal.loss_ratio, goal.confirmations) = (resolution, loss_ratio, confirmations);
    goal.trials_max = BISECTION_TRIALS_MAX;
    let mut search = linerate_search::Search::new(goal).map_err(Halt::search)?;
    search.record(in_words_of_search(&ceiling.measured, maximum, trial_ns)).map_err(Halt::search)?;
    while let Some(load) = search.next() {
        let trial = trial(bench, rig, load, trial_ns, &bounds_words(search.bounds(), bench.ways))?;
        search.record(trial).map_err(Halt::search)?;
    }
    let outcome = search.outcome();
    let bounds = Bounds { lower: outcome.lower, upper: outcome.upper };
    let mut found = goal_found(bench, bounds, outcome.limit);
    found.name = if loss_ratio == 0.0 { "NDR".into() } else { format!("PDR {} %", loss_ratio * 100.0) };
    (found.loss_ratio, found.width, found.irregular) = (loss_ratio, resolution, outcome.irregular);
    Ok(vec![found])
}

fn multiple(
    bench: &mut Bench<'_>,
    rig: &mut dyn Rig,
    ceiling: &Ceiling,
    goals: &[LossGoal],
) -> Result<Vec<GoalFound>, Halt> {
    let (minimum, maximum) = range(ceiling);
    let sums_ns = goals.iter().fold(0u64, |sum, goal| sum.saturating_add(goal.duration_sum_ns));
    let limits =
        mlr::Limits { duration_max_ns: sums_ns.saturating_mul(MLR_SUMS_MAX), ..mlr::Limits::new(minimum, maximum) };
    let mut search = mlr::Search::new(limits, goals.iter().map(goal).collect()).map_err(Halt::search)?;
    search
        .record(in_words_of_search(&ceiling.measured, maximum, ceiling.measured.trial.trial.duration_ns))
        .map_err(Halt::search)?;
    while let Some(step) = search.next_step() {
        let words = goal_words(&search, step.goal, bench.ways);
        let order = step.order;
        let trial = trial(bench, rig, order.load, order.duration_ns, &words)?;
        search.record(trial).map_err(Halt::search)?;
    }
    let outcome = search.outcome();
    let found = outcome.goals.iter().map(|goal| {
        let mut found = goal_found(bench, Bounds { lower: goal.lower, upper: goal.upper }, goal.limit);
        found.name = goal.goal.name.clone();
        (found.loss_ratio, found.exceed_ratio) = (goal.goal.loss_ratio, goal.goal.exceed_ratio);
        (found.width, found.irregular) = (goal.goal.width, goal.irregular);
        found.conditional_pps = goal.conditional_pps.map(|pps| pps * bench.ways);
        found
    });
    Ok(found.collect())
}

fn goal(goal: &LossGoal) -> mlr::Goal {
    mlr::Goal {
        name: goal.name.clone(),
        loss_ratio: goal.loss_ratio,
        exceed_ratio: goal.exceed_ratio,
        initial_trial_ns: goal.initial_trial_ns,
        final_trial_ns: goal.final_trial_ns,
        duration_sum_ns: goal.duration_sum_ns,
        width: goal.width,
    }
}

/// From the lowest load to the tester's full rate, in each direction.
fn range(ceiling: &Ceiling) -> (Pps, Pps) {
    let maximum = ceiling.sent_pps as u64;
    (Pps::from_pps(LOAD_MIN_PPS.min(maximum)), Pps::from_pps(maximum))
}

/// A trial of a search.
fn trial(
    bench: &mut Bench<'_>,
    rig: &mut dyn Rig,
    load: Pps,
    duration_ns: u64,
    bounds: &str,
) -> Result<linerate_search::Trial, Halt> {
    let rate = Load::Rate { pps: load.pps() as f64, duration_ns };
    let order = bench.order("", Purpose::Search, rate);
    let measured = bench.trial(rig, order, Some(bounds))?;
    Ok(in_words_of_search(&measured, load, duration_ns))
}

/// Whatever did not arrive is lost to the search, explained or not.
pub(super) fn in_words_of_search(measured: &Measured, load: Pps, duration_ns: u64) -> linerate_search::Trial {
    let account = &measured.trial.trial.account;
    linerate_search::Trial {
        load,
        duration_ns,
        intended: account.intended(),
        unsent: account.unsent(),
        lost: account.sent().saturating_sub(account.delivered()),
    }
}

fn goal_found(bench: &mut Bench<'_>, bounds: Bounds, limit: Limit) -> GoalFound {
    let both = |load: Option<Pps>| load.map(|load| load.pps() as f64 * bench.ways);
    let (lower_pps, upper_pps) = (both(bounds.lower), both(bounds.upper));
    GoalFound {
        name: String::new(),
        loss_ratio: 0.0,
        exceed_ratio: 0.0,
        lower_pps,
        upper_pps,
        conditional_pps: None,
        width: 0.0,
        irregular: false,
        limited_by: limited_by(limit),
        tester_limited: bench.is_tester_limited(lower_pps),
    }
}

/// A search's highest load is what the tester can send: at the maximum, the tester is the limit.
fn limited_by(limit: Limit) -> LimitedBy {
    match limit {
        Limit::Loss => LimitedBy::Loss,
        Limit::Tester | Limit::Maximum => LimitedBy::Tester,
        Limit::Unknown => LimitedBy::Unknown,
    }
}

fn goal_words(search: &mlr::Search, goal: usize, ways: f64) -> String {
    let name = search.goals().get(goal).map_or("", |goal| goal.name.as_str());
    format!("{name} {}", bounds_words(search.estimate(goal), ways))
}

fn bounds_words(bounds: Bounds, ways: f64) -> String {
    let words = |load: Option<Pps>, none: &str| {
        load.map_or(none.to_owned(), |load| linerate_report::units::pps(load.pps() as f64 * ways))
    };
    format!("{} .. {}", words(bounds.lower, "0"), words(bounds.upper, "?"))
}
