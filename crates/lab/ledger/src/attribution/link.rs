//! Losses outside the device: from a port to its interface, over a link, and from an interface to its port.

use linerate_report::Loss;

use super::segment::{ALL, RING_FULL, Segment};
use super::{Direction, Path, counted};
use crate::counters::InterfaceCounters;
use crate::counters::nic::{self, Lost, Stage};
use crate::drops::causes::{At, Known, Piece};
use crate::drops::reasons::Confidence;

impl Path {
    /// From the port to its interface. Returns how many packets the interface lost then: not those that it saw more often than the
    /// port counts them, which it refused and the port sent again.
    pub(super) fn sending(
        &mut self,
        interface: &InterfaceCounters,
        next: &InterfaceCounters,
        way: Direction<'_>,
    ) -> u64 {
        let handed = interface.tx_packets + interface.tx_dropped - self.carried_over.at(interface);
        let lost = way.sent.saturating_sub(handed);
        let mut segment = Segment::new(lost, Piece::Sending, interface, next, Known::default());
        self.divide(&mut segment, Confidence::OnlyHere);
        segment.take_queue_drops(interface);
        segment.take_queued(interface);
        for loss in &way.ports.generator {
            segment.take(loss.clone());
        }
        for lost in interface.lost_at(Stage::Refused) {
            segment.take(by_card(interface, lost));
        }
        self.divide(&mut segment, Confidence::Any);
        segment.take_ring_of(next);
        segment.take_waiting_in(next);
        self.close(segment, &format!("between the sending port and {}", interface.name));
        let resent = handed.saturating_sub(way.sent);
        let at = At { piece: Piece::Link, from: &interface.name, to: &next.name, known: Known::default() };
        self.reasons.settle(at, &format!("receive ring of {}", next.name), RING_FULL, resent);
        interface.tx_dropped.saturating_sub(resent)
    }

    /// Over a veth: `lost` packets that `from` counts as dropped, divided by what `to` counts. Of `to`'s drops, `late` ones
    /// came after it had counted the packet as received.
    pub(super) fn link(&mut self, from: &InterfaceCounters, to: &InterfaceCounters, lost: u64, late: u64) {
        let down = format!("no carrier: {} is down", to.name);
        let was_down = !to.running || to.carrier_losses > 0;
        let known = Known { down: was_down.then_some(down.as_str()), ..Known::default() };
        let mut segment = Segment::new(lost, Piece::Link, from, to, known);
        // Those on their way when an interface went down: both ends count them.
        let late = late + self.reasons.packets(segment.at, "DEV_READY");
        self.divide(&mut segment, Confidence::OnlyHere);
        let in_both = to.rx_dropped.saturating_sub(late);
        let refused = |packets| {
            let loss = match was_down {
                true => Loss::new(&from.name, &down, packets).inferred_from(format!("{} rx_dropped", to.name)),
                false => Loss::new(&to.name, format!("frame longer than the MTU of {}", to.name), packets),
            };
            loss.counted_by(format!("{} rx_dropped", to.name))
        };
        let tx_dropped = format!("{} tx_dropped", from.name);
        if to.napi {
            // A full ring is counted by the sender alone, or by both for XDP frames.
            segment.take(refused(in_both.saturating_sub(from.driver_sum("tx", "xdp_xmit_errors"))));
            self.divide(&mut segment, Confidence::Any);
            let ring = format!("receive ring of {}", to.name);
            segment.take(match was_down {
                false => Loss::new(ring, RING_FULL, ALL).counted_by(tx_dropped),
                true => {
                    Loss::new(ring, "ring full, or the interface was down for a time", ALL).inferred_from(tx_dropped)
                }
            });
        } else {
            let in_backlog = self.take_backlog(&mut segment, in_both);
            segment.take(refused(in_both - in_backlog));
            self.divide(&mut segment, Confidence::Any);
            segment.take_rest(&from.name, was_down.then(|| down.clone()), &tx_dropped);
        }
        self.close(segment, &format!("between {} and {}", from.name, to.name));
    }

    /// Out of the tester's interface where a device outside the lab is: what it did not transmit is the tester's own loss.
    pub(super) fn transmitting(&mut self, from: &InterfaceCounters, lost: u64) {
        let name = &from.name;
        let dropped = counted(name, "dropped by the tester's own interface", &format!("{name} tx_dropped"), lost);
        self.push(dropped);
    }

    /// Between two interfaces that are not two ends of one link. What the tester's own network cards lost is theirs; the rest a device
    /// outside the lab has lost, or its cables.
    /// `not_handed_over` of the first one's `tx_dropped` are not in its `tx_packets`.
    pub(super) fn between(
        &mut self,
        from: &InterfaceCounters,
        to: &InterfaceCounters,
        (outside, not_handed_over): (bool, u64),
    ) {
        let lost = from.tx_packets.saturating_sub(to.taken_in());
        let mut segment = Segment::new(lost, Piece::Link, from, to, Known::default());
        let place = format!("between {} and {}", from.name, to.name);
        if outside {
            // Those that were not handed over have their row before.
            let row = |lost: Lost| Lost {
                packets: lost.packets.saturating_sub(if lost.counter == "tx_dropped" { not_handed_over } else { 0 }),
                ..lost
            };
            let leaving = from.lost_at(Stage::Leaving).into_iter().map(|lost| (from, row(lost)));
            let arriving = to.lost_at(Stage::Arriving).into_iter().map(|lost| (to, lost));
            for (card, lost) in leaving.chain(arriving) {
                segment.take(by_card(card, lost));
            }
            let cause = match [from, to].iter().any(|card| card.was_away()) {
                true => "lost while a link of the tester was away, or in the device",
                false => "lost in the device or on its cables",
            };
            let totals = format!("{} tx_packets and {} rx_packets", from.name, to.name);
            segment.take_rest(&place, Some(cause.to_owned()), &totals);
            self.hidden_at(Loss::new(&place, cause, ALL).inferred_from(totals));
        }
        self.close(segment, &place);
    }

    /// From the receiver's interface to the receiving port.
    pub(super) fn reception(&mut self, receiver: &InterfaceCounters, way: Direction<'_>) {
        let lost = receiver.taken_in().saturating_sub(way.received);
        let mut segment = Segment::new(lost, Piece::Reception, receiver, receiver, Known::default());
        for loss in &way.ports.receiver {
            // As the port says, even beyond what is missing: an over-explained ledger must show.
            self.push(loss.clone());
            segment.left = segment.left.saturating_sub(loss.packets);
        }
        // They are told at the end, when it is known how many of them no other row has.
        segment.left = segment.left.saturating_sub(way.ports.while_reading);
        self.under_way(receiver, way);
        let name = &receiver.name;
        if nic::has_table(&receiver.driver_name) {
            for lost in receiver.lost_at(Stage::Received) {
                segment.take(by_card(receiver, lost));
            }
        } else {
            segment.take_xdp_drops(receiver);
            let drops = Loss::new(name, "dropped by the driver", receiver.driver_sum("rx", "drops"));
            segment.take(drops.counted_by(format!("{name} rx_queue_*_drops")));
        }
        self.divide(&mut segment, Confidence::Any);
        self.close(segment, &format!("between {name} and the receiving port"));
    }
}

/// The row of what one of the tester's own network cards lost.
fn by_card(card: &InterfaceCounters, lost: Lost) -> Loss {
    let counter = format!("{} {}", card.name, lost.counter);
    let row = Loss::new(&card.name, lost.cause, lost.packets);
    match lost.is_unsure {
        true => row.inferred_from(format!("{counter}, which has packets that were not lost, too")),
        false => row.counted_by(counter),
    }
}
