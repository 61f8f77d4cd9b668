//! The arithmetic of losses inside a device that carries frames as they are.

use linerate_ledger::attribution::{Direction, Losses, PortRows, losses, losses_of_ways};
use linerate_ledger::counters::{Difference, DutCounters, InterfaceCounters};
use linerate_ledger::ledger::{Ends, close};
use linerate_report::Counted;
use linerate_testbed::topology::{Forwarding, Remainder};

fn interface(name: &str, rx_packets: u64, tx_packets: u64) -> InterfaceCounters {
    InterfaceCounters { name: name.to_owned(), rx_packets, tx_packets, running: true, ..InterfaceCounters::default() }
}

/// Counters of a device that took `took` packets one way and sent `sent` of them on.
fn device(forwarding: Forwarding, took: u64, sent: u64) -> Difference {
    let mut difference = Difference::default();
    difference.generator.interface = interface("lr-gen", 0, took);
    difference.receiver.interface = interface("lr-recv", sent, 0);
    difference.dut = Some(DutCounters {
        forwarding,
        ingress: interface("lr-in", took, 0),
        egress: interface("lr-out", 0, sent),
        ..DutCounters::default()
    });
    difference
}

fn dut(difference: &mut Difference) -> &mut DutCounters {
    difference.dut.as_mut().expect("a device")
}

fn rows(losses: &Losses) -> Vec<(&str, u64)> {
    losses.rows.iter().map(|row| (row.place.as_str(), row.packets)).collect()
}

/// A program on the interfaces, which leaves to the kernel's stack what it does not carry.
fn by_program() -> Forwarding {
    Forwarding { remainder: Remainder::Stack, ..Forwarding::switched() }
}

fn all_kinds() -> [Forwarding; 3] {
    [Forwarding::switched(), by_program(), Forwarding::by_process("forwarder")]
}

#[test]
fn no_loss_no_row() {
    for forwarding in all_kinds() {
        assert_eq!(losses(&device(forwarding, 100, 100), 100, 100, &PortRows::default()), Losses::default());
    }
}

#[test]
fn what_a_process_kept_is_its_own_and_what_others_kept_has_its_place() {
    for (forwarding, named, unnamed) in
        [(Forwarding::by_process("forwarder"), vec![("forwarder", 20)], 0), (Forwarding::switched(), vec![], 20)]
    {
        let found = losses(&device(forwarding, 100, 80), 100, 80, &PortRows::default());
        assert_eq!(rows(&found), named);
        assert_eq!(found.unnamed.iter().map(|row| row.packets).sum::<u64>(), unnamed);
        assert!(found.unnamed.iter().all(|row| row.place.contains("between lr-in and lr-out")));
    }
}

#[test]
fn a_bridge_without_a_way_out_says_so() {
    let mut difference = device(Forwarding::switched(), 100, 0);
    dut(&mut difference).egress.running = false;
    assert_eq!(rows(&losses(&difference, 100, 0, &PortRows::default())), [("lr-out", 100)]);
}

#[test]
fn frames_that_xdp_left_to_the_stack_or_dropped_are_told_apart() {
    let mut difference = device(by_program(), 100, 60);
    dut(&mut difference).ingress.rx_otherhost_dropped = 30;
    dut(&mut difference).ingress.driver.insert("rx_queue_0_xdp_drops".into(), 10);
    let found = losses(&difference, 100, 60, &PortRows::default());
    assert_eq!(rows(&found), [("lr-in", 10), ("lr-in", 30)]);
    assert_eq!(found.unnamed, []);
}

#[test]
fn both_ways_are_one_piece_inside_the_device_and_two_on_the_links() {
    for forwarding in all_kinds() {
        let mut difference = device(forwarding, 100, 100);
        difference.receiver.interface.tx_packets = 50;
        difference.receiver.interface.tx_dropped = 7;
        difference.generator.interface.rx_packets = 50;
        let inside = dut(&mut difference);
        (inside.egress.rx_packets, inside.ingress.tx_packets, inside.egress.napi) = (50, 50, true);
        let ports = PortRows::default();
        let forward = Direction { sent: 100, received: 100, unknown: 0, ports: &ports };
        let backward = Direction { sent: 57, received: 50, unknown: 0, ports: &ports };
        let found = losses_of_ways(&difference, forward, Some(backward));
        assert_eq!(rows(&found), [("receive ring of lr-out", 7)]);
        assert_eq!(found.unnamed, []);
    }
}

#[test]
fn what_waits_behind_a_device_is_not_lost_in_it() {
    for forwarding in all_kinds() {
        let mut difference = device(forwarding, 100, 60);
        (dut(&mut difference).egress.queued_before, dut(&mut difference).egress.queued) = (10, 50);
        let ports = PortRows { other_streams: 10, ..PortRows::default() };
        let found = losses(&difference, 100, 60, &ports);
        assert_eq!(rows(&found), [("lr-out", 50)]);
        assert_eq!((found.unnamed, found.at_most), (vec![], vec![]));
    }
}

/// A program holds 20 packets of the trial before; now it sends those and holds 20 of this one's: the totals show no loss.
#[test]
fn packets_that_a_program_held_back_are_missed_as_far_as_they_are_missing() {
    let ports = PortRows { other_streams: 20, ..PortRows::default() };
    let difference = device(Forwarding::by_process("forwarder"), 100, 100);
    let of = |delivered| {
        let counted = Counted { intended: 100, sent: 100, delivered, ..Counted::default() };
        close(&Ends { counted, received: 100 }, Some(&difference), &ports).expect("balances").account
    };
    let account = of(80);
    let [kept] = account.lost() else { panic!("one row: {account:?}") };
    assert_eq!((kept.place.as_str(), kept.packets, account.unexplained()), ("forwarder", 20, 0));
    // A stranger's packets are other traffic.
    assert_eq!((of(100).lost(), of(100).unexplained()), (&[][..], 0));
}
