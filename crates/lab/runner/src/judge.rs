//! The limits that a user set on a test's figures, against what was found.

use linerate_experiment::{Limit, LimitOf, TestSpec};
use linerate_report::{Goal, Latency, TestResult, median, units};

/// Each limit of the test as a goal, met or missed. What was not measured does not meet it.
pub(super) fn judge(test: &TestSpec, found: Option<&TestResult>) -> Vec<Goal> {
    test.limits.iter().flat_map(|limit| goals(test, limit, found)).collect()
}

fn goals(test: &TestSpec, limit: &Limit, found: Option<&TestResult>) -> Vec<Goal> {
    let figures = found.map(|found| figures(test, limit, found)).unwrap_or_default();
    if figures.is_empty() {
        return vec![goal(limit, limit.goal.as_deref().unwrap_or(""), None)];
    }
    figures.into_iter().map(|(name, value)| goal(limit, &name, value)).collect()
}

/// The figures that a limit is about, by name.
fn figures(test: &TestSpec, limit: &Limit, found: &TestResult) -> Vec<(String, Option<f64>)> {
    let one = |value: Option<f64>| vec![(String::new(), value)];
    match (limit.of, found) {
        (LimitOf::Rate, TestResult::Throughput { goals }) => {
            let has_own = |name: &str| test.limits.iter().any(|other| other.goal.as_deref() == Some(name));
            let is_meant = |name: &str| match &limit.goal {
                Some(goal) => goal == name,
                None => !has_own(name),
            };
            let meant = goals.iter().filter(|goal| is_meant(&goal.name));
            meant.map(|goal| (goal.name.clone(), goal.lower_pps)).collect()
        }
        (LimitOf::Rate, TestResult::MaxForwardingRate { pps, .. }) => one(Some(*pps)),
        (LimitOf::Rate, TestResult::Capacity { delivered_pps, .. }) => one(Some(median(delivered_pps))),
        (LimitOf::Rate, TestResult::NoLoss { pps, .. }) => one(*pps),
        (LimitOf::Rate, TestResult::Load { delivered_pps, .. }) => one(Some(*delivered_pps)),
        (LimitOf::Loss, TestResult::Load { sent_pps, delivered_pps }) => {
            one((*sent_pps > 0.0).then(|| (1.0 - delivered_pps / sent_pps).max(0.0)))
        }
        (LimitOf::Loss, TestResult::Soak { loss_ratio, .. }) => one(Some(*loss_ratio)),
        (LimitOf::P50 | LimitOf::P99 | LimitOf::P999, TestResult::Latency { points }) => points
            .iter()
            .map(|point| {
                let latency = point.latency.map(|latency| percentile(limit.of, &latency));
                (format!("at {} load", units::percent(point.share)), latency.map(|ns| ns as f64))
            })
            .collect(),
        (LimitOf::P50 | LimitOf::P99 | LimitOf::P999, TestResult::Ping { rtt, .. }) => {
            one(rtt.map(|rtt| percentile(limit.of, &rtt) as f64))
        }
        (LimitOf::Outage, TestResult::SystemRecovery { recovery_ns, .. }) => one(recovery_ns.map(|ns| ns as f64)),
        (LimitOf::Outage, TestResult::Reset { outage_ns, .. }) => one(outage_ns.map(|ns| ns as f64)),
        _ => Vec::new(),
    }
}

fn percentile(of: LimitOf, latency: &Latency) -> u64 {
    match of {
        LimitOf::P50 => latency.p50_ns,
        LimitOf::P999 => latency.p999_ns,
        _ => latency.p99_ns,
    }
}

fn goal(limit: &Limit, name: &str, value: Option<f64>) -> Goal {
    let (figure, words): (&str, fn(f64) -> String) = match limit.of {
        LimitOf::Rate => ("rate", units::pps),
        LimitOf::Loss => ("loss", units::percent),
        LimitOf::P50 => ("p50", units::nanoseconds),
        LimitOf::P99 => ("p99", units::nanoseconds),
        LimitOf::P999 => ("p99.9", units::nanoseconds),
        LimitOf::Outage => ("time without packets", units::nanoseconds),
    };
    let met = value.is_some_and(|value| match limit.of {
        LimitOf::Rate => value >= limit.bound,
        _ => value <= limit.bound,
    });
    let side = if limit.of == LimitOf::Rate { "at least" } else { "at most" };
    Goal {
        name: format!("{figure} {name}").trim_end().to_owned(),
        wanted: format!("{side} {}", words(limit.bound)),
        measured: value.map(words),
        met,
    }
}

#[cfg(test)]
mod tests {
    use linerate_experiment::{Search, TestKind};
    use linerate_report::{GoalFound, LimitedBy, SearchStop};

    use super::*;

    fn test(limits: Vec<Limit>) -> TestSpec {
        TestSpec {
            cells: vec![],
            kind: TestKind::Throughput { search: Search::Mlr { goals: vec![] }, time_max_ns: None },
            trial_ns: 1,
            limits,
        }
    }

    fn limit(of: LimitOf, goal: Option<&str>, bound: f64) -> Limit {
        Limit { of, goal: goal.map(str::to_owned), bound }
    }

    fn found(name: &str, lower_pps: Option<f64>) -> GoalFound {
        GoalFound {
            name: name.into(),
            loss_ratio: 0.0,
            exceed_ratio: 0.0,
            lower_pps,
            upper_pps: None,
            conditional_pps: None,
            width: 0.01,
            irregular: false,
            limited_by: LimitedBy::Loss,
            tester_limited: false,
            stop: SearchStop::Resolved,
            confirmations: 0,
            overturned: 0,
            outside_interruptions: false,
            with_interruptions: None,
        }
    }

    #[test]
    fn a_goal_of_its_own_comes_before_that_of_the_test() {
        let test = test(vec![limit(LimitOf::Rate, None, 1e6), limit(LimitOf::Rate, Some("PDR"), 3e6)]);
        let goals = vec![found("NDR", Some(1e6)), found("PDR", Some(2e6)), found("own", None)];
        let judged = judge(&test, Some(&TestResult::Throughput { goals }));
        let words: Vec<_> = judged.iter().map(|goal| (goal.name.as_str(), goal.wanted.as_str(), goal.met)).collect();
        let (million, three) = ("at least 1.000 Mpps", "at least 3.000 Mpps");
        assert_eq!(words, [("rate NDR", million, true), ("rate own", million, false), ("rate PDR", three, false)]);
        assert_eq!(judged[1].measured, None);
        let judged = judge(&test, None);
        assert!(judged.len() == 2 && judged.iter().all(|goal| !goal.met), "what was not measured is missed");
    }

    #[test]
    fn limits_of_loss_and_time_are_upper_ones() {
        let met = |of, bound, found: &TestResult| judge(&test(vec![limit(of, None, bound)]), Some(found))[0].met;
        let load = TestResult::Load { sent_pps: 100.0, delivered_pps: 99.0 };
        assert!(met(LimitOf::Loss, 0.02, &load) && !met(LimitOf::Loss, 0.005, &load));
        assert!(met(LimitOf::Rate, 99.0, &load) && !met(LimitOf::Rate, 99.5, &load));
        let reset = TestResult::Reset { how: String::new(), outage_ns: Some(5), outage_by_loss_ns: 5 };
        assert!(met(LimitOf::Outage, 5.0, &reset) && !met(LimitOf::Outage, 4.0, &reset));
        assert!(!met(
            LimitOf::Outage,
            1e9,
            &TestResult::SystemRecovery { recovery_ns: None, overload_pps: 1.0, after_pps: 1.0 }
        ));
    }
}
