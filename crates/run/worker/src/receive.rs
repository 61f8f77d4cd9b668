//! Receiving: a [`Receiver`] as the datapath of a worker, and ports that are emptied before a trial.

use linerate_gen::Receiver;
use linerate_mem::{Batch, Pool};
use linerate_port::{Context, Datapath, Port, PortError, PortIndex, Stats};
use linerate_sys::clock;

use crate::control::Control;
use crate::idle::Eagerness;
use crate::ports::Role;
use crate::worker::{Config, Worker};

/// Slots of a batch.
const BATCH: usize = 256;
/// How long packets are taken in after the request to stop.
const DRAIN_NS: u64 = 500_000_000;
/// How long what came before a trial is thrown away at most: more goes on arriving, then.
const DISCARD_NS: u64 = 100_000_000;
/// Time between two sums of what is missing, for live counts.
const SUM_EVERY_NS: u64 = 100_000_000;

/// How a receiving loop ended.
pub struct ReceiveEnd {
    /// Totals of each port at the end.
    pub stats: Vec<Stats>,
    /// What broke a port, if something did; counts and totals are right all the same.
    pub error: Option<PortError>,
    /// Calls that returned packets.
    pub batches: u64,
}

/// Counts what arrives on the ports into `receiver` until a stop is asked for, every port has ended, or one breaks. `ports` has the same
/// ports afterwards. `on_batch` sees each batch.
///
/// After the request to stop, what waits in the ports is taken in; nothing that arrived before it is missed, unless more
/// goes on arriving than can be taken in: half a second later it ends in any case.
pub fn receive(
    ports: &mut Vec<Box<dyn Port>>,
    receiver: &mut Receiver,
    pool: &Pool,
    control: &Control,
    on_batch: &mut dyn FnMut(&Batch),
) -> ReceiveEnd {
    let eagerness = Eagerness::for_receiving(ports.iter().map(|port| &**port));
    let config = Config { batch: BATCH, timestamps: true, eagerness, drain_input_ns: DRAIN_NS, ..Config::default() };
    let receiving = Receiving { receiver, on_batch, control, packets: 0, bytes: 0, batches: 0, summed_ns: 0 };
    let (mut worker, _) = match Worker::new(receiving, pool, config, Box::new(|_| ())) {
        Ok(worker) => worker,
        Err(source) => {
            let operation = "make a descriptor to wake the worker";
            let error =
                PortError::Io { port: ports.iter().map(|port| port.caps().name.as_str()).collect(), operation, source };
            return ReceiveEnd { stats: Vec::new(), error: Some(error), batches: 0 };
        }
    };
    for port in ports.drain(..) {
        worker.attach(port, pool, Role::default());
    }
    let end = worker.run(control);
    let batches = worker.datapath.batches;
    ports.extend(worker.into_ports());
    let stats = end.ports.into_iter().flatten().map(|port| port.stats).collect();
    ReceiveEnd { stats, error: end.error, batches }
}

/// Takes out of a port what waits in it, and throws it away. It takes a tenth of a second at most; what breaks the port shows at its
/// next use.
pub fn discard(port: &mut dyn Port, pool: &Pool) {
    let mut pool = pool.clone();
    let mut batch = Batch::new(&pool, BATCH);
    let give_up_ns = clock::now_ns() + DISCARD_NS;
    while matches!(port.receive(&mut batch), Ok(1..)) {
        pool.free(&mut batch);
        if clock::now_ns() > give_up_ns {
            break;
        }
    }
    pool.free(&mut batch);
}

/// The datapath: no packet leaves.
struct Receiving<'a> {
    receiver: &'a mut Receiver,
    on_batch: &'a mut dyn FnMut(&Batch),
    control: &'a Control,
    packets: u64,
    bytes: u64,
    batches: u64,
    /// When the live count of lost packets was last brought up to date.
    summed_ns: u64,
}

impl Datapath for Receiving<'_> {
    #[inline]
    fn input(&mut self, _: PortIndex, batch: &mut Batch, context: &mut Context<'_>) {
        // The time of the round is before the packets were received, which would make their latency too short.
        let now_ns = clock::now_ns();
        self.receiver.record(batch, now_ns);
        (self.on_batch)(batch);
        let totals = batch.totals();
        self.packets += totals.packets;
        self.bytes += totals.bytes;
        self.batches += 1;
        self.control.meter.set(self.packets, self.bytes, self.batches);
        if now_ns.wrapping_sub(self.summed_ns) >= SUM_EVERY_NS {
            self.summed_ns = now_ns;
            self.control.meter.set_lost(self.receiver.streams().iter().map(|stream| stream.counts().lost).sum());
        }
        context.pool.free(batch);
    }

    fn output(&mut self, _: PortIndex) -> Option<&mut Batch> {
        None
    }

    fn tx_done(&mut self, _: PortIndex, _: usize, _: u64) {}

    fn waiting(&self, _: PortIndex) -> u64 {
        0
    }

    fn too_long(&mut self, _: PortIndex, _: usize, _: &mut Context<'_>) {}
}
