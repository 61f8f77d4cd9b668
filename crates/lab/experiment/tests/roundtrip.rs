//! Any valid experiment, written as TOML, is read back as it was.

use super::render;

use std::net::{Ipv4Addr, Ipv6Addr};

use linerate_experiment::{
    Addresses6, CellMatch, Cores, CoresSpec, Direction, DutCores, DutKind, DutSpec, EchoOrder, EchoStack, Experiment,
    FlowIp, FlowOrder, FlowSpec, Limit, LimitOf, LossGoal, NextHop, Phases, PortEnd, Published, Search, SessionKind,
    Sessions, SizeSpec, TestKind, TestSpec, TesterPorts, TimestampSource, TopologyKind,
};
use linerate_testbed::dut::bridge::Bridge;
use linerate_testbed::dut::capture::{Capture, CaptureCores, CaptureTool, Reception};
use linerate_testbed::dut::command::Command;
use linerate_testbed::dut::external::External;
use linerate_testbed::dut::flow_table::FlowSwitch;
use linerate_testbed::dut::none::Direct;
use linerate_testbed::dut::ofswitch::OfSwitch;
use linerate_testbed::dut::ovs::OpenVswitch;
use linerate_testbed::dut::pipe::Pipe;
use linerate_testbed::dut::router::{FirewallTool, Router};
use linerate_testbed::dut::switch::Switch;
use linerate_testbed::dut::switch_ports::SwitchPorts;
use linerate_testbed::dut::xdp::XdpForwarder;
use linerate_testbed::dut::{ExpectedLoss, parse};
use proptest::prelude::*;

fn name() -> impl Strategy<Value = String> {
    "[a-z0-9][a-zA-Z0-9-]{0,12}"
}

/// Any text, also with quotes and line ends.
fn text() -> impl Strategy<Value = String> {
    "(\\PC|\n|\"|\\\\){0,30}"
}

/// Milliseconds as nanoseconds.
fn span(least: u64, most: u64) -> impl Strategy<Value = u64> {
    (least..=most).prop_map(|ms| ms * 1_000_000)
}

fn share() -> impl Strategy<Value = f64> {
    (0u32..1_000).prop_map(|thousandths| f64::from(thousandths) / 1_000.0)
}

/// Rates of whole packets: what is written is what is read.
fn pps() -> impl Strategy<Value = f64> {
    (1u64..10_000_000_000).prop_map(|pps| pps as f64)
}

fn words() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec("[a-z}\" -]{1,8}", 0..3)
}

fn command() -> impl Strategy<Value = Command> {
    (words(), words(), span(1, 600_000), words()).prop_map(|(ready, counters, ready_ns, version)| Command {
        start: ["forward", "{in}", "{out}"].map(String::from).to_vec(),
        ready,
        ready_ns,
        counters,
        stop: Vec::new(),
        version,
    })
}

fn router() -> impl Strategy<Value = Router> {
    let tool = prop::sample::select(vec![FirewallTool::Iptables, FirewallTool::Nft]);
    let sysctls = prop::collection::btree_map("net/[a-z]{1,6}/[a-z._-]{1,6}[a-z]", "[a-z0-9 ]{1,10}", 0..3);
    let lines = || prop::collection::vec("[a-z '{};|]{1,20}", 0..3);
    let loses = prop::option::of(("[a-z, 4]{1,9}", "[a-z ]{1,9}"));
    let commands = (lines(), lines(), loses);
    (prop::option::of(tool), 1..1_000u32, any::<bool>(), any::<bool>(), sysctls, commands).prop_map(
        |(tool, rules, conntrack, snat, sysctls, (setup, teardown, loses))| {
            let loses = loses.map(|(place, cause)| ExpectedLoss { place, cause });
            let of_tool = match tool {
                Some(_) => Router { tool, rules, conntrack, snat, ..Router::default() },
                None => Router::default(),
            };
            Router { sysctls, setup, teardown, loses, ..of_tool }
        },
    )
}

fn capture() -> impl Strategy<Value = Capture> {
    let tool = prop::sample::select(vec![CaptureTool::Packet, CaptureTool::Pcap, CaptureTool::Xdp]);
    let receive = prop::sample::select(vec![Reception::Interrupt, Reception::BusyPoll, Reception::ThreadedNapi]);
    let cores = prop::sample::select(vec![CaptureCores::One, CaptureCores::All]);
    (tool, receive, cores, 65_536..=1u64 << 30, any::<bool>())
        .prop_map(|(tool, receive, cores, buffer_bytes, file)| Capture { tool, receive, cores, buffer_bytes, file })
}

fn flow_switch(ports: [SwitchPorts; 2]) -> impl Strategy<Value = FlowSwitch> {
    (prop::sample::select(ports.to_vec()), 0..=1_000_000u32).prop_map(|(ports, entries)| FlowSwitch { ports, entries })
}

fn kind(topology: &TopologyKind) -> BoxedStrategy<DutKind> {
    match topology {
        TopologyKind::Namespaces => prop_oneof![
            router().prop_map(DutKind::from),
            Just(DutKind::from(Bridge)),
            Just(DutKind::from(XdpForwarder)),
            flow_switch([SwitchPorts::Packet, SwitchPorts::Memif])
                .prop_map(|switch| DutKind::from(OpenVswitch(switch))),
            flow_switch([SwitchPorts::Xdp, SwitchPorts::Memif]).prop_map(|switch| DutKind::from(OfSwitch(switch))),
            Just(DutKind::from(Switch(SwitchPorts::Packet))),
            Just(DutKind::from(Switch(SwitchPorts::Xdp))),
            Just(DutKind::from(Switch(SwitchPorts::Memif))),
            capture().prop_map(DutKind::from),
            command().prop_map(DutKind::from),
            Just(DutKind::from(Direct)),
        ]
        .boxed(),
        TopologyKind::Ports { .. } => prop_oneof![
            (text(), words()).prop_map(|(description, counters)| DutKind::from(External { description, counters })),
            command().prop_map(DutKind::from),
            Just(DutKind::from(Direct)),
        ]
        .boxed(),
        TopologyKind::InProcess => prop_oneof![Just(DutKind::from(Pipe)), Just(DutKind::from(Direct))].boxed(),
    }
}

/// Fixed sizes and mixes. In the order of their sizes, so that none is there twice.
fn sizes(mtu: u32) -> impl Strategy<Value = Vec<SizeSpec>> {
    let fixed = prop::collection::btree_set(64..=mtu + 18, 1..4);
    let mixes = prop::collection::btree_map(64..=mtu + 18, 1..10_000u32, 0..4);
    (fixed, mixes).prop_map(|(fixed, mix)| {
        let fixed = fixed.into_iter().map(|wire| SizeSpec { label: wire.to_string(), parts: vec![(wire, 1)] });
        let parts: Vec<(u32, u32)> = mix.into_iter().collect();
        let words: Vec<String> = parts.iter().map(|(wire, weight)| format!("{wire} x {weight}")).collect();
        let mix = (!parts.is_empty()).then(|| SizeSpec { label: format!("mine ({})", words.join(", ")), parts });
        fixed.chain(mix).collect()
    })
}

fn flows() -> impl Strategy<Value = Vec<FlowSpec>> {
    let order = prop_oneof![Just(FlowOrder::Odometer), (0..i64::MAX as u64).prop_map(FlowOrder::Random)];
    let addresses = Addresses6 {
        source: Ipv6Addr::new(0x2001, 0xdb8, 7, 1, 0, 0, 0, 1),
        destination: Ipv6Addr::new(0x2001, 2, 0, 2, 0, 0, 0, 9),
    };
    let ip = prop_oneof![Just(FlowIp::V4), Just(FlowIp::V6(addresses)), Just(FlowIp::Dual(addresses))];
    let one = (1..400u64, 1..200u64, 1..100u64, order, ip).prop_map(|(sources, destinations, ports, order, ip)| {
        // What a pattern of IPv6 alone says of IPv4 is not in its file.
        let is_v4 = ip.has(linerate_experiment::IpVersion::V4);
        let or = |own, default| if is_v4 { Ipv4Addr::from_octets(own) } else { Ipv4Addr::from_octets(default) };
        FlowSpec {
            source: or([10, 0, 0, 1], [192, 0, 2, 1]),
            sources,
            destination: or([198, 19, 0, 1], [192, 0, 2, 101]),
            destinations,
            ports,
            order,
            ip,
        }
    });
    prop::collection::vec(one, 1..4).prop_map(|mut flows| {
        flows.sort_by_key(FlowSpec::name);
        flows.dedup_by_key(|flows| flows.name());
        flows
    })
}

fn goals() -> impl Strategy<Value = Vec<LossGoal>> {
    let goal = (share(), share(), span(10, 5_000), 0..5_000u64, 0..1_000u64, 1..500u32);
    let goal = goal.prop_map(|(loss_ratio, exceed_ratio, final_trial_ns, more_ms, divisor, width)| LossGoal {
        name: String::new(),
        loss_ratio,
        exceed_ratio,
        final_trial_ns,
        duration_sum_ns: final_trial_ns + more_ms * 1_000_000,
        initial_trial_ns: (final_trial_ns / (1 + divisor)).max(1_000_000),
        width: f64::from(width) / 1_000.0,
        outside_interruptions: width.is_multiple_of(2),
    });
    prop::collection::vec(goal, 1..5).prop_map(|mut goals| {
        goals.sort_by(|a, b| a.loss_ratio.total_cmp(&b.loss_ratio));
        goals.dedup_by(|a, b| a.loss_ratio == b.loss_ratio);
        goals.iter_mut().enumerate().for_each(|(number, goal)| goal.name = format!("goal-{number}"));
        goals
    })
}

fn search() -> impl Strategy<Value = Search> {
    prop_oneof![
        goals().prop_map(|goals| Search::Mlr { goals }),
        (1..500u32, share(), 0..=10u32).prop_map(|(resolution, loss_ratio, confirmations)| Search::Bisection {
            resolution: f64::from(resolution) / 1_000.0,
            loss_ratio,
            confirmations,
        }),
    ]
}

fn timestamps() -> impl Strategy<Value = TimestampSource> {
    use TimestampSource::{Auto, Hardware, Kernel, Software};
    prop::sample::select(vec![Auto, Hardware, Kernel, Software])
}

fn later_test() -> impl Strategy<Value = TestSpec> {
    let kind = prop_oneof![
        prop::collection::btree_set(1..10_000_000u64, 1..5)
            .prop_map(|loads| TestKind::Capture { loads_pps: loads.into_iter().map(|pps| pps as f64).collect() }),
        (prop::collection::btree_set(0..1_000u32, 1..5), pps(), timestamps()).prop_map(
            |(shares, idle_pps, timestamps)| {
                let shares = shares.into_iter().map(|share| f64::from(share) / 1_000.0).collect();
                TestKind::Latency { shares, idle_pps, timestamps }
            }
        ),
        prop::collection::btree_set(1..10_000_000u64, 0..5).prop_map(|loads| TestKind::FrameLoss {
            loads_pps: loads.into_iter().rev().map(|pps| pps as f64).collect()
        }),
        (span(1, 5_000), 1..1_000u32).prop_map(|(burst_max_ns, bursts)| TestKind::BackToBack { burst_max_ns, bursts }),
        Just(TestKind::SystemRecovery),
        Just(TestKind::Reset),
        (1..=1_000u32).prop_map(|share| TestKind::Soak { share: f64::from(share) / 1_000.0 }),
        Just(TestKind::MaxForwardingRate),
        prop::option::of(pps()).prop_map(|pps| TestKind::Load { pps }),
        span(2, 1_000).prop_map(|interval_ns| TestKind::Ping { interval_ns }),
        (1..=1_000u32).prop_map(|trials| TestKind::Capacity { trials }),
        prop::collection::btree_set(1..=1_000u32, 1..5).prop_map(|shares| TestKind::NoLoss {
            shares: shares.into_iter().rev().map(|share| f64::from(share) / 1_000.0).collect()
        }),
    ];
    (kind, span(1, 60_000)).prop_map(|(kind, trial_ns)| match kind {
        TestKind::BackToBack { burst_max_ns, .. } => {
            TestSpec { kind, trial_ns: burst_max_ns, limits: vec![], cells: vec![] }
        }
        kind => TestSpec { limits: limits(&kind, trial_ns), kind, trial_ns, cells: vec![] },
    })
}

/// Those that a test of this kind can have, or none; a number that varies decides.
fn limits(kind: &TestKind, number: u64) -> Vec<Limit> {
    let limit = |of, bound| Limit { of, goal: None, bound };
    let all = match kind {
        TestKind::Throughput { .. }
        | TestKind::MaxForwardingRate
        | TestKind::Capacity { .. }
        | TestKind::NoLoss { .. } => vec![limit(LimitOf::Rate, 5_000.0)],
        TestKind::Load { .. } => vec![limit(LimitOf::Rate, 7_000.0), limit(LimitOf::Loss, 0.25)],
        TestKind::Soak { .. } => vec![limit(LimitOf::Loss, 0.125)],
        TestKind::Latency { .. } | TestKind::Ping { .. } => {
            vec![limit(LimitOf::P50, 1e3), limit(LimitOf::P99, 2e3), limit(LimitOf::P999, 3e6)]
        }
        TestKind::SystemRecovery | TestKind::Reset => vec![limit(LimitOf::Outage, 4e9)],
        _ => vec![],
    };
    if number.is_multiple_of(3) { Vec::new() } else { all }
}

fn sessions() -> impl Strategy<Value = TestKind> {
    let of = [SessionKind::ConnectionRate, SessionKind::ConcurrentConnections, SessionKind::RequestRate];
    let loads = prop::collection::vec((1..1_000_000_000u64).prop_map(|load| load as f64), 0..4);
    let numbers = (1..=16_000_000u32, 1..=1u64 << 20, span(1, 600_000), 1..1_000u32);
    (prop::sample::select(of.to_vec()), loads, numbers).prop_map(|(of, loads, numbers)| {
        let (connections, bytes, timeout_ns, resolution) = numbers;
        // Only a search has a resolution of its own.
        let resolution = if loads.is_empty() { f64::from(resolution) / 1_000.0 } else { 0.05 };
        TestKind::Sessions(Sessions { of, connections, bytes, timeout_ns, loads, resolution })
    })
}

/// Tests of TCP: no others are in an experiment with them.
fn tests_of_tcp() -> impl Strategy<Value = Vec<TestSpec>> {
    let orders = [vec![EchoOrder::Reply], vec![EchoOrder::RoundRobin, EchoOrder::Reply]];
    let stacks = [EchoStack::Linerate, EchoStack::Linux, EchoStack::Smoltcp, EchoStack::Lwip];
    let echo = (prop::sample::select(orders.to_vec()), prop::sample::select(stacks.to_vec()))
        .prop_map(|(orders, stack)| TestKind::TcpEcho { orders, stack });
    let test = (prop_oneof![3 => sessions(), 1 => echo, 1 => Just(TestKind::UdpLoop)], span(1, 60_000));
    let test = test.prop_map(|(kind, trial_ns)| TestSpec { kind, trial_ns, limits: vec![], cells: vec![] });
    prop::collection::vec(test, 1..5)
}

fn tests() -> impl Strategy<Value = Vec<TestSpec>> {
    prop_oneof![4 => tests_of_packets(), 1 => tests_of_tcp()]
}

fn tests_of_packets() -> impl Strategy<Value = Vec<TestSpec>> {
    let throughput = (search(), span(1, 5_000), prop::option::of(span(1, 60_000)))
        .prop_map(|(search, trial_ns, time_max_ns)| (TestKind::Throughput { search, time_max_ns }, trial_ns))
        .prop_map(|(kind, trial_ns)| TestSpec { limits: limits(&kind, trial_ns), kind, trial_ns, cells: vec![] });
    (throughput, prop::collection::vec(later_test(), 0..5))
        .prop_map(|(first, rest)| std::iter::once(first).chain(rest).collect())
}

/// Every kind of next hop, by the letters of the port.
fn end(port: String, side: u8) -> PortEnd {
    let next_hop = match (port.len() + usize::from(side)) % 4 {
        0 => NextHop::Mac([2, 0, 0, 0, 0, side]),
        1 => NextHop::Gateway { own: [198, 18, side, 2].into(), gateway: [198, 18, side, 1].into() },
        2 => {
            let address = |last| std::net::Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, side.into(), last).into();
            NextHop::Gateway { own: address(2), gateway: address(1) }
        }
        _ => NextHop::OtherEnd,
    };
    PortEnd { port, next_hop }
}

fn topology() -> impl Strategy<Value = TopologyKind> {
    prop_oneof![
        2 => Just(TopologyKind::Namespaces),
        1 => "[a-z]{1,5}".prop_map(|name| TopologyKind::Ports { a: end(format!("xdp:{name}0"), 1), b: end(format!("xdp:{name}1"), 2) }),
        1 => Just(TopologyKind::InProcess),
    ]
}

fn cores(topology: &TopologyKind) -> impl Strategy<Value = Cores> + use<> {
    let core = || prop::option::of(0..64usize);
    let most = if *topology == TopologyKind::InProcess { 1 } else { 3 };
    let listed = prop::sample::subsequence((0..64usize).collect::<Vec<_>>(), 1..=most);
    let dut = match topology {
        TopologyKind::Ports { .. } => Just(DutCores::Chosen).boxed(),
        _ => prop_oneof![
            Just(DutCores::Chosen),
            Just(DutCores::Shared),
            (1..=most).prop_map(DutCores::Own),
            listed.prop_map(DutCores::Listed)
        ]
        .boxed(),
    };
    (core(), dut, core()).prop_map(|(generator, dut, receiver)| Cores { generator, dut, receiver })
}

/// Either `[cores]`, or the dimension.
fn placements(topology: &TopologyKind) -> impl Strategy<Value = (Cores, Vec<CoresSpec>)> + use<> {
    let entries = prop::collection::vec(cores(topology), 1..4).prop_map(|entries| {
        let entry = |(number, cores)| CoresSpec { name: format!("placement-{number}"), cores };
        (Cores::default(), entries.into_iter().enumerate().map(entry).collect())
    });
    prop_oneof![cores(topology).prop_map(|cores| (cores, Vec::new())), entries]
}

fn testers(topology: &TopologyKind) -> impl Strategy<Value = Vec<TesterPorts>> + use<> {
    let most = if *topology == TopologyKind::Namespaces { 4 } else { 1 };
    let kinds = prop::sample::subsequence(vec![("xdp", "xdp"), ("pcap", "pcap"), ("xdp", "sink")], 0..most);
    kinds.prop_map(|pairs| {
        let ports = |(sender, receiver): (&str, &str)| TesterPorts { sender: sender.into(), receiver: receiver.into() };
        pairs.into_iter().map(ports).collect()
    })
}

fn experiment() -> impl Strategy<Value = Experiment> {
    (topology(), 46..=9_000u32)
        .prop_flat_map(|(topology, mtu)| {
            let duts = prop::collection::vec(kind(&topology), 1..4).prop_map(|kinds| {
                let dut = |(number, kind)| DutSpec { name: format!("dut-{number}"), kind };
                kinds.into_iter().enumerate().map(dut).collect::<Vec<_>>()
            });
            let head = (name(), text(), text(), placements(&topology), testers(&topology), Just(topology));
            let matrix = (duts, sizes(mtu), flows(), 1..3usize, 1..=20u32);
            let noise = (share(), span(1, 60_000), 0..=20u32, prop::option::of(span(1_000, 60_000)));
            let phases = (span(0, 5_000), span(0, 5_000), span(1, 5_000), span(0, 5_000));
            (head, matrix, tests(), noise, phases, text(), prop::option::of(0..1_000_000u32), Just(mtu))
        })
        .prop_map(|(head, matrix, tests, noise, phases, printed, value, mtu)| {
            let (name, title, about, (cores, placements), testers, topology) = head;
            let (duts, sizes, flows, directions, repetitions) = matrix;
            let (mut tests, mut flows) = (tests, flows);
            // Tests of TCP are made over IPv4.
            if tests.iter().any(|test| test.kind.is_of_tcp()) {
                for flows in &mut flows {
                    flows.ip = FlowIp::V4;
                    (flows.source, flows.destination) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(198, 19, 0, 1));
                }
                flows.sort_by_key(FlowSpec::name);
                flows.dedup_by_key(|flows| flows.name());
            }
            // A capture test wants a capture.
            tests.retain(|test| {
                duts.iter().any(|dut| dut.kind.captures()) || !matches!(test.kind, TestKind::Capture { .. })
            });
            let (steal_max, gap_max_ns, disturbed_retries, cell_time_ns) = noise;
            let (warm_up_ns, wait_ns, drain_ns, rest_ns) = phases;
            let cells = CellMatch {
                dut: Some(duts[0].name.clone()),
                size: sizes.last().map(SizeSpec::name),
                flows: value.map(|_| flows[0].count()),
                flow_pattern: value.is_none().then(|| flows[0].name()),
                direction: Some(Direction::OneWay),
                tester: testers.first().filter(|_| !duts[0].kind.shares_memory()).map(TesterPorts::name),
                cores: placements.last().map(|placement| placement.name.clone()),
            };
            let skip = match duts.len() > 1 {
                true => vec![CellMatch { dut: Some(duts[1].name.clone()), ..CellMatch::default() }],
                false => Vec::new(),
            };
            // The row of the published figure has a cell; a test of every third experiment is made in that one alone.
            let is_third = value.is_some_and(|value: u32| value.is_multiple_of(3));
            tests.iter_mut().filter(|_| is_third).for_each(|test| test.cells = vec![cells.clone()]);
            let (source, what) = (printed.clone(), "throughput".to_string());
            let published = vec![Published {
                source,
                cells,
                what,
                value: value.map(f64::from),
                clock_ghz: value.map(|_| 2.25),
                text: printed,
            }];
            let directions = [Direction::OneWay, Direction::BothWays][..directions].to_vec();
            let phases = Phases { warm_up_ns, wait_ns, drain_ns, rest_ns };
            let baseline_ports = match topology {
                TopologyKind::Ports { .. } if is_third => Some(["xdp:cable2".to_string(), "xdp:cable3".to_string()]),
                _ => None,
            };
            Experiment {
                baseline_ports,
                name,
                title,
                about,
                topology,
                mtu,
                testers,
                cores,
                placements,
                duts,
                sizes,
                flows,
                directions,
                skip,
                phases,
                tests,
                repetitions,
                cell_time_ns,
                steal_max,
                gap_max_ns,
                disturbed_retries,
                published,
            }
        })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn what_is_written_is_read(experiment in experiment()) {
        let written = render::experiment(&experiment);
        let read = parse(&written, "x.toml").map_err(|errors| TestCaseError::fail(format!("{errors}\n{written}")))?;
        prop_assert_eq!(read, experiment, "{}", written);
    }
}
