//! What counters alone do not say is marked as an inference, or named by the kernel's reasons.

use super::made_up;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use linerate_ledger::attribution::{Losses, PortRows, losses};
use linerate_ledger::counters::Difference;
use linerate_ledger::drops::{DropCounts, DropKind};
use linerate_ledger::hooks::{Chain, Hook};
use linerate_ledger::ledger::{Ends, close};
use linerate_report::{Counted, Loss};
use made_up::{dut, named, router, rows};

/// What the kernel says of drops: interface, reason, function, packets.
fn told(difference: &mut Difference, drops: &[(&str, &str, &str, u64)]) {
    let kind = |interface: &str, reason: &str, function: &str| DropKind {
        interface: Some(interface.to_owned()),
        in_dut: !["lr-gen", "lr-recv"].contains(&interface),
        reason: reason.to_owned(),
        function: Some(function.to_owned()),
    };
    let packets = drops.iter().map(|(on, reason, function, packets)| (kind(on, reason, function), *packets)).collect();
    difference.drops = Some(DropCounts { packets, ..DropCounts::default() });
}

fn inferred(losses: &Losses) -> Vec<(&str, u64)> {
    let rows = losses.rows.iter().filter(|row| row.is_inferred());
    rows.map(|row| (row.cause.as_str(), row.packets)).collect()
}

fn found(difference: &Difference, sent: u64, received: u64) -> Losses {
    losses(difference, sent, received, &PortRows::default())
}

/// 600 packets with a TTL of 1 and 6,000 with a malformed header: one counter counts both.
#[test]
fn header_errors_are_not_divided_by_a_guess() {
    let mut difference = router(10_000);
    difference.generator.interface.tx_packets = 16_600;
    let router = dut(&mut difference);
    router.ingress.rx_packets = 16_600;
    let counters =
        [("Ip.InReceives", 16_600), ("Ip.InHdrErrors", 6_600), ("Icmp.OutTimeExcds", 6), ("Ip.OutRequests", 6)];
    router.protocols.extend(named(counters));
    router.protocols.insert("Ip.OutTransmits".into(), 10_006);
    router.ingress.tx_packets = 6;
    let losses = found(&difference, 16_600, 10_000);
    assert_eq!(inferred(&losses), [("malformed IP header, or TTL expired", 6_600)]);
    told(&mut difference, &[("lr-in", "IP_INHDR", "ip_forward", 600), ("lr-in", "IP_INHDR", "ip_rcv_core", 6_000)]);
    let losses = found(&difference, 16_600, 10_000);
    let mut named = rows(&losses);
    named.sort_unstable();
    let place = "DUT, IPv4 input";
    assert_eq!(named, [(place, "TTL expired", 600), (place, "malformed IP header", 6_000)]);
    assert_eq!(inferred(&losses), []);
}

/// A veth counts what is in the ring of a NAPI when that takes it out: not what the port sent, and no more than the ring holds.
#[test]
fn what_a_ring_still_holds_is_in_no_counter() {
    let mut difference = router(900);
    let waits = |difference: &Difference| difference.in_uncounted_rings([1000, 0]);
    assert_eq!(
        (waits(&difference), found(&difference, 1000, 900).unnamed.len()),
        (0, 1),
        "without NAPI there is no ring"
    );
    dut(&mut difference).ingress.napi = true;
    let losses = found(&difference, 1000, 900);
    assert_eq!((waits(&difference), losses.unnamed.len()), (100, 0));
    let cause = "still in the ring when the counters were read: its core did not come to it";
    assert_eq!(rows(&losses), [("receive ring of lr-in", cause, 100)]);
    assert_eq!(inferred(&losses), [(cause, 100)]);
    assert!(losses.rows.iter().all(|row| row.hint.is_some()));
    // What the queueing discipline dropped or holds is not there, and a ring holds 256.
    difference.generator.interface.queue_drops = 30;
    assert_eq!(waits(&difference), 70);
    difference.generator.interface.tx_packets = 100;
    assert_eq!(waits(&difference), 256);
    // Of an interface that was down nothing is left to wait for.
    dut(&mut difference).ingress.carrier_losses = 1;
    assert_eq!(waits(&difference), 0);
    // An XDP program's frames are counted when they are put in.
    let mut difference = router(900);
    difference.receiver.interface.napi = true;
    difference.receiver.interface.driver = named([("rx_queue_0_xdp_packets", 900)]);
    dut(&mut difference).egress.driver = named([("tx_queue_0_xdp_xmit", 950)]);
    assert_eq!(difference.in_uncounted_rings([900, 0]), 50);
}

/// A drop after reception is no EtherType without a handler because it is one.
#[test]
fn drops_after_reception_are_named_by_the_kernel_or_marked() {
    let mut difference = router(900);
    difference.generator.interface.tx_packets = 1000;
    let router = dut(&mut difference);
    (router.ingress.rx_packets, router.ingress.rx_dropped) = (1000, 100);
    assert_eq!(inferred(&found(&difference, 1000, 900)), [("no protocol handler for this EtherType", 100)]);
    // With an XDP program that redirects, its driver counts the same drops.
    dut(&mut difference).ingress.xdp = true;
    dut(&mut difference).ingress.driver = named([("rx_queue_0_drops", 100), ("rx_queue_0_xdp_packets", 1000)]);
    let losses = found(&difference, 1000, 900);
    let [(cause, 100)] = &inferred(&losses)[..] else { panic!("one row") };
    assert!(cause.starts_with("redirect by the XDP program failed"), "{cause}");
    told(&mut difference, &[("lr-in", "xdp_redirect_err", "Network is down", 100)]);
    let losses = found(&difference, 1000, 900);
    assert_eq!(rows(&losses), [("lr-in", "redirect by the XDP program failed: Network is down", 100)]);
    assert_eq!(inferred(&losses), []);
}

/// Others' traffic to a dead neighbour moves no counter that is asked here; an address of the DUT's own table is an inference.
#[test]
fn a_silent_next_hop_is_inferred_and_several_are_all_named() {
    let mut difference = router(1000);
    dut(&mut difference).egress.tx_packets = 400;
    difference.receiver.interface.rx_packets = 400;
    difference.receiver.interface.rx_otherhost_dropped = 400;
    assert_eq!(rows(&found(&difference, 1000, 400)), []);
    dut(&mut difference).unresolved_neighbours = [77, 78].map(|host| Ipv4Addr::new(198, 18, 1, host).into()).to_vec();
    let cause = "next hops 198.18.1.77, 198.18.1.78 do not answer";
    assert_eq!(inferred(&found(&difference, 1000, 400)), [(cause, 600)]);
    told(&mut difference, &[("lr-out", "NEIGH_FAILED", "neigh_invalidate", 600)]);
    let losses = found(&difference, 1000, 400);
    assert_eq!((rows(&losses), inferred(&losses)), (vec![("DUT, neighbour table", cause, 600)], vec![]));
}

#[test]
fn a_tc_filter_at_the_output_is_where_it_is_and_a_chain_beside_it_is_not_blamed() {
    let mut difference = router(1000);
    dut(&mut difference).egress.tx_packets = 400;
    difference.receiver.interface.rx_packets = 400;
    dut(&mut difference).chains = vec![Chain { hook: Hook::Egress, name: "lab accepts".into(), only: None }];
    assert_eq!(inferred(&found(&difference, 1000, 400)), [("nftables chain lab accepts", 600)]);
    told(&mut difference, &[("lr-out", "TC_EGRESS", "tcf_qevent_handle", 600)]);
    let losses = found(&difference, 1000, 400);
    assert_eq!(rows(&losses), [("lr-out", "dropped by a tc filter or policer", 600)]);
}

/// The backlogs of cores are the machine's: what the kernel says is of the path.
#[test]
fn backlogs_of_others_are_not_blamed() {
    let mut difference = router(900);
    difference.generator.interface.tx_packets = 1000;
    let router = dut(&mut difference);
    (router.ingress.rx_packets, router.ingress.rx_dropped) = (1000, 100);
    let core = linerate_testbed::proc_net::Softnet { dropped: 5_000, time_squeeze: 0 };
    difference.host.softnet = BTreeMap::from([(1, core)]);
    let losses = found(&difference, 1000, 900);
    assert_eq!(inferred(&losses), [("backlog full (net.core.netdev_max_backlog)", 100)]);
    told(&mut difference, &[("lr-in", "UNHANDLED_PROTO", "__netif_receive_skb_core", 100)]);
    assert_eq!(rows(&found(&difference, 1000, 900)), [("lr-in", "no protocol handler for this EtherType", 100)]);
}

#[test]
fn what_leaves_by_other_ways_has_a_row() {
    // By a third interface.
    let mut difference = router(1000);
    dut(&mut difference).egress.tx_packets = 0;
    difference.receiver.interface.rx_packets = 0;
    dut(&mut difference).elsewhere = named([("dummy0", 1000), ("lo", 0)]);
    let cause = "sent out of an interface that does not lead to the receiver";
    assert_eq!(rows(&found(&difference, 1000, 0)), [("dummy0", cause, 1000)]);
    // By the one that they came in by, beside six ICMP errors.
    let router = dut(&mut difference);
    router.elsewhere.clear();
    router.ingress.tx_packets = 1006;
    router.protocols.extend(named([("Ip.OutRequests", 6), ("Ip.OutTransmits", 1006)]));
    let cause = "sent back out of the interface that it came in by";
    assert_eq!(rows(&found(&difference, 1000, 0)), [("lr-in", cause, 1000)]);
}

/// An XDP program that sends back, half of which the sender's interface refuses.
#[test]
fn what_an_xdp_program_sends_back_has_a_row() {
    let mut difference = router(0);
    difference.generator.interface.tx_packets = 1000;
    let ingress = &mut dut(&mut difference).ingress;
    (ingress.rx_packets, ingress.xdp, ingress.tx_packets, ingress.tx_dropped) = (1000, true, 500, 500);
    ingress.driver = named([("rx_queue_0_xdp_tx", 500), ("rx_queue_0_xdp_tx_errors", 500)]);
    let losses = found(&difference, 1000, 0);
    let causes = [
        ("lr-in", "sent back out of lr-in by the XDP program (XDP_TX)", 500),
        ("lr-in", "sent back by the XDP program (XDP_TX), which the interface refused", 500),
    ];
    assert_eq!(rows(&losses), causes);
    assert_eq!(losses.unnamed, []);
}

#[test]
fn answers_to_arp_of_the_tester_are_no_loss() {
    let mut difference = router(1000);
    difference.receiver.interface.tx_packets = 20;
    dut(&mut difference).egress.rx_packets = 20;
    assert_eq!(found(&difference, 1000, 1000), Losses::default());
}

#[test]
fn what_arrives_in_pieces_or_damaged_has_a_row_as_far_as_packets_are_missing() {
    let close = |difference: &Difference, delivered, received| {
        let counted = Counted { intended: 1000, sent: 1000, delivered, ..Counted::default() };
        close(&Ends { counted, received }, Some(difference), &PortRows::default()).expect("balances")
    };
    let ledger = close(&router(1000), 970, 1000);
    let [row] = ledger.account.lost() else { panic!("one row: {ledger:?}") };
    assert!(row.cause.starts_with("arrived changed") && row.is_inferred(), "{row:?}");
    assert_eq!((row.packets, ledger.account.unexplained()), (30, 0));
    // Strangers that arrive are none of the missing packets.
    assert_eq!(close(&router(1000), 1000, 1000).account.lost(), [] as [Loss; 0]);
    let mut lost = router(1000);
    lost.receiver.interface.rx_packets = 1000;
    dut(&mut lost).egress.tx_packets = 970;
    let ledger = close(&lost, 970, 1000);
    assert_eq!(ledger.unnamed.iter().map(|row| row.packets).sum::<u64>(), 30);
    assert_eq!(ledger.account.lost(), [] as [Loss; 0], "their place is known and is another one");
    // Fragments.
    let mut cut = router(1000);
    dut(&mut cut).protocols.extend(named([("Ip.FragOKs", 1000), ("Ip.FragCreates", 2000), ("Ip.OutTransmits", 2000)]));
    dut(&mut cut).egress.tx_packets = 2000;
    cut.receiver.interface.rx_packets = 2000;
    let ledger = close(&cut, 0, 2000);
    assert_eq!(ledger.account.lost()[0].cause, "cut into fragments by the DUT");
    assert_eq!((ledger.account.lost()[0].packets, ledger.account.unexplained()), (1000, 0));
}

/// Two network cards with a box between them.
#[test]
fn what_the_testers_own_network_cards_lose_is_theirs() {
    let mut difference = router(0);
    difference.dut = None;
    difference.outside = true;
    let (generator, receiver) = (&mut difference.generator.interface, &mut difference.receiver.interface);
    (generator.tx_packets, generator.tx_dropped) = (950, 50);
    receiver.rx_packets = 900;
    receiver.fields = named([("rx_missed_errors", 30), ("rx_crc_errors", 5), ("rx_errors", 5)]);
    let losses = found(&difference, 1000, 900);
    let rows: Vec<_> = losses.rows.iter().map(|row| (row.place.as_str(), row.packets, row.is_inferred())).collect();
    let expected = [
        ("lr-gen", 50, false),
        ("lr-recv", 30, false),
        ("lr-recv", 5, false),
        ("between lr-gen and lr-recv", 15, true),
    ];
    assert_eq!(rows, expected);
    assert!(losses.rows.iter().all(|row| row.hint.is_some()), "{losses:?}");
}
