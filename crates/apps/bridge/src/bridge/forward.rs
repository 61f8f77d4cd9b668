//! The workers of a bridge: one for both ports, or one for each port, with rings between them.

use std::sync::Arc;

use linerate_mem::{Batch, Pool};
use linerate_port::{Port, PortError, PortIndex};
use linerate_worker::{Config, Control, End, Meter, PortEnd, Role, Worker};

use super::lane::{Bridge, Counts, Lane};
use crate::crew::run_all;
use linerate_console::cores::Cores;

/// A bridge between two open ports.
pub struct Plan {
    /// The ports, each with its pool.
    pub ports: Vec<(Box<dyn Port>, Pool)>,
    /// The directions: from which port to which.
    pub ways: Vec<(usize, usize)>,
    /// Packets are copied, also where they could be handed over.
    pub copies: bool,
    /// Slots of one port call, at most; more where a single packet may need that.
    pub batch: usize,
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

/// How a bridge ended.
pub struct BridgeEnd {
    /// The directions.
    pub lanes: Vec<LaneEnd>,
    /// The ports.
    pub ports: Vec<PortEnd>,
    /// What broke a port, if something did; counts and totals are right all the same.
    pub error: Option<PortError>,
    /// Time on cores, in nanoseconds.
    pub core_ns: u64,
}

/// A bridge whose workers can be started.
pub struct Ready {
    workers: Vec<Worker<Bridge>>,
    ways: Vec<(usize, usize)>,
    /// Where each port is: worker, and number there.
    places: Vec<(usize, PortIndex)>,
}

/// A worker that is being made.
#[derive(Default)]
struct Draft {
    ports: Vec<(Box<dyn Port>, Pool, Role)>,
    lanes: Vec<Lane>,
}

impl Draft {
    fn add(&mut self, port: Box<dyn Port>, pool: &Pool, role: Role) -> PortIndex {
        self.ports.push((port, pool.clone(), role));
        PortIndex(self.ports.len() as u16 - 1)
    }
}

impl Plan {
    /// Makes one worker for both ports, or, with `apart`, one for each. A meter shows what went its way.
    ///
    /// # Errors
    /// The process has no descriptor or no memory left.
    pub fn ready(self, meters: &[Arc<Meter>], apart: bool) -> Result<Ready, String> {
        let receives = |port: usize| self.ways.iter().any(|(from, _)| *from == port);
        let (slots, timestamps) =
            (self.slots(), self.ways.iter().any(|(from, _)| self.ports[*from].0.caps().timestamps));
        let pools: Vec<Pool> = self.ports.iter().map(|(_, pool)| pool.clone()).collect();
        let mut drafts: Vec<Draft> = (0..if apart { 2 } else { 1 }).map(|_| Draft::default()).collect();
        let copies: Vec<bool> = self.ways.iter().map(|way| self.copies(*way)).collect();
        let mut places = Vec::new();
        for (number, (port, pool)) in self.ports.into_iter().enumerate() {
            let worker = if apart { number } else { 0 };
            let role = Role { receives: receives(number), ..Role::default() };
            places.push((worker, drafts[worker].add(port, &pool, role)));
        }
        for ((way, (from, to)), meter) in self.ways.iter().enumerate().zip(meters) {
            let (pool, (first, near), (last, far)) = (&pools[*to], places[*from], places[*to]);
            let outgoing = || if timestamps { Batch::with_times(pool, slots) } else { Batch::new(pool, slots) };
            let (mut from, mut copies_into) = (near, copies[way].then_some(pool));
            if first != last {
                let [tx, rx] = ring(way, pool);
                let out = drafts[first].add(tx, pool, Role { receives: false, handoff: true, ..Role::default() });
                drafts[first].lanes.push(Lane::new(way, [near, out], outgoing(), copies_into.take(), &Arc::default()));
                from = drafts[last].add(rx, pool, Role { handoff: true, ..Role::default() });
            }
            drafts[last].lanes.push(Lane::new(way, [from, far], outgoing(), copies_into, meter));
        }
        let config = Config { batch: slots, timestamps, ..Config::default() };
        let workers = drafts.into_iter().map(|draft| draft.worker(config)).collect::<Result<_, _>>()?;
        Ok(Ready { workers, ways: self.ways, places })
    }

    /// Whether packets are copied on their way, because that is wanted or because the ports are of different pools.
    pub fn copies(&self, (from, to): (usize, usize)) -> bool {
        self.copies || !Arc::ptr_eq(self.ports[from].1.region(), self.ports[to].1.region())
    }

    /// Slots of a batch: the longest packet of any port fits.
    fn slots(&self) -> usize {
        let longest = |port: &dyn Port, pool: &Pool| port.caps().frame_len_max.div_ceil(pool.packet_len_max().max(1));
        let ways = self.ways.iter().flat_map(|(from, to)| [(&self.ports[*from].0, *from), (&self.ports[*from].0, *to)]);
        let slots = ways.map(|(port, at)| longest(&**port, &self.ports[at].1).min(port.caps().frags_max));
        slots.fold(self.batch, usize::max)
    }
}

/// The two ends of a ring between two workers, for one way.
fn ring(way: usize, pool: &Pool) -> [Box<dyn Port>; 2] {
    linerate_ports::pipe(&format!("way-{way}"), pool)
}

impl Draft {
    fn worker(self, config: Config) -> Result<Worker<Bridge>, String> {
        let (_, pool, _) = self.ports.first().ok_or("a worker has a port")?;
        let worker = Worker::new(Bridge(self.lanes), pool, config, Box::new(|_| ()));
        let (mut worker, _) = worker.map_err(|error| format!("a descriptor to wake a worker: {error}"))?;
        for (port, pool, role) in self.ports {
            worker.attach(port, &pool, role);
        }
        Ok(worker)
    }
}

impl Ready {
    /// Moves packets until a stop is asked for, nothing will ever come again, or a port breaks: a worker on this thread, others on
    /// threads of their own, each on its core.
    pub fn run(mut self, controls: &[Control], cores: Option<&Cores>) -> BridgeEnd {
        let ends = run_all(&mut self.workers, controls, cores);
        self.end(ends)
    }

    fn end(self, mut ends: Vec<End>) -> BridgeEnd {
        let mut ports: Vec<PortEnd> = Vec::new();
        for (worker, index) in &self.places {
            let end = ends.get_mut(*worker).and_then(|end| end.ports.get_mut(usize::from(index.0))?.take());
            ports.push(end.unwrap_or_default());
        }
        let lane = |way: usize, port: usize| {
            let lanes = &self.workers[self.places[port].0].datapath.0;
            lanes.iter().find(|lane| lane.way == way).map_or(Counts::default(), |lane| lane.counts)
        };
        let lanes = self.ways.iter().enumerate().map(|(way, (from, to))| {
            let (near, far) = (lane(way, *from), lane(way, *to));
            let (received, taken) = (near.received + ports[*from].held, far.taken);
            let too_long = if self.workers.len() > 1 { near.too_long + far.too_long } else { far.too_long };
            let left = received - taken - too_long;
            LaneEnd { from: *from, to: *to, received, too_long, left, batches: near.batches }
        });
        BridgeEnd {
            lanes: lanes.collect(),
            ports,
            core_ns: ends.iter().map(|end| end.core_ns).sum(),
            error: ends.into_iter().find_map(|end| end.error),
        }
    }
}
