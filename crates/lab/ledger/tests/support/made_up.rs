//! Counters of a path as a trial adds them, made up.
#![allow(dead_code)] // Each test binary uses its own part.

use linerate_ledger::attribution::Losses;
use linerate_ledger::counters::{Difference, DutCounters, InterfaceCounters};
use linerate_testbed::proc_net::Counters;

/// Counters of a router through which `packets` went without loss.
pub fn router(packets: u64) -> Difference {
    let interface = |name: &str, rx_packets, tx_packets| InterfaceCounters {
        name: name.to_owned(),
        rx_packets,
        tx_packets,
        running: true,
        ..InterfaceCounters::default()
    };
    let mut difference = Difference::default();
    difference.generator.interface = interface("lr-gen", 0, packets);
    difference.receiver.interface = interface("lr-recv", packets, 0);
    difference.receiver.interface.rx_otherhost_dropped = packets;
    difference.dut = Some(DutCounters {
        ingress: interface("lr-in", packets, 0),
        egress: interface("lr-out", 0, packets),
        protocols: named([("Ip.InReceives", packets), ("Ip.ForwDatagrams", packets), ("Ip.OutTransmits", packets)]),
        ..DutCounters::default()
    });
    difference
}

pub fn named<const N: usize>(counters: [(&str, u64); N]) -> Counters {
    counters.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

pub fn dut(difference: &mut Difference) -> &mut DutCounters {
    difference.dut.as_mut().expect("a router")
}

pub fn rows(losses: &Losses) -> Vec<(&str, &str, u64)> {
    losses.rows.iter().map(|row| (row.place.as_str(), row.cause.as_str(), row.packets)).collect()
}
