//! Ladders of loads for captures, on a made-up one.

use linerate_report::{RingTrend, TestResult};
use linerate_testbed::dut::parse;

use super::made_up::MadeUp;
use super::{End, all};

const FILE: &str = r#"name = "made-up"
title = "Made up"
[[dut]]
name = "c"
kind = "capture"
buffer = ["512KiB", "1MiB"]
[[dut]]
name = "router"
kind = "router"
[matrix]
sizes = [64]
flows = [1]
directions = ["one-port", "two-ports"]
[[test]]
kind = "capture"
loads = ["100kpps", "400kpps"]
"#;

#[test]
fn each_load_is_a_point_and_the_best_setting_is_named() {
    let experiment = parse(FILE, "made-up.toml").unwrap_or_else(|errors| panic!("{errors}"));
    // 200 kpps of a port are captured: half of the second load.
    let (results, end, kept) = all(&experiment, FILE, &mut MadeUp::new(200_000.0, 2_000_000.0));
    assert!(matches!(end, Ok(End::Complete)) && results.complete);
    let (captures, routers) = results.cells.split_at(4);
    for cell in captures {
        let ways = if cell.direction == "two ports" { 2.0 } else { 1.0 };
        let finding = &cell.findings[0];
        let Some(TestResult::Capture { points }) = &finding.result else { panic!("{finding:?}") };
        assert_eq!((points.len(), finding.trials.len()), (2, 2));
        let [low, high] = points.as_slice() else { panic!("two loads") };
        assert_eq!((low.load_pps, high.load_pps), (1e5 * ways, 4e5 * ways), "of all ports together");
        assert_eq!((low.captured_of_sent, low.capture_ratio, low.ring_trend()), (1.0, Some(1.0), RingTrend::Steady));
        assert_eq!(
            (high.captured_of_sent, high.capture_ratio, high.ring_trend()),
            (0.5, Some(0.5), RingTrend::Overflowed)
        );
        assert_eq!((high.ports.len() as f64, high.cpu_ns_per_packet), (ways, Some(1000.0)));
        assert_eq!(low.idle_share, None, "nobody read the cores' times");
    }
    for cell in routers {
        let why = cell.findings[0].error.as_deref().unwrap_or_default();
        assert!(
            why.contains("no capture") && cell.direction.ends_with("way") | cell.direction.ends_with("ways"),
            "{why}"
        );
    }
    let words = results.recommendation.join(" ");
    assert!(words.contains("Best setting for this host: c-512KiB. At 800.0 kpps (64 B, two ports)"), "{words}");
    assert!(words.contains("2 settings captured as much") && words.contains("its ring was full"), "{words}");
    assert!(kept.saves > 0);
}
