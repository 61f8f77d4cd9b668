//! What all workers count together.

use super::FlowTables;
use crate::drops::DropReason;
use crate::tally::{Account, Tally};

/// The account of the switch. At rest, when no packet waits:
///
/// ```text
/// received + packet_outs + copies = queued + to_controller + dropped on the way (by reason) + joined_fragments + held_fragments
/// queued + taken_over = sent + handed_over + waiting + dropped in a queue (by reason)
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Packets that arrived by ports.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Packets of controllers, and packets that waited in buffers.
    pub packet_outs: u64,
    /// Places where packets ended up, beyond the first of each.
    pub copies: u64,
    /// Packets and copies that were put into egress queues.
    pub queued: u64,
    /// Packets that ports took.
    pub sent: u64,
    /// Packets that went to the worker of their port.
    pub handed_over: u64,
    /// Packets that came from other workers.
    pub taken_over: u64,
    /// Packets and copies for the controllers.
    pub to_controller: u64,
    /// Fragments that were put together, less the packets that they made.
    pub joined_fragments: u64,
    /// Fragments whose packets are not whole yet.
    pub held_fragments: u64,
    /// Packets and copies that were dropped, for any reason.
    pub dropped: u64,
    /// Packet-outs that were dropped because no worker took them; they count nowhere else.
    pub refused_packet_outs: u64,
    /// Packets whose way was known: by the caches, or because they are like packets of late.
    pub cache_hits: u64,
    /// Packets whose way the tables had to be asked for.
    pub cache_misses: u64,
    /// Keys in the caches, each with its way.
    pub cache_entries: u64,
    /// Ways that the workers hold, which several keys may share, with those that are over and not yet forgotten.
    pub ways: u64,
    /// Flow entries.
    pub entries: u64,
}

impl FlowTables {
    /// The account of the switch.
    pub fn totals(&self) -> Totals {
        let sum = |of: fn(&Account) -> &Tally| self.shared.accounts.sum(of);
        Totals {
            received: sum(|account| &account.received.packets),
            received_bytes: sum(|account| &account.received.bytes),
            packet_outs: sum(|account| &account.packet_outs.packets),
            copies: sum(|account| &account.copies),
            queued: sum(|account| &account.queued),
            sent: sum(|account| &account.sent),
            handed_over: sum(|account| &account.handed_over),
            taken_over: sum(|account| &account.taken_over),
            to_controller: sum(|account| &account.to_controller),
            joined_fragments: sum(|account| &account.joined_fragments),
            held_fragments: sum(|account| &account.held_fragments),
            dropped: self.drops().iter().map(|(_, packets)| packets).sum(),
            refused_packet_outs: self.refused_packet_outs,
            cache_hits: sum(|account| &account.cache_hits),
            cache_misses: sum(|account| &account.cache_misses),
            cache_entries: sum(|account| &account.cache_entries),
            ways: sum(|account| &account.ways),
            entries: self.entries.len() as u64,
        }
    }

    /// Lost packets by reason, of all workers. Reasons without packets are left out.
    pub fn drops(&self) -> Vec<(DropReason, u64)> {
        let mut drops = Vec::new();
        for reason in DropReason::ALL {
            let mut packets = 0;
            for account in self.shared.accounts.iter() {
                packets += account.drops.read(reason);
            }
            if packets > 0 {
                drops.push((reason, packets));
            }
        }
        drops
    }
}
