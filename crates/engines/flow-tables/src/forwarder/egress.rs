//! The packets that wait to leave by a port of this worker.
//!
//! A port without configured queues has one queue, which the port takes packets from. A port with queues has one more for packets that name
//! none; before the port takes packets, the scheduler moves some from these queues to the front: first those of queues that are below
//! their guaranteed rate, then of all in turn, as far as their limits allow.

use std::collections::VecDeque;
use std::sync::Arc;

use linerate_measure::{CoarseHistogram, Rate, TokenBucket};
use linerate_mem::{Batch, Pool};
use linerate_port::{TUNNEL_KEY_BYTES, complete_checksum};

use crate::drops::DropReason;
use crate::port_view::{PortView, QueueSettings};
use crate::tally::Account;

/// Slots in front of the queues of a port, which the scheduler fills: few, so that a guaranteed rate takes effect soon.
const FRONT_SLOTS: usize = 64;
/// How long packets wait before a limit is looked at again, in nanoseconds.
pub(super) const RETRY_NS: u64 = 200_000;

/// Packets that arrived together, in a row in a queue.
#[derive(Clone, Copy, Debug)]
struct Run {
    arrival_ns: u64,
    packets: u32,
    bytes: u64,
    /// Place in the port's list of queues; `None`: the packets named none.
    queue: Option<u16>,
}

/// The queues of a port.
pub(super) struct Egress {
    /// The port's slot.
    pub(super) slot: u16,
    /// The packets that the port takes from.
    pub(super) batch: Batch,
    runs: VecDeque<Run>,
    /// Longest packet that the port takes.
    pub(super) len_max: usize,
    /// The port leads to another worker, which counts for the port.
    pub(super) is_handoff: bool,
    /// What stands in front of each packet.
    pub(super) prefix: Prefix,
    /// Packets go into [`Egress::batch`] as they are.
    is_plain: bool,
    queued_bytes: u64,
    gone_bytes: u64,
    pub(super) latency: CoarseHistogram,
    /// That of packets without a queue, then the configured ones; empty if there are none.
    classes: Vec<Class>,
    /// The queue whose turn it is.
    turn: usize,
}

/// What stands in front of the Ethernet header of packets in a queue: the number of their queue, if they are on the way to the worker
/// that has the queues, then the key of their tunnel, if the port takes one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Prefix {
    pub(super) queue: bool,
    pub(super) tunnel_key: bool,
}

impl Prefix {
    /// Bytes of the number of a queue.
    pub(super) const QUEUE_BYTES: usize = 4;
    /// The longest prefix.
    const BYTES_MAX: usize = Prefix::QUEUE_BYTES + TUNNEL_KEY_BYTES;
    /// The number of the queue of packets that name none; no queue has it.
    const NO_QUEUE: u32 = u32::MAX;

    #[inline]
    pub(super) fn len(self) -> usize {
        usize::from(self.queue) * Prefix::QUEUE_BYTES + usize::from(self.tunnel_key) * TUNNEL_KEY_BYTES
    }

    /// Puts the prefix in front of the first packet of a batch; false if there is no room.
    #[cold]
    pub(super) fn put(self, batch: &mut Batch, queue: Option<u32>, tunnel_id: u64) -> bool {
        // Behind a prefix, nobody would find the place of a checksum.
        complete_checksum(batch, 0);
        let mut bytes = [0; Prefix::BYTES_MAX];
        bytes[..Prefix::QUEUE_BYTES].copy_from_slice(&queue.unwrap_or(Prefix::NO_QUEUE).to_be_bytes());
        bytes[Prefix::QUEUE_BYTES..].copy_from_slice(&tunnel_id.to_be_bytes());
        let from = if self.queue { 0 } else { Prefix::QUEUE_BYTES };
        let put = batch.prepend(0, self.len());
        if put {
            batch.packet_mut(0)[..self.len()].copy_from_slice(&bytes[from..from + self.len()]);
        }
        put
    }

    /// Takes the number of the queue from the front of the first packet of a batch.
    pub(super) fn take_queue(batch: &mut Batch) -> Option<u32> {
        let number = batch.packet(0).first_chunk().map(|number| u32::from_be_bytes(*number));
        batch.adj(0, Prefix::QUEUE_BYTES);
        number.filter(|number| *number != Prefix::NO_QUEUE)
    }
}

/// A queue of a port with several.
struct Class {
    settings: Option<QueueSettings>,
    batch: Batch,
    arrivals_ns: VecDeque<u64>,
    guaranteed: Option<TokenBucket>,
    limit: Option<TokenBucket>,
}

/// Tokens are bits. Bursts are those of 10 ms, and no shorter than two packets of 1,514 bytes.
fn bucket(rate_bps: Option<u64>) -> Option<TokenBucket> {
    let rate = Rate::per_second(rate_bps?);
    Some(TokenBucket::new(Rate { burst: rate.burst.max(2 * 8 * 1514), ..rate }))
}

impl Egress {
    pub(super) fn new(slot: u16, pool: &Pool, slots: usize, is_handoff: bool, view: &PortView) -> Egress {
        let queues = &view.queues;
        let prefix = Prefix { queue: is_handoff && !queues.is_empty(), tunnel_key: view.tunnel_keys };
        let class = |settings: Option<&QueueSettings>| Class {
            settings: settings.copied(),
            batch: Batch::new(pool, slots),
            arrivals_ns: VecDeque::with_capacity(slots),
            guaranteed: bucket(settings.and_then(|settings| settings.min_rate_bps)),
            limit: bucket(settings.and_then(|settings| settings.max_rate_bps)),
        };
        let has_queues = !queues.is_empty() && !is_handoff;
        let classes = if has_queues {
            std::iter::once(None).chain(queues.iter().map(Some)).map(class).collect()
        } else {
            Vec::new()
        };
        Egress {
            slot,
            batch: Batch::new(pool, slots),
            runs: VecDeque::with_capacity(slots),
            len_max: usize::MAX,
            is_handoff,
            prefix,
            is_plain: classes.is_empty() && prefix == Prefix::default(),
            queued_bytes: 0,
            gone_bytes: 0,
            latency: CoarseHistogram::default(),
            classes,
            turn: 0,
        }
    }

    /// True if packets can go into [`Egress::batch`] directly, as they are.
    #[inline]
    pub(super) fn is_plain(&self) -> bool {
        self.is_plain
    }

    /// The queue into which packets go that name `queue`. Packets that name one that the port does not have go where those go that name none.
    #[inline]
    pub(super) fn queue(&mut self, queue: Option<u32>) -> &mut Batch {
        let class = self.class_of(queue);
        match self.classes.get_mut(class) {
            Some(class) => &mut class.batch,
            None => &mut self.batch,
        }
    }

    fn class_of(&self, queue: Option<u32>) -> usize {
        let named = |class: &Class| queue.is_some() && class.settings.map(|settings| settings.id) == queue;
        self.classes.iter().position(named).unwrap_or(0)
    }

    /// Notes that a packet was appended to [`Egress::queue`].
    pub(super) fn note_one(&mut self, bytes: u64, arrival_ns: u64, queue: Option<u32>) {
        let class = self.class_of(queue);
        match self.classes.get_mut(class) {
            Some(class) => class.arrivals_ns.push_back(arrival_ns),
            None => self.note(1, bytes, arrival_ns),
        }
    }

    /// Notes that packets were appended to [`Egress::batch`].
    #[inline]
    pub(super) fn note(&mut self, packets: u32, bytes: u64, arrival_ns: u64) {
        self.queued_bytes += bytes;
        match self.runs.back_mut() {
            Some(last) if last.arrival_ns == arrival_ns && last.queue.is_none() => {
                last.packets += packets;
                last.bytes += bytes;
            }
            _ => self.runs.push_back(Run { arrival_ns, packets, bytes, queue: None }),
        }
    }

    /// Packets in front.
    pub(super) fn packets(&self) -> u64 {
        self.runs.iter().map(|run| u64::from(run.packets)).sum()
    }

    /// True if packets wait behind the front.
    pub(super) fn has_backlog(&self) -> bool {
        self.classes.iter().any(|class| !class.batch.is_empty())
    }

    /// Moves packets to the front.
    pub(super) fn schedule(&mut self, now_ns: u64) {
        for class in &mut self.classes {
            class.guaranteed.iter_mut().chain(&mut class.limit).for_each(|bucket| bucket.fill(now_ns));
        }
        for number in 0..self.classes.len() {
            while self.serve(number, true) {}
        }
        let mut idle = 0;
        while idle < self.classes.len() {
            self.turn = (self.turn + 1) % self.classes.len();
            idle = if self.serve(self.turn, false) { 0 } else { idle + 1 };
        }
    }

    /// Moves a packet of a queue to the front, if there is one that may go. `guaranteed`: only at the queue's guaranteed rate.
    fn serve(&mut self, number: usize, guaranteed: bool) -> bool {
        let Some(class) = self.classes.get_mut(number) else { return false };
        let Some(span) = class.batch.span(0) else { return false };
        let bits = 8 * span.len as u64;
        if self.batch.len() + span.slots > FRONT_SLOTS.max(span.slots) || self.batch.room() < span.slots {
            return false;
        }
        if guaranteed && !class.guaranteed.as_mut().is_some_and(|bucket| bucket.take(bits)) {
            return false;
        }
        if class.limit.as_mut().is_some_and(|bucket| !bucket.take(bits)) {
            if guaranteed && let Some(bucket) = &mut class.guaranteed {
                bucket.give(bits);
            }
            return false;
        }
        class.batch.move_to(&mut self.batch, span.slots);
        let arrival_ns = class.arrivals_ns.pop_front().unwrap_or_default();
        self.queued_bytes += span.len as u64;
        let queue = number.checked_sub(1).map(|number| number as u16);
        self.runs.push_back(Run { arrival_ns, packets: 1, bytes: span.len as u64, queue });
        true
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
            if let (Some(queue), Some(view)) = (first.queue, view) {
                let bytes = first.bytes - part * self.prefix.len() as u64;
                view.shared.queues[usize::from(queue)].of(worker).sent.add(part, bytes);
            }
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
            let prefixes = (packets * self.prefix.len()) as u64;
            view.shared.tally.of(worker).sent.add(packets as u64, bytes - prefixes);
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
        let mut packets = self.packets();
        for run in self.runs.drain(..) {
            if let (Some(queue), Some(view)) = (run.queue, view) {
                view.shared.queues[usize::from(queue)].of(worker).dropped.add(u64::from(run.packets));
            }
        }
        self.gone_bytes = self.queued_bytes;
        pool.free(&mut self.batch);
        for (number, class) in self.classes.iter_mut().enumerate() {
            let waiting = class.arrivals_ns.len() as u64;
            packets += waiting;
            class.arrivals_ns.clear();
            pool.free(&mut class.batch);
            if let (Some(number), Some(view)) = (number.checked_sub(1), view) {
                view.shared.queues[number].of(worker).dropped.add(waiting);
            }
        }
        account.drops.add(reason, packets);
        if let Some(view) = view {
            view.shared.tally.of(worker).tx_dropped.add(packets);
        }
    }

    /// Counts a packet that found no room in a queue.
    pub(super) fn refused(&self, queue: Option<u32>, worker: usize, view: &PortView) {
        if let Some(number) = self.class_of(queue).checked_sub(1) {
            view.shared.queues[number].of(worker).dropped.add(1);
        }
    }
}
