//! What the tests with a tester share: what those of the testbed and of the ledger share, and trials on a path on which something is wrong.
#![allow(dead_code)] // Each test binary uses its own part.

#[path = "../../../ledger/tests/support/carry.rs"]
pub mod carry;
pub mod scenario;
#[path = "../../../testbed/tests/support/mod.rs"]
mod testbed;

use linerate_ledger::ledger::Ledger;
use linerate_testbed::topology::Topology;
use linerate_tester::{Tester, TesterSpec};
use linerate_testkit::or_skip;

pub use testbed::*;

/// A tester on the topology, or `None` after saying that the test is skipped because this user may not open its ports.
pub fn opened(topology: Topology, ports: &TesterSpec) -> Option<Tester> {
    or_skip("no tester", Tester::open(topology, ports))
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
