//! Searches and ladders of connections and requests, on devices made up of numbers.

use linerate_report::{SessionsFound, TestResult};

use super::made_up::MadeUp;
use super::{all, experiment};

/// What the test finds through a device that carries so many and a tester that begins so many.
fn found(test: &str, carries: f64, begins: f64) -> SessionsFound {
    let (experiment, file) = experiment("", &format!("[[test]]\n{test}"));
    let (results, end, _) = all(&experiment, &file, &mut MadeUp::new(carries, begins));
    assert!(end.is_ok() && results.complete, "{end:?}");
    match results.cells[0].findings[0].result.clone() {
        Some(
            TestResult::ConnectionRate(found)
            | TestResult::ConcurrentConnections(found)
            | TestResult::RequestRate(found),
        ) => found,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_search_ends_at_what_the_device_carries() {
    for kind in ["connection-rate", "request-rate", "concurrent-connections"] {
        let found = found(&format!("kind = \"{kind}\"\nresolution = 0.02"), 20_000.0, 1e6);
        let (highest, fails_at) = (found.highest.expect("a load"), found.fails_at.expect("a bound"));
        assert!((19_000.0..=20_000.5).contains(&highest), "{kind}: {found:?}");
        assert!((20_000.0..=21_000.0).contains(&fails_at) && highest < fails_at, "{kind}: {found:?}");
        assert!(!found.tester_limited && found.points.len() >= 2, "{kind}: {found:?}");
    }
}

#[test]
fn what_the_tester_cannot_begin_is_its_own_limit() {
    let found = found("kind = \"connection-rate\"", 1e6, 5_000.0);
    assert!(found.tester_limited, "{found:?}");
    assert!(found.highest.is_some_and(|highest| highest <= 5_001.0), "{found:?}");
}

#[test]
fn a_ladder_tries_the_loads_that_are_named_and_a_pass_above_a_failure_does_not_count() {
    let ladder =
        |loads: &str, carries| found(&format!("kind = \"concurrent-connections\"\nloads = {loads}"), carries, 1e6);
    let found = ladder("[10, 200, 50, 100]", 60.0);
    assert_eq!((found.highest, found.fails_at), (Some(50.0), Some(100.0)));
    assert_eq!(found.points.iter().map(|point| point.load).collect::<Vec<_>>(), [10.0, 200.0, 50.0, 100.0]);
    let lost = |at: usize| found.points[at].connections.lost_total();
    assert_eq!((lost(0), lost(1), lost(2), lost(3)), (0, 140, 0, 40));
    let found = ladder("[100]", 60.0);
    assert_eq!((found.highest, found.fails_at), (None, Some(100.0)));
}

#[test]
fn a_device_that_carries_no_connection_has_no_highest_load() {
    let found = found("kind = \"connection-rate\"", 0.0, 1e6);
    assert_eq!(found.highest, None, "{found:?}");
    assert!(found.fails_at.is_some(), "{found:?}");
}
