//! The workers of a bridge: one for everything, one for each port, or one for some queue pairs each, with rings where packets cross
//! from one worker to another.

use std::sync::Arc;

use linerate_bridge_loop::lane::{Bridge, Exit, Lane};
use linerate_mem::{Batch, Pool};
use linerate_port::{Caps, Port, PortError, PortIndex, Stats};
use linerate_worker::{Config, Control, Eagerness, End, HandoffStage, Meter, PortEnd, Role, Worker};

use crate::crew::{keeps_times, run_all};
use linerate_console::cores::Cores;

/// One side of a bridge: an open device.
pub struct Side {
    /// Its name.
    pub name: String,
    /// Its queues, at least one.
    pub queues: Vec<Box<dyn Port>>,
    /// The pool that it is open on.
    pub pool: Pool,
}

/// Which worker has which queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// One worker has all.
    One,
    /// A worker for each port.
    PerPort,
    /// So many workers, at most, each with some queue pairs: those of the same number of both ports.
    PerQueue(usize),
}

/// A bridge between two open ports.
pub struct Plan {
    /// The ports.
    pub sides: Vec<Side>,
    /// The directions: from which port to which.
    pub ways: Vec<(usize, usize)>,
    /// Packets are copied, also where they could be handed over.
    pub copies: bool,
    /// Slots of one port call, at most; more where a single packet may need that.
    pub batch: usize,
    /// Which worker has which queue.
    pub layout: Layout,
}

/// A direction at the end. `received = taken by the far port + too_long + left`.
pub struct LaneEnd {
    /// Port that packets came from.
    pub from: usize,
    /// Port that they went to.
    pub to: usize,
    /// Packets that the near port returned.
    pub received: u64,
    /// Longer than the far port takes.
    pub too_long: u64,
    /// Held when the bridge ended.
    pub left: u64,
    /// Batches that they came in.
    pub batches: u64,
}

/// A queue at the end.
pub struct QueueEnd {
    /// Number of the worker that had it.
    pub worker: usize,
    /// Facts about it.
    pub caps: Caps,
    /// Its totals.
    pub port: PortEnd,
}

/// How a bridge ended.
pub struct BridgeEnd {
    /// The directions.
    pub lanes: Vec<LaneEnd>,
    /// The queues of each port.
    pub ports: Vec<Vec<QueueEnd>>,
    /// What broke a port, if something did; counts and totals are right all the same.
    pub error: Option<PortError>,
    /// Time of each worker on a core, in nanoseconds.
    pub core_ns: Vec<u64>,
}

/// A bridge whose workers can be started.
pub struct Ready {
    workers: Vec<Worker<Bridge>>,
    ways: Vec<(usize, usize)>,
    /// Where the queues of each port are: worker, and number there.
    places: Vec<Vec<Place>>,
    caps: Vec<Vec<Caps>>,
    /// What went each way, by worker.
    pub meters: Vec<Vec<Arc<Meter>>>,
}

/// Number of a worker, and of a port in it.
type Place = (usize, PortIndex);

/// A worker that is being made.
#[derive(Default)]
struct Draft {
    ports: Vec<(Box<dyn Port>, Pool, Role)>,
    bridge: Bridge,
    /// The places of queues of other workers that rings of this one lead to, each with the exit into the ring.
    rings: Vec<(Place, usize)>,
}

impl Draft {
    fn add(&mut self, port: Box<dyn Port>, pool: &Pool, role: Role) -> PortIndex {
        self.ports.push((port, pool.clone(), role));
        PortIndex(self.ports.len() as u16 - 1)
    }
}

impl Layout {
    /// Number of workers for so many queue pairs.
    fn workers(self, pairs: usize) -> usize {
        match self {
            Layout::One => 1,
            Layout::PerPort => 2,
            Layout::PerQueue(workers) => workers.clamp(1, pairs.max(1)),
        }
    }

    /// The worker of a queue of a port, if there are so many queue pairs.
    fn worker(self, port: usize, queue: usize, pairs: usize) -> usize {
        match self {
            Layout::One => 0,
            Layout::PerPort => port,
            Layout::PerQueue(_) => queue * self.workers(pairs) / pairs.max(1),
        }
    }
}

impl Plan {
    /// Number of queue pairs: of the port that has more.
    fn pairs(&self) -> usize {
        self.sides.iter().map(|side| side.queues.len()).max().unwrap_or(1)
    }

    /// Number of workers.
    pub fn workers(&self) -> usize {
        self.layout.workers(self.pairs())
    }

    /// Makes the workers. A queue's packets leave by the queue of the same number, or, where the far port has fewer, by that of the
    /// remainder; so packets of a flow, which arrive by one queue, stay in their order.
    ///
    /// # Errors
    /// The process has no descriptor or no memory left.
    pub fn ready(self) -> Result<Ready, String> {
        let receives = |port: usize| self.ways.iter().any(|(from, _)| *from == port);
        let timestamps =
            self.ways.iter().any(|(from, _)| self.sides[*from].queues.iter().any(|queue| keeps_times(queue.caps())));
        let (slots, pairs, layout) = (self.slots(), self.pairs(), self.layout);
        let copies: Vec<bool> = self.ways.iter().map(|way| self.copies(*way)).collect();
        let mut drafts: Vec<Draft> = (0..self.workers()).map(|_| Draft::default()).collect();
        let meters: Vec<Vec<Arc<Meter>>> =
            self.ways.iter().map(|_| drafts.iter().map(|_| Arc::default()).collect()).collect();
        let (mut places, mut caps, mut pools): (Vec<Vec<Place>>, Vec<Vec<Caps>>, Vec<Pool>) = Default::default();
        for (number, side) in self.sides.into_iter().enumerate() {
            let role = Role { receives: receives(number), ..Role::default() };
            caps.push(side.queues.iter().map(|queue| queue.caps().clone()).collect());
            let queues = side.queues.into_iter().enumerate().map(|(queue, port)| {
                let worker = layout.worker(number, queue, pairs);
                (worker, drafts[worker].add(port, &side.pool, role))
            });
            places.push(queues.collect());
            pools.push(side.pool);
        }
        let batch = |pool: &Pool| if timestamps { Batch::with_times(pool, slots) } else { Batch::new(pool, slots) };
        for (way, ((from, to), (meters, copies))) in self.ways.iter().zip(meters.iter().zip(copies)).enumerate() {
            let pool = &pools[*to];
            for (worker, index) in &places[*to] {
                drafts[*worker].bridge.exits.push(Exit::new(way, *index, batch(pool), pool, &meters[*worker]));
            }
            for (queue, (worker, index)) in places[*from].iter().enumerate() {
                let far = places[*to][queue % places[*to].len()];
                let exit = if far.0 == *worker {
                    exit_to(&drafts[*worker].bridge, far.1)
                } else {
                    ring(&mut drafts, (way, *worker), far, pool, &batch)
                };
                drafts[*worker].bridge.lanes.push(Lane::new(*index, exit, copies));
            }
        }
        let config = Config { batch: slots, timestamps, ..Config::default() };
        let workers = drafts.into_iter().map(|draft| draft.worker(config)).collect::<Result<_, _>>()?;
        Ok(Ready { workers, ways: self.ways, places, caps, meters })
    }

    /// Whether packets are copied on their way, because that is wanted or because the ports are of different pools.
    pub fn copies(&self, (from, to): (usize, usize)) -> bool {
        self.copies || !Arc::ptr_eq(self.sides[from].pool.region(), self.sides[to].pool.region())
    }

    /// Slots of a batch: the longest packet of any port fits.
    fn slots(&self) -> usize {
        let longest = |caps: &Caps, pool: &Pool| caps.frame_len_max.div_ceil(pool.packet_len_max().max(1));
        let ways = self.ways.iter().flat_map(|(from, to)| [(*from, *from), (*from, *to)]);
        let slots = ways.filter_map(|(port, at)| {
            let caps = self.sides[port].queues.first()?.caps();
            Some(longest(caps, &self.sides[at].pool).min(caps.frags_max))
        });
        slots.fold(self.batch, usize::max)
    }
}

/// The place of the exit by a port.
fn exit_to(bridge: &Bridge, to: PortIndex) -> usize {
    bridge.exits.iter().position(|exit| exit.is_to(to)).unwrap_or_default()
}

/// The exit of worker `near` into its ring to the queue `far` of another worker, which is made if there is none yet, for direction `way`.
fn ring(
    drafts: &mut [Draft],
    (way, near): (usize, usize),
    far: Place,
    pool: &Pool,
    batch: &dyn Fn(&Pool) -> Batch,
) -> usize {
    if let Some((_, exit)) = drafts[near].rings.iter().find(|(place, _)| *place == far) {
        return *exit;
    }
    let (worker, index) = far;
    let [tx, rx] = linerate_ports::pipe(&format!("ring-{near}-{worker}-{}", index.0), pool);
    let out =
        drafts[near].add(tx, pool, Role { receives: false, handoff: Some(HandoffStage::Leaving), ..Role::default() });
    let exit = drafts[near].bridge.exits.len();
    drafts[near].bridge.exits.push(Exit::new(way, out, batch(pool), pool, &Arc::default()));
    drafts[near].rings.push((far, exit));
    let from = drafts[worker].add(rx, pool, Role { handoff: Some(HandoffStage::Leaving), ..Role::default() });
    let last = exit_to(&drafts[worker].bridge, index);
    drafts[worker].bridge.lanes.push(Lane::new(from, last, false));
    exit
}

impl Draft {
    fn worker(self, config: Config) -> Result<Worker<Bridge>, String> {
        let (_, pool, _) = self.ports.first().ok_or("a worker has a port")?;
        let eagerness = Eagerness::for_moving(self.ports.iter().map(|(port, ..)| &**port));
        let worker = Worker::new(self.bridge, pool, Config { eagerness, ..config }, Box::new(|_| ()));
        let (mut worker, _) = worker.map_err(|error| format!("a descriptor to wake a worker: {error}"))?;
        for (port, pool, role) in self.ports {
            worker.attach(port, &pool, role);
        }
        Ok(worker)
    }
}

impl Ready {
    /// Moves packets until a stop is asked for, nothing will ever come again, or a port breaks: a worker on this thread, others on
    /// threads of their own, each on its core. There is a control for each worker.
    pub fn run(mut self, controls: &[Control], cores: Option<&Cores>) -> BridgeEnd {
        let ends = run_all(linerate_bridge_loop::run_bridge, &mut self.workers, controls, cores);
        self.end(ends)
    }

    fn end(self, mut ends: Vec<End>) -> BridgeEnd {
        let mut ports: Vec<Vec<QueueEnd>> = Vec::new();
        for (places, caps) in self.places.iter().zip(&self.caps) {
            let queue = |((worker, index), caps): (&Place, &Caps)| {
                let end = ends.get_mut(*worker).and_then(|end| end.ports.get_mut(usize::from(index.0))?.take());
                QueueEnd { worker: *worker, caps: caps.clone(), port: end.unwrap_or_default() }
            };
            ports.push(places.iter().zip(caps).map(queue).collect());
        }
        let lanes = (0..self.ways.len()).map(|way| self.lane_end(way, &ports)).collect();
        BridgeEnd {
            lanes,
            ports,
            core_ns: ends.iter().map(|end| end.core_ns).collect(),
            error: ends.into_iter().find_map(|end| end.error),
        }
    }

    /// The account of a direction over all its queues and workers.
    fn lane_end(&self, way: usize, ports: &[Vec<QueueEnd>]) -> LaneEnd {
        let (from, to) = self.ways[way];
        let bridge = |worker: usize| &self.workers[worker].datapath;
        let lanes = || self.places[from].iter().filter_map(|(worker, index)| bridge(*worker).lane(*index));
        let exits = || self.places[to].iter().filter_map(|(worker, index)| bridge(*worker).exit(*index));
        let held: u64 = ports[from].iter().map(|queue| queue.port.held).sum();
        let received = lanes().map(|lane| lane.received).sum::<u64>() + held;
        let taken: u64 = exits().map(|exit| exit.taken).sum();
        // Those of rings, too.
        let all = self.workers.iter().flat_map(|worker| &worker.datapath.exits).filter(|exit| exit.way == way);
        let too_long: u64 = all.map(|exit| exit.too_long).sum();
        let batches = lanes().map(|lane| lane.batches).sum();
        LaneEnd { from, to, received, too_long, left: received - taken - too_long, batches }
    }
}

/// The totals of all queues of a port.
pub fn total(queues: &[QueueEnd]) -> (Stats, u64) {
    let mut stats = Stats::default();
    queues.iter().for_each(|queue| stats.add(queue.port.stats.clone()));
    (stats, queues.iter().map(|queue| queue.port.tx_pending).sum())
}
