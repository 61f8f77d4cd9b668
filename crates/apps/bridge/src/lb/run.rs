//! A balancer over its ports: one worker, or several with rings between them.
//!
//! The queues of the input are divided among the first workers, outputs among all of them in turn. A worker sends packets for an output of
//! another one by a ring of their own, so the packets of a flow, which arrive by one queue, stay in their order.

use std::sync::Arc;

use linerate_bridge_loop::balance::Balancer;
use linerate_bridge_loop::output::{Counts, Output};
use linerate_console::cores::Cores;
use linerate_console::open;
use linerate_mem::Pool;
use linerate_port::{Caps, Direction, OpenOptions, Port, PortSpec, Stats};
use linerate_worker::{Config, Control, End, HandoffStage, PortEnd, Role, Worker};

use super::groups::groups;
use crate::crew::{keeps_times, run_all};

/// What is balanced, as the user says it.
pub struct Plan<'a> {
    /// The port that packets come from.
    pub input: &'a str,
    /// Queues of the input to open; `None` leaves it to the port.
    pub queues: Option<u32>,
    /// Workers.
    pub workers: usize,
    /// The first group.
    pub outputs: &'a [String],
    /// Further groups, `[NAME:]COUNT` each.
    pub pipes: &'a [String],
    /// Packets (frames) that may wait in a worker, over all outputs.
    pub extra: usize,
    /// Packets of a port call.
    pub batch: usize,
    /// No notes on stderr.
    pub quiet: bool,
}

/// A balancer with its ports open.
pub struct Lb {
    workers: Vec<Worker<Balancer>>,
    /// Outputs of each group.
    groups: Vec<usize>,
    /// Facts about the queues of the input, in their order.
    pub inputs: Vec<Caps>,
    /// Facts about the outputs, one group after the other.
    pub outputs: Vec<Caps>,
}

/// How a balancer ended.
pub struct LbEnd {
    /// Outputs of each group.
    pub groups: Vec<usize>,
    /// The queues of the input, in their order: number of the worker, totals.
    pub inputs: Vec<(usize, Stats)>,
    /// The outputs, one group after the other.
    pub outputs: Vec<OutputEnd>,
    /// The workers.
    pub workers: Vec<WorkerEnd>,
    /// What broke a port, in words.
    pub error: Option<String>,
}

/// A worker at the end.
pub struct WorkerEnd {
    /// Packets that it spread.
    pub received: u64,
    /// Time on a core, in nanoseconds.
    pub core_ns: u64,
}

/// An output at the end. `counts.assigned = counts.taken + overflowed + too_long + no_buffer + left`.
pub struct OutputEnd {
    /// What all workers did with its packets.
    pub counts: Counts,
    /// Packets that waited in a worker, or between two, when the run ended.
    pub left: u64,
    /// The port.
    pub port: PortEnd,
}

/// Frames for the packets in a ring between two workers.
const RING_FRAMES: usize = 1024;
/// Frames for the packets in all those rings, at most.
const RING_FRAMES_MAX: usize = 1 << 16;

/// A worker that is being made. Its ports are attached in the order of [`Balancer`].
#[derive(Default)]
struct Draft {
    inputs: Vec<(Box<dyn Port>, Pool)>,
    /// Each with its number among all outputs.
    outputs: Vec<(usize, Box<dyn Port>, Pool, Role)>,
    /// Rings of other workers, each with the place of its output in `outputs`.
    rings: Vec<(Box<dyn Port>, Pool, usize)>,
}

/// What all workers of a balancer have in common.
struct Common {
    groups: Vec<usize>,
    /// The pool of the input.
    pool: Pool,
    extra: usize,
    slots: usize,
    /// Packets keep the times that they came with.
    timestamps: bool,
}

impl Lb {
    /// Opens the ports. There is a control for each worker, which shows how many packets came in.
    ///
    /// # Errors
    /// A port cannot be opened, or memory cannot be had; in words.
    pub fn open(plan: &Plan<'_>, controls: &[Control]) -> Result<Lb, String> {
        let groups = groups(plan.outputs, plan.pipes, plan.input)?;
        let [input] = &open::specs(&[plan.input.to_owned()])?[..] else { return Err("there is one input".into()) };
        let specs = open::specs(&groups.concat())?;
        let pools = plan.pools(input, &specs)?;
        let (pool, pools) = pools.split_first().ok_or("a balancer has ports")?;
        let inputs = plan.open_input(input, pool)?;
        let opened = specs.iter().zip(pools);
        let opened = opened.map(|(spec, pool)| open::open_noted(spec, Direction::Transmit, pool, plan.quiet));
        let outputs = opened.collect::<Result<Vec<_>, _>>()?;
        let caps = |ports: &[Box<dyn Port>]| ports.iter().map(|port| port.caps().clone()).collect::<Vec<Caps>>();
        let (input_caps, output_caps) = (caps(&inputs), caps(&outputs));
        // Room for the longest packet.
        let room = |caps: &Caps| caps.frame_len_max.div_ceil(pool.packet_len_max().max(1)).min(caps.frags_max);
        let slots = input_caps.iter().map(room).fold(plan.batch, usize::max);
        let groups: Vec<usize> = groups.iter().map(Vec::len).collect();
        let timestamps = input_caps.iter().any(keeps_times);
        let common = Common { groups: groups.clone(), pool: pool.clone(), extra: plan.extra, slots, timestamps };
        let drafts = drafts(plan.workers, inputs, outputs.into_iter().zip(pools.iter().cloned()).collect(), pool);
        let workers = drafts.into_iter().zip(controls).map(|(draft, control)| draft.worker(&common, control));
        Ok(Lb { workers: workers.collect::<Result<_, _>>()?, groups, inputs: input_caps, outputs: output_caps })
    }

    /// Balances until a stop is asked for, the input is at its end, or a port breaks.
    pub fn run(mut self, controls: &[Control], cores: Option<&Cores>) -> LbEnd {
        let ends = run_all(linerate_bridge_loop::run_balancer, &mut self.workers, controls, cores);
        self.end(ends)
    }

    fn end(self, mut ends: Vec<End>) -> LbEnd {
        let error = ends.iter().find_map(|end| end.error.as_ref()).map(ToString::to_string);
        let mut port = |worker: usize, place: usize| {
            ends.get_mut(worker).and_then(|end| end.ports.get_mut(place)?.take()).unwrap_or_default()
        };
        let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
        for (number, balancer) in self.datapaths() {
            inputs.extend((0..balancer.inputs).map(|place| (number, port(number, place).stats)));
        }
        for number in 0..self.outputs.len() {
            let (owner, mut counts, mut end) =
                (owner(number, self.workers.len()), Counts::default(), PortEnd::default());
            for (worker, Balancer { inputs, outputs, numbers, .. }) in self.datapaths() {
                let Some(place) = numbers.iter().position(|one| *one == number) else { continue };
                let here = outputs[place].counts;
                // What a ring took, its owner counts again.
                counts.add(&Counts { taken: if worker == owner { here.taken } else { 0 }, ..here });
                if worker == owner {
                    end = port(worker, inputs + place);
                }
            }
            let left = counts.assigned - counts.taken - counts.lost();
            outputs.push(OutputEnd { counts, left, port: end });
        }
        let workers = self.workers.iter().zip(&ends);
        let workers =
            workers.map(|(worker, end)| WorkerEnd { received: worker.datapath.received, core_ns: end.core_ns });
        let workers = workers.collect();
        LbEnd { groups: self.groups, inputs, outputs, workers, error }
    }

    fn datapaths(&self) -> impl Iterator<Item = (usize, &Balancer)> {
        self.workers.iter().map(|worker| &worker.datapath).enumerate()
    }
}

/// The worker that an output is a port of.
fn owner(output: usize, workers: usize) -> usize {
    output % workers.max(1)
}

/// The ports of each worker, and the rings between them. `pool` is that of the input. A worker with a queue of the input has all outputs, in
/// their order; others have those that are ports of theirs.
fn drafts(count: usize, inputs: Vec<Box<dyn Port>>, outputs: Vec<(Box<dyn Port>, Pool)>, pool: &Pool) -> Vec<Draft> {
    let mut drafts: Vec<Draft> = (0..count.max(1)).map(|_| Draft::default()).collect();
    let (count, queues) = (drafts.len(), inputs.len().max(1));
    let readers = queues.min(count);
    for (queue, port) in inputs.into_iter().enumerate() {
        drafts[queue * readers / queues].inputs.push((port, pool.clone()));
    }
    for (output, (port, pool)) in outputs.into_iter().enumerate() {
        let owner = owner(output, count);
        for reader in (0..readers).filter(|reader| *reader != owner) {
            let [tx, rx] = linerate_ports::pipe(&format!("output-{output}-of-{reader}"), &pool);
            let handoff = Role { receives: false, handoff: Some(HandoffStage::Leaving), ..Role::default() };
            drafts[reader].outputs.push((output, tx, pool.clone(), handoff));
            let place = drafts[owner].outputs.len();
            drafts[owner].rings.push((rx, pool.clone(), place));
        }
        drafts[owner].outputs.push((output, port, pool, Role { receives: false, ..Role::default() }));
    }
    drafts
}

impl Draft {
    fn worker(self, common: &Common, control: &Control) -> Result<Worker<Balancer>, String> {
        let room = common.extra + 2 * common.slots;
        let output = |pool: &Pool| Output::new(pool, !Arc::ptr_eq(pool.region(), common.pool.region()), room);
        let balancer = Balancer {
            inputs: self.inputs.len(),
            outputs: self.outputs.iter().map(|(_, _, pool, _)| output(pool)).collect(),
            numbers: self.outputs.iter().map(|(number, ..)| *number).collect(),
            groups: common.groups.clone(),
            rings: self.rings.iter().map(|(_, _, place)| *place).collect(),
            extra: common.extra,
            received: 0,
            meter: Arc::clone(&control.meter),
        };
        let config = Config { batch: common.slots, timestamps: common.timestamps, ..Config::default() };
        let worker = Worker::new(balancer, &common.pool, config, Box::new(|_| ()));
        let (mut worker, _) = worker.map_err(|error| format!("a descriptor to wake a worker: {error}"))?;
        for (port, pool) in self.inputs {
            worker.attach(port, &pool, Role::default());
        }
        for (_, port, pool, role) in self.outputs {
            worker.attach(port, &pool, role);
        }
        for (port, pool, _) in self.rings {
            worker.attach(port, &pool, Role { handoff: Some(HandoffStage::Leaving), ..Role::default() });
        }
        Ok(worker)
    }
}

impl Plan<'_> {
    /// How the input is opened.
    fn input_options(&self) -> OpenOptions {
        let threads = self.queues.map(|queues| self.workers.min(queues as usize));
        let direction = Some(Direction::Receive);
        OpenOptions { direction, threads, queues: self.queues, ..OpenOptions::low_latency() }
    }

    /// A pool for the input, and one for each output.
    fn pools(&self, input: &PortSpec, outputs: &[PortSpec]) -> Result<Vec<Pool>, String> {
        let (receives, both) = (self.input_options(), OpenOptions::default());
        let receives = if self.queues.is_some() { &receives } else { &both };
        let ports = std::iter::once((input, receives)).chain(outputs.iter().map(|spec| (spec, &both)));
        let readers = self.queues.map_or(1, |queues| queues as usize).min(self.workers);
        let rings = if self.workers > 1 { readers * outputs.len() } else { 0 };
        let ringed = (rings * RING_FRAMES).min(RING_FRAMES_MAX);
        open::pools_with(&ports.collect::<Vec<_>>(), self.extra * self.workers + ringed)
    }

    /// The queues of the input.
    fn open_input(&self, spec: &PortSpec, pool: &Pool) -> Result<Vec<Box<dyn Port>>, String> {
        let device = open::open_device_noted(spec, &self.input_options(), pool, self.quiet)?;
        Ok(if self.queues.is_none() { vec![linerate_ports::merge(device)] } else { device.into_ports() })
    }
}
