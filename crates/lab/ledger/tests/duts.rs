//! Devices under test in real namespaces: each carries packets both ways, its ledger balances, and nothing stays behind.

use super::support;

use linerate_experiment::{DutKind, TopologyKind};
use linerate_report::Loss;
use linerate_testbed::dut::bridge::Bridge;
use linerate_testbed::dut::none::Direct;
use linerate_testbed::dut::pipe::Pipe;
use linerate_testbed::dut::router::{FirewallTool, Router};
use linerate_testbed::dut::xdp::XdpForwarder;
use linerate_testbed::dut::{DutError, Path};
use linerate_testbed::netlink::Netlink;
use linerate_testbed::placement::Placement;
use linerate_testbed::topology::TopologySpec;
use support::carry::{Direction, carry, device};

#[test]
fn a_plain_router_carries_packets_both_ways_and_after_a_reset() {
    let Some(mut built) = device(DutKind::from(Router::default())) else { return };
    let before = built.device.counters().expect("counters");
    carry(&mut built, Direction::Forward).all_delivered();
    carry(&mut built, Direction::Backward).all_delivered();
    let after = built.device.counters().expect("counters");
    assert_eq!(after["Ip.ForwDatagrams"] - before["Ip.ForwDatagrams"], 2 * support::carry::PACKETS);
    let done = built.device.reset().expect("reset");
    assert!(done.contains("lr-in and lr-out down"), "{done}");
    built.device.check().expect("it is up again");
    carry(&mut built, Direction::Forward).all_delivered();
    carry(&mut built, Direction::Backward).all_delivered();
    let description = built.device.describe();
    assert_eq!(description.configuration["rules"], "none");
    assert!(description.version.is_some());
}

#[test]
fn rules_of_either_tool_carry_packets_and_the_ledger_closes() {
    for tool in [FirewallTool::Iptables, FirewallTool::Nft] {
        let rules = Router { tool: Some(tool), rules: 200, conntrack: true, ..Router::default() };
        let Some(mut built) = device(DutKind::from(rules)) else { continue };
        assert!(built.device.needs_warm_up());
        carry(&mut built, Direction::Forward).all_delivered();
        carry(&mut built, Direction::Backward).all_delivered();
        let description = built.device.describe();
        assert!(description.configuration["rules"].starts_with("200 in FORWARD"), "{description:?}");
        assert!(description.configuration["rules set by"].to_lowercase().contains('v'), "{description:?}");
        if tool == FirewallTool::Iptables {
            let counters = built.device.counters().expect("counters");
            let established: u64 = counters.iter().filter(|(name, _)| name.contains("--ctstate")).map(|(_, n)| n).sum();
            assert_eq!(established, support::carry::PACKETS, "the way back was established: {counters:?}");
        }
    }
}

#[test]
fn translated_packets_are_delivered_under_the_routers_address() {
    for tool in [FirewallTool::Iptables, FirewallTool::Nft] {
        let rules = Router { tool: Some(tool), snat: true, ..Router::default() };
        let Some(mut built) = device(DutKind::from(rules)) else { continue };
        for (way, router) in [(Direction::Forward, [198, 18, 1, 1]), (Direction::Backward, [198, 18, 0, 1])] {
            let carried = carry(&mut built, way);
            carried.all_delivered();
            assert!(carried.frames.iter().all(|frame| frame[26..30] == router), "{tool:?} {way:?}");
        }
    }
}

#[test]
fn settings_hold_in_the_routers_namespace_and_nowhere_else() {
    let name = "net/netfilter/nf_conntrack_udp_timeout";
    let mut rules = Router { tool: Some(FirewallTool::Nft), conntrack: true, ..Router::default() };
    rules.sysctls.insert(name.into(), "77".into());
    let before = linerate_testbed::sysctl::read(name);
    let Some(built) = device(DutKind::from(rules.clone())) else { return };
    let dut = built.path.topology().and_then(|topology| topology.dut.as_ref()).expect("a router");
    assert_eq!(dut.namespace.run(|| linerate_testbed::sysctl::read(name)).expect("enter").as_deref(), Some("77"));
    assert_eq!(linerate_testbed::sysctl::read(name), before);
    rules.sysctls.insert("net/netfilter/nf_conntrack_max".into(), "1000".into());
    let spec = support::carry::named(DutKind::from(rules));
    match linerate_testbed::dut::build(&spec, &TopologySpec::default()) {
        Err(error) => assert!(error.to_string().contains("first network namespace"), "{error}"),
        Ok(_) => eprintln!("skipped in part: this kernel has a limit for each namespace"),
    }
}

#[test]
fn a_router_whose_interface_went_down_says_so() {
    let Some(mut built) = device(DutKind::from(Router::default())) else { return };
    built.device.check().expect("it works");
    let dut = built.path.topology().and_then(|topology| topology.dut.as_ref()).expect("a router");
    Netlink::open_in(&dut.namespace).and_then(|mut link| link.set_up(dut.egress.index, false)).expect("down");
    let error = built.device.check().expect_err("it does not work").to_string();
    assert!(error.contains("lr-out is down"), "{error}");
}

#[test]
fn a_bridge_learns_both_stations_and_carries_packets_both_ways_and_after_a_reset() {
    let Some(mut built) = device(DutKind::from(Bridge)) else { return };
    assert!(built.device.needs_warm_up());
    let topology = built.path.topology().expect("namespaces");
    let receiver = support::RawSocket::open_with(&topology.receiver, std::time::Duration::from_millis(100));
    built.device.learn().expect("learning");
    assert_eq!(receiver.drain().len(), 0, "learning frames do not leave the bridge");
    let dut = topology.dut.as_ref().expect("a bridge");
    let stations = || dut.namespace.run(|| learned_on(dut.ingress.name)).expect("enter");
    match stations() {
        None => eprintln!("skipped in part: there is no bridge tool to look with"),
        Some(text) => assert!(text.contains("02:4c:52:00:00:f2"), "{text}"),
    }
    drop(receiver);
    carry(&mut built, Direction::Forward).all_delivered();
    carry(&mut built, Direction::Backward).all_delivered();
    let done = built.device.reset().expect("reset");
    assert!(done.contains("down"), "{done}");
    carry(&mut built, Direction::Forward).all_delivered();
    carry(&mut built, Direction::Backward).all_delivered();
    assert_eq!(built.device.describe().name, "Linux kernel bridge");
}

/// What the bridge has learned behind one port, as `bridge fdb` lists it.
fn learned_on(port: &str) -> Option<String> {
    let output = std::process::Command::new("bridge").args(["fdb", "show", "dev", port]).output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn an_xdp_program_carries_packets_both_ways_counts_them_and_works_after_a_reset() {
    for placement in [Placement::SenderContext, Placement::Thread { core: None }] {
        let path = TopologySpec { placement, ..TopologySpec::default() };
        let Some(mut built) = support::carry::device_on(DutKind::from(XdpForwarder), &path) else { return };
        carry(&mut built, Direction::Forward).all_delivered();
        carry(&mut built, Direction::Backward).all_delivered();
        let counters = built.device.counters().expect("counters");
        let packets = support::carry::PACKETS;
        assert_eq!((counters["lr-in redirected"], counters["lr-in refused"]), (packets, 0));
        assert_eq!((counters["lr-out redirected"], counters["lr-out refused"]), (packets, 0));
        built.device.reset().expect("reset");
        carry(&mut built, Direction::Forward).all_delivered();
        carry(&mut built, Direction::Backward).all_delivered();
    }
}

#[test]
fn frames_that_a_switching_device_cannot_send_on_are_lost_at_its_way_out() {
    for kind in [DutKind::from(Bridge), DutKind::from(XdpForwarder)] {
        let Some(mut built) = device(kind.clone()) else { continue };
        let side = &built.path.topology().expect("namespaces").receiver;
        Netlink::open_in(&side.namespace).and_then(|mut link| link.set_up(side.interface.index, false)).expect("down");
        let ledger = carry(&mut built, Direction::Forward).ledger;
        let account = &ledger.account;
        assert_eq!((account.delivered(), account.unexplained()), (0, 0), "{kind:?} {ledger:?}");
        let is_named = |row: &Loss| row.place.contains("lr-out") && !row.cause.contains("by the kernel");
        assert!(account.lost().iter().all(is_named), "{kind:?} {ledger:?}");
    }
}

#[test]
fn no_device_is_the_direct_path() {
    let Some(mut built) = device(DutKind::from(Direct)) else { return };
    carry(&mut built, Direction::Forward).all_delivered();
    carry(&mut built, Direction::Backward).all_delivered();
    assert!(matches!(built.device.reset(), Err(DutError::NoReset(_))));
}

#[test]
fn a_pipe_is_a_link_inside_this_process_and_needs_that_topology() {
    let in_process = TopologySpec { ends: TopologyKind::InProcess, ..TopologySpec::default() };
    let spec = support::carry::named(DutKind::from(Pipe));
    let mut built = linerate_testbed::dut::build(&spec, &in_process).expect("a pipe");
    assert!(matches!(built.path, Path::InProcess));
    built.device.check().expect("it works");
    assert_eq!(built.device.describe().name, "Linerate pipe");
    let error =
        linerate_testbed::dut::build(&spec, &TopologySpec::default()).err().expect("not in namespaces").to_string();
    assert!(error.contains("in-process"), "{error}");
}
