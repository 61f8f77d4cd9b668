//! `linerate bridge` and `linerate lb`, driven on one core: their own loops, on ports that cost as little as a port can.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};

use linerate_bridge_loop::balance::Balancer;
use linerate_bridge_loop::lane::{Bridge, Exit, Lane};
use linerate_bridge_loop::output::Output;
use linerate_gen::Stream;
use linerate_mem::{Batch, Pool, PoolConfig, SlotReceiver, SlotSender, slot_ring};
use linerate_port::{Caps, Interest, Port, PortError, PortIndex, Readiness, Stats};
use linerate_sys::{affinity, clock};
use linerate_wire::ethernet;
use linerate_worker::{Config, Role, Worker};

use crate::measure::{Run, Stopwatch};
use crate::traffic::{PACKET_LEN, Traffic};

/// Slots of a ring, and packets that go round on each port: 8 bursts of 64, as testpmd's `start tx_first 8` puts there.
const RING: usize = 1024;
const ROUND: usize = 512;
/// Packets of one call: the burst with which testpmd is fastest. `linerate bridge` takes 256 unless it is told otherwise.
const BATCH: usize = 64;
/// Packets of one call of `linerate lb`.
const BALANCED: usize = 256;

/// A port whose far side is itself, through one ring: what testpmd's `net_ring` is.
struct Looped {
    sender: SlotSender,
    receiver: SlotReceiver,
    caps: Caps,
    /// The first line of each packet is read and written when it is received.
    touched: bool,
}

impl Looped {
    fn new(pool: &mut Pool, touched: bool) -> Looped {
        let (mut sender, receiver) = slot_ring(pool, RING, 0);
        let mut batch = Batch::new(pool, ROUND);
        pool.alloc(&mut batch, ROUND, PACKET_LEN);
        sender.send(&mut batch);
        let caps = Caps { frame_len_max: 1514, frags_max: 1, receives: true, transmits: true, ..Caps::default() };
        Looped { sender, receiver, caps, touched }
    }
}

impl Port for Looped {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn receive(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        let held = batch.len();
        let count = self.receiver.receive(batch);
        if self.touched {
            let mut packets = batch.iter_mut();
            // `skip` would count in each step.
            if held > 0 {
                packets.nth(held - 1);
            }
            // As testpmd's `macswap` does.
            packets.for_each(ethernet::swap_addresses);
        }
        Ok(count)
    }

    fn transmit(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        Ok(self.sender.send(batch))
    }

    fn wait(&mut self, _: Interest, _: u64) -> Result<Readiness, PortError> {
        Ok(Readiness::Ready)
    }

    fn stats(&mut self) -> Result<Stats, PortError> {
        Ok(Stats::default())
    }
}

fn pool() -> Pool {
    Pool::new(PoolConfig::default()).expect("16 MiB of packet memory")
}

/// A worker between two ports, with these directions.
fn bridge(pool: &Pool, ports: [Box<dyn Port>; 2], ways: &[[u16; 2]]) -> Worker<Bridge> {
    let mut bridge = Bridge::default();
    for (way, [from, to]) in ways.iter().enumerate() {
        bridge.lanes.push(Lane::new(PortIndex(*from), way, false));
        bridge.exits.push(Exit::new(way, PortIndex(*to), Batch::new(pool, BATCH), pool, &Arc::default()));
    }
    worker(bridge, pool, BATCH, ports.into_iter())
}

/// A worker that receives from the first port only, or from both if there are two.
fn worker<D: linerate_port::Datapath + 'static>(
    datapath: D,
    pool: &Pool,
    batch: usize,
    ports: impl Iterator<Item = Box<dyn Port>>,
) -> Worker<D> {
    let config = Config { batch, ..Config::default() };
    let (mut worker, _) = Worker::new(datapath, pool, config, Box::new(|_| ())).expect("a descriptor");
    ports.for_each(|port| _ = worker.attach(port, pool, Role::default()));
    worker
}

/// A bridge between two looped ports, both directions on one core. Counts packets in both.
pub fn bridge_looped(core: usize, touched: bool, packets: u64) -> Run {
    let _ = affinity::pin_to_core(core);
    let mut pool = pool();
    let ports = [Looped::new(&mut pool, touched), Looped::new(&mut pool, touched)].map(|port| Box::new(port) as _);
    let mut worker = bridge(&pool, ports, &[[0, 1], [1, 0]]);
    let watch = Stopwatch::start();
    let mut moved = 0;
    while moved < packets {
        moved += worker.round(0).sent as u64;
    }
    watch.stop(moved)
}

/// Pipe, bridge, pipe on one core: packets are taken and written (their first line), sent into a pipe, bridged to another one,
/// received, their first line read, and given back.
pub fn pipe_bridge_pipe(core: usize, packets: u64) -> Run {
    let _ = affinity::pin_to_core(core);
    let mut pool = pool();
    let (mut source, near) = linerate_port_pipe::pair("source", &pool, RING);
    let (far, mut sink) = linerate_port_pipe::pair("sink", &pool, RING);
    let mut worker = bridge(&pool, [Box::new(near), Box::new(far)], &[[0, 1]]);
    let (mut out, mut into) = (Batch::new(&pool, BATCH), Batch::new(&pool, BATCH));
    let mut sum = 0u64;
    let watch = Stopwatch::start();
    let mut moved = 0;
    while moved < packets {
        pool.alloc(&mut out, BATCH, PACKET_LEN);
        for packet in out.iter_mut() {
            if let Some(first) = packet.first_chunk_mut::<8>() {
                *first = moved.to_ne_bytes();
            }
        }
        source.transmit(&mut out).expect("a pipe does not break");
        worker.round(0);
        moved += sink.receive(&mut into).expect("a pipe does not break") as u64;
        for packet in into.iter() {
            sum = sum.wrapping_add(packet.first_chunk::<8>().map_or(0, |first| u64::from_ne_bytes(*first)));
        }
        pool.free(&mut into);
    }
    std::hint::black_box(sum);
    watch.stop(moved)
}

/// Two threads with a bridge each, joined by two pipes to a circle: what the first one takes from one pipe it puts into the other,
/// from which the second one takes it and puts it into the first again. Nothing is made, filled or given back: `ROUND` packets
/// from each pipe go round, as with two threads of testpmd io between two rings. Counts each time that a bridge passed a packet on.
pub fn pipes_circle(cores: [usize; 2], packets: u64) -> Run {
    let mut pool = pool();
    let (mut near, far) = linerate_port_pipe::pair("circle-one", &pool, RING);
    let (mut other_near, other_far) = linerate_port_pipe::pair("circle-two", &pool, RING);
    for port in [&mut near, &mut other_near] {
        let mut batch = Batch::new(&pool, ROUND);
        pool.alloc(&mut batch, ROUND, PACKET_LEN);
        port.transmit(&mut batch).expect("a pipe does not break");
    }
    let (ready, stop) = (Barrier::new(2), AtomicBool::new(false));
    let goes_round = |core: usize, from, to, most: u64| {
        let _ = affinity::pin_to_core(core);
        let mut worker = bridge(&pool, [from, to], &[[0, 1]]);
        ready.wait();
        let watch = Stopwatch::start();
        let mut moved = 0;
        while moved < most && !stop.load(Ordering::Relaxed) {
            moved += worker.round(0).sent as u64;
        }
        stop.store(true, Ordering::Relaxed);
        watch.stop(moved)
    };
    // Both pass on as many in the long run. Whoever has its half first ends the other one's, too.
    let (one, two) = std::thread::scope(|scope| {
        let second = scope.spawn(|| goes_round(cores[1], Box::new(other_far), Box::new(near), packets / 2));
        let first = goes_round(cores[0], Box::new(far), Box::new(other_near), packets / 2);
        (first, second.join().expect("a bridge ends when the other one does"))
    });
    Run {
        packets: one.packets + two.packets,
        wall_ns: one.wall_ns.max(two.wall_ns),
        core_ns: one.core_ns.max(two.core_ns),
    }
}

/// A balancer over four `null:`, 10,000 flows; only its own turns are timed.
pub fn balance(core: usize, packets: u64) -> Run {
    let _ = affinity::pin_to_core(core);
    let mut pool = pool();
    let (mut source, near) = linerate_port_pipe::pair("balanced", &pool, RING);
    let nulls = (0..4).map(|_| {
        let spec = "null:".parse().expect("a spec");
        linerate_port_null::open(spec, &pool).expect("null: opens everywhere").boxed().into_port()
    });
    let balancer = Balancer {
        inputs: 1,
        numbers: (0..4).collect(),
        rings: Vec::new(),
        outputs: (0..4).map(|_| Output::new(&pool, false, RING)).collect(),
        groups: vec![4],
        extra: 0,
        received: 0,
        meter: Arc::default(),
    };
    let near: Box<dyn Port> = Box::new(near);
    let mut balancer = worker(balancer, &pool, BALANCED, std::iter::once(near).chain(nulls));
    let mut stream = Stream::new(&Traffic::Flows.plan());
    let mut batch = Batch::new(&pool, BALANCED);
    let mut run = Run::default();
    while run.packets < packets {
        pool.alloc(&mut batch, BALANCED, PACKET_LEN);
        batch.iter_mut().for_each(|packet| stream.write(0, packet, 0));
        source.transmit(&mut batch).expect("a pipe does not break");
        let start_ns = clock::now_ns();
        balance_batch(&mut balancer);
        run.wall_ns += clock::now_ns() - start_ns;
        run.packets += BALANCED as u64;
    }
    run.core_ns = run.wall_ns;
    run
}

/// What is counted of [`balance`]; a function of its own, so that a profiler can tell it apart.
#[inline(never)]
pub fn balance_batch(balancer: &mut Worker<Balancer>) {
    balancer.round(0);
}
