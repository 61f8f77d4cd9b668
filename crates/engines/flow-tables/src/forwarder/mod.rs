//! The worker side of the switch: packets through the tables, into the egress queues.

mod control;
mod distribute;
mod egress;
mod execute;
mod fragments;
mod lanes;
mod normal;
mod path;
mod paths;
mod resolve;
mod rest;
mod wide;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Receiver;

use linerate_classify::{Cache, CacheConfig, Scratch, Worker, WorkerCounters};
use linerate_measure::CoarseHistogram;
use linerate_mem::{Batch, Pool, Span};
use linerate_openflow::{PortConfig, PortNumber};
use linerate_port::{Context, Datapath, LinkState, PortIndex, TUNNEL_KEY_BYTES};

use crate::drops::DropReason;
use crate::packet::{Headers, PipelineFields};
use crate::port_view::PortView;
use crate::records::{PacketOutRecord, RecordSender};
use crate::relevant::Relevant;
use crate::shared::{Shared, State, TABLES, TableTallies};
use crate::tally::{Account, WorkerTotals};
use egress::{Egress, Prefix};
use execute::{InHand, NO_SLOT};
use fragments::{Cutting, Fragments};
use lanes::Lanes;
use path::Hit;
use paths::Paths;
use resolve::View;
use rest::Rest;
use wide::Wide;

/// Packet-outs that one round takes, at most.
const PACKET_OUTS_A_ROUND: usize = 64;
/// Slots of the longest packet that is copied to be changed.
const SLOTS_OF_A_PACKET: usize = 64;
/// Copies that are changed at a time: a group's bucket that forwards to a group, and so on.
const SPARES: usize = 4;

/// What the control side gives a forwarder.
pub(crate) struct Parts {
    pub(crate) number: usize,
    pub(crate) reader: Worker,
    pub(crate) shared: Arc<Shared>,
    pub(crate) counters: WorkerCounters,
    pub(crate) packet_ins: RecordSender,
    pub(crate) packet_outs: Receiver<PacketOutRecord>,
    pub(crate) packet_outs_waiting: Arc<AtomicUsize>,
    pub(crate) wake_control: Box<dyn Fn() + Send>,
    pub(crate) pool: Pool,
    pub(crate) queue_slots: usize,
    pub(crate) cache_entries_max: usize,
}

/// The datapath of one worker of an OpenFlow switch.
pub struct Forwarder {
    reader: Worker,
    /// What all workers share. Packets are worked on with these two borrowed: their counts of references would be written by all workers.
    shared: Arc<Shared>,
    state: Arc<State>,
    core: Core,
    packet_outs: Receiver<PacketOutRecord>,
    packet_outs_waiting: Arc<AtomicUsize>,
}

/// Everything but the right to read and what is read, which are borrowed while packets are worked on.
struct Core {
    worker: usize,
    shared: Arc<Shared>,
    counters: WorkerCounters,
    scratch: Scratch,
    /// Not there while a batch is worked on.
    lanes: Option<Lanes>,
    cache: Option<Cache>,
    rest: Rest,
    wide: Wide,
    relevant: Relevant,
    paths: Paths,
    /// By the worker's number of a port.
    bindings: Vec<Option<Binding>>,
    /// Numbers of the worker that are not the switch's.
    reserved: Vec<u16>,
    /// Places in `bindings` by which packets for a port leave, by its slot.
    by_slot: Vec<u16>,
    packet_ins: RecordSender,
    has_packet_ins: bool,
    wake_control: Box<dyn Fn() + Send>,
    pool: Pool,
    queue_slots: usize,
    /// Not there before they are needed, and while one is worked on.
    fragments: Option<Fragments>,
    cutting: Cutting,
    /// Batches for packets that are copied to be changed.
    spare: Vec<Batch>,
    now_ns: u64,
}

/// What a port of the worker is to a port of the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindingKind {
    /// The port itself.
    Port,
    /// A ring to the worker that has the port. Packets that come from it arrived at the port, and are to go through the tables here.
    To,
    /// A ring by which another worker sends to the port packets that have been through the tables. Nothing leaves by it.
    From,
}

/// A port of the worker.
struct Binding {
    kind: BindingKind,
    egress: Egress,
}

impl Forwarder {
    pub(crate) fn new(parts: Parts) -> Forwarder {
        let Parts {
            number,
            mut reader,
            shared,
            counters,
            packet_ins,
            packet_outs,
            packet_outs_waiting,
            wake_control,
            pool,
            queue_slots,
            cache_entries_max,
        } = parts;
        let cache = CacheConfig { entries_max: cache_entries_max, ..CacheConfig::default() };
        let state = shared.state(&reader.enter());
        reader.park();
        let spare = (0..SPARES).map(|_| Batch::new(&pool, SLOTS_OF_A_PACKET)).collect();
        let core = Core {
            worker: number,
            shared: Arc::clone(&shared),
            counters,
            scratch: Scratch::default(),
            lanes: Some(Lanes::default()),
            cache: (cache_entries_max > 0).then(|| Cache::new(cache)),
            rest: Rest::default(),
            wide: Wide::default(),
            relevant: Relevant::ALL,
            paths: Paths::default(),
            bindings: Vec::new(),
            reserved: Vec::new(),
            by_slot: Vec::new(),
            packet_ins,
            has_packet_ins: false,
            wake_control,
            pool,
            queue_slots,
            fragments: None,
            cutting: Cutting::default(),
            spare,
            now_ns: 0,
        };
        Forwarder { reader, shared, state, core, packet_outs, packet_outs_waiting }
    }

    /// The lowest number to which no port is bound: that which a worker gives to its next port.
    pub fn next_index(&self) -> PortIndex {
        let (bindings, reserved) = (&self.core.bindings, &self.core.reserved);
        let is_free =
            |place: &usize| bindings.get(*place).is_none_or(Option::is_none) && !reserved.contains(&(*place as u16));
        PortIndex((0..usize::from(u16::MAX)).find(is_free).unwrap_or_default() as u16)
    }

    /// Keeps the lowest number to which no port is bound for something that is not the switch's, for example a ring of
    /// `linerate_worker::Steered`. [`Datapath::removed`] frees it.
    pub fn reserve(&mut self) -> PortIndex {
        let index = self.next_index();
        self.core.reserved.push(index.0);
        index
    }

    /// The numbers to which ports are bound, rings to other workers included, and those that are reserved.
    pub fn bound(&self) -> impl Iterator<Item = PortIndex> + '_ {
        let numbered = self.core.bindings.iter().enumerate();
        let bound = numbered.filter(|(_, binding)| binding.is_some()).map(|(place, _)| PortIndex(place as u16));
        bound.chain(self.core.reserved.iter().map(|place| PortIndex(*place)))
    }

    /// Says what a port of the worker is to a port of the switch. Returns false if the switch has no port with this number.
    pub fn bind(&mut self, index: PortIndex, number: PortNumber, kind: BindingKind) -> bool {
        self.state = self.shared.state(&self.reader.enter());
        self.reader.park();
        let Forwarder { state, core, .. } = self;
        let Some(view) = state.port_by_number(number) else { return false };
        let slot = state.slots[&number];
        if kind == BindingKind::Port {
            view.shared.set_home(core.worker);
        }
        let egress = Egress::new(slot, &core.pool, core.queue_slots, kind != BindingKind::Port, view);
        let place = usize::from(index.0);
        if core.bindings.len() <= place {
            core.bindings.resize_with(place + 1, || None);
        }
        if core.by_slot.len() <= usize::from(slot) {
            core.by_slot.resize(usize::from(slot) + 1, NO_SLOT);
        }
        core.bindings[place] = Some(Binding { kind, egress });
        if kind != BindingKind::From {
            core.by_slot[usize::from(slot)] = index.0;
        }
        true
    }

    /// True if packets of this port begin with the keys of their tunnels.
    pub fn has_tunnel_keys(&self, number: PortNumber) -> bool {
        self.state.port_by_number(number).is_some_and(|view| view.tunnel_keys)
    }

    /// The pool of the queues of its ports.
    pub fn pool(&self) -> &Pool {
        &self.core.pool
    }

    /// What this worker did, of the account of the switch.
    pub fn totals(&self) -> WorkerTotals {
        self.core.account().worker_totals()
    }

    /// Time from the arrival of packets to their departure by a port, in nanoseconds.
    pub fn latency(&self, number: PortNumber) -> Option<&CoarseHistogram> {
        let slot = self.state.slots.get(&number)?;
        let place = *self.core.by_slot.get(usize::from(*slot))?;
        Some(&self.core.bindings.get(usize::from(place))?.as_ref()?.egress.latency)
    }
}

impl Core {
    fn account(&self) -> &Account {
        self.shared.accounts.of(self.worker)
    }

    fn egress_of(&mut self, slot: u16) -> Option<&mut Egress> {
        let place = *self.by_slot.get(usize::from(slot))?;
        Some(&mut self.bindings.get_mut(usize::from(place))?.as_mut()?.egress)
    }

    /// Before a version is entered.
    #[inline]
    fn read_relevant(&mut self) {
        if !self.relevant.is_current(&self.shared.relevant) {
            self.relevant = Relevant::of(&self.shared.relevant);
        }
    }

    fn count(&mut self, table: u8, hit: Option<&Hit>, packets: u64, bytes: u64) {
        let tallies = self.shared.table_tallies.of(self.worker);
        count(tallies, &mut self.counters, table, hit, packets, bytes, self.now_ns);
    }

    /// Forwards the packets of a batch.
    fn forward(&mut self, view: &View<'_>, in_slot: u16, batch: &mut Batch, pool: &mut Pool) {
        let state = view.state;
        let Some(port) = state.port(in_slot) else {
            return self.refuse(state, DropReason::PortRemoved, None, batch, pool);
        };
        let refused = match () {
            () if port.has(PortConfig::PORT_DOWN) => Some(DropReason::IngressDown),
            () if port.has(PortConfig::NO_RECV) => Some(DropReason::NoReceive),
            () => None,
        };
        if let Some(reason) = refused {
            return self.refuse(state, reason, Some(in_slot), batch, pool);
        }
        if port.tunnel_keys {
            return self.forward_keyed(view, port, in_slot, batch, pool);
        }
        self.forward_from(view, port, port.tunnel_id, in_slot, batch, pool);
    }

    /// Forwards packets that came by one tunnel, or none.
    fn forward_from(
        &mut self,
        view: &View<'_>,
        port: &PortView,
        tunnel_id: u64,
        in_slot: u16,
        batch: &mut Batch,
        pool: &mut Pool,
    ) {
        let fields = PipelineFields { in_port: port.number.0, in_phy_port: port.physical.0, metadata: 0, tunnel_id };
        let cut_off = u64::from(batch.more(batch.len() - 1));
        let totals = batch.totals();
        port.shared.tally.of(self.worker).received.add(totals.packets + cut_off, totals.bytes);
        if view.state.standalone {
            self.forward_standalone(view, &fields, in_slot, batch, pool);
        } else {
            self.forward_lanes(view, &fields, in_slot, batch, pool);
        }
    }

    /// Forwards packets that begin with the keys of their tunnels: those in a row with the same key together.
    fn forward_keyed(&mut self, view: &View<'_>, port: &PortView, in_slot: u16, batch: &mut Batch, pool: &mut Pool) {
        let mut run = self.spare.pop().unwrap_or_else(|| Batch::new(&self.pool, SLOTS_OF_A_PACKET));
        // A packet without a whole key is a runt without it.
        let key_of = |batch: &Batch| batch.packet(0).first_chunk().map_or(0, |key| u64::from_be_bytes(*key));
        while !batch.is_empty() {
            let key = key_of(batch);
            while let Some(span) = batch.span(0)
                && key_of(batch) == key
                && run.room() >= span.slots
            {
                batch.adj(0, TUNNEL_KEY_BYTES);
                batch.move_to(&mut run, span.slots);
            }
            if run.is_empty() {
                // The packet has no end, or lies in too many frames.
                self.refuse(view.state, DropReason::Runt, Some(in_slot), batch, pool);
                break;
            }
            self.forward_from(view, port, key, in_slot, &mut run, pool);
        }
        self.spare.push(run);
    }

    /// Forwards the packets of a batch by learned addresses.
    fn forward_standalone(
        &mut self,
        view: &View<'_>,
        fields: &PipelineFields,
        in_slot: u16,
        batch: &mut Batch,
        pool: &mut Pool,
    ) {
        while let Some(span) = batch.span(0) {
            let mut hand = InHand {
                headers: Headers::default(),
                fields: *fields,
                in_slot,
                len: span.len,
                slots: span.slots,
                queue: None,
                table: 0,
                places: 0,
                is_moved: false,
                is_joined: false,
            };
            self.account().received.add(1, span.len as u64);
            self.normal(view, &mut hand, batch, pool, true);
            self.finish(view.state, &mut hand, None, batch, pool);
        }
        // The last packet has no end.
        let cut_off = u64::from(!batch.is_empty());
        self.account().received.add(cut_off, batch.totals().bytes);
        self.account().drops.add(DropReason::Runt, cut_off);
        pool.free(batch);
    }

    /// Accounts for a packet that has gone its way, and frees what is left of it.
    fn finish(
        &mut self,
        state: &State,
        hand: &mut InHand,
        end: Option<DropReason>,
        batch: &mut Batch,
        pool: &mut Pool,
    ) {
        if hand.places == 0 {
            let reason = end.unwrap_or(DropReason::NoOutput);
            self.lose(reason, hand);
            if let Some(port) = state.port(hand.in_slot) {
                port.shared.tally.of(self.worker).rx_dropped.add(1);
            }
        }
        self.account().copies.add(hand.places - 1);
        if !hand.is_moved {
            pool.free_front(batch, hand.slots);
        }
    }

    /// Drops all packets of a batch.
    #[cold]
    fn refuse(&mut self, state: &State, reason: DropReason, in_slot: Option<u16>, batch: &mut Batch, pool: &mut Pool) {
        let cut_off = !batch.is_empty() && batch.more(batch.len() - 1);
        let totals = batch.totals();
        let packets = totals.packets + u64::from(cut_off);
        self.account().received.add(packets, totals.bytes);
        self.account().drops.add(reason, packets);
        if let Some(port) = in_slot.and_then(|slot| state.port(slot)) {
            let tally = port.shared.tally.of(self.worker);
            tally.received.add(packets, totals.bytes);
            tally.rx_dropped.add(packets);
        }
        pool.free(batch);
    }

    /// Packets that another worker has sent through the tables, for a port of this one.
    fn take_over(&mut self, state: &State, slot: u16, batch: &mut Batch, pool: &mut Pool) {
        let totals = batch.totals();
        self.account().taken_over.add(totals.packets);
        let (now_ns, worker) = (self.now_ns, self.worker);
        let view = state.port(slot);
        let egress = self.egress_of(slot).filter(|egress| !egress.is_handoff);
        let (Some(egress), Some(view)) = (egress, view) else {
            self.account().drops.add(DropReason::NoPort, totals.packets);
            return pool.free(batch);
        };
        let (mut lost, has_queues) = (0, !view.queues.is_empty());
        while let Some(Span { slots, mut len }) = batch.span(0) {
            let mut queue = None;
            if has_queues {
                queue = Prefix::take_queue(batch);
                len -= Prefix::QUEUE_BYTES;
            }
            let waiting = egress.queue(queue);
            if waiting.room() < slots {
                egress.refused(queue, worker, view);
                pool.free_front(batch, slots);
                lost += 1;
                continue;
            }
            batch.move_to(waiting, slots);
            egress.note_one(len as u64, now_ns, queue);
        }
        if lost > 0 {
            self.account().drops.add(DropReason::EgressFull, lost);
            view.shared.tally.of(worker).tx_dropped.add(lost);
        }
        pool.free(batch);
    }
}

/// Counts packets in a table and its entry.
#[inline]
fn count(
    tallies: &TableTallies,
    counters: &mut WorkerCounters,
    table: u8,
    hit: Option<&Hit>,
    packets: u64,
    bytes: u64,
    now_ns: u64,
) {
    let tally = &tallies.0[usize::from(table) % TABLES];
    tally.lookups.add(packets);
    if let Some(hit) = hit {
        tally.matches.add(packets);
        let packets = if hit.packets { packets } else { 0 };
        let bytes = if hit.bytes { bytes } else { 0 };
        counters.add(hit.counter, hit.generation, packets, bytes, now_ns);
    }
}

impl Datapath for Forwarder {
    fn input(&mut self, from: PortIndex, batch: &mut Batch, context: &mut Context<'_>) {
        let Forwarder { reader, shared, state, core, .. } = self;
        core.now_ns = context.now_ns;
        core.read_relevant();
        let guard = reader.enter();
        if shared.has_other_state(state.number) {
            *state = shared.state(&guard);
        }
        let view = View { guard: &guard, flows: shared.flows.view(&guard), shared, state };
        let bound = core.bindings.get(usize::from(from.0)).and_then(Option::as_ref);
        match bound.map(|bound| (bound.egress.slot, bound.kind)) {
            Some((slot, BindingKind::From)) => core.take_over(state, slot, batch, context.pool),
            Some((slot, BindingKind::Port | BindingKind::To)) => core.forward(&view, slot, batch, context.pool),
            None => core.refuse(state, DropReason::PortRemoved, None, batch, context.pool),
        }
        core.announce_packet_ins();
        reader.park();
    }

    fn output(&mut self, to: PortIndex) -> Option<&mut Batch> {
        let egress = &mut self.core.bindings.get_mut(usize::from(to.0))?.as_mut()?.egress;
        if !egress.is_plain() {
            egress.schedule(self.core.now_ns);
        }
        Some(&mut egress.batch)
    }

    #[inline]
    fn wants_tx_time(&self) -> bool {
        true
    }

    fn tx_done(&mut self, to: PortIndex, packets: usize, now_ns: u64) {
        let Forwarder { state, core, .. } = self;
        let Some(Some(binding)) = core.bindings.get_mut(usize::from(to.0)) else { return };
        let view = state.port(binding.egress.slot);
        binding.egress.sent(packets, now_ns, core.worker, view, core.shared.accounts.of(core.worker));
    }

    fn waiting(&self, to: PortIndex) -> u64 {
        let binding = self.core.bindings.get(usize::from(to.0)).and_then(Option::as_ref);
        binding.map_or(0, |binding| binding.egress.packets())
    }

    fn too_long(&mut self, to: PortIndex, len_max: usize, context: &mut Context<'_>) {
        self.discard(to, DropReason::TooLong, context.pool);
        if let Some(Some(binding)) = self.core.bindings.get_mut(usize::from(to.0)) {
            binding.egress.len_max = len_max;
        }
    }

    fn takes_longer(&mut self, to: PortIndex, len_max: usize, _: &mut Context<'_>) {
        if let Some(Some(binding)) = self.core.bindings.get_mut(usize::from(to.0)) {
            binding.egress.len_max = len_max;
        }
    }

    fn stuck(&mut self, to: PortIndex, context: &mut Context<'_>) {
        self.discard(to, DropReason::Stuck, context.pool);
    }

    /// Fast-failover groups go by links.
    fn follows_links(&self) -> bool {
        true
    }

    fn link_changed(&mut self, port: PortIndex, link: LinkState, _: &mut Context<'_>) {
        let Some(Some(binding)) = self.core.bindings.get(usize::from(port.0)) else { return };
        if let Some(view) = self.state.port(binding.egress.slot).filter(|_| !binding.egress.is_handoff) {
            view.shared.set_link(link == LinkState::Up);
        }
    }

    fn removed(&mut self, port: PortIndex, context: &mut Context<'_>) {
        self.discard(port, DropReason::PortRemoved, context.pool);
        self.core.reserved.retain(|reserved| *reserved != port.0);
        if let Some(binding) = self.core.bindings.get_mut(usize::from(port.0)).and_then(Option::take)
            && let Some(place) = self.core.by_slot.get_mut(usize::from(binding.egress.slot))
            && *place == port.0
        {
            *place = NO_SLOT;
        }
    }

    fn next_deadline_ns(&self) -> u64 {
        if self.packet_outs_waiting.load(Ordering::Acquire) > 0 {
            return 0;
        }
        let backlog = self.core.bindings.iter().flatten().any(|binding| binding.egress.has_backlog());
        let fragments = self.core.fragments.as_ref().map_or(u64::MAX, Fragments::next_deadline_ns);
        if backlog { fragments.min(self.core.now_ns + egress::RETRY_NS) } else { fragments }
    }

    fn tick(&mut self, context: &mut Context<'_>) {
        let Forwarder { reader, shared, state, core, packet_outs, packet_outs_waiting } = self;
        core.now_ns = context.now_ns;
        core.read_relevant();
        let guard = reader.enter();
        if shared.has_other_state(state.number) {
            *state = shared.state(&guard);
        }
        let view = View { guard: &guard, flows: shared.flows.view(&guard), shared, state };
        for _ in 0..PACKET_OUTS_A_ROUND {
            let Ok(record) = packet_outs.try_recv() else { break };
            packet_outs_waiting.fetch_sub(1, Ordering::AcqRel);
            core.packet_out(&view, record, context.pool);
        }
        core.expire_fragments();
        core.announce_packet_ins();
        reader.park();
    }
}

impl Forwarder {
    fn discard(&mut self, to: PortIndex, reason: DropReason, pool: &mut Pool) {
        let Forwarder { state, core, .. } = self;
        let Some(Some(binding)) = core.bindings.get_mut(usize::from(to.0)) else { return };
        let view = state.port(binding.egress.slot);
        binding.egress.discard(reason, pool, core.worker, view, core.shared.accounts.of(core.worker));
    }
}
