//! Walks a packet along its way.
//!
//! A packet ends up in so many places: each output, to a port or to the controllers, and each drop is one. The first costs nothing, the
//! others are copies, so that `received + copies = queued + to the controllers + dropped`.

use linerate_classify::MISS;
use linerate_mem::{Batch, Pool};
use linerate_openflow::{Action, Field, GroupKind, PacketInReason, PortConfig};

use super::Core;
use super::path::{Continuation, GroupOps, Op, ToController};
use super::resolve::{View, ask, is_current, resolve};
use crate::drops::DropReason;
use crate::facts::{beginning_in, flow_hash};
use crate::meter_view::{MeterView, Metered};
use crate::packet::{ActionDrop, Headers, PipelineFields, SlotPacket, apply};
use crate::shared::State;

/// No port: the slot of packets that came from a controller.
pub(super) const NO_SLOT: u16 = u16::MAX;

/// The packet that is worked on: the first one of a batch.
#[derive(Clone, Debug)]
pub(super) struct InHand {
    pub(super) headers: Headers,
    pub(super) fields: PipelineFields,
    pub(super) in_slot: u16,
    pub(super) len: usize,
    pub(super) slots: usize,
    /// The queue that `SET_QUEUE` chose.
    pub(super) queue: Option<u32>,
    /// Table and cookie of the entry that matched last.
    pub(super) table: u8,
    /// Places where the packet ended up.
    pub(super) places: u64,
    /// The packet left the batch.
    pub(super) is_moved: bool,
    /// The packet was put together of fragments.
    pub(super) is_joined: bool,
}

/// The packet was dropped on its way.
pub(super) struct Dropped;

impl Core {
    /// Walks the first packet of `batch` along `ops`. With `last`, nobody wants the packet afterwards, so that the last output may take it.
    pub(super) fn walk(
        &mut self,
        view: &View<'_>,
        ops: &[Op],
        hand: &mut InHand,
        batch: &mut Batch,
        pool: &mut Pool,
        last: bool,
    ) -> Result<(), Dropped> {
        for (at, op) in ops.iter().enumerate() {
            let last = last && at + 1 == ops.len();
            match op {
                Op::Table { table, hit } => {
                    hand.table = *table;
                    self.count(*table, hit.as_ref(), 1, hand.len as u64);
                }
                Op::Meter(meter) => self.meter(view, meter, hand, batch)?,
                Op::Change(action) => self.change(view, action, hand, batch)?,
                Op::Queue(queue) => hand.queue = Some(*queue),
                Op::Port(slot) if *slot == hand.in_slot => self.lose(DropReason::Hairpin, hand),
                Op::Port(slot) => self.output(view.state, *slot, hand, batch, pool, last),
                Op::InPort => self.output(view.state, hand.in_slot, hand, batch, pool, last),
                Op::All | Op::Flood => self.flood(view.state, hand, batch, pool, last),
                Op::Normal => self.normal(view, hand, batch, pool, last),
                Op::Controller(to) => self.tell_controllers(view.state, to, hand, batch),
                Op::Group(group) => self.group(view, group, hand, batch, pool, last),
                Op::Continue(next) => self.go_on(view, next, hand, batch, pool, last),
                Op::Refuse(reason) => self.lose(*reason, hand),
            }
        }
        Ok(())
    }

    /// The packet, or a copy of it, ends here.
    pub(super) fn lose(&mut self, reason: DropReason, hand: &mut InHand) {
        hand.places += 1;
        self.account().drops.add(reason, 1);
    }

    fn meter(
        &mut self,
        view: &View<'_>,
        meter: &MeterView,
        hand: &mut InHand,
        batch: &mut Batch,
    ) -> Result<(), Dropped> {
        match meter.pass(self.worker, hand.len as u64, self.now_ns) {
            Metered::Pass => Ok(()),
            Metered::Drop => {
                self.lose(DropReason::Meter, hand);
                Err(Dropped)
            }
            Metered::Remark(levels) => match remarked(batch.packet(0), &hand.headers, levels) {
                Some(dscp) => self.change(view, &Action::SetField(Field::IpDscp, dscp.into()), hand, batch),
                None => Ok(()),
            },
        }
    }

    fn change(
        &mut self,
        view: &View<'_>,
        action: &Action,
        hand: &mut InHand,
        batch: &mut Batch,
    ) -> Result<(), Dropped> {
        let before = batch.packet(0).len();
        let done = apply(action, &mut SlotPacket::new(batch, 0), &mut hand.headers, &mut hand.fields);
        hand.len = hand.len + batch.packet(0).len() - before;
        let Err(why) = done else { return Ok(()) };
        match why {
            ActionDrop::InvalidTtl if view.state.wants_invalid_ttl => {
                let to = ToController {
                    reason: PacketInReason::InvalidTtl,
                    table: hand.table,
                    cookie: u64::MAX,
                    max_len: view.state.config.miss_send_len,
                    metadata: hand.fields.metadata,
                };
                self.tell_controllers(view.state, &to, hand, batch);
            }
            ActionDrop::InvalidTtl => self.lose(DropReason::InvalidTtl, hand),
            ActionDrop::NoHeadroom => self.lose(DropReason::NoHeadroom, hand),
            ActionDrop::ChecksumOutOfReach => self.lose(DropReason::ActionFailed, hand),
        }
        Err(Dropped)
    }

    /// Sends the packet, or a copy, to a port.
    pub(super) fn output(
        &mut self,
        state: &State,
        slot: u16,
        hand: &mut InHand,
        batch: &mut Batch,
        pool: &mut Pool,
        take: bool,
    ) {
        if hand.is_joined
            && let Some(port) = state.port(slot)
            && hand.len > port.len_max
            && self.output_in_fragments(state, slot, port.len_max, hand, batch, pool)
        {
            return;
        }
        match self.queue_on(state, slot, hand, batch, pool, take) {
            Ok(()) => hand.places += 1,
            Err(reason) => {
                if let Some(port) = state.port(slot) {
                    port.shared.tally.of(self.worker).tx_dropped.add(1);
                }
                self.lose(reason, hand);
            }
        }
    }

    fn queue_on(
        &mut self,
        state: &State,
        slot: u16,
        hand: &mut InHand,
        batch: &mut Batch,
        pool: &mut Pool,
        take: bool,
    ) -> Result<(), DropReason> {
        let port = state.port(slot).ok_or(DropReason::NoPort)?;
        if port.has(PortConfig::PORT_DOWN | PortConfig::NO_FWD) {
            return Err(DropReason::NoForward);
        }
        if !port.shared.has_link() {
            return Err(DropReason::LinkDown);
        }
        let (arrival_ns, worker) = (self.now_ns, self.worker);
        let egress = self.egress_of(slot).ok_or(DropReason::NoPort)?;
        if hand.len + egress.prefix.len() > egress.len_max {
            return Err(DropReason::TooLong);
        }
        let prefix = egress.prefix.len();
        let queue = egress.queue(hand.queue);
        if queue.room() < hand.slots {
            egress.refused(hand.queue, worker, port);
            return Err(DropReason::EgressFull);
        }
        if prefix > 0 && !egress.prefix.put(batch, hand.queue, hand.fields.tunnel_id) {
            return Err(DropReason::NoHeadroom);
        }
        let queue = egress.queue(hand.queue);
        if take {
            batch.move_to(queue, hand.slots);
            hand.is_moved = true;
        } else {
            let is_copied = pool.copy(batch, 0, queue);
            batch.adj(0, prefix);
            if !is_copied {
                return Err(DropReason::NoBuffer);
            }
        }
        egress.note_one((hand.len + prefix) as u64, arrival_ns, hand.queue);
        self.account().queued.add(1);
        Ok(())
    }

    /// Sends the packet to all ports but the one by which it arrived.
    pub(super) fn flood(&mut self, state: &State, hand: &mut InHand, batch: &mut Batch, pool: &mut Pool, last: bool) {
        let open = |slot: &u16| {
            state
                .port(*slot)
                .is_some_and(|port| !port.has(PortConfig::PORT_DOWN | PortConfig::NO_FWD) && port.shared.has_link())
        };
        let in_slot = hand.in_slot;
        let slots = (0..state.ports.len() as u16).filter(|slot| *slot != in_slot);
        let mut targets = slots.filter(open).peekable();
        if targets.peek().is_none() {
            return self.lose(DropReason::FloodSetEmpty, hand);
        }
        while let Some(slot) = targets.next() {
            let last = last && targets.peek().is_none();
            self.output(state, slot, hand, batch, pool, last);
        }
    }

    fn group(
        &mut self,
        view: &View<'_>,
        group: &GroupOps,
        hand: &mut InHand,
        batch: &mut Batch,
        pool: &mut Pool,
        last: bool,
    ) {
        let bytes = hand.len as u64;
        group.view.tally.of(self.worker).add(1, bytes);
        let chosen = match group.view.kind {
            GroupKind::All => {
                let count = group.buckets.len();
                if count == 0 {
                    return self.lose(DropReason::NoBucket, hand);
                }
                for number in 0..count {
                    self.bucket(view, group, number, hand, batch, pool, last && number + 1 == count);
                }
                return;
            }
            GroupKind::Select => group.view.choose(view.state, flow_hash(batch.packet(0), &hand.headers)),
            _ => group.view.choose(view.state, 0),
        };
        match chosen {
            Some(number) => self.bucket(view, group, number, hand, batch, pool, last),
            None => self.lose(DropReason::NoBucket, hand),
        }
    }

    /// Walks the packet along a bucket. What the bucket changes, others do not see.
    #[allow(clippy::too_many_arguments, reason = "the packet in hand, its memory, and what the walk reads")]
    fn bucket(
        &mut self,
        view: &View<'_>,
        group: &GroupOps,
        number: usize,
        hand: &mut InHand,
        batch: &mut Batch,
        pool: &mut Pool,
        last: bool,
    ) {
        let (Some(ops), Some(bucket)) = (group.buckets.get(number), group.view.buckets.get(number)) else { return };
        bucket.tally.of(self.worker).add(1, hand.len as u64);
        let places = hand.places;
        let changes = ops.iter().any(|op| matches!(op, Op::Change(_)));
        if changes && !last {
            self.on_a_copy(hand, batch, pool, |core, hand, copy, pool| {
                let _ = core.walk(view, ops, hand, copy, pool, true);
            });
        } else {
            let queue = hand.queue;
            let _ = self.walk(view, ops, hand, batch, pool, last);
            hand.queue = queue;
        }
        if hand.places == places {
            self.lose(DropReason::NoOutput, hand);
        }
    }

    /// Does something with a copy of the packet.
    fn on_a_copy(
        &mut self,
        hand: &mut InHand,
        batch: &Batch,
        pool: &mut Pool,
        work: impl FnOnce(&mut Core, &mut InHand, &mut Batch, &mut Pool),
    ) {
        let mut copy = self.spare.pop().unwrap_or_else(|| Batch::new(&self.pool, super::SLOTS_OF_A_PACKET));
        if pool.copy(batch, 0, &mut copy) {
            let mut own = InHand { is_moved: false, slots: copy.len(), ..hand.clone() };
            work(self, &mut own, &mut copy, pool);
            hand.places = own.places;
            pool.free(&mut copy);
        } else {
            self.lose(DropReason::NoBuffer, hand);
        }
        self.spare.push(copy);
    }

    /// Reads the packet's fields again, and goes on in a later table.
    fn go_on(
        &mut self,
        view: &View<'_>,
        next: &Continuation,
        hand: &mut InHand,
        batch: &mut Batch,
        pool: &mut Pool,
        last: bool,
    ) {
        if !last {
            let next = next.clone();
            return self.on_a_copy(hand, batch, pool, |core, hand, copy, pool| {
                core.go_on(view, &next, hand, copy, pool, true)
            });
        }
        hand.fields.metadata = next.metadata;
        let places = hand.places;
        let end = if next.set.is_empty() {
            let way = self.way_from(view, next.table, hand, batch);
            self.walk_way(view, way, hand, batch, pool)
        } else {
            let key = hand.headers.key(batch.packet(0), &hand.fields);
            let path = resolve(view, &key, next.table, next.set.clone(), &mut self.scratch);
            self.walk(view, &path.ops, hand, batch, pool, true).ok().and(path.end)
        };
        if hand.places == places
            && let Some(reason) = end
        {
            self.lose(reason, hand);
        }
    }

    /// The way from a table on of a packet whose action set is empty.
    pub(super) fn way_from(&mut self, view: &View<'_>, table: u8, hand: &InHand, batch: &Batch) -> u32 {
        let key = hand.headers.key(batch.packet(0), &hand.fields);
        let mut known = key;
        beginning_in(&mut known, table);
        self.relevant.apply(&mut known);
        let mut ways = [MISS];
        if let Some(cache) = &mut self.cache {
            cache.lookup_batch(std::slice::from_ref(&known), 1, &mut ways);
        }
        if self.paths.get_mut(ways[0]).is_some_and(|path| is_current(view, path)) {
            return ways[0];
        }
        let mut asked = [Vec::new()];
        ask(view, &mut [key], 1, table, &mut asked, &mut self.scratch);
        let way = self.way_of(view, &asked[0], hand.fields.metadata);
        if let Some(cache) = &mut self.cache
            && self.relevant.is_current(&self.shared.relevant)
            && self.paths.get(way).is_some_and(|path| !path.is_transient)
        {
            cache.insert(&known, way);
        }
        way
    }
}

/// The DSCP of a packet whose drop precedence is raised; `None` if it is not one of assured forwarding, or the highest already (RFC 2597).
fn remarked(bytes: &[u8], headers: &Headers, levels: u8) -> Option<u8> {
    let dscp = crate::facts::dscp(bytes, headers)?;
    let (class, precedence) = (dscp >> 3, dscp >> 1 & 3);
    let assured = (1..=4).contains(&class) && precedence > 0 && dscp & 1 == 0;
    let raised = (precedence + levels).min(3);
    (assured && raised != precedence).then_some(class << 3 | raised << 1)
}
