//! Connections and requests: a ladder of loads, or the search for the highest one at which all succeed.

use linerate_experiment::{EchoOrder, EchoStack, SessionKind, Sessions};
use linerate_report::{Purpose, SessionAccount, SessionPoint, SessionsFound, TestResult, units};
use linerate_search::{Goal, Limit, Load as Number, Search};

use super::bench::{Bench, Halt};
use super::testbed::{SessionsRequest, Testbed};
use linerate_tester::Load;
use linerate_tester::tcp::SessionLoad;

/// Connections at a time of the trial that shows where to search.
const LOOP_CONNECTIONS: u32 = 64;
/// The search goes so far above what that trial reached: a schedule is easier to keep up with than a loop.
const ABOVE_LOOP: f64 = 2.0;
/// Lowest load of a search.
const LOAD_MIN: u64 = 10;
/// A search that does not converge ends after so many trials.
const TRIALS_MAX: u32 = 40;

pub(super) fn find(
    bench: &mut Bench<'_>,
    testbed: &mut dyn Testbed,
    test: &Sessions,
    trial_ns: u64,
) -> Result<TestResult, Halt> {
    let mut points = Vec::new();
    let found = match test.loads.is_empty() {
        false => ladder(bench, testbed, test, trial_ns, &mut points)?,
        true => search(bench, testbed, test, trial_ns, &mut points)?,
    };
    let found = SessionsFound { points, ..found };
    Ok(match test.of {
        SessionKind::ConnectionRate => TestResult::ConnectionRate(found),
        SessionKind::ConcurrentConnections => TestResult::ConcurrentConnections(found),
        SessionKind::RequestRate => TestResult::RequestRate(found),
    })
}

pub(super) fn echo(
    bench: &mut Bench<'_>,
    testbed: &mut dyn Testbed,
    (stack, orders): (EchoStack, &[EchoOrder]),
    trial_ns: u64,
) -> Result<TestResult, Halt> {
    let words = match stack {
        EchoStack::Linerate => "echoes of single bytes".to_owned(),
        other => format!("echoes of single bytes by {}", other.name()),
    };
    let order = bench.order(&words, Purpose::Overload, Load::Full { duration_ns: trial_ns });
    bench.begin_trial(&order, None);
    let (trial, found) = testbed.echo(&order, stack, orders, trial_ns)?;
    bench.keep(trial)?;
    Ok(found)
}

pub(super) fn udp_loop(bench: &mut Bench<'_>, testbed: &mut dyn Testbed, trial_ns: u64) -> Result<TestResult, Halt> {
    let order = bench.order("datagrams back and forth", Purpose::Overload, Load::Full { duration_ns: trial_ns });
    bench.begin_trial(&order, None);
    let (trial, found) = testbed.udp_loop(&order, trial_ns)?;
    bench.keep(trial)?;
    Ok(found)
}

/// The loads that the experiment names.
fn ladder(
    bench: &mut Bench<'_>,
    testbed: &mut dyn Testbed,
    test: &Sessions,
    trial_ns: u64,
    points: &mut Vec<SessionPoint>,
) -> Result<SessionsFound, Halt> {
    let mut found = SessionsFound { highest: None, fails_at: None, tester_limited: false, points: Vec::new() };
    for load in &test.loads {
        let point = trial(bench, testbed, test, load_of(test, *load), (*load, trial_ns))?;
        match is_whole(test, &point) {
            true => found.highest = Some(found.highest.map_or(*load, |highest| highest.max(*load))),
            false => found.fails_at = Some(found.fails_at.map_or(*load, |least| least.min(*load))),
        }
        points.push(point);
    }
    // A load that passed above one that failed is luck.
    found.highest = found.highest.filter(|highest| found.fails_at.is_none_or(|fails| *highest < fails));
    Ok(found)
}

/// Halving between a load at which all succeed and one at which something fails.
fn search(
    bench: &mut Bench<'_>,
    testbed: &mut dyn Testbed,
    test: &Sessions,
    trial_ns: u64,
    points: &mut Vec<SessionPoint>,
) -> Result<SessionsFound, Halt> {
    let most = match test.of {
        SessionKind::ConcurrentConnections => f64::from(test.connections),
        of => {
            let load = match of {
                SessionKind::RequestRate => SessionLoad::RequestLoop(test.connections),
                _ => SessionLoad::ConnectionLoop(LOOP_CONNECTIONS),
            };
            let point = trial(bench, testbed, test, load, (0.0, trial_ns))?;
            let reached = point.answered_per_second;
            points.push(SessionPoint { load: reached, ..point });
            reached * ABOVE_LOOP
        }
    };
    let maximum = Number::from_pps((most as u64).max(LOAD_MIN + 1));
    let minimum = Number::from_pps(LOAD_MIN.min(maximum.pps()));
    let mut goal = Goal::new(minimum, maximum);
    (goal.duration_ns, goal.resolution, goal.loss_ratio, goal.trials_max) =
        (trial_ns, test.resolution, 0.0, TRIALS_MAX);
    let mut search = Search::new(goal).map_err(Halt::search)?;
    while let Some(number) = search.next() {
        let load = number.pps() as f64;
        let point = trial(bench, testbed, test, load_of(test, load), (load, trial_ns))?;
        search.record(in_words_of_search(test, &point, number, trial_ns)).map_err(Halt::search)?;
        points.push(point);
    }
    let outcome = search.outcome();
    let per_second = |bound: Option<Number>| bound.map(|bound| bound.pps() as f64);
    Ok(SessionsFound {
        highest: per_second(outcome.lower),
        fails_at: per_second(outcome.upper),
        tester_limited: outcome.limit == Limit::Tester,
        points: Vec::new(),
    })
}

fn load_of(test: &Sessions, load: f64) -> SessionLoad {
    match test.of {
        SessionKind::ConnectionRate => SessionLoad::ConnectionsPerSecond(load),
        SessionKind::ConcurrentConnections => SessionLoad::Concurrent(load as u32),
        SessionKind::RequestRate => SessionLoad::RequestsPerSecond(load, test.connections),
    }
}

fn trial(
    bench: &mut Bench<'_>,
    testbed: &mut dyn Testbed,
    test: &Sessions,
    load: SessionLoad,
    (number, duration_ns): (f64, u64),
) -> Result<SessionPoint, Halt> {
    let words = match load {
        SessionLoad::ConnectionsPerSecond(rate) => format!("{} connections", units::per_second(rate)),
        SessionLoad::Concurrent(count) => format!("{} connections at a time", units::count(count.into())),
        SessionLoad::RequestsPerSecond(rate, _) => format!("{} requests", units::per_second(rate)),
        SessionLoad::ConnectionLoop(count) | SessionLoad::RequestLoop(count) => {
            format!("as fast as {} connections can", units::count(count.into()))
        }
    };
    let order = bench.order(&words, Purpose::Search, Load::Full { duration_ns });
    bench.begin_trial(&order, None);
    let wanted = SessionsRequest { load, duration_ns, bytes: test.bytes, timeout_ns: test.timeout_ns };
    let (trial, point) = testbed.sessions(&order, &wanted)?;
    bench.keep(trial)?;
    Ok(SessionPoint { load: number, ..point })
}

/// The accounts that decide about a load.
fn deciding<'a>(test: &Sessions, point: &'a SessionPoint) -> Vec<&'a SessionAccount> {
    match test.of {
        SessionKind::RequestRate => vec![&point.requests],
        SessionKind::ConnectionRate | SessionKind::ConcurrentConnections => vec![&point.connections, &point.requests],
    }
}

fn is_whole(test: &Sessions, point: &SessionPoint) -> bool {
    let enough = test.of != SessionKind::ConcurrentConnections || point.connections.completed() as f64 >= point.load;
    enough && deciding(test, point).iter().all(|account| account.is_whole())
}

fn in_words_of_search(test: &Sessions, point: &SessionPoint, load: Number, duration_ns: u64) -> linerate_search::Trial {
    let accounts = deciding(test, point);
    let lost = accounts.iter().map(|account| account.begun().saturating_sub(account.completed())).max().unwrap_or(0);
    let account = if test.of == SessionKind::RequestRate { &point.requests } else { &point.connections };
    let wanted = if test.of == SessionKind::ConcurrentConnections { load.pps() } else { 0 };
    let intended = account.intended().max(wanted).max(1);
    let unsent = intended - account.begun().min(intended);
    let lost = lost.min(intended - unsent);
    linerate_search::Trial { load, duration_ns, intended, unsent, lost, lost_in_interruptions: 0 }
}
