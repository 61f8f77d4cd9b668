//! Losses provoked one by one, through the tester as a user runs it: nearly all lost packets have the right place, cause and hint.

use super::support;

use std::net::Ipv4Addr;

use linerate_ledger::ledger::Ledger;
use linerate_testbed::netlink::Netlink;
use linerate_testbed::placement::Placement;
use linerate_testbed::topology::{Topology, TopologySpec};
use linerate_tester::DropReasonMode;
use linerate_testkit::or_skip;
use support::scenario::{Scenario, assert_named, in_dut};
use support::wait_until;

const INPUT: &str = "DUT, IPv4 input";
const FORWARDING: &str = "DUT, forwarding";

#[test]
fn missing_route() {
    let scenario = Scenario { destination: Ipv4Addr::new(203, 0, 113, 9), ..Scenario::default() };
    let Some(ledger) = scenario.run(|_| Ok(())) else { return };
    assert_named(&ledger, &[(INPUT, "no route")]);
}

#[test]
fn ttl_of_1() {
    let Some(ledger) = Scenario::default().run(|topology| rewrite(topology, "ip ttl set 1")) else { return };
    assert_named(&ledger, &[(INPUT, "TTL expired")]);
}

#[test]
fn mtu_too_small() {
    let scenario = Scenario { size_wire: 1000, ..Scenario::default() };
    let shrink = |topology: &Topology| {
        let dut = topology.dut.as_ref().ok_or("no router")?;
        let mut netlink = Netlink::open_in(&dut.namespace).map_err(|error| error.to_string())?;
        netlink.set_mtu(dut.egress.index, 600).map_err(|error| error.to_string())?;
        rewrite(topology, "ip frag-off set 0x4000")
    };
    let Some(ledger) = scenario.run(shrink) else { return };
    assert_named(&ledger, &[(FORWARDING, "longer than the MTU of its route or of the interface")]);
}

#[test]
fn nftables_rule() {
    for (family, hook, place) in [
        ("netdev", "ingress device lr-in", "lr-in"),
        ("ip", "prerouting", INPUT),
        ("ip", "forward", FORWARDING),
        ("ip", "postrouting", FORWARDING),
        ("netdev", "egress device lr-out", "lr-out"),
    ] {
        let rules =
            format!("table {family} lab {{ chain c {{ type filter hook {hook} priority 0; ip ttl > 0 drop; }}; }}");
        let Some(ledger) = Scenario::default().run(|topology| in_dut(topology, "nft", &[&rules])) else { return };
        assert_named(&ledger, &[(place, "nftables chain lab c")]);
        let guessed = ledger.account.lost().iter().any(|loss| loss.is_inferred());
        assert_eq!(guessed, !has_reasons(), "{ledger:?}");
    }
}

/// Two chains at different hooks: the totals tell them apart although the kernel gives both the same reason.
#[test]
fn nftables_rules_at_two_hooks() {
    let rules = "table ip lab {
        chain before { type filter hook prerouting priority 0; udp sport & 3 == 0 drop; }
        chain after { type filter hook postrouting priority 0; udp sport & 3 == 1 drop; }
    }";
    let scenario = Scenario { flows: 1000, ..Scenario::default() };
    let Some(ledger) = scenario.run(|topology| in_dut(topology, "nft", &[rules])) else { return };
    assert_named(&ledger, &[(INPUT, "chain lab before"), (FORWARDING, "chain lab after")]);
    let [before, after] = ledger.account.lost() else { panic!("two rows: {ledger:?}") };
    assert!(before.packets.abs_diff(after.packets) <= 1, "{ledger:?}");
    assert_eq!(ledger.contradictions, [] as [String; 0]);
}

#[test]
fn blackhole_route() {
    let add = |topology: &Topology| in_dut(topology, "ip", &["route", "add", "blackhole", "203.0.113.0/24"]);
    let scenario = Scenario { destination: Ipv4Addr::new(203, 0, 113, 9), ..Scenario::default() };
    let Some(ledger) = scenario.run(add) else { return };
    assert_named(&ledger, &[(INPUT, "blackhole")]);
}

/// No counter of the kernel moves: only its reason tells.
#[test]
fn source_address_of_the_dut() {
    let scenario = Scenario { source: Ipv4Addr::new(198, 18, 1, 1), ..Scenario::default() };
    let Some(ledger) = scenario.run(|_| Ok(())) else { return };
    if !has_reasons() {
        return eprintln!("skipped: the kernel's drop reasons cannot be read");
    }
    assert_named(&ledger, &[(INPUT, "source address is the DUT's own")]);
}

#[test]
fn a_loss_without_a_cause_asks_for_the_kernels_reasons_and_for_another_trial() {
    // More than what the kernel is asked for from the first trial on.
    let rate_pps = Some(60_000.0);
    let scenario = Scenario { source: Ipv4Addr::new(198, 18, 1, 1), rate_pps, ..Scenario::default() };
    let Some(mut tester) = scenario.tester_that_asks(DropReasonMode::WhenNeeded) else { return };
    if !has_reasons() {
        return eprintln!("skipped: the kernel's drop reasons cannot be read");
    }
    let first = scenario.outcome(&mut tester);
    assert!(first.ledger.unnamed.iter().any(|loss| loss.packets > 0), "no counter names it: {first:#?}");
    let why = first.retry.reasons.expect("it is to be made again");
    assert!(why.contains("drop reasons") && why.contains("sent packets"), "{why}");
    assert_eq!(tester.blind_spot(), None);
    let second = scenario.outcome(&mut tester);
    assert_eq!(second.retry.reasons, None);
    assert_named(&second.ledger, &[(INPUT, "source address is the DUT's own")]);
    // A loss that counters name needs none.
    let scenario = Scenario { destination: Ipv4Addr::new(203, 0, 113, 9), rate_pps, ..Scenario::default() };
    let Some(mut tester) = scenario.tester_that_asks(DropReasonMode::WhenNeeded) else { return };
    let named = scenario.outcome(&mut tester);
    assert_eq!(named.retry.reasons, None);
    assert_named(&named.ledger, &[(INPUT, "no route")]);
    assert!(tester.blind_spot().is_some());
    // In a small load asking costs next to nothing.
    let small = Scenario { source: Ipv4Addr::new(198, 18, 1, 1), ..Scenario::default() };
    let Some(mut tester) = small.tester_that_asks(DropReasonMode::WhenNeeded) else { return };
    let first = small.outcome(&mut tester);
    assert_eq!(first.retry.reasons, None);
    assert_named(&first.ledger, &[(INPUT, "source address is the DUT's own")]);
}

/// What is inferred is asked of the kernel, too: a chain that accepts all is not to blame for what the kernel refused beside it.
#[test]
fn a_loss_with_an_inferred_cause_asks_for_another_trial() {
    let accepts = "table ip lab { chain c { type filter hook prerouting priority 0; }; }";
    let source = Ipv4Addr::new(198, 18, 1, 1);
    let scenario = Scenario { source, rate_pps: Some(60_000.0), ..Scenario::default() };
    let Some(mut tester) = scenario.tester_that_asks(DropReasonMode::WhenNeeded) else { return };
    let prepared = in_dut(tester.topology.as_ref().expect("a path"), "nft", &[accepts]);
    let Some(()) = or_skip("not prepared", prepared) else { return };
    if !has_reasons() {
        return eprintln!("skipped: the kernel's drop reasons cannot be read");
    }
    let first = scenario.outcome(&mut tester);
    let blamed = |ledger: &Ledger| ledger.account.lost().iter().any(|loss| loss.cause.contains("lab c"));
    assert!(blamed(&first.ledger) && first.retry.reasons.is_some(), "{first:?}");
    let second = scenario.outcome(&mut tester).ledger;
    assert_named(&second, &[(INPUT, "source address is the DUT's own")]);
    assert!(!blamed(&second), "{second:?}");
}

#[test]
fn next_hop_that_does_not_answer() {
    let add = |topology: &Topology| in_dut(topology, "ip", &["route", "add", "203.0.113.0/24", "via", "198.18.1.77"]);
    let scenario = Scenario { destination: Ipv4Addr::new(203, 0, 113, 9), ..Scenario::default() };
    let Some(ledger) = scenario.run(add) else { return };
    assert_named(&ledger, &[("DUT, neighbour table", "198.18.1.77 does not answer")]);
}

#[test]
fn policer() {
    let tbf = ["qdisc", "add", "dev", "lr-out", "root", "tbf", "rate", "1mbit", "burst", "4kb", "limit", "8kb"];
    let Some(ledger) = Scenario::default().run(|topology| in_dut(topology, "tc", &tbf)) else { return };
    assert_named(&ledger, &[("lr-out", "queueing discipline full")]);
}

/// The interfaces of the path, each set down while packets pass.
#[test]
fn interface_down_half_way() {
    let core = linerate_sys::affinity::allowed_cores().last().copied();
    let path = TopologySpec { placement: Placement::Thread { core }, ..TopologySpec::default() };
    for (name, sender, rate_pps) in [
        ("lr-in", "packet", Some(20_000.0)),
        ("lr-out", "packet", Some(20_000.0)),
        ("lr-recv", "packet", Some(20_000.0)),
        ("lr-in", "xdp", None),
        ("lr-recv", "xdp", None),
    ] {
        // On a busy machine a short trial can be over before the interface goes down: longer ones, then.
        let one_of = |duration_ms| {
            let path = path.clone();
            let scenario = Scenario { path, sender, receiver: "sink", rate_pps, duration_ms, ..Scenario::default() };
            scenario.run_with(|_| Ok(()), |topology| set_down(topology, name))
        };
        let went_down = |ledger: &Option<Ledger>| ledger.as_ref().is_none_or(|ledger| fell(ledger) > 0);
        let Some(ledger) = [400, 1_000, 3_000].into_iter().map(one_of).find(went_down).flatten() else {
            return eprintln!("skipped: no trial in which {name} went down");
        };
        // A path that is driven as fast as it takes packets loses some before, in the ring of lr-in.
        let expected = [
            ("lr-", "no carrier"),
            ("receive ring of", "when it went down"),
            (INPUT, if name == "lr-out" { "no route" } else { "-" }),
            ("receive ring of lr-in", if rate_pps.is_none() { "ring full" } else { "-" }),
        ];
        eprint!("{name} down, {sender}: ");
        assert_named(&ledger, &expected);
    }
}

/// Changes the packets' headers as they come into the DUT.
fn rewrite(topology: &Topology, statement: &str) -> Result<(), String> {
    let rules = format!("table ip lab {{ chain c {{ type filter hook prerouting priority -300; {statement}; }}; }}");
    in_dut(topology, "nft", &[&rules])
}

/// Packets lost otherwise than in a ring that is full.
fn fell(ledger: &Ledger) -> u64 {
    ledger.account.lost().iter().filter(|loss| !loss.cause.contains("ring full")).map(|loss| loss.packets).sum()
}

/// Sets an interface down once packets have passed it.
fn set_down(topology: &Topology, name: &str) {
    let dut = topology.dut.as_ref().expect("router");
    let (namespace, interface) = match name {
        "lr-recv" => (&topology.receiver.namespace, &topology.receiver.interface),
        "lr-out" => (&dut.namespace, &dut.egress),
        _ => (&dut.namespace, &dut.ingress),
    };
    let mut netlink = Netlink::open_in(namespace).expect("netlink");
    let packets = |netlink: &mut Netlink| {
        let counters = netlink.link_statistics(interface.index).expect("counters").counters;
        counters.rx_packets + counters.tx_packets
    };
    wait_until(|| packets(&mut netlink) > 200);
    netlink.set_up(interface.index, false).expect("down");
}

/// Whether this process may read the kernel's drop reasons.
fn has_reasons() -> bool {
    use linerate_bpf::programs::drop_reasons::{DropReasons, Ignored};
    DropReasons::attach(&[1], &Ignored::default()).is_ok()
}
