//! The account: every packet that came in went somewhere or was dropped for a reason, and the sums say so.
//!
//! ```text
//! at the port where it came in:   received = unicast + flooded + dropped (by reason)
//! at the ports where it goes out: queued   = sent + waiting + discarded (by reason)
//! of the whole switch:            queued   = unicast + flood copies + mirror copies
//! of one of several workers:      queued   = unicast + flood copies + mirror copies + handed in
//! ```
//! A packet for a port of another worker is queued twice, and "sent" to that worker in between; [`PortCounters::across_workers`] counts
//! it once.
//! A flooded packet counts once where it came in and once for each port that got a copy; a copy that a port did not get is
//! counted there as refused, with the reason.

linerate_measure::named! {
    /// Why a packet, or a copy of it, went no further. The names are those that users see.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    #[repr(u8)]
    pub enum DropReason {
        /// Shorter than an Ethernet header, or its header is not in its first slot, or its last slot is missing.
        Runt = "runt",
        /// The source address is a multicast address.
        MulticastSource = "multicast-source",
        /// The port does not have the packet's VLAN, or takes no tagged packets.
        VlanNotAllowed = "vlan-not-allowed",
        /// The port takes tagged packets only.
        UntaggedNotAdmitted = "untagged-not-admitted",
        /// The destination is where the packet came from.
        Hairpin = "hairpin",
        /// Both ports are isolated.
        Isolated = "isolated",
        /// More floods than the port's storm limit allows.
        StormLimit = "storm-limit",
        /// More than the port's rate limit allows.
        RateLimit = "rate-limit",
        /// The egress queue, or the ring behind it, is full.
        EgressFull = "egress-full",
        /// No free frame for a copy.
        NoBuffer = "no-buffer",
        /// Longer than the egress port takes, or its frame has no room for a tag.
        TooLong = "too-long",
        /// No other port has the VLAN of the packet.
        FloodSetEmpty = "flood-set-empty",
        /// To an address that bridges do not forward: 01-80-C2-00-00-00 to -0F (IEEE 802.1Q table 8-1).
        LinkLocal = "link-local",
        /// The port was removed.
        PortRemoved = "port-removed",
    }
}

/// Packets by the reason for which they were lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DropCounts([u64; DropReason::COUNT]);

impl DropCounts {
    /// Packets lost for one reason.
    pub fn of(&self, reason: DropReason) -> u64 {
        self.0[reason as usize]
    }

    /// Packets lost.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The reasons for which something was lost.
    pub fn iter(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        DropReason::ALL.into_iter().map(|reason| (reason, self.of(reason))).filter(|(_, packets)| *packets > 0)
    }

    #[inline]
    pub(crate) fn add(&mut self, reason: DropReason, packets: u64) {
        self.0[reason as usize] += packets;
    }

    pub(crate) fn merge(&mut self, other: &DropCounts) {
        self.0.iter_mut().zip(other.0).for_each(|(mine, theirs)| *mine += theirs);
    }
}

/// Totals of one port since it was added. Bytes are without FCS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Packets that came in here.
    pub received_packets: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Part of them: packets that were queued at the one port where their destination is.
    pub unicast: u64,
    /// Part of them: packets that were flooded to every other port of their VLAN.
    pub flooded: u64,
    /// Part of them: packets that were dropped.
    pub dropped: DropCounts,
    /// Their bytes.
    pub dropped_bytes: u64,
    /// Packets queued at other ports because of the flooded ones.
    pub flood_copies: u64,
    /// Packets queued at other ports because of a mirror, for packets that came in here.
    pub mirror_copies: u64,
    /// Packets that were queued to go out here.
    pub queued_packets: u64,
    /// Their bytes.
    pub queued_bytes: u64,
    /// Part of them: packets that the port took.
    pub sent_packets: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Part of them: packets that were dropped before the port took them.
    pub discarded: DropCounts,
    /// Their bytes.
    pub discarded_bytes: u64,
    /// Copies for this port that were not made, or not queued.
    pub refused: DropCounts,
    /// Part of the packets that were sent: those that the worker took that has the port.
    pub handed_over_packets: u64,
    /// Their bytes.
    pub handed_over_bytes: u64,
    /// Part of the packets that were queued: those that came from other workers.
    pub handed_in_packets: u64,
    /// Their bytes.
    pub handed_in_bytes: u64,
}

impl PortCounters {
    /// Adds the totals of another port.
    pub fn merge(&mut self, other: &PortCounters) {
        self.received_packets += other.received_packets;
        self.received_bytes += other.received_bytes;
        self.unicast += other.unicast;
        self.flooded += other.flooded;
        self.dropped.merge(&other.dropped);
        self.dropped_bytes += other.dropped_bytes;
        self.flood_copies += other.flood_copies;
        self.mirror_copies += other.mirror_copies;
        self.queued_packets += other.queued_packets;
        self.queued_bytes += other.queued_bytes;
        self.sent_packets += other.sent_packets;
        self.sent_bytes += other.sent_bytes;
        self.discarded.merge(&other.discarded);
        self.discarded_bytes += other.discarded_bytes;
        self.refused.merge(&other.refused);
        self.handed_over_packets += other.handed_over_packets;
        self.handed_over_bytes += other.handed_over_bytes;
        self.handed_in_packets += other.handed_in_packets;
        self.handed_in_bytes += other.handed_in_bytes;
    }

    /// The sums over all workers without the way between them: what is between two workers waits.
    pub fn across_workers(&self) -> PortCounters {
        PortCounters {
            queued_packets: self.queued_packets.saturating_sub(self.handed_in_packets),
            queued_bytes: self.queued_bytes.saturating_sub(self.handed_in_bytes),
            sent_packets: self.sent_packets.saturating_sub(self.handed_over_packets),
            sent_bytes: self.sent_bytes.saturating_sub(self.handed_over_bytes),
            handed_over_packets: 0,
            handed_over_bytes: 0,
            handed_in_packets: 0,
            handed_in_bytes: 0,
            ..*self
        }
    }

    /// Takes from `earlier`, an earlier reading of the same counters, what happened to packets after they were queued. Workers are read
    /// one after another; of a packet that moves meanwhile, nothing is counted then that comes later than what is not counted.
    pub fn left_as_in(&self, earlier: &PortCounters) -> PortCounters {
        PortCounters {
            sent_packets: earlier.sent_packets,
            sent_bytes: earlier.sent_bytes,
            discarded: earlier.discarded,
            discarded_bytes: earlier.discarded_bytes,
            handed_over_packets: earlier.handed_over_packets,
            handed_over_bytes: earlier.handed_over_bytes,
            ..*self
        }
    }

    /// Counts packets that came in and went nowhere.
    #[inline]
    pub(crate) fn drop(&mut self, reason: DropReason, packets: u64, bytes: u64) {
        self.dropped.add(reason, packets);
        self.dropped_bytes += bytes;
    }

    /// Counts packets that came from another worker.
    #[inline]
    pub(crate) fn hand_in(&mut self, packets: u64, bytes: u64) {
        self.queued_packets += packets;
        self.queued_bytes += bytes;
        self.handed_in_packets += packets;
        self.handed_in_bytes += bytes;
    }

    /// Packets that wait in the egress queue.
    pub fn waiting(&self) -> u64 {
        self.queued_packets.wrapping_sub(self.sent_packets).wrapping_sub(self.discarded.total())
    }
}

/// Totals of the packets of one VLAN, at the ports where they came in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VlanCounters {
    /// Packets that came in.
    pub received_packets: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Part of them: packets that were queued at the one port where their destination is.
    pub unicast: u64,
    /// Part of them: packets that were flooded to every other port of the VLAN.
    pub flooded: u64,
    /// Part of them: packets that were dropped.
    pub dropped: DropCounts,
}

/// Totals of a switch, with the ports that are gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// The sums over all ports.
    pub ports: PortCounters,
    /// The sums over all VLANs, and over the packets that were not put into one.
    pub vlans: VlanCounters,
    /// Packets that are in the egress queues, counted there.
    pub waiting: u64,
}

impl VlanCounters {
    /// Adds the totals of the same VLAN in another worker, or of another VLAN.
    pub fn merge(&mut self, other: &VlanCounters) {
        self.received_packets += other.received_packets;
        self.received_bytes += other.received_bytes;
        self.unicast += other.unicast;
        self.flooded += other.flooded;
        self.dropped.merge(&other.dropped);
    }
}

impl Totals {
    /// Adds the totals of another worker.
    pub fn merge(&mut self, other: &Totals) {
        self.ports.merge(&other.ports);
        self.vlans.merge(&other.vlans);
        self.waiting += other.waiting;
    }

    /// The sums over all workers without the way between them, as [`PortCounters::across_workers`].
    pub fn across_workers(&self) -> Totals {
        let ports = self.ports.across_workers();
        let left = ports.sent_packets + ports.discarded.total();
        Totals { ports, waiting: ports.queued_packets.saturating_sub(left), ..*self }
    }

    /// Checks every equation of this account; the error says which one does not hold.
    pub fn balances(&self) -> Result<(), String> {
        let (ports, vlans) = (&self.ports, &self.vlans);
        let copies = ports.flood_copies + ports.mirror_copies + ports.handed_in_packets;
        let equations = [
            ("received", ports.received_packets, ports.unicast + ports.flooded + ports.dropped.total()),
            ("queued", ports.queued_packets, ports.unicast + copies),
            ("queued", ports.queued_packets, ports.sent_packets + self.waiting + ports.discarded.total()),
            ("received by VLAN", vlans.received_packets, ports.received_packets),
            ("bytes received by VLAN", vlans.received_bytes, ports.received_bytes),
            ("unicast by VLAN", vlans.unicast, ports.unicast),
            ("flooded by VLAN", vlans.flooded, ports.flooded),
            ("dropped by VLAN", vlans.dropped.total(), ports.dropped.total()),
        ];
        for (what, left, right) in equations {
            if left != right {
                return Err(format!("{what}: {left}, but the parts are {right}: {self:?}"));
            }
        }
        if vlans.dropped != ports.dropped {
            return Err(format!("dropped by reason, by VLAN {:?} and by port {:?}", vlans.dropped, ports.dropped));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_have_their_places_and_names_of_their_own() {
        for (place, reason) in DropReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, place);
        }
        let mut names: Vec<&str> = DropReason::ALL.map(DropReason::name).to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), DropReason::COUNT);
    }

    #[test]
    fn an_account_that_does_not_add_up_is_found() {
        let mut totals = Totals::default();
        assert_eq!(totals.balances(), Ok(()));
        totals.ports.received_packets = 1;
        assert!(totals.balances().unwrap_err().starts_with("received"));
        totals.ports.unicast = 1;
        assert!(totals.balances().unwrap_err().starts_with("queued"));
        totals.ports.queued_packets = 1;
        totals.waiting = 1;
        assert!(totals.balances().unwrap_err().starts_with("received by VLAN"));
        totals.vlans.received_packets = 1;
        totals.vlans.unicast = 1;
        assert_eq!(totals.balances(), Ok(()));
    }
}
