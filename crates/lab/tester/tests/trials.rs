//! Trials of the tester on paths of namespaces and inside the process: what is counted adds up, both ways too.

use super::support;

use std::net::Ipv4Addr;

use linerate_experiment::{FlowOrder, FlowSpec, SizeSpec};
use linerate_testbed::topology::{Topology, TopologyError, TopologySpec};
use linerate_tester::{Cores, Learning, Load, Outcome, Phases, Recovery, Tester, TesterSpec, TrialSpec, fixed_size};
use support::{built, hundred_flows, placed, threaded};

fn flows(sources: u64, destinations: u64, ports: u64, order: FlowOrder) -> FlowSpec {
    let (source, destination) = (Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 101));
    FlowSpec { source, sources, destination, destinations, ports, order, ip: linerate_experiment::FlowIp::V4 }
}

const MS: u64 = 1_000_000;

/// A tester on a path, with its first hops in NAPI threads where that can be had.
fn tester(make: fn(&TopologySpec) -> Result<Topology, TopologyError>, ports: &TesterSpec) -> Option<(Tester, Cores)> {
    placed(built(make(&threaded()))?, ports)
}

fn balanced(outcome: &Outcome) {
    let account = &outcome.ledger.account;
    assert_eq!(account.unexplained(), 0, "{:?}\n{:?}", outcome.ledger, outcome.readings.difference);
    assert!(outcome.interrupted.is_none(), "{:?}", outcome.interrupted);
    let sum = |of: fn(&linerate_report::Counted) -> u64| outcome.ways.iter().map(|way| of(&way.counted)).sum::<u64>();
    assert_eq!(
        (account.intended(), account.sent(), account.delivered()),
        (sum(|c| c.intended), sum(|c| c.sent), sum(|c| c.delivered))
    );
    assert!(account.delivered() > 0, "{:?}", outcome.ledger);
}

/// A trial in which something was sent: where others use all cores, a sending thread can be without one for a whole load.
fn measured(tester: &mut Tester, spec: &TrialSpec<'_>) -> Outcome {
    for _ in 0..20 {
        let outcome = tester.trial(spec).expect("a trial");
        if outcome.ways.iter().all(|way| way.counted.sent > 0) {
            return outcome;
        }
        assert_eq!(outcome.ledger.account.unexplained(), 0, "{:?}", outcome.ledger);
    }
    panic!("the sending thread has no core at all")
}

fn kinds() -> [TesterSpec; 2] {
    [TesterSpec::new("xdp", "sink"), TesterSpec::new("packet", "packet")]
}

#[test]
fn both_ways_close_over_the_sum_paced_and_at_full_rate() {
    for ports in kinds() {
        for make in [Topology::direct, Topology::router] {
            let Some((mut tester, cores)) = tester(make, &ports.clone().both_ways()) else { continue };
            let (size, flows) = (fixed_size(64), hundred_flows());
            for load in [Load::Rate { pps: 20_000.0, duration_ns: 100 * MS }, Load::Full { duration_ns: 100 * MS }] {
                let spec = TrialSpec { backward: Some(load), cores, ..TrialSpec::new(&size, &flows, load) };
                let outcome = measured(&mut tester, &spec);
                balanced(&outcome);
                assert_eq!(outcome.ways.len(), 2);
                if let Load::Rate { .. } = load {
                    assert!(outcome.ways.iter().all(|way| way.counted.intended == 2_000), "{:?}", outcome.ways);
                }
                eprintln!("{ports:?} {load:?}: {:?}", outcome.ledger.account);
            }
        }
    }
}

#[test]
fn each_direction_has_its_own_rate() {
    let Some((mut tester, cores)) = tester(Topology::router, &TesterSpec::new("packet", "packet").both_ways()) else {
        return;
    };
    let (size, flows) = (fixed_size(128), hundred_flows());
    let forward = Load::Rate { pps: 10_000.0, duration_ns: 100 * MS };
    let backward = Some(Load::Rate { pps: 3_000.0, duration_ns: 100 * MS });
    let spec = TrialSpec { backward, cores, ..TrialSpec::new(&size, &flows, forward) };
    let outcome = measured(&mut tester, &spec);
    balanced(&outcome);
    let intended: Vec<u64> = outcome.ways.iter().map(|way| way.counted.intended).collect();
    assert_eq!(intended, [1_000, 300]);
}

#[test]
fn one_way_testers_refuse_load_both_ways() {
    let Some((mut tester, _)) = tester(Topology::direct, &TesterSpec::new("packet", "packet")) else { return };
    let (size, flows) = (fixed_size(64), hundred_flows());
    let load = Load::Rate { pps: 1_000.0, duration_ns: 100 * MS };
    let spec = TrialSpec { backward: Some(load), ..TrialSpec::new(&size, &flows, load) };
    assert!(tester.trial(&spec).is_err());
    balanced(&measured(&mut tester, &TrialSpec::new(&size, &flows, load)));
}

#[test]
fn mixed_sizes_random_flows_and_bursts_are_counted_to_the_packet() {
    for ports in kinds() {
        let Some((mut tester, cores)) = tester(Topology::router, &ports) else { continue };
        let size = SizeSpec { label: "IMIX".into(), parts: vec![(64, 28), (570, 16), (1518, 4)] };
        let flows = flows(20, 30, 7, FlowOrder::Random(5));
        let load = Load::Rate { pps: 12_000.0, duration_ns: 100 * MS };
        let outcome = measured(&mut tester, &TrialSpec { cores, ..TrialSpec::new(&size, &flows, load) });
        balanced(&outcome);
        if outcome.ledger.account.unsent() == 0 {
            // 100 rounds of 7 x 60, 4 x 566 and 1 x 1514 bytes.
            assert_eq!(outcome.ways[0].sending.bytes, 100 * (7 * 60 + 4 * 566 + 1514));
        }
        let burst = Load::Burst { packets: 777 };
        let outcome = measured(&mut tester, &TrialSpec { cores, ..TrialSpec::new(&size, &flows, burst) });
        balanced(&outcome);
        assert_eq!(outcome.ledger.account.intended(), 777);
    }
}

#[test]
fn learning_packets_are_in_no_count() {
    for ports in kinds() {
        let Some((mut tester, cores)) = tester(Topology::router, &ports) else { continue };
        let (size, flows) = (fixed_size(64), hundred_flows());
        let learning = Learning::EachFlow { packets: 2, pps: 10_000.0 };
        let phases = Phases { learning, wait_ns: MS, rest_ns: MS, ..Phases::default() };
        let load = Load::Rate { pps: 5_000.0, duration_ns: 20 * MS };
        let outcome = measured(&mut tester, &TrialSpec { cores, phases, ..TrialSpec::new(&size, &flows, load) });
        balanced(&outcome);
        assert_eq!(outcome.ledger.account.intended(), 100);
        assert!(outcome.ways[0].arrivals.received <= 100, "{:?}", outcome.ways[0].arrivals);
    }
}

#[test]
fn a_step_has_no_gap_and_its_losses_have_times() {
    for ports in kinds() {
        let Some((mut tester, cores)) = tester(Topology::router, &ports) else { continue };
        let (size, flows) = (fixed_size(64), hundred_flows());
        let load =
            Load::Step { before_pps: Some(20_000.0), before_ns: 50 * MS, after_pps: 10_000.0, after_ns: 50 * MS };
        let spec = TrialSpec { cores, timed: true, ..TrialSpec::new(&size, &flows, load) };
        let outcome = measured(&mut tester, &spec);
        balanced(&outcome);
        let way = &outcome.ways[0];
        assert_eq!(way.counted.intended, 1_500);
        let timeline = way.arrivals.timeline.expect("timed");
        assert!(timeline.first_ns < timeline.last_ns && timeline.silence_end_ns > 0, "{timeline:?}");
        if way.counted.delivered == way.counted.sent {
            assert_eq!((way.recovery(), timeline.last_loss), (Some(Recovery::AtOnce), None));
        }
    }
}

#[test]
fn inside_the_process_with_and_without_a_device() {
    for with_device in [false, true] {
        let made = if with_device { Tester::in_process_with_wire() } else { Tester::in_process() };
        let mut tester = made.expect("memory");
        let (size, flows) = (fixed_size(64), hundred_flows());
        for load in [Load::Rate { pps: 50_000.0, duration_ns: 50 * MS }, Load::Full { duration_ns: 20 * MS }] {
            for backward in [None, Some(load)] {
                let spec = TrialSpec { backward, ..TrialSpec::new(&size, &flows, load) };
                let outcome = measured(&mut tester, &spec);
                balanced(&outcome);
                assert_eq!(outcome.ledger.account.delivered(), outcome.ledger.account.sent(), "a pipe loses nothing");
                assert!(outcome.delays.is_some());
            }
        }
    }
}
