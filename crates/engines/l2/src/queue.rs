//! Egress queues: packets that wait to leave by a port, and the ports that they came from.

use std::collections::VecDeque;

use linerate_mem::{Batch, Pool};

/// Packets that came in together, in a row in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// Index of the port; [`Run::GONE`] when it was removed since.
    pub(crate) ingress: u16,
    pub(crate) packets: u32,
    pub(crate) arrival_ns: u64,
}

impl Run {
    pub(crate) const GONE: u16 = u16::MAX;
}

/// The packets that wait to leave through a port, oldest first.
pub(crate) struct EgressQueue {
    pub(crate) batch: Batch,
    /// A run has a packet and a packet a slot, so there are never more of them than slots: nothing is allocated later.
    pub(crate) runs: VecDeque<Run>,
}

impl EgressQueue {
    pub(crate) fn new(pool: &Pool, slots: usize) -> EgressQueue {
        EgressQueue { batch: Batch::new(pool, slots), runs: VecDeque::with_capacity(slots) }
    }

    /// Notes that packets were appended.
    #[inline]
    pub(crate) fn note(&mut self, ingress: u16, packets: u32, arrival_ns: u64) {
        match self.runs.back_mut() {
            Some(last) if last.ingress == ingress && last.arrival_ns == arrival_ns => last.packets += packets,
            _ => self.runs.push_back(Run { ingress, packets, arrival_ns }),
        }
    }

    /// Takes up to `packets` from the front of the account, run by run.
    #[inline]
    pub(crate) fn take(&mut self, mut packets: u64, mut left: impl FnMut(Run)) {
        while packets > 0 {
            let Some(first) = self.runs.front_mut() else { return };
            let part = packets.min(u64::from(first.packets)) as u32;
            left(Run { packets: part, ..*first });
            packets -= u64::from(part);
            first.packets -= part;
            if first.packets == 0 {
                self.runs.pop_front();
            }
        }
    }

    /// Packets that wait, by its account.
    pub(crate) fn packets(&self) -> u64 {
        self.runs.iter().map(|run| u64::from(run.packets)).sum()
    }
}
