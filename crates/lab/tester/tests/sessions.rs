//! Connections and requests between two stacks of the tester, through devices of the lab. The account of connections, that of requests and
//! the ledger of their packets leave nothing unexplained. Time limits are so long that no machine is too slow for them.

use super::support;

use linerate_experiment::{DutKind, EchoOrder, FlowSpec};
use linerate_ledger::counters::CounterSources;
use linerate_testbed::dut::Path;
use linerate_testbed::dut::bridge::Bridge;
use linerate_testbed::dut::router::{FirewallTool, Router};
use linerate_testbed::dut::switch::Switch;
use linerate_testbed::dut::switch_ports::SwitchPorts;
use linerate_testbed::topology::{LinkKind, TopologySpec};
use linerate_tester::tcp::echo::{self, EchoOutcome, EchoSpec};
use linerate_tester::tcp::{Ends, PairError, SessionLoad, SessionOutcome, SessionSpec, run_sessions};
use linerate_tester::tcp::{peers, udp_loop};
use linerate_tester::{Cores, Phases};
use support::assert_explained;
use support::carry::{device, device_on};
use support::scenario::{Scenario, in_dut};

const MS: u64 = 1_000_000;

fn spec(load: SessionLoad, flows: &FlowSpec) -> SessionSpec<'_> {
    SessionSpec {
        load,
        duration_ns: 300 * MS,
        bytes: 200,
        timeout_ns: 30_000 * MS,
        flows,
        cores: Cores::default(),
        phases: Phases { drain_ns: 20 * MS, drain_max_ns: 60_000 * MS, ..Phases::default() },
    }
}

fn sessions(kind: DutKind, load: SessionLoad, duration_ns: u64) -> Option<SessionOutcome> {
    let mut built = match kind.shares_memory() {
        false => device(kind)?,
        true => device_on(kind, &TopologySpec { link: LinkKind::Memif, ..TopologySpec::default() })?,
    };
    built.device.learn().expect("the device learns its stations");
    let flows = Scenario::default().flows();
    let spec = SessionSpec { duration_ns, ..spec(load, &flows) };
    let mut sources = built.path.topology().map(|topology| CounterSources::open(topology).expect("counters"));
    let mut ends = linerate_testkit::or_skip("no ports", Ends::open(&built.path, "packet", 1500))?;
    let outcome = run_sessions(&mut ends, sources.as_mut(), built.path.switch(), &spec, &mut || Ok(()));
    Some(outcome.unwrap_or_else(|error| panic!("{load:?}: {error}")))
}

/// Every connection and every request that was asked for came to its end, and every packet is in the ledger.
fn all_succeed(kind: DutKind) {
    for load in [SessionLoad::ConnectionsPerSecond(100.0), SessionLoad::Concurrent(20)] {
        // A busy machine can be away for all of a short load.
        let durations = [300 * MS, 3_000 * MS, 20_000 * MS];
        let mut outcomes = durations.iter().map(|duration_ns| sessions(kind.clone(), load, *duration_ns));
        let enough =
            |outcome: &Option<SessionOutcome>| outcome.as_ref().is_none_or(|outcome| succeeds(&kind, load, outcome));
        let Some(last) = outcomes.find(enough) else { panic!("{kind:?}, {load:?}: hardly a request in 20 seconds") };
        if last.is_none() {
            return;
        }
    }
}

/// Checks an outcome, and says whether there was time for enough.
fn succeeds(kind: &DutKind, load: SessionLoad, outcome: &SessionOutcome) -> bool {
    let (connections, requests) = (&outcome.point.connections, &outcome.point.requests);
    assert!(connections.is_whole() && connections.lost().is_empty(), "{kind:?}, {load:?}: {outcome:?}");
    assert!(requests.is_whole() && requests.lost().is_empty(), "{kind:?}, {load:?}: {outcome:?}");
    assert_eq!((connections.unexplained(), requests.unexplained()), (0, 0));
    // A handshake and the end of a connection take at least so many.
    assert!(outcome.ledger.account.sent() >= 5 * connections.completed(), "{kind:?}, {load:?}: {outcome:?}");
    assert_explained(&outcome.ledger, &format!("{kind:?}, {load:?}"));
    requests.completed() >= 20 && outcome.point.handshake.is_some() && outcome.point.answer.is_some()
}

fn nft(conntrack: bool, snat: bool) -> DutKind {
    DutKind::from(Router { tool: Some(FirewallTool::Nft), conntrack, snat, ..Router::default() })
}

#[test]
fn all_connections_pass_a_router() {
    all_succeed(DutKind::from(Router::default()));
}

#[test]
fn all_connections_pass_a_router_that_tracks_them_and_one_that_translates_their_addresses() {
    all_succeed(nft(true, false));
    all_succeed(nft(false, true));
}

#[test]
fn all_connections_pass_a_bridge_and_switches() {
    all_succeed(DutKind::from(Bridge));
    all_succeed(DutKind::from(Switch(SwitchPorts::Packet)));
    all_succeed(DutKind::from(Switch(SwitchPorts::Memif)));
}

#[test]
fn requests_that_do_not_fit_are_not_begun_and_the_rest_is_answered() {
    // One connection has one request at a time: nobody answers a million a second.
    let load = SessionLoad::RequestsPerSecond(1e6, 1);
    let Some(outcome) = sessions(DutKind::from(Router::default()), load, 3_000 * MS) else { return };
    let requests = &outcome.point.requests;
    assert!(requests.begun() < requests.intended(), "{outcome:?}");
    assert!(requests.completed() > 0 && requests.completed() == requests.begun(), "{outcome:?}");
    assert_eq!((requests.unexplained(), outcome.point.connections.unexplained()), (0, 0));
    assert_explained(&outcome.ledger, "more requests than one connection can make");
}

/// The load of three connections through a router that gets this rule once the way is known.
fn through_a_rule(rule: &str) -> Option<SessionOutcome> {
    let built = device(DutKind::from(Router::default()))?;
    let path = built.path.topology().expect("namespaces");
    let mut ends = linerate_testkit::or_skip("no ports", Ends::open(&built.path, "packet", 1500))?;
    let (flows, mut applied) = (Scenario::default().flows(), Ok(()));
    let spec = SessionSpec { timeout_ns: 500 * MS, ..spec(SessionLoad::Concurrent(3), &flows) };
    let rules = format!("table ip lab {{ chain c {{ type filter hook forward priority 0; {rule}; }}; }}");
    let outcome = run_sessions(&mut ends, None, None, &spec, &mut || {
        applied = in_dut(path, "nft", &[&rules]);
        Ok(())
    });
    linerate_testkit::or_skip("no rule", applied)?;
    Some(outcome.unwrap_or_else(|error| panic!("{rule}: {error}")))
}

#[test]
fn connections_that_a_router_refuses_or_does_not_carry_are_told_apart() {
    for (rule, cause) in [("tcp dport 7 reject with tcp reset", "refused"), ("tcp dport 7 drop", "timed out")] {
        let Some(outcome) = through_a_rule(rule) else { return };
        let connections = &outcome.point.connections;
        assert_eq!((connections.completed(), connections.unexplained()), (0, 0), "{rule}: {outcome:?}");
        let lost = connections.lost();
        assert!(lost.len() == 1 && lost[0].cause == cause && lost[0].count == connections.begun(), "{rule}: {lost:?}");
        assert!(connections.begun() >= 3 && outcome.point.requests.begun() == 0, "{rule}: {outcome:?}");
    }
}

#[test]
fn a_path_that_carries_nothing_is_told_before_the_load() {
    let Some(built) = device(DutKind::from(Router::default())) else { return };
    let path = built.path.topology().expect("namespaces");
    let ends = Ends::open(&built.path, "packet", 1500);
    let Some(mut ends) = linerate_testkit::or_skip("no ports", ends) else { return };
    let rules = "table ip lab { chain c { type filter hook forward priority 0; drop; }; }";
    let Some(()) = linerate_testkit::or_skip("no rule", in_dut(path, "nft", &[rules])) else { return };
    let flows = Scenario::default().flows();
    let spec = spec(SessionLoad::Concurrent(1), &flows);
    let outcome = run_sessions(&mut ends, None, None, &spec, &mut || panic!("there is no way through"));
    assert!(matches!(outcome, Err(PairError::Unreachable)), "{outcome:?}");
}

#[test]
fn echoes_over_standing_connections_lose_none_and_count_their_segments() {
    let mut ends = Ends::open(&Path::InProcess, "pipe", 1500).expect("a link in memory");
    let orders = [EchoOrder::Reply, EchoOrder::RoundRobin];
    for connections in [1, 40, 1_000] {
        let spec = EchoSpec { connections, orders: &orders, duration_ns: 50 * MS, cores: [None, None] };
        let outcome = echo::run(&mut ends, &spec).unwrap_or_else(|error| panic!("{connections}: {error}"));
        assert_eq!(
            outcome.found.points.iter().map(|point| point.order.as_str()).collect::<Vec<_>>(),
            ["reply", "round-robin"]
        );
        for point in &outcome.found.points {
            assert!(point.per_second > 0.0 && point.connections_lost == 0, "{outcome:?}");
            // A byte there and a byte back.
            assert!((1.9..3.0).contains(&point.segments_per_echo), "{outcome:?}");
        }
        assert!(outcome.found.set_up_per_core_second > 0.0 && outcome.found.torn_down_per_core_second > 0.0);
        let [client, server] = outcome.packets;
        assert_eq!((client.0, client.1), (server.1, server.0), "{outcome:?}");
    }
}

#[test]
fn every_connection_and_every_byte_of_an_echo_is_in_the_account() {
    let mut ends = Ends::open(&Path::InProcess, "pipe", 1500).expect("a link in memory");
    let orders = [EchoOrder::Reply, EchoOrder::RoundRobin];
    let spec = EchoSpec { connections: 300, orders: &orders, duration_ns: 20 * MS, cores: [None, None] };
    assert_whole(&echo::run(&mut ends, &spec).expect("echoes"), 300);
}

fn assert_whole(outcome: &EchoOutcome, connections: u64) {
    let of_connections = &outcome.found.connection_account;
    assert_eq!(of_connections.intended(), connections, "{outcome:?}");
    assert!(of_connections.is_whole() && of_connections.unexplained() == 0, "{outcome:?}");
    for point in &outcome.found.points {
        assert!(point.per_second > 0.0 && point.echoes.completed() > 0, "{outcome:?}");
        assert!(point.echoes.is_whole() && point.echoes.unexplained() == 0, "{outcome:?}");
        assert!(point.segments_per_echo > 1.0, "{outcome:?}");
    }
    let [client, server] = outcome.packets;
    assert_eq!((client.0, client.1), (server.1, server.0), "{outcome:?}");
}

#[test]
fn datagrams_go_back_and_forth_and_none_is_lost() {
    let mut ends = Ends::open(&Path::InProcess, "pipe", 1500).expect("a link in memory");
    let outcome = udp_loop::run(&mut ends, 20 * MS, [None, None]).expect("a loop");
    let datagrams = &outcome.found.datagrams;
    assert!(datagrams.completed() > 1_000 && datagrams.is_whole(), "{outcome:?}");
    assert!(outcome.found.per_second > 0.0 && outcome.found.per_core_second > 0.0, "{outcome:?}");
    let [first, second] = outcome.packets;
    assert_eq!((first.0, first.1), (second.1, second.0), "{outcome:?}");
}

#[test]
fn other_stacks_echo_under_the_same_load() {
    let orders = [EchoOrder::Reply, EchoOrder::RoundRobin];
    for connections in [1, 40] {
        let spec = EchoSpec { connections, orders: &orders, duration_ns: 20 * MS, cores: [None, None] };
        let mut ends = Ends::open(&Path::InProcess, "pipe", 1500).expect("a link in memory");
        assert_whole(&peers::smoltcp(&mut ends, &spec).expect("echoes by smoltcp"), connections as u64);
        for (why, peer) in [("no namespaces for Linux's TCP", peers::linux(&spec)), ("no lwIP", peers::lwip(&spec))] {
            if let Some(outcome) = linerate_testkit::or_skip(why, peer) {
                assert_whole(&outcome, connections as u64);
            }
        }
    }
}

#[test]
fn more_connections_than_another_stack_is_made_for_are_refused_with_the_reason() {
    let spec = EchoSpec { connections: 1_000_000, orders: &[], duration_ns: MS, cores: [None, None] };
    let mut ends = Ends::open(&Path::InProcess, "pipe", 1500).expect("a link in memory");
    for refused in [peers::smoltcp(&mut ends, &spec), peers::linux(&spec), peers::lwip(&spec)] {
        assert!(refused.expect_err("too many").to_string().contains("at most"));
    }
}
