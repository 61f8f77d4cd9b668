//! Where on the path packets were lost, and why: a [`Difference`] of counters turned into rows, each lost packet in one row.
//!
//! The path is cut where the kernel counts all packets that pass: the interfaces' packet counters, IPv4's `InReceives`,
//! `ForwDatagrams` and `OutTransmits`, and those of IPv6. What one such total has more than the next was lost in between, and the counters of
//! causes only divide that number. So no packet is counted twice, although on a veth one drop moves up to four counters, and
//! a loss that no counter names (a netfilter rule without `counter`, a blackhole route) still has its place.
//! docs/ledger.md has the experiments behind each rule.

mod arrived;
mod captured;
mod ip;
mod link;
mod memory;
mod neighbours;
mod queued;
mod routed;
mod segment;
mod switched;

use linerate_report::Loss;

use crate::counters::{Difference, InterfaceCounters};
use crate::drops::causes::{BACKLOG, Piece};
use crate::drops::hints;
use crate::drops::reasons::{Confidence, Reasons};
use ip::{IPV4, IPV6};
use linerate_testbed::topology::Cut;
pub use memory::losses_over_memory;
use queued::CarriedOver;
use routed::{before_ip, dropped_after_reception};
pub(crate) use segment::RING_FULL;
use segment::Segment;

/// What the ports know themselves: what their own rings and sockets dropped, and what came that is not the trial's.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PortRows {
    /// Of the sending port. What its interface counts as well is counted there.
    pub generator: Vec<Loss>,
    /// Of the receiving port.
    pub receiver: Vec<Loss>,
    /// Packets of other streams among those that the receiving port took: those of an earlier trial that waited on the path.
    pub other_streams: u64,
    /// Packets among those that the receiving port took that are neither IPv4 nor IPv6, where a thread has seen them all: questions for
    /// addresses.
    pub not_ip: u64,
    /// Packets that reached the receiving interface while the counters were read, on a path that did not come to rest: so many at
    /// most are in some of the counters and not in others.
    pub while_reading: u64,
}

/// The losses of a path.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Losses {
    /// Losses with a cause, in path order.
    pub rows: Vec<Loss>,
    /// Losses whose place is known and whose cause is not.
    pub unnamed: Vec<Loss>,
    /// Causes of which it is known only how many packets they can have: for what is in no row in the end.
    pub at_most: Vec<Loss>,
    /// The same, for what is neither in a row nor missing at a place that is known.
    pub arrived: Vec<Loss>,
    /// Drops that the kernel tells of and that the path's totals do not miss, in words.
    pub contradictions: Vec<String>,
}

/// Packets of one direction: from a port that handed `sent` packets to its interface to one that took `received` from its own, the
/// latter counting everything that came, duplicates and other traffic too.
#[derive(Debug, Clone, Copy)]
pub struct Direction<'a> {
    /// By the sending port's count.
    pub sent: u64,
    /// By the receiving port's count.
    pub received: u64,
    /// Of these, packets that are none of a load's: without its signature.
    pub unknown: u64,
    /// What the two ports know themselves.
    pub ports: &'a PortRows,
}

/// The losses between a port that handed `sent` packets to its interface and one that took `received` from its own, one way.
pub fn losses(difference: &Difference, sent: u64, received: u64, ports: &PortRows) -> Losses {
    losses_of_ways(difference, Direction { sent, received, unknown: 0, ports }, None)
}

/// The losses from the generator's port to the receiver's and, where there is load that way too, from there `backward`. The
/// kernel's totals of the DUT do not tell directions apart, so a piece of the path inside it is summed over both.
pub fn losses_of_ways(difference: &Difference, forward: Direction<'_>, backward: Option<Direction<'_>>) -> Losses {
    let mut path = Path {
        losses: Losses::default(),
        backlog: difference.host.backlog_drops(),
        carried_over: CarriedOver::of(difference, forward, backward),
        reasons: Reasons::new(difference.drops.as_ref()),
    };
    if path.reasons.are_read {
        // The counter is the whole machine's; what the kernel says is of the path.
        path.backlog = path.backlog.min(path.reasons.any("CPU_BACKLOG"));
    }
    let generator = &difference.generator.interface;
    let receiver = &difference.receiver.interface;
    let (first, last) = difference.dut.as_ref().map_or((receiver, generator), |dut| (&dut.ingress, &dut.egress));
    let mut senders = vec![(generator, first, forward)];
    senders.extend(backward.map(|way| (receiver, last, way)));
    let on_link: Vec<u64> = senders.iter().map(|(from, to, way)| path.sending(from, to, *way)).collect();
    let sent = forward.sent + backward.map_or(0, |way| way.sent);
    match &difference.dut {
        Some(dut) if dut.forwarding.cut == Cut::Captured => {
            let ends = [(generator, &dut.ingress, Some(forward)), (receiver, &dut.egress, backward)];
            for ((from, to, way), lost) in ends.into_iter().zip(&on_link) {
                way.into_iter().for_each(|way| path.capturing(from, to, *lost, way));
            }
            return path.finish(difference, sent);
        }
        Some(dut) if dut.forwarding.cut == Cut::Switched => {
            let entered = [(generator, &dut.ingress), (receiver, &dut.egress)];
            let missing = path.missing_in(dut);
            let late = switched::dropped_after_reception(missing, &entered);
            for (((from, to), lost), late) in entered.into_iter().zip(&on_link).zip(late) {
                path.link(from, to, *lost, late);
            }
            path.switching(dut, missing, (late, backward.is_some()));
            path.link(&dut.egress, receiver, dut.egress.tx_dropped, receiver.driver_sum("rx", "drops"));
            if backward.is_some() {
                path.link(&dut.ingress, generator, dut.ingress.tx_dropped, generator.driver_sum("rx", "drops"));
            }
        }
        Some(dut) => {
            let before_ip = before_ip(dut, difference, (forward, backward));
            let mut missing = before_ip.saturating_sub(xdp_drops(&dut.ingress));
            let late = dropped_after_reception(&dut.ingress, generator, missing);
            missing -= late;
            path.link(generator, &dut.ingress, on_link[0], late);
            let mut late_of = vec![(&dut.ingress, late)];
            if let Some(lost) = on_link.get(1) {
                let late =
                    dropped_after_reception(&dut.egress, receiver, missing.saturating_sub(xdp_drops(&dut.egress)));
                path.link(receiver, &dut.egress, *lost, late);
                late_of.push((&dut.egress, late));
            }
            path.ingress(dut, &late_of, before_ip);
            for ip in [IPV4, IPV6] {
                path.routing(dut, &ip);
                path.forwarding(dut, &ip);
            }
            path.fragmented(dut);
            path.output(dut, difference, (forward, backward));
            path.link(&dut.egress, receiver, dut.egress.tx_dropped, receiver.driver_sum("rx", "drops"));
            if backward.is_some() {
                let lost = dut.ingress.tx_dropped.saturating_sub(dut.ingress.driver_sum("rx", "xdp_tx_errors"));
                path.link(&dut.ingress, generator, lost, generator.driver_sum("rx", "drops"));
            }
        }
        None => {
            let ends = [(generator, receiver), (receiver, generator)];
            for ((from, to), lost) in ends.into_iter().zip(on_link) {
                match difference.outside {
                    true => path.transmitting(from, lost),
                    false => path.link(from, to, lost, to.driver_sum("rx", "drops")),
                }
                path.between(from, to, (difference.outside, lost));
            }
        }
    }
    let ends = [(receiver, Some(forward)), (generator, backward)];
    for (end, way) in ends.into_iter().filter_map(|(end, way)| Some((end, way?))) {
        path.reception(end, way);
        // A device outside the lab can have sent them: each then hides a packet that it lost.
        if !difference.outside {
            path.arrived_unknown(end, way);
        }
    }
    path.finish(difference, sent)
}

/// The losses so far, and the machine's backlog drops that have no row yet.
struct Path {
    losses: Losses,
    backlog: u64,
    carried_over: CarriedOver,
    reasons: Reasons,
}

impl Path {
    fn push(&mut self, loss: Loss) {
        if loss.packets > 0 {
            self.losses.rows.push(loss);
        }
    }

    /// Names a part of what is left by the kernel's reasons.
    fn divide(&mut self, segment: &mut Segment<'_>, sureness: Confidence) {
        self.settle(segment);
        for share in self.reasons.divide(segment.at, segment.left, sureness) {
            segment.take_share(share);
        }
    }

    /// Takes what counters have named off the reasons that say the same.
    fn settle(&mut self, segment: &mut Segment<'_>) {
        for (place, cause, packets) in segment.by_counters.drain(..) {
            self.reasons.settle(segment.at, &place, &cause, packets);
        }
    }

    /// Gives what was dropped in the backlogs of cores its row, of `most` packets at most; how many it got.
    fn take_backlog(&mut self, segment: &mut Segment<'_>, most: u64) -> u64 {
        let row = backlog_full(most.min(self.backlog));
        let taken = segment.take(match self.reasons.are_read {
            true => row,
            false => row.inferred_from("/proc/net/softnet_stat, which is of the whole machine, and rx_dropped"),
        });
        self.backlog -= taken;
        taken
    }

    /// The losses with their hints, and where the kernel's reasons contradict the totals.
    fn finish(mut self, difference: &Difference, sent: u64) -> Losses {
        // What a capture has taken the kernel drops behind it, and so with the copies of what a program reads.
        if difference.dut.as_ref().is_some_and(|dut| dut.forwarding.cut != Cut::Captured && !dut.reads_packet_sockets) {
            self.losses.contradictions = self.reasons.contradictions((sent / 1000).max(10));
        }
        hints::add(&mut self.losses.rows);
        hints::add(&mut self.losses.unnamed);
        self.losses.at_most.retain(|row| row.packets > 0);
        hints::add(&mut self.losses.at_most);
        self.losses.arrived.retain(|row| row.packets > 0);
        hints::add(&mut self.losses.arrived);
        self.losses
    }

    fn close(&mut self, mut segment: Segment<'_>, between: &str) {
        self.settle(&mut segment);
        for row in segment.rows {
            // What happens to forwarded packets of IPv4 and of IPv6 in the same way is one row.
            let is_of_both = segment.at.piece == Piece::Forwarding;
            let same = |other: &&mut Loss| is_of_both && *other == &Loss { packets: other.packets, ..row.clone() };
            match self.losses.rows.iter_mut().find(same) {
                Some(other) => other.packets = other.packets.saturating_add(row.packets),
                None => self.losses.rows.push(row),
            }
        }
        if segment.left > 0 {
            self.losses.unnamed.push(Loss::new(between, "no counter names the cause", segment.left));
        }
    }
}

fn backlog_full(packets: u64) -> Loss {
    let loss = Loss::new("receive backlog of a core", BACKLOG, packets);
    loss.counted_by("/proc/net/softnet_stat dropped")
}

fn counted(place: &str, cause: &str, counter: &str, packets: u64) -> Loss {
    Loss::new(place, cause, packets).counted_by(counter)
}

fn xdp_drops(interface: &InterfaceCounters) -> u64 {
    interface.driver_sum("rx", "xdp_drops")
}
