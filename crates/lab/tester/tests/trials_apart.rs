//! Trials one after the other on a path that holds packets back: the account of each is about its own packets.

use super::support;

use linerate_testbed::topology::{Topology, TopologySpec};
use linerate_tester::{Load, Outcome, TesterSpec, TrialSpec, fixed_size};
use linerate_testkit::or_skip;

use support::scenario::{Scenario, in_dut, token_bucket};
use support::{built, opened};

/// Packets of a trial, each way.
const PACKETS: u64 = 3000;
/// A token bucket lets 208 of them pass in a second, so a trial's queue outlasts the waits before and after a trial.
const SLOW: &str = "100kbit";

/// Trials, one after the other, on a router with such a token bucket on some of its interfaces; none, having said why, where that
/// cannot be.
fn trials(count: usize, ports: &TesterSpec, interfaces: &[&str], rate: &str) -> Option<Vec<Outcome>> {
    let topology = built(Topology::router(&TopologySpec::default()))?;
    let prepared = interfaces.iter().try_for_each(|name| in_dut(&topology, "tc", &token_bucket(name, rate)));
    or_skip("not prepared", prepared)?;
    let mut tester = opened(topology, ports)?;
    let (size, flows) = (fixed_size(64), Scenario::default().flows());
    let load = Load::Burst { packets: PACKETS };
    let backward = ports.both_ways.then_some(load);
    let spec = TrialSpec { backward, ..TrialSpec::new(&size, &flows, load) };
    Some((0..count).map(|_| tester.trial(&spec).expect("a trial")).collect())
}

fn queued_at(outcome: &Outcome, place: &str) -> u64 {
    let rows = outcome.ledger.account.lost().iter();
    rows.filter(|loss| loss.place == place && loss.cause.starts_with("still queued")).map(|loss| loss.packets).sum()
}

fn other_streams(outcome: &Outcome) -> u64 {
    outcome.ways.iter().map(|way| way.arrivals.other_streams).sum()
}

/// All that is missing has a row, none of it two, and each row says what to do.
fn assert_explained(outcome: &Outcome) {
    let account = &outcome.ledger.account;
    eprintln!("{} sent, {} delivered, {} of other trials", account.sent(), account.delivered(), other_streams(outcome));
    assert!((0..=3).contains(&account.unexplained()), "{:#?}", outcome.ledger);
    assert_eq!((account.duplicated(), account.reordered()), (0, 0), "{:#?}", outcome.ledger);
    assert!(account.lost().iter().all(|loss| loss.hint.is_some()), "{:#?}", outcome.ledger);
}

/// Packets of the first trial come in the second one, and those of both in the third.
#[test]
fn a_queue_that_outlasts_the_trials() {
    for receiver in ["sink", "packet"] {
        let Some(outcomes) = trials(3, &TesterSpec::new("packet", receiver), &["lr-out"], SLOW) else { return };
        for outcome in &outcomes {
            assert_explained(outcome);
            assert!(queued_at(outcome, "lr-out") > 0, "{receiver}: {:#?}", outcome.ledger);
            assert!(outcome.notes.iter().any(|note| note.contains("did not come to rest")), "{:?}", outcome.notes);
        }
        assert_eq!(other_streams(&outcomes[0]), 0);
        assert!(outcomes[1..].iter().all(|outcome| other_streams(outcome) > 0), "{receiver}: {outcomes:#?}");
    }
}

/// The queue empties while the next trial waits for the path to come to rest.
#[test]
fn a_queue_that_empties_before_the_next_trial() {
    for receiver in ["sink", "packet"] {
        let Some(outcomes) = trials(3, &TesterSpec::new("packet", receiver), &["lr-out"], "500kbit") else { return };
        for outcome in &outcomes {
            assert_explained(outcome);
            assert!(outcome.ledger.account.delivered() > 0, "{receiver}: {:#?}", outcome.ledger);
        }
    }
}

/// Each way has a queue of its own.
#[test]
fn queues_both_ways_that_outlast_the_trials() {
    for receiver in ["sink", "packet"] {
        let ports = TesterSpec::new("packet", receiver).both_ways();
        let Some(outcomes) = trials(2, &ports, &["lr-in", "lr-out"], SLOW) else { return };
        for outcome in &outcomes {
            assert_explained(outcome);
            for place in ["lr-in", "lr-out"] {
                assert!(queued_at(outcome, place) > 0, "{receiver}, {place}: {:#?}", outcome.ledger);
            }
        }
        assert!(outcomes[1].ways.iter().all(|way| way.arrivals.other_streams > 0), "{receiver}: {outcomes:#?}");
    }
}
