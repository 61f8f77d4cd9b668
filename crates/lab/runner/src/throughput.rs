//! Throughput: the search asks for loads, trials answer (RFC 2544 section 26.1; RFC 9971).

use std::time::{Duration, Instant};

use linerate_experiment::{LossGoal, Search as Kind};
use linerate_report::{GoalBounds, GoalFound, LimitedBy, Purpose, SearchStop, TestResult};
use linerate_search::{Bounds, Limit, Load as Pps, Stop, mlr};

use super::bench::{Bench, Ceiling, Halt};
use super::testbed::{Testbed, TrialResult};
use linerate_tester::Load;

/// Lowest load of a search, in packets per second and direction.
const LOAD_MIN_PPS: u64 = 1_000;
/// A bisection that does not converge ends after so many trials.
const BISECTION_TRIALS_MAX: u32 = 60;
/// An MLRsearch that does not converge ends after so many times the duration sum of its goals.
const MLR_SUMS_MAX: u64 = 6;

/// How often a trial is made again whose unsent packets alone would decide it: the tester's stall is not the device's loss. A load that the
/// tester misses every time is beyond what it can send, and the result says so.
const UNSENT_RETRIES: u32 = 3;

/// `time_max_ns`: after it no further trial begins.
pub(super) fn find(
    bench: &mut Bench<'_>,
    testbed: &mut dyn Testbed,
    search: &Kind,
    (trial_ns, time_max_ns): (u64, Option<u64>),
) -> Result<TestResult, Halt> {
    let end = time_max_ns.and_then(|time_ns| Instant::now().checked_add(Duration::from_nanos(time_ns)));
    let has_time = || end.is_none_or(|end| Instant::now() < end);
    let ceiling = bench.ceiling(testbed, trial_ns)?;
    let goals = match search {
        Kind::Bisection { resolution, loss_ratio, confirmations } => {
            bisection(bench, testbed, &ceiling, trial_ns, (*resolution, *loss_ratio, *confirmations), &has_time)?
        }
        Kind::Mlr { goals } => multiple(bench, testbed, &ceiling, goals, &has_time)?,
    };
    Ok(TestResult::Throughput { goals })
}

fn bisection(
    bench: &mut Bench<'_>,
    testbed: &mut dyn Testbed,
    ceiling: &Ceiling,
    trial_ns: u64,
    (resolution, loss_ratio, confirmations): (f64, f64, u32),
    has_time: &dyn Fn() -> bool,
) -> Result<Vec<GoalFound>, Halt> {
    let (minimum, maximum) = range(ceiling);
    let mut goal = linerate_search::Goal::new(minimum, maximum);
    goal.duration_ns = trial_ns;
    (goal.resolution, goal.loss_ratio, goal.confirmations) = (resolution, loss_ratio, confirmations);
    goal.trials_max = BISECTION_TRIALS_MAX;
    // A trial at full rate that was shorter than the goal's says where to look, not what passes.
    let at_full_rate = in_words_of_search(&ceiling.measured, maximum, ceiling.measured.trial.trial.duration_ns);
    let is_whole = at_full_rate.duration_ns >= trial_ns;
    goal.hint = (!is_whole).then(|| Pps::from_pps((at_full_rate.forwarding_rate_pps() as u64).max(1)));
    let mut search = linerate_search::Search::new(goal).map_err(Halt::search)?;
    if is_whole {
        search.record(linerate_search::Trial { duration_ns: trial_ns, ..at_full_rate }).map_err(Halt::search)?;
    }
    while let Some(load) = search.next().filter(|_| has_time()) {
        let bounds = bounds_words(search.bounds(), bench.ways);
        let trial = trial(bench, testbed, (load, trial_ns), &bounds, &[loss_ratio])?;
        search.record(trial).map_err(Halt::search)?;
    }
    let outcome = search.outcome();
    let bounds = Bounds { lower: outcome.lower, upper: outcome.upper };
    let mut found = goal_found(bench, bounds, outcome.limit, outcome.stop);
    found.name = if loss_ratio == 0.0 { "NDR".into() } else { format!("PDR {} %", loss_ratio * 100.0) };
    (found.loss_ratio, found.width, found.irregular) = (loss_ratio, resolution, outcome.irregular);
    (found.confirmations, found.overturned) = (confirmations, outcome.overturned);
    Ok(vec![found])
}

fn multiple(
    bench: &mut Bench<'_>,
    testbed: &mut dyn Testbed,
    ceiling: &Ceiling,
    goals: &[LossGoal],
    has_time: &dyn Fn() -> bool,
) -> Result<Vec<GoalFound>, Halt> {
    let (minimum, maximum) = range(ceiling);
    let sums_ns = goals.iter().fold(0u64, |sum, goal| sum.saturating_add(goal.duration_sum_ns));
    let limits =
        mlr::Limits { duration_max_ns: sums_ns.saturating_mul(MLR_SUMS_MAX), ..mlr::Limits::new(minimum, maximum) };
    let mut search = mlr::Search::new(limits, goals.iter().map(goal).collect()).map_err(Halt::search)?;
    search
        .record(in_words_of_search(&ceiling.measured, maximum, ceiling.measured.trial.trial.duration_ns))
        .map_err(Halt::search)?;
    let ratios: Vec<f64> = goals.iter().map(|goal| goal.loss_ratio).collect();
    while let Some(step) = search.next_step().filter(|_| has_time()) {
        let words = goal_words(&search, step.goal, bench.ways);
        let trial = trial(bench, testbed, (step.order.load, step.order.duration_ns), &words, &ratios)?;
        search.record(trial).map_err(Halt::search)?;
    }
    let outcome = search.outcome();
    let found = outcome.goals.iter().enumerate().map(|(number, goal)| {
        let bounds = Bounds { lower: goal.lower, upper: goal.upper };
        // A search that was cut short knows bounds by fewer trials than the goal asks for: better than none, and marked.
        let bounds = if bounds.lower.is_none() { search.estimate(number) } else { bounds };
        let mut found = goal_found(bench, bounds, goal.limit, goal.stop);
        found.name = goal.goal.name.clone();
        (found.loss_ratio, found.exceed_ratio) = (goal.goal.loss_ratio, goal.goal.exceed_ratio);
        (found.width, found.irregular) = (goal.goal.width, goal.irregular);
        found.conditional_pps = goal.conditional_pps.map(|pps| pps * bench.ways);
        found.outside_interruptions = goal.goal.outside_interruptions;
        let both = |load: Option<Pps>| load.map(|load| load.pps() as f64 * bench.ways);
        found.with_interruptions = goal
            .with_interruptions
            .map(|bounds| GoalBounds { lower_pps: both(bounds.lower), upper_pps: both(bounds.upper) });
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
        outside_interruptions: goal.outside_interruptions,
    }
}

/// From the lowest load to the tester's full rate, in each direction.
fn range(ceiling: &Ceiling) -> (Pps, Pps) {
    let maximum = ceiling.sent_pps as u64;
    (Pps::from_pps(LOAD_MIN_PPS.min(maximum)), Pps::from_pps(maximum))
}

/// A trial of a search: a load for a time. It is made again while unsent packets alone would decide one of the goals.
fn trial(
    bench: &mut Bench<'_>,
    testbed: &mut dyn Testbed,
    (load, duration_ns): (Pps, u64),
    bounds: &str,
    loss_ratios: &[f64],
) -> Result<linerate_search::Trial, Halt> {
    let rate = Load::Rate { pps: load.pps() as f64, duration_ns };
    let mut retries = 0;
    loop {
        let order = bench.order("", Purpose::Search, rate);
        let measured = bench.trial(testbed, order, Some(bounds))?;
        let trial = in_words_of_search(&measured, load, duration_ns);
        let is_testers = loss_ratios.iter().any(|ratio| trial.is_decided_by_unsent(*ratio));
        if !is_testers || retries >= UNSENT_RETRIES {
            return Ok(trial);
        }
        bench.discard("the tester did not send all of it, which says nothing of the device");
        retries += 1;
    }
}

/// Whatever did not arrive is lost to the search, explained or not.
pub(super) fn in_words_of_search(measured: &TrialResult, load: Pps, duration_ns: u64) -> linerate_search::Trial {
    let account = &measured.trial.trial.account;
    let lost = account.sent().saturating_sub(account.delivered());
    linerate_search::Trial {
        load,
        duration_ns,
        intended: account.intended(),
        unsent: account.unsent(),
        lost,
        lost_in_interruptions: measured.trial.machine.stalls.lost_in_interruptions.min(lost),
    }
}

fn goal_found(bench: &mut Bench<'_>, bounds: Bounds, limit: Limit, stop: Stop) -> GoalFound {
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
        stop: match stop {
            Stop::Resolved => SearchStop::Resolved,
            Stop::MaximumPassed => SearchStop::MaximumPassed,
            Stop::MinimumFailed => SearchStop::MinimumFailed,
            Stop::TrialsUsedUp | Stop::NotEnded => SearchStop::UsedUp,
        },
        confirmations: 0,
        overturned: 0,
        outside_interruptions: false,
        with_interruptions: None,
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
