//! What was sent or received.

/// What was sent or received, in total or since the last report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets.
    pub packets: u64,
    /// Their bytes, without FCS.
    pub bytes: u64,
    /// Port calls that moved at least one packet.
    pub events: u64,
}

impl Counts {
    /// What has been added since `before`.
    pub fn since(&self, before: &Counts) -> Counts {
        Counts {
            packets: self.packets.saturating_sub(before.packets),
            bytes: self.bytes.saturating_sub(before.bytes),
            events: self.events.saturating_sub(before.events),
        }
    }

    /// The sum of two.
    #[must_use]
    pub fn plus(&self, other: &Counts) -> Counts {
        Counts {
            packets: self.packets + other.packets,
            bytes: self.bytes + other.bytes,
            events: self.events + other.events,
        }
    }
}
