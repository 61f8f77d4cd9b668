//! Packets that wait on the path when the counters are read. Those of the trial, at its end, are a row of their own; those of an
//! earlier trial, at its beginning, are none of its packets: what an interface sent of them is not taken for the trial's.

use linerate_report::Loss;

use super::segment::Segment;
use super::{Direction, Losses, Path};
use crate::counters::{Difference, InterfaceCounters};
use linerate_testbed::switches::SwitchCounters;

/// The cause of what waits in a queue at the end of a trial.
const STILL_QUEUED: &str = "still queued when the counters were read";
/// The cause of what reached the receiving interface too late to be counted.
const UNDER_WAY: &str = "under way when the counters were read";

/// Packets of earlier trials that came in this one.
#[derive(Debug, Default)]
pub(super) struct CarriedOver {
    by_interface: Vec<(String, u64)>,
    /// The others: a device can have held them that shows no queue.
    elsewhere: u64,
}

impl CarriedOver {
    /// Of the packets of other streams that a way's end took, those that had waited in the queues before the trial, the last queue of
    /// the path first.
    pub(super) fn of(difference: &Difference, forward: Direction<'_>, backward: Option<Direction<'_>>) -> Self {
        let (generator, receiver) = (&difference.generator.interface, &difference.receiver.interface);
        let dut = difference.dut.as_ref();
        let mut carried = CarriedOver::default();
        carried.add(dut.map(|dut| &dut.egress), generator, forward);
        match backward {
            Some(way) => carried.add(dut.map(|dut| &dut.ingress), receiver, way),
            // Nobody counts what comes that way, so all that leaves the queue there counts as carried over.
            None => {
                dut.map(|dut| carried.add_one(&dut.ingress, u64::MAX));
            }
        }
        carried
    }

    fn add(&mut self, last: Option<&InterfaceCounters>, first: &InterfaceCounters, way: Direction<'_>) {
        let mut others = way.ports.other_streams;
        for interface in last.into_iter().chain([first]) {
            others -= self.add_one(interface, others);
        }
        self.elsewhere += others;
    }

    fn add_one(&mut self, interface: &InterfaceCounters, at_most: u64) -> u64 {
        let sent = interface.tx_packets + interface.tx_dropped;
        let packets = at_most.min(interface.queued_before).min(sent);
        self.by_interface.push((interface.name.clone(), packets));
        packets
    }

    /// Those that an interface sent.
    pub(super) fn at(&self, interface: &InterfaceCounters) -> u64 {
        let same = self.by_interface.iter().filter(|(name, _)| *name == interface.name);
        same.map(|(_, packets)| packets).sum()
    }
}

impl Segment<'_> {
    /// What waits in the queueing discipline of an interface.
    pub(super) fn take_queued(&mut self, interface: &InterfaceCounters) {
        let name = &interface.name;
        self.take(Loss::new(name, STILL_QUEUED, interface.queued).counted_by(format!("qdisc of {name} backlog")));
    }
}

impl Path {
    /// What reached an end's interface while the counters were read may be in some of them and not in others.
    pub(super) fn under_way(&mut self, to: &InterfaceCounters, way: Direction<'_>) {
        let row = under_way(&to.name, way.ports.while_reading);
        self.losses.at_most.push(row.counted_by(format!("{} rx_packets", to.name)));
    }

    /// So many packets of the trial can be missing at a place unseen, because as many of an earlier one came out of it.
    pub(super) fn hidden_at(&mut self, row: Loss) {
        let packets = row.packets.min(self.carried_over.elsewhere);
        self.losses.at_most.push(Loss { packets, ..row });
    }
}

/// At most so many packets reached a place while the counters were read.
pub(super) fn under_way(place: &str, packets: u64) -> Loss {
    Loss::new(place, UNDER_WAY, packets)
}

/// What waits in a switch.
pub(super) fn in_switch(place: &str, switch: &SwitchCounters) -> Loss {
    Loss::new(place, STILL_QUEUED, switch.waiting).counted_by("linerate switch ctl show stats")
}

impl Losses {
    /// The rows of `missing` packets: what is in no row that was counted has those that hold so many at most. What is in two rows,
    /// because it moved while the counters were read, is taken off those that are the least sure.
    pub(crate) fn rows_of(self, missing: u64) -> Vec<Loss> {
        let mut rows = self.rows;
        let named: u64 = rows.iter().map(|row| row.packets).sum();
        let moved = self.at_most.iter().filter(|row| row.cause == UNDER_WAY).map(|row| row.packets).sum();
        let mut twice = named.saturating_sub(missing).min(moved);
        let (guessed, rest): (Vec<_>, Vec<_>) = rows.iter_mut().partition(|row| row.inferred_from.is_some());
        for row in guessed.into_iter().chain(rest.into_iter().filter(|row| row.cause == STILL_QUEUED)) {
            let packets = row.packets.min(twice);
            (row.packets, twice) = (row.packets - packets, twice - packets);
        }
        rows.retain(|row| row.packets > 0);
        let mut left = missing.saturating_sub(named);
        let mut give = |row: Loss, most: u64| {
            let packets = row.packets.min(most);
            rows.extend((packets > 0).then_some(Loss { packets, ..row }));
            packets
        };
        for row in self.at_most {
            left -= give(row, left);
        }
        left = left.saturating_sub(self.unnamed.iter().map(|row| row.packets).sum());
        for row in self.arrived {
            left -= give(row, left);
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn losses(rows: Vec<Loss>, at_most: Vec<Loss>) -> Losses {
        Losses { rows, at_most, ..Losses::default() }
    }

    fn packets(rows: &[Loss]) -> Vec<(&str, u64)> {
        rows.iter().map(|row| (row.place.as_str(), row.packets)).collect()
    }

    #[test]
    fn what_no_row_has_was_under_way_as_far_as_that_can_be() {
        let rows = || vec![Loss::new("a", STILL_QUEUED, 70)];
        let found = losses(rows(), vec![under_way("b", 20), Loss::new("c", "held", 100)]);
        assert_eq!(packets(&found.clone().rows_of(85)), [("a", 70), ("b", 15)]);
        assert_eq!(packets(&found.clone().rows_of(99)), [("a", 70), ("b", 20), ("c", 9)]);
        assert_eq!(packets(&found.rows_of(70)), [("a", 70)]);
        assert_eq!(packets(&losses(rows(), vec![]).rows_of(99)), [("a", 70)]);
    }

    #[test]
    fn what_moved_while_it_was_counted_is_in_no_two_rows_and_what_did_not_move_contradicts() {
        let rows = || vec![Loss::new("a", STILL_QUEUED, 70), Loss::new("b", "guess", 2).inferred_from("totals")];
        let found = losses(rows(), vec![under_way("c", 5)]);
        assert_eq!(packets(&found.clone().rows_of(72)), [("a", 70), ("b", 2)]);
        assert_eq!(packets(&found.clone().rows_of(68)), [("a", 68)]);
        assert_eq!(packets(&found.rows_of(60)), [("a", 67)]);
        assert_eq!(packets(&losses(rows(), vec![]).rows_of(60)), [("a", 70), ("b", 2)]);
    }
}
