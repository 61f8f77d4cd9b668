//! Body of the fuzz target `experiments`: any text as an experiment file. Also run by the tests of `linerate-experiment`.

use std::collections::HashSet;

use linerate_experiment::{Experiment, TEXT_LEN_MAX, TestKind, TopologyKind};
use linerate_testbed::dut::parse;

/// Reads the bytes as an experiment file. What is taken keeps all bounds; what is refused says where, and all of it.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match parse(text, "x.toml") {
        Ok(experiment) => check(text, &experiment),
        Err(errors) => {
            assert!(!errors.problems.is_empty());
            for problem in &errors.problems {
                assert!(!problem.message.is_empty());
                assert!(problem.line >= 1 && problem.line <= text.matches('\n').count() + 1);
                assert!(problem.column >= 1 && problem.column <= text.chars().count() + 1);
            }
            assert!(errors.to_string().starts_with("error: x.toml:"));
        }
    }
}

fn check(text: &str, experiment: &Experiment) {
    assert!(text.len() <= TEXT_LEN_MAX && !experiment.name.is_empty() && !experiment.tests.is_empty());
    assert!((1..=1_000).contains(&experiment.repetitions) && (0.0..=1.0).contains(&experiment.steal_max));
    let cells = experiment.cells();
    assert!((1..=10_000).contains(&cells.len()));
    let ids: HashSet<&String> = cells.iter().map(|cell| &cell.id).collect();
    assert_eq!(ids.len(), cells.len(), "{text}");
    for size in &experiment.sizes {
        let fits = |(wire, weight): &(u32, u32)| (64..=experiment.mtu + 18).contains(wire) && *weight > 0;
        assert!(!size.parts.is_empty() && size.parts.iter().all(fits), "{text}");
    }
    for flows in &experiment.flows {
        assert!((1..=16 << 20).contains(&flows.count()), "{text}");
        let end = |first: std::net::Ipv4Addr, count: u64| u64::from(u32::from(first)) + count;
        let (sources, destinations) = (end(flows.source, flows.sources), end(flows.destination, flows.destinations));
        let apart = sources <= end(flows.destination, 0) || destinations <= end(flows.source, 0);
        assert!(apart && sources <= 1 << 32 && destinations <= 1 << 32, "{text}");
    }
    let estimate = experiment.estimate();
    assert!(estimate.cells == cells.len() && estimate.trials > 0 && estimate.duration_ns > 0);
    for test in &experiment.tests {
        assert!(test.trial_ns > 0);
        if let TestKind::Latency { shares, idle_pps, .. } = &test.kind {
            assert!(*idle_pps >= 1.0 && shares.iter().all(|share| (0.0..1.0).contains(share)), "{text}");
        }
    }
    if experiment.topology == TopologyKind::InProcess {
        assert!(experiment.testers.is_empty());
    }
}
