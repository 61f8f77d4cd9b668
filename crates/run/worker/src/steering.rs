//! Steering in software: what arrives at a port with fewer queues than there are workers goes, flow by flow, to all workers.
//!
//! ```text
//! worker 0:  port --> flow --own packets-------------------> [ datapath ] --> port
//!                      |                                                       ^
//!                      +--> queue --> ring --+                                 | ring (the datapath's own affair)
//! worker 1:                                  +--> arrived --> [ datapath ] ----+
//! ```
//! The worker that has the port reads the flow of each packet ([`linerate_wire::flow_entry`], the hash of receive side scaling with the symmetric
//! key) and hands it over to the worker of that flow, which gives it to its datapath as if it had arrived at the port there. All packets of a
//! flow, in both directions, are decided on by one worker, and they stay in order, because they go by one ring. A ring that is full is waited for:
//! the port is not received from meanwhile, so that it counts itself what it loses.

use linerate_mem::{Batch, Pool};
use linerate_port::{Context, Datapath, LinkState, PortIndex};
use linerate_wire::{STEERING_ENTRIES, flow_entry};

/// Slots of packets that wait for a ring to another worker, and of own ones before the datapath gets them: a few batches of a round.
const QUEUE: usize = 256;
/// A number that no port has: its packets are counted and dropped as those of a port that is gone.
const GONE: PortIndex = PortIndex(u16::MAX);

/// Packets that were steered between workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SteeringCounters {
    /// Packets that arrived at ports of this worker and went to other workers, which decide on them.
    pub steered_out: u64,
    /// Packets that arrived at ports of other workers and on which this worker's datapath decided.
    pub steered_in: u64,
}

/// A datapath with the steering in front of it. Where no port is steered, it does what the datapath does.
///
/// The numbers of ports are the same here and in the datapath, which therefore keeps the numbers of rings free ([`Steered::note_ring_to`],
/// [`Steered::note_ring_from`]). It takes all packets of [`Datapath::input`], and drops and counts those of ports that it does not know.
pub struct Steered<D> {
    datapath: D,
    worker: u8,
    /// The worker of each entry of the steering table.
    owners: [u8; STEERING_ENTRIES],
    /// By number; empty if nothing is steered.
    kinds: Vec<Kind>,
    /// By number: packets for other workers.
    queues: Vec<Option<Queue>>,
    /// Ports by name, as far as rings lead to or from them.
    ways: Vec<Way>,
    own: Option<Batch>,
    counters: SteeringCounters,
}

/// What a number of the worker is to the steering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The datapath's alone.
    Other,
    /// A port whose packets are for any worker; its place in `ways`.
    Steers(u16),
    /// A ring by which packets come that arrived at the port of this place in `ways`.
    From(u16),
    /// A ring to another worker.
    To,
}

/// A port of any worker.
struct Way {
    name: String,
    /// The datapath's number of the port: the port itself, or the way to the worker that has it.
    port: Option<PortIndex>,
    /// Bytes in front of the Ethernet header of its packets.
    prefix: usize,
    /// Rings to other workers, by worker.
    rings: [Option<u16>; STEERING_ENTRIES],
}

struct Queue {
    packets: Batch,
    waiting: u64,
}

impl<D> std::ops::Deref for Steered<D> {
    type Target = D;

    fn deref(&self) -> &D {
        &self.datapath
    }
}

impl<D> std::ops::DerefMut for Steered<D> {
    fn deref_mut(&mut self) -> &mut D {
        &mut self.datapath
    }
}

impl<D: Datapath> Steered<D> {
    /// The datapath of worker number `worker` of `workers`. More than [`STEERING_ENTRIES`] workers have no part of the flows.
    pub fn new(datapath: D, worker: usize, workers: usize) -> Steered<D> {
        let workers = workers.clamp(1, STEERING_ENTRIES);
        Steered {
            datapath,
            worker: u8::try_from(worker).unwrap_or(u8::MAX),
            owners: core::array::from_fn(|entry| (entry % workers) as u8),
            kinds: Vec::new(),
            queues: Vec::new(),
            ways: Vec::new(),
            own: None,
            counters: SteeringCounters::default(),
        }
    }

    /// Packets that were steered.
    pub fn steering_counters(&self) -> SteeringCounters {
        self.counters
    }

    /// Notes that `port` is a ring to worker number `worker`, for packets of the port of that name, which is added afterwards.
    pub fn note_ring_to(&mut self, port: PortIndex, name: &str, worker: usize, pool: &Pool) {
        let way = self.way(name);
        if let Some(ring) = self.ways[usize::from(way)].rings.get_mut(worker) {
            *ring = Some(port.0);
        }
        self.own.get_or_insert_with(|| Batch::new(pool, QUEUE));
        let place = usize::from(port.0);
        if self.queues.len() <= place {
            self.queues.resize_with(place + 1, || None);
        }
        self.queues[place] = Some(Queue { packets: Batch::new(pool, QUEUE), waiting: 0 });
        self.set_kind(port, Kind::To);
    }

    /// Notes that packets come by `port`, a ring, that arrived at the port of that name at another worker.
    pub fn note_ring_from(&mut self, port: PortIndex, name: &str) {
        let way = self.way(name);
        self.set_kind(port, Kind::From(way));
    }

    /// Notes the datapath's number of the port of that name: the port itself, which is steered if there are rings for its packets, or the way to
    /// the worker that has it. `prefix`: bytes in front of the Ethernet header of its packets.
    pub fn note_port(&mut self, port: PortIndex, name: &str, prefix: usize) {
        let place = self.way(name);
        let way = &mut self.ways[usize::from(place)];
        (way.port, way.prefix) = (Some(port), prefix);
        if way.rings.iter().any(Option::is_some) {
            self.set_kind(port, Kind::Steers(place));
        }
    }

    /// The place of a port's name, also of one that is new.
    fn way(&mut self, name: &str) -> u16 {
        let known = self.ways.iter().position(|way| way.name == name);
        let place = known.or_else(|| self.ways.iter().position(|way| way.name.is_empty())).unwrap_or(self.ways.len());
        let way = || Way { name: name.into(), port: None, prefix: 0, rings: [None; STEERING_ENTRIES] };
        match self.ways.get_mut(place) {
            None => self.ways.push(way()),
            Some(_) if known.is_some() => {}
            Some(free) => *free = way(),
        }
        place as u16
    }

    fn set_kind(&mut self, port: PortIndex, kind: Kind) {
        let place = usize::from(port.0);
        if self.kinds.len() <= place {
            self.kinds.resize(place + 1, Kind::Other);
        }
        self.kinds[place] = kind;
    }

    #[inline]
    fn kind(&self, port: PortIndex) -> Kind {
        self.kinds.get(usize::from(port.0)).copied().unwrap_or(Kind::Other)
    }

    /// Takes packets from the front of a batch that arrived at a port of this worker, until one has no room in the queue of its worker.
    fn steer(&mut self, place: u16, from: PortIndex, batch: &mut Batch, context: &mut Context<'_>) {
        let (Some(way), Some(mut own)) = (self.ways.get(usize::from(place)), self.own.take()) else {
            return self.datapath.input(from, batch, context);
        };
        batch.prefetch_heads(0, batch.len());
        while !batch.is_empty() {
            let (owner, count) = run(batch, way.prefix, &self.owners).unwrap_or((self.worker, batch.len()));
            let ring = if owner == self.worker { None } else { way.rings[usize::from(owner)] };
            let queue = ring.and_then(|ring| self.queues.get_mut(usize::from(ring))?.as_mut());
            let Some(queue) = queue else {
                if own.is_empty() && count == batch.len() {
                    self.datapath.input(from, batch, context);
                    break;
                }
                if own.room() < count {
                    self.datapath.input(from, &mut own, context);
                }
                batch.move_to(&mut own, count);
                continue;
            };
            // A run is no longer than the worker's batch, so that it fits into an empty queue.
            if queue.packets.room() < count && !queue.packets.is_empty() {
                break;
            }
            queue.waiting += batch.totals_of(count).packets;
            batch.move_to(&mut queue.packets, count);
        }
        if !own.is_empty() {
            self.datapath.input(from, &mut own, context);
        }
        self.own = Some(own);
    }

    /// Gives packets to the datapath as those of a port that is gone.
    #[cold]
    fn drop_front(&mut self, ring: PortIndex, packets: usize, context: &mut Context<'_>) {
        let queue = self.queues.get_mut(usize::from(ring.0)).and_then(Option::as_mut);
        let (Some(queue), Some(own)) = (queue, &mut self.own) else { return };
        for _ in 0..packets {
            let Some(span) = queue.packets.span(0) else { break };
            queue.packets.move_to(own, span.slots);
            queue.waiting -= 1;
            self.datapath.input(GONE, own, context);
        }
    }

    /// Forgets a port's name when nothing is left of it.
    fn forget_unused(&mut self) {
        let used = |place: usize| self.kinds.contains(&Kind::From(place as u16));
        let unused = |(place, way): (usize, &Way)| {
            (way.port.is_none() && way.rings.iter().all(Option::is_none) && !used(place)).then_some(place)
        };
        let places: Vec<usize> = self.ways.iter().enumerate().filter_map(unused).collect();
        places.into_iter().for_each(|place| self.ways[place].name.clear());
    }
}

/// The worker of the first packet of a batch, and the number of slots of all packets in a row that are its; `None` if a packet has no end.
#[inline]
fn run(batch: &Batch, prefix: usize, owners: &[u8; STEERING_ENTRIES]) -> Option<(u8, usize)> {
    let owner_of = |slot: usize| {
        let packet = batch.packet(slot);
        let frame = if prefix == 0 { packet } else { packet.get(prefix..).unwrap_or_default() };
        owners[usize::from(flow_entry(frame)) % STEERING_ENTRIES]
    };
    let owner = owner_of(0);
    let mut count = 1;
    let mut begins = !batch.more(0);
    while count < batch.len() && !(begins && owner_of(count) != owner) {
        begins = !batch.more(count);
        count += 1;
    }
    begins.then_some((owner, count))
}

impl<D: Datapath> Datapath for Steered<D> {
    #[inline]
    fn input(&mut self, from: PortIndex, batch: &mut Batch, context: &mut Context<'_>) {
        match self.kind(from) {
            Kind::Other => self.datapath.input(from, batch, context),
            Kind::Steers(way) => self.steer(way, from, batch, context),
            Kind::From(way) => {
                self.counters.steered_in += batch.totals().packets;
                let port = self.ways.get(usize::from(way)).and_then(|way| way.port);
                self.datapath.input(port.unwrap_or(GONE), batch, context);
            }
            Kind::To => self.datapath.input(GONE, batch, context),
        }
    }

    #[inline]
    fn output(&mut self, to: PortIndex) -> Option<&mut Batch> {
        match self.queues.get_mut(usize::from(to.0)) {
            Some(Some(queue)) => Some(&mut queue.packets),
            _ => self.datapath.output(to),
        }
    }

    #[inline]
    fn tx_done(&mut self, to: PortIndex, packets: usize, now_ns: u64) {
        match self.queues.get_mut(usize::from(to.0)) {
            Some(Some(queue)) => {
                queue.waiting -= packets as u64;
                self.counters.steered_out += packets as u64;
            }
            _ => self.datapath.tx_done(to, packets, now_ns),
        }
    }

    #[inline]
    fn wants_tx_time(&self) -> bool {
        self.datapath.wants_tx_time()
    }

    fn waiting(&self, to: PortIndex) -> u64 {
        match self.queues.get(usize::from(to.0)) {
            Some(Some(queue)) => queue.waiting,
            _ => self.datapath.waiting(to),
        }
    }

    fn too_long(&mut self, to: PortIndex, len_max: usize, context: &mut Context<'_>) {
        match self.kind(to) {
            Kind::To => self.drop_front(to, 1, context),
            _ => self.datapath.too_long(to, len_max, context),
        }
    }

    fn takes_longer(&mut self, to: PortIndex, len_max: usize, context: &mut Context<'_>) {
        if self.kind(to) != Kind::To {
            self.datapath.takes_longer(to, len_max, context);
        }
    }

    fn stuck(&mut self, to: PortIndex, context: &mut Context<'_>) {
        // Packets for a worker that has not had its core for a second wait for it.
        if self.kind(to) != Kind::To {
            self.datapath.stuck(to, context);
        }
    }

    fn link_changed(&mut self, port: PortIndex, link: LinkState, context: &mut Context<'_>) {
        if !matches!(self.kind(port), Kind::To | Kind::From(_)) {
            self.datapath.link_changed(port, link, context);
        }
    }

    #[inline]
    fn follows_links(&self) -> bool {
        self.datapath.follows_links()
    }

    fn removed(&mut self, port: PortIndex, context: &mut Context<'_>) {
        self.drop_front(port, usize::MAX, context);
        if let Some(queue) = self.queues.get_mut(usize::from(port.0)) {
            *queue = None;
        }
        for way in &mut self.ways {
            way.rings.iter_mut().for_each(|ring| *ring = ring.filter(|ring| *ring != port.0));
            way.port = way.port.filter(|known| *known != port);
        }
        if let Some(kind) = self.kinds.get_mut(usize::from(port.0)) {
            *kind = Kind::Other;
        }
        self.forget_unused();
        self.datapath.removed(port, context);
    }

    #[inline]
    fn next_deadline_ns(&self) -> u64 {
        self.datapath.next_deadline_ns()
    }

    fn tick(&mut self, context: &mut Context<'_>) {
        self.datapath.tick(context);
    }

    #[inline]
    fn is_done(&self) -> bool {
        self.datapath.is_done()
    }
}
