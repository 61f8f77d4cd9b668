//! A number of lost packets that is divided among causes until nothing is left.

use linerate_report::Loss;

use crate::counters::InterfaceCounters;
use crate::drops::causes::{At, Known, Piece, QUEUE_FULL, XDP_DROPPED};
use crate::drops::reasons::Share;

/// Whatever is left of a segment.
pub(super) const ALL: u64 = u64::MAX;

/// The cause of a loss in a veth's ring.
pub(crate) const RING_FULL: &str = "ring full: its core did not keep up";

/// The cause of what NAPI has not taken out of its ring.
pub(crate) const STILL_IN_RING: &str = "still in the ring when the counters were read: its core did not come to it";

/// What was lost between two totals.
pub(super) struct Segment<'a> {
    /// Packets without a cause.
    pub(super) left: u64,
    /// Causes with their packets.
    pub(super) rows: Vec<Loss>,
    /// Where it is, for the kernel's reasons.
    pub(super) at: At<'a>,
    /// Place, cause and packets of shares that reasons have named, less what counters said too.
    by_reasons: Vec<(String, String, u64)>,
    /// The same of what only counters have named, until the reasons are told.
    pub(super) by_counters: Vec<(String, String, u64)>,
}

impl<'a> Segment<'a> {
    /// A piece of the path on which `lost` packets were lost, on their way from one interface to another.
    pub(super) fn new(
        lost: u64,
        piece: Piece,
        from: &'a InterfaceCounters,
        to: &'a InterfaceCounters,
        known: Known<'a>,
    ) -> Self {
        let at = At { piece, from: &from.name, to: &to.name, known };
        Self { left: lost, rows: Vec::new(), at, by_reasons: Vec::new(), by_counters: Vec::new() }
    }

    /// Gives at most `loss.packets` of what is left to one cause, less what reasons have given it; how many it got.
    pub(super) fn take(&mut self, loss: Loss) -> u64 {
        let cause = loss.cause.clone();
        self.take_covering(loss, &[&cause])
    }

    /// As [`Segment::take`] by a counter that counts several causes: those with these beginnings.
    pub(super) fn take_covering(&mut self, loss: Loss, causes: &[&str]) -> u64 {
        let mut wanted = loss.packets;
        let same = |share: &&mut (String, String, u64)| {
            share.0 == loss.place && causes.iter().any(|cause| share.1.starts_with(cause))
        };
        for (.., packets) in self.by_reasons.iter_mut().filter_map(|share| same(&share).then_some(share)) {
            let known = wanted.min(*packets);
            *packets -= known;
            wanted -= known;
        }
        let packets = wanted.min(self.left);
        self.left -= packets;
        if packets > 0 {
            self.by_counters.push((loss.place.clone(), loss.cause.clone(), packets));
            self.push(Loss { packets, ..loss });
        }
        packets
    }

    /// Adds what a reason of the kernel has named.
    pub(super) fn take_share(&mut self, share: Share) {
        let Share { cause, packets, witness } = share;
        self.left = self.left.saturating_sub(packets);
        self.by_reasons.push((cause.place.clone(), cause.cause.clone(), packets));
        self.push(Loss::new(cause.place, cause.cause, packets).counted_by(witness));
    }

    /// Gives all that is left to a cause, if there is one, and says what that is inferred from.
    pub(super) fn take_rest(&mut self, place: &str, cause: Option<String>, inferred_from: &str) {
        if let Some(cause) = cause {
            self.take(Loss::new(place, cause, ALL).inferred_from(inferred_from));
        }
    }

    pub(super) fn take_queue_drops(&mut self, interface: &InterfaceCounters) {
        let name = &interface.name;
        let drops = Loss::new(name, QUEUE_FULL, interface.queue_drops);
        self.take(drops.counted_by(format!("qdisc of {name} dropped")));
    }

    pub(super) fn take_xdp_drops(&mut self, interface: &InterfaceCounters) {
        let name = &interface.name;
        let drops = Loss::new(name, XDP_DROPPED, interface.driver_sum("rx", "xdp_drops"));
        let causes = [XDP_DROPPED, "the XDP program aborted", "the XDP program ended"];
        self.take_covering(drops.counted_by(format!("{name} rx_queue_*_xdp_drops")), &causes);
    }

    /// What waits in the ring of an interface that goes down is freed uncounted: at most the rings full, each time.
    pub(super) fn take_ring_of(&mut self, to: &InterfaceCounters) {
        if to.napi && (!to.running || to.carrier_losses > 0) {
            let most = to.ring_slots() * to.carrier_losses.max(1);
            let cause = format!("in the ring of {} when it went down", to.name);
            let lost = Loss::new(format!("receive ring of {}", to.name), cause, most);
            self.take(lost.inferred_from(format!("the carrier of {}, which went away", to.name)));
        }
    }

    /// What waits in the ring of an interface: a veth counts it, on both ends, when NAPI takes it out.
    pub(super) fn take_waiting_in(&mut self, to: &InterfaceCounters) {
        if to.napi {
            let lost = Loss::new(format!("receive ring of {}", to.name), STILL_IN_RING, to.ring_slots());
            self.take(lost.inferred_from("the totals: no end of a veth counts what its ring holds"));
        }
    }

    fn push(&mut self, loss: Loss) {
        let same = |row: &&mut Loss| {
            (&row.place, &row.cause, &row.inferred_from) == (&loss.place, &loss.cause, &loss.inferred_from)
        };
        match self.rows.iter_mut().find(same) {
            Some(row) => row.packets = row.packets.saturating_add(loss.packets),
            None => self.rows.push(loss),
        }
    }
}
