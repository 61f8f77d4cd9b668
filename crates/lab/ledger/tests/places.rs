//! The arithmetic of losses on counters as they were seen to move (docs/ledger.md has the experiments).

use super::made_up;

use std::collections::BTreeMap;

use linerate_ledger::attribution::{Direction, Losses, PortRows, losses, losses_of_ways};
use linerate_ledger::counters::Difference;
use linerate_ledger::hooks::{Chain, Hook};
use linerate_ledger::ledger::{Ends, Ledger, close};
use linerate_report::{Counted, Loss};
use linerate_testbed::proc_net::Softnet;
use made_up::{dut, named, router, rows};

fn with_backlog_drops(difference: &mut Difference, dropped: u64) {
    difference.host.softnet = BTreeMap::from([(1, Softnet { dropped, time_squeeze: 0 })]);
}

#[test]
fn no_loss_no_row() {
    let losses = losses(&router(1000), 1000, 1000, &PortRows::default());
    assert_eq!(losses, Losses::default());
}

/// XDP live frames into a threaded NAPI, 20,000 sent: one drop moves the sender's `tx_dropped` and `xdp_xmit_errors` and the
/// receiver's `rx_dropped`.
#[test]
fn an_xdp_frame_that_finds_the_ring_full_is_one_loss() {
    let mut difference = router(2912);
    difference.generator.interface.tx_dropped = 17088;
    difference.generator.interface.driver =
        named([("tx_queue_0_xdp_xmit_errors", 17088), ("tx_queue_0_xdp_xmit", 2912)]);
    dut(&mut difference).ingress.rx_dropped = 17088;
    dut(&mut difference).ingress.napi = true;
    let found = losses(&difference, 20000, 2912, &PortRows::default());
    assert_eq!(rows(&found), [("receive ring of lr-in", "ring full: its core did not keep up", 17088)]);
    // With the interface down for a part of the time, the cause cannot be told.
    dut(&mut difference).ingress.carrier_losses = 1;
    let found = losses(&difference, 20000, 2912, &PortRows::default());
    assert_eq!(rows(&found), [("receive ring of lr-in", "ring full, or the interface was down for a time", 17088)]);
}

/// Receive packet steering to a core that is full, NAPI on the ingress and none on the receiver: 200,000 sent, of which
/// 112,105 carried another MAC address. Drops at the ingress come after `rx_packets`, drops at the receiver before.
#[test]
fn backlog_drops_are_divided_between_the_two_interfaces() {
    let mut difference = router(0);
    difference.generator.interface.tx_packets = 200_000;
    with_backlog_drops(&mut difference, 45_128);
    difference.receiver.interface.rx_packets = 42_767;
    difference.receiver.interface.rx_otherhost_dropped = 42_767;
    difference.receiver.interface.rx_dropped = 10_379;
    let router = dut(&mut difference);
    router.ingress.rx_packets = 200_000;
    router.ingress.rx_otherhost_dropped = 112_105;
    router.ingress.rx_dropped = 34_749;
    router.ingress.napi = true;
    router.egress.tx_packets = 42_767;
    router.egress.tx_dropped = 10_379;
    router.protocols = named([("Ip.InReceives", 53_146), ("Ip.ForwDatagrams", 53_146), ("Ip.OutTransmits", 53_146)]);
    let found = losses(&difference, 200_000, 42_767, &PortRows::default());
    let backlog = ("receive backlog of a core", "backlog full (net.core.netdev_max_backlog)");
    let stranger = ("lr-in", "destination MAC address (or VLAN) is not the DUT's", 112_105);
    assert_eq!(rows(&found), [(backlog.0, backlog.1, 34_749), stranger, (backlog.0, backlog.1, 10_379)]);
    assert_eq!(found.unnamed, []);
}

/// A token bucket on the egress: only the queueing discipline counts.
#[test]
fn a_queueing_discipline_drops_what_no_interface_counts() {
    let mut difference = router(1000);
    dut(&mut difference).egress.tx_packets = 93;
    dut(&mut difference).egress.queue_drops = 907;
    difference.receiver.interface.rx_packets = 93;
    difference.receiver.interface.rx_otherhost_dropped = 93;
    let found = losses(&difference, 1000, 93, &PortRows::default());
    assert_eq!(rows(&found), [("lr-out", "queueing discipline full", 907)]);
}

const STILL_QUEUED: &str = "still queued when the counters were read";

/// A token bucket with a long queue: 1000 sent, of which 900 wait at the end.
#[test]
fn what_waits_in_a_queueing_discipline_is_not_lost_elsewhere() {
    let mut difference = router(1000);
    dut(&mut difference).egress.tx_packets = 93;
    (dut(&mut difference).egress.queue_drops, dut(&mut difference).egress.queued) = (7, 905);
    difference.receiver.interface.rx_packets = 93;
    let found = losses(&difference, 1000, 93, &PortRows::default());
    // Five left the queue between the two readings of it: no more wait there than are missing.
    assert_eq!(rows(&found), [("lr-out", "queueing discipline full", 7), ("lr-out", STILL_QUEUED, 900)]);
    assert_eq!(found.unnamed, []);
}

/// The trial after it: 300 of the 900 have come, none of its own 1000.
#[test]
fn what_waited_in_a_queueing_discipline_before_is_none_of_the_trials() {
    let mut difference = router(1000);
    let egress = &mut dut(&mut difference).egress;
    (egress.tx_packets, egress.queued_before, egress.queued) = (300, 900, 1600);
    difference.receiver.interface.rx_packets = 300;
    let ports = PortRows { other_streams: 300, ..PortRows::default() };
    let found = losses(&difference, 1000, 300, &ports);
    assert_eq!(rows(&found), [("lr-out", STILL_QUEUED, 1000)]);
    assert_eq!(found.unnamed, []);
    // Strangers' packets that did not wait there change nothing.
    dut(&mut difference).egress.queued_before = 0;
    difference.dut.as_mut().expect("a router").egress.tx_packets = 1000;
    let ports = PortRows { other_streams: 50, ..PortRows::default() };
    assert_eq!(rows(&losses(&difference, 1000, 1050, &ports)), []);
}

/// The same before the DUT, whose totals have the earlier packets, too.
#[test]
fn what_waited_in_the_queue_of_the_sending_interface_is_none_of_the_trials() {
    let mut difference = router(300);
    let generator = &mut difference.generator.interface;
    (generator.queued_before, generator.queued) = (200, 900);
    let ports = PortRows { other_streams: 200, ..PortRows::default() };
    let found = losses(&difference, 1000, 300, &ports);
    assert_eq!(rows(&found), [("lr-gen", STILL_QUEUED, 900)]);
    assert_eq!(found.unnamed, []);
}

/// A next hop that never answers: 1000 forwarded, three ARP requests and six ICMP errors sent meanwhile.
#[test]
fn arp_and_icmp_of_the_dut_do_not_hide_a_waiting_packet() {
    let mut difference = router(1000);
    difference.generator.interface.rx_packets = 6;
    difference.generator.interface.rx_otherhost_dropped = 6;
    difference.receiver.interface.rx_packets = 3;
    difference.receiver.interface.rx_otherhost_dropped = 0;
    let router = dut(&mut difference);
    router.unresolved_neighbours = vec![std::net::Ipv4Addr::new(198, 18, 1, 77).into()];
    router.ingress.tx_packets = 6;
    router.egress.tx_packets = 3;
    router.protocols.extend(named([("Ip.OutRequests", 6), ("Ip.OutTransmits", 1006)]));
    let found = losses(&difference, 1000, 3, &PortRows::default());
    assert_eq!(rows(&found), [("DUT, neighbour table", "next hop 198.18.1.77 does not answer", 1000)]);
}

/// A receiver whose XDP program takes the frames before IPv4 sees them: they are not taken for ARP.
#[test]
fn frames_that_xdp_took_are_not_taken_for_arp() {
    let mut difference = router(1000);
    difference.receiver.interface.rx_otherhost_dropped = 0;
    difference.receiver.interface.xdp = true;
    dut(&mut difference).unresolved_neighbours = vec![std::net::Ipv4Addr::new(198, 18, 1, 77).into()];
    assert_eq!(losses(&difference, 1000, 1000, &PortRows::default()), Losses::default());
}

#[test]
fn fragments_are_neither_lost_nor_gained() {
    let mut difference = router(1000);
    dut(&mut difference).protocols.extend(named([
        ("Ip.FragOKs", 1000),
        ("Ip.FragCreates", 2000),
        ("Ip.OutTransmits", 2000),
    ]));
    dut(&mut difference).egress.tx_packets = 2000;
    difference.receiver.interface.rx_packets = 2000;
    difference.receiver.interface.rx_otherhost_dropped = 2000;
    let found = losses(&difference, 1000, 2000, &PortRows::default());
    assert_eq!((found.rows, found.unnamed), (vec![], vec![]));
}

/// An older kernel: what is lost behind the decision to forward is lost at the output.
#[test]
fn a_kernel_that_does_not_count_ipv4_output_still_balances() {
    let mut difference = router(1000);
    dut(&mut difference).protocols.remove("Ip.OutTransmits");
    assert_eq!(losses(&difference, 1000, 1000, &PortRows::default()), Losses::default());
    dut(&mut difference).egress.tx_packets = 900;
    dut(&mut difference).protocols.insert("Ip.FragFails".to_owned(), 60);
    dut(&mut difference).unresolved_neighbours = vec![std::net::Ipv4Addr::new(198, 18, 1, 77).into()];
    difference.receiver.interface.rx_packets = 900;
    difference.receiver.interface.rx_otherhost_dropped = 900;
    let found = losses(&difference, 1000, 900, &PortRows::default());
    let packets: Vec<_> = found.rows.iter().map(|row| (row.place.as_str(), row.packets)).collect();
    assert_eq!(packets, [("DUT, forwarding", 60), ("DUT, neighbour table", 40)]);
}

#[test]
fn a_chain_is_named_only_where_something_is_missing() {
    let mut difference = router(1000);
    dut(&mut difference).chains = vec![
        Chain { hook: Hook::Forward, name: "filter forward".to_owned(), only: None },
        Chain { hook: Hook::Postrouting, name: "nat post".to_owned(), only: None },
    ];
    assert_eq!(losses(&difference, 1000, 1000, &PortRows::default()), Losses::default());
    dut(&mut difference).protocols.insert("Ip.OutTransmits".to_owned(), 990);
    dut(&mut difference).egress.tx_packets = 990;
    difference.receiver.interface.rx_packets = 990;
    let found = losses(&difference, 1000, 990, &PortRows::default());
    let cause = "nftables chains filter forward, nat post";
    assert!(found.rows.iter().all(|row| row.is_inferred()), "{found:?}");
    assert_eq!(rows(&found), [("DUT, forwarding", cause, 10)]);
}

#[test]
fn what_the_port_and_its_interface_both_count_is_counted_at_the_interface() {
    let mut difference = router(640);
    difference.generator.interface.tx_dropped = 360;
    dut(&mut difference).ingress.napi = true;
    let refused = Loss::new("packet socket", "interface refused it", 360);
    let ports = PortRows { generator: vec![refused], ..PortRows::default() };
    let found = losses(&difference, 1000, 640, &ports);
    assert_eq!(rows(&found), [("receive ring of lr-in", "ring full: its core did not keep up", 360)]);
    // A port that sent the refused ones again until they were taken has lost none.
    assert_eq!(losses(&difference, 640, 640, &PortRows::default()), Losses::default());
    // What never reached the interface is the port's own.
    let ports = PortRows { generator: vec![Loss::new("transmit ring", "given up", 50)], ..PortRows::default() };
    let found = losses(&router(950), 1000, 950, &ports);
    assert_eq!(rows(&found), [("transmit ring", "given up", 50)]);
}

#[test]
fn the_receiving_ports_rows_come_first_and_over_explaining_shows() {
    let mut difference = router(1000);
    difference.receiver.interface.driver = named([("rx_queue_0_drops", 30), ("rx_queue_0_xdp_packets", 1000)]);
    let ring =
        |packets| PortRows { receiver: vec![Loss::new("AF_XDP ring", "ring full", packets)], ..Default::default() };
    let ledger = |ports: &PortRows| -> Ledger {
        let counted = Counted { intended: 1000, sent: 1000, delivered: 970, ..Counted::default() };
        close(&Ends { counted, received: 970 }, Some(&difference), ports).expect("balances")
    };
    // The driver counts the same 30: one row.
    let exact = ledger(&ring(30));
    assert_eq!((exact.account.lost().len(), exact.account.unexplained()), (1, 0));
    // The port knows only 10 of them.
    let partly = ledger(&ring(10));
    let packets: Vec<u64> = partly.account.lost().iter().map(|row| row.packets).collect();
    assert_eq!((packets, partly.account.unexplained()), (vec![10, 20], 0));
    // A port that claims more than is missing.
    assert_eq!(ledger(&ring(35)).account.unexplained(), -5);
    // Nobody knows: the place is told, the cause is not.
    difference.receiver.interface.driver.clear();
    let nobody = {
        let counted = Counted { intended: 1000, sent: 1000, delivered: 970, ..Counted::default() };
        close(&Ends { counted, received: 970 }, Some(&difference), &PortRows::default()).expect("balances")
    };
    assert_eq!(nobody.account.unexplained(), 30);
    assert_eq!(nobody.unnamed[0].place, "between lr-recv and the receiving port");
}

/// Both ways at once, 1000 packets one way and 400 the other: the DUT's totals are sums, the links and the ends are by direction.
fn router_both_ways() -> Difference {
    let mut difference = router(1400);
    let interface = &mut difference.generator.interface;
    (interface.tx_packets, interface.rx_packets) = (1000, 400);
    let interface = &mut difference.receiver.interface;
    (interface.tx_packets, interface.rx_packets, interface.rx_otherhost_dropped) = (400, 1000, 1000);
    let router = dut(&mut difference);
    (router.ingress.rx_packets, router.ingress.tx_packets) = (1000, 400);
    (router.egress.rx_packets, router.egress.tx_packets) = (400, 1000);
    difference
}

fn both(difference: &Difference, forward: (u64, u64), backward: (u64, u64)) -> Losses {
    let ports = PortRows::default();
    let way = |(sent, received)| Direction { sent, received, unknown: 0, ports: &ports };
    losses_of_ways(difference, way(forward), Some(way(backward)))
}

#[test]
fn both_ways_without_loss_have_no_row() {
    assert_eq!(both(&router_both_ways(), (1000, 1000), (400, 400)), Losses::default());
}

#[test]
fn each_direction_has_its_own_rings() {
    let mut difference = router_both_ways();
    // Each of the four rings is full for some packets.
    difference.generator.interface.tx_dropped = 1;
    difference.receiver.interface.tx_dropped = 20;
    dut(&mut difference).ingress.tx_dropped = 300;
    dut(&mut difference).egress.tx_dropped = 4000;
    difference.generator.interface.napi = true;
    difference.receiver.interface.napi = true;
    dut(&mut difference).ingress.napi = true;
    dut(&mut difference).egress.napi = true;
    let router = dut(&mut difference);
    router.protocols = named([("Ip.InReceives", 5700), ("Ip.ForwDatagrams", 5700), ("Ip.OutTransmits", 5700)]);
    (router.ingress.rx_packets, router.egress.rx_packets) = (5000, 700);
    difference.generator.interface.tx_packets = 5000;
    difference.receiver.interface.tx_packets = 700;
    let found = both(&difference, (5001, 1000), (720, 400));
    let cause = "ring full: its core did not keep up";
    let expected = [
        ("receive ring of lr-in", cause, 1),
        ("receive ring of lr-out", cause, 20),
        ("receive ring of lr-recv", cause, 4000),
        ("receive ring of lr-gen", cause, 300),
    ];
    assert_eq!((rows(&found), found.unnamed.as_slice()), (expected.to_vec(), [].as_slice()));
}

#[test]
fn what_one_direction_has_too_much_does_not_hide_a_loss_of_the_other() {
    let mut difference = router_both_ways();
    // 5 packets of the way forward did not reach the port; 5 packets of other traffic reached the port of the way back.
    let found = both(&difference, (1000, 995), (400, 405));
    let [lost] = found.unnamed.as_slice() else { panic!("one place: {found:?}") };
    assert_eq!((lost.place.as_str(), lost.packets), ("between lr-recv and the receiving port", 5));
    // A wrong Ethernet address on the way back is found at its own interface.
    difference.receiver.interface.tx_packets += 7;
    let router = dut(&mut difference);
    router.egress.rx_packets += 7;
    router.egress.rx_otherhost_dropped = 7;
    let found = both(&difference, (1000, 1000), (407, 400));
    assert_eq!(rows(&found), [("lr-out", "destination MAC address (or VLAN) is not the DUT's", 7)]);
}
