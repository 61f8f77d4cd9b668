//! Packets that arrived and do not count as delivered: pieces of those that the device cut, and those that it changed.

use linerate_report::Loss;

use super::{Direction, Path};
use crate::counters::{DutCounters, InterfaceCounters};

impl Path {
    /// What a router cut into fragments arrived as several packets, of which at most one counts as the packet that was sent.
    pub(super) fn fragmented(&mut self, dut: &DutCounters) {
        let packets = dut.protocols.get("Ip.FragOKs").copied().unwrap_or_default();
        let row = Loss::new("DUT, forwarding", "cut into fragments by the DUT", packets).counted_by("Ip.FragOKs");
        self.losses.arrived.push(row);
    }

    /// What reached the receiver and has no signature of a load can be packets of the trial which the device changed. A few can be the
    /// device's own, such as questions for addresses.
    pub(super) fn arrived_unknown(&mut self, receiver: &InterfaceCounters, way: Direction<'_>) {
        let cause = "arrived changed: the signature in their last 16 bytes is damaged";
        let few = (way.sent / 1000).max(10);
        let row = Loss::new(&receiver.name, cause, if way.unknown > few { way.unknown } else { 0 });
        self.losses.arrived.push(row.inferred_from("packets without a signature that reached the receiver"));
    }
}
