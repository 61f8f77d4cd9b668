//! Losses outside the device: from a port to its interface, over a link, and from an interface to its port.

use linerate_report::Loss;

use super::segment::{ALL, RING_FULL, Segment};
use super::{Path, Way, backlog_full};
use crate::counters::InterfaceCounters;
use crate::drops::causes::{At, Piece, Sureness};

impl Path {
    /// From the port to its interface. Returns how many packets the interface lost then: not those that it saw more often than the
    /// port counts them, which it refused and the port sent again.
    pub(super) fn sending(&mut self, interface: &InterfaceCounters, next: &InterfaceCounters, way: Way<'_>) -> u64 {
        let handed = interface.tx_packets + interface.tx_dropped - self.carried_over.at(interface);
        let mut segment = Segment::new(way.sent.saturating_sub(handed), Piece::Sending, interface, next, None);
        self.divide(&mut segment, Sureness::OnlyHere);
        segment.take_queue_drops(interface);
        segment.take_queued(interface);
        for loss in &way.ports.generator {
            segment.take(loss.clone());
        }
        self.divide(&mut segment, Sureness::Any);
        segment.take_ring_of(next);
        self.close(segment, &format!("between the sending port and {}", interface.name));
        let resent = handed.saturating_sub(way.sent);
        let at = At { piece: Piece::Link, from: &interface.name, to: &next.name, known: None };
        self.reasons.settle(at, &format!("receive ring of {}", next.name), RING_FULL, resent);
        interface.tx_dropped.saturating_sub(resent)
    }

    /// Over a veth: `lost` packets that `from` counts as dropped, divided by what `to` counts. Of `to`'s drops, `late` ones
    /// came after it had counted the packet as received.
    pub(super) fn link(&mut self, from: &InterfaceCounters, to: &InterfaceCounters, lost: u64, late: u64) {
        let down = format!("no carrier: {} is down", to.name);
        let was_down = !to.running || to.carrier_losses > 0;
        let mut segment = Segment::new(lost, Piece::Link, from, to, was_down.then_some(down.as_str()));
        // Those on their way when an interface went down: both ends count them.
        let late = late + self.reasons.packets(segment.at, "DEV_READY");
        self.divide(&mut segment, Sureness::OnlyHere);
        let in_both = to.rx_dropped.saturating_sub(late);
        let refused = |packets| {
            let loss = match was_down {
                true => Loss::new(&from.name, &down, packets),
                false => Loss::new(&to.name, format!("frame longer than the MTU of {}", to.name), packets),
            };
            loss.counted_by(format!("{} rx_dropped", to.name))
        };
        let tx_dropped = format!("{} tx_dropped", from.name);
        if to.napi {
            // A full ring is counted by the sender alone, or by both for XDP frames.
            segment.take(refused(in_both.saturating_sub(from.driver_sum("tx", "xdp_xmit_errors"))));
            self.divide(&mut segment, Sureness::Any);
            let cause = match was_down {
                false => RING_FULL,
                true => "ring full, or the interface was down for a time",
            };
            let ring = format!("receive ring of {}", to.name);
            segment.take(Loss::new(ring, cause, ALL).counted_by(tx_dropped));
        } else {
            let in_backlog = segment.take(backlog_full(in_both.min(self.backlog)));
            self.backlog -= in_backlog;
            segment.take(refused(in_both - in_backlog));
            segment.take(Loss::new(&from.name, &down, ALL).counted_by(tx_dropped));
        }
        self.close(segment, "");
    }

    /// Between two interfaces that are not two ends of one link. What is missing there a device outside the lab has lost, or its cables.
    pub(super) fn between(&mut self, from: &InterfaceCounters, to: &InterfaceCounters, outside: bool) {
        let mut segment = Segment::new(from.tx_packets.saturating_sub(to.rx_packets), Piece::Link, from, to, None);
        let place = format!("between {} and {}", from.name, to.name);
        let cause = "lost in the device or on its cables";
        segment.take_rest_by_elimination(outside.then(|| cause.to_owned()), &place);
        if outside {
            self.hidden_at(Loss::new(&place, cause, ALL).by_elimination());
        }
        self.close(segment, &place);
    }

    /// From the receiver's interface to the receiving port.
    pub(super) fn reception(&mut self, receiver: &InterfaceCounters, way: Way<'_>) {
        let lost = receiver.rx_packets.saturating_sub(way.received);
        let mut segment = Segment::new(lost, Piece::Reception, receiver, receiver, None);
        for loss in &way.ports.receiver {
            // As the port says, even beyond what is missing: an over-explained ledger must show.
            self.push(loss.clone());
            segment.left = segment.left.saturating_sub(loss.packets);
        }
        // They are told at the end, when it is known how many of them no other row has.
        segment.left = segment.left.saturating_sub(way.ports.while_reading);
        self.under_way(receiver, way);
        segment.take_xdp_drops(receiver);
        let name = &receiver.name;
        let drops = Loss::new(name, "dropped by the driver", receiver.driver_sum("rx", "drops"));
        segment.take(drops.counted_by(format!("{name} rx_queue_*_drops")));
        self.divide(&mut segment, Sureness::Any);
        self.close(segment, &format!("between {name} and the receiving port"));
    }
}
