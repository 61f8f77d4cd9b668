//! The packets that wait to leave by a port of this worker.

use std::collections::VecDeque;
use std::sync::Arc;

use linerate_measure::CoarseHistogram;
use linerate_mem::{Batch, Pool};

use crate::drops::DropReason;
use crate::port_view::PortView;
use crate::tally::Account;

/// Packets that arrived together, in a row in a queue.
#[derive(Clone, Copy, Debug)]
struct Run {
    arrival_ns: u64,
    packets: u32,
    /// Place in the port's list of queues, plus one; 0: none.
    queue: u16,
}

/// The queue of a port.
pub(super) struct Egress {
    /// The port's slot.
    pub(super) slot: u16,
    pub(super) batch: Batch,
    runs: VecDeque<Run>,
    /// Longest packet that the port takes.
    pub(super) len_max: usize,
    /// The port leads to another worker, which counts for the port.
    pub(super) is_handoff: bool,
    queued_bytes: u64,
    gone_bytes: u64,
    pub(super) latency: CoarseHistogram,
}

impl Egress {
    pub(super) fn new(slot: u16, pool: &Pool, slots: usize, is_handoff: bool) -> Egress {
        Egress {
            slot,
            batch: Batch::new(pool, slots),
            runs: VecDeque::with_capacity(slots),
            len_max: usize::MAX,
            is_handoff,
            queued_bytes: 0,
            gone_bytes: 0,
            latency: CoarseHistogram::default(),
        }
    }

    /// Notes that packets were appended to the batch.
    #[inline]
    pub(super) fn note(&mut self, packets: u32, bytes: u64, arrival_ns: u64, queue: u16) {
        self.queued_bytes += bytes;
        match self.runs.back_mut() {
            Some(last) if last.arrival_ns == arrival_ns && last.queue == queue => last.packets += packets,
            _ => self.runs.push_back(Run { arrival_ns, packets, queue }),
        }
    }

    /// Packets that wait.
    pub(super) fn packets(&self) -> u64 {
        self.runs.iter().map(|run| u64::from(run.packets)).sum()
    }

    /// Notes that the port took the first packets.
    #[inline]
    pub(super) fn sent(
        &mut self,
        packets: usize,
        now_ns: u64,
        worker: usize,
        view: Option<&Arc<PortView>>,
        account: &Account,
    ) {
        let mut left = packets as u64;
        while left > 0 {
            let Some(first) = self.runs.front_mut() else { break };
            let part = left.min(u64::from(first.packets));
            self.latency.record_many(now_ns.saturating_sub(first.arrival_ns), part);
            left -= part;
            first.packets -= part as u32;
            if first.packets == 0 {
                self.runs.pop_front();
            }
        }
        let waiting = if self.batch.is_empty() { 0 } else { self.batch.totals().bytes };
        let bytes = self.queued_bytes - self.gone_bytes - waiting;
        self.gone_bytes += bytes;
        if self.is_handoff {
            account.handed_over.add(packets as u64);
            return;
        }
        account.sent.add(packets as u64);
        if let Some(view) = view {
            view.shared.tally.of(worker).sent.add(packets as u64, bytes);
        }
    }

    /// Drops the packets that wait.
    pub(super) fn discard(
        &mut self,
        reason: DropReason,
        pool: &mut Pool,
        worker: usize,
        view: Option<&Arc<PortView>>,
        account: &Account,
    ) {
        let packets = self.packets();
        self.runs.clear();
        self.gone_bytes = self.queued_bytes;
        pool.free(&mut self.batch);
        account.drops.add(reason, packets);
        if let Some(view) = view {
            view.shared.tally.of(worker).tx_dropped.add(packets);
        }
    }
}
