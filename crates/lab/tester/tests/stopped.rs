//! Ctrl-C in the middle of a trial: the account up to then, and it closes. One test in a process of its own, because a request to
//! stop is for all threads.

mod support;

use std::net::Ipv4Addr;
use std::time::Duration;

use linerate_experiment::{FlowOrder, FlowSpec};
use linerate_sys::signal;
use linerate_testbed::netlink::Netlink;
use linerate_testbed::topology::{Topology, TopologySpec};
use linerate_tester::{Interruption, Load, TesterSpec, TrialError, TrialSpec, fixed_size};
use support::{built, opened};

#[test]
fn a_stopped_trial_has_its_account_and_the_next_one_does_not_begin() {
    let Some(topology) = built(Topology::router(&TopologySpec::default())) else { return };
    let interface = topology.generator.interface.index;
    let mut netlink = Netlink::open_in(&topology.generator.namespace).expect("netlink");
    let Some(mut tester) = opened(topology, &TesterSpec::new("packet", "packet").both_ways()) else { return };
    let (source, destination) = (Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 101));
    let order = FlowOrder::Odometer;
    let flows = FlowSpec {
        source,
        sources: 5,
        destination,
        destinations: 5,
        ports: 2,
        order,
        ip: linerate_experiment::FlowIp::V4,
    };
    let size = fixed_size(64);
    let load = Load::Rate { pps: 5_000.0, duration_ns: 60_000_000_000 };
    let spec = TrialSpec { backward: Some(load), ..TrialSpec::new(&size, &flows, load) };
    let outcome = std::thread::scope(|scope| {
        scope.spawn(|| {
            while netlink.link_statistics(interface).expect("statistics").counters.tx_packets < 500 {
                std::thread::sleep(Duration::from_millis(1));
            }
            signal::request_stop();
        });
        tester.trial(&spec).expect("a partial account")
    });
    assert!(matches!(outcome.interrupted, Some(Interruption::Signal)), "{:?}", outcome.interrupted);
    let account = &outcome.ledger.account;
    assert!(account.delivered() >= 500 && account.intended() < 600_000, "{account:?}");
    assert_eq!(account.unexplained(), 0, "{:?}\n{:?}", outcome.ledger, outcome.readings.difference);
    assert!(matches!(tester.trial(&spec), Err(TrialError::Stopped)));
}
