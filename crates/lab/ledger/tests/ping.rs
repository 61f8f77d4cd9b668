//! Round trips by the program `ping`. Where it is not installed, or no namespace can be made, the tests are skipped.

use super::support;

use linerate_experiment::DutKind;
use linerate_report::TestResult;
use linerate_testbed::dut::bridge::Bridge;
use linerate_testbed::dut::capture::{Capture, CaptureCores, CaptureTool, Reception};
use linerate_testbed::dut::none::Direct;
use linerate_testbed::dut::router::Router;
use linerate_testbed::dut::{self, DutError};
use support::carry::{Direction, PACKETS, carry_some, device};

const MS: u64 = 1_000_000;

#[test]
fn echoes_come_back_over_the_path_and_through_a_bridge_and_leave_it_quiet() {
    for kind in [DutKind::from(Direct), DutKind::from(Bridge)] {
        let Some(mut built) = device(kind.clone()) else { continue };
        let topology = built.path.topology().expect("namespaces");
        let found = match dut::ping(topology, 200 * MS, 10 * MS) {
            Err(DutError::Missing { program, .. }) => return eprintln!("skipped: {program} is not installed"),
            found => found.unwrap_or_else(|error| panic!("{kind:?}: {error}")),
        };
        let TestResult::Ping { sent: 20, interval_ns, rtt: Some(rtt) } = found else { panic!("{kind:?}: {found:?}") };
        assert_eq!(interval_ns, 10 * MS);
        assert!((1..=20).contains(&rtt.samples) && rtt.min_ns > 0 && rtt.min_ns <= rtt.p50_ns, "{rtt:?}");
        assert!(rtt.p50_ns <= rtt.p99_ns && rtt.p99_ns <= rtt.max_ns, "{rtt:?}");
        // Afterwards nobody speaks unasked: every packet on the path is the test's.
        if kind == DutKind::from(Bridge) {
            carry_some(&mut built, Direction::Forward, PACKETS).all_delivered();
        }
    }
}

#[test]
fn a_device_that_does_not_carry_frames_as_they_are_is_told() {
    let capture = Capture {
        tool: CaptureTool::Packet,
        receive: Reception::Interrupt,
        cores: CaptureCores::All,
        buffer_bytes: 1 << 20,
        file: false,
    };
    for kind in [DutKind::from(Router::default()), DutKind::from(capture)] {
        let Some(built) = device(kind) else { continue };
        let found = dut::ping(built.path.topology().expect("namespaces"), 10 * MS, 10 * MS);
        let error = found.expect_err("no echo comes back").to_string();
        assert!(error.contains("carries frames as they are"), "{error}");
    }
}
