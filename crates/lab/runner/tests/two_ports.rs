//! A tester on two ports of a host: a cable between them, and a router that is asked for its address. The host is a namespace.

#[path = "../../tester/tests/support/mod.rs"]
mod support;

use std::net::Ipv4Addr;

use linerate_experiment::{FlowOrder, FlowSpec};
use linerate_ledger::ledger::Ledger;
use linerate_report::{Account, Counted, Loss, Results};
use linerate_runner::lab::Lab;
use linerate_runner::{self, Store};
use linerate_sys::netdev::Netdev;
use linerate_sys::netns::NetNs;
use linerate_testbed::netlink::{Netlink, Route, VethEnd, VethShape};
use linerate_testbed::sysctl;
use linerate_tester::{Load, NextHop, Outcome, PortEnd, PortsSpec, Tester, TrialSpec, fixed_size};
use linerate_testkit::or_skip;

use support::scenario::{in_namespace, token_bucket};

const SHAPE: VethShape = VethShape { mtu: 1500, queues: 1 };
const MS: u64 = 1_000_000;

fn namespace() -> Option<NetNs> {
    or_skip("no network namespace", NetNs::anonymous())
}

/// A veth pair, both ends up; their indices.
fn pair(a: (&NetNs, &str), b: (&NetNs, &str), number: u8) -> [u32; 2] {
    let end = |(namespace, name), side| VethEnd { namespace, name, mac: [2, 0x4c, 0x52, 7, number, side] };
    let mut netlink = Netlink::open_in(a.0).expect("netlink");
    netlink.create_veth(end(a, 1), end(b, 2), SHAPE).expect("a veth pair");
    [a, b].map(|(namespace, name)| {
        let quiet = || sysctl::set_if_present(&format!("net/ipv6/conf/{name}/disable_ipv6"), "1");
        namespace.run(quiet).expect("enter").expect("IPv6 off");
        let index = namespace.run(|| Netdev::open(name)?.index()).expect("enter").expect("an index");
        Netlink::open_in(namespace).expect("netlink").set_up(index, true).expect("up");
        index
    })
}

fn flows() -> FlowSpec {
    FlowSpec {
        source: Ipv4Addr::new(192, 0, 2, 1),
        sources: 10,
        destination: Ipv4Addr::new(192, 0, 2, 129),
        destinations: 10,
        ports: 1,
        order: FlowOrder::Odometer,
        ip: linerate_experiment::FlowIp::V4,
    }
}

/// One trial in the host's namespace in which something was sent (where others use all cores, a sending thread can be without one
/// for a whole load); none when the ports cannot be had.
fn trial(host: &NetNs, spec: &PortsSpec, pps: f64) -> Option<Outcome> {
    let load = Load::Rate { pps, duration_ns: 100 * MS };
    let measure = || {
        let mut tester = Tester::on_ports(spec).map_err(|error| error.to_string())?;
        let (size, flows) = (fixed_size(128), flows());
        let backward = spec.both_ways.then_some(load);
        let spec = TrialSpec { backward, ..TrialSpec::new(&size, &flows, load) };
        let mut trials = (0..20).map(|_| tester.trial(&spec).expect("a trial"));
        let sent = trials.find(|outcome| outcome.ways.iter().all(|way| way.counted.sent > 0));
        Ok(sent.expect("a core for the sending thread"))
    };
    let outcome: Result<Outcome, String> = host.run(measure).expect("enter");
    or_skip("no ports", outcome)
}

#[test]
fn a_cable_between_two_ports() {
    let Some(host) = namespace() else { return };
    pair((&host, "port-a"), (&host, "port-b"), 1);
    for (kind, sink) in [("packet", false), ("xdp", true), ("packet", true)] {
        for both_ways in [false, true] {
            let ports = PortsSpec::new(format!("{kind}:port-a"), format!("{kind}:port-b"));
            let Some(outcome) = trial(&host, &PortsSpec { sink, both_ways, ..ports }, 5_000.0) else { continue };
            assert_eq!(outcome.ways.len(), 1 + usize::from(both_ways));
            assert_eq!(outcome.ledger.account.intended(), 500 * outcome.ways.len() as u64);
            support::assert_explained(&outcome.ledger, &format!("{kind} {sink} {both_ways}"));
        }
    }
}

#[test]
fn what_a_port_cannot_do_is_refused_with_what_to_do() {
    let Some(host) = namespace() else { return };
    pair((&host, "port-a"), (&host, "port-b"), 2);
    let open = |spec: PortsSpec| match host.run(|| Tester::on_ports(&spec).map(|_| ())).expect("enter") {
        Ok(()) => panic!("{spec:?} was opened"),
        Err(error) => error.to_string(),
    };
    let both = PortsSpec { both_ways: true, ..PortsSpec::new("pipe:x", "pipe:x") };
    assert!(open(both).contains("needs an interface"));
    let one_socket = PortsSpec { both_ways: true, ..PortsSpec::new("xdp:port-a", "xdp:port-b") };
    assert!(open(one_socket).contains("let the sink count"));
    assert!(open(PortsSpec::new("packet:no-such", "packet:port-b")).contains("no-such"));
}

/// host: port-a 198.18.0.2, port-b 198.18.1.2 (known to the tester only); box: a router that has never heard of them.
fn router() -> Option<(NetNs, NetNs)> {
    let (host, router) = (namespace()?, namespace()?);
    let [_, near] = pair((&host, "port-a"), (&router, "near"), 3);
    let [_, far] = pair((&host, "port-b"), (&router, "far"), 4);
    let mut netlink = Netlink::open_in(&router).expect("netlink");
    netlink.add_address(near, Ipv4Addr::new(198, 18, 0, 1), 24).expect("an address");
    netlink.add_address(far, Ipv4Addr::new(198, 18, 1, 1), 24).expect("an address");
    let gateway = Ipv4Addr::new(198, 18, 1, 2);
    let route = Route {
        network: Ipv4Addr::new(192, 0, 2, 128).into(),
        prefix_len: 25,
        gateway: gateway.into(),
        interface: far,
    };
    netlink.add_route(route).expect("a route");
    let forward = || {
        sysctl::set("net/ipv4/ip_forward", "1")?;
        ["all", "near", "far"].iter().try_for_each(|name| sysctl::set(&format!("net/ipv4/conf/{name}/rp_filter"), "0"))
    };
    router.run(forward).expect("enter").expect("forwarding");
    Some((host, router))
}

/// Two bursts, one after the other, between two ports of a host, of which the second one's account is about its own packets.
fn bursts(host: &NetNs, spec: &PortsSpec, packets: u64) -> Vec<Outcome> {
    let measure = || {
        let mut tester = Tester::on_ports(spec).expect("two ports");
        let (size, flows) = (fixed_size(128), flows());
        let spec = TrialSpec::new(&size, &flows, Load::Burst { packets });
        (0..2).map(|_| tester.trial(&spec).expect("a trial")).collect()
    };
    let outcomes: Vec<Outcome> = host.run(measure).expect("enter");
    for outcome in &outcomes {
        let account = &outcome.ledger.account;
        assert!((0..=3).contains(&account.unexplained()) && account.sent() > 0, "{:#?}", outcome.ledger);
        assert_eq!((account.duplicated(), account.reordered()), (0, 0), "{:#?}", outcome.ledger);
    }
    assert!(outcomes[1].ways[0].arrivals.other_streams > 0, "{outcomes:#?}");
    outcomes
}

/// What waits in the sender's own queueing discipline the device has not seen.
#[test]
fn packets_that_wait_in_the_queue_of_the_sending_interface() {
    for sink in [false, true] {
        let Some(host) = namespace() else { return };
        pair((&host, "port-a"), (&host, "port-b"), 5);
        let Some(()) = or_skip("not prepared", in_namespace(&host, "tc", &token_bucket("port-a", "100kbit"))) else {
            return;
        };
        let ports = PortsSpec { sink, ..PortsSpec::new("packet:port-a,qdisc", "packet:port-b") };
        for outcome in bursts(&host, &ports, 1_000) {
            let lost = outcome.ledger.account.lost();
            let queued = |loss: &Loss| loss.place == "port-a" && loss.cause.starts_with("still queued");
            assert!(lost.iter().any(|loss| queued(loss) && loss.packets > 0 && loss.hint.is_some()), "{lost:#?}");
        }
    }
}

/// What a device outside the lab holds shows in no counter of ours: it lets go of some twenty packets a second.
#[test]
fn packets_that_wait_in_a_device_outside_the_lab() {
    for sink in [false, true] {
        let Some((host, router)) = router() else { return };
        // Its answers would wait in that queue, too.
        let known = ["neigh", "add", "198.18.1.2", "lladdr", "02:4c:52:07:04:01", "dev", "far", "nud", "permanent"];
        let prepared = in_namespace(&router, "ip", &known);
        let prepared = prepared.and_then(|()| in_namespace(&router, "tc", &token_bucket("far", "20kbit")));
        let Some(()) = or_skip("not prepared", prepared) else { return };
        let near = NextHop::Mac([2, 0x4c, 0x52, 7, 3, 2]);
        let a = PortEnd { port: "packet:port-a".into(), next_hop: near };
        let outcomes = bursts(&host, &PortsSpec { a, sink, ..PortsSpec::new("", "packet:port-b") }, 1_000);
        let second = &outcomes[1].ledger.account;
        assert_eq!(second.delivered(), 0, "first in, first out: {second:#?}");
        assert!(second.lost().iter().any(|loss| loss.place == "between port-a and port-b"), "{second:#?}");
    }
}

#[test]
fn a_router_is_asked_for_its_address_and_told_ours() {
    let Some((host, _router)) = router() else { return };
    let end = |port: &str, network| PortEnd {
        port: port.into(),
        next_hop: NextHop::Gateway { own: [198, 18, network, 2].into(), gateway: [198, 18, network, 1].into() },
    };
    let spec = PortsSpec { a: end("packet:port-a", 0), b: end("packet:port-b", 1), ..PortsSpec::new("", "") };
    let Some(outcome) = trial(&host, &spec, 2_000.0) else { return };
    let account = &outcome.ledger.account;
    assert_eq!((account.intended(), account.delivered()), (200, account.sent()), "{:?}", outcome.ledger);
    assert!(account.delivered() > 0);
    // Without telling the router who we are on the far side, it cannot deliver: the device is where packets are lost.
    let silent = PortsSpec { b: PortEnd { next_hop: NextHop::OtherEnd, ..end("packet:port-b", 1) }, ..spec };
    let Some((host, _router)) = self::router() else { return };
    let Some(outcome) = trial(&host, &silent, 2_000.0) else { return };
    assert_eq!(outcome.ledger.account.delivered(), 0, "{:?}", outcome.ledger);
    let [lost] = outcome.ledger.account.lost() else { panic!("one place: {:?}", outcome.ledger) };
    assert!(lost.place == "between port-a and port-b" && lost.is_inferred(), "{lost:?}");
    // The router asks who we are: its questions are in the interface's counters, and hide as many losses.
    assert!((0..=10).contains(&outcome.ledger.account.unexplained()), "{:?}", outcome.ledger);
}

/// The box takes one of its ports down and up again while packets come.
#[test]
fn a_link_that_goes_away_during_a_trial_is_named() {
    let Some((host, router)) = router() else { return };
    let near = NextHop::Mac([2, 0x4c, 0x52, 7, 3, 2]);
    let a = PortEnd { port: "packet:port-a".into(), next_hop: near };
    let spec = PortsSpec { a, ..PortsSpec::new("", "packet:port-b") };
    let port_a = host.run(|| Netdev::open("port-a")?.index()).expect("enter").expect("an index");
    let trials = |goes_away: bool| -> Outcome {
        let measure = || {
            let mut tester = Tester::on_ports(&spec).expect("two ports");
            let (size, flows) = (fixed_size(128), flows());
            let spec = TrialSpec::new(&size, &flows, Load::Rate { pps: 2_000.0, duration_ns: 1_000 * MS });
            let sent = || {
                let mut netlink = Netlink::open_in(&host).expect("netlink");
                netlink.link_statistics(port_a).expect("counters").counters.tx_packets
            };
            let before = sent();
            std::thread::scope(|scope| {
                let toggling = goes_away.then(|| {
                    scope.spawn(|| {
                        // The load has begun, and so the counters were read.
                        let begun = std::time::Instant::now();
                        while sent() < before + 100 && begun.elapsed().as_secs() < 20 {
                            std::thread::sleep(std::time::Duration::from_millis(1));
                        }
                        let index = router.run(|| Netdev::open("near")?.index()).expect("enter").expect("an index");
                        let mut netlink = Netlink::open_in(&router).expect("netlink");
                        [false, true].map(|up| netlink.set_up(index, up).expect("set"))
                    })
                });
                let outcome = tester.trial(&spec).expect("a trial");
                toggling.map(|thread| thread.join().expect("toggled"));
                outcome
            })
        };
        host.run(measure).expect("enter")
    };
    let outcome = trials(false);
    assert_eq!(outcome.retry.link_flaps, [] as [String; 0], "{outcome:#?}");
    // The thread that toggles can be without a core until the load is over.
    let outcome =
        (0..10).map(|_| trials(true)).find(|outcome| !outcome.retry.link_flaps.is_empty()).expect("a link went away");
    let [flap] = &outcome.retry.link_flaps[..] else { panic!("one link: {outcome:#?}") };
    assert!(
        flap.contains("the link of port-a went away once during the trial") && outcome.notes.contains(flap),
        "{flap}"
    );
    for loss in outcome.ledger.account.lost().iter().filter(|loss| loss.place == "between port-a and port-b") {
        assert!(loss.cause.starts_with("lost while a link of the tester was away"), "{loss:?}");
    }
}

#[test]
fn a_gateway_that_does_not_answer_is_an_error_that_names_it() {
    let Some((host, _router)) = router() else { return };
    let next_hop = NextHop::Gateway { own: [198, 18, 0, 2].into(), gateway: [198, 18, 0, 99].into() };
    let a = PortEnd { port: "packet:port-a".into(), next_hop };
    let spec = PortsSpec { a, ..PortsSpec::new("", "packet:port-b") };
    let error = host.run(|| Tester::on_ports(&spec).map(|_| ()).map_err(|error| error.to_string())).expect("enter");
    let Err(problem) = error else { panic!("nobody is there") };
    assert!(problem.contains("198.18.0.99 does not answer"), "{problem}");
}

struct Nowhere;

impl Store for Nowhere {
    fn save(&mut self, _: &Results) -> std::io::Result<()> {
        Ok(())
    }

    fn keep_shown(&mut self, _: &str, _: &str, _: &str) -> std::io::Result<()> {
        Ok(())
    }
}

/// A box between two ports of a host, and a cable between two others for the baseline.
#[test]
fn a_baseline_on_a_cable_between_two_other_ports() {
    let text = |baseline: &str| {
        format!(
            "name = \"x\"\ntitle = \"X\"\n[topology]\nkind = \"ports\"\na = \"packet:port-a\"\nb = \"packet:port-b\"\n{baseline}\n\
             [[dut]]\nname = \"box\"\nkind = \"external\"\ndescription = \"a veth pair\"\n[matrix]\nsizes = [64]\nflows = [1]\n\
             [[test]]\nkind = \"load\"\nrate = \"1000pps\"\ntrial = \"100ms\"\n"
        )
    };
    for (baseline, is_measured) in [("", false), ("baseline_ports = [\"packet:cable-a\", \"packet:cable-b\"]", true)] {
        let Some(host) = namespace() else { return };
        pair((&host, "port-a"), (&host, "port-b"), 6);
        pair((&host, "cable-a"), (&host, "cable-b"), 7);
        let experiment = linerate_testbed::dut::parse(&text(baseline), "x.toml").expect("an experiment");
        let mut results = linerate_runner::begin(&experiment, "", None, "0").expect("a cell");
        let measured = host.run(|| {
            let mut lab = Lab::new(&experiment, false, None);
            linerate_runner::run(&experiment, &mut results, &mut lab, &mut Nowhere, &mut |_| {}).expect("kept");
            ["cable-a", "cable-b"].map(|name| {
                let index = Netdev::open(name).and_then(|device| device.index()).expect("a port");
                Netlink::open().expect("netlink").link_statistics(index).expect("counters").counters.tx_packets
            })
        });
        let cell = &results.cells[0];
        let [sent, back] = measured.expect("enter");
        assert_eq!(
            (cell.baseline_pps.is_some(), sent > 100, back),
            (is_measured, is_measured, 0),
            "{baseline}: {cell:#?}"
        );
        let account = &cell.findings[0].trials.last().expect("a trial").trial.account;
        assert!(account.delivered() > 0 && account.unexplained() == 0, "{account:#?}");
        let other = &results.environment.other;
        assert!(other["port-a driver"].starts_with("veth") && other["port-b MTU"] == "1500", "{other:#?}");
    }
}

/// What the tests above hold against a ledger can fail.
#[test]
fn a_loss_that_nothing_counts_explains_nothing() {
    let explained = |delivered, lost: Vec<Loss>, unnamed: Vec<Loss>| {
        let counted = Counted { intended: 10, sent: 10, delivered, ..Counted::default() };
        let ledger =
            Ledger { account: Account::new(counted, lost).expect("balances"), unnamed, contradictions: vec![] };
        std::panic::catch_unwind(|| support::assert_explained(&ledger, "made up")).is_ok()
    };
    let loss = || Loss::new("a cable", "cut", 4).counted_by("tx_dropped");
    assert!(explained(10, vec![], vec![]) && explained(6, vec![loss()], vec![]));
    assert!(explained(10, vec![Loss { packets: 0, ..loss() }.inferred_from("totals")], vec![]));
    assert!(!explained(6, vec![loss().inferred_from("totals")], vec![]));
    assert!(!explained(6, vec![], vec![]) && !explained(0, vec![Loss { packets: 10, ..loss() }], vec![]));
    assert!(!explained(6, vec![loss()], vec![loss()]));
}
