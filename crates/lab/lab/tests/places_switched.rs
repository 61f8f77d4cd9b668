//! The arithmetic of losses inside a device that carries frames as they are.

use linerate_lab::counters::{Difference, DutCounters, InterfaceCounters};
use linerate_lab::places::{Losses, PortRows, Way, losses, losses_of_ways};
use linerate_lab::topology::Carrier;

fn interface(name: &str, rx_packets: u64, tx_packets: u64) -> InterfaceCounters {
    InterfaceCounters { name: name.to_owned(), rx_packets, tx_packets, running: true, ..InterfaceCounters::default() }
}

/// Counters of a device that took `took` packets one way and sent `sent` of them on.
fn device(carrier: Carrier, took: u64, sent: u64) -> Difference {
    let mut difference = Difference::default();
    difference.generator.interface = interface("lr-gen", 0, took);
    difference.receiver.interface = interface("lr-recv", sent, 0);
    difference.dut = Some(DutCounters {
        carrier,
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

fn all_carriers() -> [Carrier; 3] {
    [Carrier::Bridge, Carrier::Xdp, Carrier::Process("forwarder".into())]
}

#[test]
fn no_loss_no_row() {
    for carrier in all_carriers() {
        assert_eq!(losses(&device(carrier, 100, 100), 100, 100, &PortRows::default()), Losses::default());
    }
}

#[test]
fn what_a_process_kept_is_its_own_and_what_others_kept_has_its_place() {
    for (carrier, named, unnamed) in
        [(Carrier::Process("forwarder".into()), vec![("forwarder", 20)], 0), (Carrier::Bridge, vec![], 20)]
    {
        let found = losses(&device(carrier, 100, 80), 100, 80, &PortRows::default());
        assert_eq!(rows(&found), named);
        assert_eq!(found.unnamed.iter().map(|row| row.packets).sum::<u64>(), unnamed);
        assert!(found.unnamed.iter().all(|row| row.place.contains("between lr-in and lr-out")));
    }
}

#[test]
fn a_bridge_without_a_way_out_says_so() {
    let mut difference = device(Carrier::Bridge, 100, 0);
    dut(&mut difference).egress.running = false;
    assert_eq!(rows(&losses(&difference, 100, 0, &PortRows::default())), [("lr-out", 100)]);
}

#[test]
fn frames_that_xdp_left_to_the_stack_or_dropped_are_told_apart() {
    let mut difference = device(Carrier::Xdp, 100, 60);
    dut(&mut difference).ingress.rx_otherhost_dropped = 30;
    dut(&mut difference).ingress.driver.insert("rx_queue_0_xdp_drops".into(), 10);
    let found = losses(&difference, 100, 60, &PortRows::default());
    assert_eq!(rows(&found), [("lr-in", 10), ("lr-in", 30)]);
    assert_eq!(found.unnamed, []);
}

#[test]
fn both_ways_are_one_piece_inside_the_device_and_two_on_the_links() {
    for carrier in all_carriers() {
        let mut difference = device(carrier, 100, 100);
        difference.receiver.interface.tx_packets = 50;
        difference.receiver.interface.tx_dropped = 7;
        difference.generator.interface.rx_packets = 50;
        let inside = dut(&mut difference);
        (inside.egress.rx_packets, inside.ingress.tx_packets, inside.egress.napi) = (50, 50, true);
        let ports = PortRows::default();
        let forward = Way { sent: 100, received: 100, ports: &ports };
        let backward = Way { sent: 57, received: 50, ports: &ports };
        let found = losses_of_ways(&difference, forward, Some(backward));
        assert_eq!(rows(&found), [("receive ring of lr-out", 7)]);
        assert_eq!(found.unnamed, []);
    }
}
