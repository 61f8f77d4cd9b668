//! Losses on a path that ends in a capture, from made-up counters.

use linerate_ledger::attribution::{Direction, PortRows, losses_of_ways};
use linerate_ledger::counters::{Difference, DutCounters, HostCounters, InterfaceCounters, SideCounters};
use linerate_report::Loss;
use linerate_testbed::proc_net::Softnet;
use linerate_testbed::topology::Forwarding;

fn interface(name: &str, rx_packets: u64, tx_packets: u64) -> InterfaceCounters {
    InterfaceCounters { name: name.into(), rx_packets, tx_packets, running: true, ..InterfaceCounters::default() }
}

/// Of each end 100 packets sent, and so many received by the interface that it sends to.
fn path(ingress: InterfaceCounters, egress: InterfaceCounters, backlog: u64) -> Difference {
    let side = |interface| SideCounters { interface, ..SideCounters::default() };
    let softnet = [(0, Softnet { dropped: backlog, ..Softnet::default() })].into();
    Difference {
        generator: side(InterfaceCounters {
            tx_dropped: 100 - ingress.rx_packets,
            ..interface("lr-gen", 0, ingress.rx_packets)
        }),
        receiver: side(InterfaceCounters {
            tx_dropped: 100 - egress.rx_packets,
            ..interface("lr-recv", 0, egress.rx_packets)
        }),
        dut: Some(DutCounters { forwarding: Forwarding::captured(), ingress, egress, ..DutCounters::default() }),
        host: HostCounters { softnet },
        ..Difference::default()
    }
}

fn ring(packets: u64) -> PortRows {
    PortRows { receiver: vec![Loss::new("ring of the capture on lr-in", "ring full", packets)], ..PortRows::default() }
}

fn rows(losses: &[Loss]) -> Vec<(&str, u64)> {
    losses.iter().map(|loss| (loss.place.as_str(), loss.packets)).collect()
}

#[test]
fn each_port_has_its_own_losses() {
    let napi = |interface| InterfaceCounters { napi: true, ..interface };
    let path = path(napi(interface("lr-in", 90, 0)), napi(interface("lr-out", 100, 0)), 0);
    let (of_ring, nothing) = (ring(20), PortRows::default());
    let forward = Direction { sent: 100, received: 70, unknown: 0, ports: &of_ring };
    let backward = Direction { sent: 100, received: 97, unknown: 0, ports: &nothing };
    let losses = losses_of_ways(&path, forward, Some(backward));
    assert_eq!(rows(&losses.rows), [("receive ring of lr-in", 10), ("ring of the capture on lr-in", 20)]);
    assert_eq!(rows(&losses.unnamed), [("between lr-out and the capture", 3)], "what nobody counts has its place");
}

#[test]
fn a_backlog_refuses_packets_before_the_interface_counts_them_or_after_it() {
    // Without NAPI the sender counts what a backlog refused, and the interface does as well.
    let before = InterfaceCounters { rx_dropped: 10, ..interface("lr-in", 90, 0) };
    let nothing = PortRows::default();
    let one = |path: &Difference, received| {
        losses_of_ways(path, Direction { sent: 100, received, unknown: 0, ports: &nothing }, None)
    };
    let losses = one(&path(before, interface("lr-out", 100, 0), 10), 90);
    assert_eq!((rows(&losses.rows), losses.unnamed.len()), (vec![("receive backlog of a core", 10)], 0));
    // With NAPI and receive packet steering the interface has counted it by then.
    let after = InterfaceCounters { rx_dropped: 10, napi: true, ..interface("lr-in", 100, 0) };
    let losses = one(&path(after, interface("lr-out", 100, 0), 10), 90);
    assert_eq!((rows(&losses.rows), losses.unnamed.len()), (vec![("receive backlog of a core", 10)], 0));
}

#[test]
fn what_an_af_xdp_ring_refused_is_no_loss_of_the_link() {
    let driver = [("rx_queue_0_drops".to_owned(), 20)].into();
    let ingress = InterfaceCounters { rx_dropped: 20, napi: true, xdp: true, driver, ..interface("lr-in", 90, 0) };
    let of_ring = ring(20);
    let way = Direction { sent: 100, received: 70, unknown: 0, ports: &of_ring };
    let losses = losses_of_ways(&path(ingress, interface("lr-out", 100, 0), 0), way, None);
    assert_eq!(rows(&losses.rows), [("receive ring of lr-in", 10), ("ring of the capture on lr-in", 20)]);
    assert_eq!(losses.unnamed, []);
}
