//! What the tests with a tester share: what those of the testbed and of the ledger share, and trials on a path on which something is wrong.
#![allow(dead_code)] // Each test binary uses its own part.

#[path = "../../../ledger/tests/support/carry.rs"]
pub mod carry;
pub mod scenario;
#[path = "../../../testbed/tests/support/mod.rs"]
mod testbed;

use std::net::Ipv4Addr;

use linerate_experiment::{FlowIp, FlowOrder, FlowSpec};
use linerate_ledger::ledger::Ledger;
use linerate_sys::affinity::allowed_cores;
use linerate_testbed::placement::Placement;
use linerate_testbed::topology::{Topology, TopologySpec};
use linerate_tester::{Cores, Tester, TesterSpec};
use linerate_testkit::or_skip;

pub use testbed::*;

/// A tester on the topology, or `None` after saying that the test is skipped because this user may not open its ports.
pub fn opened(topology: Topology, ports: &TesterSpec) -> Option<Tester> {
    or_skip("no tester", Tester::open(topology, ports))
}

/// Ten sources to ten destinations, in odometer order.
pub fn hundred_flows() -> FlowSpec {
    FlowSpec {
        source: Ipv4Addr::new(192, 0, 2, 1),
        sources: 10,
        destination: Ipv4Addr::new(192, 0, 2, 101),
        destinations: 10,
        ports: 1,
        order: FlowOrder::Odometer,
        ip: FlowIp::V4,
    }
}

/// A path whose first hops work in NAPI threads on the last core.
pub fn threaded() -> TopologySpec {
    TopologySpec { placement: Placement::Thread { core: allowed_cores().last().copied() }, ..TopologySpec::default() }
}

/// As [`opened`], on a [`threaded`] path: its NAPI threads on the last core, where that can be had, and the tester's own on the first.
pub fn placed(topology: Topology, ports: &TesterSpec) -> Option<(Tester, Cores)> {
    let cores = allowed_cores();
    let (generator, dut) = (cores.first().copied(), cores.last().copied());
    let mut tester = opened(topology, ports)?;
    tester.place(Placement::Thread { core: dut }).expect("placed");
    Some((tester, Cores { generator, generator_back: None, dut, receiver: generator }))
}

/// Every packet that was sent arrived, or was lost where a counter of that loss says so; and some arrived.
///
/// An account closes by itself where a place takes what is missing because nothing else stands there: such a place explains nothing.
pub fn assert_explained(ledger: &Ledger, what: &str) {
    let account = &ledger.account;
    assert!(account.delivered() > 0, "{what}: {ledger:?}");
    assert_eq!(account.unexplained(), 0, "{what}: {ledger:?}");
    let guessed = account.lost().iter().any(|loss| loss.is_inferred());
    assert!(!guessed && ledger.unnamed.is_empty(), "{what}: {ledger:?}");
}
