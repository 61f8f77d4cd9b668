//! The counters of one interface.

use super::added;
use linerate_testbed::proc_net::Counters;

/// VETH_RING_SIZE of drivers/net/veth.c.
const VETH_RING_SLOTS: u64 = 256;

/// The counters of one interface. In a [`super::Snapshot`] they are totals, in a [`super::Difference`] what was added.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InterfaceCounters {
    /// Its name.
    pub name: String,
    /// Packets received; on a veth exactly those that its peer counts as transmitted.
    pub rx_packets: u64,
    /// Packets transmitted.
    pub tx_packets: u64,
    /// Packets dropped on reception; on a veth partly the same that its peer counts as `tx_dropped`.
    pub rx_dropped: u64,
    /// Packets dropped on transmission.
    pub tx_dropped: u64,
    /// Packets that IPv4 dropped because their destination MAC address is another's.
    pub rx_otherhost_dropped: u64,
    /// The kernel's own fields of errors and drops, `rx_missed_errors` and so on ([`linerate_testbed::netlink::ERROR_FIELDS`]).
    pub fields: Counters,
    /// Packets that its queueing discipline dropped; in no other counter.
    pub queue_drops: u64,
    /// Packets that wait in its queueing discipline: at the time of a snapshot, and at the end of a difference.
    pub queued: u64,
    /// Of a difference: packets that waited in its queueing discipline when it began.
    pub queued_before: u64,
    /// Times that its carrier went away.
    pub carrier_losses: u64,
    /// Of a difference: whether it was down or without a carrier when it began.
    pub away_before: bool,
    /// Whether it is up and has a carrier now.
    pub running: bool,
    /// Whether it receives by NAPI, through a ring of its own.
    pub napi: bool,
    /// Whether an XDP program is attached.
    pub xdp: bool,
    /// Who drives it, as `ethtool -i` prints it; empty where it does not tell.
    pub driver_name: String,
    /// The driver's own counters. Of a name that several of them have, the sum.
    pub driver: Counters,
}

impl InterfaceCounters {
    /// Of a difference: whether its carrier went away, or came back. (Some interfaces never have one.)
    pub fn was_away(&self) -> bool {
        self.carrier_losses > 0 || self.away_before && self.running
    }

    /// The sum of the driver's counters of one kind over all queues: `rx`, `xdp_drops` is `rx_queue_0_xdp_drops` and so on.
    pub fn driver_sum(&self, direction: &str, counter: &str) -> u64 {
        let prefix = format!("{direction}_queue_");
        let of_kind = |name: &str| {
            let rest = name.strip_prefix(&prefix)?;
            let (queue, kind) = rest.split_once('_')?;
            Some(kind == counter && queue.bytes().all(|byte| byte.is_ascii_digit()))
        };
        self.driver.iter().filter(|(name, _)| of_kind(name) == Some(true)).map(|(_, value)| value).sum()
    }

    /// Packets that the rings of its queues hold at most, if it is a veth.
    pub fn ring_slots(&self) -> u64 {
        let queues = self.driver.keys().filter(|name| name.starts_with("rx_queue_") && name.ends_with("_xdp_packets"));
        VETH_RING_SLOTS * queues.count().max(1) as u64
    }

    pub(super) fn since(&self, earlier: &Self) -> Self {
        Self {
            name: self.name.clone(),
            rx_packets: self.rx_packets.saturating_sub(earlier.rx_packets),
            tx_packets: self.tx_packets.saturating_sub(earlier.tx_packets),
            rx_dropped: self.rx_dropped.saturating_sub(earlier.rx_dropped),
            tx_dropped: self.tx_dropped.saturating_sub(earlier.tx_dropped),
            rx_otherhost_dropped: self.rx_otherhost_dropped.saturating_sub(earlier.rx_otherhost_dropped),
            fields: added(&self.fields, &earlier.fields),
            queue_drops: self.queue_drops.saturating_sub(earlier.queue_drops),
            queued: self.queued,
            queued_before: earlier.queued,
            carrier_losses: self.carrier_losses.saturating_sub(earlier.carrier_losses),
            away_before: !earlier.running,
            running: self.running,
            napi: self.napi || earlier.napi,
            xdp: self.xdp || earlier.xdp,
            driver_name: self.driver_name.clone(),
            driver: added(&self.driver, &earlier.driver),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn driver_counters_are_summed_over_the_queues_of_one_direction() {
        let driver = [
            ("rx_queue_0_xdp_drops", 3),
            ("rx_queue_1_xdp_drops", 4),
            ("rx_queue_0_drops", 100),
            ("tx_queue_0_xdp_drops", 1000),
            ("peer_ifindex", 7),
        ];
        let driver = driver.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let interface = InterfaceCounters { driver, ..InterfaceCounters::default() };
        assert_eq!(interface.driver_sum("rx", "xdp_drops"), 7);
        assert_eq!(interface.driver_sum("rx", "drops"), 100);
        assert_eq!(interface.driver_sum("rx", "nothing"), 0);
    }
}
