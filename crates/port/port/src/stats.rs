//! The totals of a port, in the words of the ledger.

use serde::{Deserialize, Serialize};

/// Packets lost at a place for a cause. Both are short texts for people that also serve as keys, in lower case:
/// place "AF_PACKET ring of r0", cause "ring full".
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Drops {
    /// Where on the path.
    pub place: String,
    /// Why.
    pub cause: String,
    /// How many packets.
    pub packets: u64,
}

/// Totals since the port was opened. Bytes are of packets without FCS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Packets that `receive` returned.
    pub rx_packets: u64,
    /// Their bytes.
    pub rx_bytes: u64,
    /// Of `rx_packets`, those that were handed on unseen ([`crate::Port::hand_on`]), which `rx_bytes` leaves out.
    pub rx_unsized: u64,
    /// Packets whose sending is complete: the far side has them.
    pub tx_packets: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// Of `tx_packets`, those that came unseen, which `tx_bytes` leaves out.
    pub tx_unsized: u64,
    /// Copies that the port added to what it received (`impair=`); `rx_packets` counts those that `receive` returned.
    pub rx_duplicated: u64,
    /// Copies that the port added to what `transmit` took; `tx_packets` counts those whose sending is complete.
    pub tx_duplicated: u64,
    /// Packets that the port damaged as they arrived (`impair=`), wherever they went then. A copy of a damaged packet is damaged, too, and
    /// counts as a copy only.
    pub rx_corrupted: u64,
    /// Packets that the port damaged after `transmit` took them, wherever they went then.
    pub tx_corrupted: u64,
    /// Packets that reached this port and were not returned by `receive`.
    pub rx_drops: Vec<Drops>,
    /// Packets that `transmit` took and that were not sent.
    pub tx_drops: Vec<Drops>,
}

/// The drops that happened: rows without packets are left out.
pub fn drops_that_happened(drops: &[Drops]) -> Vec<Drops> {
    drops.iter().filter(|drops| drops.packets > 0).cloned().collect()
}

impl Stats {
    /// Adds the totals of another queue pair.
    pub fn add(&mut self, other: Stats) {
        self.rx_packets += other.rx_packets;
        self.rx_bytes += other.rx_bytes;
        self.rx_unsized += other.rx_unsized;
        self.tx_packets += other.tx_packets;
        self.tx_bytes += other.tx_bytes;
        self.tx_unsized += other.tx_unsized;
        self.rx_duplicated += other.rx_duplicated;
        self.tx_duplicated += other.tx_duplicated;
        self.rx_corrupted += other.rx_corrupted;
        self.tx_corrupted += other.tx_corrupted;
        self.rx_drops.extend(other.rx_drops);
        self.tx_drops.extend(other.tx_drops);
    }

    /// The bytes of `rx_packets`; `None` if nobody counted them all.
    pub fn rx_bytes_of_all(&self) -> Option<u64> {
        (self.rx_unsized == 0).then_some(self.rx_bytes)
    }

    /// The bytes of `tx_packets`; `None` if nobody counted them all.
    pub fn tx_bytes_of_all(&self) -> Option<u64> {
        (self.tx_unsized == 0).then_some(self.tx_bytes)
    }

    /// Sum of [`Stats::rx_drops`].
    pub fn rx_dropped(&self) -> u64 {
        self.rx_drops.iter().map(|drops| drops.packets).sum()
    }

    /// Sum of [`Stats::tx_drops`].
    pub fn tx_dropped(&self) -> u64 {
        self.tx_drops.iter().map(|drops| drops.packets).sum()
    }
}
